#!/bin/sh
# demo.sh   Larder's main job on this machine, from nothing: two releases of a real asset package are published to a
# server on the loopback, installed, updated and read back, every byte compared, and the figures shown.
#
#   sh deploy/demo.sh                           with the openmoji package (openly licensed SVGs)
#   OLD=folder NEW=folder sh deploy/demo.sh     with your own two releases
#
# It works in a temporary folder, which KEEP=1 keeps. LARDER_CORPORA is where packages are kept between runs.
set -eu
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.."
say() { printf '\n\033[1m%s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi; }
fail() { echo "demo: $*" >&2; exit 1; }

say "1. Set up and build"
sh deploy/setup.sh demo
make -j2 all >/dev/null
larder=$PWD/build/release/larder
larderd=$PWD/build/release/larderd
root=$PWD
"$larder" --version

work=$(mktemp -d "${TMPDIR:-/tmp}/larder-demo.XXXXXX")
server=
finish() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || :
		wait "$server" 2>/dev/null || :
	fi
	if [ "${KEEP:-0}" = 1 ]; then echo "kept $work"; else chmod -R u+rwX "$work"; rm -rf "$work"; fi
}
trap finish EXIT
trap 'exit 130' HUP INT TERM
corpora=${LARDER_CORPORA:-${XDG_CACHE_HOME:-$HOME/.cache}/larder-corpora}
export LARDER_CACHE="$work/cache"

say "2. Two releases of an asset tree"
links=
if [ -n "${OLD:-}" ] && [ -n "${NEW:-}" ]; then
	old=$OLD new=$NEW what="your folders"
	links="--links drop" # outward ones have no place in a release; the comparison leaves all links out
	[ -d "$old" ] && [ -d "$new" ] || fail "OLD=$old and NEW=$new must be folders"
else
	if ! [ -d "$corpora/openmoji/2" ] || ! [ -d "$corpora/openmoji/3" ]; then
		echo "bringing the openmoji package (some 30 MB)"
		# One try: the demo has something to fall back to.
		npm_config_fetch_retries=0 bash bench/corpora.sh "$corpora" openmoji >"$work/corpora.log" 2>&1 || :
	fi
	if [ -d "$corpora/openmoji/2" ] && [ -d "$corpora/openmoji/3" ]; then
		old=$corpora/openmoji/2 new=$corpora/openmoji/3 what="the openmoji package, two successive releases"
	else
		echo "no package archive is reachable from here: this run takes a GENERATED tree, not a real one"
		tail -n 2 "$work/corpora.log" || :
		python3 tests/scenario/lib.tree.py "$work/old" 1
		python3 tests/scenario/lib.tree.py "$work/new" 2
		old=$work/old new=$work/new what="a generated tree, two states"
	fi
fi
size() { printf '%s files, %s' "$(find "$1" -type f | wc -l)" "$(du -sh --apparent-size "$1" | cut -f1)"; }
echo "$what"
echo "  old: $(size "$old")"
echo "  new: $(size "$new")"

# Prints chosen figures of a command's --json output, sizes readable.
figures() { # file key...
	python3 - "$@" <<-'PY'
	import json, sys
	data = json.load(open(sys.argv[1]))
	def text(key, value):
	    if isinstance(value, (int, float)) and "bytes" in key:
	        return f"{value / 1e6:.2f} MB"
	    return f"{value:.2f}" if isinstance(value, float) else value
	print("   " + "".join(f" {key.replace('_', ' ')} {text(key, data[key])} ·" for key in sys.argv[2:] if data.get(key)).rstrip(" ·"))
	PY
}
publish() { "$larder" publish "$1" --to "$url" --channel live --key "$work/studio.key" $links --token-file "$work/token" --note "$2" --json >"$3"; }
fetch() { "$larder" fetch "$url#live" "$work/game" --trust "$work/studio.key.pub" --json >"$1"; }
same() { python3 "$root/tests/scenario/lib.compare.py" "$1" "$2" ${links:+--without-links} || fail "$1 and $2 differ"; }

say "3. A signing key, a publisher's token, and a server on the loopback"
"$larder" keygen "$work/studio.key"
"$larder" token add --tokens "$work/tokens" --scope publish --note demo >"$work/token"
mkdir "$work/store"
"$larderd" --store "$work/store" --listen 127.0.0.1:0 --tokens "$work/tokens" --publish-key "$work/studio.key.pub" \
	>"$work/larderd.out" 2>"$work/larderd.err" &
server=$!
url=
tries=0
while [ -z "$url" ]; do
	url=$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$work/larderd.out")
	tries=$((tries + 1))
	if [ "$tries" -gt 200 ] || ! kill -0 "$server" 2>/dev/null; then
		cat "$work/larderd.err" >&2
		fail "larderd did not start"
	fi
	[ -n "$url" ] || sleep 0.05
done
echo "larderd serves at $url"

say "4. Publish the old release, install it"
publish "$old" "the old release" "$work/publish-1.json"
figures "$work/publish-1.json" files bytes blocks new_bytes_stored packs seconds
fetch "$work/fetch-1.json"
figures "$work/fetch-1.json" files bytes bytes_fetched requests seconds
same "$old" "$work/game"

say "5. Publish the new release, update the installation"
publish "$new" "the new release" "$work/publish-2.json"
figures "$work/publish-2.json" files bytes new_blocks new_bytes_stored delta_bytes_stored seconds
fetch "$work/fetch-2.json"
figures "$work/fetch-2.json" files_written bytes_fetched bytes_reused requests seconds
same "$new" "$work/game"
echo "    the installation equals the new release, byte for byte"

say "6. Read it without installing"
"$larder" ls "$url#live" --trust "$work/studio.key.pub" >"$work/listing"
echo "    $(wc -l <"$work/listing") entries at the top; the last: $(tail -n 1 "$work/listing")"
(cd "$new" && find . -type f -size -200k -printf '%P\n' | sort | awk 'NR % 97 == 1' | head -n 10) >"$work/sample"
while IFS= read -r path; do
	"$larder" cat "$url#live" "$path" --trust "$work/studio.key.pub" >"$work/one" </dev/null
	cmp "$work/one" "$new/$path" || fail "larder cat $path differs"
done <"$work/sample"
echo "    $(wc -l <"$work/sample") files read one by one, equal to the originals"

say "7. Stop"
kill "$server"
wait "$server" || fail "larderd ended with status $?"
server=
echo "done: everything compared equal"
