/* Folders of the model: names and objects; see model.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/recovery/sim/model.h"

int sim_find(const struct sim_folder *folder, const char *name)
{
	for (size_t i = 0; i < SIM_NAMES_MAX; i++) {
		if (folder->names[i].name[0] && strcmp(folder->names[i].name, name) == 0)
			return (int)folder->names[i].object;
	}
	return -1;
}

static void forget(struct sim_folder *folder, const char *name)
{
	for (size_t i = 0; i < SIM_NAMES_MAX; i++) {
		if (strcmp(folder->names[i].name, name) == 0)
			folder->names[i].name[0] = '\0';
	}
}

static enum ldr_status set_name(struct sim_folder *folder, const char *name, unsigned object,
				struct ldr_error *err)
{
	forget(folder, name);
	for (size_t i = 0; i < SIM_NAMES_MAX; i++) {
		struct sim_name *place = &folder->names[i];

		if (place->name[0])
			continue;
		memcpy(place->name, name, strnlen(name, SIM_NAME_BYTES - 1) + 1);
		place->name[SIM_NAME_BYTES - 1] = '\0';
		place->object = object;
		return LDR_OK;
	}
	return ldr_fail(err, LDR_ELIMIT, "model: more than %d names", SIM_NAMES_MAX);
}

static enum ldr_status set_length(struct sim_object *object, uint64_t length, struct ldr_error *err)
{
	uint8_t *bytes;

	if (length > SIM_FILE_BYTES)
		return ldr_fail(err, LDR_ELIMIT, "model: length %llu, limit %u",
				(unsigned long long)length, SIM_FILE_BYTES);
	bytes = realloc(object->bytes, length + 1);
	if (!bytes)
		return ldr_fail(err, LDR_ENOMEM, "model: no memory for a file");
	if (length > object->length)
		memset(bytes + object->length, 0, length - object->length);
	object->bytes = bytes;
	object->length = length;
	return LDR_OK;
}

static enum ldr_status write_object(struct sim_object *object, const struct sim_event *event,
				    struct ldr_error *err)
{
	uint64_t end = event->offset + event->length;
	enum ldr_status status = LDR_OK;

	if (end > object->length)
		status = set_length(object, end, err);
	if (!status && event->bytes && event->length)
		memcpy(object->bytes + event->offset, event->bytes, event->length);
	return status;
}

/* A rename or link whose source was never durable by name still leads to its object: the event says it. */
enum ldr_status sim_apply(struct sim_folder *folder, const struct sim_event *event,
			  struct ldr_error *err)
{
	struct sim_object *object = &folder->objects[event->object];

	switch (event->kind) {
	case SIM_CREATE:
		return set_name(folder, event->name, event->object, err);
	case SIM_RENAME:
		forget(folder, event->name);
		return set_name(folder, event->to, event->object, err);
	case SIM_LINK:
		return set_name(folder, event->to, event->object, err);
	case SIM_UNLINK:
		forget(folder, event->name);
		return LDR_OK;
	case SIM_WRITE:
		return write_object(object, event, err);
	case SIM_TRUNCATE:
		return set_length(object, event->offset, err);
	default:
		return LDR_OK;
	}
}

enum ldr_status sim_folder_copy(const struct sim_folder *from, struct sim_folder *out,
				struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	memset(out, 0, sizeof(*out));
	memcpy(out->names, from->names, sizeof(out->names));
	for (size_t i = 0; !status && i < SIM_OBJECTS_MAX; i++) {
		const struct sim_object *object = &from->objects[i];
		struct sim_event event = {
			.kind = SIM_WRITE, .length = object->length, .bytes = object->bytes};

		if (object->length)
			status = write_object(&out->objects[i], &event, err);
	}
	if (status)
		sim_folder_dispose(out);
	return status;
}

void sim_folder_dispose(struct sim_folder *folder)
{
	for (size_t i = 0; i < SIM_OBJECTS_MAX; i++) {
		free(folder->objects[i].bytes);
		folder->objects[i] = (struct sim_object){0};
	}
}
