#!/bin/bash
# The main job through larderd: tokens, publishing, fetching, updating, reading; who is refused and how; a lost race;
# a killed publisher and a failed upload, which the next run makes good; the end of a server with an upload under way.
# Covers T44 and T45 (two publishers in one store; a failed upload is not taken for one that is there) and T22 (no
# request for several ranges).
# limit: 240
. "$ROOT/tests/scenario/lib.sh"

make_tree one 1
make_tree two 2
"$LARDER" keygen key >keygen.log

# ---- tokens ------------------------------------------------------------------------------------------

check "add a token that may publish" "$LARDER" token add --tokens tokens.json --scope publish --note "build machine"
cp out token
check_number "the token alone is printed" "$(wc -c <token)" -eq 48
check_number "the file is secret" "$(stat -c %a tokens.json)" -eq 600
if grep -qF "$(cat token)" tokens.json; then not_ok "the file does not hold it" "it does"; else ok "the file does not hold it"; fi
check "one for other channels" "$LARDER" token add --tokens tokens.json --scope publish --channel 'beta*'
cp out token-beta
check "one for reading, the default" "$LARDER" token add --tokens tokens.json
cp out token-read
check "one that is revoked later" "$LARDER" token add --tokens tokens.json --scope publish --json
json token >token-gone
gone=$(json id)
check "list" "$LARDER" token list --tokens tokens.json --json
check_number "four tokens" "$(python3 -c 'import json; print(len(json.load(open("out"))["tokens"]))')" -eq 4
check "the scope is told" test "$(json tokens.2.scope) $(json tokens.1.channels)" = "read beta*"
check_status "no such action" 2 "$LARDER" token frobnicate --tokens tokens.json
check_status "no such scope" 2 "$LARDER" token add --tokens tokens.json --scope write
check_status "no file given" 2 "$LARDER" token add
check_status "revoke what is not there" 3 "$LARDER" token revoke --tokens tokens.json 00000000
check_says "it is named" "00000000"
printf 'lrd_%043d\n' 0 >token-wrong

# ---- the job -----------------------------------------------------------------------------------------

start_larderd store --tokens tokens.json --quiet || not_ok "larderd serves" "see above"
server=$PID server_url=$URL

publish() { # dir [option...]
	local dir=$1
	shift
	"$LARDER" publish "$dir" --to "$URL" --channel live --key key --token-file token --json "$@"
}
# channel_digest [NAME]   of the channel's bytes, asked from the server itself.
channel_digest() { curl -s "$server_url/channels/${1:-live}" | sha256sum; }

check_status "nothing published yet: not found" 3 "$LARDER" fetch "$URL#live" inst --trust key.pub
check_says "the channel is named" '"live"'
check "publish the first release" publish one --note first
check_number "sequence 1" "$(json release.sequence)" -eq 1
check "fetch" "$LARDER" fetch "$URL#live" inst --trust key.pub --json
same_tree "installed" one inst
check "publish the second release" publish two
check_number "sequence 2" "$(json release.sequence)" -eq 2
check_number "only new blocks" "$(json new_blocks)" -lt 80
check "update" "$LARDER" fetch "$URL#live" inst --json
same_tree "updated" two inst
check_number "most bytes are reused" "$(json bytes_reused)" -gt 1000000
check "fetch again" "$LARDER" fetch "$URL#live" inst --json
check_number "one request" "$(json requests)" -eq 1
check "the older release by number" "$LARDER" fetch "$URL#live@1" older --json
same_tree "the older release" one older
check "cat" sh -c '"$0" cat "$1#live" levels/world.map | cmp - two/levels/world.map' "$LARDER" "$URL"
check "ls" "$LARDER" ls "$URL#live" icons
check "stat" "$LARDER" stat "$URL#live" sound/theme.ogg --json
check_number "its length" "$(json bytes)" -eq 700004
check "log" "$LARDER" log "$URL#live" --json
check "newest first, with the note" test "$(json releases.0.sequence) $(json releases.1.note)" = "2 first"
check "diff" "$LARDER" diff "$URL#live@1" "$URL#live" --json
check_number "removed paths" "$(json removed)" -eq 21
check "verify the installation" "$LARDER" verify inst
check "verify the store" "$LARDER" verify "$URL#live" --deep
check "export" "$LARDER" export "$URL#live" live.pack
check "install from the export" "$LARDER" fetch live.pack from-export --offline
same_tree "installed from the export" two from-export
check_status "unknown channel: not found" 3 "$LARDER" fetch "$URL#nightly" nothing --trust key.pub
check_says "it is named" '"nightly"'
check_status "unknown release: not found" 3 "$LARDER" cat "$URL#live@77" README.txt
check_status "unknown path: not found" 3 "$LARDER" cat "$URL#live" no/such/file
check_says "it is named" "no/such/file"
check "the same store as a folder" "$LARDER" fetch store#live from-folder --trust key.pub
same_tree "and the same bytes" two from-folder

# ---- who may not publish -----------------------------------------------------------------------------

before=$(channel_digest)
refused() { # name text option...
	check_status "$1: not allowed" 8 "$LARDER" publish one --to "$URL" --channel live --key key "${@:3}"
	check_says "$1: told why" "$2"
	check "$1: the channel stays" test "$(channel_digest)" = "$before"
}
refused "no token" "needs a token"
refused "a wrong token" "not known here" --token-file token-wrong
refused "a token of another channel" '"beta*"' --token-file token-beta
refused "a token for reading" "may read, not publish" --token-file token-read
check "revoke" "$LARDER" token revoke --tokens tokens.json "$gone"
refused "a revoked token" "not known here" --token-file token-gone
check "a token for its own channel" "$LARDER" publish one --to "$URL" --channel beta-7 --key key --token-file token-beta
"$LARDER" keygen stranger >keygen.log
check_status "another key than the channel's: integrity" 4 "$LARDER" publish one --to "$URL" --channel live \
	--key stranger --trust key.pub --token-file token
check_says "both keys are named" "signed by key"
check "the channel stays" test "$(channel_digest)" = "$before"
check_status "a token file that is not there" 3 "$LARDER" publish one --to "$URL" --channel live --key key --token-file none
mkdir open-store
start_larderd open-store --quiet || not_ok "larderd without tokens serves" "see above"
check_status "a server without tokens takes nothing" 8 "$LARDER" publish one --to "$URL" --channel live --key key --token-file token
check_says "it says so" "publishing is off"
stop "$PID"

# ---- nobody there ------------------------------------------------------------------------------------

port=$(free_port)
check_status "fetch from a server that is down: network" 5 "$LARDER" fetch "http://127.0.0.1:$port#live" down --trust key.pub
check_says "the host is named" "127.0.0.1:$port"
check_status "nothing was made" 1 test -e down
check_status "publish to a server that is down: network" 5 "$LARDER" publish one --to "http://127.0.0.1:$port" \
	--channel live --key key --token-file token
check_says "the host is named" "127.0.0.1:$port"
check_status "an installation without its server: network" 5 "$LARDER" fetch "http://127.0.0.1:$port#live" inst --trust key.pub
same_tree "stays as it was" two inst

# ---- a lost race -------------------------------------------------------------------------------------

cat >meanwhile.sh <<'SH'
#!/bin/sh
exec "$LARDER" publish two --to "$1" --channel live --key key --token-file token --note "$2"
SH
sequence() { curl -s "$server_url/channels/live" | python3 -c '
import base64, json, sys
print(json.loads(base64.urlsafe_b64decode(sys.stdin.read().split(".")[1] + "=="))["sequence"])'; }
race() { start_proxy "$server_url" --before PUT /channels/live 1 "sh meanwhile.sh $server_url $1"; }
race faster || not_ok "the proxy serves" "see $WORK"
check_status "somebody published in between: conflict" 6 publish one
check_says "told so" "412"
# The slower one's record is there already, as sequence 3.
check_number "the faster one's release stands" "$(sequence)" -eq 4
stop "$PID"
race again || not_ok "the proxy serves again" "see $WORK"
check "with --rebase it follows" publish one --rebase
check_number "at the second attempt" "$(json attempts)" -eq 2
check_number "with a sequence above all" "$(sequence)" -eq 7
stop "$PID"
URL=$server_url
check "log goes on over what lost" "$LARDER" log "$URL#live" --json
check "the loser's record is not in it" test "$(json releases.1.note)" = again
check "update to the winner" "$LARDER" fetch "$URL#live" inst
same_tree "the winner's tree" one inst

# Four at once, on the folder and the server: one moves the channel, the others are told; every release is whole.
for n in 1 2 3 4; do
	to=$URL && [ $((n % 2)) -eq 0 ] && to=store
	("$LARDER" publish "$([ "$n" -le 2 ] && echo one || echo two)" --to $to --channel crowd --key key \
		--token-file token --cache "cache-$n" >"crowd-$n.out" 2>&1; echo $? >"crowd-$n.rc") &
	crowd[n]=$!
done
wait "${crowd[@]}"
won=$(cat crowd-?.rc | grep -c '^0$')
lost=$(cat crowd-?.rc | grep -c '^6$')
check_number "of four at once some win" "$won" -ge 1
check_number "and the others have lost" $((won + lost)) -eq 4
check "the channel is whole" "$LARDER" verify "$URL#crowd" --deep

# ---- killed, and failed uploads ----------------------------------------------------------------------

# Four packs, of 32 MiB at most, that nothing compresses.
mkdir large
python3 - <<'PY'
import random
for number in range(4):
    with open(f"large/{number}.bin", "wb") as file:
        file.write(random.Random(number).randbytes(26 << 20))
PY
publish_large() { "$LARDER" publish large --to "$URL" --channel large --key key --token-file token --json; }
start_proxy "$server_url" --before PUT /packs/ 3 'kill -9 $(cat publisher.pid)' || not_ok "the proxy serves" "see $WORK"
check_status "a publisher killed at its third pack" 137 bash -c 'echo $$ >publisher.pid; exec "$0" publish large \
	--to "$1" --channel large --key key --token-file token' "$LARDER" "$URL"
stop "$PID"
check_status "no channel was made" 3 "$LARDER" ls "$server_url#large"
URL=$server_url
# Its first: the killed publisher's third may have arrived whole before the kill, so that one is all there is.
start_proxy "$server_url" --fail PUT /packs/ 1 500 || not_ok "the proxy serves" "see $WORK"
check_status "a server that fails one pack: not published" 5 publish_large
check_says "the pack is named" ".pack"
check_says "and the status" "500"
check_status "still no channel" 3 "$LARDER" ls "$server_url#large"
held=$(find store/packs -name '*.pack' | wc -l)
stop "$PID"
start_proxy "$server_url" || not_ok "the proxy serves" "see $WORK"
check "publish again" publish_large
check_number "what was there is not sent again" "$(json packs_held)" -ge 1
sent=$(grep -c '^PUT /packs/' "$PROXY_LOG")
check_number "only what was missing" "$sent" -eq $(($(find store/packs -name '*.pack' | wc -l) - held))
check "fetch it" "$LARDER" fetch "$URL#large" large.inst --trust key.pub --json
same_tree "every byte" large large.inst
if grep -q '^[A-Z]* [^ ]* [^ ]*,' "$PROXY_LOG"; then not_ok "no request for several ranges" "$(grep -m1 , "$PROXY_LOG")"; else ok "no request for several ranges"; fi
check_number "every request for a range refuses encodings" "$(grep '^GET .*bytes=' "$PROXY_LOG" | grep -cv ' identity$')" -eq 0
check_number "there were such requests" "$(grep -c '^GET .*bytes=' "$PROXY_LOG")" -gt 1
stop "$PID"
check_status "nothing is left in the staging folder" 1 sh -c 'ls -A "$0/staging" | grep -q .' "$LARDER_CACHE"

# ---- the end, with an upload under way ---------------------------------------------------------------

mkdir target
"$LARDER" publish one --to one-pack --channel live --key key >/dev/null
pack=$(cd one-pack && find packs -name '*.pack' | head -1)
start_larderd target --tokens tokens.json --quiet || not_ok "larderd serves" "see above"
cat >upload.py <<'PY'
import os, signal, socket, sys, time
port, path, pid, token = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), open("token").read().strip()
body = open("one-pack/" + path, "rb").read()
peer = socket.create_connection(("127.0.0.1", port), 60)
peer.sendall(f"PUT /{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIf-None-Match: *\r\n"
             f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
assert peer.recv(100).startswith(b"HTTP/1.1 100"), "not taken"
peer.sendall(body[:len(body) // 2])
os.kill(pid, signal.SIGTERM)
for _ in range(400):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        break
    time.sleep(0.05)
else:
    sys.exit("it still listens")
peer.sendall(body[len(body) // 2:])
answer = peer.recv(1000)
assert answer.startswith(b"HTTP/1.1 201"), answer
PY
check "an upload under way is finished after SIGTERM" timeout 60 python3 upload.py "${URL##*:}" "$pack" "$PID"
check "and then it ends" wait_for 10 dead "$PID"
wait "$PID"
check_number "with exit status 0" "$?" -eq 0
check "the pack is there" cmp "one-pack/$pack" "target/$pack"
stop "$server"
