#!/bin/bash
# revision.sh   prints which source this is: its commit, with "-dirty" when files differ from it; outside of a repository a digest over all
# sources. Records of the crash tests carry it (CRASHLAB_REVISION).
cd "$(dirname "$0")/../.." || exit 1
git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null && exit
digest=$(find . \( -path ./build -o -path ./.git \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum) || exit 1
echo "tree-${digest%% *}"
