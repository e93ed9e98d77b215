/*
 * cache [--mutant no-sync] STEP
 *
 * The disk cache as a subject for crashlab (core/oracle.h, core/drive.h): two processes fill one
 * folder at the same time, packs are sealed at 64 KiB, one round evicts. Rounds, each acknowledged
 * after the flush of both:
 *
 *   1, 2   both processes put blocks, seal and flush
 *   3      the cache is trimmed to half of what it has
 *   4      both put and flush again
 *
 * After any crash the cache opens and works: every block that it gives is right; the blocks of the
 * rounds since the last trimming that were acknowledged are there (at most what was not flushed is
 * fetched again); no temporary of the dead is left; what is missing can be put again and is there
 * when the folder is opened once more; nothing in it is bad.
 *
 * The mutant leaves the cache's syncs out (by the seams) and must be caught.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/disk.h"
#include "common/bytes.h"
#include "common/publisher_seams.h"
#include "packs/block.h"
#include "tests/recovery/core/drive.h"

#define FOLDER "cache"
#define ROUNDS 4u
#define TRIMMED_IN 3u
#define PROCESSES 2u
#define BLOCKS 10u /* of a process in a round */
#define BLOCK_BYTES 12000u
#define TEMPORARY ".larder-tmp."

struct probe {
	bool no_sync;
};

/* Round 0 is what was there before. */
struct numbered {
	unsigned round, process, number;
};

static void make_block(const struct numbered *of, uint8_t bytes[BLOCK_BYTES],
		       struct ldr_block_ref *out)
{
	uint64_t random = 1 + of->round * 1000u + of->process * 100u + of->number;

	for (size_t i = 0; i < BLOCK_BYTES; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[i] = (uint8_t)(random >> 56);
	}
	out->plain_bytes = BLOCK_BYTES;
	if (ldr_digest_once(bytes, BLOCK_BYTES, &out->id, NULL) != LDR_OK)
		abort();
}

static struct ldr_disk_cache *open_cache(void)
{
	const struct ldr_disk_options options = {
		.quota_bytes = 16u << 20, .free_floor_bytes = 1u << 20, .seal_bytes = 64u << 10};
	struct ldr_disk_cache *cache;
	struct ldr_error err = {.status = LDR_OK};

	if (ldr_disk_open(FOLDER, &options, &cache, &err) == LDR_OK)
		return cache;
	fprintf(stderr, "cache: open: %s\n", err.text);
	return NULL;
}

static int flush(struct ldr_disk_cache *cache)
{
	struct ldr_error err = {.status = LDR_OK};

	if (ldr_disk_flush(cache, &err) == LDR_OK)
		return 0;
	fprintf(stderr, "cache: flush: %s\n", err.text);
	return 1;
}

static void put_round(struct ldr_disk_cache *cache, unsigned round, unsigned process)
{
	static uint8_t bytes[BLOCK_BYTES];

	for (unsigned i = 0; i < BLOCKS; i++) {
		const struct numbered of = {round, process, i};
		struct ldr_block_ref block;

		make_block(&of, bytes, &block);
		ldr_disk_put(cache, &block, LDR_CODEC_NONE, bytes, BLOCK_BYTES);
		if (process == 0)
			crash_drive_mark("wrote", i + 1);
	}
}

/* What a second process of the machine does at the same time. */
static int other_process(unsigned round)
{
	struct ldr_disk_cache *cache = open_cache();
	int rc = 1;

	if (cache) {
		put_round(cache, round, 1);
		rc = flush(cache);
		ldr_disk_close(cache);
	}
	return rc;
}

static int fill_by_two(struct ldr_disk_cache *cache, unsigned round)
{
	pid_t child = fork();
	int status = 1, rc;

	if (child == 0)
		_exit(other_process(round));
	put_round(cache, round, 0);
	rc = flush(cache);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	return rc | (WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int trim(struct ldr_disk_cache *cache)
{
	struct ldr_disk_stat stat;
	struct ldr_error err = {.status = LDR_OK};

	ldr_disk_stat(cache, &stat);
	if (ldr_disk_trim(cache, stat.bytes / 2, &err) == LDR_OK)
		return 0;
	fprintf(stderr, "cache: trim: %s\n", err.text);
	return 1;
}

static void set_syncs(const struct probe *probe, bool on)
{
	ldr_seam_reset();
	if (probe->no_sync && !on) {
		ldr_seam_fail(LDR_SEAM_SYNC, 1, UINT32_MAX, 0);
		ldr_seam_fail(LDR_SEAM_SYNCFS, 1, UINT32_MAX, 0);
	}
}

static int step_run(void *context)
{
	const struct probe *probe = context;
	struct ldr_disk_cache *cache;
	int rc = 0;

	set_syncs(probe, false);
	cache = open_cache();
	if (!cache)
		return 1;
	for (unsigned round = 1; round <= ROUNDS && rc == 0; round++) {
		set_syncs(probe, false);
		crash_drive_mark("begin", 0);
		rc = round == TRIMMED_IN ? trim(cache) : fill_by_two(cache, round);
		set_syncs(probe, true);
		crash_drive_mark("rename_enter", 0);
		if (rc == 0)
			crash_drive_mark("ack", round);
	}
	ldr_disk_close(cache);
	crash_drive_mark("end", 0);
	return rc;
}

static int step_seed(void *context)
{
	struct ldr_disk_cache *cache = open_cache();
	int rc;

	(void)context;
	if (!cache)
		return 1;
	put_round(cache, 0, 0);
	rc = flush(cache);
	ldr_disk_close(cache);
	return rc;
}

/* ---- recovery ---- */

struct reader {
	struct ldr_coder *coder;
	struct ldr_hasher *hasher;
	uint8_t wanted[BLOCK_BYTES];
	uint8_t found[BLOCK_BYTES];
};

/* 0: there and right; 1: not there; 2: wrong. */
static int read_block(struct ldr_disk_cache *cache, struct reader *reader,
		      const struct numbered *of, struct ldr_block_ref *block)
{
	struct ldr_error err = {.status = LDR_OK};
	enum ldr_status status;

	make_block(of, reader->wanted, block);
	status = ldr_disk_read(cache, block, reader->coder, reader->hasher, reader->found, &err);
	if (status == LDR_ENOTFOUND)
		return 1;
	if (status == LDR_OK && memcmp(reader->wanted, reader->found, BLOCK_BYTES) == 0)
		return 0;
	fprintf(stderr, "cache: round %u process %u block %u: %s\n", of->round, of->process,
		of->number, status == LDR_OK ? "other bytes" : err.text);
	return 2;
}

/* Nothing before the last trimming is owed any more once that has begun: round TRIMMED_IN - 1 is
 * acknowledged then. */
static bool is_owed(const struct numbered *of, unsigned acked)
{
	if (of->round > acked || of->round == TRIMMED_IN || (of->round == 0 && of->process > 0))
		return false;
	return of->round > TRIMMED_IN || acked < TRIMMED_IN - 1;
}

/* Reads all blocks; with refill, puts the missing ones again; without, none may be missing (all) or
 * none that is owed. */
static int check_blocks(struct ldr_disk_cache *cache, struct reader *reader, unsigned acked,
			bool all, bool refill)
{
	int rc = 0;

	for (unsigned n = 0; n < (ROUNDS + 1) * PROCESSES * BLOCKS; n++) {
		const struct numbered of = {n / (PROCESSES * BLOCKS), n / BLOCKS % PROCESSES,
					    n % BLOCKS};
		struct ldr_block_ref block;
		int got = read_block(cache, reader, &of, &block);

		if (got == 2)
			rc = 1;
		if (got == 1 && (all || is_owed(&of, acked))) {
			fprintf(stderr, "cache: round %u process %u block %u is lost, acked %u\n",
				of.round, of.process, of.number, acked);
			rc = 1;
		}
		if (got == 1 && refill)
			ldr_disk_put(cache, &block, LDR_CODEC_NONE, reader->wanted, BLOCK_BYTES);
	}
	return rc;
}

static bool has_temporaries(void)
{
	DIR *folder = opendir(FOLDER);
	struct dirent *entry;
	bool found = false;

	while (folder && (entry = readdir(folder)))
		found |= strncmp(entry->d_name, TEMPORARY, strlen(TEMPORARY)) == 0;
	if (folder)
		closedir(folder);
	return found;
}

static int check_whole(struct ldr_disk_cache *cache)
{
	uint64_t blocks, bad;
	struct ldr_error err = {.status = LDR_OK};

	if (ldr_disk_verify(cache, &blocks, &bad, &err) == LDR_OK && bad == 0)
		return 0;
	fprintf(stderr, "cache: %llu bad blocks: %s\n", (unsigned long long)bad, err.text);
	return 1;
}

static int open_and_check(struct reader *reader, unsigned acked, bool again)
{
	struct ldr_disk_cache *cache = open_cache();
	int rc;

	if (!cache)
		return 1;
	rc = check_blocks(cache, reader, acked, again, !again);
	rc |= again ? check_whole(cache) : flush(cache);
	ldr_disk_close(cache);
	if (has_temporaries()) {
		fprintf(stderr, "cache: a temporary of the dead is left\n");
		rc = 1;
	}
	return rc;
}

static int step_recover(void *context, unsigned acked)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int rc = 1;

	(void)context;
	if (reader) {
		reader->coder = ldr_coder_new();
		reader->hasher = ldr_hasher_new();
	}
	if (reader && reader->coder && reader->hasher) {
		rc = open_and_check(reader, acked, false);
		rc |= open_and_check(reader, 0, true);
	}
	if (reader) {
		ldr_coder_free(reader->coder);
		ldr_hasher_free(reader->hasher);
	}
	free(reader);
	return rc;
}

static int step_describe(void *context)
{
	const struct probe *probe = context;

	printf("{\"subject\": \"cache%s\", \"policy\": \"folder\", \"files\": []",
	       probe->no_sync ? "/no-sync" : "");
	printf(", \"fixed\": [], \"free\": [\"" FOLDER "\"], \"serves\": true}\n");
	return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct probe probe = {.no_sync = false};
	const struct crash_steps steps = {"cache",  step_describe, step_seed,
					  step_run, step_recover,  &probe};

	if (argc == 4 && strcmp(argv[1], "--mutant") == 0 && strcmp(argv[2], "no-sync") == 0)
		probe.no_sync = true;
	else if (argc != 2) {
		fprintf(stderr, "cache: see the head of its source for what it takes\n");
		return 2;
	}
	return crash_drive(&steps, argv[argc - 1]);
}
