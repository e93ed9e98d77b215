/*
 * Publishing a folder as the next release of a channel.
 *
 * The life of a publication:
 *
 *   1 read    the channel's current record, checked by the publisher's own key (or one of `keys`); its
 *             tree and map give the blocks that need not be stored again
 *   2 scan    the whole folder; every offence is reported before anything is read
 *   3 build   new blocks into packs, sent as they are sealed
 *   4 settle  all packs are in the store
 *   5 record  signed and put as releases/<channel>/<sequence>: one above the channel's, or the first
 *             number above it that is free (a dead publisher's record blocks nothing)
 *   6 move    the channel, by compare-and-swap
 *
 * A failure before 6 leaves the channel as it was; what was sent is found again by the next run. A lost
 * race is LDR_ECONFLICT, or with `rebase` the whole is done again upon the winner's release.
 *
 * Threads: one call at a time per store; progress is called from the calling thread.
 */
#ifndef LDR_CLIENT_PUBLISH_H
#define LDR_CLIENT_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/location.h"
#include "client/transport.h"
#include "packs/builder.h"
#include "packs/release.h"

#define LDR_PUBLISH_PACK_BYTES (32u * 1024 * 1024)

/* Zero (after size) means the default in brackets. */
struct ldr_publish_request {
	size_t size; /* sizeof(struct ldr_publish_request) */
	const char *folder;
	const struct ldr_location *store;
	const char *channel;
	struct ldr_key *key;
	struct ldr_public_key *const
		*keys; /* others that may have signed the current record (none) */
	size_t key_count;
	const char
		*cache_path; /* for metadata, pins and staging (none: staging in $TMPDIR or /tmp) */
	struct ldr_transport_options transport;
	struct ldr_codec_choice codec; /* (auto) */
	bool codec_given;
	struct ldr_chunk_sizes chunks; /* (LDR_CHUNK_SIZES_DEFAULT) */
	unsigned workers;              /* (processors) */
	enum ldr_link_policy links;
	const char *like;          /* another channel whose blocks are known too (none) */
	const char *note;          /* ("") */
	int64_t lifetime_s;        /* from its signing until it expires (for ever) */
	const char *const *layout; /* as in ldr_build_options */
	size_t layout_count;
	bool dry_run; /* store nothing, say what would be */
	bool rebase;
	struct ldr_scan_report *report; /* offences of the folder (NULL) */
	bool (*progress)(void *context, const struct ldr_build_progress *progress);
	void *progress_context;
};

struct ldr_publish_outcome {
	uint64_t sequence; /* of the new release; of a dry run: what it would be */
	struct ldr_id digest;
	struct ldr_tree_totals totals;
	struct ldr_scan_totals scanned;
	struct ldr_build_stats stats;
	uint32_t packs;             /* new ones */
	uint32_t packs_held;        /* of these, there already */
	uint64_t pack_bytes;        /* written or sent */
	uint64_t previous_sequence; /* 0: the channel's first release */
	unsigned attempts;          /* 1, or more after rebasing */
};

LDR_API enum ldr_status ldr_publish_folder(const struct ldr_publish_request *request,
					   struct ldr_publish_outcome *out, struct ldr_error *err);

#endif
