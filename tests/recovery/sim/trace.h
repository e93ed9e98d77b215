/*
 * What a program does to one folder, in order: its system calls, seen by ptrace. No root is needed.
 *
 * The program runs with the folder as its working folder and tells its marks into a file outside of it
 * (CRASHLAB_MARK, see core/oracle.h), so that marks and calls come in one order.
 *
 * Invariants
 *  1. Only calls that succeeded are events. A file is an object, found by its inode: a rename moves a
 *     name, an open descriptor goes on meaning the same object.
 *  2. All events together give what lies in the folder afterwards; sim_trace_run compares it. A call that is not
 *     known here (a shared mapping, copy_file_range, a folder in the folder) is an error, not a gap.
 *
 * Threads: one at a time; the program has a single thread and starts no other program.
 */
#ifndef LDR_TESTS_RECOVERY_TRACE_H
#define LDR_TESTS_RECOVERY_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "tests/recovery/core/subject.h"

#define SIM_OBJECTS_MAX 64
#define SIM_NAMES_MAX 32
#define SIM_NAME_BYTES 64
#define SIM_FILE_BYTES (1u << 20)

enum sim_kind {
	SIM_CREATE,      /* name -> object */
	SIM_WRITE,       /* object, offset, bytes */
	SIM_TRUNCATE,    /* object, offset is its new length */
	SIM_SYNC,        /* object */
	SIM_SYNC_FOLDER, /* all names */
	SIM_SYNC_ALL,    /* all names and objects */
	SIM_RENAME,      /* name, to */
	SIM_UNLINK,      /* name */
	SIM_LINK,        /* name, to */
	SIM_MARK,        /* name */
};

struct sim_event {
	enum sim_kind kind;
	unsigned object;
	uint64_t offset;
	size_t length;
	uint8_t *bytes; /* owns */
	char name[SIM_NAME_BYTES];
	char to[SIM_NAME_BYTES];
};

struct sim_object {
	uint8_t *bytes; /* owns; NULL when empty */
	size_t length;
};

struct sim_name {
	char name[SIM_NAME_BYTES]; /* "" is a free place */
	unsigned object;
};

/* What lies in the folder: as it was before the first event, and on the disk for good. */
struct sim_folder {
	struct sim_name names[SIM_NAMES_MAX];
	struct sim_object objects[SIM_OBJECTS_MAX];
};

struct sim_trace {
	struct sim_folder before;
	unsigned object_count;
	struct sim_event *events; /* owns */
	size_t event_count;
	size_t capacity;
};

/* Runs the subject's --run in folder, which its --seed has made. LDR_EUNSUPPORTED: ptrace is not allowed
 * here. LDR_EIO: the program failed. LDR_ECORRUPT: the events do not explain the folder. */
enum ldr_status sim_trace_run(const struct crash_subject *subject, const char *folder,
			      const char *mark_path, struct sim_trace *out, struct ldr_error *err);
void sim_trace_dispose(struct sim_trace *trace);

#endif
