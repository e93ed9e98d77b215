#!/bin/bash
# 01-main-job.sh   the list "What must hold" of the main job, each item as a command on real assets: a line per item with
# text, figure, limit and PASS, FAIL or SKIP. Slow; run by hand on a quiet machine:
#
#   make && tests/accept/01-main-job.sh [rounds]
#   PARTS="speed scenarios" tests/accept/01-main-job.sh     of: exact small step speed scenarios
#
# Assets come from $LARDER_CORPORA (bench/corpora.sh brings them: "default" and "ci"); one that is not there is a SKIP.
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
ROUNDS=${1:-5}
BUILD=$ROOT/build/release
LARDER=$BUILD/larder LARDERD=$BUILD/larderd
LARDER_CORPORA=${LARDER_CORPORA:-${XDG_CACHE_HOME:-$HOME/.cache}/larder-corpora}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-accept.XXXXXX")
export ROOT BUILD LARDER LARDERD LARDER_CORPORA WORK LARDER_CACHE="$WORK/cache"

. "$ROOT/tests/scenario/lib.sh"
trap 'stop_all; cd /; chmod -R u+rwX "$WORK"; rm -rf "$WORK"' EXIT
. "$ROOT/tests/accept/lib.rows.sh"

part() { case " ${PARTS:-exact small step speed scenarios} " in *" $1 "*) return 0 ;; esac; return 1; }
have() { [ -d "$LARDER_CORPORA/$1/1" ] || { row "$2" "no corpus $1" "" SKIP; return 1; }; }
value() { json "$1" "$WORK/json"; }
L() { "$LARDER" "$@" --json >"$WORK/json" 2>"$WORK/err" || { tail -n 2 "$WORK/err"; return 1; }; }
same() { python3 "$ROOT/tests/scenario/lib.compare.py" "$1" "$2"; }

# A tree without its outward links, which are dropped when publishing.
without_links() { cp -a --reflink=auto "$1" "$2" && find "$2" -type l -delete; }

echo "# $(date -u +%FT%TZ), $(nproc) processors, $(uname -sr), rounds: $ROUNDS"
"$LARDER" keygen key >/dev/null
"$LARDER" token add --tokens tokens --scope publish --note accept 2>/dev/null | head -1 >token

# ---- byte-exact over every way ----
for name in $(part exact && echo wesnoth warzone2100 openmoji generated); do
	if [ $name = generated ]; then
		make_tree gen1 1
		make_tree gen2 2
		one=gen1 two=gen2
	else
		have $name "publish, fetch, compare: $name" || continue
		last=$(ls -d "$LARDER_CORPORA/$name"/[0-9] | tail -1)
		without_links "$LARDER_CORPORA/$name/1" $name.1
		without_links "$last" $name.2
		one=$name.1 two=$name.2
	fi
	start_larderd "$WORK/served-$name" --tokens tokens
	L publish $one --to "$URL" --channel live --key key --token-file token
	L fetch "$URL#live" in-larderd --trust key.pub
	holds "$name: publish, fetch, compare through larderd" same $one in-larderd
	L publish $two --to "$URL" --channel live --key key --token-file token
	L fetch "$URL#live" in-larderd --trust key.pub
	holds "$name: update through larderd" same $two in-larderd
	stop "$PID"
	L publish $one --to store-$name --channel live --key key
	L fetch store-$name#live in-folder --trust key.pub
	holds "$name: through a folder store" same $one in-folder
	for server in nginx python; do
		start_$server "$WORK/store-$name"
		L fetch "$URL#live" in-$server --trust key.pub --cache cache-$server
		holds "$name: through $server" same $one in-$server
		stop "$PID"
	done
	rm -rf in-* cache-* served-*
	[ $name = wesnoth ] || rm -rf store-$name $name.[12]
done

# ---- a cold cat, a second fetch, a renamed top folder ----
if part small && have wesnoth "cold cat"; then
	if [ ! -e store-wesnoth ]; then
		without_links "$LARDER_CORPORA/wesnoth/1" wesnoth.1
		L publish wesnoth.1 --to store-wesnoth --channel live --key key
	fi
	start_larderd "$WORK/store-wesnoth"
	L cat "$URL#live" data/core/units.cfg --trust key.pub --cache cold
	item "wesnoth: requests of a cold cat of one file" "$(value requests)" -le 6
	item "wesnoth: bytes of a cold cat of one file" "$(value bytes_fetched)" -le 2000000
	L fetch "$URL#live" installed --trust key.pub
	L fetch "$URL#live" installed --trust key.pub
	item "wesnoth: requests of a second fetch (1 is the record: no block)" "$(value requests)" -le 1
	stop "$PID"
	mkdir renamed && mv wesnoth.1 renamed/top
	L publish renamed --to store-wesnoth --channel live --key key
	start_larderd "$WORK/store-wesnoth"
	L fetch "$URL#live" installed --trust key.pub
	tree=$("$LARDER" ls "$URL#live" --trust key.pub --json | wc -c)
	item "wesnoth: bytes fetched when the top folder is renamed (metadata only; tree and map are 1.3 MB)" \
		"$(value bytes_fetched)" -le 1300000
	item "wesnoth: and reused from the installation" "$(value bytes_reused)" -ge 160000000
	stop "$PID"
	rm -rf renamed installed
fi

# ---- the bytes of a step, beside casync ----
for pair in $(part step && echo wesnoth:0.85 openmoji:0.85 mame:0.85 warzone2100:1.05); do
	name=${pair%:*} limit=${pair#*:}
	have $name "$name: bytes of an update" || continue
	last=$(ls -d "$LARDER_CORPORA/$name"/[0-9] | tail -1)
	before=$LARDER_CORPORA/$name/$(($(basename "$last") - 1))
	python3 "$ROOT/bench/delivery.py" "$before" "$last" --step-only --work "$WORK" >step 2>step.err
	item "$name $(basename "$before") to $(basename "$last"): bytes fetched / bytes that casync adds" \
		"$(awk -F'\t' '$1 == "step bytes" {print $4}' step)" -le "$limit"
done

# ---- speed and memory ----
if part speed && have wesnoth "speed"; then
	python3 "$ROOT/bench/delivery.py" "$LARDER_CORPORA/wesnoth/1" "$LARDER_CORPORA/wesnoth/2" --rounds "$ROUNDS" \
		--work "$WORK" >speed 2>speed.err
	figure() { awk -F'\t' -v what="$1" -v column="$2" '$1 == what {print $column}' speed; }
	item "wesnoth: cold fetch, times as fast as casync extract from nginx (neither syncs)" "$(figure 'cold s' 4)" -ge 5
	row "wesnoth: the same with larder's default syncs (casync has none)" "$(figure 'cold-sync s' 4)" "" INFO
	item "wesnoth: publish, times as fast as casync make (larder syncs every pack)" "$(figure 'publish s' 4)" -ge 3
	item "wesnoth: peak anonymous memory of fetch, MiB" "$(figure 'cold s' 8)" -le 128
	item "wesnoth: peak anonymous memory of publish, MiB" "$(figure 'publish s' 8)" -le 128
	sed 's/^/# /' speed
fi

# ---- trust, failures, hostile trees: the scenarios, case by case ----
for script in $(part scenarios && ls "$ROOT"/tests/scenario/2[0-9]-*.sh); do
	name=$(basename "$script" .sh)
	make -s -C "$ROOT" scenario T="scenario/$name" >"$WORK/$name.out" 2>&1
	read -r good _ bad _ < <(tail -n 1 "$WORK/$name.out")
	[ "${good:-0}" -gt 0 ] || bad=1
	item "$name: failed cases (of $((good + bad)))" "$bad" -le 0
	grep 'not ok ' "$WORK/$name.out"
done

echo "# $FAILED failed"
[ "$FAILED" -eq 0 ]
