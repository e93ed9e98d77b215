/*
 * See installation.h.
 */
#include "tests/unit/common/installation.h"

#include <string.h>

#include "common/os.h"

#define CASES(table) (sizeof(table) / sizeof((table)[0]))

enum ldr_status installation_apply(struct ldr_batch *batch, const struct ldr_batch_step *steps,
				   size_t count, struct ldr_error *err)
{
	struct ldr_batch_plan plan = {
		.steps = steps,
		.step_count = count,
		.plan = "the plan",
		.plan_bytes = 8,
		.record = "the record",
		.record_bytes = 10,
	};

	return ldr_batch_apply(batch, &plan, err);
}

static enum ldr_status put(struct ldr_batch *batch, const char *name, const char *text,
			   struct ldr_error *err)
{
	int fd = -1, code;
	enum ldr_status status = ldr_batch_open(batch, name, &fd, err);

	if (status)
		return status;
	code = ldr_os_pwrite(fd, text, strlen(text), 0);
	ldr_os_close(fd);
	return code ? ldr_fail_errno(err, code, "temporary %s: write", name) : LDR_OK;
}

static const struct ldr_batch_step first_steps[] = {
	{LDR_BATCH_FOLDER, "bin", NULL, 0755},
	{LDR_BATCH_FILE, "bin/game", "t1", 0755},
	{LDR_BATCH_FOLDER, "data", NULL, 0700},
	{LDR_BATCH_FOLDER, "data/maps", NULL, 0775},
	{LDR_BATCH_FILE, "data/maps/one", "t2", 0644},
	{LDR_BATCH_FILE, "data/maps/two", "t3", 0600},
	{LDR_BATCH_SYMLINK, "data/current", "maps/one", 0},
	{LDR_BATCH_SYMLINK, "data/maps/up", "../../bin/game", 0},
	{LDR_BATCH_FILE, "read.me", "t4", 0444},
};

const char installation_first_tree[] = "d 755 bin\n"
				       "f 755 bin/game GAME\n"
				       "d 700 data\n"
				       "l data/current -> maps/one\n"
				       "d 775 data/maps\n"
				       "f 644 data/maps/one ONE\n"
				       "f 600 data/maps/two TWO\n"
				       "l data/maps/up -> ../../bin/game\n"
				       "f 444 read.me README\n";

enum ldr_status installation_first(struct ldr_batch *batch, struct ldr_error *err)
{
	static const char *const texts[][2] = {
		{"t1", "GAME"}, {"t2", "ONE"}, {"t3", "TWO"}, {"t4", "README"}};

	for (size_t i = 0; i < CASES(texts); i++) {
		enum ldr_status status = put(batch, texts[i][0], texts[i][1], err);

		if (status)
			return status;
	}
	return installation_apply(batch, first_steps, CASES(first_steps), err);
}

static const struct ldr_batch_step update_steps[] = {
	{LDR_BATCH_REMOVE, "read.me", NULL, 0},
	{LDR_BATCH_REMOVE, "data/current", NULL, 0},
	{LDR_BATCH_UNMAKE, "data/none", NULL, 0},
	{LDR_BATCH_FOLDER, "bin/game", NULL, 0755},
	{LDR_BATCH_FOLDER, "data/new", NULL, 0777},
	{LDR_BATCH_FILE, "bin/game/exe", "u1", 0755},
	{LDR_BATCH_FILE, "data/maps/one", "u2", 0644},
	{LDR_BATCH_SYMLINK, "data/maps/up", "one", 0},
	{LDR_BATCH_SYMLINK, "data/new/link", "../maps", 0},
	{LDR_BATCH_MODE, "data/maps/two", NULL, 0644},
};

const char installation_update_tree[] = "d 755 bin\n"
					"d 755 bin/game\n"
					"f 755 bin/game/exe EXE\n"
					"d 700 data\n"
					"d 775 data/maps\n"
					"f 644 data/maps/one one\n"
					"f 644 data/maps/two TWO\n"
					"l data/maps/up -> one\n"
					"d 777 data/new\n"
					"l data/new/link -> ../maps\n";

static const char *new_text(const struct ldr_batch_step *step)
{
	if (step->kind != LDR_BATCH_FILE)
		return NULL;
	return strcmp(step->source, "u1") == 0 ? "EXE" : "one";
}

enum ldr_status installation_update(struct ldr_batch *batch, const struct scratch *scratch,
				    struct ldr_error *err)
{
	struct ldr_batch_step steps[CASES(update_steps)];
	enum ldr_status status = LDR_OK;
	size_t count = 0;

	for (size_t i = 0; i < CASES(update_steps) && !status; i++) {
		const struct ldr_batch_step *step = &update_steps[i];
		const char *text = new_text(step);

		if (text && scratch_is(scratch, step->path, text, strlen(text)))
			continue;
		if (text)
			status = put(batch, step->source, text, err);
		steps[count++] = *step;
	}
	return status ? status : installation_apply(batch, steps, count, err);
}
