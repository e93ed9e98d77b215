#!/bin/bash
# deploy/setup.sh decides rightly what to do, tried with stand-ins for dpkg-query, id, sudo and apt-get in front of
# the real ones. Nothing is installed.
# size: quick
# limit: 60
. "$ROOT/tests/scenario/lib.sh"

# A PATH on which only what setup.sh itself runs exists, so that every package counts as missing unless said.
mkdir bin stubs
for tool in sh sed tr cut find head cat rm tail mktemp env tee chmod; do
	ln -s "$(command -v $tool)" bin/$tool
done
stub() { printf '#!/bin/sh\n%s\n' "$2" >"stubs/$1" && chmod +x "stubs/$1"; }
setup() { env -i PATH="$WORK/stubs:$WORK/bin" CALLS="$WORK/calls" "$(command -v sh)" "$ROOT/deploy/setup.sh" "$@"; }

stub id 'echo 1000'
check_status "not Debian: says what corresponds" 1 setup
check_says "names a library" libcurl4-openssl-dev
check_status "an unknown set is a usage error" 2 setup everything

stub dpkg-query 'exit 1'
check_status "neither root nor sudo: fails" 1 setup
check_says "prints the line to run" "apt-get install -y --no-install-recommends make gcc"
check_says "all: with Criterion" libcriterion-dev
check_status "the smaller set fails too" 1 setup demo
if grep -q criterion err; then not_ok "demo: without Criterion" "$(cat err)"; else ok "demo: without Criterion"; fi

stub dpkg-query 'shift 3; for p; do [ "$p" = liblz4-dev ] && echo "rc $p" || echo "ii $p"; done'
# Every command that setup.sh looks for instead of a package is there.
commands=$(grep -oE "[a-z0-9-]+/[a-z0-9.-]+" <(sed -n "/^BUILD=/,/^case/p" "$ROOT/deploy/setup.sh") | cut -d/ -f2)
check_number "setup.sh looks for commands" "$(echo "$commands" | wc -l)" -ge 15
for tool in $commands; do
	stub "$tool" 'echo 14'
done
mkdir -p res/lib && : >res/lib/libclang_rt.fuzzer-x86_64.a
stub clang "case \$1 in -print-resource-dir) echo $WORK/res ;; *) echo 14.0.6 ;; esac"
check_status "a removed package is missing" 1 setup
check_says "and only that one" "--no-install-recommends liblz4-dev"
rm res/lib/*
check_status "clang without its runtime" 1 setup
check_says "the runtime has clang's version" "liblz4-dev libclang-rt-14-dev"
: >res/lib/libclang_rt.fuzzer-x86_64.a

# sudo that can do everything and does nothing but write down what it was asked; apt-get fails until updated.
stub sudo 'echo "$*" >>"$CALLS"
case "$*" in
*update*) : >"$CALLS.updated" ;;
*install*) [ -e "$CALLS.updated" ] && : >"$CALLS.installed" || { echo "no list"; exit 1; } ;;
esac'
stub dpkg-query 'shift 3; for p; do [ "$p" = liblz4-dev ] && [ ! -e "$CALLS.installed" ] || echo "ii $p"; done'
check "by sudo: an install that fails asks for new lists and is tried again" setup
check_number "an install that failed is tried again once" "$(grep -c "install -y" calls)" -eq 2
check_number "new lists are asked for once" "$(grep -c " update" calls)" -eq 1
check "asks no question" grep -q 'DEBIAN_FRONTEND=noninteractive.*liblz4-dev$' calls
rm calls
check "all there: nothing to do" setup
if [ -e calls ]; then not_ok "and nothing done" "$(cat calls)"; else ok "and nothing done"; fi
if [ -s out ] || [ -s err ]; then not_ok "and nothing said" "$(cat out err)"; else ok "and nothing said"; fi
