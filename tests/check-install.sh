#!/bin/bash
# check-install.sh MODE WERROR   installs into a temporary folder and uses it as a stranger would: every installed
# header compiles alone, with gcc and clang, and a program links with the shared and with the static library.
set -u
cd "$(dirname "$0")/.." || exit 1
there=$(mktemp -d "${TMPDIR:-/tmp}/larder-install.XXXXXX") || exit 1
trap 'rm -rf "$there"' EXIT
rc=0
fault() { echo "check-install: $1"; rc=1; }

${MAKE:-make} -s MODE="$1" WERROR="$2" install DESTDIR="$there" PREFIX=/opt/larder >"$there/log" 2>&1 ||
	{ tail -5 "$there/log"; echo "check-install: make install failed"; exit 1; }
root=$there/opt/larder
export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$there
[ "$(pkg-config --modversion larder)" ] || fault "larder.pc is not found"
cflags=$(pkg-config --cflags larder)
[ -e "$root/include/larder/larder.h" ] || fault "larder.h is not installed"
for header in "$root"/include/larder/*.h; do
	if grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$header"; then fault "${header##*/} includes by a path of the source tree"; fi
	for compiler in gcc clang; do
		printf '#include <larder/%s>\n' "${header##*/}" |
			$compiler -std=gnu11 -fsyntax-only -Wall -Wextra -Werror $cflags -x c - || fault "${header##*/} does not compile alone with $compiler"
	done
done
cat >"$there/use.c" <<'C'
#include <stdio.h>
#include <larder/larder.h>
int main(void)
{
	struct ldr_error err = { 0 };

	return ldr_fail(&err, LDR_EINVAL, "code %d", 7) == LDR_EINVAL ? puts(err.text) < 0 : 1;
}
C
# The static library with the system's shared ones, which is how it is used; the sysroot is for our own file only.
system="$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --libs $(pkg-config --print-requires-private larder)) -lmbedx509 -lmbedcrypto -pthread"
gcc -std=gnu11 $cflags "$there/use.c" -L"$root/lib" -llarder -o "$there/shared" || fault "does not link with liblarder.so"
gcc -std=gnu11 $cflags "$there/use.c" "$root/lib/liblarder.a" $system -o "$there/static" || fault "does not link with liblarder.a"
[ "$(LD_LIBRARY_PATH=$root/lib "$there/shared")" = "code 7" ] || fault "the program with liblarder.so does not run"
[ "$("$there/static")" = "code 7" ] || fault "the program with liblarder.a does not run"
for program in larder larderd; do
	[ ! -e "$root/bin/$program" ] || "$root/bin/$program" --version >/dev/null || fault "$program --version fails"
done
[ $rc -eq 0 ] && echo "check-install: $(ls "$root/include/larder" | wc -l) headers, two libraries"
exit $rc
