#!/bin/bash
# Every checker against inputs that it must refuse, and against one that it must accept: a checker that
# cannot fail, or that always fails, is worth nothing. Each input says in its first line where in a tree it
# would stand and what the checker must say: /* at: PATH; wants: TEXT */
# limit: 120
set -u
HERE=$ROOT/tests/should-fail
case_number=0

# Puts an input where it says it belongs, in a tree of its own, and tells where that is.
plant() { # input -> sets tree, at, wants
	case_number=$((case_number + 1))
	tree=$WORK/tree-$case_number
	at=$(sed -n '1s/.* at: \([^;]*\);.*/\1/p' "$1")
	wants=$(sed -n '1s/.* wants: \(.*\) \*\/$/\1/p' "$1")
	mkdir -p "$tree/$(dirname "$at")" && cp "$1" "$tree/$at"
	cp "$ROOT/.clang-format" "$ROOT/.clang-tidy" "$tree/"
}
# A checker must fail with the wanted words.
refuses() { # name wants command...
	local name=$1 wants=$2 out rc
	shift 2
	out=$("$@" 2>&1) && rc=0 || rc=$?
	if printf '%s\n' "$out" | grep -q ': skipped, '; then
		echo "skip $name: $out"
	elif [ $rc -eq 0 ]; then
		echo "not ok $name: accepted"
	elif ! printf '%s\n' "$out" | grep -qF "$wants"; then
		echo "not ok $name: refused without saying \"$wants\" but: $(printf '%s' "$out" | tail -1)"
	else
		echo "ok $name"
	fi
}
accepts() { # name command...
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then echo "ok $name"; else echo "not ok $name: refused: $(printf '%s' "$out" | tail -3)"; fi
}

for input in "$HERE"/layers/*.c; do
	plant "$input"
	refuses "layers/${input##*/}" "$wants" python3 "$ROOT/tests/check-layers.py" "$tree"
done
for input in "$HERE"/headers/*.h; do
	plant "$input"
	for compiler in gcc clang; do
		refuses "headers/${input##*/} $compiler" "$wants" env COMPILERS=$compiler \
			"CPPFLAGS=-I$tree" bash "$ROOT/tests/check-headers.sh" "$at"
	done
done
for input in "$HERE"/format/*.c; do
	plant "$input"
	refuses "format/${input##*/}" "$wants" bash "$ROOT/tests/check-format.sh" "$tree"
done
for input in "$HERE"/style/*.c; do
	plant "$input"
	[ "${input##*/}" != giant.c ] || yes '/* one more */' | head -1000 >>"$tree/$at"
	refuses "style/${input##*/}" "$wants" bash "$ROOT/tests/check-style.sh" "$tree"
done
for input in "$HERE"/tidy/*.c; do
	plant "$input"
	refuses "tidy/${input##*/}" "$wants" bash "$ROOT/tests/check-tidy.sh" "$tree/$at"
done

# What all of them must accept.
plant "$HERE/good.c"
accepts "layers accept" python3 "$ROOT/tests/check-layers.py" "$tree"
accepts "format accepts" bash "$ROOT/tests/check-format.sh" "$tree"
accepts "style accepts" bash "$ROOT/tests/check-style.sh" "$tree"
accepts "tidy accepts" bash "$ROOT/tests/check-tidy.sh" "$tree/$at"
printf '#ifndef X_H\n#define X_H\n#include <stdint.h>\nuint64_t ldr_x(void);\n#endif\n' >"$tree/common/x.h"
accepts "headers accept" env "CPPFLAGS=-I$tree" bash "$ROOT/tests/check-headers.sh" common/x.h
refuses "layers refuse an empty tree" "no source" python3 "$ROOT/tests/check-layers.py" "$WORK/home"
refuses "format refuses an empty tree" "no source" bash "$ROOT/tests/check-format.sh" "$WORK/home"
refuses "style refuses an empty tree" "no source" bash "$ROOT/tests/check-style.sh" "$WORK/home"

# Libraries, built on the spot.
built() { # name text -> a static and a shared library
	printf '%s\n' "$2" >"$WORK/$1.c"
	gcc -fPIC -c "$WORK/$1.c" -o "$WORK/$1.o" && ar rcs "$WORK/$1.a" "$WORK/$1.o" &&
		gcc -shared "$WORK/$1.o" -o "$WORK/$1.so"
}
built clean 'int ldr_x(void); int ldr_x(void) { return 1; }'
built seamed 'int ldr_seam_x; int ldr_x(void); int ldr_x(void) { return ldr_seam_x; }'
built wanting 'extern int ldr_seam_x; int ldr_x(void); int ldr_x(void) { return ldr_seam_x; }'
built foreign 'int ldr_x; int helper(void); int helper(void) { return ldr_x; }'
built nothing 'static int x __attribute__((unused));'
accepts "seams accept" bash "$ROOT/tests/check-seams.sh" "$WORK/clean.a"
refuses "seams refuse one defined" ldr_seam_x bash "$ROOT/tests/check-seams.sh" "$WORK/seamed.a"
refuses "seams refuse one used" ldr_seam_x bash "$ROOT/tests/check-seams.sh" "$WORK/wanting.a"
refuses "seams refuse a missing library" "cannot read" bash "$ROOT/tests/check-seams.sh" "$WORK/none.a"
accepts "symbols accept" bash "$ROOT/tests/check-symbols.sh" "$WORK/clean.so"
refuses "symbols refuse a foreign name" helper bash "$ROOT/tests/check-symbols.sh" "$WORK/foreign.so"
refuses "symbols refuse none" "exports nothing" bash "$ROOT/tests/check-symbols.sh" "$WORK/nothing.so"
