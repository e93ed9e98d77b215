/*
 * A server for the tests of publishing; see publishing.h.
 */
#include "tests/unit/server/publishing.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"

#define BODY_MAX_BYTES (16u * 1024 * 1024)

static void start_server(struct publishing *p, struct ldr_public_key *const *keys, size_t key_count)
{
	struct ldr_objects_options objects = {.root = p->store.root};
	struct ldr_desk_options desk;
	struct ldr_server_options http = {.host = "127.0.0.1", .port = "0", .log = &p->log};
	struct ldr_error err = {0};

	p->log = (struct ldr_log){.clock = ldr_clock_system(), .fd = STDERR_FILENO, .quiet = true};
	cr_assert_eq(ldr_objects_new(&objects, &p->objects, &err), LDR_OK, "%s", err.text);
	desk = (struct ldr_desk_options){
		.admission = {p->store.root, p->store.id, keys, key_count},
		.objects = p->objects,
	};
	cr_assert_eq(ldr_access_new(p->tokens_path, &p->access, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_desk_new(&desk, &p->desk, &err), LDR_OK);
	cr_assert_eq(ldr_workers_new(2, &p->workers, &err), LDR_OK);
	http.objects = p->objects;
	http.store_path = p->store_path;
	http.access = p->access;
	http.desk = p->desk;
	http.workers = p->workers;
	cr_assert_eq(ldr_server_start(&http, &p->http, &err), LDR_OK, "%s", err.text);
}

struct ldr_transport *publishing_transport(const char *token)
{
	struct ldr_transport_options options = {.token = token};
	struct ldr_transport *transport = NULL;

	cr_assert_eq(ldr_transport_new(&options, &transport, NULL), LDR_OK);
	return transport;
}

void publishing_begin(struct publishing *p, struct ldr_public_key *const *keys, size_t key_count)
{
	struct ldr_token_grant grant = {LDR_TOKEN_PUBLISH, NULL, NULL};
	char token[LDR_TOKEN_CHARS + 1];
	struct ldr_error err = {0};

	*p = (struct publishing){0};
	release_world_make(&p->world);
	snprintf(p->store_path, sizeof(p->store_path), "%s/store", p->world.folder);
	snprintf(p->tokens_path, sizeof(p->tokens_path), "%s/tokens", p->world.folder);
	cr_assert_eq(ldr_tokens_add(p->tokens_path, &grant, ldr_clock_system(), token, p->token_id,
				    &err),
		     LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_store_folder_open(p->store_path, &p->store, &err), LDR_OK, "%s", err.text);
	memcpy(p->world.store, p->store.id, LDR_STORE_ID_BYTES);
	start_server(p, keys, key_count);
	p->transport = publishing_transport(token);
}

void publishing_end(struct publishing *p)
{
	ldr_transport_free(p->transport);
	cr_expect_eq(ldr_server_drain(p->http, 10000), 0);
	ldr_server_free(p->http);
	ldr_workers_free(p->workers);
	ldr_desk_free(p->desk);
	ldr_access_free(p->access);
	ldr_objects_free(p->objects);
	cr_expect_eq(publishing_temporaries(p), 0);
	ldr_store_folder_close(&p->store);
	release_world_remove(&p->world);
}

static int perform(struct publishing *p, struct ldr_request *request, const char *path)
{
	LDR_AUTO_FREE char *url = ldr_url_join(ldr_server_url(p->http), path);
	struct ldr_exchange exchange = {0};
	struct ldr_error err = {0};

	request->url = url;
	p->text[0] = '\0';
	p->etag[0] = '\0';
	p->status = 0;
	if (ldr_transport_perform(p->transport, request, BODY_MAX_BYTES, &exchange, &err)) {
		snprintf(p->text, sizeof(p->text), "%s", err.text);
		return 0;
	}
	p->status = exchange.response.status;
	snprintf(p->text, sizeof(p->text), "%.*s", (int)sizeof(p->text) - 1,
		 exchange.body ? (const char *)exchange.body : "");
	snprintf(p->etag, sizeof(p->etag), "%s", exchange.response.etag);
	ldr_exchange_dispose(&exchange);
	return p->status;
}

int publishing_put(struct publishing *p, const char *path, const void *body, size_t length,
		   const char *if_match, const char *if_none_match)
{
	struct ldr_request request = {
		.method = LDR_PUT,
		.if_match = if_match,
		.if_none_match = if_none_match,
		.body = body,
		.body_length = length,
	};

	return perform(p, &request, path);
}

int publishing_get(struct publishing *p, const char *path)
{
	struct ldr_request request = {.method = LDR_GET};

	return perform(p, &request, path);
}

int publishing_put_packs(struct publishing *p, const struct world_release *release)
{
	int status = 0;

	for (uint32_t i = 0; i < release->release.pack_count; i++) {
		size_t length = 0;
		LDR_AUTO_FREE uint8_t *bytes = release_world_pack(&p->world, release, i, &length);
		char path[LDR_STORE_PATH_BYTES];

		ldr_store_pack_path(&release->release.packs[i].id, path);
		status = publishing_put(p, path, bytes, length, NULL, NULL);
		cr_assert(status == 200 || status == 201, "%s: %d %s", path, status, p->text);
	}
	return status;
}

int publishing_put_key(struct publishing *p)
{
	char path[LDR_STORE_PATH_BYTES];

	ldr_store_key_path(ldr_public_key_kid(p->world.public_key), path);
	return publishing_put(p, path, p->world.pem, strlen(p->world.pem), NULL, NULL);
}

int publishing_put_record(struct publishing *p, const struct world_release *release)
{
	char path[LDR_STORE_PATH_BYTES];

	ldr_store_release_path(release->release.channel, release->release.sequence, path);
	return publishing_put(p, path, release->jws, release->length, NULL, "*");
}

void publishing_put_all(struct publishing *p, const struct world_release *release)
{
	int status = publishing_put_key(p);

	cr_assert(status == 200 || status == 201, "key: %d %s", status, p->text);
	publishing_put_packs(p, release);
	status = publishing_put_record(p, release);
	cr_assert(status == 200 || status == 201, "record: %d %s", status, p->text);
}

int publishing_put_channel(struct publishing *p, const struct world_release *release,
			   const char *if_match)
{
	char path[LDR_STORE_PATH_BYTES];

	ldr_store_channel_path(release->release.channel, path);
	return publishing_put(p, path, release->jws, release->length, if_match,
			      if_match ? NULL : "*");
}

/* nftw has no context. */
static unsigned found;

static int count_temporary(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	if (kind == FTW_F && strncmp(path + where->base, ".larder-tmp", 11) == 0)
		found++;
	return 0;
}

unsigned publishing_temporaries(const struct publishing *p)
{
	found = 0;
	cr_assert_eq(nftw(p->store_path, count_temporary, 16, FTW_PHYS), 0);
	return found;
}
