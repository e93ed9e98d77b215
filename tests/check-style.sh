#!/bin/bash
# check-style.sh [ROOT]   what grep can see of the house's rules:
#   no banned call, no open end without an issue's number, no file of 1,000 lines, no descriptor or stream
#   opened without close-on-exec, no path of one machine, no trailing space in scripts.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
rc=0
fault() { # title, offending lines
	[ -z "$2" ] && return
	printf 'check-style: %s\n%s\n' "$1" "$2"
	rc=1
}
all() { find . \( -path ./build -o -path ./.git -o -path ./tests/should-fail -o -path ./bench/traces \) -prune -o -type f "$@" -print | sort; }
code=$(all -name '*.[ch]')
text=$(all \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name '*.md' -o -name Makefile -o -name '*.mk' \))
[ -n "$code" ] || { echo "check-style: no source"; exit 1; }
# Looks for a pattern in the files listed, comments of the form "style: why" excepted.
look() { printf '%s\n' "$1" | xargs -d '\n' grep -nE "$2" /dev/null | grep -v 'style: '; }

fault "banned call (use the bounded form)" "$(look "$code" '(^|[^a-z_])(strcpy|strcat|sprintf|vsprintf|strtok|gets|tmpnam|mktemp|atoi|atol|alloca|system)\(')"
fault "open end without an issue's number" "$(look "$text" '(^|[^A-Z])(TODO|FIXME|XXX)([^X(A-Z]|\([^#]|$)' | grep -v '/check-style\.sh:')"
fault "file of 1,000 lines or more" "$(printf '%s\n' "$code" | xargs -d '\n' wc -l | awk '$2 != "total" && $1 >= 1000 {print $2 ": " $1 " lines"}')"
fault "fopen without e (close-on-exec)" "$(look "$code" 'fopen\([^"]*"[rwa][b+]*"\)')"
fault "descriptor opened without O_CLOEXEC" "$(look "$code" '(^|[^a-z_])(open|openat)\(.*O_(RDONLY|WRONLY|RDWR|PATH)[^;]*\)' | grep -v O_CLOEXEC)"
fault "path of one machine" "$(look "$text" '(/home/[a-z]|/root/|/tmp/wt/)' | grep -v '/check-style\.sh:')"
fault "mutable global" "$(look "$code" '^static (unsigned |struct )?[a-z_0-9]+ \**[a-z_0-9]+( = [^;]*)?;' | grep -vE 'const |_Thread_local|_once_t|atomic_|/bench/|/tests/|style: ')"
[ $rc -ne 0 ] || echo "check-style: $(printf '%s\n' "$text" | wc -l) files"
exit $rc
