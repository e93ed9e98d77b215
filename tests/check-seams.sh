#!/bin/bash
# check-seams.sh LIBRARY   fails if a production library holds a fault seam, by the symbol table.
set -u
symbols=$(nm "$1" 2>/dev/null) || { echo "check-seams: cannot read $1"; exit 1; }
found=$(printf '%s\n' "$symbols" | grep -E ' ldr_seam_')
if [ -n "$found" ]; then
	printf 'check-seams: %s holds test seams\n%s\n' "$1" "$found"
	exit 1
fi
echo "check-seams: none in $1"
