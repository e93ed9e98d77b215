#!/bin/bash
# The scenario helpers themselves: trees, comparisons, the two static servers, stopping.
# size: quick
# limit: 60
. "$ROOT/tests/scenario/lib.sh"

make_tree one 1
make_tree again 1
make_tree two 2
same_tree "the same seed gives the same tree" one again
check_status "another seed gives another tree" 1 python3 "$ROOT/tests/scenario/lib.compare.py" one two
chmod 600 again/README.txt
check_status "a mode is compared" 1 python3 "$ROOT/tests/scenario/lib.compare.py" one again
chmod 644 again/README.txt
ln -sfn elsewhere again/dangling
check_status "a link's target is compared" 1 python3 "$ROOT/tests/scenario/lib.compare.py" one again
ln -sfn not/there again/dangling
check "or links are left out" python3 "$ROOT/tests/scenario/lib.compare.py" one again --without-links
printf x | dd of=again/sound/theme.ogg bs=1 seek=1000 conv=notrunc status=none
check_status "bytes are compared" 1 python3 "$ROOT/tests/scenario/lib.compare.py" one again
echo '{"a": {"b": [1, 2.5]}}' >doc.json
check "json reads below an array" test "$(json a.b.1 doc.json)" = 2.5
check_number "fractions compare" 0.84 -le 0.85

start_python one && ok "python serves" || not_ok "python serves" "see above"
python_url=$URL
check "python gives a file" curl -sf -o got "$python_url/sound/theme.ogg"
check "python's file is whole" cmp got one/sound/theme.ogg
check "python ignores a range" curl -sf -r 10-19 -o got "$python_url/sound/theme.ogg"
check_number "and sends everything" "$(stat -c %s got)" -eq 700000
if start_nginx one; then ok "nginx serves"; else not_ok "nginx serves" "see above"; fi
nginx=$PID
check "nginx gives a range" curl -sf -r 10-19 -o got "$URL/sound/theme.ogg"
check_number "of ten bytes" "$(stat -c %s got)" -eq 10
stop "$nginx"
check_status "a stopped nginx answers no more" 7 curl -s -o got "$URL/README.txt"
if start_nginx one && start_nginx two; then ok "two at once"; else not_ok "two at once" "see above"; fi
