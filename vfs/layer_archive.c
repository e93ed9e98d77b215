/*
 * A local pack as a layer: its tree, a source over the pack, and a memory cache of its own where
 * none is shared.
 */
#include <stdlib.h>

#include "common/bytes.h"
#include "vfs/layer_tree_priv.h"

#define DEFAULT_MEMORY_BYTES ((size_t)64 * 1024 * 1024)

struct archive {
	struct ldr_pack *pack;
	struct ldr_tree *tree;
	struct ldr_memory_cache *own_memory; /* NULL: shared */
	struct ldr_source *source;
};

static void archive_free(void *owner)
{
	struct archive *archive = owner;

	ldr_source_free(archive->source);
	ldr_memory_cache_free(archive->own_memory);
	ldr_tree_free(archive->tree);
	ldr_pack_unref(archive->pack);
	free(archive);
}

static enum ldr_status parse_tree(struct archive *archive, struct ldr_error *err)
{
	const uint8_t *bytes;
	uint64_t length;

	if (!ldr_pack_section(archive->pack, LDR_SECTION_TREE, &bytes, &length))
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"%s: the pack carries no tree, so it cannot be mounted",
				ldr_pack_name(archive->pack));
	return ldr_tree_parse(bytes, length, ldr_pack_name(archive->pack), NULL, NULL,
			      &archive->tree, err);
}

/* fd: the pack's, taken; -1: it is opened by its path. */
static enum ldr_status open_parts(struct archive *archive, const char *path, int fd,
				  const struct ldr_archive_options *options,
				  struct ldr_memory_cache **out_memory, struct ldr_error *err)
{
	const struct ldr_pack_options how = {.mode = LDR_PACK_LOCAL |
						     (options->map ? LDR_PACK_MAP : 0),
					     .title_key = options->key,
					     .base = options->base,
					     .length = options->length};
	size_t bytes = options->memory_bytes ? options->memory_bytes : DEFAULT_MEMORY_BYTES;
	enum ldr_status status = fd < 0 ? ldr_pack_open(path, &how, &archive->pack, err)
					: ldr_pack_open_fd(fd, path, &how, &archive->pack, err);

	if (status == LDR_OK)
		status = parse_tree(archive, err);
	*out_memory = options->memory;
	if (status == LDR_OK && !options->memory) {
		status = ldr_memory_cache_new(bytes, &archive->own_memory, err);
		*out_memory = archive->own_memory;
	}
	if (status == LDR_OK)
		status = ldr_source_new(*out_memory, NULL, &archive->source, err);
	return status == LDR_OK ? ldr_source_add_pack(archive->source, archive->pack, err) : status;
}

static enum ldr_status open_archive(const char *path, int taken_fd,
				    const struct ldr_archive_options *options,
				    struct ldr_layer **out_layer, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = taken_fd;
	struct ldr_archive_options given = {.size = sizeof(given)};
	struct ldr_tree_layer_parts parts = {.size = sizeof(parts), .owner_free = archive_free};
	struct archive *archive;
	enum ldr_status status;

	if (options && options->size != sizeof(*options))
		return ldr_fail(err, LDR_EINVAL, "archive options: %zu bytes, known are %zu",
				options->size, sizeof(*options));
	if (options)
		given = *options;
	archive = calloc(1, sizeof(*archive));
	if (!archive)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	status = open_parts(archive, path, ldr_steal_fd(&fd), &given, &parts.memory, err);
	parts.tree = archive->tree;
	parts.locked = archive->pack && ldr_pack_is_locked(archive->pack);
	parts.source = archive->source;
	parts.owner = archive;
	if (status == LDR_OK)
		status = ldr_layer_tree_new(&parts, out_layer, err);
	if (status != LDR_OK)
		archive_free(archive);
	return status;
}

enum ldr_status ldr_layer_archive_open(const char *path, const struct ldr_archive_options *options,
				       struct ldr_layer **out_layer, struct ldr_error *err)
{
	return open_archive(path, -1, options, out_layer, err);
}

enum ldr_status ldr_layer_archive_open_fd(int fd, const char *name,
					  const struct ldr_archive_options *options,
					  struct ldr_layer **out_layer, struct ldr_error *err)
{
	return open_archive(name, fd, options, out_layer, err);
}
