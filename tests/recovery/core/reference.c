/* The second replayer; see reference.h. */
#include "tests/recovery/core/reference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/bytes.h"

#define SECTOR 512u
#define BLOCK 4096u

struct reference {
	const struct crash_log *log;
	const struct crash_states *states;
	const struct crash_state *state;
	const uint8_t *seed; /* mapped */
	const uint8_t *image;
	size_t bytes;
	uint8_t *touched; /* owns: not 0 for blocks that some write reaches */
};

/* The part of a record that is applied as number n of the state, from its end backwards; false: no more. */
struct part {
	const struct crash_record *record;
	uint64_t from, to; /* on the disk */
};

static bool part_of(const struct reference *reference, size_t n, struct part *out)
{
	const struct crash_state *state = reference->state;
	uint64_t from = 0, to;

	if (n < state->piece_count) {
		const struct crash_piece *piece =
			&reference->states->pieces[state->first_piece + state->piece_count - 1 - n];

		out->record = &reference->log->records[piece->record];
		from = piece->from;
		to = piece->to;
	} else if (n - state->piece_count < state->base) {
		out->record = &reference->log->records[state->base - 1 - (n - state->piece_count)];
		to = out->record->length;
	} else {
		return false;
	}
	out->from = out->record->offset + from;
	out->to = out->record->offset + to;
	return true;
}

static bool applies(const struct part *part)
{
	return part->record->type == CRASH_WRITE || part->record->type == CRASH_DISCARD;
}

static enum ldr_status touch(struct reference *reference, struct ldr_error *err)
{
	struct part part;

	for (size_t n = 0; part_of(reference, n, &part); n++) {
		if (!applies(&part))
			continue;
		if (part.to > reference->bytes || part.from % SECTOR || part.to % SECTOR)
			return ldr_fail(err, LDR_ECORRUPT, "log: a write that is not of sectors");
		for (uint64_t at = part.from / BLOCK; at * BLOCK < part.to; at++)
			reference->touched[at] = 1;
	}
	return LDR_OK;
}

static void sector_at(const struct reference *reference, uint64_t at, uint8_t out[SECTOR])
{
	struct part part;

	for (size_t n = 0; part_of(reference, n, &part); n++) {
		if (!applies(&part) || at < part.from || at >= part.to)
			continue;
		if (part.record->type == CRASH_DISCARD)
			memset(out, 0, SECTOR);
		else
			memcpy(out, part.record->data + (at - part.record->offset), SECTOR);
		return;
	}
	memcpy(out, reference->seed + at, SECTOR);
}

static void put_block(struct ldr_hasher *hasher, uint64_t offset, const uint8_t block[BLOCK])
{
	uint8_t head[8];

	if (block[0] == 0 && memcmp(block, block + 1, BLOCK - 1) == 0)
		return;
	ldr_put_le(head, 8, offset);
	ldr_hasher_update(hasher, head, sizeof(head));
	ldr_hasher_update(hasher, block, BLOCK);
}

static enum ldr_status digest(const struct reference *reference, bool wanted, struct ldr_id *out,
			      struct ldr_error *err)
{
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	uint8_t made[BLOCK];

	if (!hasher)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a digest");
	ldr_hasher_begin(hasher);
	for (uint64_t at = 0; at < reference->bytes; at += BLOCK) {
		const uint8_t *block = (wanted ? reference->seed : reference->image) + at;

		if (wanted && reference->touched[at / BLOCK]) {
			for (uint64_t k = 0; k < BLOCK; k += SECTOR)
				sector_at(reference, at + k, made + k);
			block = made;
		}
		put_block(hasher, at, block);
	}
	ldr_hasher_end(hasher, out);
	return LDR_OK;
}

static enum ldr_status map(int fd, size_t bytes, const uint8_t **out, struct ldr_error *err)
{
	struct stat found;
	void *mapped;

	if (fstat(fd, &found) != 0)
		return ldr_fail_errno(err, errno, "an image");
	if ((size_t)found.st_size != bytes || bytes == 0 || bytes % BLOCK)
		return ldr_fail(err, LDR_EINVAL, "an image of %jd bytes, wanted %zu",
				(intmax_t)found.st_size, bytes);
	mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return ldr_fail_errno(err, errno, "an image");
	*out = mapped;
	return LDR_OK;
}

static void unmap(const uint8_t *mapped, size_t bytes)
{
	if (mapped)
		munmap((void *)(uintptr_t)mapped, bytes);
}

enum ldr_status crash_reference_compare(int seed_fd, int image_fd, const struct crash_log *log,
					const struct crash_states *states,
					const struct crash_state *state,
					struct crash_image_ids *out, struct ldr_error *err)
{
	struct reference reference = {.log = log, .states = states, .state = state};
	enum ldr_status status;
	struct stat found;

	if (fstat(seed_fd, &found) != 0)
		return ldr_fail_errno(err, errno, "a seed");
	reference.bytes = (size_t)found.st_size;
	reference.touched = calloc(reference.bytes / BLOCK + 1, 1);
	if (!reference.touched)
		return ldr_fail(err, LDR_ENOMEM, "no memory for %zu blocks",
				reference.bytes / BLOCK);
	status = map(seed_fd, reference.bytes, &reference.seed, err);
	if (!status)
		status = map(image_fd, reference.bytes, &reference.image, err);
	if (!status)
		status = touch(&reference, err);
	if (!status)
		status = digest(&reference, true, &out->wanted, err);
	if (!status)
		status = digest(&reference, false, &out->found, err);
	unmap(reference.seed, reference.bytes);
	unmap(reference.image, reference.bytes);
	free(reference.touched);
	return status;
}
