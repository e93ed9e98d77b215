#!/bin/bash
# prepare.sh DIR   what the subjects fetch.sh and serve.sh need, made once for a campaign.
#
#   one two three    trees of every kind of name; three and one differ from two in a part of their files
#   key key.pub      who signs; token tokens.json: who may publish
#   store            channel live: release 1 is one, release 2 is two
#   store-one        the same with release 1 alone
#   fetch.json       the case of fetch.sh (core/subject.h)
# From the environment: BUILD (absolute) holds the programs.
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
cd "$1"
export LARDER_CACHE=$PWD/cache HOME=$PWD
for n in one:1 two:2 three:3; do python3 "$ROOT/tests/scenario/lib.tree.py" "${n%:*}" "${n#*:}"; done
"$BUILD/larder" keygen key --quiet >/dev/null
"$BUILD/larder" publish one --to store --channel live --key key --quiet >/dev/null
cp -r store store-one
"$BUILD/larder" publish two --to store --channel live --key key --quiet >/dev/null
"$BUILD/larder" token add --tokens tokens.json --scope publish >token
python3 - <<'PY'
import hashlib, json, os
def kinds(top):
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            rel = os.path.relpath(path, top)
            if os.path.islink(path): found[rel] = "link"
            elif os.path.isdir(path): found[rel] = "folder"
            else: found[rel] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    return found
one, two = kinds("one"), kinds("two")
files, free = [], ["tree/.larder"]
for path in sorted(set(one) | set(two)):
    versions = [one.get(path), two.get(path)]
    if all(v is None or len(v) == 64 for v in versions):
        files.append({"name": "tree/" + path, "versions": versions})
    elif versions != ["folder", "folder"]:
        free.append("tree/" + path)  # links, empty folders, names that change kind: the recovery looks at them
mine = hashlib.sha256(b"mine\n").hexdigest()
json.dump({"subject": "fetch", "policy": "folder", "files": files,
           "fixed": [{"name": "tree/mine.txt", "sha256": mine}], "free": free}, open("fetch.json", "w"))
PY
