#!/bin/bash
# kills.sh [KILLS [SEED]]   ends clients and servers by kill -9 at random moments, under load.
#
# KILLS (default 200) processes of each of the two sorts, clients and servers:
#   cat      two readers on one cache folder. What they wrote is a prefix of the file; the next reader gets every byte, and
#            fetches again at most 8 MiB of what its predecessor had delivered (the open pack, which was not sealed)
#   fetch    two installations by one cache folder, to another release each time. Each file is wholly the one or the
#            other; the next run completes, and fetches again at most 8 MiB of what lay on the disk
#   publish  two publishers into one store folder. Both channels name whole releases; the next publication succeeds
#   server   two larderd on one store folder, a client that fetches from one and another that publishes to the other. The next
#            larderd start, the first of them while its sibling is under load; they say that they removed what was
#            unfinished, exactly if there was any; the channel names a whole release; both clients complete
# Whoever goes on after a kill is served by a larderd of its own, so that its log tells what was fetched again. The moments
# are drawn from SEED over the time that an undisturbed run takes; the verdict does not depend on them, and who had finished
# before is not counted as killed.
#
# By hand: make crash-kills. The quick crash gate runs a short form. The last line gives the counts; exit status 1 when anything
# is wrong, 2 when it cannot begin.
set -u
if [ -z "${WORK:-}" ]; then
	ROOT=$(cd "$(dirname "$0")/../.." && pwd)
	BUILD=$(cd "${BUILD:-$ROOT/build/release}" && pwd) || exit 2
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-kills.XXXXXX") || exit 2
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

# must CMD...   what every round stands on.
must() {
	"$@" >must.out 2>must.err && return 0
	not_ok "the kills begin" "$*: $(tail -n 1 must.err)"
	exit 2
}
noise() { python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2])))' "$1" "$2"; }
same() { [ "$(listing "$1" 2>&1)" = "$(listing "$2" 2>&1)" ]; }
# With ALONE=exec a command in the background is the program itself, so that its process id is the one to kill.
ALONE=
publish() { $ALONE "$LARDER" publish "$1" --to "$2" --channel "${CHANNEL:-live}" --key key --quiet "${@:3}"; }
verify() { "$LARDER" verify "$1" --deep --trust key.pub --cache verify-cache --quiet; }
# serve_twice STORE   FIRST is for those who are killed; AGAIN, with AGAIN_LOG, for those who go on afterwards.
serve_twice() {
	must start_larderd "$1"
	FIRST=$URL
	AGAIN_LOG=$WORK/larderd-${#STARTED[@]}.err
	must start_larderd "$1"
	AGAIN=$URL
}

must make_tree one 1
must make_tree two 2
must mkdir large
for name in a b; do noise $name $((20 << 20)) >large/$name; done
for tree in one two; do noise $tree $((20 << 20)) >$tree/big; done
must "$LARDER" keygen key
must publish large large.store
must publish one trees.store
must publish two trees.store
"$LARDER" token add --tokens tokens.json --scope publish >token || exit 2

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
	[ "$KILLED" -ge "$wanted" ] || SHORT=$((SHORT + 1))
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

# Whether AGAIN has no connection left: only then its log is whole.
quiet() { awk -v port="$(printf ':%04X' "${AGAIN##*:}")" 'NR > 1 && substr($2, 9) == port && $4 !~ /^0[6A]$/ { busy = 1 } END { exit busy }' /proc/net/tcp; }
# What AGAIN sent of packs since line $1 of its log, cut transfers too.
sent_since() {
	wait_for 10 quiet || wrong "connections stay open"
	tail -n +$(($1 + 1)) "$AGAIN_LOG" | awk '$4 ~ /^\/packs\// { sum += $6 } END { print sum + 0 }'
}
log_lines() { wc -l <"$AGAIN_LOG"; }
# fetched_again WHAT SENT MISSING   of what was sent, that which was not missing. Two hundredths are for the tree, its map, and
# gaps that are cheaper read than asked around.
fetched_again() {
	local more=$(($2 - $3))
	STARTS=$((STARTS + 1))
	[ $more -le $MOST_AGAIN ] || MOST_AGAIN=$more
	[ $more -le $((UNSEALED + $3 / 50)) ] || wrong "$1: $3 bytes were missing, and $2 fetched"
}
read_large() { $ALONE "$LARDER" cat "$1#live" "$2" --trust key.pub --cache cache; }
cat_again() { # file
	local had size before
	had=$(stat -c %s "$1.out") size=$(stat -c %s "large/$1") before=$(log_lines)
	cmp -s -n "$had" "$1.out" "large/$1" || wrong "$1: wrong bytes before the kill"
	read_large "$AGAIN" "$1" >again.out 2>again.err || wrong "$1: the next reader: $(tail -n 1 again.err)"
	cmp -s again.out "large/$1" || wrong "$1: wrong bytes of the next reader"
	fetched_again "$1" "$(sent_since "$before")" $((size - had))
}
cat_round() {
	local first second
	rm -rf cache
	ALONE=exec read_large "$FIRST" a >a.out 2>/dev/null & first=$!
	ALONE=exec read_large "$FIRST" b >b.out 2>/dev/null & second=$!
	kill_both $first $second
	cat_again a
	cat_again b
	[ -z "$(find cache -name '.larder-tmp.*')" ] || wrong "temporaries of the dead are left"
}

# ---- installations -----------------------------------------------------------------------------------------

install() { $ALONE "$LARDER" fetch "$1#live@$2" "$3" --trust key.pub --cache cache --quiet >/dev/null; }
old_or_new() {
	(cd "$1" 2>/dev/null && find . -path ./.larder -prune -o -type f -print) | while IFS= read -r path; do
		cmp -s "$1/$path" "one/$path" || cmp -s "$1/$path" "two/$path" || echo "$path"
	done
}
# missing TREE PLACE   how many bytes of a tree's big file lie nowhere below the place, temporaries included.
missing() {
	python3 - "$1/big" "$2" <<-'PY'
	import os, sys
	GRAIN = 1 << 16
	pieces = lambda path: (data[at:at + GRAIN] for data in [open(path, "rb").read()] for at in range(0, len(data), GRAIN))
	paths = (os.path.join(folder, name) for folder, _, files in os.walk(sys.argv[2]) for name in files)
	there = {piece for path in paths if os.path.isfile(path) for piece in pieces(path)}
	print(sum(len(piece) for piece in pieces(sys.argv[1]) if piece not in there))
	PY
}
fetch_again() { # release place tree
	local tree=$3 mixed lacks before
	mixed=$(old_or_new $2)
	[ -z "$mixed" ] || wrong "$2: neither old nor new: $(head -n 3 <<<"$mixed" | tr '\n' ' ')"
	lacks=$(missing $tree $2) before=$(log_lines)
	install "$AGAIN" $1 $2 2>again.err || wrong "$2: the next run: $(tail -n 1 again.err)"
	same $2 $tree || wrong "$2: the next run leaves another tree"
	fetched_again "$2" "$(sent_since "$before")" "$lacks"
}
fetch_round() {
	local release=$((1 + $1 % 2)) tree first second
	tree=$([ $release -eq 1 ] && echo one || echo two)
	rm -rf cache
	ALONE=exec install "$FIRST" $release x 2>/dev/null & first=$!
	ALONE=exec install "$FIRST" $release y 2>/dev/null & second=$!
	kill_both $first $second
	fetch_again $release x $tree
	fetch_again $release y $tree
}

# ---- publishers --------------------------------------------------------------------------------------------

new_tree() { rm -rf "$1" && mkdir "$1" && cp one/README.txt "$1" && noise "$1 $2" $((1 << 20)) >"$1/new"; }
publish_round() {
	local first second name
	new_tree p $1 && new_tree q $1
	ALONE=exec publish p shared.store --cache cache-p >/dev/null 2>&1 & first=$!
	ALONE=exec CHANNEL=other publish q shared.store --cache cache-q >/dev/null 2>&1 & second=$!
	kill_both $first $second
	for name in live other; do
		verify shared.store#$name >/dev/null 2>again.err || wrong "$name is not whole: $(tail -n 1 again.err)"
	done
	published_again p live
	published_again q other
}
published_again() { # tree channel
	STARTS=$((STARTS + 1))
	CHANNEL=$2 publish $1 shared.store --cache cache-$1 >/dev/null 2>again.err || wrong "$2: the next publication: $(tail -n 1 again.err)"
	rm -rf brought
	"$LARDER" fetch shared.store#$2 brought --trust key.pub --cache cache-brought --quiet >/dev/null 2>&1
	same brought $1 || wrong "$2: the next publication has another tree"
}

# ---- servers -----------------------------------------------------------------------------------------------

ends_well() { # pid what: done, or told that the server is gone
	local rc
	wait "$1"
	rc=$?
	case $rc in 0 | 5) ;; *) wrong "$2: exit status $rc" ;; esac
} 2>/dev/null
serve() { start_larderd served.store --tokens tokens.json --quiet >/dev/null || { wrong "larderd does not start"; return 1; }; }
to_server() { publish r "$1" --token-file token --cache cache-r; }
from_server() { $ALONE "$LARDER" fetch "$1#live" "$2" --trust key.pub --cache cache-s --quiet; }
unfinished() { find served.store -name '.larder-tmp.*' | wc -l; }
says_what_it_removed() { # how many there were
	grep -q 'unfinished files of a dead process removed' "$WORK/larderd-$((${#STARTED[@]} - 1)).err"
	[ $? -eq $(($1 == 0)) ] || wrong "$1 unfinished files, and the log does not say so"
}
server_round() {
	local reading writing client publisher left
	new_tree r $1
	serve || return
	reading=$PID FROM=$URL
	serve || return
	writing=$PID TO=$URL
	from_server "$FROM" s >/dev/null 2>&1 & client=$!
	to_server "$TO" >/dev/null 2>&1 & publisher=$!
	# By turns, so that each is at times the one that starts anew beside a sibling under load.
	if [ $(($1 % 2)) -eq 0 ]; then kill_both $reading; else kill_both $writing; fi
	serve || return
	FROM=$URL
	if [ $(($1 % 2)) -eq 0 ]; then kill_both $writing; else kill_both $reading; fi
	ends_well $client "fetch"
	ends_well $publisher "publish"
	stop "$PID"
	left=$(unfinished)
	serve || return
	STARTS=$((STARTS + 2))
	says_what_it_removed "$left"
	[ "$(unfinished)" -eq 0 ] || wrong "unfinished files are left"
	FROM=$URL
	verify "$FROM#live" >/dev/null 2>again.err || wrong "the channel is not whole: $(tail -n 1 again.err)"
	to_server "$FROM" >/dev/null 2>again.err || wrong "the next publication: $(tail -n 1 again.err)"
	from_server "$FROM" s >/dev/null 2>again.err || wrong "the next fetch: $(tail -n 1 again.err)"
	same s r || wrong "the next fetch brings another tree"
	stop "$PID"
}

# ---- all of it ---------------------------------------------------------------------------------------------

TOTAL=0 WRONG_ROUNDS=0 SHORT=0 STARTS=0 MOST_AGAIN=0
CLIENTS=$((KILLS / 2))
serve_twice large.store
span read_large "$FIRST" a
rounds "readers" $CLIENTS cat_round
stop_all
serve_twice trees.store
must install "$FIRST" 1 x
must install "$FIRST" 1 y
span install "$FIRST" 2 z
rounds "installations" $((KILLS / 4)) fetch_round
stop_all
new_tree p 0 && new_tree q 0
must publish p shared.store --cache cache-p
CHANNEL=other must publish q shared.store --cache cache-q
new_tree p 00
span publish p shared.store --cache cache-p
rounds "publishers" $((KILLS - KILLS / 2 - KILLS / 4)) publish_round
new_tree r 0
must publish r served.store
must serve
both_ways() { from_server "$URL" span-s & to_server "$URL"; wait $!; }
new_tree r 00
span both_ways
stop "$PID"
rounds "servers" "$KILLS" server_round
echo "kills $TOTAL, wrong rounds $WRONG_ROUNDS, starts after a kill $STARTS, most fetched again $MOST_AGAIN bytes," \
	"seed ${2:-1}, $SECONDS s"
[ $TOTAL -ge $((2 * KILLS)) ] && [ $SHORT -eq 0 ] && [ $WRONG_ROUNDS -eq 0 ]
