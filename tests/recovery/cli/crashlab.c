/*
 * crashlab COMMAND ...   records publications on real file systems and judges every state a crash can leave.
 *
 *   run --campaign FILE --out DIR [--fs LEG,...] [--only TEXT] [--jobs N] [--seed N] [--minutes N]
 *                                 minutes: nothing is begun after them; what was not reached is listed
 *   selftest ...                  the same, of a campaign whose every subject must be caught
 *   record --out DIR --fs LEG -- WORD...     one subject, once; seed and log are kept
 *   within --out DIR --fs LEG -- WORD...     a command in a fresh file system that nobody else sees
 *   replay CASE [--state NAME] [--image FILE]   rebuilds, mounts and judges states of a kept case
 *   explain CASE --state NAME     what that state holds of the log, and where the crash may have been
 *   enumerate LOG [--models A,..] [--grain N]   the states of a log (ours or of dm-log-writes); no root
 *   clean DIR                     takes away what a killed run or replay left in DIR
 *
 * Records name the source by CRASHLAB_REVISION, which run, selftest and record need (revision.sh).
 *
 * Results: DIR/cases.jsonl (one JSON line a recording), DIR/failures/NAME.LEG.INJECT/ {seed.img, log,
 * case.json}, and on standard output "ok|not ok|skip NAME" lines and a last line of counts.
 * Exit status: 0 all well, 1 a rule is broken or a recording could not be judged, 2 usage, 77 a facility is
 * missing and nothing else is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/facts.h"
#include "tests/recovery/core/kept.h"
#include "tests/recovery/core/lab.h"

#define EXIT_USAGE 2
#define TEXT_MAX (1u << 20)

struct options {
	const char *campaign;
	const char *out;
	const char *fs;
	const char *only;
	const char *state;
	const char *image;
	const char *models;
	const char *subject; /* what is given without a name */
	unsigned grain;
	unsigned jobs;
	unsigned minutes;
	uint64_t seed;
	size_t rest; /* where the words after "--" begin; 0: none */
};

static int usage(const char *why)
{
	fprintf(stderr, "crashlab: %s\n", why);
	fprintf(stderr, "usage: crashlab run|selftest --campaign FILE --out DIR [--fs LEG,...] "
			"[--only TEXT] [--jobs N] [--seed N] [--minutes N]\n"
			"       crashlab record|within --out DIR --fs LEG -- WORD...\n"
			"       crashlab replay|explain CASE [--state NAME] [--image FILE]\n"
			"       crashlab enumerate LOG [--models A,...] [--grain N]\n"
			"       crashlab clean DIR\n");
	return EXIT_USAGE;
}

static bool parse(int argc, char **argv, struct options *out)
{
	const struct {
		const char *name;
		const char **place;
	} texts[] = {
		{"--campaign", &out->campaign}, {"--out", &out->out},     {"--fs", &out->fs},
		{"--only", &out->only},         {"--state", &out->state}, {"--image", &out->image},
		{"--models", &out->models}};

	*out = (struct options){.grain = 4096, .jobs = 2, .seed = 1};
	for (int i = 2; i < argc; i++) {
		bool taken = false;

		if (strcmp(argv[i], "--") == 0) {
			out->rest = (size_t)i + 1;
			return true;
		}
		for (size_t k = 0; i + 1 < argc && k < sizeof(texts) / sizeof(texts[0]); k++) {
			if (strcmp(argv[i], texts[k].name) == 0) {
				*texts[k].place = argv[++i];
				taken = true;
				break;
			}
		}
		if (taken)
			continue;
		if (i + 1 < argc && strcmp(argv[i], "--jobs") == 0)
			out->jobs = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (i + 1 < argc && strcmp(argv[i], "--minutes") == 0)
			out->minutes = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
			out->seed = strtoull(argv[++i], NULL, 10);
		else if (i + 1 < argc && strcmp(argv[i], "--grain") == 0)
			out->grain = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (argv[i][0] != '-' && !out->subject)
			out->subject = argv[i];
		else
			return false;
	}
	return out->jobs > 0;
}

static int fail(const struct ldr_error *err)
{
	fprintf(stderr, "crashlab: %s\n", err->text);
	return err->status == LDR_EINVAL ? EXIT_USAGE : 1;
}

/* ---- run ------------------------------------------------------------------------------------------- */

struct totals {
	size_t items, not_reached; /* an item on a leg */
	size_t recordings, states, enumerated, violations, caught, to_catch, failed, skipped,
		agreed;
};

static void judge_result(const struct crash_item *item, const struct crash_leg *leg,
			 const struct crash_result *result, struct totals *totals)
{
	bool caught = item->expect_violations && result->violations > 0;
	bool good = result->failed == 0 && result->states > 0 &&
		    (item->expect_violations ? caught : result->violations == 0);

	totals->recordings += result->recordings;
	totals->states += result->states;
	totals->enumerated += result->enumerated;
	totals->agreed += result->agreed;
	totals->violations += item->expect_violations ? 0 : result->violations;
	totals->to_catch += item->expect_violations;
	totals->caught += good && caught;
	totals->failed += !good;
	printf("%s %s.%s: %zu recordings, %zu states of %zu, %zu bad%s%s%s\n",
	       good ? "ok" : "not ok", item->name, leg->name, result->recordings, result->states,
	       result->enumerated, result->violations, item->expect_violations ? " (expected)" : "",
	       result->text[0] ? "; " : "", result->text);
}

static void report(const struct crash_lab *lab, const struct crash_results *results,
		   struct totals *totals)
{
	for (size_t i = 0; i < results->count; i++) {
		const struct crash_item *item = &lab->plan->items[i / crash_leg_count];
		const struct crash_leg *leg = &crash_legs[i % crash_leg_count];

		if (!crash_lab_wants(lab, item, (unsigned)(i % crash_leg_count)))
			continue;
		totals->items++;
		if (results->results[i].run) {
			judge_result(item, leg, &results->results[i], totals);
			continue;
		}
		totals->not_reached++;
		printf("skip %s.%s: not reached\n", item->name, leg->name);
	}
	for (size_t i = 0; i < lab->plan->count; i++) {
		const struct crash_item *item = &lab->plan->items[i];

		if (item->pending)
			printf("skip %s: pending: %s\n", item->name, item->reason);
	}
	if (lab->minutes)
		printf("bounded: %u minutes, %zu of %zu items not reached\n", lab->minutes,
		       totals->not_reached, totals->items);
	printf("two replayers agreed on %zu states\n", totals->agreed);
	printf("%zu recordings, %zu states, mutants caught %zu of %zu, violations %zu, failed items "
	       "%zu\n",
	       totals->recordings, totals->states, totals->caught, totals->to_catch,
	       totals->violations, totals->failed);
}

/* Legs that this machine has; says what it has not. */
static unsigned usable_legs(unsigned wanted, struct totals *totals)
{
	char reason[256];

	for (unsigned i = 0; i < crash_leg_count; i++) {
		if (!(wanted & 1u << i) ||
		    crash_leg_available(&crash_legs[i], reason, sizeof(reason)))
			continue;
		printf("skip %s: unavailable: %s\n", crash_legs[i].name, reason);
		wanted &= ~(1u << i);
		totals->skipped++;
	}
	return wanted;
}

static int make_out(const char *out, char absolute[PATH_MAX])
{
	char failures[PATH_MAX + 16];

	if ((mkdir(out, 0755) != 0 && errno != EEXIST) || !realpath(out, absolute))
		return -1;
	snprintf(failures, sizeof(failures), "%s/failures", absolute);
	return mkdir(failures, 0755) != 0 && errno != EEXIST ? -1 : 0;
}

/* The folder of this program, and the recorder in its sibling. */
static bool locate(char programs[PATH_MAX], char *recorder, size_t room)
{
	ssize_t length = readlink("/proc/self/exe", programs, PATH_MAX - 1);
	char *slash;

	if (length <= 0)
		return false;
	programs[length] = 0;
	for (int up = 0; up < 2; up++) {
		slash = strrchr(programs, '/');
		if (!slash)
			return false;
		*slash = 0;
	}
	snprintf(recorder, room, "%s/recorder/crashdisk", programs);
	return true;
}

static int run_plan(const struct crash_plan *plan, const struct options *options, bool keep_all)
{
	char out[PATH_MAX], programs[PATH_MAX], recorder[PATH_MAX + 32], reason[256];
	struct crash_lab lab = {.plan = plan,
				.legs = (1u << crash_leg_count) - 1,
				.out_folder = out,
				.programs = programs,
				.recorder = recorder,
				.only = options->only,
				.jobs = options->jobs,
				.minutes = options->minutes,
				.seed = options->seed,
				.keep_all = keep_all};
	struct crash_results results = {0};
	struct ldr_error err = {0};
	struct totals totals = {0};
	enum ldr_status status;

	if (!crash_facts_revision())
		return usage("CRASHLAB_REVISION is not set: tests/recovery/revision.sh prints it");
	if (options->fs && !crash_plan_legs(options->fs, &lab.legs))
		return usage("an unknown leg in --fs");
	if (!locate(programs, recorder, sizeof(recorder)) || make_out(options->out, out) != 0)
		return usage("--out is no folder");
	if (!crash_lab_possible(recorder, reason, sizeof(reason))) {
		printf("skip crashlab: unavailable: %s\n", reason);
		return CRASH_EXIT_UNAVAILABLE;
	}
	lab.legs = usable_legs(lab.legs, &totals);
	status = crash_lab_run(&lab, &results, &err);
	report(&lab, &results, &totals);
	crash_results_dispose(&results);
	if (status == LDR_EUNSUPPORTED)
		return CRASH_EXIT_UNAVAILABLE;
	if (status)
		return fail(&err);
	if (totals.failed || totals.states == 0 || (totals.not_reached && !options->minutes))
		return 1;
	return totals.skipped ? CRASH_EXIT_UNAVAILABLE : 0;
}

static char *slurp(const char *path)
{
	LDR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = calloc(1, TEXT_MAX);
	size_t length = 0;
	ssize_t got = 0;

	while (fd >= 0 && text && length < TEXT_MAX - 1 &&
	       (got = read(fd, text + length, TEXT_MAX - 1 - length)) > 0)
		length += (size_t)got;
	if (fd >= 0 && text && got >= 0)
		return text;
	free(text);
	return NULL;
}

static int run(const struct options *options, bool all_must_break)
{
	struct ldr_error err = {0};
	struct crash_plan plan;
	char *text;
	int rc;

	if (!options->campaign || !options->out)
		return usage("--campaign and --out are needed");
	text = slurp(options->campaign);
	if (!text)
		return usage("the campaign cannot be read");
	if (crash_plan_parse(text, &plan, &err) != LDR_OK)
		return fail(&err);
	for (size_t i = 0; all_must_break && i < plan.count; i++) {
		if (!plan.items[i].pending && !plan.items[i].expect_violations) {
			crash_plan_dispose(&plan);
			return usage("selftest: an item without expect=violations");
		}
	}
	rc = run_plan(&plan, options, false);
	crash_plan_dispose(&plan);
	return rc;
}

/* One item made from the command line. */
static int record(const struct options *options, int argc, char **argv)
{
	struct ldr_error err = {0};
	struct crash_plan plan;
	char *text = calloc(1, TEXT_MAX);
	size_t used;

	if (!text || !options->out || !options->fs || !options->rest) {
		free(text);
		return usage("--out, --fs and -- WORD... are needed");
	}
	used = (size_t)snprintf(text, TEXT_MAX, "record legs=%s --", options->fs);
	for (int i = (int)options->rest; i < argc && used < TEXT_MAX; i++)
		used += (size_t)snprintf(text + used, TEXT_MAX - used, " %s", argv[i]);
	if (crash_plan_parse(text, &plan, &err) != LDR_OK)
		return fail(&err);
	used = (size_t)run_plan(&plan, options, true);
	crash_plan_dispose(&plan);
	return (int)used;
}

static int within(const struct options *options, int argc, char **argv)
{
	const struct crash_leg *leg;
	char out[PATH_MAX], reason[256];

	leg = options->fs ? crash_leg_find(options->fs, strlen(options->fs)) : NULL;
	if (!leg || !options->out || !options->rest || options->rest >= (size_t)argc)
		return usage("--out, --fs with one leg and -- WORD... are needed");
	if (make_out(options->out, out) != 0)
		return usage("--out is no folder");
	if (!crash_lab_possible(NULL, reason, sizeof(reason)) ||
	    !crash_leg_available(leg, reason, sizeof(reason))) {
		printf("skip %s: unavailable: %s\n", leg->name, reason);
		return CRASH_EXIT_UNAVAILABLE;
	}
	return crash_lab_within(out, leg, (const char *const *)argv + options->rest);
}

static int clean_work(const char *folder)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/work", folder);
	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	fprintf(stderr, "crashlab: %s: %s\n", path, strerror(errno));
	return 1;
}

/* What only a killed run leaves: the empty folder below its tmpfs, and those below the cases that were being
 * replayed. Mounts and loops ended with it. */
static int clean(const struct options *options)
{
	char path[PATH_MAX];
	glob_t cases;
	int rc;

	if (!options->subject)
		return usage("clean: which folder?");
	rc = clean_work(options->subject);
	snprintf(path, sizeof(path), "%s/failures/*", options->subject);
	switch (glob(path, GLOB_ERR, NULL, &cases)) {
	case 0:
		for (size_t i = 0; i < cases.gl_pathc; i++)
			rc |= clean_work(cases.gl_pathv[i]);
		globfree(&cases);
		return rc;
	case GLOB_NOMATCH:
		return rc;
	default:
		fprintf(stderr, "crashlab: %s: %s\n", path, strerror(errno));
		return 1;
	}
}

static int enumerate(const struct options *options)
{
	struct crash_state_options wanted = {.grain_bytes = options->grain,
					     .subset_max = 8,
					     .subset_samples = 64,
					     .torn_samples = 8,
					     .lying_samples = 60,
					     .seed = options->seed,
					     .max_states = 1u << 20};

	if (!options->subject)
		return usage("enumerate: which log?");
	if (!crash_plan_models(options->models ? options->models : "prefix,subset", &wanted.models))
		return usage("an unknown model in --models");
	return crash_kept_enumerate(options->subject, &wanted);
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	struct options options;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!parse(argc, argv, &options))
		return usage("an option is not understood");
	if (strcmp(command, "run") == 0)
		return run(&options, false);
	if (strcmp(command, "selftest") == 0)
		return run(&options, true);
	if (strcmp(command, "record") == 0)
		return record(&options, argc, argv);
	if (strcmp(command, "within") == 0)
		return within(&options, argc, argv);
	if (strcmp(command, "enumerate") == 0)
		return enumerate(&options);
	if (strcmp(command, "clean") == 0)
		return clean(&options);
	if (strcmp(command, "replay") == 0 && options.subject)
		return crash_kept_replay(options.subject, options.state, options.image);
	if (strcmp(command, "explain") == 0 && options.subject && options.state)
		return crash_kept_explain(options.subject, options.state);
	return usage("no such command, or not enough said");
}
