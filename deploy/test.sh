#!/bin/sh
# test.sh   installs what testing takes, builds everything, runs every suite; the last line counts the tests.
set -eu
cd "$(dirname "$0")/.."
sh deploy/setup.sh all
exec make -j2 --output-sync=target test
