#!/bin/bash
# check-headers.sh HEADER...   every header compiles as a translation unit of its own, twice over, with
# gcc and with clang. From the environment: CPPFLAGS, JOBS, COMPILERS (default "gcc clang").
set -u
STRICT='-std=gnu11 -fsyntax-only -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror'

if [ "${1:-}" = --one ]; then
	# Twice, so that a missing guard shows.
	printf '#include "%s"\n#include "%s"\n' "$3" "$3" |
		eval "$2 $STRICT ${CPPFLAGS:--I. -D_GNU_SOURCE} -x c -" || { echo "$3: does not compile alone with $2"; exit 1; }
	exit 0
fi
if [ $# -eq 0 ]; then
	echo "check-headers: no header yet"
	exit 0
fi
export CPPFLAGS
rc=0
for compiler in ${COMPILERS:-gcc clang}; do
	command -v "$compiler" >/dev/null || { echo "check-headers: $compiler is not installed"; exit 1; }
	printf '%s\0' "$@" | xargs -0 -n 1 -P "${JOBS:-2}" bash "$0" --one "$compiler" || rc=1
done
echo "check-headers: $# headers, exit status $rc"
exit $rc
