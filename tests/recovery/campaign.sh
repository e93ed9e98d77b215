#!/bin/bash
# campaign.sh quick|gate|full|mutants   prints a campaign for crashlab (core/plan.h says what a line means).
#
#   quick    a few hundred states of one publication on ext4, two broken publishers, a disk that lies
#   gate     the publisher on every leg: create and replace, empty and 12,305 bytes, three policies, each without
#            and with foreign commits; single commits at each boundary; failing devices; histories, sectors of 512 bytes, started
#            writeback, batches and the product's programs by sample
#   full     the same with single commits everywhere, sectors of 512 bytes, all cuts, and nothing sampled
#   mutants  the publishers that must be caught, and a device that ignores flushes
#
# From the environment: SUBJECTS, a folder that prepare.sh made.
set -eu

everything=prefix,subset,tornlast,torn

publications() { # keys
	local how size policy
	for how in create replace; do
		for size in 0 12305; do
			for policy in folder file none; do
				echo "publish-$how-$size-$policy $1 -- @publish --$how --size $size --policy $policy"
			done
		done
	done
}

single_commits() { # keys
	local how
	for how in create replace; do
		echo "each-$how inject=each models=prefix,subset $1 -- @publish --$how"
	done
}

# The control is the broken publishers' frame with nothing broken.
control() { echo "control-$1 inject=none,all models=prefix,subset -- @publish --$1 --mutant correct"; }

mutant() { # name, case, keys: what the file systems do not hide
	echo "mutant-$1 expect=violations models=prefix,subset $3 -- @publish --$2 --mutant $1"
}

mutants() {
	mutant no-fsync create inject=none
	mutant no-dirsync replace inject=none
	mutant rename-first create inject=all
	mutant unlink-first replace inject=all
	mutant early-ack replace inject=none
	mutant in-place replace inject=none
	mutant short-write create inject=none
	mutant ignore-fsync replace "inject=none faults=40 sample=24"
	echo "mutant-lying-device expect=violations inject=none models=lying -- @publish --replace"
}

# Batches, the cache, the installer and the server. A state of the last three costs 30 to 400 ms, so the gate takes declared samples.
products() { # samples of cache, fetch, larderd, of their mutants, of batches
	local here subjects=${SUBJECTS:-}
	here=$(cd "$(dirname "$0")" && pwd)
	echo "batch inject=none,all sample=$5 models=$everything cuts=4 max=200000 -- @batch"
	batch_mutant no-file-sync inject=all sample=60
	batch_mutant no-folder-sync inject=none ""
	batch_mutant no-plan-sync inject=all sample=60
	batch_mutant no-record-sync inject=none ""
	batch_mutant rename-first inject=all sample=60
	batch_mutant early-ack inject=none sample=24
	# The record's own sync takes the changes along, but for btrfs.
	batch_mutant no-change-sync inject=none legs=btrfs
	echo "cache inject=none sample=$1 models=$everything cuts=4 max=200000 -- @cache"
	echo "mutant-cache-no-sync expect=violations inject=none sample=$4 models=prefix,subset max=200000 -- @cache --mutant no-sync"
	if [ -z "$subjects" ]; then
		pending "fetch: SUBJECTS names no folder of prepare.sh" "larderd: SUBJECTS names no folder of prepare.sh"
		return
	fi
	echo "fetch inject=none sample=$2 models=$everything cuts=4 max=200000 -- $here/fetch.sh $subjects"
	echo "mutant-fetch-no-sync expect=violations inject=none sample=$4 models=prefix max=200000 -- $here/fetch.sh $subjects --mutant no-sync"
	echo "larderd inject=none sample=$3 models=$everything cuts=4 max=200000 -- $here/serve.sh $subjects"
	echo "mutant-larderd-no-sync expect=violations inject=none sample=$4 models=prefix max=200000 -- $here/serve.sh $subjects --mutant no-sync"
	# Few states show it (the channel's move comes last), so all prefixes are taken.
	echo "mutant-larderd-no-folder-sync legs=ext4,xfs expect=violations inject=none models=prefix max=200000 -- $here/serve.sh $subjects --mutant no-folder-sync"
	pending "retention: larder gc is not there yet"
}

batch_mutant() { # name, injection, keys
	echo "mutant-batch-$1 legs=ext4,xfs,btrfs expect=violations $2 models=prefix max=200000 $3 -- @batch --mutant $1"
}

pending() {
	local line
	for line in "$@"; do echo "pending $line"; done
}

case ${1:-} in
quick)
	echo "publish-replace legs=ext4 inject=none models=$everything cuts=8 agree=3 -- @publish --replace"
	echo "mutant-no-dirsync legs=ext4 expect=violations inject=none -- @publish --replace --mutant no-dirsync"
	echo "mutant-rename-first legs=ext4 expect=violations inject=all -- @publish --create --mutant rename-first"
	echo "mutant-lying-device legs=ext4 expect=violations models=lying -- @publish --replace"
	;;
gate)
	publications "inject=none,all models=$everything torn=8 cuts=8 fsck=1"
	single_commits ""
	echo "faults-replace inject=none faults=40 sample=24 models=prefix,subset -- @publish --replace"
	echo "history inject=random:2 sample=150 models=$everything cuts=8 max=200000 agree=3 -- @publish --replace --versions 6 --size 9000"
	echo "sectors-replace inject=none sample=60 models=tornlast,torn grain=512 cuts=256 torn=48 max=200000 -- @publish --replace"
	echo "writeback-replace inject=all kinds=w models=prefix,subset -- @publish --replace"
	control create
	control replace
	products 120 60 24 24 60
	mutants
	;;
full)
	publications "inject=none,all,each kinds=commit,w models=$everything torn=24 fsck=4 agree=2 max=200000"
	publications "inject=none models=tornlast,torn grain=512 cuts=256 torn=48 max=200000" | sed 's/^publish/sectors/'
	for how in create replace; do
		for policy in folder file none; do
			echo "faults-$how-$policy inject=none faults=200 models=prefix,subset -- @publish --$how --policy $policy"
		done
	done
	echo "history inject=none,random:8 models=$everything cuts=8 max=200000 -- @publish --replace --versions 6 --size 9000"
	control create
	control replace
	products 0 0 0 100 0
	mutants
	;;
mutants) mutants ;;
*)
	sed -n '2,10p' "$0" >&2
	exit 2
	;;
esac
