# same.sh   sourced: same A B [NAME]   whether B is exactly the tree A of prepare.sh: names, kinds, modes, bytes, link targets.
# .larder and NAME at B's root are left out of account.
same() {
	(cd "$2" && find . \( -path ./.larder -o -path "./${3:-.larder}" \) -prune -o -printf '%P %y %m %l\n') |
		sed 's/ d [0-7]* / d /;s/ l [0-7]* / l /' | sort | cmp - "$1.names" >&2 &&
		diff -r --no-dereference -x .larder -x "${3:-.larder}" "$1" "$2" >&2
}
