#!/usr/bin/python3
"""capture.py --root DIR --out RECORDING.tsv.gz [--log FILE | -- PROGRAM ARGUMENT...]

Records what a program opens, asks for and reads below a folder, in the format of bench/traces/README.md. The program runs under strace;
--log FILE reads a log that `strace -f -ttt -y -e trace=CALLS -o FILE` has written elsewhere (CALLS: --calls prints them).

Seen: open, openat, close, read, pread64, readv, preadv, lseek, dup, stat and access in all their forms, getdents64. A read has the place
that the program's position in the file gives it. Not seen: bytes that are read through a mapping; how many files were mapped is
said at the end.

Exit status: 0 done (whatever the program's was), 1 failed, 2 usage.
"""
import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile

CALLS = ("open,openat,openat2,close,read,pread64,readv,preadv,preadv2,lseek,dup,dup2,dup3,fcntl,mmap,stat,lstat,newfstatat,statx,"
         "access,faccessat,faccessat2,getdents64,clone,clone3,fork,vfork")
LINE = re.compile(r"^(\d+) +(\d+\.\d+) (.*)$")
CALL = re.compile(r"^(\w+)\((.*)\) += (-?\d+|\?)(?:<([^>]*)>)?(.*)$", re.S)
RESUMED = re.compile(r"^<\.\.\. \w+ resumed>(.*)$", re.S)
DESCRIPTOR = re.compile(r"^(\d+|AT_FDCWD)(?:<((?:[^>\\]|\\.)*)>)?")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
STATS = {"stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"}


def unescape(text):
    """A path as strace writes it."""
    return re.sub(r"\\([0-7]{1,3})", lambda match: chr(int(match.group(1), 8)), text).replace('\\"', '"').replace("\\\\", "\\")


class Recorder:
    """Descriptors of all processes, and the rows."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.rows = []
        self.tables = {}  # of a thread: {descriptor: [path, position]}, one and the same for threads of a process
        self.folder = {}
        self.first = None
        self.mapped = set()

    def table(self, thread):
        return self.tables.setdefault(thread, {})

    def below(self, path):
        """The path below the root, or None."""
        path = os.path.normpath(path)
        if path == self.root:
            return ""
        return path[len(self.root) + 1:] if path.startswith(self.root + "/") else None

    def add(self, when, op, path, offset=0, length=0):
        name = self.below(path)
        if name is None or "\t" in name or "\n" in name:
            return
        if self.first is None:
            self.first = when
        self.rows.append((when - self.first, op, name, offset, length))

    def opened_path(self, arguments):
        """What a call by path means: the descriptor before it says from where."""
        quoted = QUOTED.search(arguments)
        if not quoted:
            return None
        path = unescape(quoted.group(1))
        start = DESCRIPTOR.match(arguments)
        if not path.startswith("/") and start and start.group(2):
            path = os.path.join(start.group(2), path)
        return path if path.startswith("/") else None

    def file_of(self, thread, arguments):
        """[path, position] of the descriptor that a call begins with."""
        match = DESCRIPTOR.match(arguments)
        if not match or match.group(1) == "AT_FDCWD":
            return None
        table, number = self.table(thread), int(match.group(1))
        if number not in table and match.group(2):
            table[number] = [match.group(2), 0]
        return table.get(number)

    def call(self, thread, when, name, arguments, result, result_path):
        if name in ("clone", "clone3", "fork", "vfork"):
            if result > 0:
                table = self.table(thread)  # a child's own descriptors lead to the same open files, positions and all
                self.tables[result] = table if "CLONE_FILES" in arguments else dict(table)
        elif name in ("open", "openat", "openat2"):
            self.call_open(thread, when, arguments, result, result_path)
        elif name in STATS:
            path = self.opened_path(arguments)
            if path and result in (0, -1):
                self.add(when, "stat" if result == 0 else "miss", path)
        elif result >= 0:
            self.call_descriptor(thread, when, name, arguments, result)

    def call_open(self, thread, when, arguments, result, result_path):
        path = result_path or self.opened_path(arguments)
        if not path:
            return
        if result >= 0:
            self.table(thread)[result] = [path, 0]
        self.add(when, "open" if result >= 0 else "miss", path)

    def call_descriptor(self, thread, when, name, arguments, result):
        file = self.file_of(thread, arguments)
        if not file:
            return
        if name in ("read", "readv"):
            if result:
                self.add(when, "read", file[0], file[1], result)
            file[1] += result
        elif name in ("pread64", "preadv", "preadv2"):
            numbers = re.findall(r", (\d+)", arguments)
            if result and numbers:
                offset = int(numbers[-2] if name == "preadv2" else numbers[-1])
                self.add(when, "read", file[0], offset, result)
        elif name == "lseek":
            file[1] = result
        elif name in ("dup", "dup2", "dup3") or (name == "fcntl" and "F_DUPFD" in arguments):
            self.table(thread)[result] = file
        elif name == "getdents64":
            if result:
                self.add(when, "list", file[0])
        elif name == "close":
            self.add(when, "close", file[0])
            self.table(thread).pop(int(DESCRIPTOR.match(arguments).group(1)), None)

    def note_mapping(self, arguments):
        path = re.search(r", \d+<([^>]*)>, ", arguments)
        if path and self.below(path.group(1)):
            self.mapped.add(path.group(1))

    def read_log(self, lines):
        """A whole log; calls that were interrupted by others are put together again."""
        begun = {}
        for line in lines:
            match = LINE.match(line.rstrip("\n"))
            if not match:
                continue
            thread, when, text = int(match.group(1)), float(match.group(2)), match.group(3)
            if text.endswith("<unfinished ...>"):
                begun[thread] = (when, text[:-len("<unfinished ...>")].rstrip())
                continue
            rest = RESUMED.match(text)
            if rest and thread in begun:
                when, start = begun.pop(thread)
                text = start + rest.group(1)
            call = CALL.match(text)
            if not call or call.group(3) == "?":
                continue
            if call.group(1) == "mmap":
                self.note_mapping(call.group(2))
                continue
            self.call(thread, when, call.group(1), call.group(2), int(call.group(3)), call.group(4))


def write_rows(path, rows):
    """Gzipped, without a time or a name in it."""
    rows = sorted(rows, key=lambda row: row[0])
    text = "".join(f"{when:.6f}\t{op}\t{name}\t{offset}\t{length}\n" for when, op, name, offset, length in rows)
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        packed.write(text.encode("utf-8", "surrogateescape"))


def record(root, log):
    recorder = Recorder(root)
    with open(log, encoding="utf-8", errors="surrogateescape") as lines:
        recorder.read_log(lines)
    return recorder


def main():
    arguments = sys.argv[1:]
    program = arguments[arguments.index("--") + 1:] if "--" in arguments else []
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root")
    parser.add_argument("--out")
    parser.add_argument("--log")
    parser.add_argument("--calls", action="store_true")
    args = parser.parse_args(arguments[:len(arguments) - len(program) - 1] if program else arguments)
    if args.calls:
        print(CALLS)
        return 0
    if not args.root or not args.out or bool(args.log) == bool(program):
        parser.error("--root, --out, and either --log or a program behind --")
    try:
        if args.log:
            recorder = record(args.root, args.log)
        else:
            with tempfile.TemporaryDirectory() as folder:
                log = os.path.join(folder, "log")
                subprocess.run(["strace", "-f", "-ttt", "-y", "-s", "4096", "-e", "trace=" + CALLS, "-e", "read=none", "-o", log, "--",
                                *program], check=False)
                recorder = record(args.root, log)
        if not recorder.rows:
            print(f"capture.py: nothing below {recorder.root} was touched", file=sys.stderr)
            return 1
        write_rows(args.out, recorder.rows)
    except OSError as error:
        print(f"capture.py: {error}", file=sys.stderr)
        return 1
    reads = [row for row in recorder.rows if row[1] == "read"]
    print(f"{args.out}: {len(recorder.rows)} rows, {len(reads)} reads of {sum(row[4] for row in reads)} bytes; "
          f"{len(recorder.mapped)} files mapped, whose reads are not seen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
