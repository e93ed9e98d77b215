/*
 * The default backend: the file's layer, on the worker's thread, which the layer gives back for what it has
 * to fetch; see backend.h.
 */
#include "vfs/backend.h"

#include "vfs/file.h"
#include "vfs/vfs_priv.h"

static enum ldr_status layers_read(void *context, const struct ldr_piece *piece,
				   struct ldr_wait *wait, size_t *out_length, struct ldr_error *err)
{
	const struct ldr_read_range range = {
		.bytes = piece->bytes, .length = piece->length, .offset = piece->offset};

	(void)context;
	if (wait)
		return ldr_file_pread_or_wait(piece->file, &range, wait, out_length, err);
	return ldr_file_pread(piece->file, piece->bytes, piece->length, piece->offset, out_length,
			      err);
}

const struct ldr_backend *ldr_backend_layers(void)
{
	static const struct ldr_backend layers = {.name = "layers", .read = layers_read};

	return &layers;
}
