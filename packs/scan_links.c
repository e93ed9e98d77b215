/*
 * Scanning: what becomes of a symbolic link; see scan.h for the policies.
 *
 * A link inside a folder that is copied is judged against that folder: what it may not leave is the
 * folder that the copied link leads to, because only that comes along.
 */
#include <errno.h>
#include <string.h>

#include "common/os.h"
#include "packs/scan_priv.h"

/* A target as long as the system allows, and its NUL. */
#define TARGET_BYTES 4097

static enum ldr_status no_memory(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENOMEM, "scan: no memory for a link's target");
}

/* How many folders lie above an entry of the folder, up to the root or the nearest folder that a link
 * leads to. */
static unsigned depth_of(const struct ldr_scan_walk *walk)
{
	const struct ldr_scan_entry *entries = walk->scan->entries;
	unsigned depth = 0;

	for (uint32_t i = walk->folder; i != 0 && !entries[i].followed; i = entries[i].parent)
		depth++;
	return depth;
}

/* Whether the folder with this stamp is one of those that the walk is inside of. */
static bool leads_back(const struct ldr_scan_walk *walk, const struct ldr_stamp *stamp,
		       uint32_t *out_folder)
{
	const struct ldr_scan_entry *entries = walk->scan->entries;
	uint32_t i = walk->folder;

	for (;; i = entries[i].parent) {
		if (entries[i].stamp.inode == stamp->inode &&
		    entries[i].stamp.device == stamp->device) {
			*out_folder = i;
			return true;
		}
		if (i == 0)
			return false;
	}
}

static void refuse_loop(struct ldr_scan_walk *walk, struct ldr_scan_child *child,
			const char *target, uint32_t folder)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	char quoted_target[LDR_QUOTE_BYTES], quoted_path[LDR_QUOTE_BYTES];
	struct ldr_error fault = {.status = LDR_OK};
	size_t length = ldr_scan_path(walk->scan, folder, path);

	ldr_fail(&fault, LDR_ELINK, "link to \"%s\" leads back to the folder \"%s\" that it is in",
		 ldr_path_quote(target, strlen(target), quoted_target),
		 ldr_path_quote(path, length, quoted_path));
	ldr_scan_offence(walk, child, &fault);
}

static void refuse_target(struct ldr_scan_walk *walk, struct ldr_scan_child *child,
			  const char *target, enum ldr_status status, const char *why)
{
	char quoted[LDR_QUOTE_BYTES];
	struct ldr_error fault = {.status = LDR_OK};

	ldr_fail(&fault, status, "link to \"%s\" cannot be copied: %s",
		 ldr_path_quote(target, strlen(target), quoted), why);
	ldr_scan_offence(walk, child, &fault);
}

/* The entry becomes what the link leads to. */
static void copy_link(struct ldr_scan_walk *walk, struct ldr_scan_child *child, const char *target)
{
	struct ldr_scan_entry *entry = &child->entry;
	struct ldr_stamp stamp;
	struct stat found;
	uint32_t folder;
	int code = ldr_os_stat_followed(walk->folder_fd, entry->name, &found);

	if (code) {
		const char *why = strerrordesc_np(code);

		refuse_target(walk, child, target, LDR_ELINK, why ? why : "unknown error");
		return;
	}
	ldr_stamp_of(&found, &stamp);
	if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
		refuse_target(walk, child, target, LDR_ENOTREG,
			      "it leads to something that is neither a regular file nor a folder");
		return;
	}
	if (S_ISDIR(found.st_mode) && leads_back(walk, &stamp, &folder)) {
		refuse_loop(walk, child, target, folder);
		return;
	}
	entry->stamp = stamp;
	entry->mode = found.st_mode & 0777;
	entry->followed = true;
	entry->kind = S_ISDIR(found.st_mode) ? LDR_KIND_FOLDER : LDR_KIND_FILE;
	entry->outside = entry->kind == LDR_KIND_FOLDER;
}

static enum ldr_status keep_link(struct ldr_scan_walk *walk, struct ldr_scan_child *child,
				 const char *target, struct ldr_error *err)
{
	child->entry.target = ldr_scan_keep(walk->scan, target, strlen(target));
	if (!child->entry.target)
		return no_memory(err);
	child->entry.kind = LDR_KIND_SYMLINK;
	return LDR_OK;
}

static int read_target(const struct ldr_scan_walk *walk, const struct ldr_scan_child *child,
		       char target[TARGET_BYTES])
{
	return ldr_os_readlink_at(walk->folder_fd, child->entry.name, target, TARGET_BYTES);
}

enum ldr_status ldr_scan_link(struct ldr_scan_walk *walk, struct ldr_scan_child *child,
			      struct ldr_error *err)
{
	struct ldr_error fault = {.status = LDR_OK};
	char target[TARGET_BYTES], quoted[LDR_QUOTE_BYTES];
	int code = read_target(walk, child, target);

	if (code)
		return ldr_fail_errno(
			err, code, "link %s below %s",
			ldr_path_quote(child->entry.name, strlen(child->entry.name), quoted),
			walk->scan->dir);
	if (ldr_path_check_target(target, strlen(target), depth_of(walk), &fault) == LDR_OK)
		return keep_link(walk, child, target, err);
	switch (walk->options.links) {
	case LDR_LINKS_DROP:
		walk->scan->totals.dropped_links++;
		break;
	case LDR_LINKS_COPY:
		copy_link(walk, child, target);
		break;
	default:
		ldr_scan_offence(walk, child, &fault);
	}
	return LDR_OK;
}
