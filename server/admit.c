/*
 * What a store lets in; see admit.h.
 */
#include "server/admit.h"

#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "common/path.h"
#include "packs/closure.h"
#include "packs/layout.h"
#include "packs/pack_reader.h"

/* ---- rule 1: keys ---- */

static enum ldr_status verify_by(const struct ldr_candidate *candidate,
				 struct ldr_public_key *const *keys, size_t count,
				 struct ldr_release *out, struct ldr_error *err)
{
	return ldr_release_verify(candidate->jws, candidate->length, candidate->path, keys, count,
				  out, err);
}

static enum ldr_status verify_by_stored_key(const struct ldr_admission *admission,
					    const struct ldr_candidate *candidate, const char *kid,
					    struct ldr_release *out, struct ldr_error *err)
{
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *key = NULL;
	LDR_AUTO_FREE uint8_t *pem = NULL;
	char path[LDR_STORE_PATH_BYTES];
	size_t length = 0;
	enum ldr_status status;

	ldr_store_key_path(kid, path);
	status = ldr_root_read_file(admission->root, path, LDR_KEY_PEM_MAX_BYTES, &pem, &length,
				    err);
	if (status == LDR_ENOTFOUND)
		return ldr_fail(err, LDR_EUNTRUSTED, "%s: signed by key %s, but %s is not there",
				candidate->path, kid, path);
	if (!status)
		status = ldr_public_key_parse((const char *)pem, length, path, &key, err);
	return status ? status : verify_by(candidate, &key, 1, out, err);
}

/* The kid of the channel's current release; LDR_ENOTFOUND for a new channel. */
static enum ldr_status current_kid(const struct ldr_admission *admission, const char *channel,
				   char kid[LDR_KID_CHARS + 1], struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *jws = NULL;
	char path[LDR_STORE_PATH_BYTES];
	size_t length = 0;
	enum ldr_status status;

	ldr_store_channel_path(channel, path);
	status = ldr_root_read_file(admission->root, path, LDR_RELEASE_MAX_BYTES, &jws, &length,
				    err);
	if (status)
		return status;
	status = ldr_release_kid((const char *)jws, length, kid, err);
	return status ? ldr_error_prefix(err, status, "%s", path) : LDR_OK;
}

static enum ldr_status verify(const struct ldr_admission *admission,
			      const struct ldr_candidate *candidate, struct ldr_release *out,
			      struct ldr_error *err)
{
	char kid[LDR_KID_CHARS + 1];
	char wanted[LDR_KID_CHARS + 1];
	enum ldr_status status;

	if (admission->key_count)
		return verify_by(candidate, admission->keys, admission->key_count, out, err);
	status = ldr_release_kid(candidate->jws, candidate->length, kid, err);
	if (status)
		return ldr_error_prefix(err, status, "%s", candidate->path);
	status = current_kid(admission, candidate->channel, wanted, err);
	if (status && status != LDR_ENOTFOUND)
		return status;
	if (!status && strcmp(kid, wanted) != 0)
		return ldr_fail(err, LDR_EUNTRUSTED,
				"%s: signed by key %s, releases of channel %s by %s",
				candidate->path, kid, candidate->channel, wanted);
	return verify_by_stored_key(admission, candidate, kid, out, err);
}

/* ---- rules 2 and 3 ---- */

static enum ldr_status check_place(const struct ldr_admission *admission,
				   const struct ldr_candidate *candidate, uint64_t sequence,
				   const struct ldr_release *release, struct ldr_error *err)
{
	char theirs[LDR_STORE_ID_CHARS + 1];
	char ours[LDR_STORE_ID_CHARS + 1];

	if (memcmp(release->store, admission->store, LDR_STORE_ID_BYTES) != 0) {
		ldr_store_id_to_hex(release->store, theirs);
		ldr_store_id_to_hex(admission->store, ours);
		return ldr_fail(err, LDR_ECORRUPT, "%s: made for store %s, this is %s",
				candidate->path, theirs, ours);
	}
	if (strcmp(release->channel, candidate->channel) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "%s: the record is of channel %s",
				candidate->path, release->channel);
	if (sequence && release->sequence != sequence)
		return ldr_fail(err, LDR_ECORRUPT, "%s: the record has sequence %" PRIu64,
				candidate->path, release->sequence);
	return LDR_OK;
}

static enum ldr_status check_packs(const struct ldr_admission *admission,
				   const struct ldr_candidate *candidate,
				   const struct ldr_release *release, struct ldr_error *err)
{
	for (uint32_t i = 0; i < release->pack_count; i++) {
		const struct ldr_release_pack *pack = &release->packs[i];
		char path[LDR_STORE_PATH_BYTES];
		struct ldr_stamp stamp;
		enum ldr_status status;

		ldr_store_pack_path(&pack->id, path);
		status = ldr_root_observe(admission->root, path, &stamp, err);
		if (status)
			return ldr_error_prefix(err, status, "%s: a listed pack", candidate->path);
		if (stamp.size_bytes != pack->size_bytes)
			return ldr_fail(err, LDR_ECORRUPT,
					"%s: pack %s has %" PRIu64
					" bytes, the record says %" PRIu64,
					candidate->path, path, stamp.size_bytes, pack->size_bytes);
	}
	return LDR_OK;
}

enum ldr_status ldr_admit_record(const struct ldr_admission *admission,
				 const struct ldr_candidate *candidate, uint64_t sequence,
				 struct ldr_release *out, struct ldr_error *err)
{
	LDR_AUTO_RELEASE struct ldr_release release = {0};
	enum ldr_status status = verify(admission, candidate, &release, err);

	if (!status)
		status = check_place(admission, candidate, sequence, &release, err);
	if (!status)
		status = check_packs(admission, candidate, &release, err);
	if (status)
		return status;
	*out = release;
	release = (struct ldr_release){0};
	return LDR_OK;
}

/* ---- rules 4 to 6 ---- */

static enum ldr_status check_release_there(const struct ldr_admission *admission,
					   const struct ldr_candidate *candidate, uint64_t sequence,
					   struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *stored = NULL;
	char path[LDR_STORE_PATH_BYTES];
	size_t length = 0;
	enum ldr_status status;

	ldr_store_release_path(candidate->channel, sequence, path);
	status = ldr_root_read_file(admission->root, path, LDR_RELEASE_MAX_BYTES, &stored, &length,
				    err);
	if (status)
		return ldr_error_prefix(err, status, "%s: its release", candidate->path);
	if (length != candidate->length || memcmp(stored, candidate->jws, length) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "%s: not the bytes of %s (%zu and %zu)",
				candidate->path, path, candidate->length, length);
	return LDR_OK;
}

static enum ldr_status not_next(const struct ldr_candidate *candidate,
				const struct ldr_release *release, const struct ldr_id *current,
				struct ldr_error *err)
{
	char theirs[LDR_ID_HEX_CHARS + 1];
	char ours[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(&release->previous_digest, theirs);
	ldr_id_to_hex(current, ours);
	return ldr_fail(
		err, LDR_ECONFLICT,
		"%s: sequence %" PRIu64 " follows %" PRIu64 " (%s), the current release is %s",
		candidate->path, release->sequence, release->previous_sequence, theirs, ours);
}

/* The digest says which record it follows, and the release of the sequence that it names must be that
 * record: so both are true without reading the record. */
static enum ldr_status check_follows(const struct ldr_admission *admission,
				     const struct ldr_candidate *candidate,
				     const struct ldr_release *release,
				     const struct ldr_candidate *current, struct ldr_error *err)
{
	struct ldr_candidate previous = *current;
	struct ldr_id digest;
	enum ldr_status status;

	if (!current->jws) {
		if (release->previous_sequence == 0)
			return LDR_OK;
		return ldr_fail(err, LDR_ECONFLICT,
				"%s: follows sequence %" PRIu64 ", but the channel has no release",
				candidate->path, release->previous_sequence);
	}
	status = ldr_digest_once(current->jws, current->length, &digest, err);
	if (status)
		return status;
	if (!ldr_id_equal(&digest, &release->previous_digest) ||
	    release->sequence <= release->previous_sequence)
		return not_next(candidate, release, &digest, err);
	previous.path = candidate->path;
	status = check_release_there(admission, &previous, release->previous_sequence, err);
	return status ? ldr_error_prefix(err, status, "previous") : LDR_OK;
}

static enum ldr_status open_pack(void *context, const struct ldr_release_pack *listed,
				 struct ldr_pack **out_pack, struct ldr_error *err)
{
	const struct ldr_admission *admission = context;
	struct ldr_pack_options options = {.expected_id = &listed->id};
	char path[LDR_STORE_PATH_BYTES];
	int fd = -1;
	enum ldr_status status;

	ldr_store_pack_path(&listed->id, path);
	status = ldr_root_open_file(admission->root, path, &fd, err);
	return status ? status : ldr_pack_open_fd(fd, path, &options, out_pack, err);
}

enum ldr_status ldr_admit_move(const struct ldr_admission *admission,
			       const struct ldr_candidate *candidate,
			       const struct ldr_release *release,
			       const struct ldr_candidate *current, struct ldr_error *err)
{
	struct ldr_admission own = *admission;
	struct ldr_closure_packs packs = {.open = open_pack, .context = &own};
	enum ldr_status status = check_follows(admission, candidate, release, current, err);

	if (!status)
		status = check_release_there(admission, candidate, release->sequence, err);
	if (status)
		return status;
	status = ldr_closure_check(release, &packs, NULL, err);
	return status ? ldr_error_prefix(err, status, "%s: not whole", candidate->path) : LDR_OK;
}
