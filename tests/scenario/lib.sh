# lib.sh   helpers of the scenario scripts; source it first: . "$ROOT/tests/scenario/lib.sh"
#
# A script runs in a folder of its own, $WORK, prints "ok NAME", "not ok NAME: why" or "skip NAME: why" for each
# case, and exits 0. Every server listens on 127.0.0.1; whatever was started here is stopped when the
# script ends. Nothing sleeps for luck: a wait polls for what it waits for, and has a bound.
#
# From tests/run.sh: ROOT WORK BUILD LARDER LARDERD SEAM_LARDER SEAM_LARDERD LARDER_CORPORA LARDER_CACHE.
# Run one by hand: make scenario T=NAME, KEEP=1 to keep $WORK.
set -u
cd "$WORK" || exit 1
STARTED=()
# Each of these sets URL.
URL=

# ---- cases -----------------------------------------------------------------------------------------

ok() { echo "ok $1"; }
not_ok() { echo "not ok $1: $2"; }
skip() { echo "skip $1: $2"; }

# check NAME CMD...   passes when the command exits 0; says the end of its output otherwise.
check() { check_status "$1" 0 "${@:2}"; }

# check_status NAME WANTED CMD...   the same for any exit status. Output stays in $WORK/out and $WORK/err.
check_status() {
	local name=$1 wanted=$2 rc
	shift 2
	"$@" >"$WORK/out" 2>"$WORK/err" </dev/null
	rc=$?
	if [ "$rc" -eq "$wanted" ]; then
		ok "$name"
		return 0
	fi
	not_ok "$name" "exit status $rc, wanted $wanted: $(tail -n 2 "$WORK/err" | tr '\n' ' ')$(tail -n 1 "$WORK/out")"
	sed 's/^/    /' "$WORK/err" | tail -n 20
	return 1
}

# check_says NAME TEXT   the standard error of the last check holds the text.
check_says() {
	if grep -qF -- "$2" "$WORK/err"; then ok "$1"; else not_ok "$1" "no \"$2\" in: $(tail -n 3 "$WORK/err" | tr '\n' ' ')"; fi
}

# check_number NAME VALUE OP LIMIT   compares numbers, fractions too: check_number "few requests" "$n" -le 6
check_number() {
	local op
	case $3 in -le) op='<=' ;; -lt) op='<' ;; -ge) op='>=' ;; -gt) op='>' ;; -eq) op='==' ;; *) op='!=' ;; esac
	if [[ $2 =~ ^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$ ]] && awk "BEGIN { exit !(($2) $op ($4)) }"; then
		ok "$1"
	else
		not_ok "$1" "${2:-nothing} is not $op $4"
	fi
}

# json KEY [FILE]   one value of a JSON object (default: the last check's output); a.b goes deeper.
json() {
	python3 - "$1" "${2:-$WORK/out}" <<-'PY'
	import json, sys
	value = json.load(open(sys.argv[2]))
	for part in sys.argv[1].split("."):
	    value = value[int(part)] if isinstance(value, list) else value[part]
	print(json.dumps(value) if isinstance(value, (dict, list, bool)) else value)
	PY
}

# ---- trees -----------------------------------------------------------------------------------------

# listing DIR   every path with kind, mode, digest or link target, sorted; .larder is not part of a release.
listing() {
	(cd "$1" && {
		find . -path ./.larder -prune -o -printf '%p %y %m %l\n' | sort
		find . -path ./.larder -prune -o -type f -print0 | sort -z | xargs -0 -r sha256sum
	})
}

# same_tree NAME DIR DIR   two trees are equal: paths, kinds, modes, bytes, link targets.
same_tree() {
	if python3 "$ROOT/tests/scenario/lib.compare.py" "$2" "$3" >"$WORK/difference" 2>&1; then
		ok "$1"
	else
		not_ok "$1" "$(head -n 3 "$WORK/difference" | tr '\n' ' ')"
	fi
}

# corpus NAME N   prints the folder of a release of a real asset tree, or fails where it cannot be had.
corpus() {
	[ -d "$LARDER_CORPORA/$1/$2" ] && echo "$LARDER_CORPORA/$1/$2"
}

# need_corpus NAME N CASE   the same, and reports the case as skipped.
need_corpus() {
	corpus "$1" "$2" && return 0
	skip "$3" "no corpus $1/$2 (bench/corpora.sh brings it)" >&3
	return 1
}
exec 3>&1

# make_tree DIR [SEED]   a small tree of every kind that a release may hold; another seed changes a part of it.
make_tree() { python3 "$ROOT/tests/scenario/lib.tree.py" "$1" "${2:-1}"; }

# ---- servers ---------------------------------------------------------------------------------------

# wait_for SECONDS CMD...   until the command succeeds, polling; fails after the bound.
wait_for() {
	local until=$((SECONDS + $1 + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.05
	done
}

alive() { kill -0 "$1" 2>/dev/null; }

# Sets PID to the process; it is stopped at the end. Output goes to $WORK/NAME.log.
start() { # name command...
	local name=$1
	shift
	"$@" >"$WORK/$name.log" 2>"$WORK/$name.err" </dev/null &
	PID=$!
	STARTED+=("$PID")
}

# start_larderd STORE [OPTION...]   serves a store on a free port of the loopback; sets URL and PID.
start_larderd() { start_program_larderd "$LARDERD" "$@"; }

# start_program_larderd PROGRAM STORE [OPTION...]   the same with another larderd, or a wrapper of one.
start_program_larderd() {
	local program=$1 store=$2 log
	shift 2
	log=larderd-${#STARTED[@]}
	start "$log" $program --store "$store" --listen 127.0.0.1:0 "$@"
	if ! wait_for 20 listening "$WORK/$log.log" "$PID"; then
		echo "larderd does not serve: $(tail -n 3 "$WORK/$log.err" | tr '\n' ' ')"
		return 1
	fi
	URL=$(sed -n 's/^listening on \(https\{0,1\}:[^ ]*\).*/\1/p' "$WORK/$log.log" | head -1)
	[ -n "$URL" ]
}
# Serving, or dead, in which case waiting is over as well.
listening() { grep -q '^listening on ' "$1" || ! alive "$2"; }

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Whether something answers on a port of the loopback.
answers() { (exec 9<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# start_nginx DIR   serves a folder by nginx, as any static web server would; sets URL and PID. A port that
# somebody took between choosing and binding is chosen again. The access log: $WORK/nginx-PORT/access.log.
start_nginx() {
	local port home
	command -v nginx >/dev/null || { echo "nginx is not installed"; return 1; }
	for _ in 1 2 3 4 5; do
		port=$(free_port)
		home=$WORK/nginx-$port
		mkdir -p "$home/tmp"
		nginx_config "$1" "$port" "$home" >"$home/nginx.conf"
		start "nginx-$port" nginx -e "$home/error.log" -p "$home" -c "$home/nginx.conf"
		if wait_for 10 nginx_decided "$port" "$home" "$PID" && alive "$PID"; then
			URL=http://127.0.0.1:$port
			return 0
		fi
	done
	echo "nginx does not serve: $(tail -n 2 "$home/error.log")"
	return 1
}
nginx_decided() { { [ -s "$2/nginx.pid" ] && answers "$1"; } || ! alive "$3"; }
nginx_config() { # root port home
	cat <<-CONF
	daemon off;
	worker_processes 1;
	$([ "$(id -u)" -ne 0 ] || echo 'user root;')
	pid $3/nginx.pid;
	events { worker_connections 256; }
	http {
	    access_log $3/access.log; keepalive_requests 100000; sendfile on; tcp_nopush on;
	    default_type application/octet-stream;
	    client_body_temp_path $3/tmp; proxy_temp_path $3/tmp; fastcgi_temp_path $3/tmp;
	    uwsgi_temp_path $3/tmp; scgi_temp_path $3/tmp;
	    server { listen 127.0.0.1:$2; root "$(realpath "$1")"; }
	}
	CONF
}

# start_python DIR   serves a folder by Python's http.server, which ignores ranges; sets URL and PID.
start_python() {
	local log=python-${#STARTED[@]}
	start "$log" python3 -u "$ROOT/tests/scenario/lib.serve.py" "$1"
	wait_for 20 listening "$WORK/$log.log" "$PID" || return 1
	URL=$(sed -n 's/^listening on //p' "$WORK/$log.log" | head -1)
	[ -n "$URL" ]
}

# start_proxy UPSTREAM [RULE]...   a proxy that acts at a chosen moment (lib.proxy.py); sets URL, PID and PROXY_LOG,
# which has a line for each request.
start_proxy() {
	local log=proxy-${#STARTED[@]}
	start "$log" python3 -u "$ROOT/tests/scenario/lib.proxy.py" "$@"
	wait_for 20 listening "$WORK/$log.log" "$PID" || return 1
	PROXY_LOG=$WORK/$log.log
	URL=$(sed -n 's/^listening on //p' "$PROXY_LOG" | head -1)
	[ -n "$URL" ]
}

# stop PID [SIGNAL]   ends a process started here and waits for it; KILL after ten seconds.
stop() {
	kill "-${2:-TERM}" "$1" 2>/dev/null
	wait_for 10 dead "$1" || kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}
# A zombie that nobody has waited for yet is dead too.
dead() { ! alive "$1" || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

stop_all() {
	local pid
	for pid in "${STARTED[@]}"; do
		alive "$pid" && stop "$pid"
	done
	STARTED=()
}
trap stop_all EXIT
trap 'exit 143' TERM INT HUP
