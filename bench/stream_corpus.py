#!/usr/bin/python3
"""stream_corpus.py DIR --larder BIN [--list FILE] [--data CLASSES]

Makes the corpus of the basic streaming grid: 64 files of 4 KiB and 8 of 2 MiB, each byte following from its offset and the file's
number with a period of 256 bytes, in three layouts: loose/, raw.pack, lz4.pack. The same command gives the same bytes.

  --list FILE      other files: "SIZE, tab, PATH" behind a header (files.tsv of a corpus); FILE may be gzipped
  --data CLASSES   what is in them, one after the other in turn (period): of period, compressible, half, random
  --larder BIN     larder, for the packs

Classes:
  period        the byte at an offset is (offset + 31 * number) mod 256: every 256 bytes the same
  compressible  a period of 256 bytes, but each 4 KiB begins with its offset, so that no two are the same
  half          of each 4 KiB the first half is random, the second a period
  random        pseudo-random bytes that depend on the offset (SHAKE-128 of number and offset, 64 KiB at a time)

This is the only place where the bytes are made: stream_bench compares what it reads with expected.bin, which was written here.
As a module: make_corpus, read_list.

Exit status: 0 done, 1 failed, 2 usage.
"""
import argparse
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys

SMALL, LARGE = (64, 4096), (8, 2 * 1024 * 1024)
PIECE = 64 * 1024
PAGE = 4096
HEADER = "fs-r2-files 1 "
LAYOUTS = {"raw.pack": "none", "lz4.pack": "lz4"}


class CorpusError(Exception):
    """What is wrong, and where."""


def period(number, offset, length):
    """A run of the pattern of 256 bytes."""
    start = (offset + 31 * number) % 256
    pattern = bytes((start + i) % 256 for i in range(256))
    return (pattern * (length // 256 + 1))[:length]


def random_piece(number, piece):
    """64 KiB that follow from their place."""
    return hashlib.shake_128(b"larder stream %d %d" % (number, piece)).digest(PIECE)


def make_period(number, size):
    return period(number, 0, size)


def make_compressible(number, size):
    pages = []
    for offset in range(0, size, PAGE):
        pages.append(offset.to_bytes(8, "little") + period(number, 8, PAGE - 8))
    return b"".join(pages)[:size]


def make_random(number, size):
    return b"".join(random_piece(number, piece) for piece in range(-(-size // PIECE)))[:size]


def make_half(number, size):
    noise = make_random(number, size)
    half = PAGE // 2
    return b"".join(noise[offset:offset + half] + period(number, offset, half) for offset in range(0, size, PAGE))[:size]


CLASSES = {"period": make_period, "compressible": make_compressible, "half": make_half, "random": make_random}


def read_list(text, name):
    """[(path, size)] of a list of files."""
    lines = text.split("\n")
    if not lines[0].startswith(HEADER) or lines[-1] != "":
        raise CorpusError(f'{name}: no "{HEADER}COUNT", or no newline at the end')
    files = []
    for number, line in enumerate(lines[1:-1], 2):
        size, tab, path = line.partition("\t")
        if not tab or not size.isdigit() or not path:
            raise CorpusError(f"{name}:{number}: not size, tab, path")
        files.append((path, int(size)))
    if lines[0] != f"{HEADER}{len(files)}":
        raise CorpusError(f"{name}: {len(files)} rows, the header says {lines[0][len(HEADER):]}")
    return files


def read_maybe_gzipped(path):
    """The text of a file, unpacked where it is packed."""
    with open(path, "rb") as file:
        data = file.read()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def basic_files():
    """The 72 files of the grid."""
    return [(f"small/{i:03}.bin", SMALL[1]) for i in range(SMALL[0])] + \
        [(f"large/{i}.bin", LARGE[1]) for i in range(LARGE[0])]


def write_files(folder, files, classes):
    """Loose files and the expected bytes; [{path, size, class, sha256}]."""
    written = []
    with open(os.path.join(folder, "expected.bin"), "wb") as expected:
        for number, (path, size) in enumerate(files):
            kind = classes[number % len(classes)]
            data = CLASSES[kind](number, size)
            assert len(data) == size
            expected.write(data)
            loose = os.path.join(folder, "loose", path)
            os.makedirs(os.path.dirname(loose), exist_ok=True)
            with open(loose, "wb") as file:
                file.write(data)
            written.append({"path": path, "size": size, "class": kind, "sha256": hashlib.sha256(data).hexdigest()})
    with open(os.path.join(folder, "files.tsv"), "w", encoding="utf-8") as file:
        file.write(f"{HEADER}{len(files)}\n" + "".join(f"{size}\t{path}\n" for path, size in files))
    return written


def pack(larder, folder):
    """The packs of the loose files."""
    for name, codec in LAYOUTS.items():
        out = os.path.join(folder, name)
        run = subprocess.run([larder, "pack", os.path.join(folder, "loose"), out, "--codec", codec], check=False,
                             capture_output=True, text=True)
        if run.returncode:
            raise CorpusError(f"larder pack: exit status {run.returncode}: {run.stderr.strip()}")


def make_corpus(folder, files, classes, larder, traces=None):
    """A whole corpus in a new folder; traces: {name: text}. Returns its description, which is also in corpus.json."""
    if os.path.exists(folder):
        shutil.rmtree(folder)
    os.makedirs(os.path.join(folder, "loose"))
    written = write_files(folder, files, classes)
    pack(larder, folder)
    described = {"format": "fs-r2-corpus", "version": 1, "files": written,
                 "inputs": {name: sha256_of(os.path.join(folder, name)) for name in ["files.tsv", "expected.bin", *LAYOUTS]}}
    for name, text in (traces or {}).items():
        path = os.path.join(folder, name + ".trace")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        described["inputs"][name + ".trace"] = sha256_of(path)
    with open(os.path.join(folder, "corpus.json"), "w", encoding="utf-8") as file:
        json.dump(described, file, indent=1)
        file.write("\n")
    return described


def check_corpus(folder):
    """Every file of a corpus against corpus.json; its description."""
    with open(os.path.join(folder, "corpus.json"), encoding="utf-8") as file:
        described = json.load(file)
    if (described.get("format"), described.get("version")) != ("fs-r2-corpus", 1):
        raise CorpusError(f"{folder}/corpus.json: not of format fs-r2-corpus 1")
    wanted = dict(described["inputs"])
    wanted.update({os.path.join("loose", one["path"]): one["sha256"] for one in described["files"]})
    for name, digest in wanted.items():
        got = sha256_of(os.path.join(folder, name))
        if got != digest:
            raise CorpusError(f"{folder}/{name}: SHA-256 {got}, corpus.json says {digest}")
    return described


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--larder", required=True)
    parser.add_argument("--list")
    parser.add_argument("--data", default="period")
    args = parser.parse_args()
    classes = args.data.split(",")
    if set(classes) - set(CLASSES):
        parser.error(f"--data {args.data}: of {', '.join(CLASSES)}")
    try:
        files = read_list(read_maybe_gzipped(args.list), args.list) if args.list else basic_files()
        described = make_corpus(args.folder, files, classes, args.larder)
    except (CorpusError, OSError) as error:
        print(f"stream_corpus.py: {error}", file=sys.stderr)
        return 1
    print(f"{args.folder}: {len(files)} files, {sum(size for _, size in files)} bytes, expected bytes "
          f"{described['inputs']['expected.bin']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
