#!/usr/bin/env python3
"""lib.tree.py DIR SEED: a small asset tree of every kind that a release may hold, the same for the same seed.

Seeds differ in a part: some files change in the middle, one grows at its front, some appear, some go, one is
renamed, one changes its mode and nothing else, one link its target. Files: empty, tiny, just around the chunker's
limits, compressible, random, and 2 MiB with much repetition; a folder without files; inner and dangling symlinks.
"""
import os
import random
import sys


def noise(name, count):
    """count bytes that do not compress, fixed by name."""
    return random.Random(name).randbytes(count)


def words(name, count):
    """count bytes of text-like content, fixed by name."""
    rng = random.Random(name)
    vocabulary = [bytes(rng.choices(b"abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(400)]
    out = bytearray()
    while len(out) < count:
        out += rng.choice(vocabulary) + b" "
    return bytes(out[:count])


def contents(seed):
    """path -> (bytes, mode) of every file of the tree."""
    files = {
        "README.txt": (words("readme", 900), 0o644),
        "empty.dat": (b"", 0o644),
        "one byte": (b"x", 0o644),
        "bin/tool.sh": (b"#!/bin/sh\nexit 0\n", 0o755),
        "data/private.key": (noise("private", 64), 0o600),
        "sound/theme.ogg": (noise("theme", 700_000), 0o644),
        "levels/world.map": (words("world", 2_000_000), 0o644),
        "levels/tiles.bin": (noise("tile", 4096) * 300, 0o444),
        "text/naïve-ünïcode.txt": (words("unicode", 3000), 0o644),
        "deep/a/b/c/d/e/f/g/h/file": (b"deep\n", 0o644),
    }
    for length in (16383, 16384, 16385, 65536, 262143, 262144, 262145):
        files[f"limits/{length}.bin"] = (noise(f"limit{length}", length), 0o644)
    for number in range(200):
        files[f"icons/{number:03}.svg"] = (words(f"icon{number}", 300 + 7 * number), 0o644)
    if seed > 1:
        world = files["levels/world.map"][0]
        patch = noise(f"patch{seed}", 500)
        files["levels/world.map"] = (world[:900_000] + patch + world[900_500:], 0o644)
        files["sound/theme.ogg"] = (b"HEAD" + files["sound/theme.ogg"][0], 0o644)
        files["sound/renamed-tiles.bin"] = files.pop("levels/tiles.bin")
        files["bin/tool.sh"] = (files["bin/tool.sh"][0], 0o644)
        for number in range(0, 200, 10):
            del files[f"icons/{number:03}.svg"]
        for number in range(200, 230):
            files[f"icons/{number:03}-{seed}.svg"] = (words(f"icon{number}{seed}", 500), 0o644)
    return files


def main():
    root, seed = sys.argv[1], int(sys.argv[2])
    for path, (data, mode) in contents(seed).items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data)
        os.chmod(full, mode)
    os.makedirs(os.path.join(root, "folder without files"))
    links = {
        "latest": "levels/world.map" if seed == 1 else "sound/theme.ogg",
        "levels/readme": "../README.txt",
        "icons-link": "icons",
        "dangling": "not/there",
    }
    for path, target in links.items():
        os.symlink(target, os.path.join(root, path))
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o755)


if __name__ == "__main__":
    main()
