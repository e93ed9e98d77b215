/* The runner behind the stand-in for Criterion; see criterion/criterion.h beside it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include "tests/support/tsan/criterion/criterion.h"

static struct {
	struct shim_test *tests;
	pthread_t main_thread;
	jmp_buf leave;
	bool failed;
	bool skipped;
} shim; /* style: one test runs at a time, in one thread */

void shim_add(struct shim_test *test)
{
	test->next = shim.tests;
	shim.tests = test;
}

void shim_check(bool holds, bool fatal, const char *file, int line, const char *what,
		const char *format, ...)
{
	va_list args;

	if (holds)
		return;
	fprintf(stderr, "%s:%d: failed: %s:", file, line, what);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	if (!pthread_equal(pthread_self(), shim.main_thread))
		exit(1);
	shim.failed = true;
	if (fatal)
		longjmp(shim.leave, 1);
}

void shim_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	shim.skipped = true;
	longjmp(shim.leave, 1);
}

static const struct shim_options *suite_options(const char *suite)
{
	static const struct shim_options none;

	for (const struct shim_test *test = shim.tests; test; test = test->next)
		if (!test->name && !strcmp(test->suite, suite))
			return &test->options;
	return &none;
}

static void run_one(const struct shim_test *test, FILE *report)
{
	const struct shim_options *suite = suite_options(test->suite);
	void (*init)(void) = test->options.init ? test->options.init : suite->init;
	void (*fini)(void) = test->options.fini ? test->options.fini : suite->fini;

	shim.failed = false;
	shim.skipped = test->options.signal || test->options.exit_code || test->options.disabled;
	if (!shim.skipped && !setjmp(shim.leave)) {
		if (init)
			init();
		test->run();
	}
	if (!shim.skipped && fini && !setjmp(shim.leave))
		fini();
	fprintf(report, "%s - %s::%s%s\n", shim.failed ? "not ok" : "ok", test->suite, test->name,
		shim.skipped ? " # SKIP needs a process of its own" : "");
	fflush(report);
}

int main(int argc, char **argv)
{
	FILE *report = stdout;
	bool failed = false;

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--tap=", 6))
			report = fopen(argv[i] + 6, "we");
	if (!report)
		return 1;
	shim.main_thread = pthread_self();
	for (const struct shim_test *test = shim.tests; test; test = test->next) {
		if (!test->name)
			continue;
		run_one(test, report);
		failed = failed || shim.failed;
	}
	return fclose(report) || failed;
}
