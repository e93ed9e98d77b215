/*
 * One object: opening, checking, letting go; see objects.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/os.h"
#include "packs/pack.h"
#include "packs/release.h"
#include "server/object_priv.h"

/* An empty object has no mapping and no heap. */
static const char nothing[1];

static void release_bytes(struct ldr_object *object)
{
	if (object->guard) {
		ldr_guard_remove(object->guard);
		ldr_os_unmap(object->bytes, (size_t)object->length);
	} else if (object->bytes != nothing) {
		void *heap = (void *)(uintptr_t)object->bytes; /* const only while it is served */

		free(heap);
	}
}

struct ldr_object *ldr_object_ref(struct ldr_object *object)
{
	atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
	return object;
}

void ldr_object_unref(struct ldr_object *object)
{
	/* Release and acquire: the last one sees all that others did with the bytes as done. */
	if (!object || atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1)
		return;
	release_bytes(object);
	free(object);
}

static void object_cleanup(struct ldr_object **object)
{
	ldr_object_unref(*object);
}
#define AUTO_OBJECT __attribute__((cleanup(object_cleanup)))

const void *ldr_object_bytes(const struct ldr_object *object)
{
	return object->bytes;
}

uint64_t ldr_object_length(const struct ldr_object *object)
{
	return object->length;
}

const char *ldr_object_etag(const struct ldr_object *object)
{
	return object->etag;
}

bool ldr_object_broken(const struct ldr_object *object)
{
	return object->guard && ldr_guard_broken(object->guard);
}

static void set_etag(struct ldr_object *object, const struct ldr_id *id)
{
	object->etag[0] = '"';
	ldr_id_to_hex(id, object->etag + 1);
	object->etag[LDR_ID_HEX_CHARS + 1] = '"';
	object->etag[LDR_ID_HEX_CHARS + 2] = '\0';
}

/* The last 32 bytes say where the table lies, and the file ends right behind them. */
static enum ldr_status check_trailer(int fd, const char *path, uint64_t size, struct ldr_error *err)
{
	uint8_t trailer[LDR_PACK_TRAILER_BYTES];
	size_t got = 0;
	uint64_t position;
	uint64_t length;
	int error;

	if (size < LDR_PACK_HEADER_BYTES + LDR_PACK_TRAILER_BYTES)
		return ldr_fail(err, LDR_ECORRUPT, "%s: %llu bytes are no pack", path,
				(unsigned long long)size);
	error = ldr_os_pread(fd, trailer, sizeof(trailer), size - sizeof(trailer), &got);
	if (error)
		return ldr_fail_errno(err, error, "%s: read trailer", path);
	if (got != sizeof(trailer) ||
	    memcmp(trailer + 24, LDR_PACK_TRAILER_MAGIC, sizeof(LDR_PACK_TRAILER_MAGIC) - 1) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "%s: no trailer at the end of %llu bytes", path,
				(unsigned long long)size);
	position = ldr_get_le(trailer, 8);
	length = ldr_get_le(trailer + 8, 8);
	if (length > size || position != size - sizeof(trailer) - length)
		return ldr_fail(err, LDR_ECORRUPT,
				"%s: table at %llu of %llu bytes, but the file has %llu", path,
				(unsigned long long)position, (unsigned long long)length,
				(unsigned long long)size);
	return LDR_OK;
}

static enum ldr_status map_pack(const struct ldr_root *root, struct ldr_object *object,
				struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	struct stat info;
	enum ldr_status status = ldr_root_open_file(root, object->path, &fd, err);
	int error;

	if (status)
		return status;
	error = ldr_os_stat(fd, &info);
	if (error)
		return ldr_fail_errno(err, error, "%s", object->path);
	status = check_trailer(fd, object->path, (uint64_t)info.st_size, err);
	if (status)
		return status;
	error = ldr_os_map(fd, (size_t)info.st_size, &object->bytes);
	if (error)
		return ldr_fail_errno(err, error, "%s: map %lld bytes", object->path,
				      (long long)info.st_size);
	object->length = (uint64_t)info.st_size;
	object->guard = ldr_guard_add(object->bytes, (size_t)object->length);
	if (object->guard)
		return LDR_OK;
	ldr_os_unmap(object->bytes, (size_t)object->length);
	object->bytes = nothing;
	return ldr_fail(err, LDR_EAGAIN, "%s: all %d mappings are in use", object->path,
			LDR_GUARD_SLOTS);
}

static enum ldr_status copy_small(const struct ldr_root *root, struct ldr_object *object,
				  struct ldr_error *err)
{
	uint8_t *data = NULL;
	size_t length = 0;
	struct ldr_id id;
	enum ldr_status status = ldr_root_read_file(root, object->path, LDR_RELEASE_MAX_BYTES,
						    &data, &length, err);

	if (status)
		return status;
	object->bytes = data;
	object->length = length;
	status = ldr_digest_once(data, length, &id, err);
	if (!status)
		set_etag(object, &id);
	return status;
}

enum ldr_status object_open(const struct ldr_root *root, const struct ldr_object_name *name,
			    struct ldr_object **out_object, struct ldr_error *err)
{
	AUTO_OBJECT struct ldr_object *object = calloc(1, sizeof(*object));
	enum ldr_status status;

	if (!object)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	atomic_init(&object->refs, 1);
	object->bytes = nothing;
	object->kind = name->kind;
	ldr_store_path(name, object->path);
	/* Observed first: a file that is replaced in between is noticed at the next request. */
	status = ldr_root_observe(root, object->path, &object->stamp, err);
	if (status)
		return status;
	if (name->kind == LDR_OBJECT_PACK) {
		set_etag(object, &name->pack);
		status = map_pack(root, object, err);
	} else {
		status = copy_small(root, object, err);
	}
	if (status)
		return status;
	*out_object = LDR_STEAL(object);
	return LDR_OK;
}
