/*
 * Checking and publishing what has come; see upload.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "packs/pack_reader.h"
#include "server/range.h"
#include "server/upload_priv.h"

/* Another process may hold the folder's lock for a moment. */
#define LOCK_TRIES 100
#define LOCK_PAUSE_MS 10

static const struct ldr_publish_options only_new = {
	.sync = LDR_SYNC_FILE_AND_FOLDER,
	.condition = LDR_IF_MISSING,
	.make_parents = true,
};

static const struct ldr_root *root_of(const struct ldr_upload *upload)
{
	return upload->desk->options.admission.root;
}

/* ---- packs ---- */

static enum ldr_status verify_pack(struct ldr_upload *upload, struct ldr_error *err)
{
	struct ldr_pack_options options = {.expected_id = &upload->name.pack};
	struct ldr_pack_verify_report report;
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	int fd = fcntl(ldr_stream_fd(upload->stream), F_DUPFD_CLOEXEC, 0);
	enum ldr_status status;

	if (fd < 0)
		return ldr_fail_errno(err, errno, "%s: descriptor", upload->path);
	status = ldr_pack_open_fd(fd, upload->path, &options, &pack, err);
	return status ? status : ldr_pack_verify(pack, NULL, NULL, &report, err);
}

void upload_publish_pack(struct ldr_upload *upload, struct ldr_reply *reply)
{
	struct ldr_error error = {0};
	enum ldr_status status = verify_pack(upload, &error);

	if (status) {
		upload_refuse(reply, status, &error);
		return;
	}
	status = ldr_stream_commit(LDR_STEAL(upload->stream), upload->path, NULL, &error);
	ldr_objects_forget(upload->desk->options.objects, &upload->name);
	if (status && status != LDR_ECONFLICT) {
		upload_refuse(reply, status, &error);
		return;
	}
	/* Conflict: somebody else has put the same bytes meanwhile. */
	if (status)
		upload_say(reply, 200, "%s: already there", upload->path);
	else
		upload_say(reply, 201, "%s: %" PRIu64 " bytes stored", upload->path,
			   upload->length);
	snprintf(reply->etag, sizeof(reply->etag), "\"%.64s\"", upload->path + sizeof("packs/aa"));
}

/* ---- small objects that never change ---- */

/* Publishes the bytes; where some are already, they must be the same. */
static void publish_once(struct ldr_upload *upload, struct ldr_reply *reply)
{
	LDR_AUTO_FREE uint8_t *there = NULL;
	struct ldr_error error = {0};
	size_t length = 0;
	enum ldr_status status = ldr_publish(root_of(upload), upload->path, upload->bytes.data,
					     upload->bytes.length, &only_new, NULL, &error);

	if (!status) {
		upload_say(reply, 201, "%s: stored", upload->path);
		upload_etag(upload->bytes.data, upload->bytes.length, reply->etag);
		return;
	}
	if (status == LDR_ECONFLICT)
		status = ldr_root_read_file(root_of(upload), upload->path, LDR_RELEASE_MAX_BYTES,
					    &there, &length, &error);
	if (status) {
		upload_refuse(reply, status, &error);
		return;
	}
	upload_etag(there, length, reply->etag);
	if (length == upload->bytes.length && memcmp(there, upload->bytes.data, length) == 0)
		upload_say(reply, 200, "%s: already there", upload->path);
	else
		upload_say(reply, 412, "%s: other bytes are there (%zu, not %zu)", upload->path,
			   length, upload->bytes.length);
}

/* A key may be written in more than one way; its name tells that it is the same. */
static bool key_is_there(const struct ldr_upload *upload)
{
	struct ldr_stamp stamp;

	return ldr_root_observe(root_of(upload), upload->path, &stamp, NULL) == LDR_OK;
}

void upload_publish_key(struct ldr_upload *upload, struct ldr_reply *reply)
{
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *key = NULL;
	struct ldr_error error = {0};
	enum ldr_status status = ldr_public_key_parse(
		(const char *)upload->bytes.data, upload->bytes.length, upload->path, &key, &error);

	if (status) {
		upload_refuse(reply, status, &error);
		return;
	}
	if (strcmp(ldr_public_key_kid(key), upload->name.kid) != 0) {
		upload_say(reply, 422, "%s: the key's thumbprint is %s", upload->path,
			   ldr_public_key_kid(key));
		return;
	}
	if (key_is_there(upload))
		upload_say(reply, 200, "%s: already there", upload->path);
	else
		publish_once(upload, reply);
}

static struct ldr_candidate candidate_of(const struct ldr_upload *upload)
{
	return (struct ldr_candidate){
		.path = upload->path,
		.channel = upload->name.channel,
		.jws = (const char *)upload->bytes.data,
		.length = upload->bytes.length,
	};
}

void upload_publish_release(struct ldr_upload *upload, struct ldr_reply *reply)
{
	LDR_AUTO_RELEASE struct ldr_release release = {0};
	struct ldr_candidate candidate = candidate_of(upload);
	struct ldr_error error = {0};
	enum ldr_status status = ldr_admit_record(&upload->desk->options.admission, &candidate,
						  upload->name.sequence, &release, &error);

	if (status)
		upload_refuse(reply, status, &error);
	else
		publish_once(upload, reply);
}

/* ---- channels ---- */

/* The channel as it is: bytes, ETag and the stamp that they had. data NULL: there is none. */
struct current {
	uint8_t *data; /* owns */
	size_t length;
	char etag[LDR_ID_HEX_CHARS + 3];
	struct ldr_stamp stamp;
};

static void current_dispose(struct current *current)
{
	ldr_cleanup_free(&current->data);
}
#define AUTO_CURRENT __attribute__((cleanup(current_dispose)))

/* The stamp is taken first: if the file is replaced before it is read, the stamp does not match and the
 * publication is refused, which is right. */
static enum ldr_status read_current(const struct ldr_upload *upload, struct current *out,
				    struct ldr_error *err)
{
	enum ldr_status status = ldr_root_observe(root_of(upload), upload->path, &out->stamp, err);

	if (status == LDR_ENOTFOUND)
		return LDR_OK;
	if (!status)
		status = ldr_root_read_file(root_of(upload), upload->path, LDR_RELEASE_MAX_BYTES,
					    &out->data, &out->length, err);
	if (!status)
		upload_etag(out->data, out->length, out->etag);
	return status;
}

/* Is the channel what the publisher believes it to be? If not, the reply is filled. A channel that already
 * is what it is to become is a success: the answer to an earlier try was lost. */
static bool still_wanted(const struct ldr_upload *upload, const struct current *current,
			 struct ldr_reply *reply)
{
	snprintf(reply->etag, sizeof(reply->etag), "%s", current->etag);
	if (current->data && current->length == upload->bytes.length &&
	    memcmp(current->data, upload->bytes.data, current->length) == 0) {
		upload_say(reply, 200, "%s: already there", upload->path);
		return false;
	}
	if (upload->only_new) {
		if (!current->data)
			return true;
		upload_say(reply, 412, "%s: the channel is there, as %s", upload->path,
			   current->etag);
		return false;
	}
	if (current->data &&
	    ldr_etag_listed(upload->if_match, strlen(upload->if_match), current->etag, false))
		return true;
	upload_say(reply, 412, "%s: If-Match %.80s, the channel is %s", upload->path,
		   upload->if_match, current->data ? current->etag : "not there");
	return false;
}

static enum ldr_status move(const struct ldr_upload *upload, const struct current *current,
			    struct ldr_error *err)
{
	struct ldr_publish_options options = only_new;

	if (current->data) {
		options.condition = LDR_IF_MATCHING;
		options.stamp = current->stamp;
	}
	return ldr_publish(root_of(upload), upload->path, upload->bytes.data, upload->bytes.length,
			   &options, NULL, err);
}

/* One try; false when the reply is filled, true when the channel or its folder was in somebody else's
 * hands. */
static bool try_move(struct ldr_upload *upload, const struct ldr_release *release,
		     struct ldr_reply *reply)
{
	struct ldr_candidate candidate = candidate_of(upload);
	struct ldr_candidate old = candidate;
	AUTO_CURRENT struct current current = {0};
	struct ldr_error error = {0};
	enum ldr_status status = read_current(upload, &current, &error);

	old.jws = (const char *)current.data;
	old.length = current.length;
	if (!status && !still_wanted(upload, &current, reply))
		return false;
	if (!status)
		status = ldr_admit_move(&upload->desk->options.admission, &candidate, release, &old,
					&error);
	if (status) {
		upload_refuse(reply, status, &error);
		return false;
	}
	status = move(upload, &current, &error);
	ldr_objects_forget(upload->desk->options.objects, &upload->name);
	if (status == LDR_ECONFLICT)
		return true;
	if (status) {
		upload_refuse(reply, status, &error);
		return false;
	}
	upload_etag(upload->bytes.data, upload->bytes.length, reply->etag);
	upload_say(reply, current.data ? 200 : 201, "%s: sequence %" PRIu64, upload->path,
		   release->sequence);
	return false;
}

void upload_publish_channel(struct ldr_upload *upload, struct ldr_reply *reply)
{
	const struct timespec pause = {0, LOCK_PAUSE_MS * 1000000L};
	LDR_AUTO_RELEASE struct ldr_release release = {0};
	struct ldr_candidate candidate = candidate_of(upload);
	struct ldr_error error = {0};
	enum ldr_status status = ldr_admit_record(&upload->desk->options.admission, &candidate, 0,
						  &release, &error);

	if (status) {
		upload_refuse(reply, status, &error);
		return;
	}
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!try_move(upload, &release, reply))
			return;
		nanosleep(&pause, NULL);
	}
	upload_say(reply, 503, "%s: the folder is locked by another process", upload->path);
}
