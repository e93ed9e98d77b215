#!/bin/bash
# vfs_bench at a tiny scale over all targets: every row is there, the tables can be read, charts are drawn; traces, the counting
# allocator, the comparison of whole trees.
# limit: 300
. "$ROOT/tests/scenario/lib.sh"

BENCH=$PROGRAMS/bench/vfs_bench
[ -x "$BENCH" ] || BENCH=$ROOT/build/release/bench/vfs_bench
if [ ! -x "$BENCH" ]; then
	skip "vfs_bench" "not built (make benches)"
	exit 0
fi
CHARTS="/usr/bin/python3 $ROOT/bench/charts.py"
tiny() { "$BENCH" --dir "$WORK" --scale 0.003 --min-ms 1 --max-ms 300 --iterations 1 "$@"; }

# ---- options ----
check "--list" tiny --list
sed -n '/^targets:/,$p' "$WORK/out" | sed 1d | tr -d ' ' >targets
sed -n '/^scenarios:/,/^targets:/p' "$WORK/out" | sed '1d;$d' | tr -d ' ' >scenarios
check_number "13 scenarios" "$(wc -l <scenarios)" -eq 13
for name in base:stdio base:fstream base:posix base:http limit:table peer:physfs vfs:native vfs:native-watched vfs:memory vfs:archive \
	vfs:archive-xor vfs:archive-lz4 vfs:archive-zstd vfs:archive-aes vfs:archive+native vfs:memory+archive vfs:3layer vfs:nested8 \
	vfs:embedded vfs:remote-warm vfs:remote-cold; do
	grep -qxF $name targets && ok "target $name" || not_ok "target $name" "not in --list"
done
for wrong in "--threads 0" "--scale x" "--iterations 0" "--no-such" "extra" "--data ." "--filter ,"; do
	check_status "usage: $wrong" 2 tiny $wrong
done

# ---- every row ----
check "all targets" tiny --threads 1,2 --csv t.csv --md t.md --spread s.csv --strict
cp out all.out
check "the build type is said" grep -q '^vfs_bench .* build type: release' all.out
check "header of the CSV" test "$(head -1 t.csv)" = scenario,target,threads,ops_per_s,mib_per_s,p50_us,p99_us,vs_stdio
python3 - t.csv s.csv targets scenarios >rows 2>&1 <<-'PY'
import csv, sys
table, spread, targets, scenarios = sys.argv[1:]
rows = list(csv.DictReader(open(table)))
have = {(row["scenario"], row["target"], row["threads"]) for row in rows}
targets = open(targets).read().split()
scenarios = open(scenarios).read().split()
only_read = {"base:http", "base:http-gzip", "limit:table", "peer:physfs", "vfs:archive", "vfs:archive-mapped", "vfs:archive-xor",
             "vfs:archive-lz4", "vfs:archive-zstd", "vfs:archive-aes", "vfs:archive-lz4-small", "vfs:archive+native",
             "vfs:archive+native-live", "vfs:nested8", "vfs:embedded", "vfs:remote-warm", "vfs:remote-cold"}
whole_files = {"base:fstream", "peer:physfs-folder"}
missing = set()
for target in targets:
    for scenario in scenarios:
        if scenario.startswith("write.") and target in only_read:
            continue
        if scenario in ("write.large.seq", "write.overwrite", "write.append") and target in whole_files:
            continue
        if target.startswith("base:http") and scenario in ("meta.open", "meta.list"):
            continue
        if target == "base:http-gzip" and scenario in ("read.large.rand", "meta.stat"):
            continue
        missing |= {(scenario, target, n) for n in ("1", "2")}
print("missing", sorted(missing - have))
print("unexpected", sorted(have - missing))
for row in rows:
    metadata = row["scenario"].startswith("meta.")
    if float(row["ops_per_s"]) <= 0 or (row["mib_per_s"] == "-") != metadata or float(row["p50_us"]) > float(row["p99_us"]):
        print("wrong", row)
    if row["target"] == "base:stdio" and float(row["vs_stdio"]) != 1:
        print("wrong", row)
for row in csv.DictReader(open(spread)):
    if not 0 < float(row["least_ops_per_s"]) <= float(row["most_ops_per_s"]):
        print("wrong", row)
PY
check "no row is missing" grep -qx 'missing \[\]' rows
check "none is there that should not" grep -qx 'unexpected \[\]' rows
check_status "figures make sense" 1 grep '^wrong' rows

# ---- charts ----
check "a chart from CSV" $CHARTS --input t.csv --out charts --platform csv --label "a label"
check "it is an SVG with a panel a scenario" test "$(grep -c '<!-- \(read\|meta\|write\)\.[a-z.]* -->' charts/vfs-csv.svg)" -eq 13
check "a chart from Markdown" $CHARTS --input t.md --out charts --platform md
$CHARTS --input t.csv --list | cut -d, -f1-3 >from-csv
$CHARTS --input t.md --list | cut -d, -f1-3 >from-md
check "both tables have the same rows" cmp from-csv from-md
check "a summary has a line a target, stdio but" test \
	"$($CHARTS --input t.csv --summary | grep -E '^\| [a-z]+:' | cut -d' ' -f2 | sort -u | wc -l)" -eq "$(($(wc -l <targets) - 1))"
sed 's/,vs_stdio/,speed/' t.csv >bad.csv
check_status "another header is refused" 1 $CHARTS --input bad.csv --list
sed '2s/,1,/,one,/' t.csv >bad.csv
check_status "a word for a number is refused" 1 $CHARTS --input bad.csv --list
check_says "and the line is named" "bad.csv:2"
check_status "a document without the table is refused" 1 $CHARTS --input "$ROOT/README.md" --list
head -1 t.csv >extra.csv
echo "read.small,vfs:archive,1,7,-,1,2,7.5" >>extra.csv
check "an extra table replaces rows" test "$($CHARTS --input t.csv --extra extra.csv --list | grep -c '^read.small,vfs:archive,1,7.0,-')" -eq 1

# ---- limits ----
printf 'read.small\tvfs:archive\t1\t0.0001\tbase:stdio\t=\n' >limits
check "a limit that holds" python3 "$ROOT/bench/vfs_limits.py" t.csv limits
printf 'read.small\tvfs:archive\t1\t1000000\tbase:stdio\t=\n' >limits
check_status "one that does not" 1 python3 "$ROOT/bench/vfs_limits.py" t.csv limits
printf 'read.small\tvfs:none\t1\t0\tbase:stdio\t=\n' >limits
check_status "a row that was not run" 1 python3 "$ROOT/bench/vfs_limits.py" t.csv limits
check "the limits of the project name scenarios and targets that exist" python3 - "$ROOT/bench/vfs_limits.tsv" targets scenarios <<-'PY'
import sys
limits, targets, scenarios = (open(path).read() for path in sys.argv[1:])
for line in limits.splitlines():
    if line and not line.startswith("#"):
        scenario, target, _, _, reference, other = line.split("\t")
        assert target in targets.split() and reference in targets.split(), line
        assert any(name.startswith(scenario.rstrip("*")) for name in scenarios.split()), line
        assert other == "=" or other in scenarios.split(), line
PY

# ---- traces, allocations, whole trees, the dataset kept ----
for trace in wesnoth118-test-scenario cdda-names-seekstorm; do
	check "trace $trace" tiny --trace "$ROOT/bench/traces/$trace.tsv.gz" --threads 1 --csv trace.csv --targets \
		base:stdio,vfs:native,vfs:native-watched,vfs:memory,vfs:archive-lz4,vfs:3layer
	check_number "its rows" "$(grep -c "^trace.$trace," trace.csv)" -eq 6
done
echo "0.1 open nothing" | gzip >bad.gz
check_status "a trace that is none" 1 tiny --trace bad.gz
check "warm opens and reads allocate nothing" tiny --allocations --threads 1,8 --strict --filter base:stdio,vfs:native,vfs:memory,vfs:archive,vfs:3layer,vfs:nested8,vfs:embedded
cp out allocations.out
check "and stdio's allocations are seen" grep -qE 'meta.open +base:stdio +1 .* [1-9][0-9]* allocations' allocations.out
check "20,000 handles at once" tiny --handles 20000 --targets vfs:archive,vfs:memory,vfs:3layer
cp out handles.out
check_number "take no descriptor" "$(grep -c 'handles at once, 0 descriptors more' handles.out)" -eq 3
make_tree tree 1
check "every file of a tree through every target" tiny --verify --data tree --strict --filter vfs:,base:
check "a dataset is kept" tiny --keep --threads 1 --filter read.small/base:stdio
stamp=$(stat -c %Y.%i larder-vfs-bench/tree/small/f000000.bin)
check "and used again" tiny --keep --threads 1 --filter read.small/base:stdio
check "as it is" test "$stamp" = "$(stat -c %Y.%i larder-vfs-bench/tree/small/f000000.bin)"
check "cold runs" tiny --cold --threads 1 --filter read.small/base:stdio,read.small/vfs:archive
check "nothing is left" test -z "$(find . -maxdepth 1 -name 'larder-vfs-bench.*')"
