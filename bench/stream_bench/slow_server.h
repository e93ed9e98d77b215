/*
 * A static web server over a store's folder whose packs take their time: each request for one waits before its first byte, without
 * using a processor. Single ranges; nothing else that a store needs.
 *
 * Threads: one for each connection; start, stop and delay by the main thread.
 */
#ifndef LDR_BENCH_STREAM_SLOW_SERVER_H
#define LDR_BENCH_STREAM_SLOW_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct MHD_Daemon;

struct slow_server {
	struct MHD_Daemon *daemon;
	const char *folder; /* borrowed */
	char url[64];       /* "http://127.0.0.1:PORT" */
	atomic_uint
		delay_ms; /* of requests that begin from now on; waiting ones are let go when it becomes 0 */
	atomic_uint active;    /* requests being waited for */
	atomic_ulong requests; /* for packs, so far */
};

/* False after bench_say. The storage must stay where it is until stop. */
bool slow_server_start(const char *folder, struct slow_server *server);
void slow_server_stop(struct slow_server *server);

#endif
