/*
 * Bytes of images: copying sparse files, what is not zero of a seed, and the image of one state.
 *
 * Invariant: an image is a sparse file on tmpfs; what no extent and no record wrote is a hole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/disk.h"

#define BLOCK 4096
#define EXTENT_MAX (1u << 20)

static enum ldr_status put(int fd, const uint8_t *bytes, size_t length, uint64_t offset,
			   struct ldr_error *err)
{
	while (length > 0) {
		ssize_t done = pwrite(fd, bytes, length, (off_t)offset);

		if (done <= 0)
			return ldr_fail_errno(err, done < 0 ? errno : EIO, "writing an image");
		bytes += done;
		length -= (size_t)done;
		offset += (uint64_t)done;
	}
	return LDR_OK;
}

static bool all_zero(const uint8_t *bytes, size_t length)
{
	return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

/* The seed while it is put together. */
struct gather {
	struct crash_seed seed;
	size_t extent_room;
	size_t data_room;
};

static bool gather_block(struct gather *gather, const uint8_t *block, size_t length,
			 uint64_t offset)
{
	struct crash_seed *seed = &gather->seed;
	struct crash_extent *last = seed->extent_count ? &seed->extents[seed->extent_count - 1]
						       : NULL;

	if (seed->data_bytes + length > gather->data_room) {
		size_t room = (gather->data_room + BLOCK) * 2;
		uint8_t *grown = realloc(seed->data, room);

		if (!grown)
			return false;
		seed->data = grown;
		gather->data_room = room;
	}
	memcpy(seed->data + seed->data_bytes, block, length);
	seed->data_bytes += length;
	if (last && last->offset + last->length == offset && last->length < EXTENT_MAX) {
		last->length += length;
		return true;
	}
	if (seed->extent_count == gather->extent_room) {
		size_t room = gather->extent_room ? gather->extent_room * 2 : 64;
		struct crash_extent *grown = realloc(seed->extents, room * sizeof(*grown));

		if (!grown)
			return false;
		seed->extents = grown;
		gather->extent_room = room;
	}
	seed->extents[seed->extent_count++] = (struct crash_extent){offset, length,
								    seed->data_bytes - length};
	return true;
}

/* The blocks of one range that holds data. */
static enum ldr_status gather_range(struct gather *gather, int fd, uint64_t from, uint64_t to,
				    struct ldr_error *err)
{
	uint8_t block[BLOCK];

	for (uint64_t at = from; at < to; at += BLOCK) {
		size_t length = to - at < BLOCK ? (size_t)(to - at) : BLOCK;
		ssize_t got = pread(fd, block, length, (off_t)at);

		if (got != (ssize_t)length)
			return ldr_fail_errno(err, got < 0 ? errno : EIO, "reading an image");
		if (!all_zero(block, length) && !gather_block(gather, block, length, at))
			return ldr_fail(err, LDR_ENOMEM, "no memory for an image");
	}
	return LDR_OK;
}

enum ldr_status crash_seed_load(const char *path, struct crash_seed *out_seed,
				struct ldr_error *err)
{
	LDR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct gather gather = {0};
	enum ldr_status status = LDR_OK;
	off_t from, to = 0;
	struct stat found;

	if (fd < 0 || fstat(fd, &found) != 0)
		return ldr_fail_errno(err, errno, "image %s", path);
	gather.seed.image_bytes = (uint64_t)found.st_size;
	while (!status && (from = lseek(fd, to, SEEK_DATA)) >= 0) {
		to = lseek(fd, from, SEEK_HOLE);
		status = gather_range(&gather, fd, (uint64_t)from, (uint64_t)to, err);
	}
	if (status) {
		crash_seed_dispose(&gather.seed);
		return status;
	}
	*out_seed = gather.seed;
	return LDR_OK;
}

void crash_seed_dispose(struct crash_seed *seed)
{
	free(seed->extents);
	free(seed->data);
	memset(seed, 0, sizeof(*seed));
}

enum ldr_status crash_seed_digest(const struct crash_seed *seed, struct ldr_id *out_id,
				  struct ldr_error *err)
{
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	uint8_t head[8];

	if (!hasher)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a digest");
	ldr_hasher_begin(hasher);
	for (size_t i = 0; i < seed->extent_count; i++) {
		const struct crash_extent *extent = &seed->extents[i];

		for (size_t at = 0; at < extent->length; at += BLOCK) {
			size_t length = extent->length - at < BLOCK ? extent->length - at : BLOCK;

			ldr_put_le(head, 8, extent->offset + at);
			ldr_hasher_update(hasher, head, sizeof(head));
			ldr_hasher_update(hasher, seed->data + extent->at + at, length);
		}
	}
	ldr_hasher_end(hasher, out_id);
	return LDR_OK;
}

static enum ldr_status put_seed(int fd, const struct crash_seed *seed, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; !status && i < seed->extent_count; i++)
		status = put(fd, seed->data + seed->extents[i].at, seed->extents[i].length,
			     seed->extents[i].offset, err);
	return status;
}

enum ldr_status crash_disk_copy(const char *from, const char *to, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = open(to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct crash_seed seed;
	enum ldr_status status;

	if (fd < 0)
		return ldr_fail_errno(err, errno, "image %s", to);
	status = crash_seed_load(from, &seed, err);
	if (status)
		return status;
	if (ftruncate(fd, (off_t)seed.image_bytes) != 0)
		status = ldr_fail_errno(err, errno, "image %s", to);
	else
		status = put_seed(fd, &seed, err);
	crash_seed_dispose(&seed);
	return status;
}

static enum ldr_status apply(int fd, uint64_t image_bytes, const struct crash_record *record,
			     uint64_t from, uint64_t to, struct ldr_error *err)
{
	if (record->offset > image_bytes || record->length > image_bytes - record->offset)
		return ldr_fail(err, LDR_ECORRUPT, "log: a write ends past the image");
	if (record->type == CRASH_WRITE)
		return put(fd, record->data + from, to - from, record->offset + from, err);
	if (record->type == CRASH_DISCARD &&
	    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(record->offset + from), (off_t)(to - from)) != 0)
		return ldr_fail_errno(err, errno, "discarding in an image");
	return LDR_OK;
}

enum ldr_status crash_disk_build(int image_fd, const struct crash_seed *seed,
				 const struct crash_log *log, const struct crash_states *states,
				 const struct crash_state *state, struct ldr_error *err)
{
	enum ldr_status status;

	if (ftruncate(image_fd, 0) != 0 || ftruncate(image_fd, (off_t)seed->image_bytes) != 0)
		return ldr_fail_errno(err, errno, "emptying an image");
	status = put_seed(image_fd, seed, err);
	for (size_t i = 0; !status && i < state->base; i++)
		status = apply(image_fd, seed->image_bytes, &log->records[i], 0,
			       log->records[i].length, err);
	for (size_t i = 0; !status && i < state->piece_count; i++) {
		const struct crash_piece *piece = &states->pieces[state->first_piece + i];

		status = apply(image_fd, seed->image_bytes, &log->records[piece->record],
			       piece->from, piece->to, err);
	}
	return status;
}
