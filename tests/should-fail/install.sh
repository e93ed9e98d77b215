#!/bin/bash
# deploy/install.sh refuses public headers that would not work once installed.
set -u
cd "$WORK" || exit 1
mkdir -p build a b
: >build/liblarder.a
: >build/liblarder.so
printf '#include "a/inner.h"\n#include <stdint.h>\n' >a/outer.h
printf 'typedef int inner;\n' >a/inner.h
printf '#include "a/x_priv.h"\n' >a/leaks.h
: >a/x_priv.h
: >b/inner.h
export DESTDIR=$WORK/there PREFIX=/usr LIBDIR=/usr/lib VERSION=1 SOVERSION=0 PKGS=x
case_of() { # name wanted-status wanted-text header...
	local name=$1 wanted=$2 text=$3 out rc
	shift 3
	rm -rf there
	out=$(sh "$ROOT/deploy/install.sh" build "$@" 2>&1) && rc=0 || rc=$?
	if [ "$rc" -ne "$wanted" ] || ! printf '%s\n' "$out" | grep -qF -- "$text"; then
		echo "not ok $name: exit status $rc: $out"
	else
		echo "ok $name"
	fi
}
case_of "a private header is not installed" 1 "a/x_priv.h is private" a/leaks.h
case_of "two headers of one name" 1 "two public headers are called inner.h" a/outer.h b/inner.h
case_of "what a header includes is installed with it" 0 "" a/outer.h
if grep -qx '#include <larder/inner.h>' there/usr/include/larder/outer.h && [ -e there/usr/include/larder/inner.h ]; then
	echo "ok includes are rewritten"
else
	echo "not ok includes are rewritten: $(cat there/usr/include/larder/outer.h)"
fi
