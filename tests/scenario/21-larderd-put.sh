#!/bin/bash
# larderd taking uploads: framing, tokens, broken connections, a killed server, a full disk.
# size: quick
# limit: 110
. "$ROOT/tests/scenario/lib.sh"

TOKEN=lrd_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG
digest=$(printf %s "$TOKEN" | sha256sum | cut -d' ' -f1)
cat >tokens.json <<JSON
{"tokens": [{"id": "00000001", "digest": "$digest", "scope": "publish", "channels": "*", "note": "", "created": 1}]}
JSON

# put URL FILE   the status of an upload; its text is in $WORK/said.
put() { curl -s -o said -w '%{http_code}' -H "Authorization: Bearer $TOKEN" -T "$2" "$1"; }

start_larderd store --tokens tokens.json || not_ok "larderd serves" "see above"
python3 "$ROOT/tests/scenario/lib.http.py" --put "$URL" "$TOKEN" store

# ---- the token file changes while it runs ---------------------------------------------------------------

key=keys/$(printf 'k%.0s' $(seq 43)).pub
echo none >body
check "a body that is no key" test "$(put "$URL/$key" body)" = 422
echo '{"tokens": []}' >tokens.new && mv tokens.new tokens.json
check "a revoked token is refused at once" test "$(put "$URL/$key" body)" = 401
echo nonsense >tokens.json
check "a broken token file lets nobody in" test "$(put "$URL/$key" body)" = 503
check "reading goes on" curl -sf -o got "$URL/FORMAT"
stop "$PID"
check_status "and nobody starts with it" 4 "$LARDERD" --store store --listen 127.0.0.1:0 --tokens tokens.json
cat >tokens.json <<JSON
{"tokens": [{"id": "00000001", "digest": "$digest", "scope": "publish", "channels": "*", "note": "", "created": 1}]}
JSON

# ---- killed in the middle of an upload --------------------------------------------------------------------

temporaries() { find store -name '.larder-tmp*' | grep -q .; }
start_larderd store --tokens tokens.json || not_ok "larderd serves again" "see above"
pack=packs/00/$(printf '0%.0s' $(seq 64)).pack
head -c 3000000 /dev/zero >zeros
start slow curl -s --limit-rate 100K -H "Authorization: Bearer $TOKEN" -T zeros "$URL/$pack"
slow=$PID
check "an upload has begun" wait_for 20 temporaries
for pid in "${STARTED[@]}"; do [ "$pid" = "$slow" ] || kill -KILL "$pid" 2>/dev/null; done
stop "$slow"
check "what was killed is left" temporaries
start_larderd store --tokens tokens.json || not_ok "larderd starts after a kill" "see above"
check_status "and swept by the next" 1 temporaries
check "the next upload is judged" test "$(put "$URL/$pack" zeros)" = 422
stop "$PID"

# ---- a full disk -------------------------------------------------------------------------------------------

mkdir small
if mount -t tmpfs -o size=2m none small 2>/dev/null; then
	start_larderd small/store --tokens tokens.json || not_ok "larderd on a small disk" "see above"
	check "a pack that does not fit: no space" test "$(put "$URL/$pack" zeros)" = 507
	check_number "and nothing is kept of it" "$(du -sk small | cut -f1)" -lt 200
	check "the store goes on" curl -sf -o got "$URL/FORMAT"
	stop "$PID"
	umount small
else
	skip "a pack that does not fit: no space" "no right to mount a small disk"
fi
