#!/bin/bash
# What is not to be trusted is refused with exit status 4, and nothing of the target changes: wrong keys, a changed bit
# anywhere, an older release than the one seen (T46), a record of another channel or sequence, another store at the same
# place, a fork, an expired release. And what stays the user's own choice: a sequence given by number.
# limit: 240
. "$ROOT/tests/scenario/lib.sh"

# ---- one changed bit ----------------------------------------------------------------------------------

# Two small trees that have no block in common.
python3 - <<'PY'
import os, random
for name in ("small-1", "small-2"):
    rng = random.Random(name)
    os.makedirs(f"{name}/sub/deeper")
    for path, size in (("a.txt", 900), ("b.bin", 70_000), ("sub/c.bin", 40_000), ("sub/deeper/d.txt", 3000)):
        with open(f"{name}/{path}", "wb") as file:
            file.write(rng.randbytes(size))
    os.symlink("../a.txt", f"{name}/sub/link")
PY
"$LARDER" keygen key >keygen.log
"$LARDER" keygen stranger >keygen.log
publish() { # dir store [channel [option...]]
	"$LARDER" publish "$1" --to "$2" --channel "${3:-live}" --key key --json "${@:4}"
}
check "publish" publish small-1 bits
check "install" "$LARDER" fetch bits#live bits.inst --trust key.pub
check "publish the next" publish small-2 bits live --codec none
python3 "$ROOT/tests/scenario/lib.flip.py" "$LARDER" bits key.pub bits.inst small-2

# An archive is covered from its first byte to its last. In its header a version or flag of a later format is a status of
# its own: not supported.
check "pack" "$LARDER" pack small-2 small.pack
python3 - "$LARDER" small.pack <<'PY'
import random, subprocess, sys
larder, path = sys.argv[1:]
data = open(path, "rb").read()
rng = random.Random("archive")
positions = [*range(0, 64, 5), *(rng.randrange(64, len(data)) for _ in range(20)), *range(len(data) - 32, len(data), 4)]
faults, refused = [], {4: 0, 1: 0}
for number, position in enumerate(positions):
    changed = bytearray(data)
    changed[position] ^= 1 << number % 8
    with open("flipped.pack", "wb") as file:
        file.write(changed)
    done = subprocess.run([larder, "verify", "flipped.pack"], capture_output=True, text=True, timeout=60)
    if done.returncode == 4 or (done.returncode == 1 and 8 <= position < 16):
        refused[done.returncode] += 1
    else:
        faults.append(f"byte {position}: exit status {done.returncode} {done.stderr.strip()}")
if faults or refused[4] < 35:
    print(f"not ok bits of an archive: {refused} refused, {'; '.join(faults[:3])}")
else:
    print(f"ok bits of an archive: {sum(refused.values())} positions")
PY

# ---- keys ----------------------------------------------------------------------------------------------

make_tree one 1
make_tree two 2
refused() { # name text source target [option...]
	local was
	was=$([ -e "$4" ] && listing "$4" | sha256sum)
	check_status "$1: integrity" 4 "$LARDER" fetch "$3" "$4" "${@:5}"
	check_says "$1: told" "$2"
	check "$1: the target is as before" test "$([ -e "$4" ] && listing "$4" | sha256sum)" = "$was"
}
check "publish the first" publish one store
cp -r store old-store
check "publish the second" publish two store
check "publish elsewhere in the store" publish one store beta
refused "a stranger's key" "not among the" store#live none --trust stranger.pub
check_status "no folder was made" 1 test -e none
check_status "no key at all: usage" 2 "$LARDER" fetch store#live none --cache no-cache
check "with the right key" "$LARDER" fetch store#live inst --trust key.pub
check "which is pinned: none is needed" "$LARDER" fetch store#live inst
check "for every channel of the store" "$LARDER" ls store#beta icons
check "one of several keys" "$LARDER" fetch store#live several --trust stranger.pub --trust key.pub --cache several-cache
pin=$(grep -l '/store"' "$LARDER_CACHE"/trust/*.json)
cp "$pin" pin.saved
echo '{' >"$pin"
check_status "a damaged pin: integrity" 4 "$LARDER" fetch store#live inst
check_says "the file to remove is named" "$(basename "$pin")"
cp pin.saved "$pin"
check "the pin is back" "$LARDER" fetch store#live inst

# ---- going back ----------------------------------------------------------------------------------------

cp store/channels/live live.saved
cp store/releases/live/1 store/channels/live
refused "an older release" "goes back: sequence 1, seen before: 2" store#live inst
refused "the same with the key given" "goes back" store#live inst --trust key.pub
check_status "nor is it read" 4 "$LARDER" cat store#live README.txt
check "by number it is the user's choice" "$LARDER" fetch store#live@1 by-number
same_tree "the first" one by-number
refused "by number is not remembered" "goes back" store#live inst
check "who has not seen more takes it" "$LARDER" fetch store#live newcomer --trust key.pub --cache newcomer-cache
cp live.saved store/channels/live
check "forward again" "$LARDER" fetch store#live inst
check "a first fetch by number" "$LARDER" cat store#live@2 README.txt --trust key.pub --cache number-cache
cp store/releases/live/1 store/channels/live
check "does not count as seen" "$LARDER" cat store#live README.txt --trust key.pub --cache number-cache
cp live.saved store/channels/live

# ---- records in the wrong place -------------------------------------------------------------------------

cp store/channels/beta store/channels/live
refused "a record of another channel" 'of channel "beta"' store#live inst
cp live.saved store/channels/live
cp store/releases/live/2 second.saved
cp store/releases/live/1 store/releases/live/2
refused "a release under another number" "has sequence 1" store#live@2 inst
cp second.saved store/releases/live/2

# Another store, with a key of its own and with the same key.
publish_as() { "$LARDER" publish one --to "$1" --channel live --key "$2" --cache other-cache; }
check "another store" publish_as other-1 stranger
check "another store with the same key" publish_as other-2 key
mv store store.saved
cp -r other-1 store
refused "another store with another key" "not among the" store#live inst
rm -r store
cp -r other-2 store
refused "another store with the same key" "another store than the one seen" store#live inst
check "until the user says so" "$LARDER" fetch store#live other.inst --trust key.pub
same_tree "the other store's" one other.inst
rm -r store
mv store.saved store
refused "then the first is the other one" "another store than the one seen" store#live inst
check "and is taken back in the same way" "$LARDER" fetch store#live inst --trust key.pub

# ---- a fork --------------------------------------------------------------------------------------------

mkdir third
cp -a one third/top
check "the fork: another second release" publish third old-store live --cache fork-cache
check "seen here" "$LARDER" fetch store#live inst
mv store store.saved
mv old-store store
refused "the same sequence with other bytes" "other bytes than those seen" store#live inst
check "the fork goes on" publish one store live --cache fork-cache --trust key.pub
cp store.saved/releases/live/2 store/releases/live/2
check_status "its history is not what was signed: integrity" 4 "$LARDER" log store#live --cache fork-log --trust key.pub
check_says "the record is named" "releases/live/2"
rm -r store
mv store.saved store

# ---- expiry --------------------------------------------------------------------------------------------

check "publish for a month" publish one store month --expires 30d
check "fetch it" "$LARDER" fetch store#month month.inst
check "publish for a second" publish two store second --expires 1s
check "publish for a second over what is held" publish two store month --expires 1s
check "its sequence is the next" "$LARDER" cat store#month@2 README.txt
now=$(date +%s)
past() { [ "$(date +%s)" -gt $((now + 1)) ]; }
check "it expires" wait_for 10 past
refused "an expired release" "expired at" store#second second.inst
check_status "no folder was made" 1 test -e second.inst
refused "an installation does not follow it" "expired at" store#month month.inst
same_tree "what is held stays" one month.inst
check "by number it is the user's choice" "$LARDER" fetch store#second@1 second.inst
same_tree "it is whole" two second.inst
