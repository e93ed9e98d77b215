/* Workers and their items; see lab.h. */
#include "tests/recovery/core/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/facts.h"
#include "tests/recovery/core/process.h"

#define WORKERS_MAX 64
#define SEED_LIMIT_MS 120000
#define TRIAL_LIMIT_MS 1200000

/* Shared by all processes of a campaign. */
struct shared {
	atomic_size_t next;
	time_t began_s; /* CLOCK_MONOTONIC */
	struct crash_outcome outcomes[WORKERS_MAX];
	struct crash_result results[];
};

struct worker {
	const struct crash_lab *lab;
	struct shared *shared;
	struct crash_place place;
	struct crash_outcome *outcome;
	struct crash_subject subject;
	json_t *tools; /* owns */
	const struct crash_item *item;
	const struct crash_leg *leg;
	struct crash_result *result;
	unsigned kept;
};

struct campaign {
	const struct crash_lab *lab;
	struct shared *shared;
};

/* ---- processes ------------------------------------------------------------------------------------ */

/* A trial that hangs waits for its recorder, which must end first. */
static int wait_trial(struct worker *worker, pid_t child, unsigned limit_ms)
{
	struct pollfd wanted = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
	int ready;

	do {
		ready = poll(&wanted, 1, (int)limit_ms);
	} while (ready < 0 && errno == EINTR);
	if (wanted.fd >= 0)
		close(wanted.fd);
	if (ready == 0 && worker->outcome->daemon > 0)
		kill(worker->outcome->daemon, SIGKILL);
	return crash_wait(child, ready == 0 ? 1 : 10000);
}

static void note_failure(struct worker *worker, const char *what, int rc)
{
	struct crash_result *result = worker->result;

	result->failed++;
	if (result->text[0])
		return;
	if (worker->outcome->text[0])
		snprintf(result->text, sizeof(result->text), "%s: %.400s", what,
			 worker->outcome->text);
	else
		snprintf(result->text, sizeof(result->text), "%s: ended with status %d", what, rc);
}

static void seed_in_child(struct worker *worker)
{
	struct ldr_error err = {0};

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		_exit(1);
	if (crash_record_seed(&worker->place, worker->leg, &worker->subject, &err) != LDR_OK) {
		snprintf(worker->outcome->text, sizeof(worker->outcome->text), "%.500s", err.text);
		_exit(1);
	}
	_exit(0);
}

static bool make_seed(struct worker *worker)
{
	pid_t parent = getpid(), child;
	int rc;

	memset(worker->outcome, 0, sizeof(*worker->outcome));
	child = fork();
	if (child == 0) {
		crash_die_with(parent);
		seed_in_child(worker);
	}
	rc = child < 0 ? 1 : crash_wait(child, SEED_LIMIT_MS);
	if (rc != 0)
		note_failure(worker, "seed", rc);
	return rc == 0;
}

static void trial_in_child(struct worker *worker, const char *inject, struct crash_fault fault)
{
	struct crash_trial trial = {.place = &worker->place,
				    .leg = worker->leg,
				    .item = worker->item,
				    .subject = &worker->subject,
				    .tools = worker->tools,
				    .inject = inject,
				    .fault = fault,
				    .seed = worker->lab->seed,
				    .out_folder = worker->lab->out_folder,
				    .keep_failures = !worker->item->expect_violations &&
						     worker->kept < CRASH_KEEP_MAX,
				    .keep_all = worker->lab->keep_all,
				    .outcome = worker->outcome};

	crash_trial_run(&trial);
	_exit(0);
}

static void one_trial(struct worker *worker, const char *inject, struct crash_fault fault)
{
	struct crash_outcome *outcome = worker->outcome;
	char what[96];
	pid_t parent = getpid(), child;
	int rc;

	memset(outcome, 0, sizeof(*outcome));
	child = fork();
	if (child == 0) {
		crash_die_with(parent);
		trial_in_child(worker, inject, fault);
	}
	rc = child < 0 ? 1 : wait_trial(worker, child, TRIAL_LIMIT_MS);
	umount2(worker->place.fuse, MNT_DETACH);
	worker->result->recordings++;
	worker->result->states += outcome->states;
	worker->result->enumerated += outcome->enumerated;
	worker->result->violations += outcome->violations;
	worker->result->agreed += outcome->agreed;
	worker->kept += outcome->violations > 0;
	if (outcome->finished)
		return;
	snprintf(what, sizeof(what), "inject %s fault %c%u", inject, fault.kind ? fault.kind : '-',
		 fault.number);
	note_failure(worker, what, rc);
}

/* ---- items ---------------------------------------------------------------------------------------- */

static void injected_trials(struct worker *worker, const char *kind, size_t marks)
{
	const struct crash_item *item = worker->item;
	const struct crash_fault none = {0};
	char inject[64];

	if (item->inject & CRASH_INJECT_ALL) {
		snprintf(inject, sizeof(inject), "all:%s", kind);
		one_trial(worker, inject, none);
	}
	for (size_t n = 1; item->inject & CRASH_INJECT_EACH && n <= marks; n++) {
		snprintf(inject, sizeof(inject), "%zu:%s", n, kind);
		one_trial(worker, inject, none);
	}
	for (unsigned n = 0; n < item->random; n++) {
		snprintf(inject, sizeof(inject), "random:%" PRIu64 ":%s", worker->lab->seed + n,
			 kind);
		one_trial(worker, inject, none);
	}
}

static void fault_trials(struct worker *worker, size_t writes, size_t flushes)
{
	for (unsigned n = 1; n <= worker->item->faults && n <= writes; n++)
		one_trial(worker, "none", (struct crash_fault){'w', n});
	for (unsigned n = 1; n <= worker->item->faults && n <= flushes; n++)
		one_trial(worker, "none", (struct crash_fault){'f', n});
}

static void all_trials(struct worker *worker)
{
	const struct crash_item *item = worker->item;
	size_t marks = 0, writes = 0, flushes = 0;

	/* What comes next needs the counts of a plain run. */
	if (item->inject & (CRASH_INJECT_NONE | CRASH_INJECT_EACH) || item->faults) {
		one_trial(worker, "none", (struct crash_fault){0});
		marks = worker->outcome->marks;
		writes = worker->outcome->writes;
		flushes = worker->outcome->flushes;
	}
	if (item->kinds & CRASH_KIND_COMMIT)
		injected_trials(worker, worker->leg->commit_kind, marks);
	if (item->kinds & CRASH_KIND_WRITEBACK)
		injected_trials(worker, "w", marks);
	fault_trials(worker, writes, flushes);
}

/* "@probe" is the program beside ours. */
static bool resolve(struct worker *worker, char *path, size_t room)
{
	const struct crash_item *item = worker->item;
	const char *program = item->words[0];

	if (*program == '@')
		snprintf(path, room, "%s/%s", worker->lab->programs, program + 1);
	else
		snprintf(path, room, "%s", program);
	worker->subject.argv[0] = path;
	for (size_t i = 1; i < item->word_count; i++)
		worker->subject.argv[i] = item->words[i];
	worker->subject.words = item->word_count;
	return access(path, X_OK) == 0;
}

static void one_item(struct worker *worker)
{
	char path[CRASH_PATH_BYTES];
	struct ldr_error err = {0};

	worker->kept = 0;
	worker->result->run = true;
	memset(worker->outcome, 0, sizeof(*worker->outcome));
	if (!resolve(worker, path, sizeof(path))) {
		snprintf(worker->outcome->text, sizeof(worker->outcome->text), "no program %.400s",
			 path);
		note_failure(worker, "subject", 127);
		return;
	}
	crash_facts_digest(worker->tools, "subject", path);
	if (crash_subject_describe(&worker->subject, worker->place.output, &err) != LDR_OK) {
		snprintf(worker->outcome->text, sizeof(worker->outcome->text), "%.500s", err.text);
		note_failure(worker, "describe", 1);
	} else if (make_seed(worker)) {
		all_trials(worker);
	}
	crash_subject_dispose(&worker->subject);
}

bool crash_lab_wants(const struct crash_lab *lab, const struct crash_item *item, unsigned leg)
{
	return !item->pending && item->legs & lab->legs & 1u << leg &&
	       (!lab->only || strstr(item->name, lab->only));
}

static bool in_time(const struct worker *worker)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return !worker->lab->minutes ||
	       now.tv_sec - worker->shared->began_s < (time_t)worker->lab->minutes * 60;
}

static size_t common_divisor(size_t a, size_t b)
{
	while (b) {
		size_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Each number once, far from its neighbours: what is left out at the end of the time is of all sorts. */
static size_t spread(const struct crash_lab *lab, size_t index, size_t total)
{
	size_t stride = total * 5 / 8 + 1;

	while (common_divisor(stride, total) != 1)
		stride++;
	return lab->minutes ? index * stride % total : index;
}

static int work(struct worker *worker)
{
	const struct crash_lab *lab = worker->lab;
	size_t total = lab->plan->count * crash_leg_count, index;

	worker->tools = crash_facts_tools(lab->programs, lab->recorder);
	while (in_time(worker) && (index = atomic_fetch_add(&worker->shared->next, 1)) < total) {
		unsigned leg;

		index = spread(lab, index, total);
		leg = (unsigned)(index % crash_leg_count);

		worker->item = &lab->plan->items[index / crash_leg_count];
		worker->leg = &crash_legs[leg];
		worker->result = &worker->shared->results[index];
		if (crash_lab_wants(lab, worker->item, leg))
			one_item(worker);
	}
	json_decref(worker->tools);
	return 0;
}

static pid_t start_worker(const struct campaign *campaign, const char *folder, unsigned number)
{
	struct worker worker = {.lab = campaign->lab,
				.shared = campaign->shared,
				.outcome = &campaign->shared->outcomes[number]};
	char path[CRASH_PATH_BYTES / 2];
	struct ldr_error err = {0};
	pid_t parent = getpid(), child = fork();

	if (child != 0)
		return child;
	crash_die_with(parent);
	snprintf(path, sizeof(path), "%s/%u", folder, number);
	if (crash_place_make(&worker.place, path, campaign->lab->recorder, &err) != LDR_OK) {
		fprintf(stderr, "crashlab: %s\n", err.text);
		_exit(1);
	}
	_exit(work(&worker));
}

static int all_workers(void *context, const char *folder)
{
	const struct campaign *campaign = context;
	unsigned jobs = campaign->lab->jobs < WORKERS_MAX ? campaign->lab->jobs : WORKERS_MAX;
	int status, rc = 0;
	pid_t child;

	for (unsigned i = 0; i < jobs; i++) {
		if (start_worker(campaign, folder, i) < 0)
			rc = 1;
	}
	while ((child = wait(&status)) > 0 || errno == EINTR) {
		if (child > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
			rc = 1;
	}
	return rc;
}

enum ldr_status crash_lab_run(const struct crash_lab *lab, struct crash_results *out_results,
			      struct ldr_error *err)
{
	size_t count = lab->plan->count * crash_leg_count;
	size_t bytes = sizeof(struct shared) + count * sizeof(struct crash_result);
	struct campaign campaign = {.lab = lab};
	struct timespec began;
	int rc;

	campaign.shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			       0);
	if (campaign.shared == MAP_FAILED)
		return ldr_fail_errno(err, errno, "shared memory");
	clock_gettime(CLOCK_MONOTONIC, &began);
	campaign.shared->began_s = began.tv_sec;
	rc = crash_lab_isolated(lab->out_folder, all_workers, &campaign);
	out_results->results = calloc(count + 1, sizeof(struct crash_result));
	out_results->count = count;
	if (out_results->results)
		memcpy(out_results->results, campaign.shared->results,
		       count * sizeof(struct crash_result));
	munmap(campaign.shared, bytes);
	if (!out_results->results)
		return ldr_fail(err, LDR_ENOMEM, "no memory for results");
	if (rc == CRASH_EXIT_UNAVAILABLE)
		return ldr_fail(err, LDR_EUNSUPPORTED, "namespaces are not to be had");
	if (rc != 0)
		return ldr_fail(err, LDR_EIO, "a worker ended with status %d", rc);
	return LDR_OK;
}

void crash_results_dispose(struct crash_results *results)
{
	free(results->results);
	memset(results, 0, sizeof(*results));
}
