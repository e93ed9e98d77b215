/*
 * What a user types as SRC or STORE, and what is said when it is wrong.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/location.h"

struct row {
	const char *text;
	enum ldr_location_kind kind;
	const char *path; /* a leading '~' stands for the working folder; NULL: none */
	const char *base;
	const char *channel;
	uint64_t sequence;
};

static void check(const struct row *row, const struct ldr_location *made)
{
	char here[4096], path[5000];

	cr_expect_eq(made->kind, row->kind, "%s", row->text);
	cr_expect_str_eq(made->text, row->text);
	cr_expect_str_eq(made->channel, row->channel, "%s", row->text);
	cr_expect_eq(made->sequence, row->sequence, "%s", row->text);
	if (row->base)
		cr_expect_str_eq(made->base, row->base, "%s", row->text);
	if (!row->path)
		return;
	cr_assert(getcwd(here, sizeof(here)));
	snprintf(path, sizeof(path), "%s%s", row->path[0] == '~' ? here : "",
		 row->path + (row->path[0] == '~'));
	cr_expect_str_eq(made->path, path, "%s", row->text);
}

Test(location, sources)
{
	static const struct row rows[] = {
		{"game.pack", LDR_LOCATION_PACK, "game.pack", NULL, "", 0},
		{"/a/b", LDR_LOCATION_PACK, "/a/b", NULL, "", 0},
		{"/srv/store#live", LDR_LOCATION_FOLDER, "/srv/store", "file:///srv/store", "live",
		 0},
		{"/srv/store//#live@7", LDR_LOCATION_FOLDER, "/srv/store", "file:///srv/store",
		 "live", 7},
		{"store#live", LDR_LOCATION_FOLDER, "~/store", NULL, "live", 0},
		{"/a b/#c#live", LDR_LOCATION_FOLDER, "/a b/#c", "file:///a%20b/%23c", "live", 0},
		{"/#live", LDR_LOCATION_FOLDER, "/", NULL, "live", 0},
		{"http://host:80/x/#a.b_c-9@9223372036854775807", LDR_LOCATION_HTTP, NULL,
		 "http://host:80/x", "a.b_c-9", INT64_MAX},
		{"https://host#beta@1", LDR_LOCATION_HTTP, NULL, "https://host", "beta", 1},
	};
	static const struct row stores[] = {
		{"/srv/store/", LDR_LOCATION_FOLDER, "/srv/store", "file:///srv/store", "", 0},
		{"x", LDR_LOCATION_FOLDER, "~/x", NULL, "", 0},
		{"http://host/", LDR_LOCATION_HTTP, NULL, "http://host", "", 0},
	};
	struct ldr_error err = {0};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		LDR_AUTO_LOCATION struct ldr_location made = {0};

		cr_assert_eq(ldr_location_parse_source(rows[i].text, &made, &err), LDR_OK, "%s",
			     err.text);
		check(&rows[i], &made);
	}
	for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		LDR_AUTO_LOCATION struct ldr_location made = {0};

		cr_assert_eq(ldr_location_parse_store(stores[i].text, &made, &err), LDR_OK, "%s",
			     err.text);
		check(&stores[i], &made);
	}
	cr_assert_eq(err.status, LDR_OK);
}

Test(location, refused)
{
	static const struct {
		const char *text;
		enum ldr_status source, store;
		const char *says; /* by source, else by store */
	} rows[] = {
		{"", LDR_EUSAGE, LDR_EUSAGE, "empty"},
		{"#live", LDR_EUSAGE, LDR_EUSAGE, "no store before"},
		{"store#", LDR_EUSAGE, LDR_EUSAGE, "channel \"\""},
		{"store#Live", LDR_EUSAGE, LDR_EUSAGE, "channel \"Live\""},
		{"store#../x", LDR_EUSAGE, LDR_EUSAGE, "channel \"../x\""},
		{"store#.", LDR_EUSAGE, LDR_EUSAGE, "channel \".\""},
		{"store#live@", LDR_EUSAGE, LDR_EUSAGE, "sequence \"\""},
		{"store#live@0", LDR_EUSAGE, LDR_EUSAGE, "sequence \"0\""},
		{"store#live@07", LDR_EUSAGE, LDR_EUSAGE, "sequence \"07\""},
		{"store#live@-1", LDR_EUSAGE, LDR_EUSAGE, "sequence \"-1\""},
		{"store#live@1x", LDR_EUSAGE, LDR_EUSAGE, "sequence \"1x\""},
		{"store#live@9223372036854775808", LDR_EUSAGE, LDR_EUSAGE, "9223372036854775808"},
		{"store#live@99999999999999999999", LDR_EUSAGE, LDR_EUSAGE, "99999999999999999999"},
		{"http://host", LDR_EUSAGE, LDR_OK, "http://host#channel"},
		{"ftp://host#live", LDR_EUSAGE, LDR_EUSAGE, "unknown scheme"},
		{"s3://bucket#live", LDR_EUNSUPPORTED, LDR_EUSAGE, "s3"},
		{"s3://bucket", LDR_EUSAGE, LDR_EUNSUPPORTED, "channel"},
		{"store#aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggggg",
		 LDR_EUSAGE, LDR_EUSAGE, "1 to 64"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		LDR_AUTO_LOCATION struct ldr_location made = {.sequence = 77};
		LDR_AUTO_LOCATION struct ldr_location store = {0};
		struct ldr_error err = {0};

		cr_expect_eq(ldr_location_parse_source(rows[i].text, &made, &err), rows[i].source,
			     "%s", rows[i].text);
		cr_expect(strstr(err.text, rows[i].says), "%s: %s", rows[i].text, err.text);
		cr_expect_eq(made.sequence, 77); /* untouched */
		cr_expect_eq(ldr_location_parse_source(rows[i].text, &made, NULL), rows[i].source);
		cr_expect_eq(ldr_location_parse_store(rows[i].text, &store, NULL), rows[i].store,
			     "%s", rows[i].text);
	}
}
