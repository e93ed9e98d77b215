#!/bin/bash
# Golden files: the committed packs match their digests, today's writer and chunker still make them byte for
# byte, and the independent reader gives each pack its id (read_pack.py, a test of its own, does the rest).
set -u
here=$ROOT/tests/golden
made=$WORK/made
report() { # name why
	if [ -z "$2" ]; then echo "ok $1"; else echo "not ok $1: $2"; fi
}

why=$("$BUILD/tests/golden/make_golden" "$made" 2>&1)
report "make_golden runs" "$why"

for pack in "$here"/packs/*.pack; do
	name=${pack##*/}
	digest=$(sha256sum <"$pack" | cut -d' ' -f1)
	grep -qx "$digest  $name" "$here/packs/SHA256SUMS" && why= || why="its digest is $digest"
	report "digest of $name" "$why"
	report "writer makes $name" "$(cmp "$made/$name" "$pack" 2>&1)"
	id=$(awk -v name="$name" '$2 == name {print $1}' "$here/packs/IDS")
	read=$(python3 "$here/read_pack.py" "$pack" 2>&1 | sed -n 's/^pack //p')
	[ -n "$id" ] && [ "$id" = "$read" ] && why= || why="IDS has '$id', the reader '$read'"
	report "id of $name" "$why"
done

listed=$(awk '{print $2}' "$here/packs/IDS" | sort | tr '\n' ' ')
present=$(cd "$here/packs" && printf '%s\n' *.pack | sort | tr '\n' ' ')
[ "$listed" = "$present" ] && why= || why="listed: $listed, present: $present"
report "every pack is listed" "$why"
report "ids" "$(cmp "$made/IDS" "$here/packs/IDS" 2>&1)"
report "cut points" "$(cmp "$made/chunker.txt" "$here/chunker.txt" 2>&1)"
