#!/bin/bash
# check-tidy.sh [FILE...]   clang-tidy with the project's limits (default: every .c of the modules).
# From the environment: CPPFLAGS, JOBS.
set -u
if [ $# -eq 0 ]; then
	cd "$(dirname "$0")/.." || exit 1
	mapfile -t files < <(find common packs cache vfs client server bench -name '*.c' 2>/dev/null | sort)
else
	files=("$@")
fi
[ ${#files[@]} -gt 0 ] || { echo "check-tidy: no source"; exit 1; }
eval "flags=(${CPPFLAGS:--I. -D_GNU_SOURCE})"
out=$(printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "${JOBS:-2}" sh -c \
	'n=$1; shift; flags=; while [ "$n" -gt 0 ]; do flags="$flags '"'"'$1'"'"'"; shift; n=$((n-1)); done
	eval "clang-tidy --quiet --warnings-as-errors=\"*\" \"\$@\" -- -std=gnu11 $flags" 2>&1' sh "${#flags[@]}" "${flags[@]}")
rc=$?
printf '%s\n' "$out" | grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter|^$'
echo "check-tidy: ${#files[@]} files, exit status $rc"
[ $rc -eq 0 ]
