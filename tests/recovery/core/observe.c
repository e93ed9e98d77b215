/* Walking a recovered folder; see observe.h. */
#include "tests/recovery/core/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"

#define READ_BYTES 65536

enum ldr_status crash_look_init(struct crash_look *look, struct ldr_error *err)
{
	memset(look, 0, sizeof(*look));
	look->hasher = ldr_hasher_new();
	if (!look->hasher)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a digest");
	return LDR_OK;
}

static void forget(struct crash_look *look)
{
	for (size_t i = 0; i < look->seen.row_count; i++)
		free((char *)(uintptr_t)look->rows[i].name);
	free(look->failed_name);
	look->failed_name = NULL;
	memset(&look->seen, 0, sizeof(look->seen));
}

void crash_look_dispose(struct crash_look *look)
{
	forget(look);
	free(look->rows);
	ldr_hasher_free(look->hasher);
	memset(look, 0, sizeof(*look));
}

void crash_look_unmounted(struct crash_look *look, int mount_errno)
{
	forget(look);
	look->seen.mount_errno = mount_errno;
}

/* The first thing that could not be read. */
static void failed(struct crash_look *look, const char *name, int error)
{
	if (look->seen.read_errno)
		return;
	look->seen.read_errno = error ? error : EIO;
	look->failed_name = strdup(name);
	look->seen.failed_name = look->failed_name ? look->failed_name : "?";
}

static int digest_file(struct crash_look *look, const char *path, struct ldr_id *out_id,
		       uint64_t *out_bytes)
{
	LDR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint8_t block[READ_BYTES];
	ssize_t got;

	if (fd < 0)
		return errno;
	*out_bytes = 0;
	ldr_hasher_begin(look->hasher);
	while ((got = read(fd, block, sizeof(block))) > 0) {
		ldr_hasher_update(look->hasher, block, (size_t)got);
		*out_bytes += (uint64_t)got;
	}
	ldr_hasher_end(look->hasher, out_id);
	return got < 0 ? errno : 0;
}

static enum ldr_status add_row(struct crash_look *look, const char *name, enum crash_kind kind,
			       struct crash_row **out_row, struct ldr_error *err)
{
	size_t room = look->row_room ? look->row_room * 2 : 32;
	struct crash_row *grown;
	char *copy;

	if (look->seen.row_count >= CRASH_ROWS_MAX)
		return ldr_fail(err, LDR_ELIMIT, "folder: more than %d names", CRASH_ROWS_MAX);
	if (look->seen.row_count == look->row_room) {
		grown = realloc(look->rows, room * sizeof(*grown));
		if (!grown)
			return ldr_fail(err, LDR_ENOMEM, "folder: no memory for %zu names", room);
		look->rows = grown;
		look->row_room = room;
	}
	look->seen.rows = look->rows;
	copy = strdup(name);
	if (!copy)
		return ldr_fail(err, LDR_ENOMEM, "folder: no memory for a name");
	*out_row = &look->rows[look->seen.row_count++];
	**out_row = (struct crash_row){.name = copy, .kind = kind};
	return LDR_OK;
}

static enum ldr_status see_entry(struct crash_look *look, const FTSENT *entry, const char *name,
				 struct ldr_error *err)
{
	enum crash_kind kind = CRASH_OTHER;
	struct crash_row *row = NULL;
	enum ldr_status status;
	int error;

	if (entry->fts_info == FTS_F)
		kind = CRASH_FILE;
	else if (entry->fts_info == FTS_D)
		kind = CRASH_FOLDER;
	else if (entry->fts_info == FTS_SL || entry->fts_info == FTS_SLNONE)
		kind = CRASH_SYMLINK;
	status = add_row(look, name, kind, &row, err);
	if (status || kind != CRASH_FILE)
		return status;
	error = digest_file(look, entry->fts_accpath, &row->sha256, &row->size_bytes);
	if (error)
		failed(look, name, error);
	return LDR_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

enum ldr_status crash_look_at(struct crash_look *look, const char *folder, struct ldr_error *err)
{
	char *const paths[] = {(char *)(uintptr_t)folder, NULL};
	size_t skip = strlen(folder) + 1;
	enum ldr_status status = LDR_OK;
	FTSENT *entry;
	FTS *walk;

	forget(look);
	walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, by_name);
	if (!walk)
		return ldr_fail_errno(err, errno, "folder %s", folder);
	while (!status && (entry = fts_read(walk))) {
		const char *name = entry->fts_pathlen >= skip ? entry->fts_path + skip : "";

		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR ||
		    entry->fts_info == FTS_NS)
			failed(look, name, entry->fts_errno);
		else if (entry->fts_info != FTS_DP && entry->fts_level > FTS_ROOTLEVEL)
			status = see_entry(look, entry, name, err);
	}
	fts_close(walk);
	return status;
}
