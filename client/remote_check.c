/*
 * Checking a release where it is stored; see remote_check.h.
 */
#include "client/remote_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/bench.h"
#include "client/known.h"
#include "client/view_priv.h"
#include "common/bytes.h"
#include "packs/layout.h"

/* Blocks asked for at once: enough to join ranges, few enough to find a fault's file again. */
#define BATCH_BLOCKS 8192u

struct check {
	struct ldr_view *view;
	const struct ldr_tree *tree;
	void (*each_fault)(void *context, const char *path, const char *what);
	void *context;
	struct ldr_remote_report *report;
	struct ldr_benches *benches;
	struct ldr_known *seen;
	struct ldr_placed_block *wants;
	uint32_t *nodes;                      /* the file of each of the wants */
	const struct ldr_placed_block *batch; /* what `arrived` is about */
	size_t count;
};

static void fault(struct check *check, const char *path, const char *what)
{
	check->report->faults++;
	check->each_fault(check->context, path, what);
}

/* ---- packs ---- */

static enum ldr_status head_pack(struct check *check, const char *path, uint64_t *out_size,
				 struct ldr_error *err)
{
	struct ldr_request request = {.method = LDR_HEAD, .body_fd = -1};
	LDR_AUTO_FREE char *url = ldr_url_join(check->view->base, path);
	struct ldr_exchange answer = {0};
	enum ldr_status status;

	if (!url)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	request.url = url;
	status = ldr_transport_perform(check->view->transport, &request, 4096, &answer, err);
	if (!status)
		status = ldr_response_status(&answer.response, NULL, 0, err);
	*out_size = answer.response.content_length;
	ldr_exchange_dispose(&answer);
	return status;
}

/* Which paths a pack's absence takes away: told once a file. */
static enum ldr_status tell_affected(struct check *check, uint32_t pack, const char *what,
				     struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	enum ldr_status status = LDR_OK;

	for (uint32_t i = 1; !status && i < ldr_tree_node_count(check->tree); i++) {
		struct ldr_tree_node node;
		bool affected = false;

		ldr_tree_node(check->tree, i, &node);
		for (uint64_t k = 0; !status && !affected && k < node.block_count; k++) {
			struct ldr_placed_block block;

			status = ldr_view_places(check->view, node.first_block + k, 1, &block, err);
			affected = !status && block.place.pack == pack;
		}
		if (!affected)
			continue;
		ldr_tree_path(check->tree, i, path);
		fault(check, path, what);
	}
	return status;
}

static enum ldr_status check_pack(struct check *check, const struct ldr_release_pack *pack,
				  struct ldr_error *err)
{
	char path[LDR_STORE_PATH_BYTES], what[512];
	struct ldr_error why = {0};
	uint64_t size = 0;
	enum ldr_status status;

	ldr_store_pack_path(&pack->id, path);
	status = head_pack(check, path, &size, &why);
	if (status && status != LDR_ENOTFOUND)
		return ldr_fail(err, status, "%s", why.text);
	check->report->packs++;
	if (!status && size == pack->size_bytes)
		return LDR_OK;
	if (status)
		snprintf(what, sizeof(what), "pack %u is missing", pack->number);
	else
		snprintf(what, sizeof(what),
			 "pack %u has %" PRIu64 " bytes, the record says %" PRIu64, pack->number,
			 size, pack->size_bytes);
	fault(check, path, what);
	return tell_affected(check, pack->number, what, err);
}

/* ---- blocks ---- */

static enum ldr_status arrived(void *context, size_t want, const void *stored,
			       struct ldr_error *err)
{
	struct check *check = context;
	const struct ldr_placed_block *block = &check->batch[want];
	struct ldr_bench *bench = ldr_bench_take(check->benches);
	struct ldr_id id;
	enum ldr_status status;

	if (!bench)
		return ldr_fail(err, LDR_ENOMEM, "decoding a block: out of memory");
	status = ldr_decode(bench->coder, block->place.codec, stored, block->place.stored_bytes,
			    bench->plain, block->block.plain_bytes, err);
	if (!status)
		ldr_digest(bench->hasher, bench->plain, block->block.plain_bytes, &id);
	if (!status && !ldr_id_equal(&id, &block->block.id))
		status = ldr_fail(err, LDR_ECORRUPT, "its bytes have another digest");
	ldr_bench_give(check->benches, bench);
	return status;
}

static enum ldr_status fetch_some(struct check *check, const struct ldr_placed_block *blocks,
				  size_t count, struct ldr_error *err)
{
	const struct ldr_upstream *upstream = ldr_view_upstream(check->view);

	check->batch = blocks;
	return upstream->fetch(upstream->context, blocks, count, arrived, check, err);
}

static bool is_fault(enum ldr_status status)
{
	return status == LDR_ECORRUPT || status == LDR_ENOTFOUND;
}

/* A batch that could not be had is asked for block by block, so that each bad one is named. */
static enum ldr_status flush(struct check *check, struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_error why = {0};
	enum ldr_status status = LDR_OK;

	if (check->count)
		status = fetch_some(check, check->wants, check->count, &why);
	if (status && !is_fault(status))
		return ldr_fail(err, status, "%s", why.text);
	for (size_t i = 0; status && i < check->count; i++) {
		char hex[LDR_ID_HEX_CHARS + 1], what[LDR_ERROR_TEXT_BYTES + 100];
		enum ldr_status one = fetch_some(check, &check->wants[i], 1, &why);

		if (one && !is_fault(one))
			return ldr_fail(err, one, "%s", why.text);
		if (!one)
			continue;
		ldr_id_to_hex(&check->wants[i].block.id, hex);
		ldr_tree_path(check->tree, check->nodes[i], path);
		snprintf(what, sizeof(what), "block %.16s: %s", hex, why.text);
		fault(check, path, what);
	}
	check->report->blocks += check->count;
	check->count = 0;
	return LDR_OK;
}

static enum ldr_status add_file(struct check *check, uint32_t index, struct ldr_error *err)
{
	struct ldr_tree_node node;
	enum ldr_status status = LDR_OK;

	ldr_tree_node(check->tree, index, &node);
	for (uint64_t k = 0; !status && k < node.block_count; k++) {
		struct ldr_placed_block block;
		struct ldr_place place;

		status = ldr_view_places(check->view, node.first_block + k, 1, &block, err);
		if (status || ldr_known_find(check->seen, &block.block.id, &place))
			continue;
		ldr_known_add(check->seen, &block);
		check->nodes[check->count] = index;
		check->wants[check->count++] = block;
		if (check->count == BATCH_BLOCKS)
			status = flush(check, err);
	}
	return status;
}

static enum ldr_status check_blocks(struct check *check, struct ldr_error *err)
{
	uint32_t count = ldr_tree_node_count(check->tree);
	enum ldr_status status = ldr_benches_new(&check->benches, err);

	check->wants = calloc(BATCH_BLOCKS, sizeof(*check->wants));
	check->nodes = calloc(BATCH_BLOCKS, sizeof(*check->nodes));
	if (!check->wants || !check->nodes)
		return ldr_fail(err, LDR_ENOMEM, "checking: out of memory");
	if (!status)
		status = ldr_known_new(ldr_tree_totals(check->tree)->blocks, &check->seen, err);
	for (uint32_t i = 1; !status && i < count; i++)
		status = add_file(check, i, err);
	return status ? status : flush(check, err);
}

/* Every entry of the map, so that all of its pages are read and all places lie in listed packs. */
static enum ldr_status check_map(struct check *check, struct ldr_error *err)
{
	uint64_t count = ldr_tree_totals(check->tree)->blocks;
	struct ldr_placed_block block;
	enum ldr_status status = LDR_OK;

	for (uint64_t i = 0; !status && i < count; i++)
		status = ldr_view_places(check->view, i, 1, &block, err);
	check->report->blocks = count;
	return status;
}

static enum ldr_status run(struct check *check, bool deep, struct ldr_error *err)
{
	const struct ldr_release *release = ldr_view_release(check->view);
	enum ldr_status status = ldr_view_tree(check->view, &check->tree, err);

	if (!status)
		status = check_map(check, err);
	for (uint32_t i = 0; !status && i < release->pack_count; i++)
		status = check_pack(check, &release->packs[i], err);
	if (!status && deep && !check->report->faults) {
		check->report->blocks = 0;
		status = check_blocks(check, err);
	}
	if (!status && check->report->faults)
		status = ldr_fail(err, LDR_ECORRUPT, "%s: %" PRIu64 " faults",
				  ldr_view_name(check->view), check->report->faults);
	return status;
}

enum ldr_status ldr_remote_check(struct ldr_view *view, bool deep,
				 void (*each_fault)(void *context, const char *path,
						    const char *what),
				 void *context, struct ldr_remote_report *out,
				 struct ldr_error *err)
{
	struct check check = {
		.view = view, .each_fault = each_fault, .context = context, .report = out};
	enum ldr_status status;

	*out = (struct ldr_remote_report){0};
	if (!ldr_view_upstream(view))
		return ldr_fail(err, LDR_EOFFLINE, "%s: checking a store needs it",
				ldr_view_name(view));
	status = run(&check, deep, err);
	ldr_benches_free(check.benches);
	ldr_known_free(check.seen);
	free(check.wants);
	free(check.nodes);
	return status;
}
