/* Publications under test; see publication.h. */
#include "tests/recovery/core/publication.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"

#define TEMPORARY ".larder-tmp."
#define VERSIONS 3
#define LONGEST 12305
#define SENTINEL "sentinel"

static const size_t lengths[] = {0, LONGEST};
static const char *const form_names[] = {"buffer", "stream", "condition"};
static const char *const sync_names[] = {"folder", "file", "none"};

static size_t bytes_of(const struct crash_publication *kind, int version, uint8_t out[LONGEST])
{
	static const size_t other_lengths[VERSIONS] = {[0] = 9001, [2] = 5000};
	size_t length = version == 1 ? kind->length : other_lengths[version];
	uint64_t random = 77 + (uint64_t)version;

	for (size_t i = 0; i < length; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		out[i] = (uint8_t)(random >> 56);
	}
	return length;
}

void crash_publication_each(void (*each)(void *context, const struct crash_publication *kind),
			    void *context)
{
	for (int i = 0; i < CRASH_FORM_COUNT * 12; i++) {
		struct crash_publication kind = {.form = (enum crash_form)(i / 12),
						 .replace = i / 6 % 2,
						 .length = lengths[i / 3 % 2],
						 .sync = (enum ldr_sync)(i % 3)};

		each(context, &kind);
	}
}

void crash_publication_name(const struct crash_publication *kind,
			    char out[CRASH_PUBLICATION_NAME_BYTES])
{
	snprintf(out, CRASH_PUBLICATION_NAME_BYTES, "%s %s %zu %s", form_names[kind->form],
		 kind->replace ? "replace" : "create", kind->length, sync_names[kind->sync]);
}

/* ---- before ---- */

static bool empty(const char *folder)
{
	DIR *listing = opendir(folder);
	struct dirent *entry;
	bool good = listing != NULL;

	while (good && (entry = readdir(listing))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			good = unlinkat(dirfd(listing), entry->d_name, 0) == 0;
	}
	if (listing)
		closedir(listing);
	return good;
}

static bool put(int folder_fd, const char *name, const void *bytes, size_t length)
{
	LDR_AUTO_FD int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd >= 0 && write(fd, bytes, length) == (ssize_t)length;
}

bool crash_publication_seed(const struct crash_publication *kind, const char *folder)
{
	LDR_AUTO_FD int folder_fd = -1;
	uint8_t old[LONGEST];
	size_t length = bytes_of(kind, 0, old);

	if (!empty(folder))
		return false;
	folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0 || !put(folder_fd, "sentinel", SENTINEL, strlen(SENTINEL)))
		return false;
	return !kind->replace || (put(folder_fd, "dest", old, length) &&
				  linkat(folder_fd, "dest", folder_fd, "keep", 0) == 0);
}

/* ---- the publication ---- */

/* "Only if nobody else came between", where the case wants that. */
static enum ldr_status set_condition(const struct ldr_root *root,
				     struct ldr_publish_options *options, struct ldr_error *err)
{
	enum ldr_status status = ldr_root_observe(root, "dest", &options->stamp, NULL);

	options->condition = status == LDR_ENOTFOUND ? LDR_IF_MISSING : LDR_IF_MATCHING;
	return status == LDR_ENOTFOUND || !status
		       ? LDR_OK
		       : ldr_root_observe(root, "dest", &options->stamp, err);
}

static enum ldr_status run_stream(const struct ldr_root *root, const uint8_t *bytes, size_t length,
				  const struct ldr_publish_options *options,
				  struct ldr_publish_result *result, struct ldr_error *err)
{
	struct ldr_stream *stream;
	enum ldr_status status = ldr_stream_begin(root, "", options, &stream, err);

	if (status)
		return status;
	status = ldr_stream_append(stream, bytes, length / 2, err);
	if (!status)
		status = ldr_stream_append(stream, bytes + length / 2, length - length / 2, err);
	if (!status)
		return ldr_stream_commit(stream, "dest", result, err);
	ldr_stream_abort(stream);
	return status;
}

enum ldr_status crash_publication_run(const struct crash_publication *kind, const char *folder,
				      struct ldr_publish_result *result, struct ldr_error *err)
{
	struct ldr_publish_options options = {.sync = kind->sync};
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	uint8_t bytes[LONGEST];
	size_t length = bytes_of(kind, 1, bytes);
	enum ldr_status status = ldr_root_open(folder, false, &root, err);

	memset(result, 0, sizeof(*result));
	if (!status && kind->form == CRASH_FORM_CONDITION)
		status = set_condition(root, &options, err);
	if (status)
		return status;
	if (kind->form == CRASH_FORM_STREAM)
		return run_stream(root, bytes, length, &options, result, err);
	return ldr_publish(root, "dest", bytes, length, &options, result, err);
}

/* ---- after ---- */

/* -1: no such file, -2: unlike any. */
static int version_at(const struct crash_publication *kind, int folder_fd, const char *name,
		      struct ldr_id *out_id)
{
	LDR_AUTO_FD int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint8_t found[LONGEST + 1], wanted[LONGEST];
	ssize_t got = fd < 0 ? -1 : read(fd, found, sizeof(found));

	memset(out_id, 0, sizeof(*out_id));
	if (got < 0)
		return fd < 0 && errno == ENOENT ? -1 : -2;
	if (ldr_digest_once(found, (size_t)got, out_id, NULL))
		return -2;
	for (int version = 0; version < VERSIONS; version++) {
		size_t length = bytes_of(kind, version, wanted);

		if ((size_t)got == length && (!length || memcmp(found, wanted, length) == 0))
			return version;
	}
	return -2;
}

static bool sentinel_is_whole(int folder_fd)
{
	LDR_AUTO_FD int fd = openat(folder_fd, "sentinel", O_RDONLY | O_CLOEXEC);
	char found[sizeof(SENTINEL) + 1];

	return fd >= 0 && read(fd, found, sizeof(found)) == (ssize_t)strlen(SENTINEL) &&
	       memcmp(found, SENTINEL, strlen(SENTINEL)) == 0;
}

bool crash_publication_look(const struct crash_publication *kind, const char *folder,
			    struct crash_remains *out)
{
	DIR *listing = opendir(folder);
	struct dirent *entry;
	struct ldr_id unused;

	memset(out, 0, sizeof(*out));
	if (!listing)
		return false;
	out->version = version_at(kind, dirfd(listing), "dest", &out->sha256);
	out->others_as_before = sentinel_is_whole(dirfd(listing)) &&
				version_at(kind, dirfd(listing), "keep", &unused) ==
					(kind->replace ? 0 : -1);
	while ((entry = readdir(listing))) {
		const char *name = entry->d_name;

		if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) == 0)
			out->temporaries++;
		else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
			 strcmp(name, "dest") != 0 && strcmp(name, "keep") != 0 &&
			 strcmp(name, "sentinel") != 0)
			out->others_as_before = false;
	}
	closedir(listing);
	return true;
}

/* Publishes version 2 and sweeps. */
static enum ldr_status publish_again(const struct crash_publication *kind, const char *folder,
				     unsigned *out_swept)
{
	struct ldr_publish_options options = {0};
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	uint8_t bytes[LONGEST];
	size_t length = bytes_of(kind, 2, bytes);
	enum ldr_status status = ldr_root_open(folder, false, &root, NULL);

	if (!status)
		status = set_condition(root, &options, NULL);
	if (!status)
		status = ldr_publish(root, "dest", bytes, length, &options, NULL, NULL);
	return status ? status : ldr_root_sweep(root, "", out_swept, NULL);
}

const char *crash_publication_again(const struct crash_publication *kind, const char *folder)
{
	struct crash_remains before, after;
	unsigned swept = 0;

	if (!crash_publication_look(kind, folder, &before))
		return "the folder cannot be read";
	if (publish_again(kind, folder, &swept))
		return "the next publication or sweep failed";
	if (!crash_publication_look(kind, folder, &after) || after.version != 2)
		return "the next publication does not read back";
	if (swept != before.temporaries || after.temporaries != 0)
		return "the sweep left or took something else";
	return after.others_as_before ? NULL : "other files changed";
}
