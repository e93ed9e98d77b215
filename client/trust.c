/*
 * Trust: pinned keys and the highest release seen; see trust.h.
 */
#include "client/trust.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/json.h"
#include "common/os.h"

#define PIN_MAX_BYTES 8192
#define NAME_BYTES 160
/* For the lock of a folder of seen records, which its holder has for as long as a few syncs take. */
#define LOCK_TRIES 100
#define LOCK_PAUSE_MS 10

/* A record that is to be remembered. */
struct record {
	const struct ldr_release *release;
	const char *jws;
	size_t length;
	const char *name;
};

static const struct ldr_publish_options keep = {
	.sync = LDR_SYNC_FILE_AND_FOLDER,
	.condition = LDR_IF_ANY,
	.max_bytes = LDR_RELEASE_MAX_BYTES,
	.mode = 0600,
	.make_parents = true,
};

static enum ldr_status pin_name(const char *location, char name[NAME_BYTES], struct ldr_error *err)
{
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_id id;
	enum ldr_status status = ldr_digest_once(location, strlen(location), &id, err);

	if (status)
		return status;
	ldr_id_to_hex(&id, hex);
	snprintf(name, NAME_BYTES, "trust/%.32s.json", hex);
	return LDR_OK;
}

static enum ldr_status parse_pin(const char *text, size_t length, const char *name,
				 const char *location, struct ldr_pin *out, struct ldr_error *err)
{
	LDR_AUTO_JSON json_t *object = NULL;
	const char *pinned, *store, *pem;
	enum ldr_status status;

	status = ldr_json_parse(text, length, PIN_MAX_BYTES, name, &object, err);
	if (!status)
		status = ldr_json_string(object, "location", PIN_MAX_BYTES, &pinned, err);
	if (!status)
		status = ldr_json_string(object, "store", LDR_STORE_ID_CHARS, &store, err);
	if (!status)
		status = ldr_json_string(object, "key", LDR_KEY_PEM_MAX_BYTES, &pem, err);
	if (status)
		return status;
	if (strcmp(pinned, location) != 0 ||
	    !ldr_store_id_from_hex(store, strlen(store), out->store))
		return ldr_fail(err, LDR_ECORRUPT, "location \"%s\", store \"%s\"", pinned, store);
	return ldr_public_key_parse(pem, strlen(pem), name, &out->key, err);
}

enum ldr_status ldr_trust_find_pin(const struct ldr_root *cache, const char *location,
				   struct ldr_pin *out_pin, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *text = NULL;
	char name[NAME_BYTES];
	size_t length;
	enum ldr_status status = pin_name(location, name, err);

	if (!status)
		status = ldr_root_read_file(cache, name, PIN_MAX_BYTES, &text, &length, err);
	if (status)
		return status;
	status = parse_pin((char *)text, length, name, location, out_pin, err);
	return ldr_error_prefix(err, status, "pinned key %s/%s (remove it, then use --trust)",
				ldr_root_path(cache), name);
}

enum ldr_status ldr_trust_pin(const struct ldr_root *cache, const char *location,
			      const struct ldr_public_key *key,
			      const uint8_t store[LDR_STORE_ID_BYTES], struct ldr_error *err)
{
	LDR_AUTO_JSON json_t *object = NULL;
	LDR_AUTO_FREE char *text = NULL;
	char pem[LDR_KEY_PEM_MAX_BYTES];
	char hex[LDR_STORE_ID_CHARS + 1];
	char name[NAME_BYTES];
	enum ldr_status status = pin_name(location, name, err);

	if (!status)
		status = ldr_public_key_to_pem(key, pem, err);
	if (status)
		return status;
	ldr_store_id_to_hex(store, hex);
	object = json_pack("{s:s, s:s, s:s}", "location", location, "store", hex, "key", pem);
	text = object ? json_dumps(object, JSON_INDENT(1)) : NULL;
	if (!text)
		return ldr_fail(err, LDR_ENOMEM, "pin of %s: out of memory", location);
	return ldr_publish(cache, name, text, strlen(text), &keep, NULL, err);
}

void ldr_trust_sweep(const struct ldr_root *cache)
{
	char folder[NAME_BYTES];
	struct ldr_os_listing *listing;
	LDR_AUTO_FD int fd = -1;
	const char *name;
	mode_t type;

	ldr_root_sweep(cache, "trust", NULL, NULL);
	if (ldr_os_open_folder_beneath(ldr_root_fd(cache), "seen", &fd) != 0 ||
	    ldr_os_listing_open(fd, &listing) != 0)
		return;
	while (ldr_os_listing_next(listing, &name, &type) == 0 && name) {
		if (strlen(name) != LDR_STORE_ID_CHARS)
			continue;
		snprintf(folder, sizeof(folder), "seen/%s", name);
		ldr_root_sweep(cache, folder, NULL, NULL);
	}
	ldr_os_listing_close(listing);
}

static void seen_name(const uint8_t store[LDR_STORE_ID_BYTES], const char *channel,
		      char name[NAME_BYTES])
{
	char hex[LDR_STORE_ID_CHARS + 1];

	ldr_store_id_to_hex(store, hex);
	snprintf(name, NAME_BYTES, "seen/%s/%s", hex, channel);
}

enum ldr_status ldr_trust_seen(const struct ldr_root *cache,
			       const uint8_t store[LDR_STORE_ID_BYTES], const char *channel,
			       uint8_t **out_jws, size_t *out_length, struct ldr_error *err)
{
	char name[NAME_BYTES];

	seen_name(store, channel, name);
	return ldr_root_read_file(cache, name, LDR_RELEASE_MAX_BYTES, out_jws, out_length, err);
}

/* Compares with the record seen before. A seen record that no longer verifies (another key was trusted
 * then, or the file is damaged) says nothing and is replaced. */
static enum ldr_status refuse_going_back(const struct ldr_release *now, const char *name,
					 const struct ldr_release *seen, bool *out_same,
					 struct ldr_error *err)
{
	*out_same = ldr_id_equal(&now->digest, &seen->digest);
	if (now->sequence < seen->sequence)
		return ldr_fail(err, LDR_EUNTRUSTED,
				"%s: channel %s goes back: sequence %" PRIu64
				", seen before: %" PRIu64,
				name, now->channel, now->sequence, seen->sequence);
	if (now->sequence == seen->sequence && !*out_same)
		return ldr_fail(err, LDR_EUNTRUSTED,
				"%s: channel %s sequence %" PRIu64
				" has other bytes than those seen before",
				name, now->channel, now->sequence);
	return LDR_OK;
}

static enum ldr_status advance_once(const struct ldr_root *cache, const char *file,
				    const struct record *now, struct ldr_public_key *const *keys,
				    size_t key_count, struct ldr_error *err)
{
	LDR_AUTO_RELEASE struct ldr_release seen = {0};
	LDR_AUTO_FREE uint8_t *before = NULL;
	struct ldr_publish_options options = keep;
	size_t before_length;
	bool same = false;
	enum ldr_status status = ldr_root_observe(cache, file, &options.stamp, NULL);

	options.condition = status ? LDR_IF_MISSING : LDR_IF_MATCHING;
	if (!status)
		status = ldr_root_read_file(cache, file, LDR_RELEASE_MAX_BYTES, &before,
					    &before_length, NULL);
	if (!status)
		status = ldr_release_verify((char *)before, before_length, "seen record", keys,
					    key_count, &seen, NULL);
	status = status ? LDR_OK : refuse_going_back(now->release, now->name, &seen, &same, err);
	if (status || same)
		return status;
	return ldr_publish(cache, file, now->jws, now->length, &options, NULL, err);
}

/* Compare and replace, so that of two processes that look at the same time the newer record stays. */
enum ldr_status ldr_trust_advance(const struct ldr_root *cache, const struct ldr_release *release,
				  const char *jws, size_t length, const char *name,
				  struct ldr_public_key *const *keys, size_t key_count,
				  struct ldr_error *err)
{
	const struct timespec pause = {0, LOCK_PAUSE_MS * 1000000L};
	const struct record now = {release, jws, length, name};
	struct ldr_error why = {0};
	char file[NAME_BYTES];
	enum ldr_status status;

	seen_name(release->store, release->channel, file);
	status = advance_once(cache, file, &now, keys, key_count, &why);
	for (int i = 1; status == LDR_ECONFLICT && i < LOCK_TRIES; i++) {
		nanosleep(&pause, NULL);
		status = advance_once(cache, file, &now, keys, key_count, &why);
	}
	return status ? ldr_fail(err, status, "%s", why.text) : LDR_OK;
}
