/*
 * store.c   the release and its server.
 */
#include "bench/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/support.h"
#include "client/publish.h"
#include "client/release_layer.h"
#include "common/os.h"

#define CHANNEL "live"

static bool say_error(const char *what, const struct ldr_error *error)
{
	bench_say("%s: %s", what, error->text);
	return false;
}

/* The signing key of a store that is kept must be kept too. */
static bool key_of(const char *path, struct ldr_key **out_key)
{
	char pem[LDR_KEY_PEM_MAX_BYTES];
	struct ldr_error error = {0};
	size_t length = 0;
	int fd;

	if (!ldr_os_open_file(path, &fd)) {
		bool good = !ldr_os_pread(fd, pem, sizeof(pem), 0, &length) &&
			    !ldr_key_parse(pem, length, path, out_key, &error);

		ldr_os_close(fd);
		return good || say_error(path, &error);
	}
	if (ldr_key_generate(out_key, &error) || ldr_key_to_pem(*out_key, pem, &error))
		return say_error(path, &error);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ldr_os_write(fd, pem, strlen(pem))) {
		bench_say("%s: cannot be written", path);
		return false;
	}
	ldr_os_close(fd);
	return true;
}

static bool publish(const struct bench_store_request *from, const char *folder, struct ldr_key *key)
{
	struct ldr_publish_request request = {.size = sizeof(request)};
	struct ldr_publish_outcome outcome;
	struct ldr_location store = {0};
	struct ldr_error error = {0};
	bool good;

	if (ldr_location_parse_store(folder, &store, &error))
		return say_error(folder, &error);
	request.folder = from->tree;
	request.store = &store;
	request.channel = CHANNEL;
	request.key = key;
	request.codec.policy = LDR_POLICY_LZ4;
	request.codec_given = true;
	request.chunks = from->chunks;
	request.links = LDR_LINKS_DROP;
	good = ldr_publish_folder(&request, &outcome, &error) == LDR_OK;
	ldr_location_dispose(&store);
	if (!good)
		return say_error(folder, &error);
	printf("store: %s, %.1f MiB in %u packs\n", folder,
	       (double)outcome.pack_bytes / (1024 * 1024), outcome.packs);
	return true;
}

static bool make_mark(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0) {
		bench_say("%s: cannot be written", path);
		return false;
	}
	ldr_os_close(fd);
	return true;
}

/* Once a working folder: a mark says that it is whole. */
static bool publish_once(const struct bench_store_request *from, const char *folder,
			 struct ldr_key *key)
{
	char *mark = bench_join(from->made, "store.whole");
	bool good = !access(mark, F_OK) ||
		    (bench_make_folders(folder) && publish(from, folder, key) && make_mark(mark));

	free(mark);
	return good;
}

static bool serve(const struct bench_store_request *from, const char *folder,
		  struct bench_store *out)
{
	char *program = bench_join(from->program, "../larderd");
	const char *const argv[] = {program, "--store", folder, "--listen", "127.0.0.1:0", NULL};
	static const char said[] = "listening on ";
	char line[256];
	char *log = bench_join(from->made, "larderd.log");
	bool good = bench_process_start(argv, log, &out->larderd) &&
		    bench_process_line(&out->larderd, line, sizeof(line)) &&
		    !strncmp(line, said, strlen(said));

	if (!good)
		bench_say("%s: does not serve (make builds it)", program);
	else if (asprintf(&out->source, "%s#" CHANNEL, line + strlen(said)) < 0)
		abort();
	free(program);
	free(log);
	return good;
}

bool bench_store_up(const struct bench_store_request *from, struct bench_store *out)
{
	char *folder = bench_join(from->made, "store");
	char *path = bench_join(from->made, "key");
	struct ldr_key *key = NULL;
	struct ldr_error error = {0};
	bool good;

	*out = (struct bench_store){.larderd.output = -1};
	good = key_of(path, &key);
	if (good && ldr_key_public(key, &out->trust, &error))
		good = say_error(path, &error);
	good = good && publish_once(from, folder, key) && serve(from, folder, out);
	ldr_key_free(key);
	free(path);
	free(folder);
	if (!good)
		bench_store_down(out);
	return good;
}

void bench_store_down(struct bench_store *store)
{
	bench_process_stop(&store->larderd);
	ldr_public_key_free(store->trust);
	free(store->source);
	*store = (struct bench_store){.larderd.output = -1};
}

bool bench_store_layer(const struct bench_store *store, const char *cache, size_t memory_bytes,
		       struct ldr_layer **out_layer)
{
	struct ldr_public_key *keys[] = {store->trust};
	const struct ldr_view_options options = {
		.cache_path = cache, .keys = keys, .key_count = 1, .memory_bytes = memory_bytes};
	struct ldr_location location = {0};
	struct ldr_error error = {0};
	enum ldr_status status = ldr_location_parse_source(store->source, &location, &error);

	if (status == LDR_OK) {
		status = ldr_release_layer_open(&location, &options, out_layer, &error);
		ldr_location_dispose(&location);
	}
	return status == LDR_OK || say_error(store->source, &error);
}
