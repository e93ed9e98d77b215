/*
 * target_http.c   base:http and base:http-gzip: loose files, fetched one by one from nginx over the
 * loopback, by libcurl with a kept connection a thread.
 *
 * What a program without archives does with a web server: GET for a file, HEAD for a question. Opening is
 * not a request (so there is no meta.open), the first read fetches the whole file, a random read is a range
 * request. With gzip, nginx serves copies made beforehand (gzip_static) and libcurl inflates them; ranges do
 * not go with it, so there are no random reads.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/process.h"
#include "bench/vfs_bench/env.h"

#define TRIES 5
#define URL_BYTES 4096

struct recipe {
	bool gzip;
};

struct http {
	bool gzip;
	struct bench_process nginx;
	char *home;
};

/* A thread's connection, and the file that it fetched last. */
struct client {
	CURL *curl;
	uint8_t *bytes;
	size_t length;
	size_t capacity;
};

/* gzip -k of all files into a tree of their own, as a deployment would. */
static const char make_gzip[] =
	"import gzip, os, sys\n"
	"root, out = sys.argv[1:]\n"
	"for folder, folders, files in os.walk(root):\n"
	"    to = os.path.join(out, os.path.relpath(folder, root))\n"
	"    os.makedirs(to, exist_ok=True)\n"
	"    for name in files:\n"
	"        if not os.path.isfile(os.path.join(folder, name)): continue\n"
	"        data = open(os.path.join(folder, name), 'rb').read()\n"
	"        open(os.path.join(to, name), 'wb').write(data)\n"
	"        open(os.path.join(to, name + '.gz'), 'wb').write(gzip.compress(data, 6))\n"
	"open(os.path.join(out, '.done'), 'w').close()\n";

static char *gzip_root(const struct bench_env *env)
{
	char *root = bench_join(env->made, "gzip");
	char *done = bench_join(root, ".done");
	const char *const argv[] = {"python3", "-c", make_gzip, env->tree, root, NULL};
	uint64_t size;
	bool good = bench_target_posix.ops->stat(NULL, done, &size) || bench_process_run(argv);

	free(done);
	if (good)
		return root;
	free(root);
	return NULL;
}

static bool write_config(const char *path, const char *root, int port, bool gzip)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return false;
	fprintf(file,
		"daemon off;\nworker_processes 1;\nuser root;\npid nginx.pid;\nerror_log error.log;\n"
		"events { worker_connections 512; }\n"
		"http {\n"
		"  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;\n"
		"  open_file_cache max=20000; gzip_static %s; default_type application/octet-stream;\n"
		"  client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t;\n"
		"  uwsgi_temp_path t; scgi_temp_path t;\n"
		"  server { listen 127.0.0.1:%d; root \"%s\"; }\n"
		"}\n",
		gzip ? "on" : "off", port, root);
	return !fclose(file);
}

static bool start_nginx(struct http *http, const char *root, char **out_prefix)
{
	char *config = bench_join(http->home, "nginx.conf");
	char *log = bench_join(http->home, "error.log");
	const char *const argv[] = {"nginx", "-e", log, "-p", http->home, "-c", config, NULL};
	bool good = false;

	for (int i = 0; !good && i < TRIES; i++) {
		int port = bench_free_port();

		if (port < 0 || !write_config(config, root, port, http->gzip) ||
		    !bench_process_start(argv, NULL, &http->nginx))
			break;
		good = bench_port_answers(port, &http->nginx);
		if (!good)
			bench_process_stop(&http->nginx);
		else if (asprintf(out_prefix, "http://127.0.0.1:%d", port) < 0)
			abort();
	}
	if (!good)
		bench_say("nginx does not serve (see %s)", log);
	free(config);
	free(log);
	return good;
}

static void http_down(void *self)
{
	struct http *http = self;

	bench_process_stop(&http->nginx);
	free(http->home);
	free(http);
}

static bool http_up(const struct bench_target *target, struct bench_env *env,
		    struct bench_instance *out)
{
	const struct recipe *recipe = target->recipe;
	struct http *http = calloc(1, sizeof(*http));
	char *root, *temporary;
	bool good;

	if (!http)
		return false;
	http->gzip = recipe->gzip;
	http->home = bench_join(env->made, recipe->gzip ? "nginx-gzip" : "nginx");
	temporary = bench_join(http->home, "t");
	root = recipe->gzip ? gzip_root(env) : bench_copy(env->tree);
	good = root && bench_make_folders(temporary) && start_nginx(http, root, &out->data_prefix);
	free(temporary);
	free(root);
	out->self = http;
	if (!good)
		http_down(http);
	return good;
}

static size_t take_body(char *bytes, size_t one, size_t count, void *context)
{
	struct client *client = context;
	size_t length = one * count;

	if (client->length + length > client->capacity) {
		size_t capacity = (client->length + length) * 2;
		uint8_t *grown = realloc(client->bytes, capacity);

		if (!grown)
			return 0;
		client->bytes = grown;
		client->capacity = capacity;
	}
	memcpy(client->bytes + client->length, bytes, length);
	client->length += length;
	return length;
}

static void *http_enter(void *self)
{
	const struct http *http = self;
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->curl = curl_easy_init();
	curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, client);
	curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(client->curl, CURLOPT_NOPROXY, "*");
	if (http->gzip)
		curl_easy_setopt(client->curl, CURLOPT_ACCEPT_ENCODING, "gzip");
	return client;
}

static void http_leave(void *thread_self)
{
	struct client *client = thread_self;

	curl_easy_cleanup(client->curl);
	free(client->bytes);
	free(client);
}

/* Paths as they are written in URLs: a quarter of a microsecond beside a request of forty. */
static const char *escape(const char *url, char out[URL_BYTES])
{
	static const char digits[] = "0123456789ABCDEF";
	size_t at = 0;

	for (; *url && at + 4 < URL_BYTES; url++) {
		unsigned char byte = (unsigned char)*url;

		if (byte > ' ' && byte < 0x7f && !strchr("%#?\"<>", byte)) {
			out[at++] = *url;
			continue;
		}
		out[at++] = '%';
		out[at++] = digits[byte >> 4];
		out[at++] = digits[byte & 15];
	}
	out[at] = '\0';
	return out;
}

static long request(struct client *client, const char *url, bool body, const char *range)
{
	char escaped[URL_BYTES];
	long status = 0;

	client->length = 0;
	curl_easy_setopt(client->curl, CURLOPT_URL, escape(url, escaped));
	curl_easy_setopt(client->curl, CURLOPT_NOBODY, body ? 0L : 1L);
	if (body)
		curl_easy_setopt(client->curl, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(client->curl, CURLOPT_RANGE, range);
	if (curl_easy_perform(client->curl) != CURLE_OK)
		return -1;
	curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static bool http_open(void *self, const char *path, enum bench_mode mode, struct bench_file *file)
{
	file->object = self;
	file->offset = 0;
	file->word[0] = (uintptr_t)path;
	return mode == BENCH_READ;
}

static void http_close(struct bench_file *file)
{
	(void)file;
}

static bool http_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	struct client *client = file->object;
	size_t left;

	if (file->offset == 0 &&
	    request(client, (const char *)(uintptr_t)file->word[0], true, NULL) != 200)
		return false;
	left = client->length - (size_t)file->offset;
	*out_length = length < left ? length : left;
	memcpy(bytes, client->bytes + file->offset, *out_length);
	file->offset += *out_length;
	return true;
}

static bool http_read_at(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
			 size_t *out_length)
{
	struct client *client = file->object;
	size_t skip = 0, left;
	char range[64];
	long status;

	snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)offset,
		 (unsigned long long)(offset + length - 1));
	status = request(client, (const char *)(uintptr_t)file->word[0], true, range);
	if (status == 416) /* at or past the end */
		client->length = 0;
	else if (status == 200) /* very small files come whole */
		skip = offset < client->length ? (size_t)offset : client->length;
	else if (status != 206)
		return false;
	left = client->length - skip;
	*out_length = left < length ? left : length;
	memcpy(bytes, client->bytes + skip, *out_length);
	return true;
}

static bool http_stat(void *self, const char *path, uint64_t *out_size)
{
	struct client *client = self;
	curl_off_t length = -1;

	if (request(client, path, false, NULL) != 200)
		return false;
	curl_easy_getinfo(client->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	*out_size = (uint64_t)length;
	return length >= 0;
}

static bool http_absent(void *self, const char *path)
{
	return request(self, path, false, NULL) == 404;
}

static const struct bench_ops http_ops = {
	.enter = http_enter,
	.leave = http_leave,
	.open = http_open,
	.close = http_close,
	.read = http_read,
	.read_at = http_read_at,
	.stat = http_stat,
	.absent = http_absent,
};

/* A HEAD of a compressed file tells the compressed length, so there is no stat. */
static const struct bench_ops http_gzip_ops = {
	.enter = http_enter,
	.leave = http_leave,
	.open = http_open,
	.close = http_close,
	.read = http_read,
	.absent = http_absent,
};

static const struct recipe plain_recipe = {false};
static const struct recipe gzip_recipe = {true};

const struct bench_target bench_target_http = {
	.name = "base:http",
	.ops = &http_ops,
	.recipe = &plain_recipe,
	.up = http_up,
	.down = http_down,
};

const struct bench_target bench_target_http_gzip = {
	.name = "base:http-gzip",
	.ops = &http_gzip_ops,
	.recipe = &gzip_recipe,
	.up = http_up,
	.down = http_down,
};
