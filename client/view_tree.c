/*
 * A view's tree, map and files; see view.h.
 *
 * Invariants
 *  1. tree_bytes, once set, are checked against the digest that the record signs before they are parsed.
 *  2. A page of the map is used only after its block's digest was checked against the top block, whose
 *     digest the record signs; a place is used only after it was found to lie in a listed pack.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "client/view_priv.h"
#include "common/bytes.h"

/* Up to here the whole map is fetched together with the tree: one request fewer. */
#define MAP_AT_ONCE_BYTES (512u * 1024)
#define BLOCKS_AT_ONCE 256u

static enum ldr_status prepare_map(struct ldr_view *view, struct ldr_error *err)
{
	uint64_t wanted = view->release.totals.blocks * LDR_MAP_ENTRY_BYTES;
	uint64_t end = 0;

	view->map = calloc(1, wanted + 1);
	view->map_loaded = calloc(view->top.map_count + 1u, sizeof(*view->map_loaded));
	view->map_ends = calloc(view->top.map_count + 1u, sizeof(*view->map_ends));
	if (!view->map || !view->map_loaded || !view->map_ends)
		return ldr_fail(err, LDR_ENOMEM, "%s: map of %" PRIu64 " bytes: out of memory",
				view->name, wanted);
	for (uint32_t i = 0; i < view->top.map_count; i++) {
		end += view->top.map[i].block.plain_bytes;
		view->map_ends[i] = end;
	}
	if (end != wanted || end != view->release.map_bytes)
		return ldr_fail(err, LDR_ECORRUPT,
				"%s: map has %" PRIu64 " bytes, its %" PRIu64
				" blocks need %" PRIu64,
				view->name, end, view->release.totals.blocks, wanted);
	return LDR_OK;
}

static enum ldr_status check_places(const struct ldr_view *view,
				    const struct ldr_placed_block *blocks, uint64_t count,
				    struct ldr_error *err)
{
	for (uint64_t i = 0; i < count; i++) {
		enum ldr_status status = ldr_release_check_place(&view->release, &blocks[i].place,
								 err);

		if (status)
			return ldr_error_prefix(err, status, "%s", view->name);
	}
	return LDR_OK;
}

static void forget_top(struct ldr_view *view)
{
	ldr_top_dispose(&view->top);
	free(LDR_STEAL(view->map));
	free(LDR_STEAL(view->map_loaded));
	free(LDR_STEAL(view->map_ends));
	view->has_top = false;
}

static enum ldr_status check_top(struct ldr_view *view, struct ldr_error *err)
{
	enum ldr_status status = check_places(view, view->top.tree, view->top.tree_count, err);

	if (!status)
		status = check_places(view, view->top.map, view->top.map_count, err);
	return status ? status : prepare_map(view, err);
}

/* What fails leaves nothing behind: the next call tries anew. */
static enum ldr_status load_top(struct ldr_view *view, struct ldr_error *err)
{
	const struct ldr_placed_block *top = &view->release.top;
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	enum ldr_status status;

	if (view->has_top)
		return LDR_OK;
	bytes = malloc(top->block.plain_bytes + 1u);
	if (!bytes)
		return ldr_fail(err, LDR_ENOMEM, "%s: top block: out of memory", view->name);
	status = ldr_source_read(view->source, top, bytes, err);
	if (!status)
		status = ldr_top_parse(bytes, top->block.plain_bytes, &view->top, err);
	if (status)
		return ldr_error_prefix(err, status, "%s: top block", view->name);
	view->has_top = true;
	status = check_top(view, err);
	if (status)
		forget_top(view);
	return status;
}

enum ldr_status ldr_view_top(struct ldr_view *view, const struct ldr_top **out_top,
			     struct ldr_error *err)
{
	enum ldr_status status = load_top(view, err);

	if (!status)
		*out_top = &view->top;
	return status;
}

/* Where read_many puts what it delivers: the tree's blocks one after the other, then the map's. */
struct metadata {
	struct ldr_view *view;
	const struct ldr_placed_block *wants;
	uint32_t tree_count; /* so many of the wants are the tree's */
	uint32_t first_page; /* the page of the map that the next want is */
	uint64_t tree_at;
};

static enum ldr_status take_metadata(void *context, size_t want, const void *plain,
				     struct ldr_error *err)
{
	struct metadata *metadata = context;
	struct ldr_view *view = metadata->view;
	uint32_t length = metadata->wants[want].block.plain_bytes;

	(void)err;
	if (want < metadata->tree_count) {
		memcpy(view->tree_bytes + metadata->tree_at, plain, length);
		metadata->tree_at += length;
	} else {
		size_t page = metadata->first_page + want - metadata->tree_count;

		memcpy(view->map + view->map_ends[page] - length, plain, length);
		view->map_loaded[page] = true;
	}
	return LDR_OK;
}

static enum ldr_status check_tree_length(struct ldr_view *view, struct ldr_error *err)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < view->top.tree_count; i++)
		length += view->top.tree[i].block.plain_bytes;
	if (length != view->release.tree_bytes)
		return ldr_fail(err, LDR_ECORRUPT,
				"%s: tree has %" PRIu64 " bytes, the record says %" PRIu64,
				view->name, length, view->release.tree_bytes);
	view->tree_length = length;
	view->tree_bytes = malloc(length + 1);
	if (!view->tree_bytes)
		return ldr_fail(err, LDR_ENOMEM, "%s: tree of %" PRIu64 " bytes: out of memory",
				view->name, length);
	return LDR_OK;
}

/* Out of the map's bytes, which are there: the place must lie in a listed pack. */
static enum ldr_status place_of(const struct ldr_view *view, uint64_t ordinal,
				struct ldr_place *out_place, struct ldr_error *err)
{
	struct ldr_place place;
	enum ldr_status status = ldr_map_get(view->map, view->release.map_bytes, 0, ordinal, &place,
					     err);

	if (!status)
		status = ldr_release_check_place(&view->release, &place, err);
	if (status)
		return ldr_error_prefix(err, status, "%s: block %" PRIu64, view->name, ordinal);
	*out_place = place;
	return LDR_OK;
}

/* Where the whole map has come with the tree, a wrong entry is found before anything is begun. */
static enum ldr_status check_map(const struct ldr_view *view, struct ldr_error *err)
{
	struct ldr_place place;
	enum ldr_status status = LDR_OK;

	for (uint64_t i = 0; !status && i < view->release.totals.blocks; i++)
		status = place_of(view, i, &place, err);
	return status;
}

static enum ldr_status fetch_tree(struct ldr_view *view, struct ldr_error *err)
{
	LDR_AUTO_FREE struct ldr_placed_block *wants = NULL;
	struct metadata metadata = {.view = view};
	uint32_t pages;
	enum ldr_status status = load_top(view, err);

	if (!status)
		status = check_tree_length(view, err);
	if (status)
		return status;
	pages = view->release.map_bytes <= MAP_AT_ONCE_BYTES ? view->top.map_count : 0;
	metadata.tree_count = view->top.tree_count;
	wants = calloc(metadata.tree_count + pages + 1u, sizeof(*wants));
	if (!wants)
		return ldr_fail(err, LDR_ENOMEM, "%s: tree: out of memory", view->name);
	ldr_copy(wants, view->top.tree, metadata.tree_count * sizeof(*wants));
	ldr_copy(wants + metadata.tree_count, view->top.map, pages * sizeof(*wants));
	metadata.wants = wants;
	status = ldr_source_read_many(view->source, wants, metadata.tree_count + pages, 0,
				      take_metadata, &metadata, err);
	if (status)
		return ldr_error_prefix(err, status, "%s: tree", view->name);
	return pages ? check_map(view, err) : LDR_OK;
}

static enum ldr_status check_tree_digest(struct ldr_view *view, struct ldr_error *err)
{
	struct ldr_id digest;
	enum ldr_status status = ldr_digest_once(view->tree_bytes, view->tree_length, &digest, err);

	if (!status && !ldr_id_equal(&digest, &view->release.tree_digest))
		status = ldr_fail(err, LDR_ECORRUPT, "%s: the tree's digest is not the record's",
				  view->name);
	return status;
}

static enum ldr_status pack_tree(struct ldr_view *view, struct ldr_error *err)
{
	const uint8_t *bytes;
	uint64_t length;

	if (!ldr_pack_section(view->pack, LDR_SECTION_TREE, &bytes, &length))
		return ldr_fail(err, LDR_ENOTFOUND, "%s: the pack has no tree", view->name);
	view->tree_bytes = malloc(length + 1);
	if (!view->tree_bytes)
		return ldr_fail(err, LDR_ENOMEM, "%s: tree: out of memory", view->name);
	ldr_copy(view->tree_bytes, bytes, length);
	view->tree_length = length;
	return LDR_OK;
}

void ldr_view_offer_tree(struct ldr_view *view, const void *bytes, size_t length)
{
	struct ldr_id digest;

	if (!view->has_release || view->tree_bytes || ldr_digest_once(bytes, length, &digest, NULL))
		return;
	if (length != view->release.tree_bytes ||
	    !ldr_id_equal(&digest, &view->release.tree_digest))
		return;
	view->tree_bytes = malloc(length + 1);
	if (!view->tree_bytes)
		return;
	ldr_copy(view->tree_bytes, bytes, length);
	view->tree_length = length;
}

static void forget_tree(struct ldr_view *view)
{
	free(LDR_STEAL(view->tree_bytes));
	view->tree_length = 0;
}

static enum ldr_status load_tree(struct ldr_view *view, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	if (!view->tree_bytes)
		status = view->pack ? pack_tree(view, err) : fetch_tree(view, err);
	if (!status && view->has_release)
		status = check_tree_digest(view, err);
	if (!status)
		status = ldr_tree_parse(view->tree_bytes, view->tree_length, view->name, NULL,
					view->has_release ? &view->release.totals : NULL,
					&view->tree, err);
	if (status)
		forget_tree(view);
	return status;
}

enum ldr_status ldr_view_tree(struct ldr_view *view, const struct ldr_tree **out_tree,
			      struct ldr_error *err)
{
	enum ldr_status status = view->tree ? LDR_OK : load_tree(view, err);

	if (!status)
		*out_tree = view->tree;
	return status;
}

enum ldr_status ldr_view_tree_bytes(struct ldr_view *view, const uint8_t **out_bytes,
				    size_t *out_length, struct ldr_error *err)
{
	const struct ldr_tree *tree;
	enum ldr_status status = ldr_view_tree(view, &tree, err);

	if (status)
		return status;
	*out_bytes = view->tree_bytes;
	*out_length = view->tree_length;
	return LDR_OK;
}

static uint32_t page_of(const struct ldr_view *view, uint64_t position)
{
	uint32_t low = 0, high = view->top.map_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (view->map_ends[middle] <= position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The pages of the map that hold these ordinals and are not there yet: one request for each run of
 * missing pages. */
static enum ldr_status load_pages(struct ldr_view *view, uint64_t first, uint64_t count,
				  struct ldr_error *err)
{
	uint32_t page = page_of(view, first * LDR_MAP_ENTRY_BYTES);
	uint32_t last = page_of(view, (first + count) * LDR_MAP_ENTRY_BYTES - 1);
	struct metadata metadata = {.view = view};
	enum ldr_status status = LDR_OK;

	while (!status && page <= last) {
		uint32_t run = page;

		while (run <= last && !view->map_loaded[run])
			run++;
		metadata.wants = view->top.map + page;
		metadata.first_page = page;
		if (run > page)
			status = ldr_source_read_many(view->source, metadata.wants, run - page, 0,
						      take_metadata, &metadata, err);
		page = run + 1;
	}
	return ldr_error_prefix(err, status, "%s: map", view->name);
}

static void pack_places(const struct ldr_view *view, uint64_t first, uint64_t count,
			struct ldr_placed_block *out)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] = (struct ldr_placed_block){.block = *ldr_tree_block(view->tree, first + i)};
}

enum ldr_status ldr_view_places(struct ldr_view *view, uint64_t first, uint64_t count,
				struct ldr_placed_block *out, struct ldr_error *err)
{
	const struct ldr_tree *tree;
	enum ldr_status status = ldr_view_tree(view, &tree, err);

	if (!status && !view->pack)
		status = load_top(view, err);
	if (status || count == 0)
		return status;
	if (view->pack) {
		pack_places(view, first, count, out);
		return LDR_OK;
	}
	status = load_pages(view, first, count, err);
	for (uint64_t i = 0; !status && i < count; i++) {
		out[i].block = *ldr_tree_block(tree, first + i);
		status = place_of(view, first + i, &out[i].place, err);
	}
	return status;
}

/* ---- files ---- */

struct delivery {
	const struct ldr_placed_block *wants;
	enum ldr_status (*deliver)(void *context, const void *bytes, size_t length,
				   struct ldr_error *err);
	void *context;
};

static enum ldr_status deliver_block(void *context, size_t want, const void *plain,
				     struct ldr_error *err)
{
	struct delivery *delivery = context;

	return delivery->deliver(delivery->context, plain, delivery->wants[want].block.plain_bytes,
				 err);
}

enum ldr_status ldr_view_read_file(struct ldr_view *view, uint32_t node,
				   enum ldr_status (*deliver)(void *context, const void *bytes,
							      size_t length, struct ldr_error *err),
				   void *context, struct ldr_error *err)
{
	struct delivery delivery = {.deliver = deliver, .context = context};
	LDR_AUTO_FREE struct ldr_placed_block *wants = NULL;
	struct ldr_tree_node file;
	const struct ldr_tree *tree;
	uint64_t done = 0;
	enum ldr_status status = ldr_view_tree(view, &tree, err);

	if (status)
		return status;
	ldr_tree_node(tree, node, &file);
	wants = calloc(BLOCKS_AT_ONCE, sizeof(*wants));
	if (!wants)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", view->name);
	delivery.wants = wants;
	while (!status && done < file.block_count) {
		uint64_t count = file.block_count - done;

		if (count > BLOCKS_AT_ONCE)
			count = BLOCKS_AT_ONCE;
		status = ldr_view_places(view, file.first_block + done, count, wants, err);
		if (!status)
			status = ldr_source_read_many(view->source, wants, count, 0, deliver_block,
						      &delivery, err);
		done += count;
	}
	if (status) {
		char path[LDR_PATH_MAX_BYTES + 1], quoted[LDR_QUOTE_BYTES];
		size_t length = ldr_tree_path(tree, node, path);

		ldr_error_prefix(err, status, "%s: %s%s", view->name,
				 ldr_path_quote(path, length, quoted),
				 status == LDR_EOFFLINE ? ": offline" : "");
	}
	return status;
}
