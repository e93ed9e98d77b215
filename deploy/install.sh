#!/bin/sh
# install.sh BUILD HEADER...   what `make install` does: programs, libraries, headers and the .pc file.
#
# Headers go flat into include/larder; their includes of each other ("common/error.h") become <larder/error.h>,
# so that a program outside the tree needs no path but the usual one. What a public header includes is installed
# with it. <larder/larder.h> includes them all.
# From the environment: DESTDIR PREFIX LIBDIR VERSION SOVERSION PKGS.
set -eu
build=$1
shift
include=$DESTDIR$PREFIX/include/larder
libs=$DESTDIR$LIBDIR
bin=$DESTDIR$PREFIX/bin

mkdir -p "$include" "$libs/pkgconfig" "$bin"
for program in larder larderd; do
	[ ! -e "$build/$program" ] || install -m 755 "$build/$program" "$bin/$program"
done
install -m 644 "$build/liblarder.a" "$libs/liblarder.a"
install -m 755 "$build/liblarder.so" "$libs/liblarder.so.$SOVERSION"
ln -sfn "liblarder.so.$SOVERSION" "$libs/liblarder.so"

# The headers named, and those of the project that they include, each once.
headers=
more=$*
while [ -n "$more" ]; do
	next=
	for header in $more; do
		case " $headers " in *" $header "*) continue ;; esac
		headers="$headers $header"
		next="$next $(sed -nE 's!^[[:space:]]*#[[:space:]]*include[[:space:]]*"([a-z_0-9/]+\.h)".*!\1!p' "$header")"
	done
	more=$(echo $next)
done

all=$(mktemp)
trap 'rm -f "$all"' EXIT
for header in $headers; do
	name=${header##*/}
	case $name in *_priv.h)
		echo "install: $header is private, but a public header includes it" >&2
		exit 1 ;;
	esac
	if grep -qx "#include <larder/$name>" "$all"; then
		echo "install: two public headers are called $name" >&2
		exit 1
	fi
	echo "#include <larder/$name>" >>"$all"
	sed -E 's!^([[:space:]]*#[[:space:]]*include[[:space:]]*)"[a-z_0-9/]*/([a-z_0-9]+\.h)"!\1<larder/\2>!' "$header" >"$include/$name"
	chmod 644 "$include/$name"
done
{
	echo '/* Everything that liblarder offers to programs. */'
	echo '#ifndef LARDER_LARDER_H'
	echo '#define LARDER_LARDER_H'
	cat "$all"
	echo '#endif'
} >"$include/larder.h"
chmod 644 "$include/larder.h"

cat >"$libs/pkgconfig/larder.pc" <<PC
prefix=$PREFIX
libdir=$LIBDIR
includedir=\${prefix}/include

Name: larder
Description: Game assets as content-addressed packs, over HTTP and through a virtual file system
Version: $VERSION
Requires.private: $PKGS
Libs: -L\${libdir} -llarder
Libs.private: -lmbedx509 -lmbedcrypto -pthread
Cflags: -I\${includedir}
PC
