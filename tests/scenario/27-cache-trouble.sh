#!/bin/bash
# Cache folders that fail: reads go on, the figures say so, and it recovers by itself.
# Covers T1, T2, T5, T12 end to end; the unit tests of the disk cache have the moments in between.
. "$ROOT/tests/scenario/lib.sh"

"$LARDER" keygen key >keygen.log
mkdir tree
python3 -c 'import random; open("tree/big.bin", "wb").write(random.Random(1).randbytes(1_500_000))'
check "publish" "$LARDER" publish tree --to store --channel live --key key --quiet
start_larderd store --quiet || not_ok "larderd serves" "see above"

# The file is right. In a shell of its own, so that check has what it says.
read_all() { # case cache [program]
	check "$1" bash -o pipefail -c '"$0" cat "$1#live" big.bin --trust key.pub --cache "$2" | cmp - tree/big.bin' \
		"${3:-$LARDER}" "$URL" "$2"
}
figures() { "$LARDER" cat "$URL#live" big.bin --trust key.pub --cache "$1" --json >figures 2>/dev/null; }
figure() { json "$1" figures; }

touch file
read_all "a cache folder that is a file: cat" file
check_says "it is named" "file: "
check "and fetch" "$LARDER" fetch "$URL#live" inst --trust key.pub --cache file
same_tree "every byte" tree inst

mkdir halved && touch halved/packs
read_all "a cache folder whose packs is a file: cat" halved
check_says "it is said how many blocks" "blocks were not kept"
figures halved
check_number "and counted" "$(figure cache.blocks_not_kept)" -gt 0
rm halved/packs
read_all "once it is gone: cat" halved
figures halved
check_number "nothing is fetched again" "$(figure bytes_fetched)" -lt 100000
check_number "nothing is lost" "$(figure cache.blocks_not_kept)" -eq 0

# The n-th read of the program fails: one of the cache costs that block, one of the key is told.
read_all "a cache that is warm" warm
said=0 wrong=0
for n in $(seq 1 16); do
	rm -rf worn && cp -r warm worn
	LARDER_SEAM="fail read $n 5" "$SEAM_LARDER" cat "$URL#live" big.bin --trust key.pub --cache worn >got 2>got.err
	rc=$?
	[ $rc -ne 0 ] || cmp -s got tree/big.bin || { wrong=$((wrong + 1)); echo "# read $n: other bytes"; }
	[ $rc -eq 0 ] || grep -q 'key.pub' got.err || { wrong=$((wrong + 1)); echo "# read $n: $(tail -n 1 got.err)"; }
	! grep -q 'bad blocks' got.err || said=$((said + 1))
	"$LARDER" cat "$URL#live" big.bin --trust key.pub --cache worn 2>/dev/null | cmp -s - tree/big.bin ||
		{ wrong=$((wrong + 1)); echo "# read $n: the next reader"; }
done
check_number "a failing read of the cache: never wrong bytes" $wrong -eq 0
check_number "a failing read of the cache is said" $said -gt 0

for pack in warm/packs/*.pack; do truncate -s 3000 "$pack"; done
read_all "packs that were cut: cat" warm
read_all "and the next reader" warm
figures warm
check_number "which fetches nothing again" "$(figure bytes_fetched)" -lt 100000

# ---- a small disk, as root ----------------------------------------------------------------------------------

mkdir disk
if ! mount -t tmpfs -o size=1m,mode=0755 larder-test "$WORK/disk" 2>/dev/null; then
	skip "a cache on a disk that fills" "mounting is not permitted"
	exit 0
fi
trap 'stop_all; umount -l "$WORK/disk"' EXIT
read_all "a cache folder on a disk that fills: cat" disk/cache
check_says "it is said what was not kept" "blocks were not kept"
mount -o remount,ro "$WORK/disk"
read_all "a cache folder that has become read-only: cat" disk/cache
check "room again" mount -o remount,rw,size=600m "$WORK/disk"
read_all "with room: cat" disk/cache
figures disk/cache
check_number "it recovers by itself: nothing is fetched again" "$(figure bytes_fetched)" -lt 100000
