/*
 * What the builder's files share.
 *
 *   builder.c         one build from its options to its result
 *   builder_order.c   which file is read when
 *   builder_read.c    files into batches; changing files
 *   builder_batch.c   batches, and the workers that digest, look up and compress
 *   builder_blocks.c  every block of the run: id, place, who met it first
 *   builder_store.c   finished batches into packs
 *   builder_tree.c    tree, map and top block
 *
 * A block's life: it is cut in a batch by the feeder (the calling thread), which gives it a number; a
 * worker digests it, asks for its id among the known ones, claims the id for its number, and compresses
 * it unless somebody with a lower number has claimed it; the feeder gives it its place, in the order of
 * numbers: appended when the claim is its own, else the place of the number that has it.
 *
 * A claim only ever goes to a lower number, and all lower numbers have been worked on when a block's turn
 * comes: so the lowest number wins whatever the timing, and it has been compressed. (Two batches that
 * meet the same new id at the same moment may both compress it; one result is thrown away.)
 */
#ifndef LDR_PACKS_BUILDER_PRIV_H
#define LDR_PACKS_BUILDER_PRIV_H

#include "common/bytes.h"
#include "common/lock.h"
#include "packs/builder.h"
#include "packs/pack_writer.h"
#include "packs/pipeline.h"
#include "packs/scan_priv.h"

/* ---- blocks of the run (builder_blocks.c) ---- */

/* As many as a tree may have. */
#define LDR_RUN_BLOCKS_MAX (64u * 1024 * 1024)

struct ldr_run_block {
	struct ldr_block_ref block; /* the id is its worker's, before the claim */
	struct ldr_place place;     /* the worker's when known, else the feeder's */
};

/* Blocks by number, in segments that never move, and the table of claims. */
struct ldr_run_blocks {
	struct ldr_run_block **segments; /* owns */
	uint32_t count;                  /* the feeder's */
	struct ldr_mutex lock;           /* guards the claims, and the ids of claimed blocks */
	uint32_t *claims;                /* owns; block number + 1, open addressing by id */
	uint32_t claim_mask;
};

enum ldr_status ldr_run_blocks_init(struct ldr_run_blocks *blocks, struct ldr_error *err);
void ldr_run_blocks_dispose(struct ldr_run_blocks *blocks);
/* The feeder's: a new block. LDR_ELIMIT, LDR_ENOMEM. */
enum ldr_status ldr_run_blocks_add(struct ldr_run_blocks *blocks, uint32_t plain_bytes,
				   uint32_t *out_number, struct ldr_error *err);
struct ldr_run_block *ldr_run_block(const struct ldr_run_blocks *blocks, uint32_t number);
/* The worker's, once the id is set: claims it; false when a lower number has it. */
bool ldr_run_blocks_claim(struct ldr_run_blocks *blocks, uint32_t number);
/* The lowest number that has this block's id. */
uint32_t ldr_run_blocks_first(struct ldr_run_blocks *blocks, uint32_t number);

/* ---- batches (builder_batch.c) ---- */

/* Two buffers of this size a batch, at most 48 batches. */
#define LDR_FEED_BYTES (512u * 1024)
#define LDR_FEED_BLOCKS 256u
/* Reading a large file goes in steps of at least this; there is always so much room beside pending
 * bytes. */
#define LDR_FEED_LEAST_BYTES (128u * 1024)
#define LDR_FEED_ITEMS_MAX 48u
#define LDR_FEED_WORKERS_MAX 32u

struct ldr_feed_block {
	uint32_t number;
	uint32_t at; /* in both buffers */
	uint32_t plain_bytes;
	const struct ldr_codec_choice *choice;
	/* The worker's word: */
	enum { LDR_FEED_NEW, LDR_FEED_KNOWN, LDR_FEED_REPEATED } state;
	enum ldr_codec codec;
	uint32_t stored_bytes;
};

/* Bytes of many files (or of a part of one), cut into blocks. */
struct ldr_feed_batch {
	uint8_t *plain;  /* owns; cut bytes, then pending ones */
	uint8_t *stored; /* inside plain's allocation */
	uint32_t cut;
	uint32_t pending;
	uint32_t count;
	struct ldr_feed_block blocks[LDR_FEED_BLOCKS];
};

struct ldr_feed_worker {
	struct ldr_coder *coder;
	struct ldr_hasher *hasher;
};

/* ---- the build ---- */

/* Which blocks a file has. */
struct ldr_built_file {
	uint32_t first;
	uint32_t count;
};

struct ldr_builder {
	struct ldr_scan *scan;
	struct ldr_build_options options; /* defaults filled in */
	const struct ldr_pack_sink *sink; /* NULL: dry run */
	struct ldr_build result;          /* owns; moves to the caller at the end */

	/* builder_order.c, builder_read.c */
	uint32_t *order; /* owns; files in the order of reading */
	uint32_t order_count;
	struct ldr_built_file *files; /* owns; by entry of the scan */
	int folder_fd;                /* of the last file's folder, -1 for none */
	uint32_t folder;
	struct ldr_build_progress progress;

	/* builder_batch.c */
	struct ldr_run_blocks blocks;
	struct ldr_feed_batch *batches;  /* owns */
	void *items[LDR_FEED_ITEMS_MAX]; /* the batches, for the pipeline */
	unsigned batch_count;
	struct ldr_feed_worker *workers; /* owns */
	struct ldr_pipeline *pipeline;   /* owns */
	struct ldr_feed_batch *batch;    /* the one that is being filled, or NULL */

	/* builder_store.c */
	struct ldr_stream *stream;      /* owns, until the sink's finish */
	struct ldr_pack_writer *writer; /* owns; NULL: no pack is open */
	bool keep_together;             /* tree, map and top: do not end the pack any more */
};

/* builder_order.c: order from the layout, then the tree. */
enum ldr_status ldr_builder_set_order(struct ldr_builder *builder, struct ldr_error *err);

/* builder_read.c: every file, in order; and whatever changed since, once more. */
enum ldr_status ldr_builder_read_all(struct ldr_builder *builder, struct ldr_error *err);

/* builder_batch.c. start makes buffers and workers; stop ends and frees them. */
enum ldr_status ldr_feed_start(struct ldr_builder *builder, struct ldr_error *err);
void ldr_feed_stop(struct ldr_builder *builder);
/* Where the feeder may put bytes: at least `wanted`, which is at most LDR_FEED_BYTES when no bytes are
 * pending, else LDR_FEED_LEAST_BYTES. */
enum ldr_status ldr_feed_room(struct ldr_builder *builder, size_t wanted, uint8_t **out_room,
			      size_t *out_bytes, struct ldr_error *err);
/* Counts bytes that were put there as pending, and cuts blocks off the pending ones; at the end of a file
 * all of them. */
enum ldr_status ldr_feed_put(struct ldr_builder *builder, size_t bytes, bool end,
			     const struct ldr_codec_choice *choice, struct ldr_error *err);
/* Bytes at hand as blocks: cut by the chunker, or one single block. */
enum ldr_status ldr_feed_bytes(struct ldr_builder *builder, const void *bytes, size_t length,
			       bool single, struct ldr_error *err);
/* Waits until every block that was cut has its place. */
enum ldr_status ldr_feed_drain(struct ldr_builder *builder, struct ldr_error *err);

/* builder_store.c. A finished batch's blocks get their places. */
enum ldr_status ldr_payload_batch(struct ldr_builder *builder, const struct ldr_feed_batch *batch,
				  struct ldr_error *err);
/* Opens a pack where none is open. */
enum ldr_status ldr_payload_open(struct ldr_builder *builder, struct ldr_error *err);
/* Seals the open pack, if any, and gives it to the sink; tree: with this section. */
enum ldr_status ldr_payload_seal(struct ldr_builder *builder, bool tree, struct ldr_error *err);
/* After an error: forgets the open pack. */
void ldr_payload_abort(struct ldr_builder *builder);

/* builder_tree.c: the tree and the places; then, for a release, tree, map and top as blocks. */
enum ldr_status ldr_builder_make_tree(struct ldr_builder *builder, struct ldr_error *err);
enum ldr_status ldr_builder_store_tree(struct ldr_builder *builder, struct ldr_error *err);

#endif
