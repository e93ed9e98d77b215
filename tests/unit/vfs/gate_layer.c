/*
 * A layer whose functions wait at a gate; see gate_layer.h.
 */
#include "tests/unit/vfs/gate_layer.h"

#include <string.h>

#include "tests/support/fake_backend.h"

void gate_init(struct gate *gate)
{
	memset(gate, 0, sizeof(*gate));
	pthread_mutex_init(&gate->lock, NULL);
	pthread_cond_init(&gate->changed, NULL);
}

void gate_dispose(struct gate *gate)
{
	pthread_cond_destroy(&gate->changed);
	pthread_mutex_destroy(&gate->lock);
}

void gate_open(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->open = true;
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
}

void gate_await(struct gate *gate, unsigned count)
{
	pthread_mutex_lock(&gate->lock);
	while (gate->inside < count)
		pthread_cond_wait(&gate->changed, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}

static void pass(struct gate *gate, unsigned *count)
{
	pthread_mutex_lock(&gate->lock);
	gate->inside++;
	pthread_cond_broadcast(&gate->changed);
	while (!gate->open)
		pthread_cond_wait(&gate->changed, &gate->lock);
	gate->inside--;
	if (count)
		(*count)++;
	pthread_mutex_unlock(&gate->lock);
}

static enum ldr_status gate_stat(void *self, const struct ldr_layer_path *path,
				 struct ldr_stat *out, struct ldr_error *err)
{
	(void)self;
	(void)err;
	if (strcmp(path->text, "slow") != 0)
		return LDR_ENOTFOUND;
	*out = (struct ldr_stat){.kind = LDR_KIND_FILE, .size_bytes = GATE_FILE_BYTES};
	return LDR_OK;
}

static void file_close(struct ldr_layer_file *file)
{
	struct gate *gate = file->layer_self;

	pthread_mutex_lock(&gate->lock);
	gate->closed++;
	pthread_mutex_unlock(&gate->lock);
}

static enum ldr_status file_pread(struct ldr_layer_file *file, void *bytes, size_t length,
				  uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	(void)err;
	pass(file->layer_self, NULL);
	if (offset >= GATE_FILE_BYTES)
		length = 0;
	else if (length > GATE_FILE_BYTES - offset)
		length = (size_t)(GATE_FILE_BYTES - offset);
	for (size_t i = 0; i < length; i++)
		((uint8_t *)bytes)[i] = fake_byte(offset + i);
	*out_length = length;
	return LDR_OK;
}

static enum ldr_status file_stat(struct ldr_layer_file *file, struct ldr_stat *out,
				 struct ldr_error *err)
{
	const struct ldr_layer_path path = {.text = "slow", .length = 4};

	return gate_stat(file->layer_self, &path, out, err);
}

static enum ldr_status no_pwrite(struct ldr_layer_file *file, const void *bytes, size_t length,
				 uint64_t offset, struct ldr_error *err)
{
	(void)file, (void)bytes, (void)length, (void)offset;
	return ldr_fail(err, LDR_EUNSUPPORTED, "gate: no writing");
}

static enum ldr_status no_append(struct ldr_layer_file *file, const void *bytes, size_t length,
				 uint64_t *out_end, struct ldr_error *err)
{
	(void)file, (void)bytes, (void)length, (void)out_end;
	return ldr_fail(err, LDR_EUNSUPPORTED, "gate: no appending");
}

static enum ldr_status no_truncate(struct ldr_layer_file *file, uint64_t length,
				   struct ldr_error *err)
{
	(void)file, (void)length;
	return ldr_fail(err, LDR_EUNSUPPORTED, "gate: no cutting");
}

static const struct ldr_file_ops file_ops = {.size = sizeof(file_ops),
					     .close = file_close,
					     .pread = file_pread,
					     .pwrite = no_pwrite,
					     .append = no_append,
					     .truncate = no_truncate,
					     .stat = file_stat};

static enum ldr_status gate_open_file(void *self, const struct ldr_layer_path *path, unsigned how,
				      struct ldr_layer_file *file, struct ldr_error *err)
{
	(void)how;
	(void)err;
	if (strcmp(path->text, "slow") != 0)
		return LDR_ENOTFOUND;
	pass(self, NULL);
	file->ops = &file_ops;
	return LDR_OK;
}

static enum ldr_status gate_list(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				 void *context, struct ldr_error *err)
{
	if (path->length)
		return LDR_ENOTFOUND;
	pass(self, NULL);
	return emit(context, "slow", 4, LDR_KIND_FILE, err);
}

static enum ldr_status no_change(void *self, const struct ldr_layer_path *path,
				 struct ldr_error *err)
{
	(void)self, (void)path;
	return ldr_fail(err, LDR_EUNSUPPORTED, "gate: no changes");
}

static enum ldr_status no_rename(void *self, const struct ldr_layer_path *from,
				 const struct ldr_layer_path *to, struct ldr_error *err)
{
	(void)self, (void)from, (void)to;
	return ldr_fail(err, LDR_EUNSUPPORTED, "gate: no changes");
}

static enum ldr_status gate_replace(void *self, const struct ldr_layer_path *path,
				    const void *bytes, size_t length, enum ldr_sync sync,
				    struct ldr_error *err)
{
	struct gate *gate = self;

	(void)path, (void)bytes, (void)length, (void)sync, (void)err;
	pass(gate, &gate->replaced);
	return LDR_OK;
}

static void gate_free(void *self)
{
	struct gate *gate = self;

	pthread_mutex_lock(&gate->lock);
	gate->freed++;
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
}

enum ldr_status gate_layer_new(struct gate *gate, struct ldr_layer **out_layer,
			       struct ldr_error *err)
{
	static const struct ldr_layer_ops ops = {.size = sizeof(ops),
						 .kind = "gate",
						 .free = gate_free,
						 .stat = gate_stat,
						 .open = gate_open_file,
						 .list = gate_list,
						 .mkdir = no_change,
						 .remove = no_change,
						 .rename = no_rename,
						 .replace = gate_replace};

	return ldr_layer_new(&ops, gate, LDR_LAYER_WRITABLE, out_layer, err);
}
