/*
 * The builder: a scanned folder becomes packs and a tree, for a local archive or for a release.
 *
 * The calling thread reads files, cuts them into blocks and appends to packs; workers digest, look ids
 * up among the known blocks, and compress. Blocks are appended in the order in which they were read,
 * whatever worker is done first.
 *
 * Invariants
 *  1. Same tree, same options, same known blocks: same packs, byte for byte, whatever the number of
 *     workers, their timing and the file system's order of names.
 *  2. No bytes are ever stored under an id that is not theirs: ids are made of the bytes that were read,
 *     after they were read.
 *  3. A file that changes while it is read, or after it was read and before the build ends, is read a
 *     second time; changing again is LDR_ECHANGED, naming the file and both stamps. (Blocks of the first
 *     reading of a file over 512 KiB may stay in the pack unused.)
 *  4. A block is stored once, where it is first met; a known block is not stored at all.
 *  5. Buffers take at most 48 MiB and the coders some 3 MiB a worker, whatever the tree. Tables grow by
 *     some 100 bytes an entry and 90 a block.
 *  6. Nothing is committed after an error: a pack that is open is aborted; packs that were finished
 *     before are the caller's orphans.
 *
 * A release's tree and map are cut into blocks like files; those that are not known, then the top
 * block, lie side by side at the end of the last pack (which may so pass the target). An archive has its
 * tree in the pack's LDR_SECTION_TREE and no map or top block.
 *
 * Threads: one call owns scan, sink and progress; they are called from the calling thread only. The
 * known table is asked from many threads at once and so must be read-only while the build runs.
 */
#ifndef LDR_PACKS_BUILDER_H
#define LDR_PACKS_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/publisher.h"
#include "packs/chunker.h"
#include "packs/codec.h"
#include "packs/map.h"
#include "packs/scan.h"
#include "packs/tree_reader.h"

/* Blocks that need not be stored again, because packs that the release will list hold them. */
struct ldr_known_blocks {
	/* True, with the place (pack number of the release), when the block is known. Any thread. */
	bool (*find)(void *context, const struct ldr_id *id, struct ldr_place *out_place);
	void *context;
};

/* Where packs go. */
struct ldr_pack_sink {
	/* A new stream, which the builder appends to. Called when the pack's first block is there (for
	 * an archive always once, also for an empty one). */
	enum ldr_status (*begin)(void *context, struct ldr_stream **out_stream,
				 struct ldr_error *err);
	/* The pack is sealed: commits the stream under the name that the id gives. The stream is the
	 * callee's now, whatever the outcome. ordinal counts this build's packs from 0. */
	enum ldr_status (*finish)(void *context, struct ldr_stream *stream, const struct ldr_id *id,
				  uint64_t size_bytes, uint32_t ordinal, struct ldr_error *err);
	void *context;
};

struct ldr_build_progress {
	uint64_t bytes_read;
	uint64_t bytes_total; /* as scanned; a file that grew can make bytes_read pass it */
	uint64_t files_read;
	uint64_t files_total;
	uint64_t new_stored_bytes;
};

enum ldr_build_kind {
	LDR_BUILD_ARCHIVE, /* one pack with the tree as a section */
	LDR_BUILD_RELEASE, /* packs with tree, map and top blocks */
};

/* Zero (after size) means the default in brackets. */
struct ldr_build_options {
	size_t size; /* sizeof(struct ldr_build_options) */
	enum ldr_build_kind kind;
	struct ldr_codec_choice codec; /* (none) */
	struct ldr_chunk_sizes chunks; /* (LDR_CHUNK_SIZES_DEFAULT) */
	unsigned workers;              /* (processors) */
	uint64_t pack_target_bytes;    /* a release's packs end before they pass it (one pack) */
	uint32_t align;                /* of blocks stored raw (none) */
	uint32_t first_pack_number;    /* of a release's new packs: place.pack = this + ordinal */
	/* Files whose blocks come first in the payload, in this order; the tree is not affected.
	 * LDR_ENOTFOUND: unknown, LDR_EISDIR or LDR_ELINK: not a file, LDR_EEXISTS: named twice. */
	const char *const *layout;
	size_t layout_count;
	struct ldr_known_blocks known; /* (none; never asked for an archive) */
	/* Codec by path, asked once a file in the order of reading; NULL gives the choice above. The
	 * choice it returns must outlive the build. A block that several files share is stored as the
	 * first of them asks. */
	const struct ldr_codec_choice *(*codec_for)(void *context, const char *path);
	void *codec_context;
	/* After each file, and inside large ones; false cancels: LDR_ECANCELLED. */
	bool (*progress)(void *context, const struct ldr_build_progress *progress);
	void *progress_context;
};

struct ldr_build_stats {
	uint64_t files;
	uint64_t bytes;                         /* of all files */
	uint64_t blocks;                        /* references in the tree */
	uint64_t known_blocks;                  /* references to known blocks */
	uint64_t new_blocks;                    /* stored now, with those of tree, map and top */
	uint64_t new_plain_bytes;               /* of the new blocks */
	uint64_t new_stored_bytes;              /* of the new blocks, without headers and indexes */
	uint64_t files_read_again;              /* changed while the build ran */
	uint64_t codec_blocks[LDR_CODEC_COUNT]; /* of the new blocks */
	uint64_t codec_plain_bytes[LDR_CODEC_COUNT];
	uint64_t codec_stored_bytes[LDR_CODEC_COUNT];
};

struct ldr_built_pack {
	struct ldr_id id;
	uint64_t size_bytes;
};

/* Owns its arrays: ldr_build_dispose. */
struct ldr_build {
	uint8_t *tree;
	size_t tree_bytes;
	struct ldr_id tree_digest; /* SHA-256 of the tree's bytes */
	struct ldr_tree_totals totals;
	struct ldr_place *places;     /* of each reference, in tree order: totals.blocks of them */
	struct ldr_built_pack *packs; /* new ones, by ordinal */
	uint32_t pack_count;
	uint64_t map_bytes;          /* releases: 14 times totals.blocks */
	struct ldr_placed_block top; /* releases */
	struct ldr_build_stats stats;
};

void ldr_build_dispose(struct ldr_build *build);
#define LDR_AUTO_BUILD __attribute__((cleanup(ldr_build_dispose)))

/* Builds from a scan, whose stamps, sizes and modes it corrects where files changed since. With sink
 * NULL nothing is written (a dry run): the figures are right, no pack is made, and the places of new
 * blocks mean nothing. *out_build is written on success only. */
LDR_API enum ldr_status ldr_build_run(struct ldr_scan *scan,
				      const struct ldr_build_options *options,
				      const struct ldr_pack_sink *sink, struct ldr_build *out_build,
				      struct ldr_error *err);

#endif
