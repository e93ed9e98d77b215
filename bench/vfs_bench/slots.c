/*
 * slots.c   targets brought up and taken down.
 */
#include "bench/vfs_bench/slots.h"

#include <stdlib.h>

#include "bench/vfs_bench/scenarios.h"

static bool wanted(const struct bench_options *options, const struct bench_target *target)
{
	size_t count;
	const struct bench_scenario *const *scenarios = bench_scenarios(&count);

	if (options->handles && !(target->traits & BENCH_OURS))
		return false;
	if (options->verify || options->handles)
		return target->ops->read_at && bench_options_want(options, "verify", target->name);
	if (options->trace)
		return target->ops->read_at && target->ops->list && target->ops->absent &&
		       bench_options_want(options, bench_scenario_trace.name, target->name);
	for (size_t i = 0; i < count; i++)
		if (scenarios[i]->possible(target) &&
		    bench_options_want(options, scenarios[i]->name, target->name))
			return true;
	return false;
}

static void drop_instance(struct bench_slot *slot)
{
	if (slot->up)
		slot->target->down(slot->instance.self);
	slot->up = false;
	free(slot->instance.data_prefix);
	free(slot->instance.write_prefix);
	slot->instance = (struct bench_instance){0};
}

bool bench_slot_again(struct bench_slot *slot, struct bench_env *env)
{
	if (slot->target->traits & BENCH_IN_MEMORY)
		return true;
	drop_instance(slot);
	slot->up = slot->target->up(slot->target, env, &slot->instance);
	return slot->up;
}

/* False ends the benchmark; a slot that is not up is left out. */
static bool bring_up(struct bench_slot *slot, struct bench_env *env,
		     const struct bench_trace *trace)
{
	slot->up = slot->target->up(slot->target, env, &slot->instance);
	if (!slot->up) {
		bench_say("%s: left out", slot->target->name);
		return !env->options->strict;
	}
	return bench_names_make(env, slot->instance.data_prefix, trace ? &trace->paths : NULL,
				&slot->names) &&
	       bench_slot_check(slot, env);
}

bool bench_slots_up(struct bench_env *env, const struct bench_trace *trace, struct bench_slots *out)
{
	size_t count = bench_target_count();
	bool good = true;

	out->count = 0;
	out->slot = calloc(count, sizeof(*out->slot));
	for (size_t i = 0; good && out->slot && i < count; i++) {
		struct bench_slot *slot = &out->slot[out->count];

		if (!wanted(env->options, bench_target_at(i)))
			continue;
		*slot = (struct bench_slot){.target = bench_target_at(i)};
		good = bring_up(slot, env, trace);
		if (slot->up)
			out->count++;
	}
	return good && out->slot;
}

void bench_slots_down(struct bench_slots *slots)
{
	for (size_t i = 0; i < slots->count; i++) {
		drop_instance(&slots->slot[i]);
		bench_names_dispose(&slots->slot[i].names);
	}
	free(slots->slot);
	*slots = (struct bench_slots){0};
}
