/*
 * Stands in for Criterion under the thread sanitizer, which Criterion's forking does not run under. The same test
 * files compile against it; tests run one after the other in one process, and the report is TAP, as
 * tests/run.sh reads it. It knows the macros that the tests use, not all that Criterion has.
 *
 * 1. A failed assertion leaves the test by longjmp; in a thread that the test made, it ends the process.
 * 2. A test that expects a signal or an exit status needs a process of its own and is reported as skipped.
 * 3. A test's time limit is ignored; the runner has one for the whole program.
 */
#ifndef LDR_TESTS_SUPPORT_TSAN_CRITERION_H
#define LDR_TESTS_SUPPORT_TSAN_CRITERION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shim_options {
	char first; /* set by the macros, so that a test's own options may be none */
	void (*init)(void);
	void (*fini)(void);
	int signal;
	int exit_code;
	bool disabled;
	const char *description;
	double timeout;
};

struct shim_test {
	const char *suite;
	const char *name; /* NULL: the options of a whole suite */
	void (*run)(void);
	struct shim_options options;
	struct shim_test *next;
};

void shim_add(struct shim_test *test);
void shim_check(bool holds, bool fatal, const char *file, int line, const char *what,
		const char *format, ...) __attribute__((format(printf, 6, 7)));
_Noreturn void shim_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SHIM_REGISTER(id, suite_, name_, run_, ...)                    \
	static struct shim_test shim_test_##id = {                     \
		suite_, name_, run_, {.first = 0, __VA_ARGS__}, NULL}; \
	__attribute__((constructor)) static void shim_add_##id(void)   \
	{                                                              \
		shim_add(&shim_test_##id);                             \
	}

#define Test(suite_, name_, ...)                                                                   \
	static void shim_run_##suite_##_##name_(void);                                             \
	SHIM_REGISTER(suite_##_##name_, #suite_, #name_, shim_run_##suite_##_##name_, __VA_ARGS__) \
	static void shim_run_##suite_##_##name_(void)
#define TestSuite(suite_, ...) SHIM_REGISTER(suite_, #suite_, NULL, NULL, __VA_ARGS__)

/* The empty literal in front makes the message optional. */
#define SHIM_CHECK(holds, fatal, what, ...) \
	shim_check(holds, fatal, __FILE__, __LINE__, what, " " __VA_ARGS__)

#define cr_assert(c, ...) SHIM_CHECK((c) ? true : false, true, #c, __VA_ARGS__)
#define cr_expect(c, ...) SHIM_CHECK((c) ? true : false, false, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) SHIM_CHECK((c) ? false : true, true, "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...) SHIM_CHECK((c) ? false : true, false, "not " #c, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) SHIM_CHECK((a) == (b), true, #a " == " #b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) SHIM_CHECK((a) == (b), false, #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) SHIM_CHECK((a) != (b), true, #a " != " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) SHIM_CHECK((a) != (b), false, #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) SHIM_CHECK((a) < (b), true, #a " < " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) SHIM_CHECK((a) < (b), false, #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) SHIM_CHECK((a) <= (b), true, #a " <= " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) SHIM_CHECK((a) <= (b), false, #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) SHIM_CHECK((a) > (b), true, #a " > " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) SHIM_CHECK((a) > (b), false, #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) SHIM_CHECK((a) >= (b), true, #a " >= " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) SHIM_CHECK((a) >= (b), false, #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(p, ...) SHIM_CHECK((p) == NULL, true, #p " == NULL", __VA_ARGS__)
#define cr_expect_null(p, ...) SHIM_CHECK((p) == NULL, false, #p " == NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) SHIM_CHECK((p) != NULL, true, #p " != NULL", __VA_ARGS__)
#define cr_expect_not_null(p, ...) SHIM_CHECK((p) != NULL, false, #p " != NULL", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) SHIM_CHECK(!strcmp(a, b), true, #a " eq " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) SHIM_CHECK(!strcmp(a, b), false, #a " eq " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) SHIM_CHECK(strcmp(a, b) != 0, true, #a " ne " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) SHIM_CHECK(strcmp(a, b) != 0, false, #a " ne " #b, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) \
	SHIM_CHECK(!memcmp(a, b, n), true, #a " arr_eq " #b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) \
	SHIM_CHECK(!memcmp(a, b, n), false, #a " arr_eq " #b, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, n, ...) \
	SHIM_CHECK(memcmp(a, b, n) != 0, true, #a " arr_neq " #b, __VA_ARGS__)
#define cr_expect_arr_neq(a, b, n, ...) \
	SHIM_CHECK(memcmp(a, b, n) != 0, false, #a " arr_neq " #b, __VA_ARGS__)
#define cr_assert_fail(...) SHIM_CHECK(false, true, "fail", __VA_ARGS__)
#define cr_expect_fail(...) SHIM_CHECK(false, false, "fail", __VA_ARGS__)
#define cr_fail(...) SHIM_CHECK(false, false, "fail", __VA_ARGS__)
#define cr_fatal(...) SHIM_CHECK(false, true, "fail", __VA_ARGS__)
#define cr_skip_test(...) shim_skip(" " __VA_ARGS__)
#define cr_skip(...) shim_skip(" " __VA_ARGS__)
#define cr_log_info(...) ((void)fprintf(stderr, __VA_ARGS__))

#endif
