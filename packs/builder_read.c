/*
 * The builder's reading of files; see builder_priv.h.
 *
 * A file costs five calls to the system: open, fstat, read, fstat, close. It is taken only when both
 * stamps are equal and as many bytes came as they say. A file that fits into a batch is cut only after
 * that; of a larger one, blocks are already on their way when a change shows, and the second reading
 * leaves them unused.
 *
 * When all files have been read, their stamps are looked at once more, and what changed since is read
 * again: so the tree shows every file as it was at the end.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/os.h"
#include "packs/builder_priv.h"

/* One file while it is read. */
struct reading {
	uint32_t entry;
	int fd;
	const struct ldr_codec_choice *choice;
	struct ldr_stamp before;
	struct ldr_stamp after;
	uint16_t mode;
	uint64_t got;
};

/* ---- names and stamps ---- */

static enum ldr_status fail_file(const struct ldr_builder *builder, uint32_t entry, int code,
				 const char *what, struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1], quoted[LDR_QUOTE_BYTES];
	size_t length = ldr_scan_path(builder->scan, entry, path);

	return ldr_fail_errno(err, code, "%s file %s below %s", what,
			      ldr_path_quote(path, length, quoted), builder->scan->dir);
}

static enum ldr_status fail_kind(const struct ldr_builder *builder, uint32_t entry,
				 struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1], quoted[LDR_QUOTE_BYTES];
	size_t length = ldr_scan_path(builder->scan, entry, path);

	return ldr_fail(err, LDR_ECHANGED, "file %s below %s is no longer a regular file",
			ldr_path_quote(path, length, quoted), builder->scan->dir);
}

static enum ldr_status fail_changed(const struct ldr_builder *builder,
				    const struct reading *reading, struct ldr_error *err)
{
	const struct ldr_stamp *a = &reading->before, *b = &reading->after;
	char path[LDR_PATH_MAX_BYTES + 1], quoted[LDR_QUOTE_BYTES];
	size_t length = ldr_scan_path(builder->scan, reading->entry, path);

	return ldr_fail(
		err, LDR_ECHANGED,
		"file %s below %s changed again while it was read a second time: "
		"size %" PRIu64 ", modified %" PRId64 " ns, inode %" PRIu64 ", then size %" PRIu64
		", modified %" PRId64 " ns, inode %" PRIu64 " (%" PRIu64 " bytes read)",
		ldr_path_quote(path, length, quoted), builder->scan->dir, a->size_bytes,
		a->modified_ns, a->inode, b->size_bytes, b->modified_ns, b->inode, reading->got);
}

static bool same_stamp(const struct ldr_stamp *a, const struct ldr_stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size_bytes == b->size_bytes &&
	       a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

/* ---- opening ---- */

/* Makes builder->folder_fd the folder of this entry. */
static enum ldr_status enter_folder(struct ldr_builder *builder, uint32_t entry,
				    struct ldr_error *err)
{
	uint32_t folder = builder->scan->entries[entry].parent;

	if (builder->folder_fd >= 0 && builder->folder == folder)
		return LDR_OK;
	if (builder->folder_fd >= 0)
		ldr_os_close(ldr_steal_fd(&builder->folder_fd));
	builder->folder = folder;
	return ldr_scan_open_folder(builder->scan, folder, &builder->folder_fd, err);
}

static enum ldr_status open_file(struct ldr_builder *builder, uint32_t entry, int *out_fd,
				 struct ldr_error *err)
{
	const struct ldr_scan_entry *file = &builder->scan->entries[entry];
	enum ldr_status status = enter_folder(builder, entry, err);
	int code;

	if (status)
		return status;
	code = file->followed ? ldr_os_open_read_followed(builder->folder_fd, file->name, out_fd)
			      : ldr_os_open_read_at(builder->folder_fd, file->name, out_fd);
	if (code == ELOOP || code == ENXIO)
		return fail_kind(builder, entry, err);
	return code ? fail_file(builder, entry, code, "opening", err) : LDR_OK;
}

static enum ldr_status look(struct ldr_builder *builder, struct reading *reading,
			    struct ldr_stamp *out_stamp, struct ldr_error *err)
{
	struct stat found;
	int code = ldr_os_stat(reading->fd, &found);

	if (code)
		return fail_file(builder, reading->entry, code, "looking at", err);
	if (!S_ISREG(found.st_mode))
		return fail_kind(builder, reading->entry, err);
	ldr_stamp_of(&found, out_stamp);
	reading->mode = found.st_mode & 0777;
	return LDR_OK;
}

/* ---- reading ---- */

static enum ldr_status report(struct ldr_builder *builder, struct ldr_error *err)
{
	const struct ldr_build_options *options = &builder->options;

	if (!options->progress || options->progress(options->progress_context, &builder->progress))
		return LDR_OK;
	return ldr_fail(err, LDR_ECANCELLED, "building from %s was cancelled", builder->scan->dir);
}

static const struct ldr_codec_choice *choice_of(struct ldr_builder *builder, uint32_t entry)
{
	const struct ldr_build_options *options = &builder->options;
	const struct ldr_codec_choice *choice = NULL;
	char path[LDR_PATH_MAX_BYTES + 1];

	if (options->codec_for) {
		ldr_scan_path(builder->scan, entry, path);
		choice = options->codec_for(options->codec_context, path);
	}
	return choice ? choice : &options->codec;
}

static bool is_small(const struct reading *reading)
{
	return reading->before.size_bytes <= LDR_FEED_BYTES;
}

static bool is_whole(const struct reading *reading)
{
	return same_stamp(&reading->before, &reading->after) &&
	       reading->got == reading->before.size_bytes;
}

/* The whole file into the batch, not yet counted as pending. */
static enum ldr_status read_small(struct ldr_builder *builder, struct reading *reading,
				  struct ldr_error *err)
{
	size_t size = (size_t)reading->before.size_bytes, room, got = 0;
	uint8_t *to;
	enum ldr_status status = ldr_feed_room(builder, size, &to, &room, err);
	int code;

	if (status)
		return status;
	code = size ? ldr_os_pread(reading->fd, to, size, 0, &got) : 0;
	reading->got = got;
	return code ? fail_file(builder, reading->entry, code, "reading", err) : LDR_OK;
}

static enum ldr_status read_large(struct ldr_builder *builder, struct reading *reading,
				  struct ldr_error *err)
{
	uint64_t size = reading->before.size_bytes;
	enum ldr_status status = LDR_OK;
	bool end = false;

	reading->got = 0;
	while (!status && !end) {
		size_t room, got;
		uint8_t *to;
		int code;

		status = ldr_feed_room(builder, LDR_FEED_LEAST_BYTES, &to, &room, err);
		if (status)
			break;
		if (room > size - reading->got)
			room = (size_t)(size - reading->got);
		code = ldr_os_pread(reading->fd, to, room, reading->got, &got);
		if (code)
			return fail_file(builder, reading->entry, code, "reading", err);
		reading->got += got;
		builder->progress.bytes_read += got;
		end = got < room || reading->got == size;
		status = ldr_feed_put(builder, got, end, reading->choice, err);
		if (!status)
			status = report(builder, err);
	}
	return status;
}

static enum ldr_status read_once(struct ldr_builder *builder, struct reading *reading,
				 struct ldr_error *err)
{
	struct ldr_built_file *file = &builder->files[reading->entry];
	bool small = is_small(reading);
	enum ldr_status status;

	file->first = builder->blocks.count;
	status = small ? read_small(builder, reading, err) : read_large(builder, reading, err);
	if (!status)
		status = look(builder, reading, &reading->after, err);
	if (!status && small && is_whole(reading)) {
		builder->progress.bytes_read += reading->got;
		status = ldr_feed_put(builder, (size_t)reading->got, true, reading->choice, err);
	}
	file->count = builder->blocks.count - file->first;
	return status;
}

/* Opens and reads once; is_whole says whether the file kept still. */
static enum ldr_status open_and_read(struct ldr_builder *builder, struct reading *reading,
				     struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	enum ldr_status status = open_file(builder, reading->entry, &fd, err);

	if (status)
		return status;
	reading->fd = fd;
	status = look(builder, reading, &reading->before, err);
	if (status)
		return status;
	if (!reading->choice)
		reading->choice = choice_of(builder, reading->entry);
	return read_once(builder, reading, err);
}

/* It is opened anew for a second reading, since another file may have been put in its place. */
static enum ldr_status read_file(struct ldr_builder *builder, uint32_t entry, unsigned readings,
				 struct ldr_error *err)
{
	struct ldr_scan_entry *file = &builder->scan->entries[entry];
	struct reading reading = {.entry = entry};
	enum ldr_status status = open_and_read(builder, &reading, err);

	while (!status && !is_whole(&reading)) {
		if (--readings == 0)
			return fail_changed(builder, &reading, err);
		builder->result.stats.files_read_again++;
		status = open_and_read(builder, &reading, err);
	}
	if (status)
		return status;
	file->stamp = reading.after;
	file->mode = reading.mode;
	return LDR_OK;
}

/* ---- all files ---- */

/* A file whose stamp is not the one that it was read with is read a second time. */
static enum ldr_status read_if_changed(struct ldr_builder *builder, uint32_t entry,
				       struct ldr_error *err)
{
	const struct ldr_scan_entry *file = &builder->scan->entries[entry];
	enum ldr_status status = enter_folder(builder, entry, err);
	struct ldr_stamp now;
	struct stat found;
	int code;

	if (status)
		return status;
	code = file->followed ? ldr_os_stat_followed(builder->folder_fd, file->name, &found)
			      : ldr_os_stat_at(builder->folder_fd, file->name, &found);
	if (code)
		return fail_file(builder, entry, code, "looking again at", err);
	ldr_stamp_of(&found, &now);
	if (same_stamp(&now, &file->stamp))
		return LDR_OK;
	builder->result.stats.files_read_again++;
	return read_file(builder, entry, 1, err);
}

enum ldr_status ldr_builder_read_all(struct ldr_builder *builder, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	builder->progress.files_total = builder->order_count;
	builder->progress.bytes_total = builder->scan->totals.bytes;
	for (uint32_t i = 0; i < builder->order_count && !status; i++) {
		status = read_file(builder, builder->order[i], 2, err);
		builder->progress.files_read++;
		if (!status)
			status = report(builder, err);
	}
	for (uint32_t i = 1; i < builder->scan->count && !status; i++)
		if (builder->scan->entries[i].kind == LDR_KIND_FILE)
			status = read_if_changed(builder, i, err);
	return status;
}
