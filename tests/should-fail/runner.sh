#!/bin/bash
# The runner of the suites itself: what must count as a failure does. It runs a copy of itself over a small
# tree of scripts that misbehave.
# limit: 120
set -u
TREE=$WORK/tree
mkdir -p "$TREE/tests/golden" "$TREE/build/tests/unit/m" "$TREE/build/tests/stress" "$TREE/tests/stress" \
	"$TREE/build/tests/fuzz" "$TREE/tests/fuzz" "$TREE/tests/unit/m"
cp "$ROOT/tests/run.sh" "$TREE/tests/run.sh"

# One script (or program) in the tree, the suite run over it, its last line and exit status compared.
expect() { # name suite wanted-exit wanted-last-line wanted-text
	local out rc last
	out=$(cd "$TREE" && env -u OUT -u T BUILD="$TREE/build" PROGRAMS="$TREE/build" bash tests/run.sh $2 2>&1) && rc=0 || rc=$?
	last=$(printf '%s\n' "$out" | tail -1)
	if [ "$rc" -ne "$3" ]; then
		echo "not ok $1: exit status $rc, wanted $3"
	elif [ "$last" != "$4" ]; then
		echo "not ok $1: last line \"$last\", wanted \"$4\""
	elif ! printf '%s\n' "$out" | grep -qF -- "${5:-}"; then
		echo "not ok $1: does not say \"$5\""
	else
		echo "ok $1"
	fi
}
script() { printf '%s\n' "$@" >"$TREE/tests/golden/a.sh"; }
program() { # path text...
	local path=$1
	shift
	printf '%s\n' '#!/bin/bash' "$@" >"$TREE/build/$path" && chmod +x "$TREE/build/$path"
	: >"$TREE/$path.c"
}

expect "an empty suite fails" golden 1 "0 passed, 1 failed" "ran no test"
expect "an unknown suite fails" nonsense 2 "run.sh: no suite called nonsense"
script 'echo ok one' 'echo ok two' 'echo skip three: no tool'
expect "cases are counted" golden 0 "2 passed, 0 failed" "skipped: golden/a.sh: three: no tool"
expect "suites are added up, an empty one fails all" "golden regress" 1 "2 passed, 1 failed" "suite regress: ran no test"
script 'echo ok one' 'echo not ok two: because'
expect "a failed case fails" golden 1 "1 passed, 1 failed" "not ok golden/a.sh: two: because"
script 'true'
expect "a script without cases fails" golden 1 "0 passed, 1 failed" "ran no test"
script 'echo skip one: not here'
expect "a suite of nothing but skips fails" golden 1 "0 passed, 1 failed" "ran no test"
script 'echo ok one' 'exit 3'
expect "an exit status fails" golden 1 "1 passed, 1 failed" "exit status 3 without a failed case"
script '# limit: 1' 'echo ok one' 'sleep 30'
expect "a time limit holds" golden 1 "1 passed, 1 failed" "outlived its limit"
script 'echo ok one' 'sleep 30 &'
expect "a process left behind fails" golden 1 "1 passed, 1 failed" "left processes running"
rm "$TREE/tests/golden/a.sh"

program tests/stress/a 'exit 0'
expect "a stress program passes" stress 0 "1 passed, 0 failed"
program tests/stress/a 'exit 66'
expect "a stress program fails" stress 1 "0 passed, 1 failed" "exit status 66"
program tests/fuzz/fuzz_a 'echo replayed 2 inputs'
expect "a replay passes" fuzz-replay 0 "1 passed, 0 failed"
program tests/fuzz/fuzz_a 'echo replayed 0 inputs'
expect "a replay of nothing fails" fuzz-replay 1 "0 passed, 1 failed" "0 inputs replayed"
program tests/fuzz/fuzz_a 'echo replayed 2 inputs; kill -ABRT $$'
expect "a replay that crashes fails" fuzz-replay 1 "0 passed, 1 failed"

tap='for a; do case $a in --tap=*) tap=${a#--tap=} ;; esac; done'
program tests/unit/m/test_a "$tap" 'printf "ok - s::a  (0.00s)\nok - s::b # SKIP off\n" >"$tap"'
expect "a unit program passes" unit 0 "1 passed, 0 failed" "skipped: m/test_a s::b"
program tests/unit/m/test_a "$tap" 'printf "ok - s::a  (0.00s)\nnot ok - s::b  (0.00s)\n" >"$tap"; exit 1'
expect "a unit program fails" unit 1 "1 passed, 1 failed" "not ok m/test_a s::b"
program tests/unit/m/test_a "$tap" 'printf "TAP version 13\n1..0\n" >"$tap"'
expect "a unit program without tests fails" unit 1 "0 passed, 1 failed" "ran no test"
program tests/unit/m/test_a 'kill -SEGV $$'
expect "a unit program that crashes fails" unit 1 "0 passed, 1 failed" "exit status 139"
rm "$TREE/tests/unit/m/test_a.c"
expect "a program whose source is gone does not count" unit 1 "0 passed, 1 failed" "suite unit: ran no test"
