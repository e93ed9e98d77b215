#!/usr/bin/env python3
"""lib.compare.py A B [--without-links]: two trees are equal in paths, kinds, modes, bytes and link targets.

`.larder` at the top of either is not part of a release. Prints up to 20 differences; exit 1 if there is one.
The mode of a symlink means nothing; that of the two top folders belongs to whoever made them.
"""
import filecmp
import os
import stat
import sys


def listing(root, links):
    """path -> (kind, mode or None, link target or size) of everything below root, with or without links."""
    found = {}
    for folder, names, files in os.walk(root):
        if folder == root and ".larder" in names:
            names.remove(".larder")
        for name in names + files:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(info.st_mode) and not links:
                continue
            if stat.S_ISLNK(info.st_mode):
                found[key] = ("link", None, os.readlink(path))
            elif stat.S_ISDIR(info.st_mode):
                found[key] = ("folder", stat.S_IMODE(info.st_mode), None)
            elif stat.S_ISREG(info.st_mode):
                found[key] = ("file", stat.S_IMODE(info.st_mode), info.st_size)
            else:
                found[key] = ("special", None, None)
    return found


def differences(one, two, links):
    """A line for each path that is not the same in both."""
    left, right = listing(one, links), listing(two, links)
    for path in sorted(left.keys() | right.keys()):
        if path not in right:
            yield f"{path}: only in {one}"
        elif path not in left:
            yield f"{path}: only in {two}"
        elif left[path] != right[path]:
            yield f"{path}: {left[path]} and {right[path]}"
        elif left[path][0] == "file":
            if not filecmp.cmp(os.path.join(one, path), os.path.join(two, path), shallow=False):
                yield f"{path}: bytes differ"


def main():
    one, two = sys.argv[1:3]
    for root in (one, two):
        if not os.path.isdir(root):
            sys.exit(f"{root}: no such folder")
    count = 0
    for line in differences(one, two, "--without-links" not in sys.argv[3:]):
        count += 1
        if count <= 20:
            print(line)
    if count:
        sys.exit(f"{count} differences")


if __name__ == "__main__":
    main()
