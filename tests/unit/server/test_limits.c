/*
 * Deadlines of connections, by a clock that the test holds; ends are seen at the other side of a pair of
 * sockets.
 */
#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/limits.h"

struct held_clock {
	struct ldr_clock clock;
	uint64_t ms;
};

static uint64_t held_now(const struct ldr_clock *clock)
{
	const struct held_clock *held = clock->context;

	return held->ms * 1000000;
}

static int64_t held_wall(const struct ldr_clock *clock)
{
	(void)clock;
	return 0;
}

struct pair {
	int ours;
	int theirs;
};

static struct pair open_pair(void)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	return (struct pair){fds[0], fds[1]};
}

static void close_pair(struct pair pair)
{
	close(pair.ours);
	close(pair.theirs);
}

/* The peer sees the end of what we send. */
static bool ended(struct pair pair)
{
	char byte;

	return recv(pair.theirs, &byte, 1, MSG_PEEK) == 0;
}

static struct ldr_limits *new_limits(struct held_clock *held)
{
	struct ldr_limits_options options = {
		.clock = &held->clock,
		.waiting_ms = 1000,
		.grace_ms = 500,
		.slowest_bytes = 100,
	};
	struct ldr_limits *limits = NULL;

	held->clock = (struct ldr_clock){held_now, held_wall, held};
	held->ms = 5000;
	cr_assert_eq(ldr_limits_new(&options, &limits, NULL), LDR_OK);
	return limits;
}

Test(limits, a_waiting_connection_ends_at_its_deadline_and_once)
{
	struct held_clock held;
	struct ldr_limits *limits = new_limits(&held);
	struct pair pair = open_pair();
	struct ldr_connection *connection = ldr_limits_enter(limits, pair.ours);

	held.ms += 999;
	cr_expect_eq(ldr_limits_sweep(limits), 0);
	cr_expect_not(ended(pair));
	ldr_connection_waiting(limits, connection);
	held.ms += 999;
	cr_expect_eq(ldr_limits_sweep(limits), 0, "a new request begins a new wait");
	held.ms += 1;
	cr_expect_eq(ldr_limits_sweep(limits), 1);
	cr_expect(ended(pair));
	cr_expect_eq(ldr_limits_sweep(limits), 0, "ended once");
	ldr_limits_leave(limits, connection);
	cr_expect_eq(ldr_limits_count(limits), 0);
	ldr_limits_free(limits);
	close_pair(pair);
}

Test(limits, a_body_has_time_by_its_length_and_work_has_no_limit)
{
	struct held_clock held;
	struct ldr_limits *limits = new_limits(&held);
	struct pair slow = open_pair();
	struct pair busy = open_pair();
	struct pair huge = open_pair();
	struct ldr_connection *moving = ldr_limits_enter(limits, slow.ours);
	struct ldr_connection *working = ldr_limits_enter(limits, busy.ours);
	struct ldr_connection *largest = ldr_limits_enter(limits, huge.ours);

	ldr_connection_receiving(limits, moving, 300); /* 500 ms and 3 s */
	ldr_connection_working(working);
	ldr_connection_sending(limits, largest, UINT64_MAX);
	held.ms += 3499;
	cr_expect_eq(ldr_limits_sweep(limits), 0);
	held.ms += 1;
	cr_expect_eq(ldr_limits_sweep(limits), 1);
	cr_expect(ended(slow));
	held.ms += 1000000000;
	cr_expect_eq(ldr_limits_sweep(limits), 0);
	cr_expect_not(ended(busy));
	cr_expect_not(ended(huge));
	cr_expect_eq(ldr_limits_count(limits), 3);
	ldr_limits_leave(limits, working);
	ldr_limits_leave(limits, moving);
	ldr_limits_leave(limits, largest);
	ldr_limits_free(limits);
	close_pair(slow);
	close_pair(busy);
	close_pair(huge);
}

Test(limits, at_the_end_only_waiting_connections_stop_reading)
{
	struct held_clock held;
	struct ldr_limits *limits = new_limits(&held);
	struct pair idle = open_pair();
	struct pair busy = open_pair();
	struct ldr_connection *waiting = ldr_limits_enter(limits, idle.ours);
	struct ldr_connection *working = ldr_limits_enter(limits, busy.ours);
	char byte = 0;

	ldr_connection_working(working);
	cr_assert_eq(send(idle.theirs, "r", 1, 0), 1, "a request that has arrived");
	ldr_limits_end_waiting(limits);
	cr_expect_eq(recv(idle.ours, &byte, 1, 0), 1, "is still read");
	cr_expect_eq(recv(idle.ours, &byte, 1, 0), 0, "and then comes the end");
	cr_expect_eq(send(idle.ours, "a", 1, MSG_NOSIGNAL), 1, "and it can be answered");
	cr_expect_lt(recv(busy.ours, &byte, 1, 0), 0, "the busy one goes on");
	ldr_limits_leave(limits, working);
	ldr_limits_leave(limits, waiting);
	ldr_limits_free(limits);
	close_pair(idle);
	close_pair(busy);
}

Test(limits, a_peer_that_has_gone_is_noticed_where_bytes_are_awaited)
{
	struct held_clock held;
	struct ldr_limits *limits = new_limits(&held);
	struct pair pairs[4];
	struct ldr_connection *connections[4];
	char byte;

	for (int i = 0; i < 4; i++) {
		pairs[i] = open_pair();
		connections[i] = ldr_limits_enter(limits, pairs[i].ours);
	}
	ldr_connection_receiving(limits, connections[0], 100000);
	ldr_connection_sending(limits, connections[1], 100000);
	cr_assert_eq(send(pairs[2].theirs, "r", 1, 0), 1);
	for (int i = 0; i < 3; i++)
		shutdown(pairs[i].theirs, SHUT_WR);
	cr_expect_eq(ldr_limits_sweep(limits), 0, "seen once is not enough");
	cr_expect_eq(ldr_limits_sweep(limits), 1);
	cr_expect(ended(pairs[0]), "a body that cannot become whole");
	cr_expect_not(ended(pairs[1]), "who has said all may still listen");
	cr_expect_not(ended(pairs[2]), "there are bytes to read");
	cr_expect_not(ended(pairs[3]), "that peer is there");
	cr_assert_eq(recv(pairs[2].ours, &byte, 1, 0), 1);
	cr_expect_eq(ldr_limits_sweep(limits), 0);
	cr_expect_eq(ldr_limits_sweep(limits), 1);
	cr_expect(ended(pairs[2]));
	for (int i = 0; i < 4; i++) {
		ldr_limits_leave(limits, connections[i]);
		close_pair(pairs[i]);
	}
	ldr_limits_free(limits);
}
