/*
 * A view: what a SRC shows. A local pack or a release of a channel, opened for listing and reading; the
 * commands and the installer stand on it.
 *
 * Opening a channel's release: its record (one request, or the newest one seen when offline), the
 * signature by a trusted key, the channel's and the sequence's rules; nothing else is fetched until it is
 * asked for. The tree comes with its first use, the map in pages, blocks through the source chain
 * (memory, disk cache, hosts).
 *
 * Threads: one at a time, except ldr_view_source, whose source any thread may read.
 */
#ifndef LDR_CLIENT_VIEW_H
#define LDR_CLIENT_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "cache/source.h"
#include "client/fetch.h"
#include "client/location.h"
#include "packs/release.h"
#include "packs/tree_reader.h"

struct ldr_view;

/* Zero means none, or the default. Borrowed until the view is open, the keys until it is closed. */
struct ldr_view_options {
	const char
		*cache_path; /* the disk cache's folder; NULL: none (then `offline` cannot work) */
	struct ldr_public_key *const *keys; /* trusted; none: what the cache has pinned */
	size_t key_count;
	const char *const *hosts; /* more base URLs that serve the same store */
	size_t host_count;
	bool offline; /* ask no host: what is held, or LDR_EOFFLINE */
	struct ldr_transport_options transport;
	size_t memory_bytes; /* of the memory cache; 0: none */
	/* LDR_TITLE_KEY_BYTES, for an encrypted pack; without it such a pack's files are LDR_ENOKEY. */
	const uint8_t *title_key;
};

/* A pack needs no key; where keys are given it must carry a record that one of them has signed, and its
 * tree must be the record's. A cache folder that cannot be had is gone without when keys are given.
 * LDR_EUSAGE: no key trusted for this store yet. LDR_EUNTRUSTED (also another title key), LDR_ENOTFOUND (channel, release, file),
 * LDR_ENET, LDR_EOFFLINE, ... */
LDR_API enum ldr_status ldr_view_open(const struct ldr_location *source,
				      const struct ldr_view_options *options,
				      struct ldr_view **out_view, struct ldr_error *err);
LDR_API void ldr_view_close(struct ldr_view *view); /* NULL is allowed */
void ldr_view_cleanup(struct ldr_view **view);
#define LDR_AUTO_VIEW __attribute__((cleanup(ldr_view_cleanup)))

/* The signed record and its bytes; of a pack only when keys were given. Else NULL. Borrowed until close. */
LDR_API const struct ldr_release *ldr_view_release(const struct ldr_view *view);
LDR_API const char *ldr_view_record(const struct ldr_view *view, size_t *out_length);
/* The record before `of`, checked by signature and by the digest that `of` gives; of->previous_sequence
 * must not be 0. On success *out must be disposed. */
LDR_API enum ldr_status ldr_view_previous(struct ldr_view *view, const struct ldr_release *of,
					  struct ldr_release *out, struct ldr_error *err);
/* Whether it is a local pack: then blocks have no places. */
LDR_API bool ldr_view_is_pack(const struct ldr_view *view);
/* A pack that is encrypted, and no key was given. */
LDR_API bool ldr_view_is_locked(const struct ldr_view *view);
/* What did not work and did not matter for reading: no cache folder can be had, or what was seen cannot be
 * remembered in it. "" mostly; borrowed until close. */
LDR_API const char *ldr_view_trouble(const struct ldr_view *view);
/* What to call it in messages: "game.pack", "http://host#live@7". */
LDR_API const char *ldr_view_name(const struct ldr_view *view);

/* Uses these tree bytes (of an installation) instead of fetching them when they are this release's. */
LDR_API void ldr_view_offer_tree(struct ldr_view *view, const void *bytes, size_t length);
/* Borrowed until close. */
LDR_API enum ldr_status ldr_view_tree(struct ldr_view *view, const struct ldr_tree **out_tree,
				      struct ldr_error *err);
LDR_API enum ldr_status ldr_view_tree_bytes(struct ldr_view *view, const uint8_t **out_bytes,
					    size_t *out_length, struct ldr_error *err);

/* Blocks `first` to first + count - 1 of the tree with their places, fetching the pages of the map that
 * say so. Asking again for what has been asked for changes nothing in the view: any thread may do that. */
LDR_API enum ldr_status ldr_view_places(struct ldr_view *view, uint64_t first, uint64_t count,
					struct ldr_placed_block *out, struct ldr_error *err);
/* Where the release's own tree and map lie; releases only. Borrowed until close. */
LDR_API enum ldr_status ldr_view_top(struct ldr_view *view, const struct ldr_top **out_top,
				     struct ldr_error *err);
/* Borrowed until close. The upstream is NULL when there is none (a pack, or offline). */
LDR_API struct ldr_source *ldr_view_source(struct ldr_view *view);
LDR_API const struct ldr_upstream *ldr_view_upstream(struct ldr_view *view);
LDR_API struct ldr_disk_cache *ldr_view_disk(struct ldr_view *view);
/* The memory cache of its source, or NULL. Borrowed until close. */
LDR_API struct ldr_memory_cache *ldr_view_memory(struct ldr_view *view);

/* Reads a file's bytes in order; deliver gets them block by block, borrowed for the call. */
LDR_API enum ldr_status ldr_view_read_file(struct ldr_view *view, uint32_t node,
					   enum ldr_status (*deliver)(void *context,
								      const void *bytes,
								      size_t length,
								      struct ldr_error *err),
					   void *context, struct ldr_error *err);

/* Writes out what the disk cache keeps open, and says what became of all of it. False, and zeros: the view
 * has no disk cache. */
LDR_API bool ldr_view_cache_stat(struct ldr_view *view, struct ldr_disk_stat *out);
/* What went over the wire for this view so far (zero for packs). */
LDR_API void ldr_view_traffic(struct ldr_view *view, uint64_t *out_requests, uint64_t *out_bytes);

#endif
