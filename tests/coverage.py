#!/usr/bin/env python3
"""coverage.py BUILD: which lines of the product the tests reached, by module and by file, from a MODE=cov build.

It asks gcov for its JSON, and adds up what several objects say of one line (a file is built with and without the
test seams). Prints the files of each module, the least covered first, and writes the unreached lines to
BUILD/unreached.txt as FILE:LINE.
"""
import collections
import gzip
import json
import os
import subprocess
import sys

MODULES = ("common", "packs", "cache", "vfs", "client", "server")


def notes(build):
    """Every .gcno file below build that belongs to the product."""
    for kind in ("obj", "seam"):
        for module in MODULES:
            for folder, _, files in os.walk(os.path.join(build, kind, module)):
                for name in sorted(files):
                    if name.endswith(".gcno"):
                        yield os.path.join(folder, name)


def counts(build):
    """file -> line -> how often it ran, over all objects."""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    for note in notes(build):
        out = subprocess.run(["gcov", "--json-format", "--stdout", note], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=True).stdout
        data = json.loads(gzip.decompress(out) if out[:2] == b"\x1f\x8b" else out)
        for file in data["files"]:
            name = os.path.normpath(file["file"])
            if name.startswith(tuple(m + "/" for m in MODULES)):
                for line in file["lines"]:
                    lines[name][line["line_number"]] += line["count"]
    return lines


def main():
    build = sys.argv[1]
    lines = counts(build)
    if not lines:
        sys.exit(f"coverage: nothing was built in {build}")
    total = collections.Counter()
    reached = collections.Counter()
    with open(os.path.join(build, "unreached.txt"), "w", encoding="utf-8") as unreached:
        for name in sorted(lines):
            module = name.split("/")[0]
            for key in (name, module, "all"):
                total[key] += len(lines[name])
                reached[key] += sum(1 for count in lines[name].values() if count)
            unreached.writelines(f"{name}:{n}\n" for n, c in sorted(lines[name].items()) if not c)
    for module in MODULES:
        if module in total:
            print(f"{100 * reached[module] / total[module]:5.1f} %  {module}, {total[module]} lines")
            for name in sorted((n for n in lines if n.startswith(module + "/")), key=lambda n: reached[n] / total[n]):
                print(f"    {100 * reached[name] / total[name]:5.1f} %  {name}")
    print(f"{100 * reached['all'] / total['all']:5.1f} %  all, {total['all']} lines; see {build}/unreached.txt")


if __name__ == "__main__":
    main()
