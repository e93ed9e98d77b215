#!/bin/bash
# serve.sh DIR [--mutant no-sync] STEP   larderd accepting packs and moving a channel, as a subject for crashlab (core/oracle.h).
#
# DIR is what prepare.sh made; the server's store is ./store, and a real `larder publish` sends to it from outside. "acked" notes on the same
# disk that the publication was acknowledged. After any crash the server starts, the channel names a complete release (fetched whole, every
# signature, pack and byte checked), the acknowledged one if there was one, and the next publication completes. The mutant is a server
# whose syncs are left out (by a seam) and must be caught.
set -u
DIR=$1 STEP=${!#} MUTANT=${2:-}
. "$(dirname "$0")/subject.sh"
find_programs "$DIR"
export HOME=$DIR TMPDIR=${TMPDIR:-/tmp}
PRIVATE=
trap '[ -z "${PID:-}" ] || { kill "$PID" 2>/dev/null; wait "$PID" 2>/dev/null; }; [ -z "$PRIVATE" ] || rm -rf "$PRIVATE"' EXIT

serve() { # program
	PRIVATE=$(mktemp -d "$TMPDIR/larder-serve.XXXXXX") || exit 1
	export LARDER_CACHE=$PRIVATE/cache
	"$1" --store store --listen 127.0.0.1:0 --tokens "$DIR/tokens.json" --quiet >"$PRIVATE/log" 2>"$PRIVATE/err" </dev/null &
	PID=$!
	for _ in $(seq 400); do
		URL=$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$PRIVATE/log")
		[ -z "$URL" ] || return 0
		kill -0 "$PID" 2>/dev/null || break
		sleep 0.01
	done
	cat "$PRIVATE/err"
	exit 1
}
publish() { "$BUILD/larder" publish "$DIR/$1" --to "$URL" --channel live --key "$DIR/key" --token-file "$DIR/token" --quiet >/dev/null; }
fetch() { # tree... : what is fetched must be one of them
	local tree
	rm -rf "$PRIVATE/out"
	"$BUILD/larder" fetch "$URL#live" "$PRIVATE/out" --trust "$DIR/key.pub" --cache "$PRIVATE/cache-$RANDOM" --quiet --no-sync >/dev/null || return 1
	for tree in "$@"; do
		! same "$DIR/$tree" "$PRIVATE/out" 2>/dev/null || return 0
	done
	echo "the channel's release is none of: $*"
	return 1
}
case $STEP in
--describe)
	printf '{"subject": "larderd", "policy": "folder", "files": [{"name": "acked", "versions": [null, "%s"]}], "fixed": [], "free": ["store", "acked.new"]}\n' \
		"$(printf '1\n' | sha256sum | cut -c1-64)"
	;;
--seed) cp -r "$DIR/store-one" store && sync ;;
--run)
	if [ "$MUTANT" = --mutant ]; then
		LARDER_SEAM="skip sync" serve "$BUILD/seams/larderd"
	else
		serve "$BUILD/larderd"
	fi
	mark begin
	publish two || exit 1
	printf '1\n' >acked.new && sync acked.new || exit 1
	mark rename_enter
	mv acked.new acked && sync . || exit 1
	mark ack:1
	mark end
	;;
--recover)
	serve "$BUILD/larderd"
	if [ -e acked ]; then fetch two; else fetch one two; fi || exit 1
	publish three && fetch three || exit 1
	;;
*) exit 2 ;;
esac
