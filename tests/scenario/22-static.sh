#!/bin/bash
# A store folder behind plain static web servers, nginx and Python's http.server: fetch, update and cat, every byte.
# The second ignores ranges (T20): the client takes the wanted slice of a whole answer. A cold cat of one file of a
# large release costs few requests and bytes; no request asks for several ranges (T22).
# limit: 240
. "$ROOT/tests/scenario/lib.sh"

make_tree one 1
make_tree two 2
"$LARDER" keygen key >keygen.log
publish() { "$LARDER" publish "$1" --to "$2" --channel live --key key --json "${@:3}"; }

# The whole job with a cache of its own; a store is published behind the server's back.
job() { # name status-of-PUT
	local name=$1
	export LARDER_CACHE=$WORK/cache-$name
	check "$name: fetch" "$LARDER" fetch "$URL#live" "inst-$name" --trust key.pub --json
	same_tree "$name: installed" one "inst-$name"
	check "$name: publish into the folder" publish two "store-$name"
	check "$name: update" "$LARDER" fetch "$URL#live" "inst-$name" --json
	check_number "$name: bytes are reused" "$(json bytes_reused)" -gt 1000000
	same_tree "$name: updated" two "inst-$name"
	check "$name: fetch again" "$LARDER" fetch "$URL#live" "inst-$name" --json
	check_number "$name: one request" "$(json requests)" -eq 1
	check "$name: the older by number" "$LARDER" fetch "$URL#live@1" "older-$name"
	same_tree "$name: the older" one "older-$name"
	for path in levels/world.map README.txt empty.dat icons/101.svg sound/theme.ogg; do
		check "$name: cat $path" sh -c '"$0" cat "$1#live" "$2" | cmp - "two/$2"' "$LARDER" "$URL" "$path"
	done
	check "$name: the whole, deeply" "$LARDER" verify "$URL#live" --deep --cache "fresh-$name" --trust key.pub
	check "$name: log" "$LARDER" log "$URL#live" --json
	check_status "$name: no such channel" 3 "$LARDER" fetch "$URL#none" none --trust key.pub
	check_says "$name: the URL and the status" "$URL/channels/none: status 404"
	check_number "$name: and no page for browsers" "$(grep -c '<' err)" -eq 0
	check_status "$name: no such path" 3 "$LARDER" cat "$URL#live" nothing
	check_status "$name: publishing is not possible" 1 publish one "$URL"
	check_says "$name: the status tells why" ": status $2"
}

check "publish" publish one store-nginx
cp -r store-nginx store-python
if command -v nginx >/dev/null; then
	if start_nginx store-nginx; then job nginx 405; else not_ok "nginx serves" "see above"; fi
else
	skip "nginx" "nginx is not installed"
fi
start_python store-python || not_ok "http.server serves" "see above"
python_url=$URL
job python 501
check_number "it did answer 200 to ranges" "$(grep -c '"GET /packs/.* 200 ' python-*.err)" -gt 3
check_number "and never 206" "$(grep -c '" 206 ' python-*.err)" -eq 0

# The same through a proxy that notes what is asked.
start_proxy "$python_url" || not_ok "the proxy serves" "see above"
check "fetch through a proxy" "$LARDER" fetch "$URL#live" noted --trust key.pub --cache noted-cache
same_tree "installed through it" two noted
check_number "ranges were asked for" "$(grep -c '^GET .*bytes=' "$PROXY_LOG")" -gt 0
check_number "never several" "$(grep -c '^[A-Z]* [^ ]* [^ ]*,' "$PROXY_LOG")" -eq 0
check_number "never with an encoding" "$(sed 1d "$PROXY_LOG" | grep -cv ' identity$')" -eq 0
check_number "and only by GET" "$(sed 1d "$PROXY_LOG" | grep -cv '^GET ')" -eq 0

# ---- one file of a large release ----------------------------------------------------------------------

if tree=$(need_corpus wesnoth 1 "a cold cat of wesnoth") && command -v nginx >/dev/null; then
	export LARDER_CACHE=$WORK/cache-large
	check "publish wesnoth" publish "$tree" large --links drop
	rm -rf "$LARDER_CACHE"
	start_nginx large || not_ok "nginx serves" "see above"
	log=$WORK/nginx-${URL##*:}/access.log
	find "$tree" -type f -size +20k -printf '%P\n' | LC_ALL=C sort >paths
	count=$(wc -l <paths)
	for part in 3 2; do
		path=$(sed -n "$((count / part))p" paths)
		: >"$log"
		check "cold cat of $path" "$LARDER" cat "$URL#live" "$path" --trust key.pub --cache "cold-$part"
		cp out got
		check "its bytes" cmp got "$tree/$path"
		check_number "at most 6 requests" "$(wc -l <"$log")" -le 6
		check_number "at most 2 MB" "$(awk '{ sum += $10 } END { print sum + 0 }' "$log")" -le 2000000
		check_number "and some" "$(awk '{ sum += $10 } END { print sum + 0 }' "$log")" -gt 20000
	done
fi
