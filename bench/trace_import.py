#!/usr/bin/python3
"""trace_import.py RECORDING.tsv.gz --out DIR [--window first|densest|SECONDS] [--requests N] [--name NAME]

Cuts a window of at most 4,096 requests out of what a real program read (bench/traces/README.md; bench/capture.py records more), for
stream_bench --stream. Writes two files, gzipped; the same recording gives the same bytes:

  DIR/NAME.trace.gz   fs-r2 1 (bench/stream_bench/trace.h)
  DIR/NAME.files.gz   the files that it reads, with sizes by the furthest read of the whole recording (stream_corpus.py --list)

  --window first      the first requests (default)
  --window densest    the requests that followed each other in the shortest time
  --window SECONDS    from that moment of the recording
  --name NAME         default: the recording's name and the window

What becomes of it: an entry PACK!ENTRY is a file of its own, PACK.d/ENTRY. Reads over 1 MiB are cut into pieces that are due at the same
time. Reads of nothing are left out. Sounds and films are of normal priority, everything else of high; nothing is cancelled: the
program waited for every one of these reads. Times are the recording's.

Exit status: 0 done, 1 failed, 2 usage.
"""
import argparse
import gzip
import os
import sys

from trace_families import LENGTH_MAX, PRIORITY_HIGH, PRIORITY_NORMAL, REQUESTS_MAX, trace_text

STREAMED = (".ogg", ".oga", ".opus", ".mp3", ".wav", ".flac", ".webm", ".ogv", ".mid")
CORPUS_MAX = 512 * 1024 * 1024
REFUSED = str.maketrans({c: "_" for c in "\\:<>\"|?*"})


class RecordingError(Exception):
    """What is wrong, and where."""


def corpus_path(path):
    """A path of a recording as one that a pack may hold."""
    pack, mark, entry = path.partition("!")
    return (f"{pack}.d/{entry}" if mark else path).translate(REFUSED)


def read_recording(path):
    """[(nanoseconds, path, offset, length)] of all reads with bytes, in order of time; {path: size}."""
    reads, sizes = [], {}
    with gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 5:
                raise RecordingError(f"{path}:{number}: {len(fields)} fields, 5 wanted")
            if fields[1] not in ("read", "zread"):
                continue
            seconds, nanoseconds = fields[0].split(".")
            when = int(seconds) * 10**9 + int(nanoseconds[:9].ljust(9, "0"))
            name, offset, length = corpus_path(fields[2]), int(fields[3]), int(fields[4])
            if length == 0 or not name:
                continue
            sizes[name] = max(sizes.get(name, 0), offset + length)
            for start in range(0, length, LENGTH_MAX):
                reads.append((when, name, offset + start, min(LENGTH_MAX, length - start)))
    if not reads:
        raise RecordingError(f"{path}: no reads")
    reads.sort(key=lambda read: read[0])
    return reads, sizes


def cut(reads, window, count):
    """The reads of a window."""
    if window == "first":
        return reads[:count]
    if window == "densest":
        count = min(count, len(reads))
        start = min(range(len(reads) - count + 1), key=lambda i: reads[i + count - 1][0] - reads[i][0])
        return reads[start:start + count]
    start = int(float(window) * 1e9)
    return [read for read in reads if read[0] >= start][:count]


def window_texts(reads, sizes):
    """The trace and the list of files of a window."""
    paths = sorted({read[1] for read in reads})
    if sum(sizes[path] for path in paths) > CORPUS_MAX:
        raise RecordingError(f"{sum(sizes[path] for path in paths)} bytes of files, limit {CORPUS_MAX}")
    number = {path: i for i, path in enumerate(paths)}
    rows = [(when - reads[0][0], number[path], offset, length,
             PRIORITY_NORMAL if path.lower().endswith(STREAMED) else PRIORITY_HIGH, 0)
            for when, path, offset, length in reads]
    files = f"fs-r2-files 1 {len(paths)}\n" + "".join(f"{sizes[path]}\t{path}\n" for path in paths)
    return trace_text(rows), files


def write_gzipped(path, text):
    """Without a time or a name in it, so that the same text gives the same file."""
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=9) as packed:
        packed.write(text.encode("utf-8", "surrogateescape"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording")
    parser.add_argument("--out", required=True)
    parser.add_argument("--window", default="first")
    parser.add_argument("--requests", type=int, default=REQUESTS_MAX)
    parser.add_argument("--name")
    args = parser.parse_args()
    if not 0 < args.requests <= REQUESTS_MAX:
        parser.error(f"--requests {args.requests}: 1 to {REQUESTS_MAX}")
    if args.window not in ("first", "densest") and not args.window.replace(".", "", 1).isdigit():
        parser.error(f"--window {args.window}: first, densest or seconds")
    name = args.name or f"{os.path.basename(args.recording).split('.')[0]}-{args.window}"
    try:
        reads, sizes = read_recording(args.recording)
        chosen = cut(reads, args.window, args.requests)
        if not chosen:
            raise RecordingError(f"{args.recording}: no read from {args.window} s on")
        trace, files = window_texts(chosen, sizes)
        os.makedirs(args.out, exist_ok=True)
        write_gzipped(os.path.join(args.out, name + ".trace.gz"), trace)
        write_gzipped(os.path.join(args.out, name + ".files.gz"), files)
    except (RecordingError, OSError, ValueError) as error:
        print(f"trace_import.py: {error}", file=sys.stderr)
        return 1
    print(f"{name}: {len(chosen)} of {len(reads)} requests, {files.count(chr(10)) - 1} files of "
          f"{sum(sizes[path] for path in {read[1] for read in chosen})} bytes, "
          f"{sum(read[3] for read in chosen)} bytes read in {(chosen[-1][0] - chosen[0][0]) / 1e9:.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
