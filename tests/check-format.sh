#!/bin/bash
# check-format.sh [ROOT]   clang-format finds nothing to change in any .c or .h below ROOT.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
list=$(find . \( -path ./build -o -path ./.git -o -path ./tests/should-fail \) -prune -o -name '*.[ch]' -print | sort)
[ -n "$list" ] || { echo "check-format: no source"; exit 1; }
printf '%s\n' "$list" | xargs clang-format --style=file --dry-run -Werror || exit 1
echo "check-format: $(printf '%s\n' "$list" | wc -l) files"
