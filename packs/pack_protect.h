/*
 * Local archives with obfuscated or encrypted blocks: a plain pack, copied block by block.
 *
 * Salt and proof stand in the header but follow from the whole contents, so a pack is made plain first
 * and then copied; both lie on the disk for a moment. Same pack, same key: same bytes.
 */
#ifndef LDR_PACKS_PACK_PROTECT_H
#define LDR_PACKS_PACK_PROTECT_H

#include "common/publisher.h"
#include "packs/pack_reader.h"

struct ldr_protection {
	uint32_t flags;           /* LDR_PACK_FLAG_XOR or LDR_PACK_FLAG_ENCRYPTED */
	const uint8_t *title_key; /* of encrypted packs: LDR_TITLE_KEY_BYTES, borrowed */
};

/* Appends the protected copy to an empty stream; the caller commits it. LDR_EINVAL: the pack is not plain,
 * flags that are not one of the two, a missing key. */
enum ldr_status ldr_pack_protect(const struct ldr_pack *plain,
				 const struct ldr_protection *protection, struct ldr_stream *stream,
				 struct ldr_id *out_id, uint64_t *out_size, struct ldr_error *err);

#endif
