/*
 * Opening a view; see view.h.
 *
 * Invariant: nothing of a record is used before its signature was checked by a trusted key.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/trust.h"
#include "client/view_priv.h"
#include "common/bytes.h"
#include "packs/layout.h"

/* Without keys a pack is taken as it is; who gives keys wants to know whose it is. */
static enum ldr_status check_pack_record(struct ldr_view *view, const struct ldr_location *source,
					 const struct ldr_view_options *options,
					 struct ldr_error *err)
{
	const uint8_t *record;
	uint64_t length;
	enum ldr_status status;

	if (!options->key_count)
		return LDR_OK;
	if (!ldr_pack_section(view->pack, LDR_SECTION_RECORD, &record, &length))
		return ldr_fail(err, LDR_EUNTRUSTED,
				"%s: carries no signed record, which the trusted key could check",
				source->text);
	view->record = malloc(length + 1);
	if (!view->record)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", source->text);
	ldr_copy(view->record, record, length);
	view->record[length] = '\0';
	view->record_length = length;
	status = ldr_release_verify(view->record, view->record_length, source->text, options->keys,
				    options->key_count, &view->release, err);
	view->has_release = status == LDR_OK;
	return status;
}

static enum ldr_status open_pack_view(struct ldr_view *view, const struct ldr_location *source,
				      const struct ldr_view_options *view_options,
				      struct ldr_error *err)
{
	const struct ldr_pack_options options = {.mode = LDR_PACK_LOCAL,
						 .title_key = view_options->title_key};
	enum ldr_status status = ldr_pack_open(source->path, &options, &view->pack, err);

	if (!status)
		status = check_pack_record(view, source, view_options, err);
	if (!status)
		status = ldr_source_new(view->memory, NULL, &view->source, err);
	return status ? status : ldr_source_add_pack(view->source, view->pack, err);
}

static enum ldr_status open_fetch(struct ldr_view *view, const struct ldr_location *source,
				  const struct ldr_view_options *options, struct ldr_error *err)
{
	const char *hosts[LDR_FETCH_HOSTS_MAX];
	struct ldr_fetch_options fetch = {.hosts = hosts};
	struct ldr_transport_options transport = options->transport;
	enum ldr_status status;

	if (options->host_count >= LDR_FETCH_HOSTS_MAX)
		return ldr_fail(err, LDR_EUSAGE, "%zu hosts, limit %d", options->host_count + 1,
				LDR_FETCH_HOSTS_MAX);
	view->base = strdup(source->base);
	if (!view->base)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", source->text);
	hosts[fetch.host_count++] = view->base;
	for (size_t i = 0; i < options->host_count; i++)
		hosts[fetch.host_count++] = options->hosts[i];
	/* Mirrors serve the same bytes; the token is for the store that was named. */
	transport.token_url = view->base;
	status = ldr_transport_new(&transport, &view->transport, err);
	if (status)
		return status;
	fetch.transport = view->transport;
	return ldr_fetch_new(&fetch, &view->fetch, err);
}

static enum ldr_status find_keys(struct ldr_view *view, const struct ldr_location *source,
				 const struct ldr_view_options *options, struct ldr_error *err)
{
	struct ldr_error why = {0};
	enum ldr_status status = LDR_ENOTFOUND;

	if (view->disk)
		status = ldr_trust_find_pin(ldr_disk_root(view->disk), source->base, &view->pin,
					    &why);
	view->keys = options->key_count ? options->keys : &view->pin.key;
	view->key_count = options->key_count ? options->key_count : 1;
	if (options->key_count || !status)
		return LDR_OK;
	if (status == LDR_ENOTFOUND)
		return ldr_fail(err, LDR_EUSAGE,
				"%s: no key is trusted for this store yet: use --trust KEY.pub",
				source->text);
	return ldr_fail(err, status, "%s", why.text);
}

static enum ldr_status load_record_offline(struct ldr_view *view, const struct ldr_location *source,
					   const struct ldr_pin *pin, struct ldr_error *err)
{
	enum ldr_status status = LDR_ENOTFOUND;

	if (view->disk && pin->key)
		status = ldr_trust_seen(ldr_disk_root(view->disk), pin->store, source->channel,
					(uint8_t **)&view->record, &view->record_length, err);
	if (status == LDR_ENOTFOUND)
		return ldr_fail(err, LDR_EOFFLINE, "%s: offline, and no record of it is held",
				source->text);
	return status;
}

static enum ldr_status load_record(struct ldr_view *view, const struct ldr_location *source,
				   const struct ldr_pin *pin, struct ldr_error *err)
{
	char path[LDR_STORE_PATH_BYTES];
	enum ldr_status status;

	if (view->offline)
		return load_record_offline(view, source, pin, err);
	if (source->sequence)
		ldr_store_release_path(source->channel, source->sequence, path);
	else
		ldr_store_channel_path(source->channel, path);
	status = ldr_fetch_object(view->fetch, path, LDR_RELEASE_MAX_BYTES,
				  (uint8_t **)&view->record, &view->record_length, err);
	if (status == LDR_ENOTFOUND)
		return ldr_error_prefix(err, status, "no %s \"%s\" in this store",
					source->sequence ? "such release of channel" : "channel",
					source->channel);
	return status;
}

/* What the record must be, beyond well signed: the channel and the sequence that were asked for. */
static enum ldr_status check_asked(const struct ldr_view *view, const struct ldr_location *source,
				   struct ldr_error *err)
{
	const struct ldr_release *release = &view->release;
	int64_t now = ldr_clock_system()->wall_s(ldr_clock_system());

	if (strcmp(release->channel, source->channel) != 0)
		return ldr_fail(err, LDR_EUNTRUSTED, "%s: the record is of channel \"%s\"",
				source->text, release->channel);
	if (source->sequence && release->sequence != source->sequence && view->offline)
		return ldr_fail(err, LDR_EOFFLINE,
				"%s: offline, and sequence %" PRIu64 " is the one that is held",
				source->text, release->sequence);
	if (source->sequence && release->sequence != source->sequence)
		return ldr_fail(err, LDR_EUNTRUSTED, "%s: the record has sequence %" PRIu64,
				source->text, release->sequence);
	if (!source->sequence && !view->offline && release->expires_s && release->expires_s < now)
		return ldr_fail(err, LDR_EUNTRUSTED,
				"%s: sequence %" PRIu64 " expired at %" PRId64 ", now %" PRId64,
				source->text, release->sequence, release->expires_s, now);
	return LDR_OK;
}

static bool is_local_trouble(enum ldr_status status)
{
	return status == LDR_EDENIED || status == LDR_ENOSPACE || status == LDR_EIO ||
	       status == LDR_ECONFLICT || status == LDR_ENOTDIR || status == LDR_ENOTFOUND ||
	       status == LDR_ELIMIT;
}

/* A cache folder that cannot be written must not keep a player from reading. */
static enum ldr_status remember(struct ldr_view *view, enum ldr_status status,
				const struct ldr_error *why, struct ldr_error *err)
{
	if (status && !is_local_trouble(status))
		return ldr_fail(err, status, "%s", why->text);
	if (status)
		snprintf(view->trouble, sizeof(view->trouble), "not remembered: %.200s", why->text);
	return LDR_OK;
}

static enum ldr_status apply_trust(struct ldr_view *view, const struct ldr_location *source,
				   struct ldr_error *err)
{
	const struct ldr_pin *pin = &view->pin;
	const struct ldr_root *root = view->disk ? ldr_disk_root(view->disk) : NULL;
	const struct ldr_release *release = &view->release;
	const struct ldr_public_key *signer = NULL;
	struct ldr_error why = {0};
	bool pinned = pin->key && memcmp(pin->store, release->store, LDR_STORE_ID_BYTES) == 0;
	enum ldr_status status;

	if (!pinned && view->keys == &pin->key)
		return ldr_fail(err, LDR_EUNTRUSTED,
				"%s: another store than the one seen here before: check it, then "
				"use --trust KEY.pub",
				source->text);
	if (!root || source->sequence)
		return LDR_OK;
	status = ldr_trust_advance(root, release, view->record, view->record_length, source->text,
				   view->keys, view->key_count, &why);
	status = remember(view, status, &why, err);
	for (size_t i = 0; i < view->key_count; i++)
		if (strcmp(ldr_public_key_kid(view->keys[i]), release->kid) == 0)
			signer = view->keys[i];
	if (status || (pinned && strcmp(ldr_public_key_kid(pin->key), release->kid) == 0))
		return status;
	status = ldr_trust_pin(root, source->base, signer, release->store, &why);
	return remember(view, status, &why, err);
}

static enum ldr_status open_release(struct ldr_view *view, const struct ldr_location *source,
				    struct ldr_error *err)
{
	enum ldr_status status = load_record(view, source, &view->pin, err);

	if (!status)
		status = ldr_release_verify(view->record, view->record_length, source->text,
					    view->keys, view->key_count, &view->release, err);
	if (status)
		return status;
	view->has_release = true;
	status = check_asked(view, source, err);
	return status ? status : apply_trust(view, source, err);
}

/* Without the folder nothing is cached or remembered; without keys, or offline, there is no way on. */
static enum ldr_status open_cache(struct ldr_view *view, const struct ldr_view_options *options,
				  struct ldr_error *err)
{
	struct ldr_error why = {0};
	enum ldr_status status = LDR_OK;

	if (options->cache_path)
		status = ldr_disk_open(options->cache_path, NULL, &view->disk, &why);
	if (!status && view->disk)
		ldr_trust_sweep(ldr_disk_root(view->disk));
	if (status && is_local_trouble(status) && options->key_count && !options->offline) {
		snprintf(view->trouble, sizeof(view->trouble), "goes on without: %.200s", why.text);
		return LDR_OK;
	}
	return status ? ldr_fail(err, status, "%s", why.text) : LDR_OK;
}

static enum ldr_status open_store_view(struct ldr_view *view, const struct ldr_location *source,
				       const struct ldr_view_options *options,
				       struct ldr_error *err)
{
	enum ldr_status status = open_cache(view, options, err);

	if (!status && !view->offline)
		status = open_fetch(view, source, options, err);
	if (!status)
		status = find_keys(view, source, options, err);
	if (!status)
		status = open_release(view, source, err);
	if (!status)
		status = ldr_source_new(view->memory, view->disk, &view->source, err);
	if (status || view->offline)
		return status;
	ldr_fetch_set_release(view->fetch, &view->release);
	ldr_source_set_upstream(view->source, ldr_fetch_upstream(view->fetch));
	return LDR_OK;
}

static enum ldr_status set_name(struct ldr_view *view, const struct ldr_location *source,
				struct ldr_error *err)
{
	int written;

	if (view->pack || source->sequence)
		written = asprintf(&view->name, "%s", source->text);
	else
		written = asprintf(&view->name, "%s@%" PRIu64, source->text,
				   view->release.sequence);
	if (written < 0)
		view->name = NULL;
	return written < 0 ? ldr_fail(err, LDR_ENOMEM, "%s: out of memory", source->text) : LDR_OK;
}

enum ldr_status ldr_view_open(const struct ldr_location *source,
			      const struct ldr_view_options *options, struct ldr_view **out_view,
			      struct ldr_error *err)
{
	LDR_AUTO_VIEW struct ldr_view *view = calloc(1, sizeof(*view));
	enum ldr_status status = LDR_OK;

	if (!view)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", source->text);
	view->offline = options->offline;
	if (options->memory_bytes)
		status = ldr_memory_cache_new(options->memory_bytes, &view->memory, err);
	if (!status)
		status = source->kind == LDR_LOCATION_PACK
				 ? open_pack_view(view, source, options, err)
				 : open_store_view(view, source, options, err);
	if (!status)
		status = set_name(view, source, err);
	if (!status)
		*out_view = LDR_STEAL(view);
	return status;
}

void ldr_view_close(struct ldr_view *view)
{
	if (!view)
		return;
	/* First: what it still has under way ends in the source. */
	ldr_fetch_free(view->fetch);
	ldr_source_free(view->source);
	ldr_transport_free(view->transport);
	ldr_disk_close(view->disk);
	ldr_memory_cache_free(view->memory);
	ldr_pack_unref(view->pack);
	ldr_public_key_free(view->pin.key);
	ldr_tree_free(view->tree);
	if (view->has_top)
		ldr_top_dispose(&view->top);
	if (view->has_release)
		ldr_release_dispose(&view->release);
	free(view->tree_bytes);
	free(view->map);
	free(view->map_loaded);
	free(view->map_ends);
	free(view->record);
	free(view->base);
	free(view->name);
	free(view);
}

void ldr_view_cleanup(struct ldr_view **view)
{
	ldr_view_close(*view);
}

const struct ldr_release *ldr_view_release(const struct ldr_view *view)
{
	return view->has_release ? &view->release : NULL;
}

enum ldr_status ldr_view_previous(struct ldr_view *view, const struct ldr_release *of,
				  struct ldr_release *out, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *record = NULL;
	char path[LDR_STORE_PATH_BYTES];
	size_t length;
	enum ldr_status status;

	if (view->pack)
		return ldr_fail(err, LDR_ENOTFOUND, "%s: a pack has no history", view->name);
	if (!view->fetch)
		return ldr_fail(err, LDR_EOFFLINE, "%s: its history is not held", view->name);
	ldr_store_release_path(of->channel, of->previous_sequence, path);
	status = ldr_fetch_object(view->fetch, path, LDR_RELEASE_MAX_BYTES, &record, &length, err);
	if (!status)
		status = ldr_release_verify((char *)record, length, path, view->keys,
					    view->key_count, out, err);
	if (status)
		return status;
	if (ldr_id_equal(&out->digest, &of->previous_digest))
		return LDR_OK;
	ldr_release_dispose(out);
	return ldr_fail(err, LDR_EUNTRUSTED,
			"%s: is not the record that sequence %" PRIu64 " names as its previous one",
			path, of->sequence);
}

const char *ldr_view_record(const struct ldr_view *view, size_t *out_length)
{
	*out_length = view->record_length;
	return view->record;
}

bool ldr_view_is_pack(const struct ldr_view *view)
{
	return view->pack != NULL;
}

bool ldr_view_is_locked(const struct ldr_view *view)
{
	return view->pack && ldr_pack_is_locked(view->pack);
}

const char *ldr_view_trouble(const struct ldr_view *view)
{
	return view->trouble;
}

const char *ldr_view_name(const struct ldr_view *view)
{
	return view->name;
}

struct ldr_source *ldr_view_source(struct ldr_view *view)
{
	return view->source;
}

const struct ldr_upstream *ldr_view_upstream(struct ldr_view *view)
{
	return view->fetch ? ldr_fetch_upstream(view->fetch) : NULL;
}

struct ldr_disk_cache *ldr_view_disk(struct ldr_view *view)
{
	return view->disk;
}

struct ldr_memory_cache *ldr_view_memory(struct ldr_view *view)
{
	return view->memory;
}

bool ldr_view_cache_stat(struct ldr_view *view, struct ldr_disk_stat *out)
{
	*out = (struct ldr_disk_stat){0};
	if (!view->disk)
		return false;
	/* Its failure is what the figures tell. */
	(void)ldr_disk_flush(view->disk, NULL);
	ldr_disk_stat(view->disk, out);
	return true;
}

void ldr_view_traffic(struct ldr_view *view, uint64_t *out_requests, uint64_t *out_bytes)
{
	struct ldr_fetch_stat stat = {0};

	if (view->fetch)
		ldr_fetch_stat(view->fetch, &stat);
	*out_requests = stat.requests;
	*out_bytes = stat.body_bytes;
}
