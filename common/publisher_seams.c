/*
 * Fault seams of test builds; see publisher_seams.h. Empty in production.
 */
#include "common/publisher_seams.h"

#ifdef LDR_TEST_SEAMS

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct failure {
	unsigned first;
	unsigned count;
	int sys_errno;
};

static struct {
	_Atomic unsigned calls[LDR_SEAM_CALL_COUNT];
	_Atomic unsigned steps[LDR_SEAM_STEP_COUNT];
	struct failure failures[LDR_SEAM_CALL_COUNT];
	size_t cap;
	void (*hook)(void *context, enum ldr_seam_step step, unsigned number);
	void *context;
	enum ldr_seam_step kill_step;
	unsigned kill_number; /* 0: never */
} seams;

static const char *const call_names[LDR_SEAM_CALL_COUNT] = {
#define LDR_SEAM_CALL_NAME(name, text) text,
	LDR_SEAM_CALLS(LDR_SEAM_CALL_NAME)
#undef LDR_SEAM_CALL_NAME
};

static const char *const step_names[LDR_SEAM_STEP_COUNT] = {
#define LDR_SEAM_STEP_NAME(name, text) text,
	LDR_SEAM_STEPS(LDR_SEAM_STEP_NAME)
#undef LDR_SEAM_STEP_NAME
};

void ldr_seam_reset(void)
{
	memset(&seams, 0, sizeof(seams));
}

void ldr_seam_fail(enum ldr_seam_call call, unsigned first, unsigned count, int sys_errno)
{
	seams.calls[call] = 0;
	seams.failures[call] = (struct failure){first, count, sys_errno};
}

void ldr_seam_cap_writes(size_t max_bytes)
{
	seams.cap = max_bytes;
}

unsigned ldr_seam_calls(enum ldr_seam_call call)
{
	return seams.calls[call];
}

unsigned ldr_seam_steps(enum ldr_seam_step step)
{
	return seams.steps[step];
}

const char *ldr_seam_step_name(enum ldr_seam_step step)
{
	return step_names[step];
}

void ldr_seam_on_step(void (*hook)(void *context, enum ldr_seam_step step, unsigned number),
		      void *context)
{
	seams.hook = hook;
	seams.context = context;
}

bool ldr_seam_fails(enum ldr_seam_call call)
{
	const struct failure *failure = &seams.failures[call];
	unsigned number = ++seams.calls[call];

	if (!failure->count || number < failure->first || number - failure->first >= failure->count)
		return false;
	errno = failure->sys_errno;
	return true;
}

size_t ldr_seam_cap(size_t length)
{
	return seams.cap && length > seams.cap ? seams.cap : length;
}

void ldr_seam_tell(enum ldr_seam_step step)
{
	unsigned number = ++seams.steps[step];
	void (*hook)(void *context, enum ldr_seam_step step, unsigned number) = seams.hook;

	if (seams.kill_number == number && seams.kill_step == step)
		raise(SIGKILL);
	if (!hook)
		return;
	seams.hook = NULL;
	hook(seams.context, step, number);
	if (!seams.hook)
		seams.hook = hook;
}

static int find_name(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	fprintf(stderr, "LARDER_SEAM: unknown name %s\n", name);
	abort();
}

/* Before main, since no code of the program knows the seams. A wrong order aborts: a test that asks
 * for a fault which never comes would prove nothing. */
__attribute__((constructor)) static void take_order(void)
{
	const char *order = getenv("LARDER_SEAM");
	char verb[8], name[32];
	unsigned number = 0;
	int sys_errno = 0;
	int fields;

	if (!order)
		return;
	fields = sscanf(order, "%7s %31s %u %d", verb, name, &number, &sys_errno);
	if (fields == 3 && strcmp(verb, "kill") == 0) {
		seams.kill_step = find_name(step_names, LDR_SEAM_STEP_COUNT, name);
		seams.kill_number = number;
	} else if (fields == 4 && strcmp(verb, "fail") == 0) {
		ldr_seam_fail(find_name(call_names, LDR_SEAM_CALL_COUNT, name), number, 1,
			      sys_errno);
	} else if (fields == 2 && strcmp(verb, "skip") == 0) {
		ldr_seam_fail(find_name(call_names, LDR_SEAM_CALL_COUNT, name), 1, UINT_MAX, 0);
	} else {
		fprintf(stderr, "LARDER_SEAM: not understood: %s\n", order);
		abort();
	}
}

#endif
