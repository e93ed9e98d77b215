#!/bin/bash
# fetch.sh DIR [--mutant no-sync] STEP   `larder fetch` updating an installed tree, as a subject for crashlab (core/oracle.h).
#
# DIR is what prepare.sh made; the installation is ./tree. The whole update is one version: after any crash each file is wholly that of
# the one release or of the other, after the acknowledgement that of the new one, and a file of the user's is untouched; the
# next fetch completes, to exactly the release. The mutant installs without waiting for the disk and must be caught.
set -u
DIR=$1 STEP=${!#} MUTANT=${2:-}
. "$(dirname "$0")/subject.sh"
find_programs "$DIR"
export LARDER_CACHE=$DIR/cache HOME=$DIR
fetch() { "$BUILD/larder" fetch "$DIR/store#live@$1" tree --trust "$DIR/key.pub" --quiet "${@:2}" >/dev/null; }
case $STEP in
--describe) cat "$DIR/fetch.json" ;;
--seed) mkdir tree && fetch 1 && printf 'mine\n' >tree/mine.txt && sync tree/mine.txt tree ;;
--run)
	mark begin
	mark rename_enter
	if [ "$MUTANT" = --mutant ]; then fetch 2 --no-sync; else fetch 2; fi || exit 1
	mark ack:1
	mark end
	;;
--recover)
	fetch 2 || exit 1
	[ "$(cat tree/mine.txt)" = mine ] || exit 1
	same "$DIR/two" tree mine.txt
	;;
*) exit 2 ;;
esac
