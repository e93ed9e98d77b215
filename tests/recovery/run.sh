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

# A part that could not begin prints no "not ok" line: each status counts.
FAILED=0
mkdir "$FAST/cuts" || exit 1
"$PROGRAMS_OF_RECOVERY/cuts" "$FAST/cuts" "$WORK/cuts.jsonl" || FAILED=1

# ---- every state that POSIX allows, for right and for broken publishers -------------------------------

SIMULATED=0
simulate() { # [--must-fail] -- OPTION...
	local expect=()
	[ "$1" != --must-fail ] || { expect=("$1"); shift; }
	SIMULATED=$((SIMULATED + 1))
	"$PROGRAMS_OF_RECOVERY/simulate" "${expect[@]}" "$FAST/simulate-$SIMULATED" \
		"$PROGRAMS_OF_RECOVERY/publish" "$@"
	case $? in 0 | 3) ;; *) FAILED=1 ;; esac # 3: this machine does not allow it
	rm -rf "$FAST/simulate-$SIMULATED" "$FAST/simulate-$SIMULATED.marks"
}
for before in --create --replace; do
	for policy in folder file none; do
		simulate $before --policy $policy --size 0
		simulate $before --policy $policy --size 12305
	done
	# Versions of another length each, up to twice the size.
	simulate $before --policy folder --size 4000 --versions 5
	simulate $before --policy file --size 4000 --versions 3
done
# What removes the old file first is broken only where there is one.
for mutant in no-fsync no-dirsync rename-first early-ack in-place short-write; do
	simulate --must-fail --create --mutant $mutant
	simulate --must-fail --replace --mutant $mutant
done
simulate --must-fail --replace --mutant unlink-first
simulate --replace --mutant correct

# ---- block states: real file systems, as root ----------------------------------------------------------

CRASHLAB_REVISION=${CRASHLAB_REVISION:-$("$ROOT/tests/recovery/revision.sh")} || exit 1
export CRASHLAB_REVISION
# What this machine lacks is a skip line of crashlab's and its exit status 77.
"$ROOT/tests/recovery/campaign.sh" quick >"$WORK/campaign" || exit 1
"$PROGRAMS_OF_RECOVERY/cli/crashlab" run --campaign "$WORK/campaign" --out "$WORK/blocks"
case $? in 0 | 77) ;; *) FAILED=1 ;; esac

# ---- the harness itself, killed ---------------------------------------------------------------------------

"$ROOT/tests/recovery/selftest.sh" 3 "${SEED:-1}"
case $? in 0 | 77) ;; *) FAILED=1 ;; esac

# ---- killed clients and servers, the short form ---------------------------------------------------------

env -u WORK BUILD="$BUILD" "$ROOT/tests/recovery/kills.sh" 4 "${SEED:-1}" || FAILED=1
exit $FAILED
