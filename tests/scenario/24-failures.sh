#!/bin/bash
# Publish, fetch and the server killed at many moments, disks that are full or read-only, two at once in one folder:
# each ends with its own status, what was there stays whole, and the next run completes.
# Covers T8 (publishing onto a full disk).
# limit: 300
. "$ROOT/tests/scenario/lib.sh"

"$LARDER" keygen key >keygen.log
# Two small trees with little in common; the second has everything an update can do to a path.
python3 - <<'PY'
import os, random
for name in ("one", "two"):
    rng = random.Random(name)
    files = {"same.txt": b"same\n" * 100, "changed.bin": rng.randbytes(90_000), "sub/changed.txt": rng.randbytes(500)}
    files |= {f"{name}/{number}.dat": rng.randbytes(700) for number in range(4)}
    for path, data in files.items():
        os.makedirs(os.path.dirname(f"{name}/{path}") or ".", exist_ok=True)
        with open(f"{name}/{path}", "wb") as file:
            file.write(data)
    os.symlink("changed.bin" if name == "one" else "../two/0.dat", f"{name}/sub/link")
os.mkdir("one/kind")
with open("two/kind", "wb") as file:
    file.write(b"was a folder\n")
PY
same() { [ "$(listing "$1" 2>&1)" = "$(listing "$2" 2>&1)" ]; }
publish() { "$LARDER" publish "$1" --to "$2" --channel live --key key --json "${@:3}"; }
# Every file of an installation is one that the first or the second release has there.
old_or_new() {
	(cd "$1" && find . -path ./.larder -prune -o -type f -print) | while IFS= read -r path; do
		cmp -s "$1/$path" "one/$path" 2>/dev/null || cmp -s "$1/$path" "two/$path" 2>/dev/null || echo "$path is neither"
	done
}

check "publish the first" publish one base
check "install it" "$LARDER" fetch base#live base.inst --trust key.pub --cache base.cache
cp -r base base.two
check "publish the second" publish two base.two

# A cache of its own, for who has seen nothing of the store yet.
fresh() { mktemp -d "$WORK/tmp/fresh.XXXXXX"; }

# killed_at STEP ATTEMPT AFTER   runs ATTEMPT with an order to die after one of the first such steps, until there is none;
# each time it must die there, and AFTER must find nothing wrong.
NUMBERS='1 2 3 5' MOMENTS=0
killed_at() {
	local step=$1 number fault rc
	for number in $NUMBERS; do
		"$2" "kill $step $number" >"$WORK/out" 2>"$WORK/err" </dev/null
		rc=$?
		[ "$rc" -ne 0 ] || return 0
		fault=$([ "$rc" -eq 137 ] || echo "exit status $rc: $(tail -qn 1 "$WORK/err" "$WORK/out")"; "$3" 2>&1)
		[ -z "$fault" ] || { not_ok "killed after step $step $number" "$(head -n 3 <<<"$fault" | tr '\n' ' ')"; return 1; }
		MOMENTS=$((MOMENTS + 1))
	done
}
campaign() { # name at-least attempt after step...
	local name=$1 least=$2 attempt=$3 after=$4 step
	shift 4
	MOMENTS=0
	for step in "$@"; do killed_at "$step" "$attempt" "$after" || return; done
	check_number "$name: moments, each made good by the next run" "$MOMENTS" -ge "$least"
} 2>/dev/null # bash tells of every process that was killed

PUBLISHER="begun created wrote synced renaming renamed closed folder_synced returned"
BATCH="batch_begun batch_opened batch_modes batch_synced batch_planned batch_removed batch_unmade batch_folder
	batch_file batch_symlink batch_mode batch_applied batch_resynced batch_recorded batch_cleaned"

# ---- publish into a folder, killed -----------------------------------------------------------------------

publish_dies() {
	rm -rf store publish.cache && cp -r base store && cp -r base.cache publish.cache
	LARDER_SEAM=$1 "$SEAM_LARDER" publish two --to store --channel live --key key --cache publish.cache
}
store_is_whole() {
	"$LARDER" verify store#live --deep --trust key.pub --cache "$(fresh)" --quiet >/dev/null || echo "not whole"
	publish two store --cache publish.cache >/dev/null || echo "the next run fails"
	rm -rf check.inst
	"$LARDER" fetch store#live check.inst --trust key.pub --cache "$(fresh)" --quiet >/dev/null || echo "no fetch"
	same two check.inst || echo "another tree"
	find store -name '.*' -type f | sed 's/$/ was left behind/'
}
campaign "publish killed" 20 publish_dies store_is_whole $PUBLISHER

# ---- the server, killed while it takes a publication ------------------------------------------------------

"$LARDER" token add --tokens tokens.json --scope publish >token
server_dies() {
	rm -rf store publish.cache && cp -r base store && cp -r base.cache publish.cache
	LARDER_SEAM=$1 start_program_larderd "$SEAM_LARDERD" store --tokens tokens.json --quiet || return 1
	"$LARDER" publish two --to "$URL" --channel live --key key --token-file token --cache publish.cache 2>publish.err
	rc=$?
	[ "$rc" -ne 0 ] || { stop "$PID"; return 0; }
	[ "$rc" -eq 5 ] && grep -qF "${URL#http://}" publish.err || { stop "$PID"; return "$rc"; }
	wait "$PID"
}
served_is_whole() {
	"$LARDER" verify store#live --deep --trust key.pub --cache "$(fresh)" --quiet >/dev/null || echo "not whole"
	start_larderd store --tokens tokens.json --quiet || echo "does not start again"
	"$LARDER" publish two --to "$URL" --channel live --key key --token-file token --cache publish.cache >/dev/null ||
		echo "the next run fails"
	stop "$PID"
	rm -rf check.inst
	"$LARDER" fetch store#live check.inst --trust key.pub --cache "$(fresh)" --quiet >/dev/null || echo "no fetch"
	same two check.inst || echo "another tree"
}
campaign "larderd killed" 8 server_dies served_is_whole synced renaming renamed

# ---- fetch, killed ----------------------------------------------------------------------------------------

fetch_dies() {
	rm -rf inst fetch.cache && cp -a base.inst inst && cp -r base.cache fetch.cache
	LARDER_SEAM=$1 "$SEAM_LARDER" fetch base.two#live inst --trust key.pub --cache fetch.cache --jobs 2
}
update_goes_on() {
	old_or_new inst
	"$LARDER" fetch base.two#live inst --trust key.pub --cache fetch.cache --json >resumed.json || echo "the next run fails"
	same two inst || echo "another tree"
	"$LARDER" verify inst --quiet >/dev/null || echo "does not verify"
	ls -A inst/.larder/tmp | sed 's/$/ was left behind/'
}
NUMBERS='1 3'
campaign "fetch killed" 15 fetch_dies update_goes_on $BATCH renaming renamed
fetch_dies "kill batch_synced 1" >/dev/null 2>&1
update_goes_on
check_number "what was staged is not fetched again" "$(json bytes_fetched resumed.json)" -lt 20000

# ---- killed by the clock ----------------------------------------------------------------------------------

# Which moment it is depends on the machine; whichever it is, the next run completes.
make_tree tree 1
make_tree tree-2 2
publish tree timed.base >/dev/null
"$LARDER" fetch timed.base#live timed.base.inst --trust key.pub --cache timed.cache >/dev/null
timed() { # name after moment...: ATTEMPT is the command
	local name=$1 after=$2 moment fault
	shift 2
	for moment in "$@"; do
		"prepare_$name"
		timeout -s KILL "$moment" "${ATTEMPT[@]}" >/dev/null 2>&1
		fault=$("$after" 2>&1)
		[ -z "$fault" ] || { not_ok "$name killed after $moment s" "$(head -n 3 <<<"$fault" | tr '\n' ' ')"; return; }
	done
	ok "$name killed by the clock: $# moments"
} 2>/dev/null
timed_store_is_whole() {
	"$LARDER" verify timed#live --deep --trust key.pub --cache "$(fresh)" --quiet >/dev/null || echo "not whole"
	"${ATTEMPT[@]}" >/dev/null || echo "the next run fails"
	rm -rf check.inst
	"$LARDER" fetch timed#live check.inst --trust key.pub --cache "$(fresh)" --quiet >/dev/null || echo "no fetch"
	same tree-2 check.inst || echo "another tree"
}
prepare_folder() { rm -rf timed publish.cache && cp -r timed.base timed; }
ATTEMPT=("$LARDER" publish tree-2 --to timed --channel live --key key --cache publish.cache)
timed folder timed_store_is_whole 0.03 0.07 0.12 0.2
# The server as well is a new one each time: it may take its files for granted.
prepare_larderd() {
	prepare_folder
	start_larderd timed --tokens tokens.json --quiet || not_ok "larderd serves" "see above"
	ATTEMPT=("$LARDER" publish tree-2 --to "$URL" --channel live --key key --token-file token --cache publish.cache)
}
timed_server_is_whole() {
	timed_store_is_whole
	stop "$PID"
}
timed larderd timed_server_is_whole 0.05 0.1 0.2
prepare_folder
publish tree-2 timed >/dev/null
prepare_fetch() { rm -rf timed.inst timed.cache && cp -a timed.base.inst timed.inst; }
timed_update_is_whole() {
	"${ATTEMPT[@]}" >/dev/null || echo "the next run fails"
	same tree-2 timed.inst || echo "another tree"
}
ATTEMPT=("$LARDER" fetch timed#live timed.inst --trust key.pub --cache timed.cache)
timed fetch timed_update_is_whole 0.03 0.05 0.08 0.12 0.2

# ---- how much is fetched again ------------------------------------------------------------------------------

mkdir large
python3 - <<'PY'
import random
for number in range(96):
    with open(f"large/{number:02}.bin", "wb") as file:
        file.write(random.Random(number).randbytes(500_000))
PY
check "publish 48 MB" publish large large.store
start_python large.store || not_ok "http.server serves" "see above"
direct=$URL
stop "$PID"
start_larderd large.store --quiet || not_ok "larderd serves" "see above"
direct=$URL
start_proxy "$direct" --before GET /packs/ 12 'kill -9 $(cat fetch.pid)' || not_ok "the proxy serves" "see above"
check_status "a fetch killed at its twelfth request" 137 bash -c 'echo $$ >fetch.pid; exec "$0" fetch "$1#live" \
	large.inst --trust key.pub --cache large.cache' "$LARDER" "$URL" 2>/dev/null
cp "$PROXY_LOG" killed.log
stop "$PID"
check "the next run" "$LARDER" fetch "$direct#live" large.inst --trust key.pub --cache large.cache --json
cp out resumed.json
same_tree "every byte" large large.inst
# What had arrived is on the disk; at most what was under way is lost: eight connections, each with one request.
python3 - killed.log resumed.json <<'PY'
import json, re, sys
asked = []
for line in open(sys.argv[1]):
    found = re.match(r"GET /packs/\S+ bytes=(\d+)-(\d+)", line)
    if found:
        asked.append(int(found[2]) - int(found[1]) + 1)
resumed = json.load(open(sys.argv[2]))
under_way = sum(sorted(asked)[-8:])
lost = sum(asked) - resumed["bytes_reused"]
print(f"{len(asked)} requests of {sum(asked)} bytes before, {resumed}")
print("ok" if resumed["bytes_reused"] > 0 and lost <= under_way else "not ok",
      "no more is fetched again than was under way" + (f": {lost} lost, {under_way} under way" if lost > under_way else ""))
PY

# ---- two at once ----------------------------------------------------------------------------------------------

start_larderd timed --quiet || not_ok "larderd serves" "see above"
direct=$URL
start_proxy "$direct" --before GET /packs/ 3 "$LARDER fetch $direct#live both.inst --trust key.pub --cache both.cache \
	>second.out 2>&1; echo \$? >second.rc" || not_ok "the proxy serves" "see above"
check "one fetch into a folder" "$LARDER" fetch "$URL#live" both.inst --trust key.pub --cache both-first.cache
same_tree "is not disturbed" tree-2 both.inst
check "by another one at the same time, which is told: conflict" test "$(cat second.rc)" = 6
check "and why" grep -q 'both.inst' second.out

# ---- disks that are full or read-only ---------------------------------------------------------------------------

# tmpfs NAME SIZE   a small file system of its own, which goes with the script.
MOUNTED=()
unmount_all() { for place in "${MOUNTED[@]}"; do umount -l "$place"; done; }
trap 'stop_all; unmount_all' EXIT
tmpfs() { mkdir -p "$1" && mount -t tmpfs -o "size=$2,mode=0755" larder-test "$WORK/$1" 2>/dev/null && MOUNTED+=("$WORK/$1"); }
if ! tmpfs disk 4m; then
	skip "full and read-only disks" "mounting is not permitted"
	exit 0
fi
roomy() { mount -o "remount,size=$2" "$WORK/$1"; }
digest_of() { sha256sum <"$1"; }

check "a store on a small disk" publish one disk/store
before=$(digest_of disk/store/channels/live)
check_status "publish more than there is room for: no space" 7 publish large disk/store
check_says "the store is named" "disk/store"
check "the channel stays" test "$(digest_of disk/store/channels/live)" = "$before"
check "and is whole" "$LARDER" verify disk/store#live --deep --trust key.pub
check "with room" roomy disk 80m
check "the next run completes" publish large disk/store
check "and is whole" "$LARDER" verify disk/store#live --deep --trust key.pub

tmpfs target 7m || not_ok "mount" "target"
check "an installation on a small disk" "$LARDER" fetch timed.base#live target/inst --trust key.pub --cache "$(fresh)"
check_status "an update without room: no space" 7 "$LARDER" fetch large.store#live target/inst --trust key.pub
check_says "the target is named" "target/inst"
same_tree "the old installation stays" tree target/inst
check "with room" roomy target 80m
check "the next run completes" "$LARDER" fetch large.store#live target/inst --trust key.pub
same_tree "the new one" large target/inst
# The same where the room goes while it works: the n-th write finds none.
check "a cache that has seen the release" "$LARDER" ls base.two#live --trust key.pub --cache seen.cache
for number in 1 2 5 8 9; do
	rm -rf inst && cp -a base.inst inst
	check_status "write $number of a fetch finds no room" 7 env LARDER_SEAM="fail write $number 28" "$SEAM_LARDER" \
		fetch base.two#live inst --trust key.pub --no-sync --jobs 1 --cache seen.cache
	same_tree "the old installation stays" one inst
	check "the next run completes" "$LARDER" fetch base.two#live inst --trust key.pub --cache seen.cache
	same_tree "the new one" two inst
done

tmpfs served 4m || not_ok "mount" "served"
check "a server's store on a small disk" publish one served/store
before=$(digest_of served/store/channels/live)
start_larderd served/store --tokens tokens.json --quiet || not_ok "larderd serves" "see above"
to_server() { publish large "$URL" --token-file token; }
check_status "publish more than the server has room for: no space" 7 to_server
check_says "the server's words" "507"
check "the channel stays" test "$(digest_of served/store/channels/live)" = "$before"
check "and is served, whole" "$LARDER" verify "$URL#live" --deep --trust key.pub
check "with room" roomy served 80m
check "the next run completes" to_server
check "fetch it" "$LARDER" fetch "$URL#live" served.inst --trust key.pub
same_tree "every byte" large served.inst

tmpfs cache 1m || not_ok "mount" "cache"
head -c 2m /dev/zero >cache/full 2>/dev/null
check "a cache folder on a full disk: fetch" "$LARDER" fetch base.two#live full.inst --trust key.pub --cache cache/c
same_tree "every byte" two full.inst
check "and cat" sh -c '"$0" cat base.two#live changed.bin --trust key.pub --cache cache/c | cmp - two/changed.bin' "$LARDER"
rm -r cache/full
check "with room it is used" "$LARDER" cat base.two#live same.txt --trust key.pub --cache cache/c
check "read-only" mount -o remount,ro "$WORK/cache"
check "a cache folder that is read-only: cat" sh -c '"$0" cat base.two#live changed.bin --cache cache/c |
	cmp - two/changed.bin' "$LARDER"
check "and fetch" "$LARDER" fetch base.two#live ro.inst --trust key.pub --cache cache/c
same_tree "every byte" two ro.inst
check "none that could be made: fetch" "$LARDER" fetch base.two#live none.inst --trust key.pub --cache cache/other
check "and cat" "$LARDER" cat base.two#live same.txt --trust key.pub --cache cache/other
check_status "a target that is read-only: not allowed" 8 "$LARDER" fetch base.two#live cache/inst --trust key.pub
check_says "it is named" "cache/inst"
check_status "a store that is read-only: not allowed" 8 publish one cache/store
check_says "it is named" "cache/store"
