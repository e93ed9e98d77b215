/*
 * Installing a release as a folder; see install.h.
 */
#include "client/install.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/installation.h"
#include "client/plan.h"
#include "common/os.h"

/* Which record and plan were read: they are read before the lock is taken, so that a hostile release is
 * refused before the folder is touched, and again after it when somebody has changed them. */
struct sight {
	bool there[2];
	struct ldr_stamp stamps[2];
};

struct install {
	const struct ldr_install_request *request;
	struct ldr_stage_progress own_progress;
	struct ldr_stage_progress *progress;
	struct ldr_installation old;
	struct ldr_installation interrupted;
	bool has_old, has_interrupted;
	struct sight sight;
	const struct ldr_tree *tree;
	struct ldr_batch *batch;
	struct ldr_plan *plan;
};

/* A damaged record costs digesting every file, not the installation. */
static enum ldr_status read_one(const struct ldr_root *root, const char *path,
				struct ldr_installation *out, bool *out_has,
				struct ldr_install_outcome *outcome, struct ldr_error *err)
{
	struct ldr_error why = {0};
	enum ldr_status status = ldr_installation_read(root, path, out, &why);

	*out_has = status == LDR_OK;
	if (status == LDR_ECORRUPT || status == LDR_ELIMIT || status == LDR_EUNSUPPORTED)
		snprintf(outcome->trouble, sizeof(outcome->trouble), "ignored: %.200s", why.text);
	else if (status && status != LDR_ENOTFOUND)
		return ldr_fail(err, status, "%s", why.text);
	return LDR_OK;
}

static struct sight look(const struct ldr_root *root)
{
	static const char *const paths[2] = {LDR_INSTALLED_PATH, LDR_PLAN_PATH};
	struct sight sight = {0};

	for (int i = 0; i < 2; i++)
		sight.there[i] = ldr_root_observe(root, paths[i], &sight.stamps[i], NULL) == LDR_OK;
	return sight;
}

static enum ldr_status read_records(struct install *install, const struct ldr_root *root,
				    struct ldr_install_outcome *outcome, struct ldr_error *err)
{
	enum ldr_status status;

	install->sight = look(root);
	status = read_one(root, LDR_INSTALLED_PATH, &install->old, &install->has_old, outcome, err);
	if (!status)
		status = read_one(root, LDR_PLAN_PATH, &install->interrupted,
				  &install->has_interrupted, outcome, err);
	return status;
}

static enum ldr_status read_unlocked(struct install *install, struct ldr_install_outcome *outcome,
				     struct ldr_error *err)
{
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	struct ldr_error why = {0};
	enum ldr_status status = ldr_root_open(install->request->folder, false, &root, &why);

	if (status == LDR_ENOTFOUND)
		return LDR_OK;
	return status ? ldr_fail(err, status, "%s", why.text)
		      : read_records(install, root, outcome, err);
}

/* Under the lock. Another process may have finished an update since: its files would be nobody's. */
static enum ldr_status read_again(struct install *install, struct ldr_install_outcome *outcome,
				  struct ldr_error *err)
{
	const struct ldr_root *root = ldr_batch_target(install->batch);
	struct sight now = look(root);

	if (memcmp(&now, &install->sight, sizeof(now)) == 0)
		return LDR_OK;
	ldr_installation_dispose(&install->old);
	ldr_installation_dispose(&install->interrupted);
	return read_records(install, root, outcome, err);
}

/* An extraction keeps no record, so it must not take away that of an installation. */
static enum ldr_status refuse_installation(const struct install *install, struct ldr_error *err)
{
	if (!install->request->without_record || !install->sight.there[0])
		return LDR_OK;
	return ldr_fail(err, LDR_EEXISTS, "%s: is an installation (%s): update it with fetch",
			install->request->folder, LDR_INSTALLED_PATH);
}

static enum ldr_status write_record(struct install *install, const struct ldr_file_stamp *stamps,
				    struct ldr_buffer *out, struct ldr_error *err)
{
	const uint8_t *tree_bytes;
	const char *record;
	size_t tree_length, record_length;
	enum ldr_status status = ldr_view_tree_bytes(install->request->view, &tree_bytes,
						     &tree_length, err);

	if (status)
		return status;
	record = ldr_view_record(install->request->view, &record_length);
	return ldr_installation_write(record, record_length, tree_bytes, tree_length, stamps,
				      ldr_tree_node_count(install->tree), out, err);
}

/* An update was cut off and now another release is wanted: what the first one brought and the second has
 * not goes while the plan still names the first. Afterwards nothing would remember it. */
static enum ldr_status remove_interrupted(struct install *install, struct ldr_error *err)
{
	const struct ldr_installation *cut = &install->interrupted;
	LDR_AUTO_BUFFER struct ldr_buffer plan = {0};
	struct ldr_batch_plan steps = {
		.steps = install->plan->steps,
		.step_count = install->plan->removal_steps,
	};
	enum ldr_status status;

	if (!install->has_interrupted || !steps.step_count)
		return LDR_OK;
	status = ldr_installation_write(cut->record, cut->record_length, cut->tree_bytes,
					cut->tree_length, NULL, ldr_tree_node_count(cut->tree),
					&plan, err);
	steps.plan = plan.data;
	steps.plan_bytes = plan.length;
	return status ? status : ldr_batch_apply(install->batch, &steps, err);
}

static enum ldr_status apply(struct install *install, struct ldr_error *err)
{
	LDR_AUTO_BUFFER struct ldr_buffer plan = {0}, record = {0};
	struct ldr_batch_plan steps = {
		.steps = install->plan->steps,
		.step_count = install->plan->step_count,
	};
	enum ldr_status status = remove_interrupted(install, err);

	if (!status)
		status = write_record(install, NULL, &plan, err);
	if (!status && !install->request->without_record)
		status = write_record(install, install->plan->stamps, &record, err);
	if (status)
		return status;
	steps.plan = plan.data;
	steps.plan_bytes = plan.length;
	steps.record = record.data;
	steps.record_bytes = record.length;
	return ldr_batch_apply(install->batch, &steps, err);
}

/* The same release, installed and whole, with the record that says so. */
static bool nothing_to_do(const struct install *install)
{
	size_t length;
	const char *record = ldr_view_record(install->request->view, &length);

	return install->has_old && !install->has_interrupted && install->plan->step_count == 0 &&
	       !install->request->without_record && length == install->old.record_length &&
	       (length == 0 || memcmp(record, install->old.record, length) == 0);
}

static enum ldr_status compare_and_fill(struct install *install, struct ldr_error *err)
{
	const struct ldr_stage stage = {
		.batch = install->batch,
		.view = install->request->view,
		.old = install->has_old ? &install->old : NULL,
		.workers = install->request->workers,
		.progress = install->progress,
	};
	struct ldr_stage filled = stage;
	enum ldr_status status = ldr_plan_make(
		ldr_batch_target(install->batch), install->tree, stage.old,
		install->has_interrupted ? &install->interrupted : NULL, &install->plan, err);

	if (status || nothing_to_do(install))
		return status;
	filled.plan = install->plan;
	return ldr_stage_fill(&filled, err);
}

/* .larder with everything in it; for plain extractions. */
static enum ldr_status remove_private(struct install *install, struct ldr_error *err)
{
	static const char *const files[] = {"plan", "lock"};
	const struct ldr_root *root = ldr_batch_private(install->batch);
	enum ldr_status status = ldr_batch_sweep(install->batch, NULL, NULL, err);
	int code;

	if (!status)
		status = ldr_root_sweep(root, "", NULL, err);
	for (size_t i = 0; !status && i < sizeof(files) / sizeof(files[0]); i++) {
		struct ldr_error why = {0};

		status = ldr_root_remove(root, files[i], LDR_SYNC_NONE, &why);
		status = status == LDR_ENOTFOUND ? LDR_OK
			 : status                ? ldr_fail(err, status, "%s", why.text)
						 : LDR_OK;
	}
	if (status)
		return status;
	code = ldr_os_rmdir_at(ldr_root_fd(root), "tmp");
	if (!code || code == ENOENT)
		code = ldr_os_rmdir_at(ldr_root_fd(ldr_batch_target(install->batch)),
				       LDR_RESERVED_NAME);
	return code ? ldr_fail_errno(err, code, "%s/%s: not removed", install->request->folder,
				     LDR_RESERVED_NAME)
		    : LDR_OK;
}

static enum ldr_status run(struct install *install, struct ldr_install_outcome *out,
			   struct ldr_error *err)
{
	const struct ldr_install_request *request = install->request;
	enum ldr_status status = ldr_batch_begin(request->folder, request->sync, &install->batch,
						 err);

	if (!status)
		status = read_again(install, out, err);
	if (!status)
		status = refuse_installation(install, err);
	if (!status)
		status = compare_and_fill(install, err);
	if (status)
		return status;
	out->up_to_date = nothing_to_do(install);
	out->files_written = install->plan->file_count;
	out->files_removed = install->plan->removals;
	out->bytes_written = install->plan->bytes_to_write;
	out->bytes_reused = atomic_load(&install->progress->bytes_reused);
	/* Temporaries of a run that was cut off on its way to another release have no use now. */
	status = out->up_to_date ? ldr_batch_sweep(install->batch, NULL, NULL, err)
				 : apply(install, err);
	if (!status && request->without_record)
		status = remove_private(install, err);
	return status;
}

static void begin_counting(struct ldr_stage_progress *progress)
{
	atomic_store(&progress->bytes_total, 0);
	atomic_store(&progress->bytes_done, 0);
	atomic_store(&progress->bytes_reused, 0);
	atomic_store(&progress->files_done, 0);
}

enum ldr_status ldr_install(const struct ldr_install_request *request,
			    struct ldr_install_outcome *out, struct ldr_error *err)
{
	struct install install = {.request = request};
	enum ldr_status status;

	*out = (struct ldr_install_outcome){0};
	install.progress = request->progress ? request->progress : &install.own_progress;
	begin_counting(install.progress);
	status = read_unlocked(&install, out, err);
	if (!status)
		status = refuse_installation(&install, err);
	if (!status && install.has_old)
		ldr_view_offer_tree(request->view, install.old.tree_bytes, install.old.tree_length);
	if (!status)
		status = ldr_view_tree(request->view, &install.tree, err);
	if (!status) {
		out->totals = *ldr_tree_totals(install.tree);
		status = run(&install, out, err);
	}
	ldr_plan_free(install.plan);
	ldr_batch_end(install.batch);
	ldr_installation_dispose(&install.old);
	ldr_installation_dispose(&install.interrupted);
	return status;
}
