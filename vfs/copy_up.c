/*
 * Copying a file of a lower mount into a write target.
 *
 * The copy is made as ".larder/copy-N" in the target, a name that nobody is shown, and renamed when
 * it is whole; so the file is seen as it was below or as its full copy. Copies of an owner
 * that died are swept by the next one (claim.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "vfs/vfs_priv.h"

#define COPY_FOLDER LDR_RESERVED_NAME
#define COPY_PREFIX "copy-"
#define COPY_BUFFER_BYTES ((size_t)256 * 1024)
#define COPY_NAME_BYTES 48

static struct ldr_layer_path path_of(const char *text)
{
	return (struct ldr_layer_path){.text = text, .length = strlen(text)};
}

static enum ldr_status copy_bytes(struct ldr_layer_file *from, struct ldr_layer_file *to,
				  uint8_t *buffer, struct ldr_error *err)
{
	uint64_t offset = 0;

	for (;;) {
		size_t got;
		enum ldr_status status = from->ops->pread(from, buffer, COPY_BUFFER_BYTES, offset,
							  &got, err);

		if (status == LDR_OK && got > 0)
			status = to->ops->pwrite(to, buffer, got, offset, err);
		if (status != LDR_OK || got == 0)
			return status;
		offset += got;
	}
}

/* Synced before it gets its name, so that a crash cannot leave an empty file where a full one was
 * seen. */
static enum ldr_status copy_file(struct ldr_layer_file *from, const struct ldr_mounted *target,
				 const struct ldr_layer_path *copy, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *buffer = malloc(COPY_BUFFER_BYTES);
	struct ldr_layer_file to = {.layer_self = target->self};
	enum ldr_status status;

	if (!buffer)
		return ldr_fail(err, LDR_ENOMEM, "copy: out of memory");
	status = target->ops->open(target->self, copy,
				   LDR_LAYER_WRITE | LDR_LAYER_CREATE | LDR_LAYER_NEW, &to, err);
	if (status != LDR_OK)
		return status;
	status = copy_bytes(from, &to, buffer, err);
	if (status == LDR_OK && to.ops->sync)
		status = to.ops->sync(&to, err);
	if (to.ops->close)
		to.ops->close(&to);
	return status;
}

static enum ldr_status check_size(const struct ldr_vfs *vfs, struct ldr_layer_file *from,
				  struct ldr_error *err)
{
	struct ldr_stat now;
	enum ldr_status status = from->ops->stat(from, &now, err);

	if (status != LDR_OK || vfs->max_copy_bytes == 0 || now.size_bytes <= vfs->max_copy_bytes)
		return status;
	return ldr_fail(err, LDR_ELIMIT, "copy to the write target: %" PRIu64 " bytes, limit %zu",
			now.size_bytes, vfs->max_copy_bytes);
}

static enum ldr_status copy_and_rename(struct ldr_vfs *vfs, struct ldr_layer_file *from,
				       const struct ldr_mounted *target,
				       const struct ldr_layer_path *to, struct ldr_error *err)
{
	char name[COPY_NAME_BYTES];
	struct ldr_layer_path copy, folder = path_of(COPY_FOLDER);
	enum ldr_status status = target->ops->mkdir(target->self, &folder, err);

	if (status != LDR_OK && status != LDR_EEXISTS)
		return status;
	snprintf(name, sizeof(name), COPY_FOLDER "/" COPY_PREFIX "%016" PRIx64,
		 vfs->seed + atomic_fetch_add(&vfs->copy_ticket, 1));
	copy = path_of(name);
	status = copy_file(from, target, &copy, err);
	if (status == LDR_OK)
		status = target->ops->rename(target->self, &copy, to, err);
	if (status != LDR_OK)
		target->ops->remove(target->self, &copy, NULL);
	return status;
}

enum ldr_status ldr_copy_up(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
			    const struct ldr_mounted *target, const struct ldr_layer_path *to,
			    struct ldr_error *err)
{
	struct ldr_layer_file from = {.ops = NULL};
	struct ldr_visit visit = {.lookup = lookup, .file = &from};
	struct ldr_error why;
	enum ldr_status status;

	ldr_why_begin(&why);
	status = ldr_lookup_ask(&ldr_verbs_open, &visit, &why);
	if (status != LDR_OK)
		return ldr_fail(err, status, "copy to the write target: %s",
				status == LDR_ENOTFOUND ? "not found" : why.text);
	status = check_size(vfs, &from, &why);
	if (status == LDR_OK)
		status = copy_and_rename(vfs, &from, target, to, &why);
	if (from.ops->close)
		from.ops->close(&from);
	if (status == LDR_OK)
		atomic_fetch_add_explicit(&vfs->copied_up, 1, memory_order_relaxed);
	else
		ldr_why_tell(&why, status, err);
	return status;
}

/* ---- what dead processes left ---- */

struct leftovers {
	char names[64][COPY_NAME_BYTES];
	size_t count;
};

static enum ldr_status note_leftover(void *context, const char *name, size_t name_bytes,
				     enum ldr_kind kind, struct ldr_error *err)
{
	const size_t prefix = sizeof(COPY_PREFIX) - 1;
	struct leftovers *left = context;

	(void)err;
	if (kind != LDR_KIND_FILE || left->count == 64 || name_bytes != prefix + 16 ||
	    memcmp(name, COPY_PREFIX, prefix) != 0)
		return LDR_OK;
	snprintf(left->names[left->count++], COPY_NAME_BYTES, COPY_FOLDER "/%.*s", (int)name_bytes,
		 name);
	return LDR_OK;
}

void ldr_copy_sweep(const struct ldr_layer_ops *ops, void *layer_self)
{
	struct ldr_layer_path folder = path_of(COPY_FOLDER);
	struct leftovers *left = calloc(1, sizeof(*left));

	if (left && ops->list(layer_self, &folder, note_leftover, left, NULL) == LDR_OK) {
		for (size_t i = 0; i < left->count; i++) {
			struct ldr_layer_path copy = path_of(left->names[i]);

			ops->remove(layer_self, &copy, NULL);
		}
	}
	free(left);
}
