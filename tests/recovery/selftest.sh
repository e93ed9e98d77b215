#!/bin/bash
# selftest.sh [KILLS [SEED]]   the harness itself, as root: what it leaves when it is ended by kill -9, and what it does not touch.
#
# KILLS times (default 25) a campaign is started and ended at a drawn moment: the caller alone, or first one process of its tree (a worker,
# a trial, the recorder), drawn too. Then the replay of a kept case, as often. Afterwards, each time: no process of it lives on; nothing is
# mounted below its folder; `crashlab clean` takes away what is left. At the end: no loop device of it and no temporary
# folder; a foreign mount, loop device, temporary folder and a file in a folder of the harness's are as they were. Moments only
# choose where it is hit: the verdict does not depend on them.
#
# From the environment: BUILD. Exit status 1 when anything is left or taken, 77 when this machine cannot do it.
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=$(cd "${BUILD:-$ROOT/build/release}" && pwd) || exit 2
CRASHLAB=$BUILD/tests/recovery/cli/crashlab
KILLS=${1:-25}
RANDOM=${2:-1}
OWN=$(mktemp -d "${TMPDIR:-/tmp}/larder-selftest.XXXXXX") || exit 1
OUT=$OWN/out
FAILED=0 FOREIGN_LOOP=
export TMPDIR=$OWN/tmp BUILD
CRASHLAB_REVISION=${CRASHLAB_REVISION:-$("$ROOT/tests/recovery/revision.sh")} || exit 1
export CRASHLAB_REVISION
finish() {
	umount "$OWN/foreign" 2>/dev/null
	[ -z "$FOREIGN_LOOP" ] || losetup -d "$FOREIGN_LOOP" 2>/dev/null
	rm -rf "$OWN"
}
trap finish EXIT
check() { # name, command...
	if "${@:2}"; then echo "ok $1"; else
		echo "not ok $1"
		FAILED=1
	fi
}
if [ "$(id -u)" -ne 0 ] || [ ! -e /dev/loop-control ] || [ ! -e /dev/fuse ]; then
	echo "skip harness: unavailable: not root, or no loop devices or FUSE"
	exit 77
fi

# ---- what is foreign ----------------------------------------------------------------------------------------

mkdir "$TMPDIR" "$OWN/foreign" "$TMPDIR/larder-serve.foreign" "$OUT"
truncate -s 16M "$OWN/foreign.img"
mkfs.ext4 -q -F "$OWN/foreign.img" || exit 1
FOREIGN_LOOP=$(losetup -f --show "$OWN/foreign.img") || exit 1
mount "$FOREIGN_LOOP" "$OWN/foreign" || exit 1
echo mine | tee "$OWN/foreign/file" "$OUT/notes" >"$TMPDIR/larder-serve.foreign/file"
foreign_is_there() {
	[ "$(losetup -n -O BACK-FILE "$FOREIGN_LOOP")" = "$OWN/foreign.img" ] && mountpoint -q "$OWN/foreign" &&
		[ "$(cat "$OWN/foreign/file" "$OUT/notes" "$TMPDIR/larder-serve.foreign/file")" = $'mine\nmine\nmine' ]
}

# Loop devices are named by number and sequence: a device that is attached anew is another. Those of other users of the harness come
# and go; what stays for 20 seconds was left.
loops() {
	local loop backing
	for loop in /sys/block/loop*; do
		read -r backing 2>/dev/null <"$loop/loop/backing_file" || continue
		case $backing in */state.img* | */seed.img* | */d0*) echo "${loop##*/}:$(cat "$loop/diskseq")" ;; esac
	done | sort
}
BEFORE=$(loops)

# ---- killing ------------------------------------------------------------------------------------------------

# All processes of the harness name its folder in their command line; the search itself must not.
echo "$OUT" >"$OWN/pattern"
tree() { grep -lzFf "$OWN/pattern" /proc/[0-9]*/cmdline 2>/dev/null | sed 's,/proc/\([0-9]*\)/.*,\1,' | grep -vx $$; }
gone() {
	for _ in $(seq 300); do
		[ -n "$(tree)" ] || return 0
		sleep 0.1
	done
	ps -o pid=,ppid=,stat=,wchan:24=,args= -p "$(tree | paste -sd,)" | sed "s,^,# left running: ,"
	return 1
}
mounts() { grep -F -- "$OUT/" /proc/mounts; }
# kill_once MS COMMAND...   MS: the moments are drawn from as many milliseconds.
kill_once() {
	local span=$1 caller victims
	shift
	"$@" >"$OWN/log" 2>&1 &
	caller=$!
	sleep "$(printf '%d.%03d' $((span / 1000 * RANDOM / 32768)) $((RANDOM % 1000 * (span < 1000 ? span : 1000) / 1000)))"
	if [ $((RANDOM % 2)) -eq 0 ]; then
		mapfile -t victims < <(tree | grep -vx "$caller")
		[ ${#victims[@]} -eq 0 ] || kill -KILL "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null
		sleep 0.1
	fi
	kill -KILL "$caller" 2>/dev/null && HIT=$((HIT + 1))
	wait "$caller" 2>/dev/null
	gone && ! mounts && "$CRASHLAB" clean "$OUT" && [ ! -e "$OUT/work" ] && ! ls -d "$OUT"/failures/*/work 2>/dev/null
}
kill_many() { # name, milliseconds, command...
	local name=$1 wrong=0
	shift
	HIT=0
	for ((n = 0; n < KILLS; n++)); do kill_once "$@" || wrong=$((wrong + 1)); done 2>/dev/null
	check "$name: $KILLS times kill -9 ($HIT of the caller in its work), $wrong left something" [ $wrong -eq 0 ]
}

for leg in ext4 xfs btrfs; do
	echo "publish-$leg legs=$leg inject=all models=prefix,subset -- @publish --replace"
done >"$OWN/campaign"
kill_many "a campaign" 2000 "$CRASHLAB" run --campaign "$OWN/campaign" --out "$OUT" --jobs 2
"$CRASHLAB" record --out "$OUT" --fs ext4 -- @publish --replace >/dev/null || FAILED=1
check "the kept case is replayed" "$CRASHLAB" replay "$OUT/failures/record.ext4.none" --state e0p0
kill_many "a replay" 60 "$CRASHLAB" replay "$OUT/failures/record.ext4.none" --state e0p0

# ---- what is left, and what is not ------------------------------------------------------------------------------

loops_gone() {
	local left
	for _ in $(seq 200); do
		left=$(comm -13 <(echo "$BEFORE") <(loops))
		AT_FIRST=${AT_FIRST-$left}
		[ -n "$(comm -12 <(echo "$AT_FIRST") <(echo "$left") | grep .)" ] || return 0
		sleep 0.1
	done
	echo "# left attached: $left"
	return 1
}
check "no loop device is left" loops_gone
check "no temporary folder is left" [ "$(ls -A "$TMPDIR")" = larder-serve.foreign ]
check "foreign mounts, loop devices and files are as they were" foreign_is_there
mkdir "$OUT/work" && echo mine >"$OUT/work/file"
"$CRASHLAB" clean "$OUT" 2>/dev/null
check "a folder that holds something is not the harness's to clean" [ $? -eq 1 -a "$(cat "$OUT/work/file")" = mine ]
exit $FAILED
