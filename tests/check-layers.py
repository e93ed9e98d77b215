#!/usr/bin/env python3
"""Fails on an include that breaks the order of the modules.

check-layers.py [ROOT]       looks at every .c and .h below ROOT (default: the project)

The rules, one line each:
  1. common < packs < cache < vfs < client < client/cli; a file includes its own module or one to the left.
  2. server includes common to vfs, and of client only the headers in SERVER_MAY.
  3. Nobody includes bench, tests or server but they themselves (tests and bench may include everything).
  4. NAME_priv.h is for its own folder, for the unit tests of that folder, for fuzz targets and the makers of golden files.
  5. A library's headers are included where the design puts that library (LIBRARY_HOMES).
  6. packs, cache and vfs reach the operating system through common (OS_HEADERS).
  7. Project headers are included from the root ("module/name.h"), so that they can be found and judged.
"""
import os
import re
import sys

ORDER = ["common", "packs", "cache", "vfs", "client", "client/cli"]
FREE = ["tests", "bench"]
SERVER_MAY = ["client/transport.h", "client/fetch.h"]
LIBRARY_HOMES = [
    (r"curl/", ["client"]),
    (r"microhttpd\.h", ["server"]),
    (r"mbedtls/|psa/", ["common"]),
    (r"openssl/", ["common"]),
    (r"utf8proc\.h", ["common"]),
    (r"xxhash\.h|xxh_x86dispatch\.h|xxh3\.h", ["common"]),
    (r"lz4(hc|frame)?\.h|zstd(_errors)?\.h", ["packs"]),
    (r"criterion/", []),
]
OS_HEADERS = re.compile(
    r"(unistd|fcntl|dirent|pthread|poll|signal|spawn|liburing|sched|semaphore|threads)\.h$"
    r"|sys/(?!types\.h|queue\.h|cdefs\.h)|linux/|netinet/|arpa/")
OS_FREE = re.compile(r"^vfs/(layer_native|backend|watch)[a-z_]*\.[ch]$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SKIP = {"build", ".git", "should-fail", ".ci"}


def module_of(path):
    """The module that a path from the root belongs to, or None."""
    folder = os.path.dirname(path)
    for name in sorted(ORDER + FREE + ["server"], key=len, reverse=True):
        if folder == name or folder.startswith(name + "/"):
            return name
    return None


def project_fault(path, module, target):
    """What is wrong with the project's file `path` including the project's header `target`."""
    other = module_of(target)
    if target.endswith("_priv.h"):
        home = os.path.dirname(target)
        if os.path.dirname(path) not in (home, "tests/unit/" + home, "tests/fuzz", "tests/golden"):
            return f"{target} is private to {home}/"
    if module in FREE:
        return None
    if other == module:
        return None
    if other in FREE or other == "server":
        return f"{module} must not include {other}"
    if module == "server":
        if other in ("client", "client/cli") and target not in SERVER_MAY:
            return f"server may include only {' and '.join(SERVER_MAY)} of client"
        return None
    if ORDER.index(other) > ORDER.index(module):
        return f"{module} must not include {other}, which stands above it"
    return None


def system_fault(path, module, target):
    """What is wrong with the project's file `path` including the system's header `target`."""
    if module in FREE:
        return None
    for pattern, homes in LIBRARY_HOMES:
        if re.match(pattern, target) and module not in homes:
            return f"<{target}> belongs to {' and '.join(homes) or 'tests'} only"
    if module in ("packs", "cache", "vfs") and OS_HEADERS.match(target) and not OS_FREE.match(path):
        return f"{module} reaches the operating system through common, not by <{target}>"
    return None


def faults_of(root, path):
    """(line, text) of each bad include of one file."""
    module = module_of(path)
    if module is None:
        return
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, target = match.group(1) == '"', match.group(2)
            if module_of(target) is not None:
                text = project_fault(path, module, os.path.normpath(target))
            elif quoted and ("/" in target or module not in FREE):
                text = f'"{target}" is not a path from the root'
            else:
                text = system_fault(path, module, target)
            if text:
                yield number, text


def sources(root):
    """Every .c and .h below root, as a path from it."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in SKIP)
        for name in sorted(files):
            if name.endswith((".c", ".h")):
                yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    count = bad = 0
    for path in sources(root):
        count += 1
        for number, text in faults_of(root, path):
            print(f"{path}:{number}: {text}")
            bad += 1
    if count == 0:
        print(f"check-layers: no source below {root}")
        return 1
    print(f"check-layers: {count} files, {bad} bad includes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
