/* Facts and their checks; see facts.h. */
#include "tests/recovery/core/facts.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/digest.h"
#include "tests/recovery/core/disk.h"

#define TEXT_BYTES 512

const char *crash_facts_revision(void)
{
	const char *text = getenv("CRASHLAB_REVISION");

	return text && *text ? text : NULL;
}

/* ---- programs ---------------------------------------------------------------------------------------- */

void crash_facts_digest(json_t *tools, const char *name, const char *path)
{
	LDR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char hex[LDR_ID_HEX_CHARS + 1];
	struct stat found;
	struct ldr_id id;
	void *bytes;

	if (fd < 0 || fstat(fd, &found) != 0 || found.st_size == 0)
		return;
	bytes = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return;
	if (ldr_digest_once(bytes, (size_t)found.st_size, &id, NULL) == LDR_OK) {
		ldr_id_to_hex(&id, hex);
		json_object_set_new(tools, name, json_string(hex));
	}
	munmap(bytes, (size_t)found.st_size);
}

json_t *crash_facts_tools(const char *programs, const char *recorder)
{
	static const char *const products[] = {"larder", "larderd", "seams/larderd"};
	const char *build = getenv("BUILD");
	json_t *tools = json_object();
	char path[CRASH_PATH_BYTES];

	crash_facts_digest(tools, "crashlab", "/proc/self/exe");
	crash_facts_digest(tools, "crashdisk", recorder);
	for (size_t i = 0; i < crash_leg_count; i++) {
		const char *const names[] = {crash_legs[i].mkfs[0], crash_legs[i].fsck[0]};

		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			if (crash_find_program(names[k], path, sizeof(path)))
				crash_facts_digest(tools, names[k], path);
		}
	}
	for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
		snprintf(path, sizeof(path), "%s%s/%s", build ? build : programs,
			 build ? "" : "/../..", products[i]);
		crash_facts_digest(tools, products[i], path);
	}
	return tools;
}

/* ---- the machine ------------------------------------------------------------------------------------- */

void crash_facts_put_text(json_t *object, const char *field, const char *bytes, size_t length)
{
	char *text = malloc(length + 1);

	for (size_t i = 0; text && i < length; i++)
		text[i] = isprint((unsigned char)bytes[i]) || bytes[i] == '\n' ? bytes[i] : '?';
	if (text)
		json_object_set_new(object, field, json_stringn(text, length));
	free(text);
}

/* What follows "KEY : " in a file of such lines; false: no such line. */
static bool line_of(const char *path, const char *key, char *out_text, size_t room)
{
	FILE *file = fopen(path, "re");
	char line[TEXT_BYTES];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, key, strlen(key)) != 0)
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		colon[strcspn(colon, "\n")] = 0;
		snprintf(out_text, room, "%s", colon);
		found = *colon != 0;
	}
	if (file)
		fclose(file);
	return found;
}

/* "tmpfs crashlab": type and source of the mount that holds a path; the last of the longest. */
static void mount_of(const char *path, char *out_text, size_t room)
{
	FILE *file = fopen("/proc/self/mounts", "re");
	char line[4096], *word[3];
	size_t longest = 0;

	out_text[0] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		char *rest = line;
		size_t length;

		for (size_t i = 0; i < 3; i++)
			word[i] = rest ? strsep(&rest, " ") : NULL;
		length = word[2] ? strlen(word[1]) : 0;
		if (length < longest || length == 0 || strncmp(word[1], path, length) != 0 ||
		    (length > 1 && path[length] != '/' && path[length] != 0))
			continue;
		longest = length;
		snprintf(out_text, room, "%s %s", word[2], word[0]);
	}
	if (file)
		fclose(file);
}

static void put_storage(json_t *record, const char *work, const char *out)
{
	char images[256], results[256], text[TEXT_BYTES + 128];
	int length;

	mount_of(work, images, sizeof(images));
	mount_of(out, results, sizeof(results));
	if (!*images || !*results)
		return;
	length = snprintf(text, sizeof(text),
			  "images on %s, recorded by FUSE, loop devices of 512 bytes a sector; "
			  "results on %s",
			  images, results);
	crash_facts_put_text(record, "storage", text, (size_t)length);
}

void crash_facts_put_host(json_t *record, const char *work, const char *out)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
	struct utsname system;
	char cpu[TEXT_BYTES];

	uname(&system);
	json_object_set_new(record, "kernel",
			    json_sprintf("%s %s", system.sysname, system.release));
	json_object_set_new(record, "machine", json_string(system.machine));
	if (line_of("/proc/cpuinfo", "model name", cpu, sizeof(cpu)) ||
	    line_of("/proc/cpuinfo", "CPU implementer", cpu, sizeof(cpu)))
		crash_facts_put_text(record, "cpu", cpu, strlen(cpu));
	json_object_set_new(record, "processors", json_integer(processors));
	json_object_set_new(record, "memory_bytes",
			    json_integer((json_int_t)pages * sysconf(_SC_PAGESIZE)));
	json_object_set_new(record, "compiler", json_string(__VERSION__));
	put_storage(record, work, out);
}

/* ---- the check --------------------------------------------------------------------------------------- */

enum shape {
	TEXT,     /* not empty */
	DIGEST,   /* 64 hexadecimal digits */
	REVISION, /* of revision.sh */
	NATURAL,
	POSITIVE,
	TRUE,
	LIST, /* may be empty */
	FILLED_LIST,
};

static const struct {
	const char *path; /* '/' leads into an object */
	enum shape shape;
} owed[] = {
	{"schema", POSITIVE},
	{"revision", REVISION},
	{"item", TEXT},
	{"leg", TEXT},
	{"subject", TEXT},
	{"inject", TEXT},
	{"seed", NATURAL},
	{"command", FILLED_LIST},
	{"kernel", TEXT},
	{"machine", TEXT},
	{"cpu", TEXT},
	{"processors", POSITIVE},
	{"memory_bytes", POSITIVE},
	{"compiler", TEXT},
	{"storage", TEXT},
	{"tools/crashlab", DIGEST},
	{"tools/crashdisk", DIGEST},
	{"tools/subject", DIGEST},
	{"tools/larder", DIGEST},
	{"tools/larderd", DIGEST},
	{"fs", TEXT},
	{"mkfs", FILLED_LIST},
	{"mkfs_output", TEXT},
	{"fsck_command", FILLED_LIST},
	{"image_bytes", POSITIVE},
	{"mount_options_requested", TEXT},
	{"mount_options_observed", TEXT},
	{"direct_io", TRUE},
	{"seed_sha256", DIGEST},
	{"log_sha256", DIGEST},
	{"records/W", NATURAL},
	{"records/F", NATURAL},
	{"records/D", NATURAL},
	{"marks", LIST},
	{"enumerate/grain", POSITIVE},
	{"enumerate/models", POSITIVE},
	{"enumerate/sample", NATURAL},
	{"enumerate/exempt", LIST},
	{"states/enumerated", POSITIVE},
	{"states/replayed", POSITIVE},
	{"mount_failures", NATURAL},
	{"fsck/runs", NATURAL},
	{"fsck/bad", NATURAL},
	{"failures", LIST},
};

static const json_t *at(const json_t *object, const char *path)
{
	char name[64];

	while (object && *path) {
		size_t length = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)length, path);
		object = json_object_get(object, name);
		path += length + (path[length] == '/');
	}
	return object;
}

static bool is_hex(const char *text, size_t length)
{
	return strspn(text, "0123456789abcdef") == length;
}

static bool is_revision(const char *text)
{
	if (strncmp(text, "tree-", 5) == 0)
		return is_hex(text + 5, LDR_ID_HEX_CHARS) && !text[5 + LDR_ID_HEX_CHARS];
	return is_hex(text, 40) && (!text[40] || strcmp(text + 40, "-dirty") == 0);
}

static bool is_filled(const json_t *list)
{
	const json_t *item;
	size_t index;

	json_array_foreach (list, index, item) {
		if (json_string_length(item) == 0)
			return false;
	}
	return json_array_size(list) > 0;
}

static bool has_shape(const json_t *value, enum shape shape)
{
	const char *text = json_string_value(value);

	switch (shape) {
	case TEXT:
		return text && *text;
	case DIGEST:
		return text && is_hex(text, LDR_ID_HEX_CHARS) && !text[LDR_ID_HEX_CHARS];
	case REVISION:
		return text && is_revision(text);
	case NATURAL:
		return json_is_integer(value) && json_integer_value(value) >= 0;
	case POSITIVE:
		return json_is_integer(value) && json_integer_value(value) > 0;
	case TRUE:
		return json_is_true(value);
	case LIST:
		return json_is_array(value);
	case FILLED_LIST:
		return is_filled(value);
	}
	return false;
}

static json_int_t number_at(const json_t *record, const char *path)
{
	return json_integer_value(at(record, path));
}

/* The digest of the program that a list of words begins with. */
static bool has_tool(const json_t *record, const char *words)
{
	const char *name = json_string_value(json_array_get(at(record, words), 0));

	return name && has_shape(json_object_get(at(record, "tools"), name), DIGEST);
}

/* A recording that was cut short by a failing device may be without marks after it, not without any
 * mark; each model's states add up to what was replayed. */
static const char *disagreement(const json_t *record)
{
	json_int_t states = 0, bad = 0, replayed = number_at(record, "states/replayed");
	const char *observed = json_string_value(at(record, "mount_options_observed"));
	const char *name;
	json_t *model;

	json_object_foreach ((json_t *)(uintptr_t)at(record, "models"), name, model) {
		states += number_at(model, "states");
		bad += number_at(model, "bad");
	}
	if (states != replayed)
		return "models: states do not add up to states/replayed";
	if (replayed > number_at(record, "states/enumerated"))
		return "states: more replayed than enumerated";
	if ((bad == 0) != (json_array_size(at(record, "failures")) == 0))
		return "failures: not what the models say";
	if (!strstr(observed, "noatime"))
		return "mount_options_observed: without noatime";
	if (!has_tool(record, "mkfs"))
		return "tools: no digest of mkfs";
	return has_tool(record, "fsck_command") ? NULL : "tools: no digest of fsck_command";
}

bool crash_facts_check(const json_t *record, char *out_text, size_t room)
{
	const char *wrong;

	for (size_t i = 0; i < sizeof(owed) / sizeof(owed[0]); i++) {
		if (has_shape(at(record, owed[i].path), owed[i].shape))
			continue;
		snprintf(out_text, room, "%s: missing or not of its shape", owed[i].path);
		return false;
	}
	wrong = disagreement(record);
	if (wrong)
		snprintf(out_text, room, "%s", wrong);
	return !wrong;
}
