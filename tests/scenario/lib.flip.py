#!/usr/bin/env python3
"""lib.flip.py LARDER STORE KEY OLD WANTED: one changed bit anywhere in a store, and what a fetch makes of it.

STORE is a folder store whose channel `live` has two releases, the second with one new pack that holds all it needs,
stored raw (a changed bit of a compressed block may decode to the same bytes, which is no fault); OLD is an
installation of the first; WANTED the source tree of the second. Flips a bit, fetches into a copy of OLD or into a
folder that is not there, puts the bit back. Where the byte matters the fetch must end with 4 and leave the folder as
it was; where it is not read (a pack's header and index) it must end with 0 and WANTED.

Prints a line for each region: "ok bits of REGION: N positions" or "not ok ...".
"""
import base64
import json
import os
import random
import shutil
import subprocess
import sys

LARDER, STORE, KEY, OLD, WANTED = sys.argv[1:6]
HERE = os.path.dirname(os.path.abspath(__file__))
INTEGRITY = 4


def listing(root):
    """path -> what of everything below root but .larder; None where there is no such folder."""
    if not os.path.lexists(root):
        return None
    found = {}
    for folder, names, files in os.walk(root):
        if folder == root and ".larder" in names:
            names.remove(".larder")
        for name in names + files:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            if os.path.islink(path):
                what = os.readlink(path)
            elif os.path.isdir(path):
                what = None
            else:
                with open(path, "rb") as file:
                    what = file.read()
            found[os.path.relpath(path, root)] = (info.st_mode, what)
    return found


def fetch(source, target):
    """Exit status and standard error of a fetch with an empty cache."""
    shutil.rmtree("flip-cache", ignore_errors=True)
    done = subprocess.run([LARDER, "fetch", source, target, "--trust", KEY, "--cache", "flip-cache", "--no-sync",
                           "--jobs", "1"], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr.strip()


class Flipped:
    """A bit of a file, changed while the block runs."""

    def __init__(self, path, position, bit):
        self.path, self.position, self.bit = path, position, bit

    def change(self):
        with open(self.path, "r+b") as file:
            file.seek(self.position)
            byte = file.read(1)[0]
            file.seek(self.position)
            file.write(bytes([byte ^ (1 << self.bit)]))

    def __enter__(self):
        self.change()

    def __exit__(self, *_):
        self.change()


def refused(source, target, before, is_block):
    """Why a fetch was not refused as it must be; None if it was. A wrong block of a file is met while a new folder is
    being filled: then the folder may be there, but nothing in it. Anything else is met before it is made."""
    was = before if target == "flip-old" else None
    # Anew each time: what an earlier run had staged would not be asked for again.
    shutil.rmtree(target, ignore_errors=True)
    if was is not None:
        shutil.copytree(OLD, target, symlinks=True)
    status, text = fetch(source, target)
    if status != INTEGRITY:
        return f"exit status {status} into {target}: {text[-200:]}"
    now = listing(target)
    if now != was and not (is_block and now == {}):
        return f"{target} was changed"
    return None


def harmless(source, wanted):
    """Why a fetch over bytes that are not read went wrong; None if it did not."""
    status, text = fetch(source, "flip-free")
    if status != 0:
        return f"exit status {status}: {text[-200:]}"
    fault = None if listing("flip-free") == wanted else "another tree"
    shutil.rmtree("flip-free")
    return fault


def spread(start, end, count):
    """count positions of [start, end), both ends among them, the same every time."""
    if end - start <= count:
        return list(range(start, end))
    rng = random.Random(f"{start} {end}")
    return sorted({start, start + 1, end - 2, end - 1, *(rng.randrange(start, end) for _ in range(count - 4))})


def run(region, path, positions, judge):
    for number, position in enumerate(positions):
        bit = number % 8
        with Flipped(path, position, bit):
            fault = judge(number)
        if fault:
            print(f"not ok bits of {region}: bit {bit} of byte {position} of {path}: {fault}")
            return
    print(f"ok bits of {region}: {len(positions)} positions")


def main():
    channel, release = f"{STORE}/channels/live", f"{STORE}/releases/live/2"
    with open(channel, encoding="ascii") as file:
        header, payload, signature = file.read().split(".")
    record = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    pack = record["packs"][-1]
    assert len(record["packs"]) == 1, "the second release needs one pack"
    path = f"{STORE}/packs/{pack['id'][:2]}/{pack['id']}.pack"
    with open(path, "rb") as file:
        data = file.read()
    index = int.from_bytes(data[-32:-24], "little")
    # The sections lie in front of the table; the first after the header's is where the blocks end.
    blocks_end = int.from_bytes(data[index + 16 + 64 + 8:index + 16 + 64 + 16], "little")
    top = record["top"]
    before, wanted = listing(OLD), listing(WANTED)
    whole, first = len(header), len(header) + 1 + len(payload)
    end = first + 1 + len(signature)
    live, numbered = f"{STORE}#live", f"{STORE}#live@2"

    def must_refuse(source, is_block=False):
        return lambda number: refused(source, "flip-old" if number % 3 else "flip-new", before, is_block)

    run("the channel: header", channel, spread(0, whole + 1, 10), must_refuse(live))
    run("the channel: payload", channel, spread(whole + 1, first, 16), must_refuse(live))
    run("the channel: signature", channel, spread(first, end, 10), must_refuse(live))
    run("the release", release, spread(0, end, 12), must_refuse(numbered))
    run("the top block", path, spread(top["offset"], top["offset"] + top["stored"], 10), must_refuse(live))
    run("the pack's blocks", path, spread(64, blocks_end, 24), must_refuse(live, True))
    run("the pack's header, which is not read", path, spread(0, 64, 4), lambda _: harmless(live, wanted))
    run("the pack's index, which is not read", path, spread(blocks_end, len(data), 4), lambda _: harmless(live, wanted))
    fault = harmless(live, wanted)
    print(f"not ok the bits are back: {fault}" if fault else "ok the bits are back")


if __name__ == "__main__":
    main()
