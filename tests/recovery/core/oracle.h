/*
 * The oracle of the crash tests: what a recovered folder may look like, as one pure function.
 *
 * Vocabulary
 *   subject      a program that publishes something (see below), cut short at a crash point
 *   mark         a line that the subject tells while it runs, in order:
 *                  begin  created  wrote:N  fsynced  rename_enter  renamed  closed  dirsynced
 *                  ack:K  end
 *                The k-th "begin" starts version k; version 0 is what was there before.
 *                rename_enter is told before the call, ack:K after version K was reported as
 *                published.
 *   crash point  how many of the marks had been told
 *   phases       the crash points at which one and the same state of the disk can occur: a range, and
 *                the state must be right for every one of them
 *   observation  what lies in the folder after the file system has recovered
 *
 * Rules (tightened at will, never widened). With acked(p) the last K of an ack:K, started(p) the
 * version of the last rename_enter, both before crash point p, and first and last the range's ends:
 *   1. The mount succeeds.
 *   2. Each of the case's files is byte for byte one version v, and the policy's rule holds:
 *      folder  acked(last) <= v <= started(first)
 *      file    0 <= v <= started(first): a name may be lost, its bytes are exact
 *      none    once a version has been started, nothing is said about bytes or name
 *   3. Fixed files (the sentinel, a hard link to the old inode) are byte for byte what they
 *      were, under every policy.
 *   4. There is no other name, except temporaries and what the case calls free.
 *   5. The new version and its temporary are never the same bytes under two names (a rename seen
 *      twice).
 *
 * A subject is a command line. The harness adds one of these as its last argument, with the mounted
 * file system as the working folder:
 *   --describe   prints the case as one JSON object (see subject.h), touches nothing
 *   --seed       makes what is there before
 *   --run        publishes; the recorded part. CRASHLAB_MARK is the path of the file that takes each mark
 *                with one write(2) ("fsynced\n"). CRASHLAB_INJECT is what the subject itself does
 *                right after a mark is told, to provoke what a busy machine does by chance:
 *                  none | all:KIND | N:KIND (after the N-th mark, from 1) | random:SEED:KIND
 *                KIND is c (fsync of another file), t (a btrfs transaction commit), w (writeback of
 *                the temporary is started, not waited for)
 *   --recover    on a recovered file system, after the observation: completes or publishes again, reads
 *                back; exit status 0 when all is well, 77 when it lacks what it needs to tell
 *                CRASHLAB_ACKED is the number of the last acknowledged version (rule 2's acked(last))
 *   --serve      (where the description says "serves") the same as --recover, many times without being
 *                started anew: each line on standard input names a folder to recover in, then a tab
 *                and that number; when that is done and no file in it is open nor the working folder, the exit status is
 *                printed as a line
 *
 * Threads: pure functions of their arguments; no I/O, no allocation.
 */
#ifndef LDR_TESTS_RECOVERY_ORACLE_H
#define LDR_TESTS_RECOVERY_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"

enum crash_kind { CRASH_FILE, CRASH_FOLDER, CRASH_SYMLINK, CRASH_OTHER };

/* One name below the folder, as a path from it. The digest is of a file's bytes, zero otherwise. */
struct crash_row {
	const char *name;
	enum crash_kind kind;
	uint64_t size_bytes;
	struct ldr_id sha256;
};

struct crash_observation {
	int mount_errno; /* 0: mounted */
	int read_errno;  /* not 0: a folder or file could not be read; failed_name says which */
	const char *failed_name;
	size_t row_count;
	const struct crash_row *rows;
};

/* marks: all that the whole run told; first and last: how many of them had been told, both
 * included. */
struct crash_phases {
	const char *const *marks;
	size_t mark_count;
	size_t first;
	size_t last;
};

enum crash_policy { CRASH_SYNC_FOLDER, CRASH_SYNC_FILE, CRASH_SYNC_NONE };

struct crash_version {
	bool missing; /* there is no such file in this version */
	struct ldr_id sha256;
};

/* A file that the subject publishes: versions[0] is what was there before. A version past the end
 * is like the last one. */
struct crash_file {
	const char *name;
	size_t version_count;
	const struct crash_version *versions;
};

struct crash_fixed {
	const char *name;
	struct ldr_id sha256;
};

struct crash_case {
	const char *subject;
	enum crash_policy policy;
	size_t file_count;
	const struct crash_file *files;
	size_t fixed_count;
	const struct crash_fixed *fixed;
	size_t free_count;
	const char *const *free_prefixes; /* names that begin so are the recover step's to judge */
};

#define CRASH_VIOLATIONS_MAX 8
#define CRASH_VIOLATION_BYTES 256

/* count may be larger than what is kept. */
struct crash_violations {
	size_t count;
	char text[CRASH_VIOLATIONS_MAX][CRASH_VIOLATION_BYTES];
};

/* The K of the last ack:K that had been told at the last crash point: what a state of these phases
 * owes. */
size_t crash_oracle_acked(const struct crash_phases *phases);

/* True when nothing is wrong. */
bool crash_oracle_check(const struct crash_case *subject, const struct crash_phases *phases,
			const struct crash_observation *seen, struct crash_violations *out);

#endif
