#!/bin/bash
# fuzz.sh BUILD SECONDS [PART]   every libFuzzer target below BUILD/fuzz (whose name contains PART) for SECONDS.
# New inputs go to BUILD/corpus/NAME, so that a run adds nothing to the tree by itself; a crash is kept in
# tests/fuzz/crashes/NAME, where `make fuzz-replay` finds it from then on.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1 seconds=$2 part=${3:-} ran=0 bad=0
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_leaks=1:allocator_may_return_null=1}
for target in "$build"/fuzz/fuzz_*"$part"*; do
	[ -x "$target" ] || continue
	name=${target##*/fuzz_}
	[ -e "tests/fuzz/fuzz_$name.c" ] || continue
	mkdir -p "$build/corpus/$name" "tests/fuzz/crashes/$name"
	log=$build/corpus/$name.log
	dictionary=
	[ ! -e "tests/fuzz/$name.dict" ] || dictionary=-dict=tests/fuzz/$name.dict
	seeds=
	[ ! -d "tests/fuzz/corpus/$name" ] || seeds=tests/fuzz/corpus/$name
	if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 $dictionary \
		-artifact_prefix="tests/fuzz/crashes/$name/" "$build/corpus/$name" $seeds >"$log" 2>&1 </dev/null; then
		echo "ok fuzz_$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs in $seconds s"
	else
		echo "not ok fuzz_$name: see $log"
		tail -n 25 "$log"
		bad=$((bad + 1))
	fi
	rmdir "tests/fuzz/crashes/$name" 2>/dev/null
	ran=$((ran + 1))
done
rmdir tests/fuzz/crashes 2>/dev/null
[ "$ran" -gt 0 ] || { echo "fuzz: no target"; exit 1; }
echo "$((ran - bad)) passed, $bad failed"
[ "$bad" -eq 0 ]
