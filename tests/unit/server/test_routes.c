/*
 * URLs: what names an object and what is refused, and how.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "server/routes.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define KID "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO-_"

static const struct {
	const char *url;
	const char *path;
} good[] = {
	{"/channels/live", "channels/live"},
	{"/channels/beta-2.x_1", "channels/beta-2.x_1"},
	{"/releases/live/1", "releases/live/1"},
	{"/releases/live/999999999999999999", "releases/live/999999999999999999"},
	{"/packs/01/" HEX ".pack", "packs/01/" HEX ".pack"},
	{"/keys/" KID ".pub", "keys/" KID ".pub"},
	{"/FORMAT", "FORMAT"},
	{"/channels/live?x=1", "channels/live"},
	{"/channels/live?/../etc/passwd%00", "channels/live"},
	{"/channels/l%69ve", "channels/live"},
	{"/%63hannels%2Flive", "channels/live"},
	{"http://example.org/channels/live", "channels/live"},
	{"HTTP://example.org:80/channels/live", "channels/live"},
};

Test(routes, names_of_objects)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char path[LDR_STORE_PATH_BYTES];
		struct ldr_object_name name;
		enum ldr_route route = ldr_route_parse(good[i].url, strlen(good[i].url), &name);

		cr_assert_eq(route, LDR_ROUTE_OBJECT, "%s: %d", good[i].url, route);
		ldr_store_path(&name, path);
		cr_expect_str_eq(path, good[i].path);
	}
}

static const struct {
	const char *url;
	enum ldr_route route;
} bad[] = {
	{"", LDR_ROUTE_MALFORMED},
	{"*", LDR_ROUTE_MALFORMED},
	{"channels/live", LDR_ROUTE_MALFORMED},
	{"ftp://host/channels/live", LDR_ROUTE_MALFORMED},
	{"http://host", LDR_ROUTE_MALFORMED},
	{"/channels/live%", LDR_ROUTE_MALFORMED},
	{"/channels/live%4", LDR_ROUTE_MALFORMED},
	{"/channels/live%zz", LDR_ROUTE_MALFORMED},
	{"/channels/live%4%31", LDR_ROUTE_MALFORMED},
	{"/", LDR_ROUTE_UNKNOWN},
	{"//channels/live", LDR_ROUTE_UNKNOWN},
	{"/channels", LDR_ROUTE_UNKNOWN},
	{"/channels/", LDR_ROUTE_UNKNOWN},
	{"/channels/live/", LDR_ROUTE_UNKNOWN},
	{"/channels//live", LDR_ROUTE_UNKNOWN},
	{"/channels/.live", LDR_ROUTE_UNKNOWN},
	{"/channels/LIVE", LDR_ROUTE_UNKNOWN},
	{"/channels/..", LDR_ROUTE_UNKNOWN},
	{"/channels/../channels/live", LDR_ROUTE_UNKNOWN},
	{"/channels/..%2fFORMAT", LDR_ROUTE_UNKNOWN},
	{"/channels/%2e%2e/FORMAT", LDR_ROUTE_UNKNOWN},
	{"/channels/live%00", LDR_ROUTE_UNKNOWN},
	{"/channels/live%00.pub", LDR_ROUTE_UNKNOWN},
	{"/channels/live%2500", LDR_ROUTE_UNKNOWN},
	{"/channels/live%3Fx", LDR_ROUTE_UNKNOWN},
	{"/channels/live\\..", LDR_ROUTE_UNKNOWN},
	{"/../../etc/passwd", LDR_ROUTE_UNKNOWN},
	{"/etc/passwd", LDR_ROUTE_UNKNOWN},
	{"/releases/live", LDR_ROUTE_UNKNOWN},
	{"/releases/live/0", LDR_ROUTE_UNKNOWN},
	{"/releases/live/01", LDR_ROUTE_UNKNOWN},
	{"/releases/live/-1", LDR_ROUTE_UNKNOWN},
	{"/releases/live/1000000000000000000", LDR_ROUTE_UNKNOWN},
	{"/releases/live/1/2", LDR_ROUTE_UNKNOWN},
	{"/releases/../1", LDR_ROUTE_UNKNOWN},
	{"/packs/02/" HEX ".pack", LDR_ROUTE_UNKNOWN},
	{"/packs/01/" HEX, LDR_ROUTE_UNKNOWN},
	{"/packs/01/" HEX ".pack/", LDR_ROUTE_UNKNOWN},
	{"/packs/01/" HEX ".pack.pack", LDR_ROUTE_UNKNOWN},
	{"/packs/.larder-tmp.1.1", LDR_ROUTE_UNKNOWN},
	{"/keys/" KID, LDR_ROUTE_UNKNOWN},
	{"/keys/x" KID ".pub", LDR_ROUTE_UNKNOWN},
	{"/keys/../keys/" KID ".pub", LDR_ROUTE_UNKNOWN},
	{"/FORMAT/", LDR_ROUTE_UNKNOWN},
	{"/format", LDR_ROUTE_UNKNOWN},
};

Test(routes, everything_else_is_refused_and_writes_nothing)
{
	struct ldr_object_name untouched;
	struct ldr_object_name name;

	memset(&untouched, 0x5a, sizeof(untouched));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memcpy(&name, &untouched, sizeof(name));
		cr_expect_eq(ldr_route_parse(bad[i].url, strlen(bad[i].url), &name), bad[i].route,
			     "%s", bad[i].url);
		cr_expect_eq(memcmp(&name, &untouched, sizeof(name)), 0, "%s", bad[i].url);
	}
}

Test(routes, length_has_a_limit_and_a_nul_is_a_byte)
{
	static char url[LDR_URL_MAX_BYTES + 1];
	static const char embedded[] = "/channels/live\0x";
	struct ldr_object_name name;

	memset(url, 'a', sizeof(url));
	memcpy(url, "/channels/live?", 15);
	cr_expect_eq(ldr_route_parse(url, LDR_URL_MAX_BYTES, &name), LDR_ROUTE_OBJECT);
	cr_expect_eq(ldr_route_parse(url, LDR_URL_MAX_BYTES + 1, &name), LDR_ROUTE_TOO_LONG);
	cr_expect_eq(ldr_route_parse(embedded, sizeof(embedded) - 1, &name), LDR_ROUTE_UNKNOWN);
}
