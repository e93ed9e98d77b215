# subject.sh   sourced by the subjects that are scripts.

# Sets BUILD to the programs, where nobody did to those that prepare.sh used: a kept case is replayed by hand. Without them, or
# without what prepare.sh made, nothing can be said: exit status 77.
find_programs() { # DIR of prepare.sh
	BUILD=${BUILD:-$(cat "$1/build" 2>/dev/null)}
	[ ! -x "$BUILD/larder" ] || [ ! -x "$BUILD/larderd" ] || [ ! -r "$1/fetch.json" ] || return 0
	echo "$1: not of prepare.sh, or no programs in \"$BUILD\" (set BUILD)"
	exit 77
}

# One line to the recorder, where there is one.
mark() { [ -z "${CRASHLAB_MARK:-}" ] || printf '%s\n' "$1" >"$CRASHLAB_MARK"; }

# same A B [NAME]   whether B is exactly the tree A of prepare.sh: names, kinds, modes, bytes, link targets.
# .larder and NAME at B's root are left out of account.
same() {
	(cd "$2" && find . \( -path ./.larder -o -path "./${3:-.larder}" \) -prune -o -printf '%P %y %m %l\n') |
		sed 's/ d [0-7]* / d /;s/ l [0-7]* / l /' | sort | cmp - "$1.names" >&2 &&
		diff -r --no-dereference -x .larder -x "${3:-.larder}" "$1" "$2" >&2
}
