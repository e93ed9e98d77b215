/*
 * One open pack, many threads: finding, reading, taking and giving up references at once. Meant for TSan;
 * the last reference goes in whichever thread is last.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "packs/pack_reader.h"

#define THREADS 4
#define ROUNDS 40

static void must(enum ldr_status status, const struct ldr_error *err)
{
	if (status == LDR_OK)
		return;
	fprintf(stderr, "%s\n", err->text);
	abort();
}

static void read_all(const struct ldr_pack *pack, struct ldr_coder *coder,
		     struct ldr_hasher *hasher, uint8_t *plain)
{
	for (uint32_t i = 0; i < ldr_pack_entry_count(pack); i++) {
		struct ldr_pack_entry entry, found;
		struct ldr_error err = {0};

		ldr_pack_entry_at(pack, i, &entry);
		if (!ldr_pack_find(pack, &entry.id, &found) || found.offset != entry.offset)
			abort();
		must(ldr_pack_read(pack, &entry, coder, hasher, plain, &err), &err);
	}
}

/* Owns one reference to the pack. */
static void *work(void *argument)
{
	LDR_AUTO_PACK struct ldr_pack *pack = argument;
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);

	if (!coder || !hasher || !plain)
		abort();
	for (unsigned i = 0; i < ROUNDS; i++) {
		LDR_AUTO_PACK struct ldr_pack *mine = ldr_pack_ref(pack);

		read_all(mine, coder, hasher, plain);
	}
	free(plain);
	return NULL;
}

int main(void)
{
	for (unsigned mode = 0; mode <= LDR_PACK_MAP; mode++) {
		struct ldr_pack_options options = {.mode = mode};
		pthread_t threads[THREADS];
		struct ldr_pack *pack;
		struct ldr_error err = {0};

		must(ldr_pack_open("tests/golden/packs/codecs.pack", &options, &pack, &err), &err);
		for (unsigned i = 0; i < THREADS; i++)
			if (pthread_create(&threads[i], NULL, work, ldr_pack_ref(pack)))
				abort();
		ldr_pack_unref(pack);
		for (unsigned i = 0; i < THREADS; i++)
			if (pthread_join(threads[i], NULL))
				abort();
	}
	return 0;
}
