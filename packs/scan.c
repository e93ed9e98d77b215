/*
 * Scanning a folder: the walk; see scan.h.
 *
 * A folder is listed as a whole before anything below it: names are read, sorted, judged, and kept in a
 * frame; then its entries are emitted one by one, and a folder among them becomes the next frame. So
 * the listing comes out in pre-order with one descriptor open at a time.
 */
#include "packs/scan.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/os.h"
#include "packs/scan_priv.h"

#define MAX_ENTRIES_DEFAULT (16u * 1024 * 1024)
#define NAMES_BYTES (64u * 1024)
/* Not limits of a tree: what one folder's table and the stack of frames start with. */
#define FIRST_CHILDREN 64
#define FIRST_FRAMES 16

/* ---- names ---- */

/* A chunk of names; they never move, so entries can point at them. */
struct ldr_scan_names {
	struct ldr_scan_names *next;
	size_t used;
	char text[NAMES_BYTES];
};

const char *ldr_scan_keep(struct ldr_scan *scan, const char *text, size_t length)
{
	struct ldr_scan_names *names = scan->names;
	char *copy;

	assert(length < NAMES_BYTES);
	if (!names || NAMES_BYTES - names->used <= length) {
		names = malloc(sizeof(*names));
		if (!names)
			return NULL;
		names->next = scan->names;
		names->used = 0;
		scan->names = names;
	}
	copy = names->text + names->used;
	ldr_copy(copy, text, length);
	copy[length] = '\0';
	names->used += length + 1;
	return copy;
}

/* ---- the scan ---- */

void ldr_scan_free(struct ldr_scan *scan)
{
	if (!scan)
		return;
	while (scan->names) {
		struct ldr_scan_names *next = scan->names->next;

		free(scan->names);
		scan->names = next;
	}
	if (scan->root_fd >= 0)
		ldr_os_close(scan->root_fd);
	free(scan->entries);
	free(scan->dir);
	free(scan);
}

void ldr_scan_cleanup(struct ldr_scan **scan)
{
	ldr_scan_free(*scan);
}

const struct ldr_scan_totals *ldr_scan_totals(const struct ldr_scan *scan)
{
	return &scan->totals;
}

uint32_t ldr_scan_count(const struct ldr_scan *scan)
{
	return scan->count;
}

const struct ldr_scan_entry *ldr_scan_at(const struct ldr_scan *scan, uint32_t i)
{
	assert(i < scan->count);
	return &scan->entries[i];
}

size_t ldr_scan_path(const struct ldr_scan *scan, uint32_t i, char path[LDR_PATH_MAX_BYTES + 1])
{
	size_t at = LDR_PATH_MAX_BYTES + 1, length;

	path[--at] = '\0';
	for (; i != 0; i = scan->entries[i].parent) {
		size_t name_bytes = strlen(scan->entries[i].name);

		if (at != LDR_PATH_MAX_BYTES)
			path[--at] = '/';
		assert(at >= name_bytes);
		at -= name_bytes;
		memcpy(path + at, scan->entries[i].name, name_bytes);
	}
	length = LDR_PATH_MAX_BYTES - at;
	memmove(path, path + at, length + 1);
	return length;
}

enum ldr_status ldr_scan_open_folder(const struct ldr_scan *scan, uint32_t entry, int *out_fd,
				     struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	char quoted[LDR_QUOTE_BYTES];
	size_t length = ldr_scan_path(scan, entry, path);
	const char *name = length ? path : ".";
	int code = scan->entries[entry].outside
			   ? ldr_os_open_folder_followed(scan->root_fd, name, out_fd)
			   : ldr_os_open_folder_beneath(scan->root_fd, name, out_fd);

	if (code)
		return ldr_fail_errno(err, code, "folder %s below %s",
				      ldr_path_quote(name, strlen(name), quoted), scan->dir);
	return LDR_OK;
}

/* ---- listing one folder ---- */

static enum ldr_status no_memory(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENOMEM, "scan: no memory for the listing");
}

static enum ldr_status fail_name(const struct ldr_scan_walk *walk, const char *name, int code,
				 struct ldr_error *err)
{
	char folder[LDR_QUOTE_BYTES], quoted[LDR_QUOTE_BYTES];

	ldr_path_quote(walk->path, walk->path_bytes, folder);
	ldr_path_quote(name, strlen(name), quoted);
	return ldr_fail_errno(err, code, "%s%s%s below %s", folder, walk->path_bytes ? "/" : "",
			      quoted, walk->scan->dir);
}

static struct ldr_scan_child *new_child(struct ldr_scan_walk *walk, uint32_t *capacity)
{
	if (walk->child_count == *capacity) {
		uint32_t wanted = *capacity ? *capacity * 2 : FIRST_CHILDREN;
		void *grown = reallocarray(walk->children, wanted, sizeof(*walk->children));

		if (!grown)
			return NULL;
		walk->children = grown;
		*capacity = wanted;
	}
	return &walk->children[walk->child_count];
}

static enum ldr_status add_child(struct ldr_scan_walk *walk, const char *name, uint32_t *capacity,
				 struct ldr_error *err)
{
	struct ldr_scan_child *child;
	struct stat found;
	int code;

	if (walk->folder == 0 && strcmp(name, LDR_RESERVED_NAME) == 0)
		return LDR_OK;
	if ((uint64_t)walk->scan->count + walk->child_count >= walk->options.max_entries)
		return ldr_fail(err, LDR_ELIMIT, "%s: more than %" PRIu64 " entries",
				walk->scan->dir, walk->options.max_entries);
	code = ldr_os_stat_at(walk->folder_fd, name, &found);
	if (code)
		return fail_name(walk, name, code, err);
	child = new_child(walk, capacity);
	if (!child)
		return no_memory(err);
	*child = (struct ldr_scan_child){
		.entry = {.parent = walk->folder, .mode = found.st_mode & 0777},
		.type = found.st_mode & S_IFMT,
	};
	child->entry.name = ldr_scan_keep(walk->scan, name, strlen(name));
	if (!child->entry.name)
		return no_memory(err);
	ldr_stamp_of(&found, &child->entry.stamp);
	walk->child_count++;
	return LDR_OK;
}

static enum ldr_status read_names(struct ldr_scan_walk *walk, struct ldr_error *err)
{
	struct ldr_os_listing *listing = NULL;
	enum ldr_status status = LDR_OK;
	uint32_t capacity = 0;
	const char *name = NULL;
	mode_t type;
	int code = ldr_os_listing_open(walk->folder_fd, &listing);

	while (!code && !status) {
		code = ldr_os_listing_next(listing, &name, &type);
		if (code || !name)
			break;
		status = add_child(walk, name, &capacity, err);
	}
	ldr_os_listing_close(listing);
	return code ? fail_name(walk, "", code, err) : status;
}

static int by_name(const void *a, const void *b)
{
	const struct ldr_scan_child *left = a, *right = b;

	return strcmp(left->entry.name, right->entry.name);
}

static enum ldr_status judge(struct ldr_scan_walk *walk, struct ldr_scan_child *child,
			     struct ldr_error *err)
{
	struct ldr_error fault = {.status = LDR_OK};

	if (!ldr_scan_check_name(walk, child))
		return LDR_OK;
	switch (child->type) {
	case S_IFREG:
		child->entry.kind = LDR_KIND_FILE;
		return LDR_OK;
	case S_IFDIR:
		child->entry.kind = LDR_KIND_FOLDER;
		child->entry.outside = walk->scan->entries[walk->folder].outside;
		return LDR_OK;
	case S_IFLNK:
		return ldr_scan_link(walk, child, err);
	default:
		ldr_fail(&fault, LDR_ENOTREG,
			 "is neither a regular file nor a folder nor a link (type %o)",
			 (unsigned)child->type);
		ldr_scan_offence(walk, child, &fault);
		return LDR_OK;
	}
}

/* Takes out what is not to be emitted. */
static void drop_unwanted(struct ldr_scan_walk *walk)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < walk->child_count; i++)
		if (walk->children[i].entry.kind)
			walk->children[kept++] = walk->children[i];
	walk->child_count = kept;
}

static enum ldr_status list_open_folder(struct ldr_scan_walk *walk, struct ldr_error *err)
{
	enum ldr_status status = read_names(walk, err);

	if (status)
		return status;
	if (walk->child_count)
		qsort(walk->children, walk->child_count, sizeof(*walk->children), by_name);
	for (uint32_t i = 0; i < walk->child_count && !status; i++)
		status = judge(walk, &walk->children[i], err);
	if (!status)
		status = ldr_scan_check_clashes(walk, err);
	drop_unwanted(walk);
	return status;
}

/* Fills walk->children, which whoever calls takes over. */
static enum ldr_status list_folder(struct ldr_scan_walk *walk, uint32_t folder,
				   struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	enum ldr_status status;

	walk->folder = folder;
	walk->path_bytes = ldr_scan_path(walk->scan, folder, walk->path);
	walk->children = NULL;
	walk->child_count = 0;
	status = ldr_scan_open_folder(walk->scan, folder, &fd, err);
	if (status)
		return status;
	walk->folder_fd = fd;
	return list_open_folder(walk, err);
}

/* ---- the walk ---- */

struct frame {
	struct ldr_scan_child *children; /* owns */
	uint32_t count;
	uint32_t next;
	uint32_t folder;
};

struct stack {
	struct frame *frames; /* owns */
	uint32_t depth;
	uint32_t capacity;
};

static void stack_dispose(struct stack *stack)
{
	for (uint32_t i = 0; i < stack->depth; i++)
		free(stack->frames[i].children);
	free(stack->frames);
}

static enum ldr_status enter(struct ldr_scan_walk *walk, struct stack *stack, uint32_t folder,
			     struct ldr_error *err)
{
	enum ldr_status status;

	if (stack->depth == stack->capacity) {
		uint32_t wanted = stack->capacity ? stack->capacity * 2 : FIRST_FRAMES;
		void *grown = reallocarray(stack->frames, wanted, sizeof(*stack->frames));

		if (!grown)
			return no_memory(err);
		stack->frames = grown;
		stack->capacity = wanted;
	}
	status = list_folder(walk, folder, err);
	stack->frames[stack->depth++] = (struct frame){
		.children = LDR_STEAL(walk->children),
		.count = walk->child_count,
		.folder = folder,
	};
	walk->child_count = 0;
	return status;
}

static void leave(struct ldr_scan *scan, struct stack *stack)
{
	struct frame *frame = &stack->frames[--stack->depth];

	scan->entries[frame->folder].end = scan->count;
	free(frame->children);
}

static void count_entry(struct ldr_scan_totals *totals, const struct ldr_scan_entry *entry)
{
	if (entry->kind == LDR_KIND_FILE) {
		totals->files++;
		totals->bytes += entry->stamp.size_bytes;
	} else if (entry->kind == LDR_KIND_FOLDER) {
		totals->folders++;
	} else {
		totals->symlinks++;
	}
	totals->copied_links += entry->followed;
}

static enum ldr_status emit(struct ldr_scan *scan, const struct ldr_scan_entry *entry,
			    struct ldr_error *err)
{
	if (scan->count == scan->capacity) {
		uint32_t wanted = scan->capacity ? scan->capacity * 2 : 1024;
		void *grown = reallocarray(scan->entries, wanted, sizeof(*scan->entries));

		if (!grown)
			return no_memory(err);
		scan->entries = grown;
		scan->capacity = wanted;
	}
	scan->entries[scan->count] = *entry;
	scan->entries[scan->count].end = scan->count + 1;
	scan->count++;
	return LDR_OK;
}

static enum ldr_status walk_all(struct ldr_scan_walk *walk, struct ldr_error *err)
{
	__attribute__((cleanup(stack_dispose))) struct stack stack = {.depth = 0};
	struct ldr_scan *scan = walk->scan;
	enum ldr_status status = enter(walk, &stack, 0, err);

	while (!status && stack.depth > 0) {
		struct frame *frame = &stack.frames[stack.depth - 1];
		const struct ldr_scan_entry *entry;

		if (frame->next == frame->count) {
			leave(scan, &stack);
			continue;
		}
		entry = &frame->children[frame->next++].entry;
		status = emit(scan, entry, err);
		if (status)
			break;
		count_entry(&scan->totals, entry);
		if (entry->kind == LDR_KIND_FOLDER)
			status = enter(walk, &stack, scan->count - 1, err);
	}
	return status;
}

static enum ldr_status scan_new(const char *dir, struct ldr_scan **out_scan, struct ldr_error *err)
{
	LDR_AUTO_SCAN struct ldr_scan *scan = calloc(1, sizeof(*scan));
	struct ldr_scan_entry root = {.name = "", .kind = LDR_KIND_FOLDER};
	enum ldr_status status;
	struct stat found;
	int code;

	if (!scan)
		return no_memory(err);
	scan->root_fd = -1;
	scan->dir = strdup(dir);
	if (!scan->dir)
		return no_memory(err);
	code = ldr_os_open_folder(dir, &scan->root_fd);
	if (!code)
		code = ldr_os_stat(scan->root_fd, &found);
	if (code)
		return ldr_fail_errno(err, code, "folder %s", dir);
	ldr_stamp_of(&found, &root.stamp);
	root.mode = found.st_mode & 0777;
	status = emit(scan, &root, err);
	if (!status)
		*out_scan = LDR_STEAL(scan);
	return status;
}

enum ldr_status ldr_scan_folder(const char *dir, const struct ldr_scan_options *options,
				struct ldr_scan_report *report, struct ldr_scan **out_scan,
				struct ldr_error *err)
{
	LDR_AUTO_FREE struct ldr_scan_report *own = calloc(1, sizeof(*own));
	LDR_AUTO_SCAN struct ldr_scan *scan = NULL;
	struct ldr_scan_walk walk = {.folder_fd = -1, .report = report ? report : own};
	enum ldr_status status = own ? scan_new(dir, &scan, err) : no_memory(err);

	if (!scan)
		return status;
	if (options && options->size < sizeof(*options))
		return ldr_fail(err, LDR_EINVAL, "scan options of %zu bytes, %zu expected",
				options->size, sizeof(*options));
	if (options)
		walk.options = *options;
	if (walk.options.max_entries == 0 || walk.options.max_entries > MAX_ENTRIES_DEFAULT)
		walk.options.max_entries = MAX_ENTRIES_DEFAULT;
	walk.report->count = walk.report->row_count = 0;
	walk.scan = scan;
	status = walk_all(&walk, err);
	if (!status)
		status = ldr_scan_verdict(&walk, err);
	if (!status)
		*out_scan = LDR_STEAL(scan);
	return status;
}
