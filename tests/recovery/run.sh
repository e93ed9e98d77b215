#!/bin/bash
# run.sh   the recovery suite: what publishers leave behind that are cut short, in the short form.
#
# limit: 600
#
# Each part prints "ok NAME", "not ok NAME: why" or "skip NAME: why"; a line that begins with another word is for
# readers. Parts need no root unless they say so, and report what they miss as skipped.
set -u
cd "$WORK" || exit 1
PROGRAMS_OF_RECOVERY=$BUILD/tests/recovery

# A killed process loses nothing that was written, so a folder in memory serves as well, and quickly.
fast_folder() {
	mktemp -d /dev/shm/larder-recovery.XXXXXX 2>/dev/null || mktemp -d "$WORK/fast.XXXXXX"
}
FAST=$(fast_folder) || exit 1
trap 'rm -rf "$FAST"' EXIT

mkdir "$FAST/cuts" || exit 1
"$PROGRAMS_OF_RECOVERY/cuts" "$FAST/cuts" "$WORK/cuts.jsonl"
