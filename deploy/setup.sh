#!/bin/sh
# setup.sh [demo|all]   installs what Larder needs and this machine lacks, from the distribution's packages.
#
#   demo   what building and trying it takes
#   all    that, and what testing and measuring it takes (the default)
#
# As root, or by sudo; where neither is to be had it prints the line to run and exits 1. It does nothing, in
# a blink, when everything is there, asks for a new package list only when the present one does not do, and
# starts no service.
set -u
export LC_ALL=C

# PACKAGE, or PACKAGE/COMMAND where any package that brings the command will do.
BUILD='make/make gcc/gcc libc6-dev binutils/nm pkg-config/pkg-config libcurl4-openssl-dev libmicrohttpd-dev
liblz4-dev libzstd-dev libxxhash-dev libjansson-dev libutf8proc-dev libssl-dev libmbedtls-dev'
DEMO='ca-certificates xz-utils/xz python3/python3 npm/npm'
TEST='git/git procps/pgrep diffutils/cmp clang/clang clang-format/clang-format clang-tidy/clang-tidy
libcriterion-dev nginx-light/nginx casync/casync strace/strace curl/curl
g++ libphysfs-dev python3-matplotlib fuse3/fusermount3 libfuse3-dev e2fsprogs/mkfs.ext4 xfsprogs/mkfs.xfs btrfs-progs/mkfs.btrfs'

case ${1:-all} in
demo) wanted="$BUILD $DEMO" ;;
all) wanted="$BUILD $DEMO $TEST" ;;
*) sed -n '2,6p' "$0"; exit 2 ;;
esac
PATH=$PATH:/usr/sbin:/sbin

# Sets missing to the packages that are not there.
look() {
	missing= packages=
	for entry in $wanted; do
		case $entry in
		*/*) command -v "${entry#*/}" >/dev/null 2>&1 || missing="$missing ${entry%/*}" ;;
		*) packages="$packages $entry" ;;
		esac
	done
	# Only "ii" is installed; a package that dpkg does not know is not listed at all.
	have=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' $packages 2>/dev/null | sed -n 's/^ii *//p' | tr '\n' ' ')"
	for package in $packages; do
		case $have in *" $package "*) ;; *) missing="$missing $package" ;; esac
	done
	# clang's sanitizer and fuzzer runtimes are a package of their own, named by its version.
	case $wanted in *clang*) ;; *) return 0 ;; esac
	if command -v clang >/dev/null 2>&1 &&
		[ -z "$(find "$(clang -print-resource-dir)/lib" -name 'libclang_rt.fuzzer*.a' 2>/dev/null | head -1)" ]; then
		missing="$missing libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
	fi
}

if ! command -v dpkg-query >/dev/null 2>&1; then
	echo "setup: this is no Debian; install what corresponds to: $(echo $wanted | sed 's#/[^ ]*##g')" >&2
	exit 1
fi
look
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
	as_root=
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
	as_root=sudo
else
	echo "setup: missing packages, and no way to become root; run as root:" >&2
	echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
	exit 1
fi

# While this runs, packages that bring a service (nginx) must not start it: its port may be somebody else's.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap '$as_root rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null && $as_root chmod 755 $policy
fi
update() {
	$as_root apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq update
}
install() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
		-qq install -y --no-install-recommends $missing </dev/null
}
log=$(mktemp) || exit 1
# Twice, because the version of clang is known only when it is there.
for round in 1 2; do
	look
	[ -n "$missing" ] || break
	echo "setup: installing$missing" >&2
	# The first try fails where there is no list of packages yet, or one that names files that are gone.
	if ! install >"$log" 2>&1 && ! { update && install; } >"$log" 2>&1; then
		tail -20 "$log" >&2
		rm -f "$log"
		echo "setup: could not install$missing" >&2
		exit 1
	fi
done
rm -f "$log"
