/*
 * Filling an installation's temporaries; see stage.h.
 *
 * Invariants
 *  1. No byte is written that was not digested against its block's id just before.
 *  2. A temporary is complete when its last block is in; who writes that one takes the stamp.
 *  3. Every wanted block is worked on by one thread only, so that its destinations need no lock.
 */
#include "client/stage.h"

#include <inttypes.h>
#include <stdlib.h>

#include "client/bench.h"
#include "client/parallel.h"
#include "common/bytes.h"
#include "common/lock.h"
#include "common/os.h"

struct run {
	const struct ldr_stage *stage;
	struct ldr_plan *plan;
	struct ldr_benches *benches;
	const uint32_t *items; /* indexes of wanted blocks, for the loop at hand */
	uint32_t *left;        /* wanted blocks that no nearer place had */
	atomic_size_t left_count;
	const struct ldr_placed_block *wants; /* for the fetch at hand, beside items */
};

/* ---- writing ---- */

static enum ldr_status finish_file(struct run *run, const struct ldr_planned_file *file, int fd,
				   struct ldr_error *err)
{
	struct ldr_tree_node node;
	struct stat stat;
	int code = ldr_os_stat(fd, &stat);

	ldr_tree_node(run->plan->tree, file->node, &node);
	/* A temporary of a killed run may be longer. */
	if (!code && (uint64_t)stat.st_size != node.size_bytes) {
		code = ldr_os_truncate(fd, node.size_bytes);
		if (!code)
			code = ldr_os_stat(fd, &stat);
	}
	if (code)
		return ldr_fail_errno(err, code, "temporary %s", file->temporary);
	run->plan->stamps[file->node] = (struct ldr_file_stamp){
		.modified_ns = (uint64_t)stat.st_mtim.tv_sec * 1000000000u +
			       (uint64_t)stat.st_mtim.tv_nsec,
		.inode = stat.st_ino,
	};
	atomic_fetch_add(&run->stage->progress->files_done, 1);
	return LDR_OK;
}

static enum ldr_status fill_destination(struct run *run, struct ldr_destination *destination,
					const void *plain, uint32_t length, struct ldr_error *err)
{
	struct ldr_planned_file *file = &run->plan->files[destination->file];
	LDR_AUTO_FD int fd = -1;
	enum ldr_status status = ldr_batch_open(run->stage->batch, file->temporary, &fd, err);
	int code;

	if (status)
		return status;
	code = ldr_os_pwrite(fd, plain, length, destination->offset);
	if (code) {
		char path[LDR_PATH_MAX_BYTES + 1];

		ldr_tree_path(run->plan->tree, file->node, path);
		return ldr_fail_errno(err, code, "writing %s", path);
	}
	destination->filled = true;
	/* Pairs with the other threads' decrements: their writes are before our stamp. */
	if (atomic_fetch_sub_explicit(&file->blocks_left, 1, memory_order_acq_rel) == 1)
		return finish_file(run, file, fd, err);
	return LDR_OK;
}

static enum ldr_status fill_block(struct run *run, uint32_t wanted, const void *plain,
				  struct ldr_error *err)
{
	struct ldr_plan *plan = run->plan;
	uint32_t length = ldr_tree_block(plan->tree, plan->wanted[wanted].ordinal)->plain_bytes;
	uint32_t at = plan->wanted[wanted].destinations;
	enum ldr_status status = LDR_OK;

	for (; !status && at != LDR_PLAN_NONE; at = plan->destinations[at].next) {
		if (plan->destinations[at].filled)
			continue;
		status = fill_destination(run, &plan->destinations[at], plain, length, err);
		if (!status)
			atomic_fetch_add(&run->stage->progress->bytes_done, length);
	}
	return status;
}

static bool is_filled(const struct ldr_plan *plan, uint32_t wanted)
{
	uint32_t at = plan->wanted[wanted].destinations;

	while (at != LDR_PLAN_NONE && plan->destinations[at].filled)
		at = plan->destinations[at].next;
	return at == LDR_PLAN_NONE;
}

static void leave(struct run *run, uint32_t wanted)
{
	run->left[atomic_fetch_add(&run->left_count, 1)] = wanted;
}

static bool is_block(struct ldr_bench *bench, const struct ldr_block_ref *block, size_t got)
{
	struct ldr_id id;

	if (got != block->plain_bytes)
		return false;
	ldr_digest(bench->hasher, bench->plain, got, &id);
	return ldr_id_equal(&id, &block->id);
}

static void reused(struct run *run, uint64_t bytes)
{
	atomic_fetch_add(&run->stage->progress->bytes_reused, bytes);
}

/* ---- 1: temporaries of a killed run ---- */

static enum ldr_status resume_block(struct run *run, struct ldr_bench *bench, int fd,
				    uint32_t destination_index, struct ldr_error *err)
{
	struct ldr_destination *destination = &run->plan->destinations[destination_index];
	uint32_t wanted = destination->wanted;
	const struct ldr_block_ref *block = ldr_tree_block(run->plan->tree,
							   run->plan->wanted[wanted].ordinal);
	struct ldr_planned_file *file = &run->plan->files[destination->file];
	size_t got;

	if (destination->filled ||
	    ldr_os_pread(fd, bench->plain, block->plain_bytes, destination->offset, &got) ||
	    !is_block(bench, block, got))
		return LDR_OK;
	destination->filled = true;
	atomic_fetch_add(&run->stage->progress->bytes_done, got);
	reused(run, got);
	if (atomic_fetch_sub(&file->blocks_left, 1) == 1)
		return finish_file(run, file, fd, err);
	return LDR_OK;
}

static enum ldr_status resume_file(struct run *run, struct ldr_planned_file *file,
				   struct ldr_bench *bench, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	struct ldr_tree_node node;
	enum ldr_status status = ldr_batch_open(run->stage->batch, file->temporary, &fd, err);

	ldr_tree_node(run->plan->tree, file->node, &node);
	for (uint64_t i = 0; !status && i < node.block_count; i++)
		status = resume_block(run, bench, fd, file->first_destination + (uint32_t)i, err);
	return status;
}

struct names {
	char (*rows)[LDR_TEMPORARY_CHARS + 1];
	size_t count, room;
};

static int compare_rows(const void *a, const void *b)
{
	return memcmp(a, b, LDR_TEMPORARY_CHARS);
}

static bool has_name(const struct names *names, const char *name)
{
	return names->count &&
	       bsearch(name, names->rows, names->count, sizeof(*names->rows), compare_rows);
}

static bool note_name(void *context, const char *name)
{
	struct names *names = context;

	if (strlen(name) != LDR_TEMPORARY_CHARS)
		return false;
	if (names->count == names->room) {
		size_t room = names->room ? names->room * 2 : 256;
		void *rows = realloc(names->rows, room * sizeof(*names->rows));

		if (!rows)
			return false;
		names->rows = rows;
		names->room = room;
	}
	memcpy(names->rows[names->count++], name, LDR_TEMPORARY_CHARS + 1);
	return true;
}

static bool is_planned(void *context, const char *name)
{
	return has_name(context, name);
}

/* Temporaries that this plan has no use for go: they may be of another release, and large. */
static enum ldr_status sweep_foreign(struct run *run, struct ldr_error *err)
{
	struct names planned = {0};
	enum ldr_status status;

	for (uint32_t i = 0; i < run->plan->file_count; i++)
		note_name(&planned, run->plan->files[i].temporary);
	if (planned.count)
		qsort(planned.rows, planned.count, sizeof(*planned.rows), compare_rows);
	status = ldr_batch_sweep(run->stage->batch, is_planned, &planned, err);
	free(planned.rows);
	return status;
}

static enum ldr_status resume(struct run *run, struct ldr_error *err)
{
	struct names found = {0};
	struct ldr_bench *bench = NULL;
	enum ldr_status status = ldr_batch_sweep(run->stage->batch, note_name, &found, err);

	if (!status && found.count) {
		qsort(found.rows, found.count, sizeof(*found.rows), compare_rows);
		status = sweep_foreign(run, err);
		bench = ldr_bench_take(run->benches);
		if (!bench)
			status = ldr_fail(err, LDR_ENOMEM, "resuming: out of memory");
	}
	for (uint32_t i = 0; !status && bench && i < run->plan->file_count; i++)
		if (has_name(&found, run->plan->files[i].temporary))
			status = resume_file(run, &run->plan->files[i], bench, err);
	if (bench)
		ldr_bench_give(run->benches, bench);
	free(found.rows);
	return status;
}

/* What a killed run has written already needs no room any more. */
static enum ldr_status check_space(struct run *run, struct ldr_error *err)
{
	const struct ldr_root *root = ldr_batch_target(run->stage->batch);
	uint64_t wanted = run->plan->bytes_to_write -
			  atomic_load(&run->stage->progress->bytes_done);
	uint64_t free_bytes;

	if (ldr_os_free_bytes(ldr_root_fd(root), &free_bytes) || wanted <= free_bytes)
		return LDR_OK;
	return ldr_fail(err, LDR_ENOSPACE, "%s: %" PRIu64 " bytes to write, %" PRIu64 " free",
			ldr_root_path(root), wanted, free_bytes);
}

/* Files without bytes have no block that would make them. */
static enum ldr_status make_empty(struct run *run, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (uint32_t i = 0; !status && i < run->plan->file_count; i++) {
		struct ldr_planned_file *file = &run->plan->files[i];
		LDR_AUTO_FD int fd = -1;
		struct ldr_tree_node node;

		ldr_tree_node(run->plan->tree, file->node, &node);
		if (node.block_count)
			continue;
		status = ldr_batch_open(run->stage->batch, file->temporary, &fd, err);
		if (!status)
			status = finish_file(run, file, fd, err);
	}
	return status;
}

/* ---- 2 and 3: places nearby ---- */

static bool read_local(struct run *run, const struct ldr_wanted_block *wanted,
		       const struct ldr_block_ref *block, struct ldr_bench *bench)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	LDR_AUTO_FD int fd = -1;
	size_t got;

	ldr_tree_path(run->stage->old->tree, wanted->local_node, path);
	return ldr_root_open_file(ldr_batch_target(run->stage->batch), path, &fd, NULL) == LDR_OK &&
	       ldr_os_pread(fd, bench->plain, block->plain_bytes, wanted->local_offset, &got) ==
		       0 &&
	       is_block(bench, block, got);
}

/* A place of the same block in a temporary of a killed run. */
static bool read_staged(struct run *run, const struct ldr_wanted_block *wanted,
			const struct ldr_block_ref *block, struct ldr_bench *bench)
{
	const struct ldr_plan *plan = run->plan;
	uint32_t at = wanted->destinations;
	LDR_AUTO_FD int fd = -1;
	size_t got;

	while (at != LDR_PLAN_NONE && !plan->destinations[at].filled)
		at = plan->destinations[at].next;
	return at != LDR_PLAN_NONE &&
	       ldr_batch_open(run->stage->batch, plan->files[plan->destinations[at].file].temporary,
			      &fd, NULL) == LDR_OK &&
	       ldr_os_pread(fd, bench->plain, block->plain_bytes, plan->destinations[at].offset,
			    &got) == 0 &&
	       is_block(bench, block, got);
}

static bool read_held(struct run *run, const struct ldr_block_ref *block, struct ldr_bench *bench)
{
	struct ldr_source *source = ldr_view_source(run->stage->view);
	const struct ldr_placed_block want = {.block = *block};

	return ldr_source_holds(source, &block->id) &&
	       ldr_source_read(source, &want, bench->plain, NULL) == LDR_OK;
}

static enum ldr_status fill_near(void *context, size_t item, struct ldr_error *err)
{
	struct run *run = context;
	uint32_t index = (uint32_t)item;
	const struct ldr_wanted_block *wanted = &run->plan->wanted[index];
	const struct ldr_block_ref *block = ldr_tree_block(run->plan->tree, wanted->ordinal);
	struct ldr_bench *bench;
	enum ldr_status status = LDR_OK;

	if (is_filled(run->plan, index))
		return LDR_OK;
	bench = ldr_bench_take(run->benches);
	if (!bench)
		return ldr_fail(err, LDR_ENOMEM, "reading a block: out of memory");
	if (read_staged(run, wanted, block, bench) ||
	    (wanted->local_node != LDR_PLAN_NONE && read_local(run, wanted, block, bench)) ||
	    read_held(run, block, bench)) {
		status = fill_block(run, index, bench->plain, err);
		reused(run, block->plain_bytes);
	} else {
		leave(run, index);
	}
	ldr_bench_give(run->benches, bench);
	return status;
}

/* ---- 4: the hosts ---- */

static enum ldr_status arrived(void *context, size_t want, const void *stored,
			       struct ldr_error *err)
{
	struct run *run = context;
	const struct ldr_placed_block *placed = &run->wants[want];
	struct ldr_bench *bench = ldr_bench_take(run->benches);
	enum ldr_status status;

	if (!bench)
		return ldr_fail(err, LDR_ENOMEM, "decoding a block: out of memory");
	status = ldr_decode(bench->coder, placed->place.codec, stored, placed->place.stored_bytes,
			    bench->plain, placed->block.plain_bytes, err);
	if (!status && !is_block(bench, &placed->block, placed->block.plain_bytes)) {
		char hex[LDR_ID_HEX_CHARS + 1];

		ldr_id_to_hex(&placed->block.id, hex);
		status = ldr_fail(err, LDR_ECORRUPT, "block %.16s: its bytes have another digest",
				  hex);
	}
	if (!status)
		status = fill_block(run, run->items[want], bench->plain, err);
	ldr_bench_give(run->benches, bench);
	return status;
}

static int compare_items(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static enum ldr_status fetch_left(struct run *run, size_t count, struct ldr_error *err)
{
	const struct ldr_upstream *upstream = ldr_view_upstream(run->stage->view);
	LDR_AUTO_FREE struct ldr_placed_block *wants = calloc(count, sizeof(*wants));
	enum ldr_status status = LDR_OK;

	if (!wants)
		return ldr_fail(err, LDR_ENOMEM, "fetching %zu blocks: out of memory", count);
	for (size_t i = 0; !status && i < count; i++)
		status = ldr_view_places(run->stage->view, run->plan->wanted[run->left[i]].ordinal,
					 1, &wants[i], err);
	if (status)
		return status;
	run->items = run->left;
	run->wants = wants;
	return upstream->fetch(upstream->context, wants, count, arrived, run, err);
}

static enum ldr_status fill_far(struct run *run, struct ldr_error *err)
{
	size_t count = atomic_load(&run->left_count);

	if (count == 0)
		return LDR_OK;
	/* Tree order again, which the threads have mixed a little: the map is read page by page. */
	qsort(run->left, count, sizeof(*run->left), compare_items);
	if (!ldr_view_upstream(run->stage->view)) {
		char path[LDR_PATH_MAX_BYTES + 1];
		const struct ldr_wanted_block *wanted = &run->plan->wanted[run->left[0]];
		uint32_t file = run->plan->destinations[wanted->destinations].file;

		ldr_tree_path(run->plan->tree, run->plan->files[file].node, path);
		return ldr_fail(err, LDR_EOFFLINE,
				"%s: %zu blocks are not held, the first is of %s",
				ldr_view_name(run->stage->view), count, path);
	}
	return fetch_left(run, count, err);
}

enum ldr_status ldr_stage_fill(const struct ldr_stage *stage, struct ldr_error *err)
{
	struct run run = {.stage = stage, .plan = stage->plan};
	unsigned workers = stage->workers ? stage->workers : ldr_thread_processors();
	LDR_AUTO_FREE uint32_t *left = calloc(stage->plan->wanted_count + 1, sizeof(*left));
	enum ldr_status status;

	if (!left)
		return ldr_fail(err, LDR_ENOMEM, "%" PRIu64 " blocks: out of memory",
				stage->plan->wanted_count);
	run.left = left;
	atomic_store(&stage->progress->bytes_total, stage->plan->bytes_to_write);
	status = ldr_benches_new(&run.benches, err);
	if (!status)
		status = resume(&run, err);
	if (!status)
		status = check_space(&run, err);
	if (!status)
		status = make_empty(&run, err);
	if (!status)
		status = ldr_parallel(stage->plan->wanted_count, workers, fill_near, &run, err);
	if (!status)
		status = fill_far(&run, err);
	ldr_benches_free(run.benches);
	return status;
}
