#!/bin/bash
# run.sh [delivery|vfs|vfs-studies|vfs-full|stream|stream-full]...   every benchmark in turn (the first two), by hand on a quiet machine; reports go to
# build/bench. Assets come from $LARDER_CORPORA (bench/corpora.sh brings them); what needs assets that are not there is said
# to be skipped.
#
#   delivery   publishing, fetching and updating beside casync
#   vfs        the virtual file system: the targets of the table of limits with 1 and 8 threads (under 15 minutes), then each limit
#   vfs-studies   cold reads, sizes of blocks, recorded games (some 10 minutes)
#   stream     asynchronous reads: the basic grid with all rows in five rounds, then each limit; windows of recorded games with frames
#   stream-full   the 648 runs of the default matrix (some ten minutes)
#   vfs-full   all targets and scenarios with 1, 2, 4 and 8 threads (over half an hour)
set -u
cd "$(dirname "$0")/.." || exit 1
corpora=${LARDER_CORPORA:-${XDG_CACHE_HOME:-$HOME/.cache}/larder-corpora}
mkdir -p build/bench
status=0
build=${BUILD:-build/release}

delivery() {
	local name last before
	for name in wesnoth openmoji mame warzone2100; do
		last=$(ls -d "$corpora/$name"/[0-9] 2>/dev/null | tail -1)
		if [ -z "$last" ] || [ "$(basename "$last")" -lt 2 ]; then
			echo "skipped: delivery of $name (no corpus)"
			continue
		fi
		before=$corpora/$name/$(($(basename "$last") - 1))
		echo "delivery of $name, $(basename "$before") to $(basename "$last")"
		python3 bench/delivery.py "$before" "$last" --rounds "${ROUNDS:-5}" --csv "build/bench/delivery-$name.csv" || status=1
	done
}

# vfs_bench with tables build/bench/NAME.{csv,md} and build/bench/NAME-spread.csv
vfs_bench() { # name options...
	local name=$1
	shift
	"$build/bench/vfs_bench" --csv "build/bench/$name.csv" --md "build/bench/$name.md" \
		--spread "build/bench/$name-spread.csv" "$@"
}

# Each target that a limit names, on either side.
limit_targets() { grep -v '^#' bench/vfs_limits.tsv | cut -f 2,5 | tr '\t' '\n' | sort -u | paste -sd, -; }

chart() { # name extra...
	local name=$1
	shift
	/usr/bin/python3 bench/charts.py --platform "$name" --input "build/bench/$name.csv" --out build/bench \
		--label "$(uname -sr), $(nproc) processors, $(date -u +%F)" "$@"
}

vfs() {
	vfs_bench vfs --threads 1,8 --scale "${SCALE:-1}" --targets "$(limit_targets)" || { status=1; return; }
	chart vfs
	python3 bench/vfs_limits.py build/bench/vfs.csv >build/bench/vfs-limits.tsv
	awk -F'\t' '{ verdict = ($2 != "none" && $2 + 0 >= $3 + 0) ? "PASS" : "FAIL"; printf "%-78s %10s >= %-6s %s\n", $1, $2, $3, verdict
		count[verdict]++ } END { printf "limits: %d hold, %d do not\n", count["PASS"], count["FAIL"] }' build/bench/vfs-limits.tsv
}

vfs_studies() {
	local kib trace reads=read.small,read.medium,read.large.seq,read.large.rand
	vfs_bench vfs-cold --threads 1,8 --cold --scenarios $reads --targets \
		base:stdio,base:posix,peer:physfs,vfs:native,vfs:archive,vfs:archive-lz4,vfs:archive-zstd,vfs:archive-aes,vfs:remote-warm,vfs:remote-cold || status=1
	vfs_bench vfs-more --threads 1,8 --max-ms 600 --scenarios $reads,meta.open,meta.stat,meta.miss --targets \
		base:stdio,base:http,base:http-gzip,vfs:archive+native-live,vfs:archive-mapped,vfs:remote-cold || status=1
	for kib in 16 64 128; do
		vfs_bench "vfs-block-$kib" --threads 1 --block-size $kib --scenarios $reads \
			--targets base:stdio,vfs:archive-lz4,vfs:archive-lz4-small || status=1
	done
	for trace in bench/traces/*.tsv.gz; do
		vfs_bench "vfs-$(basename "$trace" .tsv.gz)" --threads 1 --trace "$trace" --targets \
			base:stdio,base:posix,limit:table,peer:physfs,vfs:native,vfs:native-watched,vfs:memory,vfs:archive,vfs:archive-lz4,vfs:archive+native,vfs:3layer || status=1
	done
}

vfs_full() { vfs_bench vfs-full --threads 1,2,4,8 || { status=1; return; } && chart vfs-full; }

# NAME makes the corpus build/bench/stream/NAME
stream_corpus() { python3 bench/stream_corpus.py "build/bench/stream/$1" --larder "$build/larder" --data "$2" >/dev/null; }
stream_measure() { # output options...
	python3 bench/stream_replay.py measure build/bench/stream/replay --benchmark "$build/bench/stream_bench" --output "build/bench/stream-$1" \
		--compiler-description "$(gcc --version | head -1)" --storage-description "$(df --output=fstype,source build | tail -1)" "${@:2}"
}

stream() {
	local data name windows=doom-freedoom2-demo1,wesnoth118-nogui,wesnoth118-test-scenario,cdda-names-seekstorm
	for data in period compressible,half,random; do
		name=${data%%,*}
		stream_corpus "$name" "$data" || { status=1; continue; }
		"$build/bench/stream_bench" "build/bench/stream/$name" --rounds "${ROUNDS:-5}" --layouts \
			loose,raw.pack,lz4.pack,raw.pack+anew,lz4.pack+anew,remote-warm,remote-cold >"build/bench/stream-$name.txt" || status=1
		python3 bench/stream_limits.py "build/bench/stream-$name.txt" | tee "build/bench/stream-$name-limits.tsv"
		"$build/bench/stream_bench" "build/bench/stream/$name" --layouts loose,parent-crc >"build/bench/stream-$name-parent.txt" || status=1
	done
	python3 bench/stream_replay.py generate build/bench/stream/replay --larder "$build/larder" --windows "$windows" || status=1
	stream_measure games --families "$windows" --layouts loose,raw.pack,lz4.pack,remote-warm --validation --frame-us 16667 || status=1
}

stream_full() {
	python3 bench/stream_replay.py generate build/bench/stream/replay --larder "$build/larder" && stream_measure full || status=1
}

for part in "${@:-delivery}" $([ $# -gt 0 ] || echo vfs); do
	case $part in
	delivery) delivery ;;
	vfs) vfs ;;
	vfs-studies) vfs_studies ;;
	vfs-full) vfs_full ;;
	stream) stream ;;
	stream-full) stream_full ;;
	*) sed -n '2,12p' "$0"; exit 2 ;;
	esac
done
exit $status
