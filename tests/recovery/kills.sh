#!/bin/bash
# kills.sh [KILLS [SEED]]   ends clients and servers by kill -9 at random moments, under load.
#
# KILLS (default 200) processes of each of the two sorts, clients and servers:
#   cat      two readers on one cache folder. What they wrote is a prefix of the file; the next reader gets every byte, and
#            fetches again at most 8 MiB of what its predecessor had delivered (the open pack, which was not sealed)
#   fetch    two installations by one cache folder, to another release each time. Each file is wholly the one or the
#            other; the next run completes
#   publish  two publishers into one store folder. The channel names a whole release; the next publication succeeds
#   server   larderd on a store while one client fetches and another publishes. The next larderd starts, says that
#            it removed what was unfinished, and exactly if there was any; the channel names a whole release; both complete
# The moments are drawn from SEED over the time that an undisturbed run takes; the verdict does not depend on them, and
# who had finished before is not counted as killed.
#
# By hand: make crash-kills. The quick crash gate runs a short form. The last line gives the counts; exit status 1 when anything is
# wrong.
set -u
if [ -z "${WORK:-}" ]; then
	ROOT=$(cd "$(dirname "$0")/../.." && pwd)
	BUILD=$(cd "${BUILD:-$ROOT/build/release}" && pwd) || exit 2
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-kills.XXXXXX") || exit 1
	export ROOT BUILD WORK LARDER=$BUILD/larder LARDERD=$BUILD/larderd
	export HOME=$WORK LARDER_CACHE=$WORK/default-cache
	OWN_WORK=1
fi
. "$ROOT/tests/scenario/lib.sh"
trap 'stop_all; [ -z "${OWN_WORK:-}" ] || rm -rf "$WORK"' EXIT
KILLS=${1:-200}
RANDOM=${2:-1}
echo "# seed ${2:-1}, $KILLS kills of clients and as many of servers"
UNSEALED=$((8 << 20))

# ---- what is published and read ------------------------------------------------------------------------

noise() { python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2])))' "$1" "$2"; }
make_tree one 1
make_tree two 2
mkdir large
for name in a b; do noise $name $((20 << 20)) >large/$name; done
same() { [ "$(listing "$1" 2>&1)" = "$(listing "$2" 2>&1)" ]; }
# With ALONE=exec a command in the background is the program itself, so that its process id is the one to kill.
ALONE=
publish() { $ALONE "$LARDER" publish "$1" --to "$2" --channel live --key key --quiet "${@:3}"; }
check "a key" "$LARDER" keygen key
check "publish the large tree" publish large large.store
check "publish the first release" publish one trees.store
check "publish the second release" publish two trees.store
check "a token" sh -c '"$0" token add --tokens tokens.json --scope publish >token' "$LARDER"

# ---- killing ----------------------------------------------------------------------------------------------

# span CMD...   how long it takes undisturbed, in milliseconds.
span() {
	local began=${EPOCHREALTIME/./}
	"$@" >/dev/null 2>&1
	SPAN=$(((${EPOCHREALTIME/./} - began) / 1000 + 1))
}
# Sets MOMENT to a random part of SPAN, as sleep wants it. In this shell: a subshell has a generator of its own.
moment() {
	local ms=$((RANDOM % SPAN))
	printf -v MOMENT '%d.%03d' $((ms / 1000)) $((ms % 1000))
}
# kill_both PID PID   each at a moment of its own; KILLED counts whom it met alive.
kill_both() {
	local pid rc
	for pid in "$@"; do
		moment
		sleep "$MOMENT"
		kill -KILL "$pid"
		wait "$pid"
		rc=$?
		[ $rc -ne 137 ] || KILLED=$((KILLED + 1))
		[ $rc -eq 0 ] || [ $rc -eq 137 ] || wrong "exit status $rc of one that was not killed yet"
	done
} 2>/dev/null
wrong() { WRONG="$WRONG${WRONG:+; }$1"; }

# rounds NAME KILLS ROUND   repeats ROUND until so many were killed, and six times as often at most.
rounds() {
	local name=$1 wanted=$2 round=$3 number=0
	KILLED=0 BAD=0
	while [ "$KILLED" -lt "$wanted" ] && [ $number -lt $((6 * wanted)) ]; do
		number=$((number + 1)) WRONG=
		"$round" $number
		[ -z "$WRONG" ] || { echo "# $name, round $number: $WRONG"; BAD=$((BAD + 1)); }
	done
	TOTAL=$((TOTAL + KILLED))
	WRONG_ROUNDS=$((WRONG_ROUNDS + BAD))
	if [ "$BAD" -gt 0 ]; then
		not_ok "$name" "$BAD of $number rounds are wrong"
	elif [ "$KILLED" -lt "$wanted" ]; then
		not_ok "$name" "only $KILLED of $wanted were killed"
	else
		ok "$name: $KILLED killed in $number rounds"
	fi
}

# ---- readers ----------------------------------------------------------------------------------------------

read_large() { $ALONE "$LARDER" cat "$URL#live" "$1" --trust key.pub --cache "$2"; }
# What the server sent of packs since line $1 of its log, to those who took it all.
sent_since() { tail -n +$(($1 + 1)) "$SERVER_LOG" | awk '$4 ~ /^\/packs\// && !/cut/ { sum += $6 } END { print sum + 0 }'; }
cat_again() { # file
	local had size before sent
	had=$(stat -c %s "$1.out") size=$(stat -c %s "large/$1") before=$(wc -l <"$SERVER_LOG")
	cmp -s -n "$had" "$1.out" "large/$1" || wrong "$1: wrong bytes before the kill"
	read_large "$1" cache >again.out 2>again.err || wrong "$1: the next reader: $(tail -n 1 again.err)"
	cmp -s again.out "large/$1" || wrong "$1: wrong bytes of the next reader"
	sent=$(sent_since "$before")
	# Two hundredths for the tree, its map, and gaps that are cheaper read than asked around.
	[ "$sent" -le $((size - had + UNSEALED + size / 50)) ] ||
		wrong "$1: $had of $size were delivered, and $sent fetched afterwards"
}
cat_round() {
	local first second
	rm -rf cache
	ALONE=exec read_large a cache >a.out 2>/dev/null & first=$!
	ALONE=exec read_large b cache >b.out 2>/dev/null & second=$!
	kill_both $first $second
	cat_again a
	cat_again b
	[ -z "$(find cache -name '.larder-tmp.*')" ] || wrong "temporaries of the dead are left"
}

# ---- installations -----------------------------------------------------------------------------------------

install() { $ALONE "$LARDER" fetch "trees.store#live@$1" "$2" --trust key.pub --cache cache --quiet >/dev/null; }
old_or_new() {
	(cd "$1" 2>/dev/null && find . -path ./.larder -prune -o -type f -print) | while IFS= read -r path; do
		cmp -s "$1/$path" "one/$path" || cmp -s "$1/$path" "two/$path" || echo "$path"
	done
}
fetch_round() {
	local release=$((1 + $1 % 2)) tree first second place mixed
	tree=$([ $release -eq 1 ] && echo one || echo two)
	ALONE=exec install $release x 2>/dev/null & first=$!
	ALONE=exec install $release y 2>/dev/null & second=$!
	kill_both $first $second
	for place in x y; do
		mixed=$(old_or_new $place)
		[ -z "$mixed" ] || wrong "$place: neither old nor new: $(head -n 3 <<<"$mixed" | tr '\n' ' ')"
		install $release $place 2>again.err || wrong "$place: the next run: $(tail -n 1 again.err)"
		same $place $tree || wrong "$place: the next run leaves another tree"
	done
}

# ---- publishers --------------------------------------------------------------------------------------------

new_tree() { rm -rf "$1" && mkdir "$1" && cp one/README.txt "$1" && noise "$1 $2" $((1 << 20)) >"$1/new"; }
publish_round() {
	local first second
	new_tree p $1 && new_tree q $1
	ALONE=exec publish p shared.store --cache cache-p >/dev/null 2>&1 & first=$!
	"$LARDER" publish q --to shared.store --channel other --key key --quiet --cache cache-q >/dev/null 2>&1 & second=$!
	kill_both $first $second
	"$LARDER" verify shared.store#live --deep --trust key.pub --quiet >/dev/null 2>again.err ||
		wrong "the channel is not whole: $(tail -n 1 again.err)"
	publish p shared.store --cache cache-p >/dev/null 2>again.err || wrong "the next publication: $(tail -n 1 again.err)"
	"$LARDER" cat shared.store#live new --trust key.pub | cmp -s - p/new || wrong "the next publication has other bytes"
}

# ---- servers -----------------------------------------------------------------------------------------------

ends_well() { # pid what: done, or told that the server is gone
	local rc
	wait "$1"
	rc=$?
	case $rc in 0 | 5) ;; *) wrong "$2: exit status $rc" ;; esac
} 2>/dev/null
to_server() { publish r "$URL" --token-file token --cache cache-r; }
from_server() { $ALONE "$LARDER" fetch "$URL#live" "$1" --trust key.pub --cache cache-s --quiet; }
server_round() {
	local server client publisher unfinished
	new_tree r $1
	start_larderd served.store --tokens tokens.json --quiet >/dev/null || { wrong "larderd does not start"; return; }
	server=$PID
	from_server s >/dev/null 2>&1 & client=$!
	to_server >/dev/null 2>&1 & publisher=$!
	kill_both $server
	ends_well $client "fetch"
	ends_well $publisher "publish"
	unfinished=$(find served.store -name '.larder-tmp.*' | wc -l)
	start_larderd served.store --tokens tokens.json --quiet >/dev/null || { wrong "the next larderd does not start"; return; }
	grep -q 'unfinished files of a dead process removed' "$WORK/larderd-$((${#STARTED[@]} - 1)).err"
	[ $? -eq $((unfinished == 0)) ] || wrong "$unfinished unfinished files, and the log does not say so"
	[ -z "$(find served.store -name '.larder-tmp.*')" ] || wrong "unfinished files are left"
	"$LARDER" verify "$URL#live" --deep --trust key.pub --cache "$WORK/v" --quiet >/dev/null 2>again.err ||
		wrong "the channel is not whole: $(tail -n 1 again.err)"
	to_server >/dev/null 2>again.err || wrong "the next publication: $(tail -n 1 again.err)"
	from_server s >/dev/null 2>again.err || wrong "the next fetch: $(tail -n 1 again.err)"
	cmp -s s/new r/new || wrong "the next fetch brings other bytes"
	stop "$PID"
}

# ---- all of it ---------------------------------------------------------------------------------------------

TOTAL=0 WRONG_ROUNDS=0
start_larderd large.store || not_ok "larderd serves" "see above"
SERVER_LOG=$WORK/larderd-0.err
span read_large a cache-once
rounds "readers" $((KILLS / 2)) cat_round
stop "$PID"
install 1 x && install 1 y
span install 2 z
rounds "installations" $((KILLS / 4)) fetch_round
new_tree p 0
publish p shared.store --cache cache-p >/dev/null
new_tree p 00
span publish p shared.store --cache cache-p
rounds "publishers" $((KILLS - KILLS / 2 - KILLS / 4)) publish_round
publish one served.store >/dev/null
new_tree r 0
start_larderd served.store --tokens tokens.json --quiet >/dev/null || not_ok "larderd serves" "see above"
both_ways() { from_server span-s & to_server; wait $!; }
span both_ways
stop "$PID"
rounds "servers" "$KILLS" server_round
echo "kills $TOTAL, wrong rounds $WRONG_ROUNDS, seed ${2:-1}, $SECONDS s"
[ $TOTAL -ge $((2 * KILLS)) ] && [ $WRONG_ROUNDS -eq 0 ]
