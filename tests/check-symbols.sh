#!/bin/bash
# check-symbols.sh LIBRARY.so   fails if the shared library exports a name without the ldr_ prefix, or nothing.
set -u
names=$(nm -D --defined-only "$1" 2>/dev/null | awk '{print $NF}' | sed 's/@.*//') || exit 1
[ -n "$names" ] || { echo "check-symbols: $1 exports nothing"; exit 1; }
foreign=$(printf '%s\n' "$names" | grep -vE '^(ldr_|_init$|_fini$|__(asan|ubsan|tsan|gcov|llvm)_)')
if [ -n "$foreign" ]; then
	printf 'check-symbols: %s exports names of others\n%s\n' "$1" "$foreign"
	exit 1
fi
echo "check-symbols: $(printf '%s\n' "$names" | wc -l) names, all ldr_"
