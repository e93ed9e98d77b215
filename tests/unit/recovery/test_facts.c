/* Records of the crash tests: every field is owed, has its shape, and agrees with the others. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/recovery/core/facts.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char good[] =
	"{\"schema\": 1, \"revision\": \"0123456789abcdef0123456789abcdef01234567-dirty\","
	" \"item\": \"publish\", \"leg\": \"ext4\", \"subject\": \"publish replace\","
	" \"inject\": \"none\", \"seed\": 1, \"command\": [\"publish\", \"--replace\"],"
	" \"kernel\": \"Linux 6.18\", \"machine\": \"x86_64\", \"cpu\": \"a processor\","
	" \"processors\": 2, \"memory_bytes\": 1024, \"compiler\": \"12\", \"storage\": \"tmpfs\","
	" \"tools\": {\"crashlab\": \"" HEX "\", \"crashdisk\": \"" HEX "\", \"subject\": \"" HEX
	"\", \"larder\": \"" HEX "\", \"larderd\": \"" HEX "\", \"mkfs.ext4\": \"" HEX
	"\", \"e2fsck\": \"" HEX "\"},"
	" \"fs\": \"ext4\", \"mkfs\": [\"mkfs.ext4\", \"-F\"], \"mkfs_output\": \"made\","
	" \"fsck_command\": [\"e2fsck\", \"-fn\"], \"image_bytes\": 4096,"
	" \"mount_options_requested\": \"noatime,nodiscard\","
	" \"mount_options_observed\": \"rw,noatime\", \"direct_io\": true,"
	" \"seed_sha256\": \"" HEX "\", \"log_sha256\": \"" HEX "\","
	" \"records\": {\"W\": 3, \"F\": 2, \"D\": 0}, \"marks\": [[0, \"begin\"]],"
	" \"enumerate\": {\"grain\": 4096, \"models\": 3, \"sample\": 0, \"exempt\": []},"
	" \"states\": {\"enumerated\": 5, \"replayed\": 5},"
	" \"models\": {\"prefix\": {\"states\": 2, \"bad\": 0}, \"subset\": {\"states\": 3, \"bad\": 0}},"
	" \"mount_failures\": 0, \"fsck\": {\"runs\": 1, \"bad\": 0}, \"failures\": []}";

static json_t *read_good(void)
{
	json_t *record = json_loads(good, 0, NULL);

	cr_assert(record);
	return record;
}

/* The object that holds the last name of a path, and that name. */
static json_t *holder_of(json_t *record, const char *path, const char **out_name)
{
	const char *slash = strchr(path, '/');
	char first[64];

	*out_name = slash ? slash + 1 : path;
	if (!slash)
		return record;
	snprintf(first, sizeof(first), "%.*s", (int)(slash - path), path);
	return json_object_get(record, first);
}

static void expect_refused(json_t *record, const char *path, const char *how)
{
	char wrong[160] = "";
	char first[64];

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(path, "/"), path);
	cr_expect(!crash_facts_check(record, wrong, sizeof(wrong)), "%s %s: taken", path, how);
	cr_expect(strncmp(wrong, first, strlen(first)) == 0, "%s %s: \"%s\"", path, how, wrong);
	json_decref(record);
}

Test(facts, a_whole_record_is_taken)
{
	char wrong[160] = "";
	json_t *record = read_good();

	cr_expect(crash_facts_check(record, wrong, sizeof(wrong)), "%s", wrong);
	json_object_set_new(record, "revision", json_string("tree-" HEX));
	cr_expect(crash_facts_check(record, wrong, sizeof(wrong)), "%s", wrong);
	json_decref(record);
}

/* Of every field of the record: it may not be missing, null, empty or of another kind. */
static void spoil(const char *path)
{
	static const char *const values[] = {"null", "\"\"", "{}", "-1", "false", "[\"\"]"};
	const char *name;
	json_t *record = read_good();

	json_object_del(holder_of(record, path, &name),
			strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	expect_refused(record, path, "missing");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		json_t *value = json_loads(values[i], JSON_DECODE_ANY, NULL);
		json_t *holder;

		/* A list that may be empty may hold anything. */
		if (json_is_array(value) &&
		    (strstr(path, "exempt") || strstr(path, "failures") || strstr(path, "marks"))) {
			json_decref(value);
			continue;
		}
		record = read_good();
		holder = holder_of(record, path, &name);
		json_object_set_new(holder, name, value);
		expect_refused(record, path, values[i]);
	}
}

Test(facts, no_field_may_be_missing_empty_or_of_another_kind)
{
	json_t *record = read_good(), *value, *inner;
	const char *name, *below;
	char path[128];
	size_t count = 0;

	json_object_foreach (record, name, value) {
		if (!json_is_object(value))
			spoil(name);
		else if (strcmp(name, "models") != 0)
			json_object_foreach (value, below, inner) {
				snprintf(path, sizeof(path), "%s/%s", name, below);
				spoil(path);
				count++;
			}
		count += !json_is_object(value);
	}
	cr_expect_geq(count, 45);
	json_decref(record);
}

Test(facts, fields_that_do_not_agree)
{
	static const struct {
		const char *path, *value;
	} rows[] = {
		{"revision", "\"0123456789abcdef\""},
		{"revision", "\"0123456789abcdef0123456789abcdef01234567-clean\""},
		{"revision", "\"tree-0123\""},
		{"seed_sha256",
		 "\"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\""},
		{"log_sha256", "\"" HEX "0\""},
		{"mount_options_observed", "\"rw,relatime\""},
		{"models", "{\"prefix\": {\"states\": 4, \"bad\": 0}}"},
		{"models", "{\"prefix\": {\"states\": 6, \"bad\": 0}}"},
		{"failures", "[{\"state\": \"e0p0\"}]"},
		{"states", "{\"enumerated\": 4, \"replayed\": 5}"},
		{"tools",
		 "{\"crashlab\": \"" HEX "\", \"crashdisk\": \"" HEX "\", \"subject\": \"" HEX
		 "\", \"larder\": \"" HEX "\", \"larderd\": \"" HEX "\", \"e2fsck\": \"" HEX "\"}"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *record = read_good();

		json_object_set_new(record, rows[i].path,
				    json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
		expect_refused(record, rows[i].path, rows[i].value);
	}
}

/* What is found out here: this machine, this file. */
Test(facts, what_is_observed)
{
	json_t *record = json_object(), *tools = json_object();

	crash_facts_put_host(record, "/tmp", "/");
	cr_expect_geq(json_integer_value(json_object_get(record, "processors")), 1);
	cr_expect_geq(json_integer_value(json_object_get(record, "memory_bytes")), 1 << 20);
	cr_expect_gt(json_string_length(json_object_get(record, "kernel")), 6);
	cr_expect_gt(json_string_length(json_object_get(record, "storage")), 40);
	crash_facts_put_text(record, "text", "a\xff\x08z\n", 5);
	cr_expect_str_eq(json_string_value(json_object_get(record, "text")), "a??z\n");
	crash_facts_digest(tools, "none", "/nowhere/at/all");
	cr_expect_eq(json_object_size(tools), 0, "what cannot be read has no digest");
	crash_facts_digest(tools, "self", "/proc/self/exe");
	cr_expect_eq(json_string_length(json_object_get(tools, "self")), 64);
	unsetenv("CRASHLAB_REVISION");
	cr_expect_null(crash_facts_revision());
	setenv("CRASHLAB_REVISION", "", 1);
	cr_expect_null(crash_facts_revision());
	json_decref(record);
	json_decref(tools);
}
