/*
 * A world to publish and install in; see client_world.h.
 */
#include "tests/support/client_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"

void client_world_make(struct client_world *world)
{
	*world = (struct client_world){0};
	snprintf(world->folder, sizeof(world->folder), "%s/larder-client-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert(mkdtemp(world->folder));
	client_path(world, "store", world->store_path);
	client_path(world, "cache", world->cache_path);
	assert(ldr_key_generate(&world->key, NULL) == LDR_OK);
	assert(ldr_key_public(world->key, &world->public_key, NULL) == LDR_OK);
	assert(ldr_location_parse_store(world->store_path, &world->store, NULL) == LDR_OK);
}

void client_world_remove(struct client_world *world)
{
	char command[320];

	ldr_location_dispose(&world->store);
	ldr_key_free(world->key);
	ldr_public_key_free(world->public_key);
	snprintf(command, sizeof(command), "chmod -R u+rwX '%s'; rm -rf '%s'", world->folder,
		 world->folder);
	assert(system(command) == 0); /* style: a test's own folder */
}

char *client_path(const struct client_world *world, const char *name, char path[CLIENT_PATH_BYTES])
{
	int length = snprintf(path, CLIENT_PATH_BYTES, "%s/%s", world->folder, name);

	assert(length > 0 && length < CLIENT_PATH_BYTES);
	return path;
}

static void write_file(const struct client_world *world, const char *name, const void *bytes,
		       size_t length)
{
	const struct ldr_publish_options options = {
		.sync = LDR_SYNC_NONE, .make_parents = true, .max_bytes = UINT64_C(1) << 32};
	LDR_AUTO_ROOT struct ldr_root *root = NULL;

	assert(ldr_root_open(world->folder, false, &root, NULL) == LDR_OK);
	assert(ldr_publish(root, name, bytes, length, &options, NULL, NULL) == LDR_OK);
}

void client_noise(const struct client_world *world, const char *name, size_t length, unsigned seed)
{
	uint64_t state = 88172645463325252u + seed * 7919u;
	LDR_AUTO_FREE uint8_t *bytes = malloc(length + 1);

	assert(bytes);
	for (size_t i = 0; i < length; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		bytes[i] = (uint8_t)(state >> 32);
	}
	write_file(world, name, bytes, length);
}

void client_text(const struct client_world *world, const char *name, const char *text)
{
	write_file(world, name, text, strlen(text));
}

void client_link(const struct client_world *world, const char *name, const char *target)
{
	char path[CLIENT_PATH_BYTES];

	assert(symlink(target, client_path(world, name, path)) == 0);
}

void client_mode(const struct client_world *world, const char *name, unsigned mode)
{
	char path[CLIENT_PATH_BYTES];

	assert(chmod(client_path(world, name, path), mode) == 0);
}

void client_remove(const struct client_world *world, const char *name)
{
	char path[CLIENT_PATH_BYTES];

	assert(remove(client_path(world, name, path)) == 0);
}

bool client_exists(const struct client_world *world, const char *name)
{
	char path[CLIENT_PATH_BYTES];
	struct stat found;

	return lstat(client_path(world, name, path), &found) == 0;
}

const char *client_read(const struct client_world *world, const char *name, char text[4096])
{
	char path[CLIENT_PATH_BYTES];
	FILE *file = fopen(client_path(world, name, path), "re");
	size_t length = file ? fread(text, 1, 4095, file) : 0;

	text[length] = '\0';
	if (file)
		fclose(file);
	return text;
}

bool client_same(const struct client_world *world, const char *a, const char *b)
{
	static const char list[] =
		"find . -path ./.larder -prune -o -mindepth 1 -printf '%P %m %y %l\\n' | sort";
	char command[1024];

	snprintf(
		command, sizeof(command),
		"cd '%s' && a=$(cd '%s' && %s) && b=$(cd '%s' && %s) && "
		"{ [ \"$a\" = \"$b\" ] || { printf '%%s\\n--\\n%%s\\n' \"$a\" \"$b\"; exit 1; }; } && "
		"diff -r --no-dereference -x .larder '%s' '%s' 1>&2",
		world->folder, a, list, b, list, a, b);
	return system(command) == 0; /* style: a test's own folder */
}

struct ldr_publish_request client_request(const struct client_world *world, const char *tree,
					  const char *channel)
{
	return (struct ldr_publish_request){
		.size = sizeof(struct ldr_publish_request),
		.folder = tree,
		.store = &world->store,
		.channel = channel,
		.key = world->key,
		.cache_path = world->cache_path,
		.workers = 2,
	};
}

void client_publish(const struct client_world *world, const char *tree, const char *channel)
{
	char path[CLIENT_PATH_BYTES];
	struct ldr_publish_request request = client_request(world, client_path(world, tree, path),
							    channel);
	struct ldr_publish_outcome outcome;
	struct ldr_error err = {0};

	if (ldr_publish_folder(&request, &outcome, &err)) {
		fprintf(stderr, "client world: %s\n", err.text);
		abort();
	}
}

enum ldr_status client_open(const struct client_world *world, const char *source,
			    struct ldr_view **out_view, struct ldr_error *err)
{
	struct ldr_public_key *const keys[] = {world->public_key};
	const struct ldr_view_options options = {
		.cache_path = world->cache_path, .keys = keys, .key_count = 1};
	LDR_AUTO_LOCATION struct ldr_location location = {0};
	char text[CLIENT_PATH_BYTES + 80];

	snprintf(text, sizeof(text), "%s#%s", world->store_path, source);
	assert(ldr_location_parse_source(text, &location, NULL) == LDR_OK);
	return ldr_view_open(&location, &options, out_view, err);
}

enum ldr_status client_fetch(const struct client_world *world, const char *source,
			     const char *target, struct ldr_install_outcome *outcome,
			     struct ldr_error *err)
{
	char path[CLIENT_PATH_BYTES];
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_install_outcome own;
	struct ldr_install_request request = {
		.size = sizeof(request),
		.folder = client_path(world, target, path),
		.sync = LDR_SYNC_NONE,
		.workers = 2,
	};
	enum ldr_status status = client_open(world, source, &view, err);

	if (status)
		return status;
	request.view = view;
	return ldr_install(&request, outcome ? outcome : &own, err);
}
