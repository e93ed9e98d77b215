/*
 * XXH3-64 (libxxhash), the checksum of stored bytes: it finds damage by disks and memory, never
 * attacks; those are the business of SHA-256 ids (digest.h) and signatures.
 *
 * Threads: no state.
 */
#ifndef LDR_COMMON_CHECKSUM_H
#define LDR_COMMON_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t ldr_checksum(const void *bytes, size_t length);

/* The same with a seed: for tables in memory, and chained where a path is hashed name by name. */
uint64_t ldr_checksum_seeded(const void *bytes, size_t length, uint64_t seed);

/* XXH3-128 with a seed: wide enough to stand for the bytes where the seed is secret and chance is
 * the only adversary. */
struct ldr_wide_hash {
	uint64_t low;
	uint64_t high;
};
struct ldr_wide_hash ldr_checksum_wide(const void *bytes, size_t length, uint64_t seed);

#endif
