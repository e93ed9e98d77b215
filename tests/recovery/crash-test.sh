#!/bin/bash
# crash-test.sh gate|full [OUT]   every publication cut short and judged, as one verdict.
#
# Runs the parts one after the other: killed processes and failing calls (cuts), then block states on real file
# systems (crashlab). Records go to OUT (default $BUILD/crash-test-<form>): cuts.jsonl, cases.jsonl, failures/.
# The last line gives cuts, states, mutants caught and violations. Exit status: 0 all well and no count is below
# what the form owes; 1 otherwise; 77 when a facility is missing and nothing else is wrong.
#
# MINUTES bounds the block states: nothing is begun after so many minutes, items are taken in an order that mixes all
# sorts, and what was not reached is listed and counted ("bounded: ..."). No count is owed then; each item that was begun
# is judged as ever.
#
# From the environment: BUILD (default build/release) holds the programs, JOBS how many workers, SEED, LEGS
# (say ext4,xfs) narrows the file systems, and no count is owed then.
set -u
cd "$(dirname "$0")/../.." || exit 1
form=${1:-gate}
BUILD=${BUILD:-build/release}
OUT=${2:-$BUILD/crash-test-$form}
case $form in
gate) owed_cuts=288 owed_states=20000 ;;
full) owed_cuts=288 owed_states=100000 ;;
*) sed -n '2,15p' "$0"; exit 2 ;;
esac
[ -z "${LEGS:-}" ] || owed_states=1 owed_cuts=1
[ -z "${MINUTES:-}" ] || owed_states=1
rm -rf "$OUT"
mkdir -p "$OUT" || exit 1
CRASHLAB_REVISION=${CRASHLAB_REVISION:-$(tests/recovery/revision.sh)} || exit 1
export CRASHLAB_REVISION
rc=0 unavailable=0

note() { # exit status of a part
	case $1 in
	0) ;;
	77) unavailable=1 ;;
	*) rc=1 ;;
	esac
}

# ---- killed processes ----------------------------------------------------------------------------------
# On each file system: 324 cuts, more than the 96 that are owed there.
cuts=0 cut_violations=0
for leg in $(tr , ' ' <<<"${LEGS:-ext4,xfs,btrfs}"); do
	"$BUILD/tests/recovery/cli/crashlab" within --fs "$leg" --out "$OUT" -- /bin/sh -c \
		'mkdir cuts && exec "$0" cuts "$1"' "$(realpath "$BUILD/tests/recovery/cuts")" \
		"$(realpath "$OUT")/cuts-$leg.jsonl" >"$OUT/cuts-$leg.log" 2>&1
	note $?
	sed "s/^\(ok\|not ok\|skip\|cuts\) /\1 $leg: /" "$OUT/cuts-$leg.log"
	cuts=$((cuts + $(sed -n 's/^cuts \([0-9]*\) .*/\1/p' "$OUT/cuts-$leg.log" | grep . || echo 0)))
	cut_violations=$((cut_violations + $(sed -n 's/^cuts .* violations \([0-9]*\)$/\1/p' "$OUT/cuts-$leg.log" | grep . || echo 0)))
done

# ---- block states --------------------------------------------------------------------------------------
SUBJECTS=$(realpath "$OUT")/subjects
BUILD=$(realpath "$BUILD")
export SUBJECTS BUILD
tests/recovery/prepare.sh "$SUBJECTS" || exit 1
tests/recovery/campaign.sh "$form" >"$OUT/campaign" || exit 1
"$BUILD/tests/recovery/cli/crashlab" run --campaign "$OUT/campaign" --out "$OUT" --jobs "${JOBS:-3}" \
	--seed "${SEED:-1}" ${MINUTES:+--minutes "$MINUTES"} ${LEGS:+--fs "$LEGS"} | tee "$OUT/blocks.log"
note "${PIPESTATUS[0]}"
counts=$(sed -n 's/^\([0-9]*\) recordings, \([0-9]*\) states, mutants caught \([0-9]*\) of \([0-9]*\), violations \([0-9]*\),.*/\1 \2 \3 \4 \5/p' \
	"$OUT/blocks.log")
read -r recordings states caught mutants violations <<<"${counts:-0 0 0 0 0}"
violations=$((violations + $cut_violations))

# ---- verdict -------------------------------------------------------------------------------------------
bounded=$(sed -n 's/^bounded: [0-9]* minutes, \([0-9]*\) of \([0-9]*\) items not reached$/, \1 of \2 items not reached/p' "$OUT/blocks.log")
if [ $unavailable -eq 0 ]; then
	if [ "$cuts" -lt $owed_cuts ]; then
		echo "not enough cuts: $cuts, owed $owed_cuts"
		rc=1
	fi
	if [ "$states" -lt "$owed_states" ]; then
		echo "not enough states: $states, owed $owed_states"
		rc=1
	fi
	if [ "$mutants" -eq 0 -a -z "${MINUTES:-}" ] || [ "$caught" -lt "$mutants" ]; then
		echo "mutants went by: $caught of $mutants caught"
		rc=1
	fi
fi
[ "$violations" -eq 0 ] || rc=1
echo "crash-test $form: cuts $cuts, recordings $recordings, states $states, mutants caught $caught of $mutants, violations $violations, $SECONDS s$bounded"
[ $rc -ne 0 ] || [ $unavailable -eq 0 ] || exit 77
exit $rc
