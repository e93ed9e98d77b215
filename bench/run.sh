#!/bin/bash
# run.sh   every benchmark in turn, by hand on a quiet machine; reports go to build/bench. Assets come from
# $LARDER_CORPORA (bench/corpora.sh brings them); what needs assets that are not there is said to be skipped.
set -u
cd "$(dirname "$0")/.." || exit 1
corpora=${LARDER_CORPORA:-${XDG_CACHE_HOME:-$HOME/.cache}/larder-corpora}
mkdir -p build/bench
status=0
for name in wesnoth openmoji mame warzone2100; do
	last=$(ls -d "$corpora/$name"/[0-9] 2>/dev/null | tail -1)
	if [ -z "$last" ] || [ "$(basename "$last")" -lt 2 ]; then
		echo "skipped: delivery of $name (no corpus)"
		continue
	fi
	before=$corpora/$name/$(($(basename "$last") - 1))
	echo "delivery of $name, $(basename "$before") to $(basename "$last")"
	python3 bench/delivery.py "$before" "$last" --rounds "${ROUNDS:-5}" --csv "build/bench/delivery-$name.csv" || status=1
done
exit $status
