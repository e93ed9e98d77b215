/*
 * trace.c   reading a trace, and the tree for it.
 */
#include "bench/vfs_bench/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/process.h"
#include "bench/vfs_bench/scenarios.h"
#include "common/os.h"

/* While reading: paths by name, in a table of indexes. */
struct reader {
	struct bench_trace *trace;
	char **name;
	size_t names;
	size_t name_room;
	size_t step_room;
	uint32_t *slot; /* index + 1 */
	size_t mask;
};

#define SLOTS ((size_t)1 << 18)
#define PATHS_MAX (SLOTS / 2)

static size_t hash_text(const char *text)
{
	uint64_t hash = 1469598103934665603u;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 1099511628211u;
	return (size_t)(hash ^ (hash >> 29));
}

static void *grown(void *bytes, size_t count, size_t *room, size_t one)
{
	void *out = bytes;

	if (count == *room) {
		*room = *room ? *room * 2 : 256;
		out = realloc(bytes, *room * one);
		if (!out)
			abort();
	}
	return out;
}

static uint32_t number_of(struct reader *reader, const char *path)
{
	size_t i = hash_text(path) & reader->mask;

	for (; reader->slot[i]; i = (i + 1) & reader->mask)
		if (!strcmp(reader->name[reader->slot[i] - 1], path))
			return reader->slot[i] - 1;
	reader->name = grown(reader->name, reader->names, &reader->name_room, sizeof(char *));
	reader->name[reader->names] = bench_copy(path);
	reader->slot[i] = (uint32_t)++reader->names;
	return (uint32_t)(reader->names - 1);
}

static int op_of(const char *word)
{
	static const struct {
		const char *word;
		int op;
	} ops[] = {{"open", BENCH_TRACE_OPEN},  {"read", BENCH_TRACE_READ},
		   {"zread", BENCH_TRACE_READ}, {"close", BENCH_TRACE_CLOSE},
		   {"stat", BENCH_TRACE_STAT},  {"miss", BENCH_TRACE_MISS},
		   {"list", BENCH_TRACE_LIST}};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].word, word))
			return ops[i].op;
	return -1;
}

/* PACK!ENTRY as PACK.d/ENTRY: the pack itself may be opened too, as a file. */
static char *tree_path(const char *path)
{
	const char *mark = strchr(path, '!');
	char *out;

	if (!mark)
		return bench_copy(path);
	if (asprintf(&out, "%.*s.d/%s", (int)(mark - path), path, mark + 1) < 0)
		abort();
	return out;
}

static bool take_line(struct reader *reader, char *line)
{
	struct bench_trace *trace = reader->trace;
	char *rest = line, *field[5];
	char *path;
	int op;

	for (int i = 0; i < 5; i++)
		if (!(field[i] = strsep(&rest, "\t\n")))
			return false;
	op = op_of(field[1]);
	if (op < 0 || !*field[2] || reader->names >= PATHS_MAX)
		return op >= 0 && !*field[2]; /* the root itself: nothing to replay */
	path = tree_path(field[2]);
	trace->step = grown(trace->step, trace->count, &reader->step_room, sizeof(*trace->step));
	trace->step[trace->count++] = (struct bench_trace_step){
		.offset = strtoull(field[3], NULL, 10),
		.length = (uint32_t)strtoul(field[4], NULL, 10),
		.path = number_of(reader, path),
		.op = (uint8_t)op,
	};
	free(path);
	return true;
}

static bool read_lines(struct reader *reader, FILE *stream, const char *path)
{
	char *line = NULL;
	size_t room = 0, number = 0;
	bool good = true;

	while (good && getline(&line, &room, stream) > 0) {
		number++;
		good = take_line(reader, line);
		if (!good)
			bench_say("%s: line %zu is not seconds, op, path, offset, length", path,
				  number);
	}
	free(line);
	return good && number > 0;
}

static void copy_name(void *context, uint32_t i, char *out)
{
	const struct reader *reader = context;

	snprintf(out, BENCH_TEXT_BYTES, "%s", reader->name[i]);
}

/* What the paths are, by what was done with them. */
static bool judge_paths(struct reader *reader)
{
	struct bench_trace *trace = reader->trace;

	trace->size = calloc(reader->names + 1, sizeof(*trace->size));
	trace->folder = calloc(reader->names + 1, sizeof(*trace->folder));
	trace->file = calloc(reader->names + 1, sizeof(*trace->file));
	if (!trace->size || !trace->folder || !trace->file)
		return false;
	for (size_t i = 0; i < trace->count; i++) {
		const struct bench_trace_step *step = &trace->step[i];
		uint64_t end = step->offset + step->length;

		if (step->op == BENCH_TRACE_LIST)
			trace->folder[step->path] = true;
		if (step->op != BENCH_TRACE_READ)
			continue;
		trace->file[step->path] = true;
		trace->size[step->path] = end > trace->size[step->path] ? end
									: trace->size[step->path];
		trace->longest = step->length > trace->longest ? step->length : trace->longest;
	}
	return bench_texts_make((uint32_t)reader->names, copy_name, reader, &trace->paths);
}

static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *dot = strchr(name, '.');
	char *out;

	if (asprintf(&out, "trace.%.*s", dot ? (int)(dot - name) : (int)strlen(name), name) < 0)
		abort();
	return out;
}

static bool read_stream(struct reader *reader, const char *path)
{
	const char *const argv[] = {"gzip", "-dcf", "--", path, NULL};
	struct bench_process unpacker;
	FILE *stream;
	bool good;

	if (!bench_process_start(argv, NULL, &unpacker))
		return false;
	stream = fdopen(unpacker.output, "r"); /* style: the descriptor is close-on-exec */
	good = stream && read_lines(reader, stream, path);
	if (stream) {
		unpacker.output = -1;
		fclose(stream);
	}
	bench_process_stop(&unpacker);
	return good;
}

bool bench_trace_load(const char *path, struct bench_trace *out)
{
	struct reader reader = {.trace = out, .mask = SLOTS - 1};
	bool good;

	*out = (struct bench_trace){.name = name_of(path)};
	reader.slot = calloc(SLOTS, sizeof(*reader.slot));
	good = reader.slot && read_stream(&reader, path) && judge_paths(&reader);
	if (!good)
		bench_say("%s: no trace", path);
	for (size_t i = 0; i < reader.names; i++)
		free(reader.name[i]);
	free(reader.name);
	free(reader.slot);
	if (!good)
		bench_trace_dispose(out);
	return good;
}

void bench_trace_dispose(struct bench_trace *trace)
{
	bench_texts_dispose(&trace->paths);
	free(trace->name);
	free(trace->step);
	free(trace->size);
	free(trace->folder);
	free(trace->file);
	*trace = (struct bench_trace){0};
}

/* ---- the tree ---- */

static bool make_path(const struct bench_trace *trace, struct bench_env *env, uint32_t i)
{
	char *path = bench_join(env->tree, trace->paths.text[i]);
	bool good = true;

	if (trace->file[i])
		good = bench_write_file(path, trace->size[i], i + 1);
	else if (trace->folder[i])
		good = bench_make_folders(path);
	free(path);
	return good;
}

/* What is only asked for (stat, open without a read) is made too: a folder where something lies below it, else a
 * file. Called after all that are read are there. */
static bool make_asked(const struct bench_trace *trace, struct bench_env *env, uint32_t i)
{
	char *path = bench_join(env->tree, trace->paths.text[i]);
	struct stat held;
	bool good = true;

	if (stat(path, &held))
		good = bench_write_file(path, 1, i + 1);
	free(path);
	return good;
}

static bool make_tree(const struct bench_trace *trace, struct bench_env *env)
{
	bool good = bench_make_folders(env->tree);

	for (uint32_t i = 0; good && i < trace->paths.count; i++)
		good = make_path(trace, env, i);
	for (size_t i = 0; good && i < trace->count; i++)
		if (trace->step[i].op == BENCH_TRACE_STAT || trace->step[i].op == BENCH_TRACE_OPEN)
			good = make_asked(trace, env, trace->step[i].path);
	return good;
}

/* What is at a path of the tree: 0 nothing, else its S_IFMT; S_IFLNK for what lies behind a symlink, which not
 * every target has. */
static mode_t kind_at(int tree_fd, const char *path)
{
	struct stat held = {0};
	int fd, code = ldr_os_open_beneath(tree_fd, path, O_PATH | O_CLOEXEC, 0, &fd);

	if (code)
		return code == ENOENT || code == ENOTDIR ? 0 : S_IFLNK;
	code = ldr_os_stat(fd, &held);
	ldr_os_close(fd);
	return code ? S_IFLNK : held.st_mode & S_IFMT;
}

/* Whether a step can be replayed in a tree where its path is of that kind. */
static bool fits(const struct bench_trace_step *step, mode_t kind)
{
	switch ((enum bench_trace_op)step->op) {
	case BENCH_TRACE_OPEN:
	case BENCH_TRACE_READ:
	case BENCH_TRACE_CLOSE:
		return kind == S_IFREG;
	case BENCH_TRACE_STAT:
		return kind == S_IFREG || kind == S_IFDIR;
	case BENCH_TRACE_MISS:
		return kind == 0;
	case BENCH_TRACE_LIST:
		return kind == S_IFDIR;
	}
	return false;
}

static bool keep_fitting(struct bench_trace *trace, const struct bench_env *env)
{
	mode_t *kind = calloc(trace->paths.count + 1, sizeof(*kind));
	size_t kept = 0;
	int fd = -1;

	if (ldr_os_open_folder(env->tree, &fd))
		return false;
	for (uint32_t i = 0; kind && i < trace->paths.count; i++)
		kind[i] = kind_at(fd, trace->paths.text[i]);
	ldr_os_close(fd);
	for (size_t i = 0; kind && i < trace->count; i++)
		if (fits(&trace->step[i], kind[trace->step[i].path]))
			trace->step[kept++] = trace->step[i];
	printf("%s: %zu steps, %zu of them fit the tree\n", trace->name, trace->count, kept);
	trace->count = kept;
	free(kind);
	return kept > 0;
}

bool bench_trace_tree(struct bench_trace *trace, struct bench_env *env)
{
	return (!env->own_tree || make_tree(trace, env)) && bench_env_walk(env) &&
	       keep_fitting(trace, env);
}
