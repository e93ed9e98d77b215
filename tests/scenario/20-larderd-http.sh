#!/bin/bash
# larderd over HTTP: conformance by hand-made requests, starting and refusing to start, logs, draining.
# size: quick
# limit: 110
. "$ROOT/tests/scenario/lib.sh"

# ---- a store by hand ---------------------------------------------------------------------------------

# A pack as far as serving looks at it: a header, a trailer that tells where the table lies.
make_pack() { # file bytes
	python3 - "$1" "$2" <<-'PY'
	import os, random, struct, sys
	size = int(sys.argv[2])
	body = random.Random(size).randbytes(size - 64 - 100 - 32)
	data = b"LARDPACK" + bytes(56) + body + bytes(100)
	data += struct.pack("<QQQ", 64 + len(body), 100, 0) + b"LARDTAIL"
	os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
	open(sys.argv[1], "wb").write(data)
	PY
}
id=$(printf 'ab%062d' 1)
pack=packs/ab/$id.pack
mkdir -p store/channels
printf 'aaaa.bbbb.cccc' >store/channels/live
make_pack "store/$pack" 300000

# ---- refusing to start -------------------------------------------------------------------------------

check_status "without options: usage" 2 "$LARDERD"
check_says "it says which is missing" "--store"
check_status "an unknown option: usage" 2 "$LARDERD" --store store --listen 127.0.0.1:0 --nonsense
check_status "a bad address: usage" 2 "$LARDERD" --store store --listen 127.0.0.1:99999
check_says "it names the address" "127.0.0.1:99999"
check_status "a token file that is not there: not found" 3 "$LARDERD" --store store --listen 127.0.0.1:0 --tokens none.json
check_says "it names the file" "none.json"
check_status "a key that is none: integrity" 4 "$LARDERD" --store store --listen 127.0.0.1:0 --publish-key /dev/null
check "help" "$LARDERD" --help
check "version" "$LARDERD" --version
mkdir foreign
printf 'larder-store 2\nx\n' >foreign/FORMAT
check_status "a foreign store is refused" 1 "$LARDERD" --store foreign --listen 127.0.0.1:0
check_says "it says what it found" "larder-store 2"
check_says "and what it wanted" "larder-store 1"

# ---- conformance -------------------------------------------------------------------------------------

start_larderd store --quiet || not_ok "larderd serves" "see above"
server=$PID server_url=$URL
check "a store without FORMAT got one" grep -qx 'larder-store 1' store/FORMAT
python3 "$ROOT/tests/scenario/lib.http.py" "$URL" store "$pack"
if python3 -c 'import socket,sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "${URL##*:}"; then
	ok "it still serves after all that"
else
	not_ok "it still serves after all that" "$(tail -n 3 larderd-0.err)"
fi
port=${URL##*:}
check_status "a taken port: network" 5 "$LARDERD" --store store --listen "127.0.0.1:$port"
check_says "it names the port" "$port"

# ---- files that change underneath ----------------------------------------------------------------------

printf 'dddd.eeee.ffff' >store/channels/next
mv store/channels/next store/channels/live
check "a channel that moved is seen at once" test "$(curl -s "$URL/channels/live")" = dddd.eeee.ffff
large=$(printf 'cd%062d' 1)
make_pack "store/packs/cd/$large.pack" 50000000
check "a large pack" cmp <(curl -s "$URL/packs/cd/$large.pack") "store/packs/cd/$large.pack"
truncate -s 100000 "store/packs/cd/$large.pack"
curl -s -o got -r 40000000-40999999 "$URL/packs/cd/$large.pack"
if [ -s got ]; then not_ok "nothing is made up for a pack that was cut" "$(stat -c %s got) bytes"; else ok "nothing is made up for a pack that was cut"; fi
check "the server goes on" curl -sf -o got "$URL/channels/live"
ln -s /etc/passwd store/channels/link
check "a symlink is not followed" test "$(curl -s -o got -w '%{http_code}' "$URL/channels/link")" != 200
rm store/channels/link

# ---- logs ----------------------------------------------------------------------------------------------

start_larderd store --log-format json || not_ok "larderd with json logs" "see above"
log=$WORK/larderd-1.err
curl -s -o got "$URL/channels/live" -A 'x' --next -s -o got "$URL/a%22%5c%0ab" --next -s -o got -X 'F"O' "$URL/x"
stop "$PID"
check "every line is JSON" python3 -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
asked = [line for line in lines if "status" in line]
assert asked[0]["url"] == "/channels/live" and asked[0]["status"] == 200 and asked[0]["bytes"] == 14, asked
assert asked[1]["status"] == 404 and "reason" in asked[1], asked
' "$log"

# ---- the end -------------------------------------------------------------------------------------------

# A client that has half of a large body when the signal comes gets the rest.
make_pack "store/packs/cd/$large.pack" 50000000
cat >slow.py <<'PY'
import os, signal, socket, sys
port, path, pid, size = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
idle = socket.create_connection(("127.0.0.1", port))
busy = socket.create_connection(("127.0.0.1", port))
busy.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
got = len(busy.recv(1000))
os.kill(pid, signal.SIGTERM)
idle.settimeout(20)
assert idle.recv(1) == b"", "the idle connection got bytes"
while True:
    data = busy.recv(1 << 20)
    if not data:
        break
    got += len(data)
assert got > size, f"{got} of {size}"
PY
start_larderd store --quiet || not_ok "larderd serves again" "see above"
check "a body under way is finished after SIGTERM" timeout 60 python3 slow.py "${URL##*:}" "/packs/cd/$large.pack" "$PID" 50000000
check "and then it ends" wait_for 10 dead "$PID"
wait "$PID"
check_number "with exit status 0" "$?" -eq 0
check_status "a server that ended takes no connection" 7 curl -s -o got "$URL/channels/live"
stop "$server"
check_status "nor does the first one" 7 curl -s -o got "$server_url/channels/live"
