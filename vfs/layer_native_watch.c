/*
 * The watched mode of the native layer: the names of the folder in memory, kept right by inotify,
 * so that a miss costs no system call.
 *
 * The names are those of a memory layer without bytes (memory_names.c): read without a lock,
 * changed one at a time. A name is a folder (watched: what it lacks is not there), a file, or LIVE:
 * something whose inside is not known (a symlink, a folder that could not be watched), below which
 * the system is asked.
 *
 * An event says where to look, never what to believe: the name is looked at on the disk and the
 * table made equal to what was seen. So events may come late, twice or merged. Only two answers
 * come from the table alone: "not there" and "a file is in the way"; a name that is there is always
 * looked at live.
 *
 * A new folder is watched before it is read, so that what is put into it meanwhile is either read
 * or told by an event. While folders move or come back under their old name, and after the system
 * has lost events (the queue was full), the table is *blind*: everything is looked up live until it
 * has been read anew.
 *
 * Locks: one turn at a time (a flag under a mutex of LDR_RANK_WATCH) takes in events or looks at a
 * name; the table's own lock is taken inside it, for the change alone.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/bytes.h"
#include "vfs/layer_native_priv.h"
#include "vfs/memory_priv.h"

#define KIND_LIVE ((enum ldr_kind)4)
#define MAX_WATCHES_DEFAULT 65536u
#define EVENT_BYTES ((size_t)64 * 1024)
#define WATCHED_EVENTS                                                                         \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | \
	 IN_ONLYDIR | IN_EXCL_UNLINK)

/* A watched folder; in a table by the system's number. */
struct watched_folder {
	struct watched_folder *next;
	int number;
	size_t length;
	char path[];
};

#define FOLDER_BUCKETS 1024u

/* Folders still to be read. */
struct to_read {
	struct to_read *next;
	char path[];
};

struct ldr_native_watch {
	const struct ldr_native *native;
	struct ldr_memory_layer names;
	_Atomic bool blind;
	int inotify;
	int wake;
	pthread_t thread;
	bool runs;

	struct ldr_mutex lock;
	struct ldr_condition turn_given;
	bool turn_taken;

	/* Below: whoever has the turn. */
	struct watched_folder *folders[FOLDER_BUCKETS];
	uint32_t folder_count;
	uint32_t max_watches;
	struct to_read *to_read;
	uint8_t *events;

	_Atomic uint64_t event_count;
	_Atomic uint64_t fallback_count;
};

static void take_turn(struct ldr_native_watch *watch)
{
	ldr_mutex_lock(&watch->lock);
	while (watch->turn_taken)
		ldr_condition_wait(&watch->turn_given, &watch->lock);
	watch->turn_taken = true;
	ldr_mutex_unlock(&watch->lock);
}

static void give_turn(struct ldr_native_watch *watch)
{
	ldr_mutex_lock(&watch->lock);
	watch->turn_taken = false;
	ldr_condition_signal(&watch->turn_given);
	ldr_mutex_unlock(&watch->lock);
}

static void count_fallback(struct ldr_native_watch *watch)
{
	atomic_fetch_add_explicit(&watch->fallback_count, 1, memory_order_relaxed);
}

static void set_blind(struct ldr_native_watch *watch, bool blind)
{
	/* Pairs with the load in ask: who sees the table again sees it filled. */
	atomic_store_explicit(&watch->blind, blind, memory_order_release);
}

/* ---- asking ---- */

enum ldr_status ldr_native_watch_ask(struct ldr_native_watch *watch, const char *path,
				     size_t length)
{
	struct ldr_stat found;

	if (atomic_load_explicit(&watch->blind, memory_order_acquire) ||
	    ldr_names_stat(&watch->names, path, length, &found))
		return LDR_OK;
	while (length > 0) {
		while (length > 0 && path[length - 1] != '/')
			length--;
		length -= length > 0;
		if (!ldr_names_stat(&watch->names, path, length, &found))
			continue;
		/* It may have become blind between the look-ups. */
		if (found.kind == KIND_LIVE ||
		    atomic_load_explicit(&watch->blind, memory_order_acquire))
			return LDR_OK;
		return found.kind == LDR_KIND_FOLDER ? LDR_ENOTFOUND : LDR_ENOTDIR;
	}
	return LDR_ENOTFOUND;
}

/* ---- the table of watched folders ---- */

static struct watched_folder **folder_link(struct ldr_native_watch *watch, int number)
{
	struct watched_folder **link = &watch->folders[(unsigned)number % FOLDER_BUCKETS];

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	return link;
}

static void drop_folder(struct ldr_native_watch *watch, struct watched_folder **link)
{
	struct watched_folder *folder = *link;

	*link = folder->next;
	free(folder);
	watch->folder_count--;
}

static bool is_at_or_below(const char *path, const char *top, size_t top_bytes)
{
	return strncmp(path, top, top_bytes) == 0 &&
	       (path[top_bytes] == '\0' || path[top_bytes] == '/' || top_bytes == 0);
}

/* Ends the watches of a folder and all below it. */
static void unwatch_below(struct ldr_native_watch *watch, const char *top, size_t top_bytes)
{
	for (unsigned i = 0; i < FOLDER_BUCKETS; i++) {
		struct watched_folder **link = &watch->folders[i];

		while (*link) {
			if (!is_at_or_below((*link)->path, top, top_bytes)) {
				link = &(*link)->next;
				continue;
			}
			inotify_rm_watch(watch->inotify, (*link)->number);
			drop_folder(watch, link);
		}
	}
}

/* False: it cannot be watched. *out_is_new: it was not before, or as another folder. */
static bool watch_folder(struct ldr_native_watch *watch, int fd, const char *path, bool *out_is_new)
{
	size_t length = strlen(path);
	struct watched_folder *folder, **link;
	char itself[32];
	int number;

	if (watch->folder_count >= watch->max_watches)
		return false;
	/* By the descriptor, so that it is the folder that was resolved beneath the root. */
	snprintf(itself, sizeof(itself), "/proc/self/fd/%d", fd);
	number = inotify_add_watch(watch->inotify, itself, WATCHED_EVENTS);
	if (number < 0)
		return false;
	link = folder_link(watch, number);
	*out_is_new = !*link || strcmp((*link)->path, path) != 0;
	if (!*out_is_new)
		return true;
	if (*link)
		drop_folder(watch, link);
	folder = malloc(sizeof(*folder) + length + 1);
	if (!folder) {
		inotify_rm_watch(watch->inotify, number);
		return false;
	}
	folder->number = number;
	folder->length = length;
	memcpy(folder->path, path, length + 1);
	link = &watch->folders[(unsigned)number % FOLDER_BUCKETS];
	folder->next = *link;
	*link = folder;
	watch->folder_count++;
	return true;
}

/* ---- making the table equal to what was seen ---- */

/* kind 0: nothing is there. Gives whether the name is new as that. */
static bool set_name(struct ldr_native_watch *watch, const char *path, size_t length,
		     enum ldr_kind kind)
{
	struct ldr_memory_layer *names = &watch->names;
	struct ldr_memory_name *name;
	struct ldr_inode *inode;
	bool is_new = false;

	ldr_mutex_lock(&names->changes);
	name = ldr_names_get(names, path, length);
	if (name && (enum ldr_kind)name->inode->kind != kind) {
		ldr_names_remove_tree(names, name);
		name = NULL;
	}
	if (!name && kind) {
		is_new = ldr_inode_new(names, kind, &inode, NULL) == LDR_OK;
		if (is_new && ldr_names_add(names, path, length, inode, NULL) != LDR_OK) {
			ldr_inode_unref(names, inode);
			is_new = false;
		}
	}
	ldr_mutex_unlock(&names->changes);
	return is_new;
}

static bool push_to_read(struct ldr_native_watch *watch, const char *path)
{
	size_t length = strlen(path);
	struct to_read *next = malloc(sizeof(*next) + length + 1);

	if (!next)
		return false;
	memcpy(next->path, path, length + 1);
	next->next = watch->to_read;
	watch->to_read = next;
	return true;
}

static enum ldr_kind kind_of(mode_t type)
{
	return S_ISDIR(type) ? LDR_KIND_FOLDER : S_ISREG(type) ? LDR_KIND_FILE : KIND_LIVE;
}

static void put_listed(struct ldr_native_watch *watch, int fd, const char *path, const char *name,
		       mode_t type)
{
	char whole[2 * LDR_PATH_MAX_BYTES];
	int length = snprintf(whole, sizeof(whole), "%s%s%s", path, *path ? "/" : "", name);
	struct stat found;

	/* Names that break the path rule are never asked for. */
	if (length < 0 || length > LDR_PATH_MAX_BYTES ||
	    ldr_path_check(whole, (size_t)length, NULL) != LDR_OK)
		return;
	if (type == 0)
		type = ldr_os_stat_at(fd, name, &found) == 0 ? found.st_mode & S_IFMT : S_IFLNK;
	if (set_name(watch, whole, (size_t)length, kind_of(type)) && S_ISDIR(type) &&
	    !push_to_read(watch, whole))
		set_name(watch, whole, (size_t)length, KIND_LIVE);
}

/* Watches a folder and takes in its names; its folders are pushed. False: it is to be looked up
 * live. */
static bool read_folder(struct ldr_native_watch *watch, const char *path)
{
	struct ldr_os_listing *listing;
	LDR_AUTO_FD int fd = -1;
	const char *name;
	mode_t type;
	bool is_new;
	int code;

	if (ldr_native_open(watch->native, *path ? path : ".", O_RDONLY | O_DIRECTORY, &fd) ||
	    !watch_folder(watch, fd, path, &is_new))
		return false;
	if (!is_new)
		return true;
	if (ldr_os_listing_open(fd, &listing))
		return false;
	while ((code = ldr_os_listing_next(listing, &name, &type)) == 0 && name)
		put_listed(watch, fd, path, name, type);
	ldr_os_listing_close(listing);
	return code == 0;
}

static void read_pushed(struct ldr_native_watch *watch)
{
	while (watch->to_read) {
		struct to_read *next = watch->to_read;

		watch->to_read = next->next;
		if (!read_folder(watch, next->path)) {
			set_name(watch, next->path, strlen(next->path), KIND_LIVE);
			count_fallback(watch);
		}
		free(next);
	}
}

/* Looks at one name. */
static void look_at(struct ldr_native_watch *watch, const char *path, size_t length)
{
	struct stat found;
	int code = ldr_os_stat_at(watch->native->fd, path, &found);
	enum ldr_kind kind = code ? (code == ENOENT || code == ENOTDIR ? 0 : KIND_LIVE)
				  : kind_of(found.st_mode);

	if (kind != LDR_KIND_FOLDER)
		unwatch_below(watch, path, length);
	if (set_name(watch, path, length, kind) && kind == LDR_KIND_FOLDER &&
	    push_to_read(watch, path))
		read_pushed(watch);
}

void ldr_native_watch_note(struct ldr_native_watch *watch, const char *path, size_t length)
{
	take_turn(watch);
	look_at(watch, path, length);
	give_turn(watch);
}

/* Everything anew; lookups are live meanwhile, and stay so when the root itself cannot be watched.
 * */
static void read_all(struct ldr_native_watch *watch)
{
	struct ldr_memory_layer *names = &watch->names;

	set_blind(watch, true);
	unwatch_below(watch, "", 0);
	ldr_mutex_lock(&names->changes);
	while (names->root->children)
		ldr_names_remove_tree(names, names->root->children);
	ldr_mutex_unlock(&names->changes);
	if (!read_folder(watch, "")) {
		count_fallback(watch);
		return;
	}
	read_pushed(watch);
	set_blind(watch, false);
}

/* ---- events ---- */

/* A folder that went or came: whatever was known below it is forgotten first. Blind, for names that
 * are there would be missing for a moment. */
static void look_at_folder(struct ldr_native_watch *watch, const char *path, size_t length)
{
	set_blind(watch, true);
	unwatch_below(watch, path, length);
	set_name(watch, path, length, 0);
	look_at(watch, path, length);
	set_blind(watch, false);
}

/* Gives false when everything must be read anew. */
static bool take_event(struct ldr_native_watch *watch, const struct inotify_event *event)
{
	struct watched_folder **link = folder_link(watch, event->wd);
	char path[2 * LDR_PATH_MAX_BYTES];
	int length;

	atomic_fetch_add_explicit(&watch->event_count, 1, memory_order_relaxed);
	if (event->mask & IN_Q_OVERFLOW)
		return false;
	if (!*link)
		return true;
	if (event->mask & IN_UNMOUNT)
		return false;
	if (event->mask & IN_IGNORED) {
		drop_folder(watch, link);
		return true;
	}
	if (event->len == 0)
		return (*link)->length > 0 || !(event->mask & (IN_DELETE_SELF | IN_MOVE_SELF));
	length = snprintf(path, sizeof(path), "%s%s%s", (*link)->path, (*link)->length ? "/" : "",
			  event->name);
	if (length < 0 || length > LDR_PATH_MAX_BYTES ||
	    ldr_path_check(path, (size_t)length, NULL) != LDR_OK)
		return true;
	if (event->mask & IN_ISDIR)
		look_at_folder(watch, path, (size_t)length);
	else
		look_at(watch, path, (size_t)length);
	return true;
}

/* Takes in what waits; with the turn. */
static void take_events(struct ldr_native_watch *watch)
{
	bool whole = true;

	for (;;) {
		ssize_t got = read(watch->inotify, watch->events, EVENT_BYTES);
		size_t at = 0;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		while (at < (size_t)got) {
			const struct inotify_event *event = (const void *)(watch->events + at);

			whole &= take_event(watch, event);
			at += sizeof(*event) + event->len;
		}
	}
	if (!whole) {
		count_fallback(watch);
		read_all(watch);
	}
}

enum ldr_status ldr_native_watch_settle(struct ldr_native_watch *watch, struct ldr_error *err)
{
	(void)err;
	take_turn(watch);
	take_events(watch);
	give_turn(watch);
	return LDR_OK;
}

void ldr_native_watch_counts(struct ldr_native_watch *watch, uint64_t *out_events,
			     uint64_t *out_fallbacks)
{
	*out_events = atomic_load_explicit(&watch->event_count, memory_order_relaxed);
	*out_fallbacks = atomic_load_explicit(&watch->fallback_count, memory_order_relaxed);
}

static void *run(void *argument)
{
	struct ldr_native_watch *watch = argument;
	struct pollfd waits[2] = {{.fd = watch->inotify, .events = POLLIN},
				  {.fd = watch->wake, .events = POLLIN}};

	for (;;) {
		if (poll(waits, 2, -1) < 0 && errno != EINTR)
			break;
		if (waits[1].revents)
			break;
		if (waits[0].revents & (POLLERR | POLLNVAL))
			break;
		take_turn(watch);
		take_events(watch);
		give_turn(watch);
	}
	return NULL;
}

/* ---- beginning and end ---- */

static enum ldr_status start(struct ldr_native_watch *watch, struct ldr_error *err)
{
	enum ldr_status status;

	watch->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	watch->wake = eventfd(0, EFD_CLOEXEC);
	watch->events = aligned_alloc(_Alignof(struct inotify_event), EVENT_BYTES);
	if (watch->inotify < 0 || watch->wake < 0 || !watch->events)
		return ldr_fail_errno(err, errno ? errno : ENOMEM, "folder %s: watch",
				      ldr_root_path(watch->native->root));
	status = ldr_memory_init(&watch->names, UINT64_MAX / 2, err);
	if (status != LDR_OK)
		return status;
	read_all(watch);
	status = ldr_thread_start(&watch->thread, run, watch, err);
	watch->runs = status == LDR_OK;
	return status;
}

enum ldr_status ldr_native_watch_new(struct ldr_native *native, uint32_t max_watches,
				     struct ldr_native_watch **out_watch, struct ldr_error *err)
{
	struct ldr_native_watch *watch = aligned_alloc(_Alignof(struct ldr_native_watch),
						       sizeof(*watch));
	enum ldr_status status;

	if (!watch)
		return ldr_fail(err, LDR_ENOMEM, "folder %s: out of memory",
				ldr_root_path(native->root));
	memset(watch, 0, sizeof(*watch));
	watch->native = native;
	watch->inotify = watch->wake = -1;
	watch->max_watches = max_watches ? max_watches : MAX_WATCHES_DEFAULT;
	atomic_store(&watch->blind, true);
	ldr_mutex_init(&watch->lock, LDR_RANK_WATCH);
	ldr_condition_init(&watch->turn_given);
	status = start(watch, err);
	if (status != LDR_OK) {
		ldr_native_watch_free(watch);
		return status;
	}
	*out_watch = watch;
	return LDR_OK;
}

static void stop(struct ldr_native_watch *watch)
{
	uint64_t one = 1;

	if (!watch->runs)
		return;
	while (write(watch->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(watch->thread, NULL);
}

void ldr_native_watch_free(struct ldr_native_watch *watch)
{
	if (!watch)
		return;
	stop(watch);
	for (unsigned i = 0; i < FOLDER_BUCKETS; i++) {
		while (watch->folders[i])
			drop_folder(watch, &watch->folders[i]);
	}
	while (watch->to_read) {
		struct to_read *next = watch->to_read;

		watch->to_read = next->next;
		free(next);
	}
	if (watch->names.root || watch->names.seed)
		ldr_memory_dispose(&watch->names);
	ldr_cleanup_fd(&watch->inotify);
	ldr_cleanup_fd(&watch->wake);
	ldr_condition_dispose(&watch->turn_given);
	ldr_mutex_dispose(&watch->lock);
	free(watch->events);
	free(watch);
}
