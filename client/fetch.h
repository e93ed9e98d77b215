/*
 * Fetch: blocks and small objects of a store, from one or more hosts.
 *
 * Wanted blocks are sorted by (pack, offset) and joined into ranges when the gap is cheaper than a
 * request; several ranges are under way at once; each block is handed on as its bytes arrive, by worker
 * threads, so that the I/O thread never decodes. Received bytes are held in a bounded set of buffers
 * (ranges_at_once + 2 of range_bytes): no free buffer, no new range.
 *
 * A server that answers 200 to a range is taken at its word: the wanted slices are cut out of the body
 * as it passes, and from then on its packs are read whole, once each. 206 with another range than the
 * asked one, a short body, wrong bytes (told by `arrived`), resets and stalls are retried on the next
 * host, at most `attempts` times for a range, with a jittered pause that honours Retry-After; 404 of a
 * pack that the record lists, 401, 403 and 416 are not retried on the same host. Wrong bytes count against
 * the host that sent them; docs/internals/fetch.md has the whole table.
 *
 * Threads: any thread may call; new, set_release and free exclude all else. arrived is called from the
 * worker threads, several at once, for different wants.
 */
#ifndef LDR_CLIENT_FETCH_H
#define LDR_CLIENT_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "cache/source.h"
#include "client/transport.h"
#include "packs/release.h"

#define LDR_FETCH_HOSTS_MAX 16

struct ldr_fetch;

/* Zero means the default in brackets. */
struct ldr_fetch_options {
	struct ldr_transport *transport; /* borrowed until free */
	const char *const *hosts;        /* base URLs, the preferred first; copied */
	size_t host_count;
	unsigned ranges_at_once; /* (6) */
	uint32_t range_bytes;    /* longest range (2 MiB) */
	uint32_t gap_bytes;      /* largest gap that is read over (32 KiB) */
	unsigned workers;        /* threads that call arrived (processors) */
	unsigned attempts;       /* for a range, over all hosts (5) */
};

struct ldr_fetch_stat {
	uint64_t requests;
	uint64_t body_bytes; /* all that came, wanted or not */
	uint64_t blocks;
	uint64_t retries;
	uint64_t bad_blocks;  /* wrong bytes, refused by arrived */
	uint64_t whole_packs; /* read whole because the server ignores ranges */
};

LDR_API enum ldr_status ldr_fetch_new(const struct ldr_fetch_options *options,
				      struct ldr_fetch **out_fetch, struct ldr_error *err);
LDR_API void ldr_fetch_free(struct ldr_fetch *fetch); /* NULL is allowed */
/* Which pack a place's number means: borrows the release until the next call or free. */
LDR_API void ldr_fetch_set_release(struct ldr_fetch *fetch, const struct ldr_release *release);
/* The table for ldr_source_set_upstream, and for the installer, which calls it directly. Borrowed until
 * free. A call returns when all its wants have arrived, or with the first failure after which no further
 * arrived call comes. What arrived answers besides LDR_OK and LDR_ECORRUPT (LDR_ENOSPACE, say) ends the
 * call at once with that status. LDR_ECORRUPT is returned only if every failed attempt at a range was one
 * of wrong bytes, or for a want that lies in no listed pack; LDR_ENOTFOUND and LDR_EDENIED if every host
 * refused; LDR_ENET and LDR_ETIMEDOUT name URL and host. */
LDR_API const struct ldr_upstream *ldr_fetch_upstream(struct ldr_fetch *fetch);
/* A small object ("channels/live", "keys/..."), from the first host that has it. Owns: free(). A NUL is
 * put behind the bytes. LDR_ENOTFOUND only when a host answered so; LDR_ENET names the host. */
LDR_API enum ldr_status ldr_fetch_object(struct ldr_fetch *fetch, const char *path,
					 size_t max_bytes, uint8_t **out_data, size_t *out_length,
					 struct ldr_error *err);
LDR_API void ldr_fetch_stat(struct ldr_fetch *fetch, struct ldr_fetch_stat *out);

#endif
