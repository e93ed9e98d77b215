/*
 * The gear table, for chunker.c and its tests.
 */
#ifndef LDR_PACKS_CHUNKER_PRIV_H
#define LDR_PACKS_CHUNKER_PRIV_H

#include <stdint.h>

extern const uint64_t ldr_chunk_gear[256];

#endif
