/*
 * Readers that wait with no thread: who is told, when, and what it finds when it comes again. The upstream
 * is a fake that notes what it is asked for and gives it when the test says so; a block's contents are
 * found by its place: the offset is the seed.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cache/source.h"
#include "cache/source_priv.h"
#include "tests/unit/cache/blocks.h"

#define BLOCK 20000u
#define ASKS 8u
#define WANTS 3u

/* What the upstream was asked for and has not ended. */
struct asked {
	struct ldr_upstream_request request;
	atomic_uint priority;
	bool open;
};

static struct ldr_source *source;
static struct asked asks[ASKS];
static unsigned ask_count;
static bool refuses;

static enum ldr_status start(void *context, const struct ldr_upstream_request *request,
			     void **out_ticket, struct ldr_error *err)
{
	cr_assert_eq(context, &asks);
	cr_assert_lt(ask_count, ASKS);
	if (refuses)
		return ldr_fail(err, LDR_ENET, "host a.example: connection refused");
	asks[ask_count] = (struct asked){
		.request = *request, .priority = request->priority, .open = true};
	*out_ticket = &asks[ask_count++];
	return LDR_OK;
}

static void set_priority(void *context, void *ticket, unsigned priority)
{
	struct asked *asked = ticket;

	cr_assert_eq(context, &asks);
	cr_assert(asked->open, "a ticket that is over");
	asked->priority = priority;
}

static void give(struct asked *asked, size_t which)
{
	static uint8_t bytes[BLOCK];
	const struct ldr_placed_block *want = &asked->request.wants[which];

	test_block_fill((uint32_t)want->place.offset, want->block.plain_bytes, bytes);
	cr_assert_eq(asked->request.arrived(asked->request.arrival, which, bytes, NULL), LDR_OK);
}

static void end(struct asked *asked, enum ldr_status status)
{
	struct ldr_error error = {0};

	if (status != LDR_OK)
		ldr_fail(&error, status, "host a.example: gone");
	asked->request.done(asked->request.arrival, &error);
	asked->open = false;
}

static void give_all(struct asked *asked)
{
	for (size_t i = 0; i < asked->request.count; i++)
		give(asked, i);
	end(asked, LDR_OK);
}

static void setup(void)
{
	const struct ldr_upstream upstream = {
		.context = &asks, .start = start, .set_priority = set_priority};

	/* Without any cache: what is found later was kept for the wait. */
	cr_assert_eq(ldr_source_new(NULL, NULL, &source, NULL), LDR_OK);
	ldr_source_set_upstream(source, &upstream);
}

/* Asserts that no flight is left. */
static void teardown(void)
{
	ldr_source_free(source);
}

TestSuite(wait, .init = setup, .fini = teardown);

/* ---- a reader ---- */

struct reader {
	struct ldr_wait wait; /* first: the one is the other */
	atomic_uint told;
	struct ldr_placed_block wants[WANTS];
	size_t count;
	unsigned delivered;
};

static void ready(struct ldr_wait *wait)
{
	struct reader *reader = (struct reader *)wait;

	atomic_fetch_add(&reader->told, 1);
}

static void reader_init(struct reader *reader, enum ldr_priority priority, uint32_t first,
			size_t count)
{
	*reader = (struct reader){.wait = {.ready = ready, .priority = priority}, .count = count};
	for (uint32_t i = 0; i < count; i++) {
		static uint8_t bytes[BLOCK];

		reader->wants[i].block = test_block_fill(first + i, BLOCK, bytes);
		reader->wants[i].place = (struct ldr_place){
			.codec = LDR_CODEC_NONE, .offset = first + i, .stored_bytes = BLOCK};
	}
}

static enum ldr_status deliver(void *context, size_t which, const void *plain,
			       struct ldr_error *err)
{
	static uint8_t right[BLOCK];
	struct reader *reader = context;

	(void)err;
	test_block_fill((uint32_t)reader->wants[which].place.offset, BLOCK, right);
	cr_assert_arr_eq(plain, right, BLOCK);
	reader->delivered++;
	return LDR_OK;
}

static enum ldr_status come(struct reader *reader, struct ldr_error *err)
{
	const struct ldr_source_read read = {.wants = reader->wants,
					     .count = reader->count,
					     .deliver = deliver,
					     .context = reader,
					     .wait = &reader->wait};

	reader->delivered = 0;
	return ldr_source_read_or_wait(source, &read, err);
}

/* ---- cases ---- */

Test(wait, a_reader_is_told_once_all_has_come_and_finds_it_without_any_cache)
{
	struct reader reader;

	reader_init(&reader, LDR_PRIORITY_NORMAL, 1, WANTS);
	cr_assert_eq(come(&reader, NULL), LDR_EAGAIN);
	cr_assert_eq(ask_count, 1u);
	cr_expect_eq(asks[0].request.count, WANTS);
	cr_expect_eq(asks[0].priority, (unsigned)LDR_PRIORITY_NORMAL);
	for (size_t i = 0; i < WANTS; i++) {
		cr_expect_eq(reader.told, 0u, "told before block %zu", i);
		give(&asks[0], i);
	}
	cr_expect_eq(reader.told, 1u);
	end(&asks[0], LDR_OK);
	cr_expect_eq(reader.told, 1u);
	cr_expect_eq(come(&reader, NULL), LDR_OK);
	cr_expect_eq(reader.delivered, WANTS);
	/* It is kept until the release, and no longer. */
	cr_expect_eq(come(&reader, NULL), LDR_OK);
	ldr_wait_release(&reader.wait);
	cr_expect_eq(ask_count, 1u);
	cr_expect_eq(come(&reader, NULL), LDR_EAGAIN);
	cr_expect_eq(ask_count, 2u);
	give_all(&asks[1]);
	ldr_wait_release(&reader.wait);
}

Test(wait, what_others_have_asked_for_is_shared_and_only_the_rest_is_asked)
{
	struct reader first, second;

	reader_init(&first, LDR_PRIORITY_NORMAL, 1, 2);
	reader_init(&second, LDR_PRIORITY_NORMAL, 2, 2);
	cr_assert_eq(come(&first, NULL), LDR_EAGAIN);
	cr_assert_eq(come(&second, NULL), LDR_EAGAIN);
	cr_assert_eq(ask_count, 2u);
	cr_expect_eq(asks[1].request.count, 1u);
	give_all(&asks[1]);
	cr_expect_eq(second.told, 0u);
	give_all(&asks[0]);
	cr_expect_eq(first.told, 1u);
	cr_expect_eq(second.told, 1u);
	/* What one has left, the other still has. */
	ldr_wait_release(&first.wait);
	cr_expect_eq(come(&second, NULL), LDR_OK);
	ldr_wait_release(&second.wait);
}

Test(wait, P15_a_block_has_the_highest_priority_of_those_who_want_it_as_they_come_and_go)
{
	struct reader background, critical;

	reader_init(&background, LDR_PRIORITY_BACKGROUND, 1, WANTS);
	reader_init(&critical, LDR_PRIORITY_CRITICAL, 2, 1);
	cr_assert_eq(come(&background, NULL), LDR_EAGAIN);
	cr_expect_eq(asks[0].priority, (unsigned)LDR_PRIORITY_BACKGROUND);
	cr_assert_eq(come(&critical, NULL), LDR_EAGAIN);
	cr_assert_eq(ask_count, 1u);
	cr_expect_eq(asks[0].priority, (unsigned)LDR_PRIORITY_CRITICAL);
	ldr_wait_set_priority(&critical.wait, LDR_PRIORITY_NORMAL);
	cr_expect_eq(asks[0].priority, (unsigned)LDR_PRIORITY_NORMAL);
	ldr_wait_release(&critical.wait);
	cr_expect_eq(asks[0].priority, (unsigned)LDR_PRIORITY_BACKGROUND);
	ldr_wait_set_priority(&background.wait, LDR_PRIORITY_HIGH);
	cr_expect_eq(asks[0].priority, (unsigned)LDR_PRIORITY_HIGH);
	/* Once the block that was urgent is here, the rest is what it was. */
	cr_assert_eq(come(&critical, NULL), LDR_EAGAIN);
	give(&asks[0], 1);
	cr_expect_eq(critical.told, 1u);
	ldr_wait_set_priority(&background.wait, LDR_PRIORITY_NORMAL);
	cr_expect_eq(asks[0].priority, (unsigned)LDR_PRIORITY_NORMAL);
	give_all(&asks[0]);
	cr_expect_eq(critical.told, 1u);
	ldr_wait_release(&background.wait);
	ldr_wait_release(&critical.wait);
}

Test(wait, a_failure_is_heard_by_coming_again_and_of_others_only_after_asking_oneself)
{
	struct reader own, shared;
	struct ldr_error err = {0};

	reader_init(&own, LDR_PRIORITY_NORMAL, 1, 2);
	reader_init(&shared, LDR_PRIORITY_NORMAL, 2, 1);
	cr_assert_eq(come(&own, NULL), LDR_EAGAIN);
	cr_assert_eq(come(&shared, NULL), LDR_EAGAIN);
	end(&asks[0], LDR_ENET);
	cr_expect_eq(own.told, 1u);
	cr_expect_eq(shared.told, 1u);
	cr_expect_eq(come(&own, &err), LDR_ENET);
	cr_expect_str_eq(err.text, "host a.example: gone");
	ldr_wait_release(&own.wait);
	/* The other block may have been the bad one. */
	cr_assert_eq(come(&shared, NULL), LDR_EAGAIN);
	cr_assert_eq(ask_count, 2u);
	give_all(&asks[1]);
	cr_expect_eq(come(&shared, NULL), LDR_OK);
	ldr_wait_release(&shared.wait);
}

Test(wait, an_upstream_that_takes_nothing_is_a_failure_at_once)
{
	struct reader reader;
	struct ldr_error err = {0};

	refuses = true;
	reader_init(&reader, LDR_PRIORITY_NORMAL, 1, WANTS);
	cr_expect_eq(come(&reader, &err), LDR_ENET);
	cr_expect_str_eq(err.text, "host a.example: connection refused");
	ldr_wait_release(&reader.wait);
	cr_expect_eq(reader.told, 0u);
}

Test(wait, who_has_left_is_not_told_and_what_it_asked_for_still_serves_others)
{
	struct reader leaves, comes;

	reader_init(&leaves, LDR_PRIORITY_NORMAL, 1, WANTS);
	reader_init(&comes, LDR_PRIORITY_NORMAL, 1, WANTS);
	cr_assert_eq(come(&leaves, NULL), LDR_EAGAIN);
	ldr_wait_release(&leaves.wait);
	give(&asks[0], 0);
	cr_assert_eq(come(&comes, NULL), LDR_EAGAIN);
	/* Block 1 had come for nobody; the others are still on their way. */
	cr_assert_eq(ask_count, 2u);
	cr_expect_eq(asks[1].request.count, 1u);
	give_all(&asks[0]);
	give_all(&asks[1]);
	cr_expect_eq(leaves.told, 0u);
	cr_expect_eq(comes.told, 1u);
	cr_expect_eq(come(&comes, NULL), LDR_OK);
	ldr_wait_release(&comes.wait);
}

static void *read_with_a_thread(void *argument)
{
	struct reader *reader = argument;
	const struct ldr_source_read read = {.wants = reader->wants,
					     .count = reader->count,
					     .deliver = deliver,
					     .context = reader};

	cr_assert_eq(ldr_source_read_or_wait(source, &read, NULL), LDR_OK);
	return NULL;
}

Test(wait, T4_a_thread_and_a_wait_share_one_request)
{
	struct reader waits, blocks;
	pthread_t thread;

	reader_init(&waits, LDR_PRIORITY_BACKGROUND, 1, 1);
	reader_init(&blocks, LDR_PRIORITY_NORMAL, 1, 1);
	cr_assert_eq(come(&waits, NULL), LDR_EAGAIN);
	cr_assert_eq(pthread_create(&thread, NULL, read_with_a_thread, &blocks), 0);
	/* Whoever waits with a thread is in a hurry. */
	while (atomic_load(&asks[0].priority) != LDR_PRIORITY_HIGH)
		sched_yield();
	give_all(&asks[0]);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(blocks.delivered, 1u);
	cr_expect_eq(ask_count, 1u);
	cr_expect_eq(come(&waits, NULL), LDR_OK);
	ldr_wait_release(&waits.wait);
}
