#!/bin/sh
# test.sh   installs what testing takes, brings the asset packages that tests use, builds everything, runs every suite.
# The last line counts the tests. Where no package archive is reachable, the tests on real assets say that they
# were skipped.
set -eu
cd "$(dirname "$0")/.."
sh deploy/setup.sh all
corpora=${LARDER_CORPORA:-${XDG_CACHE_HOME:-$HOME/.cache}/larder-corpora}
bash bench/corpora.sh "$corpora" ci >/dev/null || echo "test: not all asset packages could be had" >&2
exec make -j2 test
