/* Campaigns as text: what is understood, what is refused; and unmounting that is busy. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/recovery/core/disk.h"
#include "tests/recovery/core/plan.h"

static enum ldr_status parse(const char *text, struct crash_plan *plan, struct ldr_error *err)
{
	return crash_plan_parse(strdup(text), plan, err);
}

Test(plan, understands)
{
	struct ldr_error err = {0};
	struct crash_plan plan;

	cr_assert_eq(
		parse("# a comment\n\n"
		      "one -- @probe --create\n"
		      "two legs=xfs,btrfs inject=none,each,random:3 models=torn,lying grain=512 "
		      "sample=7 expect=violations -- /bin/true\n"
		      "pending larderd: not there yet\n",
		      &plan, &err),
		LDR_OK, "%s", err.text);
	cr_assert_eq(plan.count, 3);
	cr_expect_str_eq(plan.items[0].name, "one");
	cr_expect_eq(plan.items[0].legs, (1u << crash_leg_count) - 1);
	cr_expect_eq(plan.items[0].models, CRASH_PREFIX | CRASH_SUBSET);
	cr_expect_eq(plan.items[0].exhaust, 8);
	cr_expect_eq(plan.items[0].word_count, 2);
	cr_expect_str_eq(plan.items[0].words[1], "--create");
	cr_expect_eq(plan.items[1].legs, 12);
	cr_expect_eq(plan.items[1].inject, CRASH_INJECT_NONE | CRASH_INJECT_EACH);
	cr_expect_eq(plan.items[1].random, 3);
	cr_expect_eq(plan.items[1].models, CRASH_TORN | CRASH_LYING);
	cr_expect_eq(plan.items[1].grain, 512);
	cr_expect_eq(plan.items[1].sample, 7);
	cr_expect(plan.items[1].expect_violations);
	cr_expect(plan.items[2].pending);
	cr_expect_str_eq(plan.items[2].name, "larderd");
	cr_expect_str_eq(plan.items[2].reason, "not there yet");
	crash_plan_dispose(&plan);
}

Test(plan, refuses)
{
	static const char *const rows[] = {"one",
					   "one --",
					   "one legs=ext5 -- x",
					   "one models= -- x",
					   "one models=prefixes -- x",
					   "one inject=some -- x",
					   "one inject=each,random:x -- x",
					   "one grain=100 -- x",
					   "one grain=8192 -- x",
					   "one exhaust=17 -- x",
					   "one max=0 -- x",
					   "one torn=-1 -- x",
					   "one sample=1e9 -- x",
					   "one expect=nothing -- x",
					   "one colour=red -- x",
					   "pending larderd"};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_error err = {0};
		struct crash_plan plan;

		cr_expect_eq(parse(rows[i], &plan, &err), LDR_EINVAL, "%s", rows[i]);
		cr_expect(strstr(err.text, "line 1"), "%s: %s", rows[i], err.text);
	}
}

/* Forwards to a count of its own; the harness passes umount2 here. */
static int busy_twice(const char *path, int flags)
{
	static int calls;

	cr_assert_str_eq(path, "there");
	cr_assert_eq(flags, 0, "neither forced nor lazy");
	errno = EBUSY;
	return ++calls > 2 ? 0 : -1;
}

static int always_busy(const char *path, int flags)
{
	(void)path;
	(void)flags;
	errno = EBUSY;
	return -1;
}

static int refused(const char *path, int flags)
{
	(void)path;
	(void)flags;
	errno = EPERM;
	return -1;
}

Test(plan, unmounting_retries_only_what_is_busy_and_not_for_ever)
{
	struct ldr_error err = {0};

	cr_expect_eq(crash_disk_unmount("there", busy_twice, &err), LDR_OK);
	cr_expect_eq(crash_disk_unmount("there", refused, &err), LDR_EDENIED);
	cr_expect_eq(crash_disk_unmount("there", always_busy, &err), LDR_EAGAIN);
}
