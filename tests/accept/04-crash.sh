#!/bin/bash
# 04-crash.sh   the list "What must hold" of the crash proofs, each item as a command: a line per item with text, figure, limit and
# PASS, FAIL or SKIP. As root; some twenty minutes; by hand:
#
#   make && tests/accept/04-crash.sh [kills]
#   PARTS="gate kills disk" tests/accept/04-crash.sh
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
cd "$ROOT" || exit 1
KILLS=${1:-200}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-accept.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
FAILED=0
row() { # text figure limit verdict
	printf '%-86s %16s  %-12s %s\n' "$1" "$2" "$3" "$4"
	[ "$4" != FAIL ] || FAILED=$((FAILED + 1))
}
at_least() { if [ "${2:-0}" -ge "$3" ]; then row "$1" "$2" ">= $3" PASS; else row "$1" "${2:-none}" ">= $3" FAIL; fi; }
at_most() { if [ "${2:-999999}" -le "$3" ]; then row "$1" "$2" "<= $3" PASS; else row "$1" "${2:-none}" "<= $3" FAIL; fi; }
part() { case " ${PARTS:-gate kills disk} " in *" $1 "*) return 0 ;; esac; return 1; }
# number AFTER FILE   the number behind a text in the last line
number() { grep -E '^(crash-test|kills) ' "$2" | tail -n 1 | sed -n "s/.*$1 \\([0-9]*\\).*/\\1/p"; }
echo "# $(date -u +%FT%TZ), $(nproc) processors, $(uname -sr)"

# ---- cuts, block states, broken publishers ----
if part gate; then
	make crash-test >"$WORK/gate" 2>&1
	rc=$?
	for leg in ext4 xfs btrfs; do
		at_least "killed publications on $leg" "$(sed -n "s/^cuts $leg: \\([0-9]*\\) .*/\\1/p" "$WORK/gate")" 96
	done
	at_least "block states in the gate" "$(number states "$WORK/gate")" 20000
	at_most "violations" "$(number violations "$WORK/gate")" 0
	at_most "seconds of the gate" "$(number 'violations [0-9]*,' "$WORK/gate")" 360
	caught=$(number "mutants caught" "$WORK/gate")
	of=$(grep '^crash-test' "$WORK/gate" | tail -n 1 | sed -n 's/.*mutants caught [0-9]* of \([0-9]*\).*/\1/p')
	for mutant in no-fsync no-dirsync rename-first unlink-first early-ack in-place short-write ignore-fsync lying-device; do
		at_least "caught on every leg that must: $mutant" "$(grep -c "^ok mutant-$mutant\\." "$WORK/gate")" 4
	done
	for subject in cache fetch larderd; do
		at_least "states of $subject, legs without a violation" "$(grep -c "^ok $subject\\." "$WORK/gate")" 4
		at_least "caught: $subject without syncs" "$(grep -c "^ok mutant-$subject-no-sync\\." "$WORK/gate")" 4
	done
	at_least "states of batch, legs without a violation" "$(grep -c "^ok batch\\." "$WORK/gate")" 4
	for mutant in no-file-sync no-folder-sync no-plan-sync no-record-sync rename-first early-ack; do
		at_least "caught on ext4, XFS and btrfs: batch $mutant" "$(grep -c "^ok mutant-batch-$mutant\\." "$WORK/gate")" 3
	done
	at_least "caught on ext4 and XFS: larderd without syncs of folders" "$(grep -c "^ok mutant-larderd-no-folder-sync\\." "$WORK/gate")" 2
	at_least "states of 512-byte sectors and of started writeback, legs without a violation" \
		"$(grep -cE "^ok (sectors|writeback)-replace\\." "$WORK/gate")" 8
	at_least "all mutants of the gate" "$caught" "${of:-1}"
	at_most "exit status of make crash-test" $rc 0
fi

# ---- killed clients and servers ----
if part kills; then
	BUILD=build/release tests/recovery/kills.sh "$KILLS" >"$WORK/kills" 2>&1
	rc=$?
	clients=$(sed -n 's/^ok \(readers\|installations\|publishers\): \([0-9]*\) .*/\2/p' "$WORK/kills" | awk '{ s += $1 } END { print s + 0 }')
	at_least "kill -9 of clients under load" "$clients" "$KILLS"
	at_least "kill -9 of servers under load" "$(sed -n 's/^ok servers: \([0-9]*\) .*/\1/p' "$WORK/kills")" "$KILLS"
	at_most "rounds with a wrong byte, a start that failed, or more than 8 MiB fetched again" \
		"$(number "wrong rounds" "$WORK/kills")" 0
	# One open pack, and two hundredths of what was missing for the tree, its map and small gaps.
	at_most "most bytes fetched again after one kill" "$(number "most fetched again" "$WORK/kills")" \
		$(((8 << 20) + (20 << 20) / 50))
	at_most "exit status" $rc 0
	grep '^#' "$WORK/kills"
fi

# ---- full, read-only and failing cache folders ----
if part disk; then
	make MODE=debug unit T=cache/test_disk >"$WORK/unit" 2>&1
	at_most "the counter says so, and it recovers by itself (unit tests of the disk cache): exit status" $? 0
	for scenario in 24-failures 27-cache-trouble; do
		make scenario T=$scenario >"$WORK/scenario" 2>&1
		at_most "cache folders in trouble, reads go on (scenario $scenario): exit status" $? 0
		at_least "cases of $scenario that passed" "$(sed -n 's/^suite scenario: \([0-9]*\) passed.*/\1/p' "$WORK/scenario")" 20
	done
fi
[ $FAILED -eq 0 ]
