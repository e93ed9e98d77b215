/*
 * options.c   the command line.
 */
#include "bench/vfs_bench/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/vfs_bench/target.h"

static const char usage[] =
	"vfs_bench [OPTION]...   Larder's virtual file system beside stdio, other baselines and peers\n"
	"\n"
	"  --filter A,B       runs what has one of the texts in scenario/target\n"
	"  --scenarios A,B    only these scenarios, by whole name\n"
	"  --targets A,B      only these targets, by whole name\n"
	"  --scale X          size of the dataset and number of operations (1)\n"
	"  --threads LIST     such as 1,2,N; N is the number of processors (1,2,4,8,N)\n"
	"  --iterations N     rounds, of which the median counts (3)\n"
	"  --min-ms N         a run shorter than this is repeated within the round (200)\n"
	"  --max-ms N         a run longer than this ends early (3000)\n"
	"  --csv F, --md F    tables into files\n"
	"  --spread F         least and most operations a second of the rounds, as CSV\n"
	"  --dir P            working folder ($TMPDIR or /tmp)\n"
	"  --keep             keeps the dataset in it, and uses the one that is there\n"
	"  --cold             data files are dropped from the page cache before each run\n"
	"  --block-size KIB   of the packs (64)\n"
	"  --seed N           of the dataset (1)\n"
	"  --trace F          replays a recorded game (bench/traces) instead of the scenarios\n"
	"  --data DIR         the tree of --trace or --verify (made by seed)\n"
	"  --allocations      counts heap allocations of warm opens and reads instead of time\n"
	"  --verify           compares every file with the host's, by 8 threads, instead of timing\n"
	"  --handles N        opens N files at once through each target of Larder and counts descriptors\n"
	"  --strict           a target that cannot be had is a failure\n"
	"  --list             scenarios and targets\n"
	"  --help\n";

enum option_code {
	OPT_FILTER = 256,
	OPT_SCENARIOS,
	OPT_TARGETS,
	OPT_SCALE,
	OPT_THREADS,
	OPT_ITERATIONS,
	OPT_MIN_MS,
	OPT_MAX_MS,
	OPT_CSV,
	OPT_MD,
	OPT_SPREAD,
	OPT_DIR,
	OPT_KEEP,
	OPT_COLD,
	OPT_BLOCK_SIZE,
	OPT_SEED,
	OPT_TRACE,
	OPT_DATA,
	OPT_ALLOCATIONS,
	OPT_VERIFY,
	OPT_HANDLES,
	OPT_STRICT,
	OPT_LIST,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"filter", required_argument, NULL, OPT_FILTER},
	{"scenarios", required_argument, NULL, OPT_SCENARIOS},
	{"targets", required_argument, NULL, OPT_TARGETS},
	{"scale", required_argument, NULL, OPT_SCALE},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"iterations", required_argument, NULL, OPT_ITERATIONS},
	{"min-ms", required_argument, NULL, OPT_MIN_MS},
	{"max-ms", required_argument, NULL, OPT_MAX_MS},
	{"csv", required_argument, NULL, OPT_CSV},
	{"md", required_argument, NULL, OPT_MD},
	{"spread", required_argument, NULL, OPT_SPREAD},
	{"dir", required_argument, NULL, OPT_DIR},
	{"keep", no_argument, NULL, OPT_KEEP},
	{"cold", no_argument, NULL, OPT_COLD},
	{"block-size", required_argument, NULL, OPT_BLOCK_SIZE},
	{"seed", required_argument, NULL, OPT_SEED},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"data", required_argument, NULL, OPT_DATA},
	{"allocations", no_argument, NULL, OPT_ALLOCATIONS},
	{"verify", no_argument, NULL, OPT_VERIFY},
	{"handles", required_argument, NULL, OPT_HANDLES},
	{"strict", no_argument, NULL, OPT_STRICT},
	{"list", no_argument, NULL, OPT_LIST},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

static void add_threads(struct bench_options *out, unsigned count)
{
	for (size_t i = 0; i < out->thread_count; i++)
		if (out->threads[i] == count)
			return;
	out->threads[out->thread_count++] = count;
}

static unsigned processors(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);

	return count < 1 ? 1 : count > BENCH_THREADS_MAX ? BENCH_THREADS_MAX : (unsigned)count;
}

static bool parse_threads(const char *text, struct bench_options *out)
{
	struct bench_words words = {0};
	bool good = bench_parse_words("threads", text, &words);

	out->thread_count = 0;
	for (size_t i = 0; good && i < words.count; i++) {
		unsigned count = processors();

		if (strcmp(words.word[i], "N") != 0)
			good = bench_parse_unsigned("threads", words.word[i], 1, BENCH_THREADS_MAX,
						    &count);
		if (good)
			add_threads(out, count);
	}
	free(words.text);
	return good;
}

static bool parse_scale(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (end != text && !*end && *out > 0 && *out <= 100)
		return true;
	bench_say("--scale %s: a number over 0, at most 100", text);
	return false;
}

static bool parse_block_size(const char *text, unsigned *out)
{
	if (!bench_parse_unsigned("block-size", text, 4, 128, out))
		return false;
	if ((*out & (*out - 1)) == 0)
		return true;
	bench_say("--block-size %s: 4, 8, 16, 32, 64 or 128", text);
	return false;
}

static bool parse_number(int code, const char *text, struct bench_options *out)
{
	unsigned seed = 0;

	switch (code) {
	case OPT_ITERATIONS:
		return bench_parse_unsigned("iterations", text, 1, 99, &out->iterations);
	case OPT_MIN_MS:
		return bench_parse_unsigned("min-ms", text, 0, 60000, &out->min_ms);
	case OPT_MAX_MS:
		return bench_parse_unsigned("max-ms", text, 1, 600000, &out->max_ms);
	case OPT_HANDLES:
		return bench_parse_unsigned("handles", text, 1, 1000000, &out->handles);
	case OPT_BLOCK_SIZE:
		return parse_block_size(text, &out->block_kib);
	case OPT_SEED:
		if (!bench_parse_unsigned("seed", text, 0, UINT_MAX, &seed))
			return false;
		out->seed = seed;
		return true;
	default:
		return parse_scale(text, &out->scale);
	}
}

static bool parse_list(int code, const char *text, struct bench_options *out)
{
	switch (code) {
	case OPT_FILTER:
		return bench_parse_words("filter", text, &out->filter);
	case OPT_SCENARIOS:
		return bench_parse_words("scenarios", text, &out->scenarios);
	case OPT_TARGETS:
		return bench_parse_words("targets", text, &out->targets);
	default:
		return parse_threads(text, out);
	}
}

/* Where an option's text or flag goes; the others are numbers and lists. */
static const char **text_place(int code, struct bench_options *out)
{
	switch (code) {
	case OPT_CSV:
		return &out->csv;
	case OPT_MD:
		return &out->md;
	case OPT_SPREAD:
		return &out->spread;
	case OPT_DIR:
		return &out->folder;
	case OPT_TRACE:
		return &out->trace;
	case OPT_DATA:
		return &out->data;
	default:
		return NULL;
	}
}

static bool *flag_place(int code, struct bench_options *out)
{
	switch (code) {
	case OPT_KEEP:
		return &out->keep;
	case OPT_COLD:
		return &out->cold;
	case OPT_ALLOCATIONS:
		return &out->allocations;
	case OPT_VERIFY:
		return &out->verify;
	case OPT_STRICT:
		return &out->strict;
	case OPT_LIST:
		return &out->list;
	default:
		return NULL;
	}
}

static bool parse_one(int code, struct bench_options *out)
{
	const char **text = text_place(code, out);
	bool *flag = flag_place(code, out);

	if (text)
		*text = optarg;
	else if (flag)
		*flag = true;
	else if (code == OPT_FILTER || code == OPT_SCENARIOS || code == OPT_TARGETS ||
		 code == OPT_THREADS)
		return parse_list(code, optarg, out);
	else
		return parse_number(code, optarg, out);
	return true;
}

static const char *default_folder(void)
{
	const char *folder = getenv("TMPDIR");

	return folder && *folder ? folder : "/tmp";
}

enum bench_parse bench_options_parse(int count, char **arguments, struct bench_options *out)
{
	*out = (struct bench_options){
		.scale = 1,
		.iterations = 3,
		.min_ms = 200,
		.max_ms = 3000,
		.block_kib = 64,
		.seed = 1,
		.folder = default_folder(),
	};
	parse_threads("1,2,4,8,N", out);
	for (int code; (code = getopt_long(count, arguments, "", long_options, NULL)) != -1;) {
		if (code == OPT_HELP) {
			fputs(usage, stdout);
			return BENCH_PARSE_HELP;
		}
		if (code == '?' || !parse_one(code, out))
			return BENCH_PARSE_USAGE;
	}
	if (optind < count) {
		bench_say("%s: no such argument", arguments[optind]);
		return BENCH_PARSE_USAGE;
	}
	if (out->data && !out->trace && !out->verify && !out->handles) {
		bench_say("--data goes with --trace, --verify or --handles");
		return BENCH_PARSE_USAGE;
	}
	if (out->keep && (out->trace || out->data)) {
		bench_say("--keep does not go with --trace and --data, whose tree is another one");
		return BENCH_PARSE_USAGE;
	}
	return BENCH_PARSE_OK;
}

void bench_options_dispose(struct bench_options *options)
{
	free(options->filter.text);
	free(options->targets.text);
	free(options->scenarios.text);
}

static bool among(const struct bench_words *words, const char *name)
{
	for (size_t i = 0; i < words->count; i++)
		if (!strcmp(words->word[i], name))
			return true;
	return words->count == 0;
}

bool bench_options_want(const struct bench_options *options, const char *scenario,
			const char *target)
{
	char whole[128];

	if (!among(&options->scenarios, scenario) || !among(&options->targets, target))
		return false;
	snprintf(whole, sizeof(whole), "%s/%s", scenario, target);
	for (size_t i = 0; i < options->filter.count; i++)
		if (strstr(whole, options->filter.word[i]))
			return true;
	return options->filter.count == 0;
}
