#!/bin/bash
# prepare.sh DIR   what the subjects fetch.sh and serve.sh need, made once for a campaign.
#
#   one two three    small trees; between one and two files change, come, go, change kind and mode
#   one.names ...    what each holds
#   key key.pub      who signs; token tokens.json: who may publish
#   store            channel live: release 1 is one, release 2 is two
#   store-one        the same with release 1 alone
#   build            where the programs are, for who replays a case by hand
#   fetch.json       the case of fetch.sh (core/subject.h); made last
# From the environment: BUILD (absolute) holds the programs.
set -eu
mkdir -p "$1"
cd "$1"
export LARDER_CACHE=$PWD/cache HOME=$PWD
realpath "$BUILD" >build

# Small, since each state installs it anew; every kind of change between one and two.
noise() { # file bytes seed
	mkdir -p "$(dirname "$1")"
	python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2])))' "$3" "$2" >"$1"
}
for tree in one two three; do
	mkdir -p $tree/empty
	noise $tree/same 20000 same
	noise $tree/deep/er/changed 30000 $tree
	for i in 1 2 3 4 5 6; do noise $tree/small/$i $((i * 400)) $tree-$i; done
	printf 'run\n' >$tree/run.sh
	printf '' >$tree/nothing
	ln -s same $tree/link
done
noise one/gone/away 5000 gone
noise two/come/lately 9000 come
printf 'a file\n' >one/kind && mkdir two/kind && printf 'x\n' >two/kind/now
mkdir one/turn && printf 'x\n' >one/turn/inside && printf 'a file\n' >two/turn
ln -sfn deep/er/changed two/link
chmod 755 one/run.sh && chmod 700 two/run.sh
for tree in one two three; do # without what the file system keeps for itself
	(cd $tree && find . -printf '%P %y %m %l\n' | sed 's/ d [0-7]* / d /;s/ l [0-7]* / l /' | sort) >$tree.names
done
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
def leads(path):
    return any(p.startswith(path + "/") for p in list(one) + list(two))
for path in sorted(set(one) | set(two)):
    versions = [one.get(path), two.get(path)]
    if all(v is None or len(v) == 64 for v in versions):
        files.append({"name": "tree/" + path, "versions": versions})
    elif not (leads(path) and {one.get(path, "folder"), two.get(path, "folder")} == {"folder"}):
        free.append("tree/" + path)  # empty folders, links, names that change kind: the recovery looks at them
mine = hashlib.sha256(b"mine\n").hexdigest()
json.dump({"subject": "fetch", "policy": "folder", "files": files,
           "fixed": [{"name": "tree/mine.txt", "sha256": mine}], "free": free}, open("fetch.json", "w"))
PY
