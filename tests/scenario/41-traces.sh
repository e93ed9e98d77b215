#!/bin/bash
# Traces for the streaming benchmark: what a program reads is recorded by strace with the places of its reads, windows are cut out of
# recordings, and the kept windows are what the recordings give. The parser of traces in C: 42-stream-bench.sh.
# size: quick
. "$ROOT/tests/scenario/lib.sh"

py() { /usr/bin/python3 "$ROOT/bench/$1.py" "${@:2}"; }

# ---- recording ----
mkdir "root"
head -c 10000 /dev/zero >root/a.bin
head -c 1000 /dev/zero >"root/b b.bin"
cat >program.py <<'PY'
import os, sys, threading
root = sys.argv[1]
a = os.open(root + "/a.bin", os.O_RDONLY)
os.read(a, 100)
os.lseek(a, 5000, os.SEEK_SET)
os.read(a, 10)
b = os.open(root + "/b b.bin", os.O_RDONLY)
os.pread(b, 50, 7)
c = os.dup(b)
os.read(c, 5)
os.read(b, 6)
os.preadv(b, [bytearray(3), bytearray(4)], 900)
os.read(b, 0)
os.close(b)
if os.fork() == 0:
    os.read(a, 3)
    os._exit(0)
os.wait()
thread = threading.Thread(target=lambda: os.read(a, 4))
thread.start()
thread.join()
os.path.exists(root + "/missing")
os.chdir(root)
os.stat("a.bin")
os.listdir(".")
PY
cat >wanted <<'EOT'
open a.bin 0 0
read a.bin 0 100
read a.bin 5000 10
open b b.bin 0 0
read b b.bin 7 50
read b b.bin 0 5
read b b.bin 5 6
read b b.bin 900 7
close b b.bin 0 0
read a.bin 5010 3
read a.bin 5013 4
miss missing 0 0
stat a.bin 0 0
EOT
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
	check "a program is recorded" py capture --root root --out recorded.tsv.gz -- /usr/bin/python3 program.py root
	gzip -dc recorded.tsv.gz | cut -f2- | tr '\t' ' ' >got
	# What python itself asks of the folder is no part of this.
	grep -vE '^(open|stat|list|close)  0 0$' got | grep -v '^close a' | head -n 13 | cmp -s - wanted &&
		ok "with the places of its reads" || not_ok "with the places of its reads" "$(diff got wanted | head -n 5 | tr '\n' ' ')"
	check "its window" py trace_import recorded.tsv.gz --out windows --name recorded
	gzip -dc windows/recorded.trace.gz | cut -d' ' -f2- >rows
	check "has a row a read" test "$(sed -n '2,$p' rows | tr '\n' ',')" = \
		"0 0 100 1 0,0 5000 10 1 0,1 7 50 1 0,1 0 5 1 0,1 5 6 1 0,1 900 7 1 0,0 5010 3 1 0,0 5013 4 1 0,"
	check "and the sizes that they reach" test "$(gzip -dc windows/recorded.files.gz | tr '\t\n' ' ,')" = "fs-r2-files 1 2,5017 a.bin,907 b b.bin,"
	check_status "a program that reads nothing there" 1 py capture --root root --out none.tsv.gz -- true
else
	skip "a program is recorded" "no strace, or it may not trace"
fi
check_status "usage: no program" 2 py capture --root root --out none.tsv.gz

# ---- windows ----
printf '%s\n' "0.5 read a!x.ogg 0 2500000" "0.5 zread a!y:z 10 5" "0.25 stat q 0 0" "1.0 read b 7 0" "1.5 read b 0 9" | tr ' ' '\t' | gzip >made.tsv.gz
check "a made recording" py trace_import made.tsv.gz --out windows
check "long reads are cut, entries are files, sounds are of normal priority, reads of nothing are left out" test \
	"$(gzip -dc windows/made-first.trace.gz | tr '\n' ',')" = \
	"fs-r2 1 5,0 0 0 1048576 2 0,0 0 1048576 1048576 2 0,0 0 2097152 402848 2 0,0 1 10 5 1 0,1000000000 2 0 9 1 0,"
check "names are such as packs hold" test "$(gzip -dc windows/made-first.files.gz | tr '\t\n' ' ,')" = \
	"fs-r2-files 1 3,2500000 a.d/x.ogg,15 a.d/y_z,9 b,"
check "from a moment on" py trace_import made.tsv.gz --out windows --window 0.6 --name later
check "only what is later" test "$(gzip -dc windows/later.trace.gz | tr '\n' ',')" = "fs-r2 1 1,0 0 0 9 1 0,"
check_status "nothing behind the end" 1 py trace_import made.tsv.gz --out windows --window 9
check_status "usage: too many" 2 py trace_import made.tsv.gz --out windows --requests 4097
echo "0.1 read x" | gzip >bad.tsv.gz
check_status "no recording" 1 py trace_import bad.tsv.gz --out windows
check_says "names the line" "bad.tsv.gz:1: 1 fields"

# ---- those that are kept ----
again() { # recording window name
	py trace_import "$ROOT/bench/traces/$1.tsv.gz" --out again --window "$2" --name "$3" >/dev/null || return 1
	for part in trace files; do
		gzip -dc "again/$3.$part.gz" >got && gzip -dc "$ROOT/bench/traces/windows/$3.$part.gz" | cmp - got || return 1
	done
}
check "doom's window is what the recording gives" again doom-freedoom2-demo1 first doom-freedoom2-demo1
check "wesnoth's too" again wesnoth118-test-scenario first wesnoth118-test-scenario
check_number "no window is large" "$(du -sk "$ROOT/bench/traces/windows" | cut -f1)" -le 400
