#!/bin/bash
# Releases that a malicious publisher could have signed, and archives that anybody could have made: each is refused when
# it is parsed, before the target is touched (T49).
# limit: 240
. "$ROOT/tests/scenario/lib.sh"

python3 "$ROOT/tests/scenario/lib.hostile.py" "$LARDER" "$WORK"
check_status "nothing was written beside it" 1 sh -c 'ls -d x ../x /x ../out | grep .'
