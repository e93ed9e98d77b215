#!/bin/bash
# ls, stat, cat and which through layers: a folder over a release over archives; who answers, what is listed, what each
# failure says. The release comes from a folder store and from a server, then offline from the cache.
# size: quick
# limit: 90
. "$ROOT/tests/scenario/lib.sh"

write() { mkdir -p "$(dirname "$1")" && printf '%s' "$2" >"$1"; }
write base/data/units/elf.cfg "elf of the release"
write base/data/units/orc.cfg "orc of the release"
write base/readme "readme of the release"
write under/data/units/elf.cfg "elf of the archive"
write under/data/music/song "song of the archive"
write under/data/clash "a file here"
write base/data/clash/inner "a folder there"
write lowest/data/music/song "song of the lowest"
write lowest/only "only in the lowest"
write over/data/units/elf.cfg "elf of the developer"
write over/new "new from the developer"
write top/new "new from the topmost"
head -c 700000 /dev/urandom >base/data/big
printf '%064x\n' 7 >title.key

check "keygen" "$LARDER" keygen key
check "publish" "$LARDER" publish base --to store --channel live --key key
check "pack the one below" "$LARDER" pack under under.pack --encrypt-key title.key
check "pack the lowest" "$LARDER" pack lowest lowest.pack
check "pack the base too" "$LARDER" pack base base.pack

layers=(--over over --over top --under under.pack --under lowest.pack --key-file title.key)
seen() { # name path text source options...
	local text
	text=$("$LARDER" cat "$4" "$2" "${layers[@]}" "${@:5}" 2>"$WORK/err")
	if [ "$text" = "$3" ]; then ok "$1"; else not_ok "$1" "got \"$text\", wanted \"$3\" $(tail -n 1 "$WORK/err")"; fi
}
all() { # name source options...
	seen "$1: the folder wins" data/units/elf.cfg "elf of the developer" "${@:2}"
	seen "$1: the release is below it" data/units/orc.cfg "orc of the release" "${@:2}"
	seen "$1: the archive is below that" data/music/song "song of the archive" "${@:2}"
	seen "$1: the last --over is topmost" new "new from the topmost" "${@:2}"
	seen "$1: the last --under is lowest" only "only in the lowest" "${@:2}"
	check "$1: cat" "$LARDER" cat "$2" data/big "${layers[@]}" "${@:3}"
	cp out got
	check "$1: every byte" cmp got base/data/big
	check "$1: which" "$LARDER" which "$2" data/music/song "${layers[@]}" "${@:3}" --json
	[ "$(json layer)" = under.pack ] && [ "$(json layer_kind)" = archive ] && why= || why="$(cat out)"
	[ -z "$why" ] && ok "$1: which says the archive" || not_ok "$1: which says the archive" "$why"
	[ "$(json attempts.0.layer) $(json attempts.0.outcome)" = "top LDR_ENOTFOUND" ] && ok "$1: who was asked first" ||
		not_ok "$1: who was asked first" "$(cat out)"
}
start_larderd store
remote=("$URL#live" --trust key.pub --cache cache)
all store "store#live" --trust key.pub --cache cache0
all server "${remote[@]}"
all offline "${remote[@]}" --offline
all pack base.pack

check "ls" "$LARDER" ls "${remote[@]}" --recursive "${layers[@]}"
awk '{print $3}' out | sort >names
printf '%s\n' data data/big data/clash data/clash/inner data/music data/music/song data/units data/units/elf.cfg data/units/orc.cfg new \
	only readme | sort >wanted
check "every name once" diff wanted names
check "stat" "$LARDER" stat "${remote[@]}" data/units/elf.cfg "${layers[@]}" --json
[ "$(json layer)" = over ] && [ "$(json bytes)" = 20 ] && ok "stat is of the layer that wins" || not_ok "stat is of the layer that wins" "$(cat out)"
check_status "a path that nobody has" 3 "$LARDER" cat "${remote[@]}" nothing "${layers[@]}"
check_status "a folder" 1 "$LARDER" cat "${remote[@]}" data "${layers[@]}"
check_status "a path that climbs out" 1 "$LARDER" cat "${remote[@]}" ../key "${layers[@]}"
check_status "without the key of the one below" 8 "$LARDER" cat "${remote[@]}" data/music/song --under under.pack
check_status "an archive that is not there" 3 "$LARDER" cat "${remote[@]}" readme --under nowhere.pack
check_status "a folder that is not there" 3 "$LARDER" cat "${remote[@]}" readme --over nowhere
