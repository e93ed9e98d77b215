/*
 * The transport over loopback: requests and answers, uploads, files, redirects, deadlines, threads.
 */
#include "client/transport.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/transport_priv.h"
#include "tests/faults/lying_server.h"

static struct ldr_transport *start(const struct ldr_transport_options *options)
{
	struct ldr_transport *transport;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_transport_new(options, &transport, &err), LDR_OK, "%s", err.text);
	return transport;
}

static enum ldr_status perform(struct ldr_transport *transport, const char *base, const char *path,
			       struct ldr_request request, struct ldr_exchange *out,
			       struct ldr_error *err)
{
	char *url = ldr_url_join(base, path);
	enum ldr_status status;

	request.url = url;
	status = ldr_transport_perform(transport, &request, 1 << 20, out, err);
	free(url);
	return status;
}

/* ---- requests and answers ---- */

Test(transport, answers)
{
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(NULL);
	static const struct {
		const char *path;
		struct ldr_request request;
		int status;
		const char *body;
		uint64_t content_length;
		bool has_range;
		uint64_t first, last, total;
	} rows[] = {
		{"a", {.method = LDR_GET}, 200, "hello world", 11, false, 0, 0, 0},
		{"a", {.method = LDR_HEAD}, 200, "", 11, false, 0, 0, 0},
		{"a",
		 {.has_range = true, .range_first = 4, .range_last = 6},
		 206,
		 "o w",
		 3,
		 true,
		 4,
		 6,
		 11},
		{"a",
		 {.has_range = true, .range_first = 8, .range_last = 99},
		 206,
		 "rld",
		 3,
		 true,
		 8,
		 10,
		 11},
		{"a",
		 {.has_range = true, .range_first = 11, .range_last = 12},
		 416,
		 "",
		 0,
		 false,
		 0,
		 0,
		 0},
		{"b", {.method = LDR_GET}, 404, "there is no such thing", 22, false, 0, 0, 0},
		{"empty", {.method = LDR_GET}, 200, "", 0, false, 0, 0, 0},
	};

	lying_server_add_file(server, "/a", "hello world", 11);
	lying_server_add_file(server, "/empty", "", 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ldr_exchange exchange;
		struct ldr_error err = {0};

		cr_assert_eq(perform(transport, lying_server_url(server), rows[i].path,
				     rows[i].request, &exchange, &err),
			     LDR_OK, "row %zu: %s", i, err.text);
		cr_assert_eq(exchange.response.status, rows[i].status, "row %zu", i);
		cr_assert_str_eq((char *)exchange.body, rows[i].body, "row %zu", i);
		cr_assert_eq(exchange.body_length, strlen(rows[i].body));
		cr_assert_eq(exchange.response.content_length, rows[i].content_length);
		cr_assert_eq(exchange.response.has_range, rows[i].has_range, "row %zu", i);
		if (rows[i].has_range) {
			cr_assert_eq(exchange.response.range_first, rows[i].first);
			cr_assert_eq(exchange.response.range_last, rows[i].last);
			cr_assert_eq(exchange.response.range_total, rows[i].total);
		}
		cr_assert_str_eq(exchange.response.etag, "\"tag-1\"");
		cr_assert_eq(strncmp(exchange.response.url, "http://127.0.0.1:", 17), 0);
		ldr_exchange_dispose(&exchange);
	}
	/* One after the other: one connection does for all. */
	cr_assert_eq(lying_server_connections(server), 1);
	ldr_transport_free(transport);
	lying_server_stop(server);
}

Test(transport, what_is_sent)
{
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(
		&(struct ldr_transport_options){.token = "secret-1"});
	struct ldr_exchange exchange;
	struct seen_request seen;

	cr_assert_eq(perform(transport, lying_server_url(server), "x",
			     (struct ldr_request){.has_range = true,
						  .range_first = 1,
						  .range_last = UINT64_C(1) << 40,
						  .if_match = "\"m\"",
						  .if_none_match = "*"},
			     &exchange, NULL),
		     LDR_OK);
	seen = lying_server_request(server, 0);
	cr_assert_str_eq(seen.method, "GET");
	cr_assert_str_eq(seen.path, "/x");
	cr_assert_str_eq(seen.range, "bytes=1-1099511627776");
	cr_assert_str_eq(seen.authorization, "Bearer secret-1");
	cr_assert_str_eq(seen.accept_encoding, "identity");
	cr_assert_str_eq(seen.if_match, "\"m\"");
	cr_assert_str_eq(seen.if_none_match, "*");
	ldr_exchange_dispose(&exchange);
	ldr_transport_free(transport);
	lying_server_stop(server);
}

Test(transport, refused_at_once)
{
	static const char *const urls[] = {"",           "no-url",         "ftp://127.0.0.1/x",
					   "gopher://h", "http://",        "http://u:p@127.0.0.1/x",
					   "scp://h/x",  "dict://h:11/d:x"};
	struct ldr_transport *transport = start(NULL);
	struct ldr_exchange exchange;
	struct ldr_error err;

	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		struct ldr_request request = {.url = urls[i]};

		cr_assert_eq(ldr_transport_perform(transport, &request, 10, &exchange, &err),
			     LDR_EINVAL, "%s", urls[i]);
		/* A password must not reach a log. */
		cr_assert_null(strstr(err.text, "u:p@"), "%s", err.text);
	}
	struct ldr_request put = {.method = LDR_PUT, .url = "file:///tmp/x", .body = "x"};
	struct ldr_request backwards = {
		.url = "http://127.0.0.1/", .has_range = true, .range_first = 2, .range_last = 1};

	cr_assert_eq(ldr_transport_perform(transport, &put, 10, &exchange, &err), LDR_EINVAL);
	cr_assert_eq(ldr_transport_perform(transport, &backwards, 10, &exchange, &err), LDR_EINVAL);
	ldr_transport_free(transport);
	cr_assert_eq(ldr_transport_new(&(struct ldr_transport_options){.token = "a\r\nX: y"},
				       &transport, &err),
		     LDR_EINVAL);
	cr_assert_null(strchr(err.text, '\n'));
}

Test(transport, answers_that_are_too_long)
{
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(NULL);
	char *url = ldr_url_join(lying_server_url(server), "a");
	struct ldr_request request = {.url = url};
	struct ldr_exchange exchange;
	struct ldr_error err = {0};

	lying_server_add_file(server, "/a", "hello world", 11);
	cr_assert_eq(ldr_transport_perform(transport, &request, 11, &exchange, NULL), LDR_OK);
	ldr_exchange_dispose(&exchange);
	cr_assert_eq(ldr_transport_perform(transport, &request, 10, &exchange, &err), LDR_ELIMIT);
	cr_assert_not_null(strstr(err.text, "limit of 10 bytes"), "%s", err.text);
	/* Without a length, the body itself is counted: half of 11 bytes is 5. */
	lying_server_lie(server, &(struct lie_plan){.lie = LIE_SHORT_CHUNKED});
	cr_assert_eq(ldr_transport_perform(transport, &request, 5, &exchange, NULL), LDR_OK);
	cr_assert_eq(exchange.body_length, 5);
	ldr_exchange_dispose(&exchange);
	cr_assert_eq(ldr_transport_perform(transport, &request, 4, &exchange, &err), LDR_ELIMIT);
	free(url);
	ldr_transport_free(transport);
	lying_server_stop(server);
}

Test(transport, meaning_of_a_status)
{
	static const struct {
		int status;
		enum ldr_status meaning;
	} rows[] = {{200, LDR_OK},        {201, LDR_OK},        {206, LDR_OK},
		    {304, LDR_OK},        {302, LDR_ENET},      {400, LDR_ENET},
		    {401, LDR_EDENIED},   {403, LDR_EDENIED},   {404, LDR_ENOTFOUND},
		    {409, LDR_ECONFLICT}, {410, LDR_ENOTFOUND}, {412, LDR_ECONFLICT},
		    {413, LDR_ENOSPACE},  {422, LDR_ECORRUPT},  {429, LDR_ENET},
		    {500, LDR_ENET},      {503, LDR_ENET},      {507, LDR_ENOSPACE}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ldr_response response = {.status = rows[i].status, .url = "http://h/x"};
		struct ldr_error err = {0};
		char status[32];

		cr_assert_eq(ldr_response_status(&response, "no\n\x1b[31m way\n", 13, &err),
			     rows[i].meaning, "%d", rows[i].status);
		if (rows[i].meaning == LDR_OK)
			continue;
		snprintf(status, sizeof(status), "http://h/x: status %d: no", rows[i].status);
		cr_assert_eq(strncmp(err.text, status, strlen(status)), 0, "%s", err.text);
		cr_assert_null(strpbrk(err.text, "\n\x1b"), "%s", err.text);
	}
}

/* ---- uploads ---- */

Test(transport, uploads)
{
	enum { LENGTH = 3 << 20, OFFSET = 12345 };
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(NULL);
	uint8_t *bytes = malloc(LENGTH + OFFSET);
	char name[] = "/tmp/ldr-put-XXXXXX";
	int fd = mkostemp(name, O_CLOEXEC);
	struct ldr_exchange exchange;
	struct ldr_error err = {0};
	const void *got;
	size_t length;

	for (size_t i = 0; i < LENGTH + OFFSET; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 16);
	cr_assert_eq(write(fd, bytes, LENGTH + OFFSET), LENGTH + OFFSET);
	unlink(name);
	struct {
		const char *path;
		struct ldr_request request;
		size_t length;
		const void *expected;
	} rows[] = {
		{"memory", {.method = LDR_PUT, .body = "abc", .body_length = 3}, 3, "abc"},
		{"nothing", {.method = LDR_PUT, .body = ""}, 0, ""},
		{"large", {.method = LDR_PUT, .body = bytes, .body_length = LENGTH}, LENGTH, bytes},
		{"file",
		 {.method = LDR_PUT, .body_fd = fd, .body_offset = OFFSET, .body_length = LENGTH},
		 LENGTH,
		 bytes + OFFSET},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char path[32];

		snprintf(path, sizeof(path), "/%s", rows[i].path);
		cr_assert_eq(perform(transport, lying_server_url(server), path, rows[i].request,
				     &exchange, &err),
			     LDR_OK, "%s: %s", path, err.text);
		cr_assert_eq(exchange.response.status, 201);
		got = lying_server_upload(server, path, &length);
		cr_assert_not_null(got);
		cr_assert_eq(length, rows[i].length);
		cr_assert_eq(memcmp(got, rows[i].expected, length), 0, "%s", path);
		ldr_exchange_dispose(&exchange);
	}
	/* A descriptor that ends early */
	rows[3].request.body_offset++;
	cr_assert_eq(perform(transport, lying_server_url(server), "file", rows[3].request,
			     &exchange, &err),
		     LDR_ECHANGED);
	cr_assert_not_null(strstr(err.text, "ends at 3145727 of 3145728"), "%s", err.text);
	close(fd);
	free(bytes);
	ldr_transport_free(transport);
	lying_server_stop(server);
}

/* A refusal comes before the body has been sent, and is understood. */
Test(transport, upload_refused_early)
{
	enum { LENGTH = 64 << 20 };
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(NULL);
	void *bytes = calloc(1, LENGTH);

	for (int status = 401; status <= 413; status += 12) {
		struct ldr_transport_stat before, after;
		struct ldr_exchange exchange;
		struct ldr_error err = {0};

		lying_server_lie(server, &(struct lie_plan){
						 .lie = LIE_STATUS, .status = status, .times = 1});
		ldr_transport_stat(transport, &before);
		cr_assert_eq(perform(transport, lying_server_url(server), "big",
				     (struct ldr_request){.method = LDR_PUT,
							  .body = bytes,
							  .body_length = LENGTH},
				     &exchange, &err),
			     LDR_OK, "%s", err.text);
		cr_assert_eq(exchange.response.status, status);
		cr_assert_str_eq((char *)exchange.body, "the server\nsays no");
		ldr_transport_stat(transport, &after);
		cr_assert_lt(after.sent_bytes - before.sent_bytes, LENGTH / 2);
		ldr_exchange_dispose(&exchange);
	}
	free(bytes);
	ldr_transport_free(transport);
	lying_server_stop(server);
}

/* A mirror of the store serves the same bytes without being told the store's token. */
Test(transport, the_token_is_for_one_host)
{
	struct lying_server *store = lying_server_start();
	struct lying_server *mirror = lying_server_start();
	struct ldr_transport *transport = start(&(struct ldr_transport_options){
		.token = "secret-1", .token_url = lying_server_url(store)});
	struct lying_server *const servers[] = {store, mirror};
	const char *const wanted[] = {"Bearer secret-1", ""};

	for (int i = 0; i < 2; i++) {
		struct ldr_exchange exchange;
		struct ldr_error err = {0};

		lying_server_add_file(servers[i], "/there", "here", 4);
		cr_assert_eq(perform(transport, lying_server_url(servers[i]), "there",
				     (struct ldr_request){0}, &exchange, &err),
			     LDR_OK, "%s", err.text);
		cr_assert_str_eq(lying_server_request(servers[i], 0).authorization, wanted[i]);
		ldr_exchange_dispose(&exchange);
	}
	ldr_transport_free(transport);
	lying_server_stop(store);
	lying_server_stop(mirror);
}

/* ---- redirects ---- */

Test(transport, redirects)
{
	struct lying_server *from = lying_server_start();
	struct lying_server *to = lying_server_start();
	struct ldr_transport *transport = start(
		&(struct ldr_transport_options){.token = "secret-1"});
	struct ldr_exchange exchange;
	struct ldr_error err = {0};
	char elsewhere[128];
	size_t count;

	snprintf(elsewhere, sizeof(elsewhere), "%s/there", lying_server_url(to));
	lying_server_add_file(to, "/there", "hello world", 11);
	lying_server_add_file(from, "/there", "here", 4);
	lying_server_lie(
		from,
		&(struct lie_plan){.lie = LIE_REDIRECT, .path = "/away", .location = elsewhere});
	lying_server_lie(from, &(struct lie_plan){
				       .lie = LIE_REDIRECT, .path = "/near", .location = "there"});
	lying_server_lie(from, &(struct lie_plan){.lie = LIE_REDIRECT,
						  .path = "/file",
						  .location = "file:///etc/passwd"});
	lying_server_lie(from, &(struct lie_plan){.lie = LIE_REDIRECT, .path = "/loop"});

	/* To another host: range and all, but not the token. */
	cr_assert_eq(perform(transport, lying_server_url(from), "away",
			     (struct ldr_request){.has_range = true, .range_last = 4}, &exchange,
			     &err),
		     LDR_OK, "%s", err.text);
	cr_assert_eq(exchange.response.status, 206);
	cr_assert_str_eq((char *)exchange.body, "hello");
	cr_assert_str_eq(exchange.response.url, elsewhere);
	cr_assert_str_eq(lying_server_request(from, 0).authorization, "Bearer secret-1");
	cr_assert_str_eq(lying_server_request(to, 0).authorization, "");
	cr_assert_str_eq(lying_server_request(to, 0).accept_encoding, "identity");
	ldr_exchange_dispose(&exchange);

	/* To the same host, by a relative URL: with the token. */
	cr_assert_eq(perform(transport, lying_server_url(from), "near", (struct ldr_request){0},
			     &exchange, &err),
		     LDR_OK, "%s", err.text);
	cr_assert_str_eq((char *)exchange.body, "here");
	cr_assert_str_eq(lying_server_request(from, 2).path, "/there");
	cr_assert_str_eq(lying_server_request(from, 2).authorization, "Bearer secret-1");
	ldr_exchange_dispose(&exchange);

	cr_assert_eq(perform(transport, lying_server_url(from), "file", (struct ldr_request){0},
			     &exchange, &err),
		     LDR_ENET);
	cr_assert_not_null(strstr(err.text, "file:///etc/passwd is not to http or https"), "%s",
			   err.text);
	count = lying_server_request_count(from);
	cr_assert_eq(perform(transport, lying_server_url(from), "loop", (struct ldr_request){0},
			     &exchange, &err),
		     LDR_ENET);
	cr_assert_not_null(strstr(err.text, "status 302"), "%s", err.text);
	cr_assert_not_null(strstr(err.text, "limit 5"), "%s", err.text);
	cr_assert_eq(lying_server_request_count(from) - count, 6);

	/* An upload is not sent on. */
	cr_assert_eq(perform(transport, lying_server_url(from), "away",
			     (struct ldr_request){.method = LDR_PUT, .body = "x", .body_length = 1},
			     &exchange, &err),
		     LDR_OK);
	cr_assert_eq(exchange.response.status, 302);
	cr_assert_eq(lying_server_request_count(to), 1);
	ldr_exchange_dispose(&exchange);
	ldr_transport_free(transport);
	lying_server_stop(from);
	lying_server_stop(to);
}

/* ---- files ---- */

/* The user nobody, where the tests run as root, to whom nothing is forbidden. */
static void become_nobody(void)
{
	if (geteuid() == 0)
		cr_assert_eq(setegid(65534) | seteuid(65534), 0);
}

Test(transport, files)
{
	char folder[] = "/tmp/ldr files+%41-XXXXXX";
	struct ldr_transport *transport;
	char path[128], command[128];
	char *base;
	int fd;
	static const struct {
		const char *path;
		struct ldr_request request;
		enum ldr_status result;
		int status;
		const char *body;
		const char *text;
	} rows[] = {
		{"a", {0}, LDR_OK, 200, "hello world", NULL},
		{"a", {.method = LDR_HEAD}, LDR_OK, 200, "", NULL},
		{"a",
		 {.has_range = true, .range_first = 4, .range_last = 6},
		 LDR_OK,
		 206,
		 "o w",
		 NULL},
		{"a",
		 {.has_range = true, .range_first = 8, .range_last = 99},
		 LDR_OK,
		 206,
		 "rld",
		 NULL},
		{"a",
		 {.has_range = true, .range_first = 11, .range_last = 12},
		 LDR_OK,
		 416,
		 "",
		 NULL},
		{"missing", {0}, LDR_OK, 404, "", NULL},
		{"a/b", {0}, LDR_OK, 404, "", NULL},
		{"folder", {0}, LDR_ENOTREG, 0, NULL, "/folder: not a regular file"},
		{"closed", {0}, LDR_EDENIED, 0, NULL, "/closed"},
	};

	cr_assert_not_null(mkdtemp(folder));
	chmod(folder, 0755);
	snprintf(path, sizeof(path), "%s/a", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	cr_assert_eq(write(fd, "hello world", 11), 11);
	close(fd);
	snprintf(path, sizeof(path), "%s/closed", folder);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0));
	snprintf(path, sizeof(path), "%s/folder", folder);
	mkdir(path, 0755);
	base = ldr_url_of_folder(folder);
	become_nobody();
	transport = start(NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ldr_exchange exchange;
		struct ldr_error err = {0};

		cr_assert_eq(
			perform(transport, base, rows[i].path, rows[i].request, &exchange, &err),
			rows[i].result, "row %zu: %s", i, err.text);
		if (rows[i].result) {
			cr_assert_not_null(strstr(err.text, folder), "%s", err.text);
			cr_assert_not_null(strstr(err.text, rows[i].text), "%s", err.text);
			continue;
		}
		cr_assert_eq(exchange.response.status, rows[i].status, "row %zu", i);
		cr_assert_str_eq((char *)exchange.body, rows[i].body);
		cr_assert_eq(exchange.response.has_range, rows[i].status == 206);
		ldr_exchange_dispose(&exchange);
	}
	ldr_transport_free(transport);
	free(base);
	if (getuid() == 0)
		cr_assert_eq(seteuid(0), 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0); /* style: a folder of our own */
}

Test(transport, urls)
{
	static const struct {
		const char *base, *path, *joined;
	} rows[] = {{"http://h:1", "a/b", "http://h:1/a/b"},
		    {"http://h:1/", "a/b", "http://h:1/a/b"},
		    {"http://h:1/p//", "/a/b", "http://h:1/p/a/b"},
		    {"file:///x", "a", "file:///x/a"}};
	char *url;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		url = ldr_url_join(rows[i].base, rows[i].path);
		cr_assert_str_eq(url, rows[i].joined);
		free(url);
	}
	url = ldr_url_of_folder("/a b/%41/\xc3\xa9?#~");
	cr_assert_str_eq(url, "file:///a%20b/%2541/%C3%A9%3F%23~");
	free(url);
}

/* ---- callbacks, from here on without perform ---- */

struct watch {
	struct ldr_mutex lock;
	struct ldr_condition changed;
	bool is_done;
	unsigned dones;
	unsigned heads;
	size_t bytes;
	unsigned parts;
	bool refuse_head;
	unsigned hold_parts; /* so many parts are held before one is taken */
	unsigned held;
	enum ldr_flow flow;
	enum ldr_status status;
	struct ldr_error error;
};

static bool watch_head(void *context, const struct ldr_response *response)
{
	struct watch *watch = context;

	cr_assert_neq(response->status, 0);
	watch->heads++;
	return !watch->refuse_head;
}

static enum ldr_flow watch_body(void *context, const void *bytes, size_t length)
{
	struct watch *watch = context;

	cr_assert_not_null(bytes);
	if (watch->held < watch->hold_parts) {
		ldr_mutex_lock(&watch->lock);
		watch->held++;
		ldr_condition_signal(&watch->changed);
		ldr_mutex_unlock(&watch->lock);
		return LDR_FLOW_HOLD;
	}
	watch->parts++;
	watch->bytes += length;
	return watch->flow;
}

static void watch_done(void *context, enum ldr_status status, const struct ldr_response *response,
		       const struct ldr_error *error)
{
	struct watch *watch = context;

	(void)response;
	ldr_mutex_lock(&watch->lock);
	watch->dones++;
	watch->status = status;
	watch->error = *error;
	watch->is_done = true;
	ldr_condition_signal(&watch->changed);
	ldr_mutex_unlock(&watch->lock);
}

static void watch_init(struct watch *watch)
{
	*watch = (struct watch){.flow = LDR_FLOW_GO};
	ldr_mutex_init(&watch->lock, LDR_RANK_LEAF);
	ldr_condition_init(&watch->changed);
}

static uint64_t submit(struct ldr_transport *transport, struct watch *watch, const char *url)
{
	struct ldr_request request = {.url = url,
				      .context = watch,
				      .head = watch_head,
				      .body_part = watch_body,
				      .done = watch_done};
	uint64_t id;

	cr_assert_eq(ldr_transport_submit(transport, &request, &id, NULL), LDR_OK);
	return id;
}

static void wait_done(struct watch *watch)
{
	ldr_mutex_lock(&watch->lock);
	while (!watch->is_done)
		ldr_condition_wait(&watch->changed, &watch->lock);
	ldr_mutex_unlock(&watch->lock);
}

static void watch_dispose(struct watch *watch)
{
	cr_assert_eq(watch->dones, 1);
	ldr_condition_dispose(&watch->changed);
	ldr_mutex_dispose(&watch->lock);
}

/* Over HTTP and from a file: a held body comes again, from its first byte, after a resume. */
Test(transport, hold_and_resume)
{
	enum { LENGTH = 1 << 20 };
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(NULL);
	char name[] = "/tmp/ldr-hold-XXXXXX";
	int fd = mkostemp(name, O_CLOEXEC);
	void *bytes = calloc(1, LENGTH);
	char *urls[2];

	cr_assert_eq(write(fd, bytes, LENGTH), LENGTH);
	close(fd);
	lying_server_add_file(server, "/a", bytes, LENGTH);
	urls[0] = ldr_url_join(lying_server_url(server), "a");
	urls[1] = ldr_url_of_folder(name);
	for (int i = 0; i < 2; i++) {
		struct watch watch;
		unsigned resumed = 0;
		uint64_t id;

		watch_init(&watch);
		watch.hold_parts = 5;
		id = submit(transport, &watch, urls[i]);
		ldr_mutex_lock(&watch.lock);
		while (!watch.is_done) {
			while (watch.held == resumed && !watch.is_done)
				ldr_condition_wait(&watch.changed, &watch.lock);
			ldr_mutex_unlock(&watch.lock);
			if (watch.held > resumed) {
				resumed++;
				ldr_transport_resume(transport, id);
			}
			ldr_mutex_lock(&watch.lock);
		}
		ldr_mutex_unlock(&watch.lock);
		cr_assert_eq(watch.status, LDR_OK, "%s", watch.error.text);
		cr_assert_eq(watch.bytes, LENGTH, "%s: %zu", urls[i], watch.bytes);
		cr_assert_eq(watch.held, 5);
		watch_dispose(&watch);
		free(urls[i]);
	}
	unlink(name);
	ldr_transport_free(transport);
	lying_server_stop(server);
	free(bytes);
}

Test(transport, ended_by_the_caller)
{
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(NULL);
	char name[] = "/tmp/ldr-stop-XXXXXX";
	int fd = mkostemp(name, O_CLOEXEC);
	char *urls[2];

	cr_assert_eq(write(fd, "hello world", 11), 11);
	close(fd);
	lying_server_add_file(server, "/a", "hello world", 11);
	urls[0] = ldr_url_join(lying_server_url(server), "a");
	urls[1] = ldr_url_of_folder(name);
	for (int i = 0; i < 4; i++) {
		struct watch watch;

		watch_init(&watch);
		watch.refuse_head = i % 2;
		watch.flow = LDR_FLOW_STOP;
		submit(transport, &watch, urls[i / 2]);
		wait_done(&watch);
		cr_assert_eq(watch.status, LDR_ECANCELLED);
		cr_assert_eq(watch.heads, 1);
		cr_assert_eq(watch.parts, i % 2 ? 0 : 1);
		watch_dispose(&watch);
	}
	unlink(name);
	free(urls[0]);
	free(urls[1]);
	ldr_transport_free(transport);
	lying_server_stop(server);
}

/* Running and waiting requests alike end at a cancel, or when the transport goes. */
Test(transport, cancel_and_free)
{
	enum { COUNT = 12 };
	struct lying_server *server = lying_server_start();
	char *url = ldr_url_join(lying_server_url(server), "a");

	lying_server_lie(server, &(struct lie_plan){.lie = LIE_STALL_HEAD});
	for (int by_free = 0; by_free < 2; by_free++) {
		struct ldr_transport *transport = start(
			&(struct ldr_transport_options){.connections_per_host = 4});
		struct watch watches[COUNT];
		uint64_t ids[COUNT];

		for (int i = 0; i < COUNT; i++) {
			watch_init(&watches[i]);
			ids[i] = submit(transport, &watches[i], url);
		}
		if (!by_free) {
			for (int i = COUNT; i-- > 0;) {
				ldr_transport_cancel(transport, ids[i]);
				wait_done(&watches[i]);
			}
			ldr_transport_cancel(transport, ids[0]);
			ldr_transport_cancel(transport, 12345);
		}
		ldr_transport_free(transport);
		for (int i = 0; i < COUNT; i++) {
			cr_assert_eq(watches[i].status, LDR_ECANCELLED);
			cr_assert_eq(watches[i].heads, 0);
			watch_dispose(&watches[i]);
		}
	}
	free(url);
	lying_server_stop(server);
}

/* ---- deadlines ---- */

/* A listener whose queue is full: the kernel does not answer a further connection. */
static int full_listener(int fillers[8], char url[64])
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(listener, (struct sockaddr *)&address, length), 0);
	cr_assert_eq(listen(listener, 0), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	for (int i = 0; i < 8; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(fillers[i], (struct sockaddr *)&address, length);
	}
	snprintf(url, 64, "http://127.0.0.1:%u", ntohs(address.sin_port));
	return listener;
}

/* T25: every wait ends by itself, and says what it waited for and for how long. */
Test(transport, t25_deadlines)
{
	struct ldr_transport *transport = start(&(struct ldr_transport_options){
		.connect_timeout_ms = 150, .stall_timeout_ms = 200});
	struct lying_server *server = lying_server_start();
	struct ldr_exchange exchange;
	char url[64];
	struct ldr_error err = {0};
	int fillers[8], listener;

	lying_server_add_file(server, "/head", "hello world", 11);
	lying_server_add_file(server, "/body", "hello world", 11);
	lying_server_lie(server, &(struct lie_plan){.lie = LIE_STALL_HEAD, .path = "/head"});
	lying_server_lie(server, &(struct lie_plan){.lie = LIE_STALL_BODY, .path = "/body"});
	cr_assert_eq(perform(transport, lying_server_url(server), "head", (struct ldr_request){0},
			     &exchange, &err),
		     LDR_ETIMEDOUT);
	cr_assert_not_null(strstr(err.text, "answer stalled for 200 ms"), "%s", err.text);
	cr_assert_eq(perform(transport, lying_server_url(server), "body", (struct ldr_request){0},
			     &exchange, &err),
		     LDR_ETIMEDOUT);
	cr_assert_not_null(strstr(err.text, "body stalled for 200 ms"), "%s", err.text);
	listener = full_listener(fillers, url);
	cr_assert_eq(perform(transport, url, "x", (struct ldr_request){0}, &exchange, &err),
		     LDR_ETIMEDOUT, "%s", err.text);
	cr_assert_not_null(strstr(err.text, url + 7), "%s", err.text);
	for (int i = 0; i < 8; i++)
		close(fillers[i]);
	close(listener);
	ldr_transport_free(transport);
	lying_server_stop(server);
}

/* ---- rate ---- */

/* The mean holds within a hundredth for any size of pieces, on a held clock. */
Test(transport, t34_bucket_holds_the_mean)
{
	static const struct {
		uint64_t rate;
		size_t piece;
		uint64_t step_ns;
	} rows[] = {{5000000, 16384, 1000000}, {5000000, 1, 1000}, {100000, 16384, 3333333},
		    {1000, 100, 777777},       {3, 1, 100000000},  {1000000000, 16384, 15000},
		    {5000000, 65536, 7000000}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct bucket bucket = {.rate = rows[i].rate, .filled_ns = 1000};
		uint64_t seconds = rows[i].step_ns < 100000 ? 1 : 100;
		uint64_t now_ns = 1000, end_ns = now_ns + seconds * 1000000000;
		double taken = 0, expected = (double)rows[i].rate * (double)seconds;

		for (; now_ns < end_ns; now_ns += rows[i].step_ns) {
			ldr_bucket_fill(&bucket, now_ns);
			while (ldr_bucket_take(&bucket, rows[i].piece))
				taken += (double)rows[i].piece;
			cr_assert_gt(ldr_bucket_wait_ns(&bucket), 0);
		}
		cr_assert_leq(taken, expected * 1.01 + 65536, "row %zu: %f", i, taken / expected);
		cr_assert_geq(taken, expected * 0.99 - 65536, "row %zu: %f", i, taken / expected);
	}
}

/* However fast the server is, so many bytes take so long at least. */
Test(transport, limited_rate)
{
	enum { LENGTH = 600000, RATE = 1000000 };
	struct lying_server *server = lying_server_start();
	struct ldr_transport *transport = start(
		&(struct ldr_transport_options){.limit_rate_bytes = RATE});
	char *url = ldr_url_join(lying_server_url(server), "a");
	void *bytes = calloc(1, LENGTH);
	struct watch watches[3];
	uint64_t began_ns;

	lying_server_add_file(server, "/a", bytes, LENGTH / 3);
	began_ns = ldr_transport_now_ns();
	for (int i = 0; i < 3; i++) {
		watch_init(&watches[i]);
		submit(transport, &watches[i], url);
	}
	for (int i = 0; i < 3; i++) {
		wait_done(&watches[i]);
		cr_assert_eq(watches[i].status, LDR_OK);
		cr_assert_eq(watches[i].bytes, LENGTH / 3);
		watch_dispose(&watches[i]);
	}
	/* Less the depth of the bucket and the debt of the last piece */
	cr_assert_geq(ldr_transport_now_ns() - began_ns,
		      (uint64_t)(LENGTH - RATE / 20 - 16384) * 1000);
	free(url);
	ldr_transport_free(transport);
	lying_server_stop(server);
	free(bytes);
}

/* ---- threads ---- */

struct crowd {
	struct ldr_transport *transport;
	const char *base;
	atomic_uint good;
};

static void *crowd_run(void *argument)
{
	struct crowd *crowd = argument;

	for (int i = 0; i < 20; i++) {
		struct ldr_exchange exchange;

		if (perform(crowd->transport, crowd->base, "a", (struct ldr_request){0}, &exchange,
			    NULL) != LDR_OK)
			continue;
		if (exchange.body_length == 11 && memcmp(exchange.body, "hello world", 12) == 0)
			atomic_fetch_add(&crowd->good, 1);
		ldr_exchange_dispose(&exchange);
	}
	return NULL;
}

/* T35: as many connections as configured and no more, however many threads ask. */
Test(transport, t35_many_threads)
{
	struct lying_server *server = lying_server_start();
	struct crowd crowd = {.base = lying_server_url(server)};
	struct ldr_transport_stat stat;
	pthread_t threads[16];

	lying_server_add_file(server, "/a", "hello world", 11);
	/* Nothing is answered before three have asked at once. */
	lying_server_gather(server, 3);
	crowd.transport = start(&(struct ldr_transport_options){.connections_per_host = 3});
	for (int i = 0; i < 16; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, crowd_run, &crowd), 0);
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(atomic_load(&crowd.good), 320);
	cr_assert_eq(lying_server_connections(server), 3);
	ldr_transport_stat(crowd.transport, &stat);
	cr_assert_eq(stat.requests, 320);
	cr_assert_eq(stat.received_bytes, 320 * 11);
	cr_assert_eq(stat.connections, 3);
	ldr_transport_free(crowd.transport);
	lying_server_stop(server);
}
