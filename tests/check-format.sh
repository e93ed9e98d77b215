#!/bin/bash
# check-format.sh [ROOT]   clang-format finds nothing to change in any .c or .h below ROOT.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
list=$(find . \( -path ./build -o -path ./.git -o -path ./tests/should-fail \) -prune -o -name '*.[ch]' -print | sort)
[ -n "$list" ] || { echo "check-format: no source"; exit 1; }
# Each version has its own idea of the same style; the tree is formatted by this one.
version=$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')
if [ "$version" != 14 ]; then
	echo "check-format: skipped, clang-format is $version, not 14"
	exit 0
fi
printf '%s\n' "$list" | xargs clang-format --style=file --dry-run -Werror || exit 1
echo "check-format: $(printf '%s\n' "$list" | wc -l) files"
