/*
 * Recording: one run of a subject on a real file system, on a loop device, on the recorder.
 *
 * Life: open (the recorder is started in the namespace of mounts that the caller is in) - the caller
 * moves into a namespace of its own - run - close.
 *
 * Invariants
 *  1. The namespace that holds the loop mount is never the recorder's: a process that dies while it is
 *     the last in a namespace unmounts what is in it, and if that process serves the mount, it waits for
 *     itself for ever.
 *  2. The recorder dies with the process that opened it.
 *  3. The subject's time is limited, and so is the unmounting.
 *  4. Without direct I/O a flush may overtake a write: such a recording is refused.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_RECORD_H
#define LDR_TESTS_RECOVERY_RECORD_H

#include <sys/types.h>

#include "common/error.h"
#include "tests/recovery/core/disk.h"
#include "tests/recovery/core/log.h"
#include "tests/recovery/core/subject.h"

/* Where one worker works: a folder on tmpfs with these in it. */
struct crash_place {
	char folder[CRASH_PATH_BYTES / 2];
	char seed[CRASH_PATH_BYTES];   /* the image before the run */
	char image[CRASH_PATH_BYTES];  /* the image of a state */
	char fuse[CRASH_PATH_BYTES];   /* the recorder's mountpoint */
	char mount[CRASH_PATH_BYTES];  /* the file system's */
	char work[CRASH_PATH_BYTES];   /* the subject's folder in it */
	char output[CRASH_PATH_BYTES]; /* what programs print */
	const char *recorder;          /* borrows: the program's path */
};

/* Makes the folder and its parts. */
enum ldr_status crash_place_make(struct crash_place *place, const char *folder,
				 const char *recorder, struct ldr_error *err);

struct crash_fault {
	char kind;       /* 'w' write, 'f' flush, 0 none */
	unsigned number; /* of that kind, from the start of the run */
};

struct crash_recording {
	pid_t daemon;
	uint8_t *bytes; /* owns: the log as read */
	size_t length;
	struct crash_log log;
	int subject_status;
	char options[256]; /* of the mount, as the kernel reports them */
	int direct_io;     /* of the loop device, likewise */
};

/* Makes the seed image: format, then the subject's --seed. In a namespace of its own. */
enum ldr_status crash_record_seed(const struct crash_place *place, const struct crash_leg *leg,
				  const struct crash_subject *subject, struct ldr_error *err);
enum ldr_status crash_record_open(const struct crash_place *place, struct crash_recording *out,
				  struct ldr_error *err);
enum ldr_status crash_record_run(const struct crash_place *place, const struct crash_leg *leg,
				 const struct crash_subject *subject, const char *inject,
				 const struct crash_fault *fault, struct crash_recording *recording,
				 struct ldr_error *err);
/* Ends the recorder and frees everything. */
void crash_record_close(const struct crash_place *place, struct crash_recording *recording);

#endif
