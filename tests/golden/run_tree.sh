#!/bin/bash
# Golden trees and release: the committed files match their digests, and today's writers and signer still make them
# byte for byte. The independent reader is a test of its own (read_release.py).
set -u
here=$ROOT/tests/golden/trees
made=$WORK/made
report() { # name why
	if [ -z "$2" ]; then echo "ok $1"; else echo "not ok $1: $2"; fi
}

report "make_trees runs" "$("$BUILD/tests/golden/make_trees" "$made" 2>&1)"
report "digests" "$(cd "$here" && sha256sum --check --quiet --strict SHA256SUMS 2>&1 | tr '\n' ' ')"
listed=$(awk '{print $2}' "$here/SHA256SUMS" | sort | tr '\n' ' ')
present=$(cd "$made" && printf '%s\n' * | sort | tr '\n' ' ')
[ "$listed" = "$present" ] && why= || why="listed: $listed, made: $present"
report "every file is listed" "$why"
for file in "$made"/*; do
	report "made again: ${file##*/}" "$(cmp "$file" "$here/${file##*/}" 2>&1)"
done
