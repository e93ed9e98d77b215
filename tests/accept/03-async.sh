#!/bin/bash
# 03-async.sh   the list "What must hold" of asynchronous reads, each item as a command: a line per item with text, figure, limit and
# PASS, FAIL or SKIP. Slow; run by hand on a quiet machine:
#
#   make all benches && tests/accept/03-async.sh
#   PARTS="speed mixed" tests/accept/03-async.sh     of: rules threads speed mixed matrix full
#
# full is the 648 runs of the default matrix (some ten minutes); it runs only when it is named. Reports stay in build/bench/async.
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BENCH=$ROOT/build/release/bench/stream_bench
LARDER=$ROOT/build/release/larder
OUT=$ROOT/build/bench/async
WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-accept.XXXXXX")
export ROOT WORK

. "$ROOT/tests/scenario/lib.sh"
trap 'stop_all; cd /; chmod -R u+rwX "$WORK"; rm -rf "$WORK"' EXIT
. "$ROOT/tests/accept/lib.rows.sh"
part() { case " ${PARTS:-rules threads speed mixed matrix} " in *" $1 "*) return 0 ;; esac; return 1; }
py() { /usr/bin/python3 "$ROOT/bench/$1.py" "${@:2}"; }
mkdir -p "$OUT"

echo "# $(date -u +%FT%TZ), $(nproc) processors, $(uname -sr)"

if part rules; then
	suite "rules of the scheduler (unit tests, with the fake backend where time matters)" MODE=debug unit T=test_scheduler
	suite "the same under the address sanitizer" MODE=asan unit T=test_scheduler
	suite "4 producers with cancels; a million random steps, every ticket completed once, gauges zero" MODE=release stress T=scheduler
fi

if part threads; then
	suite "the same with the thread sanitizer" MODE=tsan stress T=scheduler
	if command -v valgrind >/dev/null && [ -x "$ROOT/build/debug/tests/unit/vfs/test_scheduler" ]; then
		valgrind --quiet --trace-children=yes --log-file="$WORK/valgrind.%p" --leak-check=full \
			"$ROOT/build/debug/tests/unit/vfs/test_scheduler" --jobs 1 >"$WORK/out" 2>&1
		item "valgrind: lines of complaint" "$(cat "$WORK"/valgrind.* | wc -l)" -le 0
	else
		row "valgrind: lines of complaint" "not installed or not built" "" SKIP
	fi
fi

# limits TEXT FILE   every line of stream_limits.py as an item
limits() {
	while IFS=$'\t' read -r text figure sign limit; do
		if [ "$figure" = unseen ]; then
			row "$1$text" unseen "$sign $limit" SKIP
			continue
		fi
		case $sign in '<=') item "$1$text" "$figure" -le "$limit" ;; *) item "$1$text" "$figure" -ge "$limit" ;; esac
	done <"$2"
}

if part speed; then
	# The corpus of the parent's figures, and one whose blocks all differ (docs/internals/stream_bench.md).
	for data in period compressible,half,random; do
		py stream_corpus "$WORK/basic" --larder "$LARDER" --data "$data" >/dev/null || row "corpus" no yes FAIL
		name=${data%%,*}
		holds "$name: the grid runs, every length, first and last byte" "$BENCH" "$WORK/basic" --rounds 5 \
			--layouts loose,raw.pack,lz4.pack,raw.pack+anew,lz4.pack+anew,remote-warm,remote-cold
		cp "$WORK/out" "$OUT/grid-$name.txt"
		py stream_limits "$OUT/grid-$name.txt" >"$OUT/limits-$name.tsv"
		limits "$name: " "$OUT/limits-$name.tsv"
	done
	"$BENCH" "$WORK/basic" --layouts loose,parent-crc >"$OUT/grid-parent.txt" 2>&1
	grep '^row .*pass=warm' "$OUT/grid-parent.txt" |
		sed -E 's/^row layout=([^ ]*) workers=([^ ]*) .* p50_ns=([^ ]*) .* p99_ns=([^ ]*) mib_per_s=([^ ]*) .*/# \1, workers \2: p50 \3 ns, p99 \4 ns, \5 MiB\/s/'
fi

if part mixed; then
	{ echo "fs-r2-files 1 2500"; for i in $(seq 1000 3499); do printf '8192\tf%s/%s.bin\n' ${i:0:2} $i; done; } >"$WORK/many.tsv"
	py stream_corpus "$WORK/many" --larder "$LARDER" --list "$WORK/many.tsv" --data random >/dev/null
	holds "100 slow remote reads beside local ones: five pairs run, every byte" timeout 300 "$BENCH" "$WORK/many" --mixed
	cp "$WORK/out" "$OUT/mixed.txt"
	item "p99 of local warm reads with 100 slow remote reads by without, median of five" \
		"$(sed -n 's/.* median_ratio=\([0-9.]*\) .*/\1/p' "$OUT/mixed.txt")" -le 1.5
	item "workers busy with slow reads, mean of looks between local reads, worst pair" \
		"$(sed -n 's/.* mean_running=\([0-9.]*\)$/\1/p' "$OUT/mixed.txt" | sort -n | tail -1)" -le 0.5
fi

measure() { # output options...
	py stream_replay measure "$WORK/replay" --benchmark "$BENCH" --output "$OUT/$1" --compiler-description "$(gcc --version | head -1)" \
		--storage-description "$(df --output=fstype,source "$WORK" | tail -1)" "${@:2}"
}
if part matrix; then
	py stream_replay generate "$WORK/replay" --larder "$LARDER" --count 128 >/dev/null
	holds "the validation matrix of 81 runs, every byte compared, no allocation" measure validation --validation
	row "its runs" "$(wc -l <"$OUT/validation/runs.jsonl")" "81" "$([ "$(wc -l <"$OUT/validation/runs.jsonl")" -eq 81 ] && echo PASS || echo FAIL)"
fi
case " ${PARTS:-} " in *" full "*)
	py stream_replay generate "$WORK/replay" --larder "$LARDER" >/dev/null
	holds "the default matrix of 648 runs, every byte compared, no allocation" measure full
	row "its runs" "$(wc -l <"$OUT/full/runs.jsonl")" "648" "$([ "$(wc -l <"$OUT/full/runs.jsonl")" -eq 648 ] && echo PASS || echo FAIL)"
	;;
esac

echo "# $FAILED failed"
[ "$FAILED" -eq 0 ]
