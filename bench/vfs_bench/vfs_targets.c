/*
 * vfs_targets.c   the list of Larder's targets.
 */
#include "bench/vfs_bench/vfs_targets.h"

#include "bench/vfs_bench/packs.h"
#include "bench/vfs_bench/remote.h"
#include "bench/vfs_bench/vfs_mounts.h"

/* A target whose cache is too small for the data is never warm: it may allocate. */
#define READS (BENCH_OPENS | BENCH_OURS)
#define ALL (READS | BENCH_WRITES | BENCH_HANDLE_WRITES)

#define RECIPE(name, ...) static const struct bench_recipe name = {__VA_ARGS__}

RECIPE(native, BENCH_PART_NATIVE, 0);
RECIPE(native_trusted, BENCH_PART_NATIVE | BENCH_PART_TRUSTED, 0);
RECIPE(native_watched, BENCH_PART_NATIVE | BENCH_PART_WATCHED, 0);
RECIPE(memory, BENCH_PART_MEMORY, 0);
RECIPE(archive, BENCH_PART_ARCHIVE, BENCH_PACK_PLAIN);
RECIPE(archive_mapped, BENCH_PART_ARCHIVE | BENCH_PART_MAPPED, BENCH_PACK_PLAIN);
RECIPE(archive_xor, BENCH_PART_ARCHIVE, BENCH_PACK_XOR);
RECIPE(archive_lz4, BENCH_PART_ARCHIVE, BENCH_PACK_LZ4);
RECIPE(archive_zstd, BENCH_PART_ARCHIVE, BENCH_PACK_ZSTD);
RECIPE(archive_aes, BENCH_PART_ARCHIVE, BENCH_PACK_AES);
RECIPE(archive_lz4_small, BENCH_PART_ARCHIVE | BENCH_PART_EIGHTH, BENCH_PACK_LZ4);
RECIPE(archive_native, BENCH_PART_ARCHIVE | BENCH_PART_OVERRIDE, BENCH_PACK_PLAIN);
RECIPE(archive_native_live, BENCH_PART_ARCHIVE | BENCH_PART_OVERRIDE_LIVE, BENCH_PACK_PLAIN);
RECIPE(memory_archive, BENCH_PART_ARCHIVE | BENCH_PART_SCRATCH, BENCH_PACK_PLAIN);
RECIPE(three, BENCH_PART_ARCHIVE | BENCH_PART_OVERRIDE | BENCH_PART_SCRATCH, BENCH_PACK_PLAIN);
RECIPE(nested, BENCH_PART_ARCHIVE | BENCH_PART_NESTED, BENCH_PACK_PLAIN);
RECIPE(embedded, BENCH_PART_ARCHIVE | BENCH_PART_EMBEDDED, BENCH_PACK_PLAIN);
RECIPE(remote_warm, BENCH_PART_WARM, 0);
RECIPE(remote_cold, BENCH_PART_COLD, 0);

#define TARGET(label, what, which)                                                                 \
	{                                                                                          \
		.name = "vfs:" label, .traits = (what), .ops = &bench_vfs_ops, .recipe = &(which), \
		.up = bench_mounts_up, .down = bench_mounts_down                                   \
	}

static const struct bench_target targets[] = {
	TARGET("native", ALL, native),
	TARGET("native-trusted", ALL, native_trusted),
	TARGET("native-watched", ALL, native_watched),
	TARGET("memory", ALL | BENCH_IN_MEMORY, memory),
	TARGET("archive", READS, archive),
	TARGET("archive-mapped", READS, archive_mapped),
	TARGET("archive-xor", READS, archive_xor),
	TARGET("archive-lz4", READS, archive_lz4),
	TARGET("archive-zstd", READS, archive_zstd),
	TARGET("archive-aes", READS, archive_aes),
	TARGET("archive-lz4-small", BENCH_OPENS, archive_lz4_small),
	TARGET("archive+native", READS, archive_native),
	TARGET("archive+native-live", READS, archive_native_live),
	TARGET("memory+archive", ALL, memory_archive),
	TARGET("3layer", ALL, three),
	TARGET("nested8", READS, nested),
	TARGET("embedded", READS, embedded),
	TARGET("remote-warm", READS, remote_warm),
	{
		.name = "vfs:remote-cold",
		.traits = BENCH_OPENS,
		.ops = &bench_vfs_ops,
		.recipe = &remote_cold,
		.up = bench_mounts_up,
		.down = bench_mounts_down,
		.ready = bench_remote_chill,
	},
};

const struct bench_target *bench_vfs_targets(size_t *out_count)
{
	*out_count = sizeof(targets) / sizeof(targets[0]);
	return targets;
}
