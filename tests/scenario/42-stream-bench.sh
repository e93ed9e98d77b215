#!/bin/bash
# stream_bench: the parser of traces, the corpus and its generators, every row of the basic grid, 27 runs of the validation matrix (all 81
# with LARDER_CI) with every byte compared, damaged data, cancels, rings that overflow, frames, comparisons.
# limit: 300
. "$ROOT/tests/scenario/lib.sh"

BENCH=$PROGRAMS/bench/stream_bench
[ -x "$BENCH" ] || BENCH=$ROOT/build/release/bench/stream_bench
if [ ! -x "$BENCH" ]; then
	skip "stream_bench" "not built (make benches)"
	exit 0
fi
py() { /usr/bin/python3 "$ROOT/bench/$1.py" "${@:2}"; }
# said FIGURE   of the last run's JSON
said() { json "$1" "$WORK/out"; }
replay() { "$BENCH" replay/families --stream "$@"; }

# ---- options ----
for wrong in "" "--stream basic" "basic --stream --trace x" "basic --workers 65" "basic --layouts ," "basic more" "basic --cache hot" "basic --open both" \
	"basic --no-such" "basic --stream --trace x --layouts loose --workers 1 --export y"; do
	check_status "usage: stream_bench $wrong" 2 "$BENCH" $wrong
done
check_status "no corpus there" 1 "$BENCH" nowhere
check_says "says so" "nowhere/files.tsv"

# ---- corpora ----
check "the basic corpus" py stream_corpus basic --larder "$LARDER"
check "is the same each time" py stream_corpus again --larder "$LARDER"
check "byte for byte" cmp basic/corpus.json again/corpus.json
check_number "72 files" "$(find basic/loose -type f | wc -l)" -eq 72
check "the corpus of the families" py stream_replay generate replay --larder "$LARDER" --count 128 --windows wesnoth118-test-scenario
check "is the same each time" py stream_replay generate replay-again --larder "$LARDER" --count 128
check "byte for byte" cmp replay/families/corpus.json replay-again/families/corpus.json
rm -rf again replay-again

# ---- the parser ----
# The corpus has 88 files; file 0 has 4,096 bytes, file 87 has 2 MiB.
accepts() { printf '%b' "$2" >t.trace && check "accepted: $1" "$BENCH" replay/families --check t.trace; }
refuses() { printf '%b' "$2" >t.trace && check_status "refused: $1" 1 "$BENCH" replay/families --check t.trace && check_says "and why" "$3"; }
accepts "one request" 'fs-r2 1 1\n0 0 0 4096 0 0\n'
accepts "the last byte, cancelled, at the end of time" 'fs-r2 1 2\n0 0 4095 1 3 1\n18446744073709551615 87 1048576 1048576 1 0\n'
refuses "nothing" '' 'empty'
refuses "another header" 'fs-r3 1 1\n0 0 0 1 0 0\n' 'line 1: not "fs-r2 1 COUNT"'
refuses "another version" 'fs-r2 2 1\n0 0 0 1 0 0\n' 'line 1: not'
refuses "no requests" 'fs-r2 1 0\n' '0 requests'
refuses "more requests than there may be" 'fs-r2 1 4097\n' '4097 requests, 1 to 4096'
refuses "fewer rows than said" 'fs-r2 1 2\n0 0 0 1 0 0\n' '1 rows, the header says 2'
refuses "more rows than said" 'fs-r2 1 1\n0 0 0 1 0 0\n0 0 0 1 0 0\n' 'line 3: more than the 1 rows'
refuses "an unordered release" 'fs-r2 1 2\n9 0 0 1 0 0\n8 0 0 1 0 0\n' 'line 3: release 8 behind one of 9'
refuses "a number over 64 bits" 'fs-r2 1 1\n18446744073709551616 0 0 1 0 0\n' 'line 2: release passes 64 bits'
refuses "an offset over 64 bits" 'fs-r2 1 1\n0 0 99999999999999999999 1 0 0\n' 'line 2: offset passes 64 bits'
refuses "a trailing field" 'fs-r2 1 1\n0 0 0 1 0 0 0\n' 'line 2: more than 6 fields'
refuses "a trailing space" 'fs-r2 1 1\n0 0 0 1 0 0 \n' 'line 2: more than 6 fields'
refuses "a missing field" 'fs-r2 1 1\n0 0 0 1 0\n' 'line 2: no cancel'
refuses "a sign" 'fs-r2 1 1\n-1 0 0 1 0 0\n' 'line 2: no release'
refuses "a word" 'fs-r2 1 1\n0 0 0 1x 0 0\n' 'line 2: byte 0x78 in length'
refuses "two spaces" 'fs-r2 1 1\n0  0 0 1 0 0\n' 'line 2: no file'
refuses "a carriage return" 'fs-r2 1 1\n0 0 0 1 0 0\r\n' 'line 2: byte 0x0d in cancel'
refuses "no newline at the end" 'fs-r2 1 1\n0 0 0 1 0 0' 'line 2: no newline'
refuses "a file that is not there" 'fs-r2 1 1\n0 88 0 1 0 0\n' 'line 2: file 88 of 88'
refuses "a range past the end" 'fs-r2 1 1\n0 0 4096 1 0 0\n' 'line 2: offset 4096, length 1 pass the 4096 bytes of file 0'
refuses "a range that passes 64 bits" 'fs-r2 1 1\n0 0 18446744073709551615 1 0 0\n' 'pass the 4096 bytes'
refuses "an empty range" 'fs-r2 1 1\n0 0 0 0 0 0\n' 'line 2: length 0'
refuses "a range over 1 MiB" 'fs-r2 1 1\n0 87 0 1048577 0 0\n' 'line 2: length 1048577'
refuses "a priority over 3" 'fs-r2 1 1\n0 0 0 1 4 0\n' 'line 2: priority 4'
refuses "a cancel over 1" 'fs-r2 1 1\n0 0 0 1 0 2\n' 'line 2: cancel 2'

# ---- the grid ----
check "nine rows of the grid" "$BENCH" basic
cp out grid
check "and of remote layouts, of reads verified anew" "$BENCH" basic --workers 0,1 --layouts raw.pack+anew,lz4.pack+anew,remote-warm,remote-cold
cp out more
check "and what the parent does" "$BENCH" basic --workers 0 --layouts parent-crc
cat more out >>grid
python3 - grid >judged <<'PY'
import sys
rows = [(line.split()[0], dict(pair.split("=") for pair in line.split()[1:])) for line in open(sys.argv[1]) if line.startswith(("row", "cancel"))]
layouts, packs = ("loose", "raw.pack", "lz4.pack"), ("raw.pack", "lz4.pack")
have = {(row["layout"], row["workers"], row.get("pass", "cancel")) for _, row in rows}
want = {(l, w, p) for l in layouts for w in "014" for p in ("first", "warm", "cancel") if (w, p) != ("0", "cancel")}
want |= {(l, w, p) for l in ("raw.pack+anew", "lz4.pack+anew", "remote-warm", "remote-cold") for w in "01"
         for p in ("first", "warm", "cancel") if (w, p) != ("0", "cancel")}
want |= {("parent-crc", "0", "first"), ("parent-crc", "0", "warm")}
print("missing", sorted(want - have))
print("unexpected", sorted(have - want))
columns = ("layout workers pass samples bytes p50_ns p95_ns p99_ns mib_per_s cpu_ms peak_bytes peak_requests max_queue_ns descriptors open_ns "
           "hot_allocations").split()
for kind, row in rows:
    wrong = []
    number = {name: float(value) for name, value in row.items() if value.replace(".", "", 1).isdigit()}
    running = row.get("phase") == "running"  # on a busy machine perhaps none was caught
    if not (0 <= number["p50_ns"] if running else 0 < number["p50_ns"]) or not number["p50_ns"] <= number["p95_ns"] <= number["p99_ns"]:
        wrong.append("percentiles")
    if row["hot_allocations"] != "0" and row.get("pass") != "first":
        wrong.append("allocations")
    if kind == "row":
        wrong += [name for name in columns if name not in row]
        if (row["samples"], row["bytes"]) != ("2048", str(263 * 1024 * 1024)) or number["mib_per_s"] <= 0:
            wrong.append("work")
        asynchronous = row["workers"] != "0"
        if not (number["peak_bytes"] <= 32 * 1024 * 1024 and number["peak_requests"] == 32) if asynchronous else number["peak_bytes"] or number["max_queue_ns"]:
            wrong.append("peaks")
        if row["layout"] in packs and number["descriptors"] > 6 or row["layout"] == "loose" and number["descriptors"] < 72:
            wrong.append("descriptors")
    elif number["intents"] != 128 and not running or number["cancelled"] > min(128, number["intents"]):
        wrong.append("cancels")
    if wrong:
        print("wrong", wrong, row)
PY
check "no row is missing" grep -qx 'missing \[\]' judged
check "none is there that should not" grep -qx 'unexpected \[\]' judged
check_status "figures make sense; warm passes and cancels allocate nothing" 1 grep '^wrong' judged
grep '^wrong' judged | head -n 3
check "collecting by sleeping" "$BENCH" basic --workers 1 --layouts raw.pack --wait
check_number "makes the same rows" "$(grep -cE '^(row|cancel) ' out)" -eq 4
head -c 2000 basic/loose/small/000.bin >short && cp basic/loose/small/000.bin kept && cp short basic/loose/small/000.bin
check_status "a file that is shorter than it should be is noticed" 1 "$BENCH" basic --layouts loose --workers 1
check_says "by its name" "small/000.bin"
cp kept basic/loose/small/000.bin

# ---- limits over the grid ----
printf 'a\tloose 0 warm\tmib_per_s\tloose 0 warm\t>=\t1\n' >limits
check "a limit that holds" py stream_limits grid limits
printf 'a\tloose * warm\tdescriptors\t-\t<=\t6\n' >limits
check_status "one that does not" 1 py stream_limits grid limits
printf 'a\tloose 64 warm\tdescriptors\t-\t<=\t6\n' >limits
check_status "a row that was not run" 1 py stream_limits grid limits
py stream_limits grid >looked-up
check_number "each of the project's limits is looked up" "$(wc -l <looked-up)" -eq "$(grep -vc '^#' "$ROOT/bench/stream_limits.tsv")"
check_number "and names rows that exist" "$(grep -c '	none	' looked-up)" -eq 0

# ---- the validation matrix: every byte ----
repetitions=1
[ -z "${LARDER_CI:-}" ] || repetitions=3
measure() { # output filters...
	py stream_replay measure replay --benchmark "$BENCH" --output "$1" --compiler-description c --storage-description s "${@:2}"
}
check "$((27 * repetitions)) runs of the validation matrix" measure matrix --validation --repetitions $repetitions
check_number "each has a line" "$(wc -l <matrix/runs.jsonl)" -eq $((27 * repetitions))
check_number "none failed" "$(json failures matrix/environment.json | tr -d '[]' | wc -w)" -eq 0
check_number "a cell each" "$(python3 -c 'import json; print(len(json.load(open("matrix/summary.json"))["cells"]))')" -eq 27
again=$(python3 -c 'import json, shlex; print(shlex.join(json.loads(open("matrix/runs.jsonl").readline())["command"]))')
check "a run's own command runs it again" sh -c "$again"
check "pairs with and without tracing, shared and independent opens, load, frames" measure pairs --families transition --layouts lz4.pack \
	--workers 4 --repetitions 1 --frame-us 4000
check_number "what tracing costs is said" "$(python3 -c 'import json; print(len(json.load(open("pairs/summary.json"))["tracing_cost"]))')" -eq 4
check "remote layouts" measure remote --families startup --layouts remote-warm --workers 0,1 --validation --repetitions 1
check "remote, nothing at hand" measure cold --families startup --layouts remote-cold --workers 0,4 --validation --repetitions 1 --cache uncontrolled
check_status "dropping the page cache needs to be allowed" 1 measure none --families startup --cache cold-start
check_says "and says how" "--disposable-runner"

# ---- single runs ----
trace=replay/families/transition.trace
check "shared opens, traced" replay --trace $trace --layouts raw.pack --workers 4 --tracing on --export chrome.json
check_number "a record a request" "$(said counts.trace_records)" -eq 128
check_number "and a slice of each in the exported trace" "$(python3 -c 'import json; d = json.load(open("chrome.json")); d = d["traceEvents"] if isinstance(d, dict) else d; print(len(d))')" -ge 128
check "a ring that overflows balances" replay --trace $trace --layouts raw.pack --workers 4 --tracing on --trace-records 2
check_number "records were lost" "$(said counts.trace_lost)" -gt 0
check "independent opens" replay --trace $trace --layouts loose --workers 1 --open independent
sed '2,$s/ [01]$/ 1/' $trace >all-cancelled.trace
check "everything is cancelled" replay --trace all-cancelled.trace --layouts lz4.pack --workers 1
check_number "each intent is counted" "$(said counts.cancel_intents)" -eq 128
check_number "each request is collected" "$(($(said counts.reads) + $(said counts.cancelled)))" -eq 128
check_number "some were cancelled in time" "$(said counts.cancelled)" -gt 0
check "everything is cancelled, synchronously" replay --trace all-cancelled.trace --layouts lz4.pack --workers 0
check_number "and skipped" "$(said counts.skipped)" -eq 128
check "frames" replay --trace $trace --layouts raw.pack --workers 1 --frame-us 4000 --frame-budget-us 1
check_number "some over a budget of 1 us" "$(said frames.over_budget)" -gt 0
check_number "each file is ready once" "$(said frames.ready.count)" -eq "$(sed 1d $trace | cut -d' ' -f2 | sort -u | wc -l)"
check "a window of a recorded game" "$BENCH" replay/wesnoth118-test-scenario --stream \
	--trace replay/wesnoth118-test-scenario/wesnoth118-test-scenario.trace --layouts lz4.pack --workers 1

# ---- damage ----
flipped() { # file offset
	python3 - "$1" "$2" <<-'PY'
	import sys
	with open(sys.argv[1], "r+b") as file:
	    file.seek(int(sys.argv[2]))
	    byte = file.read(1)
	    file.seek(int(sys.argv[2]))
	    file.write(bytes([byte[0] ^ 1]))
	PY
}
printf 'fs-r2 1 1\n0 87 0 1048576 0 0\n' >one.trace
flipped replay/families/loose/large/7.bin 700001
for workers in 0 1; do
	for cache in warm uncontrolled; do
		check_status "one bit inside a loose file, workers $workers, $cache" 1 replay --trace one.trace --layouts loose --workers $workers --cache $cache
		check_says "is found where it is" "large/7.bin: byte 700001 is"
	done
done
check_status "and by its digest before anything runs" 1 measure none --validation --families startup
check_says "which names it" "large/7.bin"
size=$(stat -c %s replay/families/raw.pack)
flipped replay/families/raw.pack $((size / 2))
awk 'BEGIN { print "fs-r2 1 32"; for (i = 72; i < 88; i++) for (k = 0; k < 2; k++) print 0, i, (i < 80 ? 0 : k * 1048576), (i < 80 ? 262144 : 1048576), 0, 0 }' >all.trace
check_status "one bit inside a pack" 1 replay --trace all.trace --layouts raw.pack --workers 4
python3 - "$WORK/err" <<-'PY' && ok "is a failure that the pack tells, not other bytes" || not_ok "is a failure that the pack tells, not other bytes" "$(tail -n 1 "$WORK/err")"
import sys
text = open(sys.argv[1]).read()
sys.exit("expected 0x" in text or not text.strip())
PY

# ---- beside slow reads ----
{ echo "fs-r2-files 1 400"; for i in $(seq 1000 1399); do printf '8192\t%s.bin\n' $i; done; } >many.tsv
check "a corpus by a list" py stream_corpus many --larder "$LARDER" --list many.tsv --data random
check "local reads beside slow ones" timeout 100 "$BENCH" many --mixed --pairs 2 --seconds 1 --slow-reads 10 --delay-ms 100
cp out mixed
check_number "a line a pair and the median" "$(grep -c '^mixed pair.* \(with_p99_ns\|median_ratio\)=[1-9]' mixed)" -ge 2
check_number "slow reads ended while local ones were measured" "$(sed -n 's/.* slow_done=\([0-9]*\) .*/\1/p' mixed | sort -n | head -1)" -gt 0
check_status "a corpus that is too small for it" 1 "$BENCH" basic --mixed --pairs 1 --seconds 1 --slow-reads 100 --delay-ms 1
check_says "says so" "all 72 files of the corpus were asked for"

# ---- comparing ----
check "nothing is worse than itself" py stream_replay compare matrix matrix
mkdir worse
python3 - <<'PY'
import json
summary = json.load(open("matrix/summary.json"))
summary["cells"][0]["figures"]["total.p99_ns"]["median"] *= 100
summary["cells"][0]["figures"]["total.p99_ns"]["median"] += 1e9
json.dump(summary, open("worse/summary.json", "w"))
PY
check_status "what is worse than accepted" 1 py stream_replay compare matrix worse
cp out compared
check "is named" grep -q 'total.p99_ns .* accepted' compared
