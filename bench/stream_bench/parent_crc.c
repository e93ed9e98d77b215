/*
 * parent_crc.c   the parent's pack reader as a layer.
 */
#include "bench/stream_bench/parent_crc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/support.h"
#include "common/lock.h"
#include "common/os.h"

#define BLOCK_BYTES (64u * 1024)
#define STATS_A_READ 6

struct parent {
	const struct stream_corpus *corpus; /* borrowed */
	int fd;
	uint64_t *place;  /* where each file begins in it */
	uint32_t **check; /* the checksums of each file's blocks */
};

struct open_file {
	const struct parent *parent;
	size_t file;
	struct ldr_mutex mutex;
	uint8_t stored[BLOCK_BYTES];
	uint8_t decoded[BLOCK_BYTES];
};

/* Bit by bit, as the parent does it. */
static uint32_t crc32_bitwise(const uint8_t *bytes, size_t length)
{
	uint32_t crc = 0xffffffffu;

	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

static size_t block_length(uint64_t size, uint64_t block)
{
	uint64_t left = size - block * BLOCK_BYTES;

	return left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
}

static struct open_file *file_of(const struct ldr_layer_file *file)
{
	return (struct open_file *)(uintptr_t)file->state[0];
}

static enum ldr_status read_block(struct open_file *file, uint64_t block, struct ldr_error *err)
{
	const struct parent *parent = file->parent;
	size_t length = block_length(parent->corpus->size[file->file], block), got;
	int code = ldr_os_pread(parent->fd, file->stored, length,
				parent->place[file->file] + block * BLOCK_BYTES, &got);

	if (code || got != length)
		return ldr_fail_errno(err, code, "block %llu", (unsigned long long)block);
	memcpy(file->decoded, file->stored, length);
	if (crc32_bitwise(file->decoded, length) != parent->check[file->file][block])
		return ldr_fail(err, LDR_ECORRUPT, "block %llu: checksum",
				(unsigned long long)block);
	return LDR_OK;
}

static enum ldr_status read_range(struct open_file *file, uint8_t *bytes, size_t length,
				  uint64_t offset, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	struct stat held;

	for (int i = 0; i < STATS_A_READ; i++)
		(void)ldr_os_stat(file->parent->fd, &held);
	while (status == LDR_OK && length) {
		size_t from = (size_t)(offset % BLOCK_BYTES), part = BLOCK_BYTES - from;

		part = part < length ? part : length;
		status = read_block(file, offset / BLOCK_BYTES, err);
		if (status == LDR_OK)
			memcpy(bytes, file->decoded + from, part);
		bytes += part;
		offset += part;
		length -= part;
	}
	return status;
}

static enum ldr_status file_pread(struct ldr_layer_file *layer_file, void *bytes, size_t length,
				  uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	struct open_file *file = file_of(layer_file);
	uint64_t size = file->parent->corpus->size[file->file];
	enum ldr_status status;

	if (offset >= size)
		length = 0;
	else if (length > size - offset)
		length = (size_t)(size - offset);
	ldr_mutex_lock(&file->mutex);
	status = read_range(file, bytes, length, offset, err);
	ldr_mutex_unlock(&file->mutex);
	if (status == LDR_OK)
		*out_length = length;
	return status;
}

static void fill_stat(uint64_t size, struct ldr_stat *out)
{
	*out = (struct ldr_stat){.kind = LDR_KIND_FILE, .mode = 0444, .size_bytes = size};
}

static enum ldr_status file_stat(struct ldr_layer_file *file, struct ldr_stat *out,
				 struct ldr_error *err)
{
	(void)err;
	fill_stat(file_of(file)->parent->corpus->size[file_of(file)->file], out);
	return LDR_OK;
}

static void file_close(struct ldr_layer_file *file)
{
	ldr_mutex_dispose(&file_of(file)->mutex);
	free(file_of(file));
}

static const struct ldr_file_ops file_ops = {
	.size = sizeof(file_ops), .close = file_close, .pread = file_pread, .stat = file_stat};

static bool find(const struct parent *parent, const char *path, size_t *out_file)
{
	for (size_t i = 0; i < parent->corpus->count; i++)
		if (!strcmp(parent->corpus->path[i], path)) {
			*out_file = i;
			return true;
		}
	return false;
}

static enum ldr_status layer_stat(void *self, const struct ldr_layer_path *path,
				  struct ldr_stat *out, struct ldr_error *err)
{
	const struct parent *parent = self;
	size_t file;

	(void)err;
	if (path->length == 0) {
		*out = (struct ldr_stat){.kind = LDR_KIND_FOLDER, .mode = 0555};
		return LDR_OK;
	}
	if (!find(parent, path->text, &file))
		return LDR_ENOTFOUND;
	fill_stat(parent->corpus->size[file], out);
	return LDR_OK;
}

static enum ldr_status layer_open(void *self, const struct ldr_layer_path *path, unsigned how,
				  struct ldr_layer_file *out, struct ldr_error *err)
{
	struct open_file *file;
	size_t index;

	(void)how;
	if (!find(self, path->text, &index))
		return LDR_ENOTFOUND;
	file = malloc(sizeof(*file));
	if (!file)
		return ldr_fail(err, LDR_ENOMEM, "%s", path->text);
	file->parent = self;
	file->file = index;
	ldr_mutex_init(&file->mutex, LDR_RANK_LEAF);
	out->ops = &file_ops;
	out->state[0] = (uintptr_t)file;
	return LDR_OK;
}

static enum ldr_status layer_list(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				  void *context, struct ldr_error *err)
{
	(void)self;
	(void)path;
	(void)emit;
	(void)context;
	return ldr_fail(err, LDR_EUNSUPPORTED, "the benchmark lists nothing");
}

static void layer_free(void *self)
{
	struct parent *parent = self;

	for (size_t i = 0; parent->check && i < parent->corpus->count; i++)
		free(parent->check[i]);
	free(parent->check);
	free(parent->place);
	if (parent->fd >= 0)
		ldr_os_close(parent->fd);
	free(parent);
}

static const struct ldr_layer_ops layer_ops = {
	.size = sizeof(layer_ops),
	.kind = "parent-crc",
	.free = layer_free,
	.stat = layer_stat,
	.open = layer_open,
	.list = layer_list,
};

/* What the parent's packer would have put into the index. */
static bool index_blocks(struct parent *parent)
{
	const struct stream_corpus *corpus = parent->corpus;
	uint64_t place = 0;

	for (size_t i = 0; i < corpus->count; i++) {
		uint64_t blocks = (corpus->size[i] + BLOCK_BYTES - 1) / BLOCK_BYTES;

		parent->place[i] = place;
		place += corpus->size[i];
		parent->check[i] = calloc(blocks + 1, sizeof(uint32_t));
		if (!parent->check[i])
			return false;
		for (uint64_t k = 0; k < blocks; k++)
			parent->check[i][k] = crc32_bitwise(corpus->expected[i] + k * BLOCK_BYTES,
							    block_length(corpus->size[i], k));
	}
	return true;
}

bool stream_parent_layer(const struct stream_corpus *corpus, struct ldr_layer **out_layer)
{
	struct parent *parent = calloc(1, sizeof(*parent));
	char *path = bench_join(corpus->folder, "expected.bin");
	struct ldr_error error = {0};
	bool good = parent != NULL;

	if (good) {
		*parent = (struct parent){
			.corpus = corpus,
			.fd = -1,
			.place = calloc(corpus->count, sizeof(uint64_t)),
			.check = calloc(corpus->count, sizeof(uint32_t *)),
		};
		good = parent->place && parent->check && !ldr_os_open_file(path, &parent->fd) &&
		       index_blocks(parent);
	}
	good = good && !ldr_layer_new(&layer_ops, parent, 0, out_layer, &error);
	if (!good) {
		bench_say("parent-crc: %s: %s", path, error.text);
		if (parent)
			layer_free(parent);
	}
	free(path);
	return good;
}
