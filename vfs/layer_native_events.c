/*
 * What keeps the watched mode's table right: folders are watched and read, events taken in; see
 * layer_native_watch_priv.h.
 *
 * A folder is watched before it is read, so that what is put into it meanwhile is either read or
 * told by an event. Its descriptor is held as long as it is watched, while there is room (only on
 * the root's own file system: elsewhere it would keep others from unmounting).
 *
 * The thread lets events gather for GATHER_MS after the first: own changes are known already, and
 * their events, taken in one by one, would cost more than the changes. Of a batch the folders' come
 * first, in their order; then the files', the newest first, each name once, and not at all when it
 * says that something is gone which the table does not have.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "vfs/layer_native_watch_priv.h"

#define MAX_WATCHES_DEFAULT 65536u
#define GATHER_MS 10
#define READ_TRIES 8u
#define WATCHED_EVENTS                                                                         \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | \
	 IN_ONLYDIR | IN_EXCL_UNLINK)

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

/* ---- the table of watched folders ---- */

static struct ldr_watched_folder **folder_link(struct ldr_native_watch *watch, int number)
{
	struct ldr_watched_folder **link = &watch->folders[(unsigned)number % LDR_WATCH_BUCKETS];

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	return link;
}

static void drop_folder(struct ldr_native_watch *watch, struct ldr_watched_folder **link)
{
	struct ldr_watched_folder *folder = *link;

	*link = folder->next;
	ldr_held_drop(&watch->native->held, folder->held);
	free(folder);
	watch->folder_count--;
}

static bool is_at_or_below(const char *path, const char *top, size_t top_bytes)
{
	return strncmp(path, top, top_bytes) == 0 &&
	       (path[top_bytes] == '\0' || path[top_bytes] == '/' || top_bytes == 0);
}

/* Forgets the names below a folder, and ends the watches of it and all below it. */
static void unwatch(struct ldr_native_watch *watch, const char *top, size_t top_bytes)
{
	ldr_watch_forget(watch, top, top_bytes);
	ldr_watch_touch_all(watch);
	for (unsigned i = 0; i < LDR_WATCH_BUCKETS; i++) {
		struct ldr_watched_folder **link = &watch->folders[i];

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

/* By the descriptor, so that it is the folder that was resolved beneath the root. */
static int add_watch(const struct ldr_native_watch *watch, int fd)
{
	char itself[32];

	snprintf(itself, sizeof(itself), "/proc/self/fd/%d", fd);
	return inotify_add_watch(watch->inotify, itself, WATCHED_EVENTS);
}

/* NULL: it cannot be watched. */
static struct ldr_watched_folder *watch_folder(struct ldr_native_watch *watch, int fd,
					       const char *path)
{
	size_t length = strlen(path);
	struct ldr_watched_folder *folder, **link;
	int number;

	if (watch->folder_count >= watch->max_watches)
		return NULL;
	number = add_watch(watch, fd);
	if (number < 0)
		return NULL;
	link = folder_link(watch, number);
	if (*link && strcmp((*link)->path, path) == 0)
		return *link;
	/* It was somewhere else before. */
	if (*link) {
		ldr_watch_forget(watch, (*link)->path, (*link)->length);
		drop_folder(watch, link);
	}
	folder = calloc(1, sizeof(*folder) + length + 1);
	if (!folder) {
		inotify_rm_watch(watch->inotify, number);
		return NULL;
	}
	folder->number = number;
	folder->length = length;
	memcpy(folder->path, path, length + 1);
	link = &watch->folders[(unsigned)number % LDR_WATCH_BUCKETS];
	folder->next = *link;
	*link = folder;
	watch->folder_count++;
	return folder;
}

/* ---- reading folders ---- */

static bool push_to_read(struct ldr_native_watch *watch, const char *path)
{
	size_t length = strlen(path);
	struct ldr_to_read *next = malloc(sizeof(*next) + length + 1);

	if (!next)
		return false;
	memcpy(next->path, path, length + 1);
	next->next = watch->to_read;
	watch->to_read = next;
	return true;
}

static void put_listed(struct ldr_native_watch *watch, const char *path, const char *name,
		       mode_t type, uint32_t look_count)
{
	char whole[2 * LDR_PATH_MAX_BYTES];
	int length = snprintf(whole, sizeof(whole), "%s%s%s", path, *path ? "/" : "", name);
	enum ldr_kind kind;

	/* Names that break the path rule are never asked for. */
	if (length < 0 || length > LDR_PATH_MAX_BYTES ||
	    ldr_path_check(whole, (size_t)length, NULL) != LDR_OK)
		return;
	if (type == 0)
		kind = ldr_watch_look(watch, whole, (size_t)length);
	else
		kind = ldr_watch_put_listed(watch, whole, (size_t)length, ldr_watch_kind_of(type),
					    look_count);
	/* One that is not pushed stays UNREAD. */
	if (kind == LDR_KIND_FOLDER && !push_to_read(watch, whole))
		ldr_watch_count_fallback(watch);
}

static bool read_names(struct ldr_native_watch *watch, int fd, const char *path)
{
	uint32_t look_count = atomic_load_explicit(&watch->look_count, memory_order_acquire);
	struct ldr_os_listing *listing;
	const char *name;
	mode_t type;
	int code;

	if (ldr_os_listing_open(fd, &listing))
		return false;
	while ((code = ldr_os_listing_next(listing, &name, &type)) == 0 && name)
		put_listed(watch, path, name, type, look_count);
	ldr_os_listing_close(listing);
	return code == 0;
}

static int open_folder(const struct ldr_native_watch *watch, const char *path, int *out_fd)
{
	return ldr_os_open_beneath(watch->native->fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0,
				   out_fd);
}

static void hold(struct ldr_native_watch *watch, struct ldr_watched_folder *folder, int *fd)
{
	struct stat found;

	if (!folder->held && ldr_os_stat(*fd, &found) == 0 && found.st_dev == watch->device)
		folder->held = ldr_held_put(&watch->native->held, fd, &found, 0);
}

/* Watches a folder and takes in its names; its folders are pushed. False: it stays UNREAD. */
static bool read_folder(struct ldr_native_watch *watch, const char *path)
{
	size_t length = strlen(path);
	struct ldr_watched_folder *folder;
	bool known;

	if (ldr_watch_get(watch, path, length, &known) != LDR_KIND_FOLDER || known)
		return true;
	for (unsigned i = 0; i < READ_TRIES; i++) {
		uint32_t unread = atomic_load_explicit(&watch->unread_count, memory_order_acquire);
		LDR_AUTO_FD int fd = -1;

		if (open_folder(watch, path, &fd))
			return false;
		folder = watch_folder(watch, fd, path);
		ldr_watch_touch_all(watch);
		if (!folder || !read_names(watch, fd, path))
			return false;
		hold(watch, folder, &fd);
		if (ldr_watch_set_known(watch, path, length, folder->held, unread))
			return true;
	}
	return false;
}

static void read_pushed(struct ldr_native_watch *watch)
{
	while (watch->to_read) {
		struct ldr_to_read *next = watch->to_read;

		watch->to_read = next->next;
		if (!read_folder(watch, next->path))
			ldr_watch_count_fallback(watch);
		free(next);
	}
}

/* Everything anew; all is looked up live meanwhile, and stays so when the root itself cannot be
 * watched. */
static void read_all(struct ldr_native_watch *watch)
{
	unwatch(watch, "", 0);
	if (read_folder(watch, ""))
		read_pushed(watch);
	else
		ldr_watch_count_fallback(watch);
}

/* ---- events ---- */

/* Whether the table knows this folder, and as the one that is there. */
static bool is_same_folder(struct ldr_native_watch *watch, const char *path, size_t length)
{
	const struct ldr_watched_folder *folder;
	LDR_AUTO_FD int fd = -1;
	bool known;
	int number;

	if (ldr_watch_get(watch, path, length, &known) != LDR_KIND_FOLDER || !known ||
	    open_folder(watch, path, &fd))
		return false;
	number = add_watch(watch, fd);
	if (number < 0)
		return false;
	folder = *folder_link(watch, number);
	if (!folder)
		inotify_rm_watch(watch->inotify, number);
	return folder && strcmp(folder->path, path) == 0;
}

/* A folder that went or came. */
static void look_at_folder(struct ldr_native_watch *watch, const char *path, size_t length)
{
	if (is_same_folder(watch, path, length))
		return;
	unwatch(watch, path, length);
	if (ldr_watch_look(watch, path, length) != LDR_KIND_FOLDER)
		return;
	if (push_to_read(watch, path))
		read_pushed(watch);
	else
		ldr_watch_count_fallback(watch);
}

/* True the first time since the events were read. */
static bool is_first(struct ldr_native_watch *watch, const char *path, size_t length)
{
	uint64_t hash = ldr_checksum_seeded(path, length, watch->native->seed) | 1;
	uint64_t *place = &watch->done[(hash >> 1) % LDR_WATCH_DONE];

	if (*place == hash)
		return false;
	*place = hash;
	return true;
}

static void look_at(struct ldr_native_watch *watch, const struct inotify_event *event,
		    const char *path, size_t length)
{
	bool known;
	enum ldr_kind before = ldr_watch_get(watch, path, length, &known);

	if (before == LDR_KIND_FOLDER) {
		look_at_folder(watch, path, length);
		return;
	}
	if (before == 0 && (event->mask & (IN_DELETE | IN_MOVED_FROM))) {
		ldr_watch_touch(watch, path, length);
		return;
	}
	if (ldr_watch_look(watch, path, length) == LDR_KIND_FOLDER)
		look_at_folder(watch, path, length);
}

/* Of a name, or of its folder itself. False: everything must be read anew. */
static bool take_event(struct ldr_native_watch *watch, const struct inotify_event *event)
{
	struct ldr_watched_folder **link = folder_link(watch, event->wd);
	char path[2 * LDR_PATH_MAX_BYTES];
	int length;

	if (event->mask & IN_Q_OVERFLOW)
		return false;
	if (!*link)
		return true;
	if (event->mask & IN_UNMOUNT)
		return false;
	if (event->mask & IN_IGNORED) {
		ldr_watch_forget(watch, (*link)->path, (*link)->length);
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
	else if (is_first(watch, path, (size_t)length))
		look_at(watch, event, path, (size_t)length);
	return true;
}

static bool is_of_file(const struct inotify_event *event)
{
	return event->len > 0 && !(event->mask & IN_ISDIR);
}

static const struct inotify_event *event_at(const struct ldr_native_watch *watch, uint32_t at)
{
	return (const void *)(watch->events + at);
}

/* As the head of this file says. False: everything must be read anew. */
static bool take_batch(struct ldr_native_watch *watch, size_t bytes)
{
	bool whole = true;
	uint32_t count = 0;

	memset(watch->done, 0, sizeof(watch->done));
	for (uint32_t at = 0; at < bytes; count++) {
		const struct inotify_event *event = event_at(watch, at);

		watch->event_at[count] = at;
		at += (uint32_t)sizeof(*event) + event->len;
		if (!is_of_file(event))
			whole &= take_event(watch, event);
	}
	while (whole && count-- > 0) {
		const struct inotify_event *event = event_at(watch, watch->event_at[count]);

		if (is_of_file(event))
			whole &= take_event(watch, event);
	}
	return whole;
}

static uint64_t count_events(const struct ldr_native_watch *watch, size_t bytes)
{
	uint64_t count = 0;

	for (uint32_t at = 0; at < bytes; count++)
		at += (uint32_t)sizeof(struct inotify_event) + event_at(watch, at)->len;
	return count;
}

/* Takes in what waits; with the turn. */
static void take_events(struct ldr_native_watch *watch)
{
	bool whole = true;

	for (;;) {
		ssize_t got = read(watch->inotify, watch->events, LDR_WATCH_EVENT_BYTES);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		atomic_fetch_add_explicit(&watch->event_count, count_events(watch, (size_t)got),
					  memory_order_relaxed);
		whole &= take_batch(watch, (size_t)got);
	}
	if (!whole) {
		ldr_watch_count_fallback(watch);
		read_all(watch);
	}
}

static void check_mounts(struct ldr_native_watch *watch)
{
	uint64_t now = ldr_native_mounts_below(watch->native->fd);

	if (now == watch->mounts_below)
		return;
	watch->mounts_below = now;
	read_all(watch);
}

enum ldr_status ldr_native_watch_settle(struct ldr_native_watch *watch, struct ldr_error *err)
{
	bool known;

	(void)err;
	take_turn(watch);
	if (ldr_native_mounts_changed(watch->mounts_settle))
		check_mounts(watch);
	take_events(watch);
	/* The root may be had by now. */
	ldr_watch_get(watch, "", 0, &known);
	if (!known)
		read_all(watch);
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
	struct pollfd waits[3] = {{.fd = watch->wake, .events = POLLIN},
				  {.fd = watch->inotify, .events = POLLIN},
				  {.fd = watch->mounts_thread, .events = POLLPRI}};

	for (;;) {
		int ready = poll(waits, 3, -1);

		if (ready < 0 && errno != EINTR)
			break;
		if (ready <= 0)
			continue;
		if (poll(waits, 1, GATHER_MS) > 0 ||
		    (waits[1].revents & (POLLERR | POLLHUP | POLLNVAL)))
			break;
		take_turn(watch);
		if (waits[2].revents)
			check_mounts(watch);
		take_events(watch);
		give_turn(watch);
	}
	return NULL;
}

/* ---- beginning and end ---- */

static enum ldr_status start(struct ldr_native_watch *watch, struct ldr_error *err)
{
	enum ldr_status status;
	struct stat root;

	watch->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	watch->wake = eventfd(0, EFD_CLOEXEC);
	watch->events = aligned_alloc(_Alignof(struct inotify_event), LDR_WATCH_EVENT_BYTES);
	if (watch->inotify < 0 || watch->wake < 0 || !watch->events)
		return ldr_fail_errno(err, errno ? errno : ENOMEM, "folder %s: watch",
				      ldr_root_path(watch->native->root));
	watch->mounts_thread = ldr_native_mounts_open();
	watch->mounts_settle = ldr_native_mounts_open();
	watch->mounts_below = ldr_native_mounts_below(watch->native->fd);
	if (ldr_os_stat(watch->native->fd, &root) == 0)
		watch->device = root.st_dev;
	status = ldr_memory_init(&watch->names, UINT64_MAX / 2, err);
	if (status != LDR_OK)
		return status;
	atomic_store(&watch->names.root->size_bytes, LDR_UNREAD);
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
	watch->inotify = watch->wake = watch->mounts_thread = watch->mounts_settle = -1;
	watch->max_watches = max_watches ? max_watches : MAX_WATCHES_DEFAULT;
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
	for (unsigned i = 0; i < LDR_WATCH_BUCKETS; i++) {
		while (watch->folders[i])
			drop_folder(watch, &watch->folders[i]);
	}
	while (watch->to_read) {
		struct ldr_to_read *next = watch->to_read;

		watch->to_read = next->next;
		free(next);
	}
	if (watch->names.root || watch->names.seed)
		ldr_memory_dispose(&watch->names);
	ldr_cleanup_fd(&watch->inotify);
	ldr_cleanup_fd(&watch->wake);
	ldr_cleanup_fd(&watch->mounts_thread);
	ldr_cleanup_fd(&watch->mounts_settle);
	ldr_condition_dispose(&watch->turn_given);
	ldr_mutex_dispose(&watch->lock);
	free(watch->events);
	free(watch);
}
