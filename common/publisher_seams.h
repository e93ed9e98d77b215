/*
 * Fault seams: how tests reach between the steps of a publication. They exist only in builds with
 * LDR_TEST_SEAMS; production objects hold no symbol that begins with ldr_seam_ (make check-seams).
 *
 * Calls.  Every call of common/os passes LDR_SEAM_FAILS(kind) before it reaches the system. A plan made
 *         by ldr_seam_fail makes calls number first .. first + count - 1 of a kind, from then on, fail with an errno
 *         value, without having happened. An errno value of 0 makes a read or write give 0 bytes.
 * Writes. ldr_seam_cap_writes cuts every write, so that one append becomes several system calls.
 * Steps.  Publisher and batch tell each step that has succeeded. A hook may look, change files from
 *         outside, publish again, stop or end the process there.
 *
 * A whole program built with seams takes one order from the environment, LARDER_SEAM:
 *	kill STEP N		SIGKILL to itself after the n-th such step
 *	fail CALL N ERRNO	the n-th such call fails
 *	skip CALL		no such call happens, and all of them succeed
 * The sync of a folder is a call of both kinds, SYNC_FOLDER and SYNC.
 *
 * State: the seams are the one exception to "no mutable globals": they reach into code that must not
 * know them. Threads: orders are given while no other thread runs; counting is atomic.
 */
#ifndef LDR_COMMON_PUBLISHER_SEAMS_H
#define LDR_COMMON_PUBLISHER_SEAMS_H

#include <stdbool.h>
#include <stddef.h>

#define LDR_SEAM_CALLS(X)             \
	X(OPEN, "open")               \
	X(CLOSE, "close")             \
	X(READ, "read")               \
	X(WRITE, "write")             \
	X(SYNC, "sync")               \
	X(SYNC_FOLDER, "sync_folder") \
	X(SYNCFS, "syncfs")           \
	X(STAT, "stat")               \
	X(CHMOD, "chmod")             \
	X(MKDIR, "mkdir")             \
	X(RENAME, "rename")           \
	X(UNLINK, "unlink")           \
	X(SYMLINK, "symlink")         \
	X(LOCK, "lock")               \
	X(LIST, "list")               \
	X(ALLOC, "alloc")

enum ldr_seam_call {
#define LDR_SEAM_CALL_ENUM(name, text) LDR_SEAM_##name,
	LDR_SEAM_CALLS(LDR_SEAM_CALL_ENUM)
#undef LDR_SEAM_CALL_ENUM
		LDR_SEAM_CALL_COUNT
};

/* BATCH_REMOVED to BATCH_MODE are in the order of enum ldr_batch_kind.
 * Publication: begun (checked, folder open, nothing made) ... returned. Batch: the rest. RENAMING is
 * told before its call, since a crash inside a rename may show either side. */
#define LDR_SEAM_STEPS(X)                   \
	X(BEGUN, "begun")                   \
	X(CREATED, "created")               \
	X(WROTE, "wrote")                   \
	X(SYNCED, "synced")                 \
	X(RENAMING, "renaming")             \
	X(RENAMED, "renamed")               \
	X(CLOSED, "closed")                 \
	X(FOLDER_SYNCED, "folder_synced")   \
	X(RETURNED, "returned")             \
	X(SWEEPING, "sweeping")             \
	X(BATCH_BEGUN, "batch_begun")       \
	X(BATCH_OPENED, "batch_opened")     \
	X(BATCH_MODES, "batch_modes")       \
	X(BATCH_SYNCED, "batch_synced")     \
	X(BATCH_PLANNED, "batch_planned")   \
	X(BATCH_REMOVED, "batch_removed")   \
	X(BATCH_UNMADE, "batch_unmade")     \
	X(BATCH_FOLDER, "batch_folder")     \
	X(BATCH_FILE, "batch_file")         \
	X(BATCH_SYMLINK, "batch_symlink")   \
	X(BATCH_MODE, "batch_mode")         \
	X(BATCH_APPLIED, "batch_applied")   \
	X(BATCH_RESYNCED, "batch_resynced") \
	X(BATCH_RECORDED, "batch_recorded") \
	X(BATCH_CLEANED, "batch_cleaned")

enum ldr_seam_step {
#define LDR_SEAM_STEP_ENUM(name, text) LDR_STEP_##name,
	LDR_SEAM_STEPS(LDR_SEAM_STEP_ENUM)
#undef LDR_SEAM_STEP_ENUM
		LDR_SEAM_STEP_COUNT
};

#ifdef LDR_TEST_SEAMS

/* For tests. */
void ldr_seam_reset(void);
void ldr_seam_fail(enum ldr_seam_call call, unsigned first, unsigned count, int sys_errno);
void ldr_seam_cap_writes(size_t max_bytes); /* 0: no cap */
/* How often a call was made, or a step told, since the last reset (calls: or the last
 * order to fail some of them). */
unsigned ldr_seam_calls(enum ldr_seam_call call);
unsigned ldr_seam_steps(enum ldr_seam_step step);
const char *ldr_seam_step_name(enum ldr_seam_step step);
/* hook gets the step and its number of that kind, from 1. It is not called while it runs. */
void ldr_seam_on_step(void (*hook)(void *context, enum ldr_seam_step step, unsigned number),
		      void *context);

/* For the code under test. fails: true with errno set; cap: the length to ask for. */
bool ldr_seam_fails(enum ldr_seam_call call);
size_t ldr_seam_cap(size_t length);
void ldr_seam_tell(enum ldr_seam_step step);

#define LDR_SEAM_FAILS(name) ldr_seam_fails(LDR_SEAM_##name)
#define LDR_SEAM_CAP(length) ldr_seam_cap(length)
#define LDR_STEP(name) ldr_seam_tell(LDR_STEP_##name)
#define LDR_STEP_PLUS(name, more) ldr_seam_tell(LDR_STEP_##name + (unsigned)(more))

#else

#define LDR_SEAM_FAILS(name) false
#define LDR_SEAM_CAP(length) (length)
#define LDR_STEP(name) ((void)0)
#define LDR_STEP_PLUS(name, more) ((void)(more))

#endif

#endif
