#!/usr/bin/env python3
"""same.py A B [NAME...]   exit status 0 when two trees are equal: names, kinds, modes, bytes, link targets.

.larder at the root and the names given are left out of account.
"""
import os
import stat
import sys


def entries(top, without):
    found = {}
    for folder, folders, files in os.walk(top):
        if folder == top:
            folders[:] = [f for f in folders if f != ".larder"]
        for name in folders + files:
            path = os.path.join(folder, name)
            rel = os.path.relpath(path, top)
            if rel in without:
                continue
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                found[rel] = ("link", os.readlink(path))
            elif stat.S_ISDIR(info.st_mode):
                found[rel] = ("folder",)
            else:
                with open(path, "rb") as file:
                    found[rel] = ("file", stat.S_IMODE(info.st_mode), file.read())
    return found


one, two = (entries(top, sys.argv[3:]) for top in sys.argv[1:3])
for name in sorted(set(one) | set(two)):
    if one.get(name) != two.get(name):
        sys.exit("%s differs" % name)
