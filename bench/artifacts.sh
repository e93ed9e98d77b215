#!/bin/bash
# artifacts.sh [OUT]   evidence of a run of the streaming benchmarks on this machine, into OUT (default build/bench/artifacts):
#
#   machine.txt       processor, memory, kernel, distribution, file systems, compilers, revision
#   grid.txt          the basic grid with all rows, in rounds (ROUNDS, default 3); the page cache is dropped before, where
#                     DISPOSABLE=1 says that this hurts nobody
#   limits.tsv        the limits that must hold, looked up in it
#   matrix/           families x layouts x workers, three warm repetitions: environment.json, runs.jsonl, summary.json
#   strace-*.txt      system calls of separate runs of each layout, counted by strace: all of a run, and of its reading alone
#
# BUILD=build/release holds the programs. Some three minutes.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build/release}
out=${1:-build/bench/artifacts}
bench=$build/bench/stream_bench
work=$(mktemp -d "${TMPDIR:-/tmp}/larder-artifacts.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
py() { /usr/bin/python3 "bench/$1.py" "${@:2}"; }
fail() { echo "artifacts.sh: $1" >&2; exit 1; }
[ -x "$bench" ] || fail "$bench is not built (make benches)"

{
	date -u +%FT%TZ
	git rev-parse HEAD
	git status --porcelain --untracked-files=no
	uname -a
	sed -n 's/^PRETTY_NAME=//p' /etc/os-release
	lscpu
	free -m
	df -hT "$work" .
	gcc --version | head -1
	clang --version 2>/dev/null | head -1
	uptime
} >"$out/machine.txt" 2>&1

# ---- timings ----
py stream_corpus "$work/basic" --larder "$build/larder" || fail "no corpus"
if [ "${DISPOSABLE:-0}" = 1 ]; then
	sync
	echo 3 >/proc/sys/vm/drop_caches || fail "the page cache cannot be dropped"
	echo "page cache dropped" >>"$out/machine.txt"
fi
"$bench" "$work/basic" --rounds "${ROUNDS:-3}" \
	--layouts loose,raw.pack,lz4.pack,raw.pack+anew,lz4.pack+anew,remote-warm,remote-cold >"$out/grid.txt" || fail "the grid"
"$bench" "$work/basic" --layouts loose,parent-crc --workers 0,1,4 >"$out/grid-parent.txt" || fail "the parent's row"
py stream_limits "$out/grid.txt" >"$out/limits.tsv"

# ---- the basic matrix ----
py stream_replay generate "$work/replay" --larder "$build/larder" || fail "no corpus"
py stream_replay measure "$work/replay" --benchmark "$bench" --output "$out/matrix" --validation \
	--compiler-description "$(gcc --version | head -1), $("$bench" --version)" \
	--storage-description "$(df --output=fstype,source "$work" | tail -1)" || fail "the matrix"

# ---- system calls, never in a run that is timed ----
for layout in loose raw.pack lz4.pack; do
	for workers in 0 1 4; do
		strace -f -c -o "$out/strace-$layout-$workers.txt" "$bench" "$work/basic" --layouts $layout --workers $workers >/dev/null || fail "strace"
		strace -f -o "$work/log" -e trace=all "$bench" "$work/basic" --layouts $layout --workers $workers >/dev/null || fail "strace"
		# Reading begins behind the line of the first pass and ends with that of the warm one.
		awk '/write\(1, "row .*pass=first/ { inside = 1; next } /write\(1, "row .*pass=warm/ { inside = 0 }
			inside && match($0, /^[0-9]+ +[a-z_0-9]+\(/) { name = $2; sub(/\(.*/, "", name); n[name]++ }
			END { for (name in n) print n[name], name }' "$work/log" | sort -rn >"$out/strace-$layout-$workers-warm.txt"
	done
done
echo "artifacts in $out"
