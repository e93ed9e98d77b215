/*
 * Checking an installation against the tree it was installed from; see install.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/install.h"
#include "common/os.h"

struct check {
	const struct ldr_root *root;
	const struct ldr_tree *tree;
	struct ldr_hasher *hasher;
	uint8_t *buffer;
	void (*each_fault)(void *context, const char *path, const char *what);
	void *context;
	struct ldr_check_report *report;
};

static void fault(struct check *check, const char *path, const char *what)
{
	check->report->faults++;
	if (check->each_fault)
		check->each_fault(check->context, path, what);
}

static void check_mode(struct check *check, const struct ldr_tree_node *node,
		       const struct stat *stat, const char *path)
{
	char what[80];

	if ((stat->st_mode & 0777) == node->mode)
		return;
	snprintf(what, sizeof(what), "mode %03o, wanted %03o", (unsigned)stat->st_mode & 0777,
		 node->mode);
	fault(check, path, what);
}

static void check_file(struct check *check, const struct ldr_tree_node *node, const char *path)
{
	struct ldr_error error = {0};
	LDR_AUTO_FD int fd = -1;
	uint64_t offset = 0;
	struct stat stat = {0};
	char what[160];

	if (ldr_root_open_file(check->root, path, &fd, &error)) {
		fault(check, path, ldr_status_text(error.status));
		return;
	}
	if (ldr_os_stat(fd, &stat) || (uint64_t)stat.st_size != node->size_bytes) {
		snprintf(what, sizeof(what), "%llu bytes, wanted %llu",
			 (unsigned long long)stat.st_size, (unsigned long long)node->size_bytes);
		fault(check, path, what);
		return;
	}
	check_mode(check, node, &stat, path);
	for (uint64_t i = 0; i < node->block_count; i++) {
		const struct ldr_block_ref *block = ldr_tree_block(check->tree,
								   node->first_block + i);
		struct ldr_id id;
		size_t got = 0;

		if (ldr_os_pread(fd, check->buffer, block->plain_bytes, offset, &got) == 0 &&
		    got == block->plain_bytes)
			ldr_digest(check->hasher, check->buffer, got, &id);
		if (got != block->plain_bytes || !ldr_id_equal(&id, &block->id)) {
			snprintf(what, sizeof(what), "other bytes from offset %llu on",
				 (unsigned long long)offset);
			fault(check, path, what);
			return;
		}
		offset += got;
	}
	check->report->bytes += offset;
}

/* Folders and links: looked at by their name in the folder above. */
static void check_other(struct check *check, const struct ldr_tree_node *node, const char *path)
{
	char target[LDR_PATH_MAX_BYTES + 2];
	const char *slash = strrchr(path, '/');
	LDR_AUTO_FREE char *folder = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
	const char *name = slash ? slash + 1 : path;
	LDR_AUTO_FD int fd = -1;
	struct stat stat;

	if (!folder || ldr_os_open_folder_beneath(ldr_root_fd(check->root), folder, &fd) ||
	    ldr_os_stat_at(fd, name, &stat)) {
		fault(check, path, "not there");
		return;
	}
	if (node->kind == LDR_KIND_FOLDER) {
		if (!S_ISDIR(stat.st_mode))
			fault(check, path, "is not a folder");
		else
			check_mode(check, node, &stat, path);
		return;
	}
	if (!S_ISLNK(stat.st_mode) || ldr_os_readlink_at(fd, name, target, sizeof(target)) != 0 ||
	    strlen(target) != node->target_bytes ||
	    memcmp(target, node->target, node->target_bytes) != 0)
		fault(check, path, "is not the link that was installed");
}

/* The differences are then those of an update that was not finished. */
static bool is_cut_off(const struct check *check)
{
	struct ldr_stamp stamp;

	return ldr_root_observe(check->root, LDR_PLAN_PATH, &stamp, NULL) == LDR_OK;
}

static enum ldr_status check_tree(struct check *check, struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_tree_node node;

	check->hasher = ldr_hasher_new();
	check->buffer = malloc(LDR_BLOCK_MAX_BYTES);
	if (!check->hasher || !check->buffer)
		return ldr_fail(err, LDR_ENOMEM, "checking: out of memory");
	for (uint32_t i = 1; i < ldr_tree_node_count(check->tree); i++) {
		ldr_tree_path(check->tree, i, path);
		ldr_tree_node(check->tree, i, &node);
		if (node.kind != LDR_KIND_FILE) {
			check_other(check, &node, path);
			continue;
		}
		check->report->files++;
		check_file(check, &node, path);
	}
	if (check->report->faults)
		return ldr_fail(
			err, LDR_ECORRUPT, "%s: %llu differences%s", ldr_root_path(check->root),
			(unsigned long long)check->report->faults,
			is_cut_off(check) ? ": an update was cut off, fetch finishes it" : "");
	return LDR_OK;
}

enum ldr_status ldr_install_check(
	const char *folder, void (*each_fault)(void *context, const char *path, const char *what),
	void *context, struct ldr_check_report *out, struct ldr_error *err)
{
	LDR_AUTO_INSTALLATION struct ldr_installation installed = {0};
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	struct check check = {.each_fault = each_fault, .context = context, .report = out};
	enum ldr_status status = ldr_root_open(folder, false, &root, err);

	*out = (struct ldr_check_report){0};
	if (!status)
		status = ldr_installation_read(root, LDR_INSTALLED_PATH, &installed, err);
	if (status == LDR_ENOTFOUND)
		return ldr_error_prefix(err, status, "%s: nothing is installed there", folder);
	if (status)
		return status;
	check.root = root;
	check.tree = installed.tree;
	status = check_tree(&check, err);
	ldr_hasher_free(check.hasher);
	free(check.buffer);
	return status;
}
