#!/bin/bash
# run.sh SUITE... runs whole suites of tests and counts every single test.
#
#   unit            Criterion programs below $BUILD/tests/unit, counted by their TAP report
#   fuzz-replay     fuzz targets below $BUILD/tests/fuzz over their corpus and kept crashes
#   stress          plain programs below $BUILD/tests/stress: one test each, exit 0 passes
#   golden scenario scenario-quick regress recovery should-fail
#                   scripts that print "ok NAME", "not ok NAME: why" or "skip NAME: why" per case
#
# A script may say "# limit: SECONDS" (default 120) and "# size: quick|full|ci" (default full) in its head.
# A test program that runs no test, outlives its limit, exits non-zero without a failed case, or leaves
# processes behind has failed. So has a suite that ran no test.
#
# From the environment: BUILD (default build/debug) holds the test programs, PROGRAMS (default $BUILD)
# larder and larderd, JOBS how many programs at once, T a part of the path to narrow a suite to, KEEP=1
# keeps the temporary folders. Scripts get LARDER, LARDERD, SEAM_LARDER, SEAM_LARDERD, BUILD, ROOT, WORK
# (an empty folder of their own), LARDER_CORPORA, and a HOME and LARDER_CACHE inside WORK.
#
# The last line of the output is "N passed, N failed"; exit 0 only if nothing failed.
set -u
export LC_ALL=C.UTF-8
# The distribution's programs first: a version manager's shim before python costs half a second a call.
export PATH=/usr/bin:$PATH:/usr/sbin:/sbin
ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT" || exit 1

absolute() { case $1 in /*) echo "$1" ;; *) echo "$ROOT/$1" ;; esac; }
export ROOT
BUILD=$(absolute "${BUILD:-build/debug}")
PROGRAMS=$(absolute "${PROGRAMS:-$BUILD}")
export BUILD PROGRAMS
export LARDER=$PROGRAMS/larder LARDERD=$PROGRAMS/larderd
export SEAM_LARDER=$BUILD/seams/larder SEAM_LARDERD=$BUILD/seams/larderd
export LARDER_CORPORA=${LARDER_CORPORA:-${XDG_CACHE_HOME:-$HOME/.cache}/larder-corpora}
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_leaks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}
export KEEP=${KEEP:-0}
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY no_proxy NO_PROXY

# ---- one test program, in a process of its own: writes OUT/<n>.res with lines "ok|not ok|skip NAME…" -----

# Runs a command in its own process group under a time limit; afterwards nobody of that group may live. A zombie
# does not: where nobody collects orphans (the first process of a container), it stays for ever.
bounded() { # limit log command...
	local limit=$1 log=$2 group rc left
	shift 2
	timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 </dev/null &
	group=$!
	wait "$group"
	rc=$?
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		left=$(pgrep -g "$group" -r R,S,D,T,t,I -a) || break
		sleep 0.1
	done
	if [ -n "$left" ]; then
		kill -KILL -- "-$group" 2>/dev/null
		echo "left running: $left" >>"$log"
		[ "$rc" -ne 0 ] || rc=199
	fi
	return "$rc"
}

# What a finished program is worth: its own lines, and one more where its end contradicts them.
judge() { # name exit-status results
	local name=$1 rc=$2 res=$3
	if [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ]; then
		echo "not ok $name: outlived its limit or was killed" >>"$res"
	elif [ "$rc" -eq 199 ]; then
		echo "not ok $name: left processes running" >>"$res"
	elif [ "$rc" -ne 0 ] && ! grep -q '^not ok' "$res"; then
		echo "not ok $name: exit status $rc without a failed case" >>"$res"
	elif ! grep -qE '^(ok|not ok|skip) ' "$res"; then
		echo "not ok $name: ran no test" >>"$res"
	fi
}

one_unit() { # program results log
	local name=${1#"$BUILD"/tests/unit/} tap=$2.tap rc
	bounded 300 "$3" "$1" --jobs 1 --tap="$tap" --color=never
	rc=$?
	sed -nE "s@^ok - ([^ ]*).*# SKIP.*@skip $name \1@p; t; s@^(ok|not ok) - ([^ ]*)(.*)@\1 $name \2:\3@p" \
		"$tap" 2>/dev/null >"$2"
	rm -f "$tap"
	judge "$name" "$rc" "$2"
}

one_replay() { # program results log
	local name=${1##*/} rc inputs
	bounded 120 "$3" "$1" "tests/fuzz/corpus/${name#fuzz_}" "tests/fuzz/crashes/${name#fuzz_}"
	rc=$?
	inputs=$(sed -n 's/^replayed \([0-9]*\) inputs$/\1/p' "$3")
	if [ "$rc" -eq 0 ] && [ "${inputs:-0}" -gt 0 ]; then
		echo "ok $name over $inputs inputs" >"$2"
	else
		echo "not ok $name: exit status $rc, ${inputs:-0} inputs replayed" >"$2"
	fi
}

one_stress() { # program results log
	local name=${1##*/} rc
	bounded 300 "$3" "$1"
	rc=$?
	if [ "$rc" -eq 0 ]; then echo "ok $name" >"$2"; else echo "not ok $name: exit status $rc" >"$2"; fi
}

one_script() { # script results log
	local name=${1#tests/} limit rc
	limit=$(sed -n '1,40s/^# limit: *\([0-9]*\).*/\1/p' "$1" | head -1)
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-test.XXXXXX") || return 1
	mkdir "$WORK/home" "$WORK/tmp"
	export WORK HOME=$WORK/home TMPDIR=$WORK/tmp XDG_CACHE_HOME=$WORK/home/.cache LARDER_CACHE=$WORK/cache
	case $1 in
	*.py) bounded "${limit:-120}" "$3" python3 "$1" ;;
	*) bounded "${limit:-120}" "$3" bash "$1" ;;
	esac
	rc=$?
	sed -nE "s#^(ok|not ok|skip) #\1 $name: #p" "$3" >"$2"
	judge "$name" "$rc" "$2"
	if [ "$KEEP" = 1 ]; then echo "kept $WORK" >>"$3"; else chmod -R u+rwX "$WORK" && rm -rf "$WORK"; fi
}

if [ "${1:-}" = --one ]; then
	kind=$2 number=$3 program=$4
	"one_$kind" "$program" "$OUT/$number.res" "$OUT/$number.log"
	if grep -q '^not ok' "$OUT/$number.res"; then
		# One write, so that two failures at once do not mix.
		text=$(echo "---- $program"; tail -n 60 "$OUT/$number.log"; grep '^not ok' "$OUT/$number.res")
		printf '%s\n' "$text"
	fi
	exit 0
fi

# ---- suites ----------------------------------------------------------------------------------------

programs_in() { find "$1" -type f -executable 2>/dev/null | sort; }
scripts_in() { find "$1" -maxdepth 1 -type f \( -name '*.sh' -o -name '*.py' \) ! -name 'lib.*' 2>/dev/null | sort; }
sized() { # sizes: of the scripts on standard input, those that say so
	local script size
	while IFS= read -r script; do
		size=$(sed -n '1,40s/^# size: *\([a-z]*\).*/\1/p' "$script" | head -1)
		case " $1 " in *" ${size:-full} "*) echo "$script" ;; esac
	done
}
members() { # suite -> "kind program" lines
	case $1 in
	unit) programs_in "$BUILD/tests/unit" | sed 's/^/unit /' ;;
	fuzz-replay) programs_in "$BUILD/tests/fuzz" | sed 's/^/replay /' ;;
	stress) programs_in "$BUILD/tests/stress" | sed 's/^/stress /' ;;
	scenario) scripts_in tests/scenario | sized "quick full ${LARDER_CI:+ci}" | sed 's/^/script /' ;;
	scenario-quick) scripts_in tests/scenario | sized quick | sed 's/^/script /' ;;
	recovery) echo "script tests/recovery/run.sh" ;;
	golden | regress | should-fail) scripts_in "tests/$1" | sed 's/^/script /' ;;
	*) echo "run.sh: no suite called $1" >&2; exit 2 ;;
	esac
}
# A program whose source is gone stays in the build folder; it is not part of the suite any more.
with_source() {
	local kind program source
	while read -r kind program; do
		source=${program#"$BUILD"/}
		case $kind in script) ;; *) [ -e "$source.c" ] || continue ;; esac
		case $program in *"${T:-}"*) echo "$kind $program" ;; esac
	done
}
count() { cat "$1"/*.res 2>/dev/null | grep -c "$2"; }

[ $# -gt 0 ] || { sed -n '2,20p' "$0"; exit 2; }
ALL=$(mktemp -d "${TMPDIR:-/tmp}/larder-run.XXXXXX") || exit 1
trap 'rm -rf "$ALL"' EXIT
total_passed=0 total_failed=0 total_skipped=0
for suite in "$@"; do
	began=$SECONDS
	export OUT=$ALL/$suite
	mkdir -p "$OUT"
	list=$(members "$suite") || exit 2
	printf '%s\n' "$list" | sed '/^$/d' | with_source | awk '{print $1, NR, $2}' |
		xargs -r -L 1 -P "${JOBS:-2}" bash "$0" --one
	passed=$(count "$OUT" '^ok ') failed=$(count "$OUT" '^not ok ') skipped=$(count "$OUT" '^skip ')
	cat "$OUT"/*.res 2>/dev/null | sed -n 's/^skip /skipped: /p'
	if [ $((passed + failed)) -eq 0 ]; then
		echo "suite $suite: ran no test"
		failed=1
	fi
	echo "suite $suite: $passed passed, $failed failed, $skipped skipped, $((SECONDS - began)) s"
	total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
	total_skipped=$((total_skipped + skipped))
done
[ "$total_skipped" -eq 0 ] || echo "$total_skipped skipped (see above)"
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ]
