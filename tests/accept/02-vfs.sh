#!/bin/bash
# 02-vfs.sh   the list "What must hold" of the virtual file system, each item as a command: a line per item with text, figure, limit
# and PASS, FAIL or SKIP. Slow; run by hand on a quiet machine:
#
#   make all benches && tests/accept/02-vfs.sh
#   PARTS="speed" tests/accept/02-vfs.sh     of: contract trees threads limits allocations speed
#
# The speed part runs vfs_bench once (bench/run.sh vfs, some 12 minutes) and looks up every ratio of bench/vfs_limits.tsv. Assets
# come from $LARDER_CORPORA (bench/corpora.sh brings them); one that is not there is a SKIP.
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
LARDER_CORPORA=${LARDER_CORPORA:-${XDG_CACHE_HOME:-$HOME/.cache}/larder-corpora}
BENCH=$ROOT/build/release/bench/vfs_bench
WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-accept.XXXXXX")
export ROOT LARDER_CORPORA WORK

. "$ROOT/tests/scenario/lib.sh"
trap 'stop_all; cd /; chmod -R u+rwX "$WORK"; rm -rf "$WORK"' EXIT
. "$ROOT/tests/accept/lib.rows.sh"

part() { case " ${PARTS:-contract trees threads limits allocations speed} " in *" $1 "*) return 0 ;; esac; return 1; }

echo "# $(date -u +%FT%TZ), $(nproc) processors, $(uname -sr)"

if part contract; then
	suite "the contract, layers, mounts, watches (unit tests of vfs)" MODE=debug unit T=unit/vfs/
	suite "the same under the address sanitizer" MODE=asan unit T=unit/vfs/
fi

if part trees; then
	if [ -d "$LARDER_CORPORA/wesnoth/1" ]; then
		for target in vfs:native vfs:memory vfs:archive vfs:archive-lz4 vfs:archive-aes vfs:archive-mapped vfs:remote-warm vfs:remote-cold; do
			holds "wesnoth: every file through $target as in the folder, random offsets, 8 threads" \
				"$BENCH" --dir "$WORK" --verify --data "$LARDER_CORPORA/wesnoth/1" --strict --targets $target
		done
	else
		row "wesnoth: every file as in the folder" "no corpus wesnoth" "" SKIP
	fi
fi

if part threads; then
	suite "threads under load with the thread sanitizer" MODE=tsan stress T=vfs
	suite "unit tests of vfs with the thread sanitizer" MODE=tsan unit T=unit/vfs/
fi

if part limits; then
	holds "100,000 files open at once through archive, memory and stacks" \
		"$BENCH" --dir "$WORK" --scale 0.1 --handles 100000 --strict --targets vfs:archive,vfs:archive-lz4,vfs:memory,vfs:nested8,vfs:remote-warm
	item "descriptors that they take" "$(awk '/handles at once/ { n += $(NF - 2) } END { print NR ? n : "none" }' "$WORK/out")" -le 0
	mkdir "$WORK/big"
	openssl enc -aes-128-ctr -nosalt -K 00112233445566778899aabbccddeeff -iv 00 </dev/zero 2>/dev/null | head -c 4500000000 >"$WORK/big/one"
	echo behind >"$WORK/big/two"
	holds "an archive over 4 GiB, every byte" "$BENCH" --dir "$WORK" --verify --data "$WORK/big" --strict --targets vfs:archive
	rm -rf "$WORK/big"
	python3 - "$WORK/many" <<-'PY'
	import os, sys
	for i in range(1000):
	    folder = os.path.join(sys.argv[1], f"{i:03}")
	    os.makedirs(folder)
	    for k in range(1000):
	        with open(os.path.join(folder, f"{k:03}"), "w") as file:
	            file.write(f"{i} {k}")
	PY
	holds "an archive of 1,000,000 files, every byte" "$BENCH" --dir "$WORK" --verify --data "$WORK/many" --strict --targets vfs:archive
	item "opened, ms" "$(sed -n 's/^opened .* in \([0-9.]*\) ms$/\1/p' "$WORK/out")" -le 50
	rm -rf "$WORK/many"
fi

if part allocations; then
	holds "no heap allocation in warm opens, stats, misses and reads, 1 and 8 threads, over all threads" \
		"$BENCH" --dir "$WORK" --scale 0.1 --threads 1,8 --allocations --strict --filter vfs:
	cp "$WORK/out" "$WORK/allocations"
	item "allocations, summed over the targets of Larder" "$(awk '$2 ~ /^vfs:/ { n += $(NF - 1) } END { print n + 0 }' "$WORK/allocations")" -le 0
fi

if part speed; then
	(cd "$ROOT" && bash bench/run.sh vfs) >"$WORK/speed" 2>&1 || tail -n 3 "$WORK/speed"
	while IFS=$'\t' read -r text figure limit; do
		item "$text" "$figure" -ge "$limit"
	done <"$ROOT/build/bench/vfs-limits.tsv"
fi

echo "# $FAILED failed"
[ "$FAILED" -eq 0 ]
