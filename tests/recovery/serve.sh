#!/bin/bash
# serve.sh DIR [--mutant no-sync|no-folder-sync] STEP   larderd accepting packs and moving a channel, as a subject for crashlab (core/oracle.h).
#
# DIR is what prepare.sh made; the server's store is ./store, and a real `larder publish` sends to it from outside. After any crash the
# server starts, the channel names a complete release (fetched whole, every signature, pack and byte checked), the new one if its publication
# had been acknowledged, and the next publication completes. Nothing else is written to the disk: a note that is synced would take the
# store's renames along. The mutants are servers of which a seam leaves out syncs, all or those of folders, and must be caught.
set -u
DIR=$1 STEP=${!#} MUTANT=
[ "$2" != --mutant ] || MUTANT=$3
. "$(dirname "$0")/subject.sh"
find_programs "$DIR"
export HOME=$DIR TMPDIR=${TMPDIR:-/tmp}
PRIVATE=
trap '[ -z "${PID:-}" ] || { kill "$PID" 2>/dev/null; wait "$PID" 2>/dev/null; }; [ -z "$PRIVATE" ] || rm -rf "$PRIVATE"' EXIT

serve() { # program
	PRIVATE=$(mktemp -d "$TMPDIR/larder-serve.XXXXXX") || exit 1
	export LARDER_CACHE=$PRIVATE/cache
	mkfifo "$PRIVATE/told" || exit 1
	"$1" --store store --listen 127.0.0.1:0 --tokens "$DIR/tokens.json" --quiet >"$PRIVATE/told" 2>"$PRIVATE/err" </dev/null &
	PID=$!
	# Opened for both ways: a server that ends at once is found by the time limit, and nobody waits for a writer.
	exec 3<>"$PRIVATE/told"
	read -r -t 20 _ _ URL _ <&3
	case ${URL:-} in http:*) return 0 ;; esac
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
	printf '{"subject": "larderd%s", "policy": "folder", "files": [], "fixed": [], "free": ["store"]}\n' "${MUTANT:+/$MUTANT}"
	;;
--seed) cp -r "$DIR/store-one" store && sync ;;
--run)
	case $MUTANT in
	"") serve "$BUILD/larderd" ;;
	no-sync) LARDER_SEAM="skip sync" serve "$BUILD/seams/larderd" ;;
	no-folder-sync) LARDER_SEAM="skip sync_folder" serve "$BUILD/seams/larderd" ;;
	*) exit 2 ;;
	esac
	mark begin
	mark rename_enter
	publish two || exit 1
	mark ack:1
	mark end
	;;
--recover)
	serve "$BUILD/larderd"
	if [ "${CRASHLAB_ACKED:-0}" -ge 1 ]; then fetch two; else fetch one two; fi || exit 1
	publish three && fetch three || exit 1
	;;
*) exit 2 ;;
esac
