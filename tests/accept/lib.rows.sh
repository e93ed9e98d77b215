# lib.rows.sh   the lines of the acceptance lists; source it behind tests/scenario/lib.sh. FAILED counts.
FAILED=0

row() { # text figure limit verdict
	printf '%-86s %16s  %-12s %s\n' "$1" "$2" "$3" "$4"
	[ "$4" != FAIL ] || FAILED=$((FAILED + 1))
}

# item TEXT FIGURE OP LIMIT
item() {
	local sign='<='
	[ "$3" != -ge ] || sign='>='
	case $(check_number x "$2" "$3" "$4") in ok*) row "$1" "$2" "$sign $4" PASS ;; *) row "$1" "${2:-none}" "$sign $4" FAIL ;; esac
}

# holds TEXT CMD...   a yes or no
holds() { if "${@:2}" >"$WORK/out" 2>"$WORK/err"; then row "$1" yes yes PASS; else row "$1" no yes FAIL; tail -n 3 "$WORK/err" "$WORK/out"; fi; }

# suite TEXT MAKE-ARGUMENTS...   failed cases of a suite that ran at least one.
suite() {
	local good bad
	make -s -C "$ROOT" "${@:2}" >"$WORK/suite.out" 2>&1
	read -r good _ bad _ < <(tail -n 1 "$WORK/suite.out" | grep -E '^[0-9]+ passed, [0-9]+ failed')
	[ "${good:-0}" -gt 0 ] || bad=${bad:-1}
	item "$1: failed cases (of $((${good:-0} + ${bad:-1})))" "${bad:-1}" -le 0
	grep 'not ok ' "$WORK/suite.out"
}
