/*
 * Publishing a folder as the next release of a channel; see publish.h.
 *
 * Invariants
 *  1. The channel moves last, and only from the record that this publication was built upon.
 *  2. Pack numbers rise over the life of a channel: a new pack gets one above the highest that the
 *     previous record lists.
 *  3. The new record lists exactly the packs that its places need.
 */
#include "client/publish.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/known.h"
#include "client/store.h"
#include "client/view.h"
#include "common/bytes.h"
#include "common/clock.h"

#define REBASES_MAX 10
#define TAKEN_SEQUENCES_MAX 1000

struct publication {
	const struct ldr_publish_request *request;
	struct ldr_store *store;
	struct ldr_public_key *own; /* public half of the key */
	struct ldr_view *previous;  /* NULL: the channel's first release */
	struct ldr_view *like;
	struct ldr_known *known;
	uint32_t next_pack;     /* number of the first new pack */
	uint32_t *like_numbers; /* owns: our number for each pack that like lists */
	struct ldr_build build;
	struct ldr_release release;
	char *record; /* owns */
	size_t record_length;
};

static void dispose(struct publication *publication)
{
	ldr_view_close(publication->previous);
	ldr_view_close(publication->like);
	ldr_known_free(publication->known);
	free(publication->like_numbers);
	ldr_build_dispose(&publication->build);
	ldr_release_dispose(&publication->release);
	ldr_public_key_free(publication->own);
	free(publication->record);
	ldr_store_close(publication->store);
}

/* ---- what the store has already ---- */

static enum ldr_status open_channel(struct publication *publication, const char *channel,
				    struct ldr_view **out_view, struct ldr_error *err)
{
	const struct ldr_publish_request *request = publication->request;
	struct ldr_public_key *keys[1 + 16];
	struct ldr_view_options options = {
		.cache_path = request->cache_path,
		.keys = keys,
		.transport = request->transport,
	};
	struct ldr_location location = *request->store;

	keys[options.key_count++] = publication->own;
	for (size_t i = 0; i < request->key_count && options.key_count < 17; i++)
		keys[options.key_count++] = request->keys[i];
	snprintf(location.channel, sizeof(location.channel), "%s", channel);
	return ldr_view_open(&location, &options, out_view, err);
}

static uint32_t highest_pack(const struct ldr_release *release)
{
	return release->pack_count ? release->packs[release->pack_count - 1].number : 0;
}

/* A place of another channel, under our number of its pack. NULL numbers: the channel's own. */
static struct ldr_placed_block renumbered(const struct ldr_release *release,
					  const uint32_t *numbers, struct ldr_placed_block block)
{
	if (numbers)
		block.place.pack =
			numbers[ldr_release_pack(release, block.place.pack) - release->packs];
	return block;
}

static enum ldr_status add_known(struct publication *publication, struct ldr_view *view,
				 const uint32_t *numbers, struct ldr_error *err)
{
	const struct ldr_release *release = ldr_view_release(view);
	uint64_t count = release->totals.blocks;
	LDR_AUTO_FREE struct ldr_placed_block *blocks = calloc(count + 1, sizeof(*blocks));
	const struct ldr_top *top;
	enum ldr_status status;

	if (!blocks)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", ldr_view_name(view));
	status = ldr_view_places(view, 0, count, blocks, err);
	if (!status)
		status = ldr_view_top(view, &top, err);
	if (status)
		return status;
	for (uint64_t i = 0; i < count; i++) {
		struct ldr_placed_block block = renumbered(release, numbers, blocks[i]);

		ldr_known_add(publication->known, &block);
	}
	for (uint32_t i = 0; i < top->tree_count + top->map_count; i++) {
		struct ldr_placed_block block = renumbered(
			release, numbers,
			i < top->tree_count ? top->tree[i] : top->map[i - top->tree_count]);

		ldr_known_add(publication->known, &block);
	}
	return LDR_OK;
}

static int compare_packs(const void *a, const void *b)
{
	const struct ldr_release_pack *x = a, *y = b;

	return memcmp(x->id.bytes, y->id.bytes, LDR_ID_BYTES);
}

/* A pack that the channel lists already keeps its number; the others get the next ones, one each, so
 * that numbers stay small however often channels borrow from each other. */
static enum ldr_status number_like(struct publication *publication, struct ldr_error *err)
{
	const struct ldr_release *like = ldr_view_release(publication->like);
	const struct ldr_release *own = publication->previous
						? ldr_view_release(publication->previous)
						: NULL;
	size_t count = own ? own->pack_count : 0;
	LDR_AUTO_FREE struct ldr_release_pack *sorted = calloc(count + 1, sizeof(*sorted));

	publication->like_numbers = calloc(like->pack_count + 1u, sizeof(uint32_t));
	if (!sorted || !publication->like_numbers)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory",
				ldr_view_name(publication->like));
	ldr_copy(sorted, own ? own->packs : NULL, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_packs);
	for (uint32_t i = 0; i < like->pack_count; i++) {
		const struct ldr_release_pack *held = bsearch(&like->packs[i], sorted, count,
							      sizeof(*sorted), compare_packs);

		publication->like_numbers[i] = held ? held->number : publication->next_pack++;
	}
	/* A map cannot say more; the builder would find out only after the work. */
	if (publication->next_pack > LDR_MAP_PACK_MAX)
		return ldr_fail(err, LDR_ELIMIT, "channel %s: pack number %" PRIu32 ", limit %u",
				publication->request->channel, publication->next_pack,
				LDR_MAP_PACK_MAX);
	return LDR_OK;
}

static uint64_t blocks_of(struct ldr_view *view)
{
	const struct ldr_release *release = view ? ldr_view_release(view) : NULL;

	return release ? release->totals.blocks + 2 * LDR_BLOCK_MAX_BYTES / LDR_TOP_ROW_BYTES : 0;
}

/* A view is opened for its blocks; a channel that is not there is none. */
static enum ldr_status open_previous(struct publication *publication, struct ldr_error *err)
{
	const struct ldr_publish_request *request = publication->request;
	struct ldr_error missing = {0};
	enum ldr_status status = open_channel(publication, request->channel, &publication->previous,
					      &missing);

	if (status && status != LDR_ENOTFOUND)
		return ldr_fail(err, status, "%s", missing.text);
	if (!request->like)
		return LDR_OK;
	return open_channel(publication, request->like, &publication->like, err);
}

static enum ldr_status load_known(struct publication *publication, struct ldr_error *err)
{
	uint64_t blocks = blocks_of(publication->previous) + blocks_of(publication->like);
	enum ldr_status status = ldr_known_new(blocks, &publication->known, err);

	publication->next_pack = 1;
	if (!status && publication->previous) {
		publication->next_pack = highest_pack(ldr_view_release(publication->previous)) + 1;
		status = add_known(publication, publication->previous, NULL, err);
	}
	if (status || !publication->like)
		return status;
	status = number_like(publication, err);
	return status ? status
		      : add_known(publication, publication->like, publication->like_numbers, err);
}

/* ---- building ---- */

static enum ldr_status build(struct publication *publication, struct ldr_scan *scan,
			     struct ldr_error *err)
{
	const struct ldr_publish_request *request = publication->request;
	const struct ldr_build_options options = {
		.size = sizeof(options),
		.kind = LDR_BUILD_RELEASE,
		.codec = request->codec_given
				 ? request->codec
				 : (struct ldr_codec_choice){.policy = LDR_POLICY_AUTO},
		.chunks = request->chunks,
		.workers = request->workers,
		.pack_target_bytes = LDR_PUBLISH_PACK_BYTES,
		.first_pack_number = publication->next_pack,
		.layout = request->layout,
		.layout_count = request->layout_count,
		.known = {.find = ldr_known_find, .context = publication->known},
		.progress = request->progress,
		.progress_context = request->progress_context,
	};
	const struct ldr_pack_sink *sink = request->dry_run ? NULL
							    : ldr_store_sink(publication->store);
	enum ldr_status status = ldr_build_run(scan, &options, sink, &publication->build, err);

	if (!status && !request->dry_run)
		status = ldr_store_settle(publication->store, err);
	return status;
}

/* ---- the record ---- */

/* Those from `lowest` on: what another channel shares with ours is in the list already. */
static void list_used(struct publication *publication, struct ldr_view *view,
		      const uint32_t *numbers, uint32_t lowest)
{
	const struct ldr_release *old = view ? ldr_view_release(view) : NULL;
	struct ldr_release *release = &publication->release;

	for (uint32_t i = 0; old && i < old->pack_count; i++) {
		struct ldr_release_pack pack = old->packs[i];

		if (numbers)
			pack.number = numbers[i];
		if (pack.number >= lowest && ldr_known_used(publication->known, pack.number))
			release->packs[release->pack_count++] = pack;
	}
}

static enum ldr_status list_packs(struct publication *publication, struct ldr_error *err)
{
	const struct ldr_build *made = &publication->build;
	struct ldr_release *release = &publication->release;
	uint64_t most = made->pack_count;
	uint32_t own_end = 0;

	if (publication->previous) {
		own_end = highest_pack(ldr_view_release(publication->previous)) + 1;
		most += ldr_view_release(publication->previous)->pack_count;
	}
	if (publication->like)
		most += ldr_view_release(publication->like)->pack_count;
	release->packs = calloc(most + 1, sizeof(*release->packs));
	if (!release->packs)
		return ldr_fail(err, LDR_ENOMEM, "list of %" PRIu64 " packs", most);
	list_used(publication, publication->previous, NULL, 0);
	list_used(publication, publication->like, publication->like_numbers, own_end);
	for (uint32_t i = 0; i < made->pack_count; i++)
		release->packs[release->pack_count++] = (struct ldr_release_pack){
			.number = publication->next_pack + i,
			.id = made->packs[i].id,
			.size_bytes = made->packs[i].size_bytes};
	return LDR_OK;
}

static enum ldr_status describe(struct publication *publication, struct ldr_error *err)
{
	const struct ldr_publish_request *request = publication->request;
	const struct ldr_clock *clock = ldr_clock_system();
	const struct ldr_build *made = &publication->build;
	struct ldr_release *release = &publication->release;

	if (publication->store)
		memcpy(release->store, ldr_store_id(publication->store), LDR_STORE_ID_BYTES);
	snprintf(release->channel, sizeof(release->channel), "%s", request->channel);
	snprintf(release->note, sizeof(release->note), "%s", request->note ? request->note : "");
	release->sequence = 1;
	release->created_s = clock->wall_s(clock);
	release->expires_s = request->lifetime_s ? release->created_s + request->lifetime_s : 0;
	release->totals = made->totals;
	release->tree_bytes = made->tree_bytes;
	release->tree_digest = made->tree_digest;
	release->map_bytes = made->map_bytes;
	release->top = made->top;
	if (publication->previous) {
		const struct ldr_release *old = ldr_view_release(publication->previous);

		release->previous_sequence = old->sequence;
		release->previous_digest = old->digest;
		release->sequence = old->sequence + 1;
	}
	return list_packs(publication, err);
}

static enum ldr_status put_key(struct publication *publication, struct ldr_error *err)
{
	char pem[LDR_KEY_PEM_MAX_BYTES];
	char path[LDR_STORE_PATH_BYTES];
	enum ldr_status status = ldr_public_key_to_pem(publication->own, pem, err);

	if (status)
		return status;
	ldr_store_key_path(ldr_public_key_kid(publication->own), path);
	return ldr_store_put(publication->store, path, pem, strlen(pem), err);
}

/* Signs under the first sequence that is free: a record that a dead publisher left behind, or that a
 * living one has just put, is not ours. */
static enum ldr_status put_record(struct publication *publication, struct ldr_error *err)
{
	struct ldr_release *release = &publication->release;
	uint64_t first = release->sequence;
	struct ldr_error taken = {0};
	enum ldr_status status;

	do {
		char path[LDR_STORE_PATH_BYTES];

		free(LDR_STEAL(publication->record));
		status = ldr_release_sign(release, publication->request->key, &publication->record,
					  &publication->record_length, &taken);
		ldr_store_release_path(release->channel, release->sequence, path);
		if (!status)
			status = ldr_store_put(publication->store, path, publication->record,
					       publication->record_length, &taken);
		if (status != LDR_ECONFLICT)
			break;
		release->sequence++;
	} while (release->sequence < first + TAKEN_SEQUENCES_MAX);
	return status ? ldr_fail(err, status, "%s", taken.text) : LDR_OK;
}

static enum ldr_status move(struct publication *publication, struct ldr_error *err)
{
	const struct ldr_store_bytes record = {publication->record, publication->record_length};
	struct ldr_store_bytes expected = {0};

	if (publication->previous)
		expected.data = ldr_view_record(publication->previous, &expected.length);
	return ldr_store_move_channel(publication->store, publication->release.channel,
				      publication->previous ? &expected : NULL, &record,
				      &publication->release, err);
}

static void report(const struct publication *publication, const struct ldr_scan *scan,
		   struct ldr_publish_outcome *out)
{
	out->sequence = publication->release.sequence;
	out->digest = publication->release.digest;
	out->previous_sequence = publication->release.previous_sequence;
	out->totals = publication->build.totals;
	out->scanned = *ldr_scan_totals(scan);
	out->stats = publication->build.stats;
	out->packs = publication->build.pack_count;
	if (publication->store)
		ldr_store_traffic(publication->store, &out->pack_bytes, &out->packs_held);
}

static enum ldr_status store_and_move(struct publication *publication, struct ldr_error *err)
{
	enum ldr_status status = put_key(publication, err);

	if (!status)
		status = put_record(publication, err);
	return status ? status : move(publication, err);
}

static enum ldr_status attempt(struct publication *publication, struct ldr_scan *scan,
			       struct ldr_publish_outcome *out, struct ldr_error *err)
{
	enum ldr_status status = open_previous(publication, err);

	if (!status)
		status = load_known(publication, err);
	if (!status)
		status = build(publication, scan, err);
	if (!status)
		status = describe(publication, err);
	if (!status && !publication->request->dry_run)
		status = store_and_move(publication, err);
	if (!status)
		report(publication, scan, out);
	return status;
}

static enum ldr_status open_store(struct publication *publication, struct ldr_error *err)
{
	const struct ldr_publish_request *request = publication->request;
	struct ldr_store_options options = {.transport = request->transport};
	const char *temporary = getenv("TMPDIR");
	LDR_AUTO_FREE char *staging = NULL;

	if (request->cache_path
		    ? asprintf(&staging, "%s/staging", request->cache_path) < 0
		    : asprintf(&staging, "%s/larder-staging", temporary ? temporary : "/tmp") < 0)
		return ldr_fail(err, LDR_ENOMEM, "staging folder: out of memory");
	options.staging_path = staging;
	return ldr_store_open(request->store, &options, &publication->store, err);
}

static enum ldr_status try_once(const struct ldr_publish_request *request, struct ldr_scan *scan,
				struct ldr_publish_outcome *out, struct ldr_error *err)
{
	struct publication publication = {.request = request};
	enum ldr_status status = ldr_key_public(request->key, &publication.own, err);

	/* A dry run must not make a store where there is none. */
	if (!status)
		status = request->dry_run && request->store->kind == LDR_LOCATION_FOLDER
				 ? LDR_OK
				 : open_store(&publication, err);
	if (!status)
		status = attempt(&publication, scan, out, err);
	dispose(&publication);
	return status;
}

enum ldr_status ldr_publish_folder(const struct ldr_publish_request *request,
				   struct ldr_publish_outcome *out, struct ldr_error *err)
{
	const struct ldr_scan_options options = {.size = sizeof(options), .links = request->links};
	LDR_AUTO_SCAN struct ldr_scan *scan = NULL;
	struct ldr_error lost = {0};
	enum ldr_status status = ldr_scan_folder(request->folder, &options, request->report, &scan,
						 err);

	if (status)
		return status;
	*out = (struct ldr_publish_outcome){0};
	do {
		out->attempts++;
		status = try_once(request, scan, out, &lost);
	} while (status == LDR_ECONFLICT && request->rebase && out->attempts <= REBASES_MAX);
	return status ? ldr_fail(err, status, "%s", lost.text) : LDR_OK;
}
