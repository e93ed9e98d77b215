/*
 * What an installation or update has to do; see plan.h. This file compares disk, old and wanted;
 * plan_blocks.c says which blocks the temporaries need and where they may come from.
 *
 * Invariants
 *  1. Nothing on the disk is changed here.
 *  2. The disk is looked at beneath the target only: one folder's descriptor at a time, opened by the
 *     kernel beneath the target, and single names in it, never through a symlink.
 *  3. A file is kept only with the stamp it was installed with, or with its bytes digested.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/plan_priv.h"
#include "common/digest.h"
#include "common/os.h"

struct comparison {
	const struct ldr_root *target;
	const struct ldr_installation *old;
	struct ldr_plan *plan;
	bool *present; /* by node: this folder is on the disk */
	int folder_fd; /* of folder_node, or -1 */
	uint32_t folder_node;
	char path[LDR_PATH_MAX_BYTES + 1]; /* of the node at hand */
	struct ldr_hasher *hasher;
	uint8_t *buffer;
};

static bool same_content(const struct ldr_tree *a, const struct ldr_tree_node *a_node,
			 const struct ldr_tree *b, const struct ldr_tree_node *b_node)
{
	if (a_node->block_count != b_node->block_count || a_node->size_bytes != b_node->size_bytes)
		return false;
	return a_node->block_count == 0 ||
	       memcmp(ldr_tree_block(a, a_node->first_block),
		      ldr_tree_block(b, b_node->first_block),
		      a_node->block_count * sizeof(struct ldr_block_ref)) == 0;
}

static struct ldr_file_stamp stamp_of(const struct stat *stat)
{
	return (struct ldr_file_stamp){
		.modified_ns = (uint64_t)stat->st_mtim.tv_sec * 1000000000u +
			       (uint64_t)stat->st_mtim.tv_nsec,
		.inode = stat->st_ino,
	};
}

static bool has_installed_stamp(const struct comparison *comparison,
				const struct ldr_tree_node *wanted, const struct stat *stat)
{
	const struct ldr_installation *old = comparison->old;
	struct ldr_file_stamp now = stamp_of(stat), then;
	struct ldr_tree_node node;
	uint32_t found;

	if (!old || !ldr_tree_find(old->tree, comparison->path, strlen(comparison->path), &found))
		return false;
	ldr_tree_node(old->tree, found, &node);
	then = ldr_installation_stamp(old, found);
	return node.kind == LDR_KIND_FILE && then.inode && then.inode == now.inode &&
	       then.modified_ns == now.modified_ns &&
	       (uint64_t)stat->st_size == wanted->size_bytes &&
	       same_content(old->tree, &node, comparison->plan->tree, wanted);
}

/* The bytes of a file of the right size are the wanted ones. A file that cannot be read is not kept. */
static bool has_wanted_bytes(struct comparison *comparison, int folder_fd, const char *name,
			     const struct ldr_tree_node *wanted)
{
	LDR_AUTO_FD int fd = -1;
	uint64_t offset = 0;

	if (ldr_os_open_read_at(folder_fd, name, &fd))
		return false;
	for (uint64_t i = 0; i < wanted->block_count; i++) {
		const struct ldr_block_ref *block = ldr_tree_block(comparison->plan->tree,
								   wanted->first_block + i);
		struct ldr_id id;
		size_t got;

		if (ldr_os_pread(fd, comparison->buffer, block->plain_bytes, offset, &got) ||
		    got != block->plain_bytes)
			return false;
		ldr_digest(comparison->hasher, comparison->buffer, got, &id);
		if (!ldr_id_equal(&id, &block->id))
			return false;
		offset += got;
	}
	return true;
}

static bool make_room(struct ldr_plan *plan)
{
	size_t room = plan->step_room ? plan->step_room * 2 : 1024;
	struct ldr_batch_step *steps = realloc(plan->steps, room * sizeof(*steps));
	char **strings;

	if (!steps)
		return false;
	plan->steps = steps;
	strings = realloc(plan->strings, 2 * room * sizeof(*strings));
	if (!strings)
		return false;
	plan->strings = strings;
	plan->step_room = room;
	return true;
}

enum ldr_status ldr_plan_step(struct ldr_plan *plan, enum ldr_batch_kind kind, const char *path,
			      const char *source, size_t source_length, uint32_t mode,
			      struct ldr_error *err)
{
	char **strings;

	if (plan->step_count == plan->step_room && !make_room(plan))
		return ldr_fail(err, LDR_ENOMEM, "plan of %zu steps", plan->step_count + 1);
	strings = plan->strings + 2 * plan->step_count;
	strings[0] = strdup(path);
	strings[1] = source ? strndup(source, source_length) : NULL;
	plan->steps[plan->step_count++] = (struct ldr_batch_step){
		.kind = kind, .path = strings[0], .source = strings[1], .mode = mode};
	if (!strings[0] || (source && !strings[1]))
		return ldr_fail(err, LDR_ENOMEM, "plan: %s: out of memory", path);
	return LDR_OK;
}

/* A name of a tree with a NUL behind it. */
static const char *terminated(const struct ldr_tree_node *node, char name[LDR_NAME_MAX_BYTES + 1])
{
	memcpy(name, node->name, node->name_bytes);
	name[node->name_bytes] = '\0';
	return name;
}

static enum ldr_status compare_folder(struct comparison *comparison, uint32_t index,
				      const struct ldr_tree_node *node, const struct stat *stat,
				      struct ldr_error *err)
{
	enum ldr_batch_kind kind = LDR_BATCH_FOLDER;

	comparison->present[index] = stat && S_ISDIR(stat->st_mode);
	if (comparison->present[index]) {
		if ((stat->st_mode & 0777) == node->mode)
			return LDR_OK;
		kind = LDR_BATCH_MODE;
	}
	return ldr_plan_step(comparison->plan, kind, comparison->path, NULL, 0, node->mode, err);
}

static enum ldr_status compare_file(struct comparison *comparison, uint32_t index,
				    const struct ldr_tree_node *node, const struct stat *stat,
				    struct ldr_error *err)
{
	char name[LDR_NAME_MAX_BYTES + 1];
	struct ldr_plan *plan = comparison->plan;
	bool keep = stat && S_ISREG(stat->st_mode) && (uint64_t)stat->st_size == node->size_bytes &&
		    (has_installed_stamp(comparison, node, stat) ||
		     has_wanted_bytes(comparison, comparison->folder_fd, terminated(node, name),
				      node));

	if (!keep)
		return ldr_plan_file(plan, index, node, comparison->path, comparison->hasher, err);
	plan->stamps[index] = stamp_of(stat);
	if ((stat->st_mode & 0777) == node->mode)
		return LDR_OK;
	return ldr_plan_step(plan, LDR_BATCH_MODE, comparison->path, NULL, 0, node->mode, err);
}

static enum ldr_status compare_symlink(struct comparison *comparison,
				       const struct ldr_tree_node *node, const struct stat *stat,
				       struct ldr_error *err)
{
	char name[LDR_NAME_MAX_BYTES + 1];
	char target[LDR_PATH_MAX_BYTES + 2];

	if (stat && S_ISLNK(stat->st_mode) &&
	    ldr_os_readlink_at(comparison->folder_fd, terminated(node, name), target,
			       sizeof(target)) == 0 &&
	    strlen(target) == node->target_bytes &&
	    memcmp(target, node->target, node->target_bytes) == 0)
		return LDR_OK;
	return ldr_plan_step(comparison->plan, LDR_BATCH_SYMLINK, comparison->path, node->target,
			     node->target_bytes, 0777, err);
}

/* Opens the folder that the node lies in, unless it is open; false when it is not on the disk. */
static enum ldr_status enter(struct comparison *comparison, uint32_t folder, bool *out_there,
			     struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	int code;

	*out_there = comparison->present[folder];
	if (!*out_there || (comparison->folder_fd >= 0 && comparison->folder_node == folder))
		return LDR_OK;
	if (comparison->folder_fd >= 0)
		ldr_os_close(comparison->folder_fd);
	comparison->folder_fd = -1;
	ldr_tree_path(comparison->plan->tree, folder, path);
	code = ldr_os_open_folder_beneath(ldr_root_fd(comparison->target), folder ? path : ".",
					  &comparison->folder_fd);
	if (code)
		return ldr_fail_errno(err, code, "%s/%s", ldr_root_path(comparison->target), path);
	comparison->folder_node = folder;
	return LDR_OK;
}

static enum ldr_status compare_node(struct comparison *comparison, uint32_t index,
				    struct ldr_error *err)
{
	char name[LDR_NAME_MAX_BYTES + 1];
	struct ldr_tree_node node;
	struct stat stat;
	int code = ENOENT;
	bool there;
	enum ldr_status status;

	ldr_tree_node(comparison->plan->tree, index, &node);
	ldr_tree_path(comparison->plan->tree, index, comparison->path);
	status = enter(comparison, node.parent, &there, err);
	if (status)
		return status;
	if (there)
		code = ldr_os_stat_at(comparison->folder_fd, terminated(&node, name), &stat);
	if (code && code != ENOENT)
		return ldr_fail_errno(err, code, "%s/%s", ldr_root_path(comparison->target),
				      comparison->path);
	if (node.kind == LDR_KIND_FOLDER)
		return compare_folder(comparison, index, &node, code ? NULL : &stat, err);
	if (node.kind == LDR_KIND_FILE)
		return compare_file(comparison, index, &node, code ? NULL : &stat, err);
	return compare_symlink(comparison, &node, code ? NULL : &stat, err);
}

/* Paths of an older tree that the wanted one has not, or not as the same kind of thing. */
static enum ldr_status plan_removals(struct ldr_plan *plan, const struct ldr_installation *old,
				     struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_tree_node node, wanted;
	enum ldr_status status = LDR_OK;
	uint32_t found;

	for (uint32_t i = 1; !status && i < ldr_tree_node_count(old->tree); i++) {
		size_t length = ldr_tree_path(old->tree, i, path);
		bool stays = ldr_tree_find(plan->tree, path, length, &found);

		ldr_tree_node(old->tree, i, &node);
		if (stays) {
			ldr_tree_node(plan->tree, found, &wanted);
			/* Files and links are replaced by what comes in their place. */
			stays = node.kind != LDR_KIND_FOLDER || wanted.kind == LDR_KIND_FOLDER;
		}
		if (stays)
			continue;
		if (node.kind != LDR_KIND_FOLDER)
			plan->removals++;
		status = ldr_plan_step(
			plan, node.kind == LDR_KIND_FOLDER ? LDR_BATCH_UNMAKE : LDR_BATCH_REMOVE,
			path, NULL, 0, 0, err);
	}
	return status;
}

static enum ldr_status compare(struct comparison *comparison, struct ldr_error *err)
{
	uint32_t count = ldr_tree_node_count(comparison->plan->tree);
	enum ldr_status status = LDR_OK;

	comparison->hasher = ldr_hasher_new();
	comparison->buffer = malloc(LDR_BLOCK_MAX_BYTES);
	comparison->present = calloc(count, sizeof(*comparison->present));
	if (!comparison->hasher || !comparison->buffer || !comparison->present)
		return ldr_fail(err, LDR_ENOMEM, "plan: out of memory");
	comparison->present[0] = true;
	for (uint32_t i = 1; !status && i < count; i++)
		status = compare_node(comparison, i, err);
	return status;
}

static enum ldr_status make(struct ldr_plan *plan, const struct ldr_root *target,
			    const struct ldr_installation *old,
			    const struct ldr_installation *interrupted, struct ldr_error *err)
{
	struct comparison comparison = {
		.target = target, .old = old, .plan = plan, .folder_fd = -1};
	enum ldr_status status = LDR_OK;

	plan->stamps = calloc(ldr_tree_node_count(plan->tree), sizeof(*plan->stamps));
	if (!plan->stamps)
		return ldr_fail(err, LDR_ENOMEM, "plan: out of memory");
	if (old)
		status = plan_removals(plan, old, err);
	if (!status && interrupted)
		status = plan_removals(plan, interrupted, err);
	plan->removal_steps = plan->step_count;
	if (!status)
		status = compare(&comparison, err);
	if (comparison.folder_fd >= 0)
		ldr_os_close(comparison.folder_fd);
	ldr_hasher_free(comparison.hasher);
	free(comparison.buffer);
	free(comparison.present);
	return status ? status : ldr_plan_blocks(plan, old, err);
}

enum ldr_status ldr_plan_make(const struct ldr_root *target, const struct ldr_tree *tree,
			      const struct ldr_installation *old,
			      const struct ldr_installation *interrupted,
			      struct ldr_plan **out_plan, struct ldr_error *err)
{
	struct ldr_plan *plan = calloc(1, sizeof(*plan));
	enum ldr_status status;

	if (!plan)
		return ldr_fail(err, LDR_ENOMEM, "plan: out of memory");
	plan->tree = tree;
	status = make(plan, target, old, interrupted, err);
	if (status)
		ldr_plan_free(plan);
	else
		*out_plan = plan;
	return status;
}

void ldr_plan_free(struct ldr_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < 2 * plan->step_count; i++)
		free(plan->strings[i]);
	free(plan->strings);
	free(plan->steps);
	free(plan->stamps);
	free(plan->files);
	free(plan->destinations);
	free(plan->wanted);
	free(plan);
}
