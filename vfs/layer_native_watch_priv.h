/*
 * The watched mode of the native layer, inside: the table of names (layer_native_watch.c), what
 * keeps it right (layer_native_events.c), mounts of the system (layer_native_mounts.c).
 *
 * The names are those of a memory layer without bytes (memory_names.c): read without a lock,
 * changed one at a time. A name is a file, a folder, or LIVE: something whose inside is not known
 * (a symlink, a pipe). A folder is *known* when it is watched and all its names have been taken in;
 * what a known folder lacks is not there. Below a LIVE name and in a folder that is not known the
 * system is asked. Where a file's length would lie in the table, a folder has LDR_UNREAD, or, when
 * it is known, the id of its held descriptor (0: none is held).
 *
 * Invariants
 *  1. An event says where to look, never what to believe: the name is looked at on the disk and the
 *     table made equal to what was seen. So events may come late, twice or merged.
 *  2. A look writes what it saw only if nobody has written the same name since before the look
 *     (`versions`, by the name's hash). An own change reads the version before its system call;
 *     when it is still the same afterwards, what was done is what is there, and is written without
 *     a look: whoever changed the name in between was this program, and has written, or somebody
 *     else, whose event is still to come. So an event that is taken in counts the version up even
 *     if it makes nothing of the name, and the end of a watch as well as its beginning counts up
 *     all: what happened to names in between is told by no event.
 *  3. A folder is marked UNREAD, with all below it, before names below it are taken away. So a name
 *     that is there never seems to be missing. Whoever reads a folder counts `known_count` up before
 *     it marks it known: a look-up that sees another count at its end asks the system.
 *  4. Nothing is lost when memory runs out: the folder becomes UNREAD instead.
 *
 * Locks: one turn at a time (a flag under a mutex of LDR_RANK_WATCH) takes in events and reads
 * folders; the table's own lock (`names.changes`) is taken inside it, for a change alone. Own
 * changes take only that one.
 */
#ifndef LDR_VFS_LAYER_NATIVE_WATCH_PRIV_H
#define LDR_VFS_LAYER_NATIVE_WATCH_PRIV_H

#include <sys/inotify.h>

#include "vfs/layer_native_priv.h"
#include "vfs/memory_priv.h"

#define LDR_KIND_LIVE ((enum ldr_kind)4)
#define LDR_UNREAD (UINT64_C(1) << 63)
#define LDR_WATCH_VERSIONS 256u
#define LDR_WATCH_BUCKETS 1024u
#define LDR_WATCH_EVENT_BYTES ((size_t)64 * 1024)
#define LDR_WATCH_EVENTS_MAX (LDR_WATCH_EVENT_BYTES / sizeof(struct inotify_event))
#define LDR_WATCH_DONE 1024u

/* A watched folder; in a table by the system's number. */
struct ldr_watched_folder {
	struct ldr_watched_folder *next;
	uint64_t held; /* 0: none */
	int number;
	size_t length;
	char path[];
};

/* Folders still to be read. */
struct ldr_to_read {
	struct ldr_to_read *next;
	char path[];
};

struct ldr_native_watch {
	struct ldr_native *native;
	struct ldr_memory_layer names;
	_Atomic uint64_t known_count;
	_Atomic uint32_t versions[LDR_WATCH_VERSIONS]; /* written under names.changes */
	_Atomic uint32_t look_count;   /* looks and own changes; written under names.changes */
	_Atomic uint32_t unread_count; /* folders that own changes made UNREAD; likewise */

	int inotify;
	int wake;
	int mounts_thread; /* two, for each poll tells a change but once */
	int mounts_settle;
	pthread_t thread;
	bool runs;

	struct ldr_mutex lock;
	struct ldr_condition turn_given;
	bool turn_taken;

	/* Below: whoever has the turn. */
	struct ldr_watched_folder *folders[LDR_WATCH_BUCKETS];
	uint32_t folder_count;
	uint32_t max_watches;
	struct ldr_to_read *to_read;
	uint64_t mounts_below;
	dev_t device;
	uint8_t *events;
	uint32_t event_at[LDR_WATCH_EVENTS_MAX];
	uint64_t done[LDR_WATCH_DONE]; /* hashes of names looked at since the events were read */

	_Atomic uint64_t event_count;
	_Atomic uint64_t fallback_count;
};

/* ---- layer_native_watch.c ---- */

static inline void ldr_watch_count_fallback(struct ldr_native_watch *watch)
{
	atomic_fetch_add_explicit(&watch->fallback_count, 1, memory_order_relaxed);
}

static inline enum ldr_kind ldr_watch_kind_of(mode_t type)
{
	return S_ISDIR(type) ? LDR_KIND_FOLDER : S_ISREG(type) ? LDR_KIND_FILE : LDR_KIND_LIVE;
}

/* What the table has; 0: nothing. *out_known: a folder that is known. */
enum ldr_kind ldr_watch_get(struct ldr_native_watch *watch, const char *path, size_t length,
			    bool *out_known);
/* Looks at one name and makes the table equal to it; gives its kind, 0: nothing is there. A folder
 * that is new in the table is UNREAD. */
enum ldr_kind ldr_watch_look(struct ldr_native_watch *watch, const char *path, size_t length);
/* A name out of a listing that began at look_count; looks when anything was changed since. */
enum ldr_kind ldr_watch_put_listed(struct ldr_native_watch *watch, const char *path, size_t length,
				   enum ldr_kind kind, uint32_t look_count);
/* An event about the name was taken in, and the table is right: own changes under way look for themselves. */
void ldr_watch_touch(struct ldr_native_watch *watch, const char *path, size_t length);
/* The same for all names: events of some were lost, or their paths are those of other names by now. */
void ldr_watch_touch_all(struct ldr_native_watch *watch);
/* The folder and all folders below become UNREAD, then their names go. */
void ldr_watch_forget(struct ldr_native_watch *watch, const char *path, size_t length);
/* False: an own change made a folder UNREAD since unread_count was read, so what was read may be
 * old. */
bool ldr_watch_set_known(struct ldr_native_watch *watch, const char *path, size_t length,
			 uint64_t held, uint32_t unread_count);

/* ---- layer_native_mounts.c ---- */

/* -1: cannot be had. */
int ldr_native_mounts_open(void);
/* Since the last call on fd (or poll, for POLLPRI). */
bool ldr_native_mounts_changed(int fd);
/* A number that stays the same while the mounts below the folder do. */
uint64_t ldr_native_mounts_below(int root_fd);

#endif
