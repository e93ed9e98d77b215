/*
 * The native layer beyond the contract that all layers share: symlinks by policy and by races, what
 * is neither file nor folder, descriptors, and the watched mode against changes by others.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vfs/file.h"
#include "vfs/layer_native.h"
#include "vfs/vfs.h"

#define SECRET "secret"
#define PUBLIC "public"

static char top[64];
static struct ldr_vfs *vfs;

static const char *at(const char *name, char path[512])
{
	snprintf(path, 512, "%s/%s", top, name);
	return path;
}

static void folder(const char *name)
{
	char path[512];

	cr_assert_eq(mkdir(at(name, path), 0755), 0, "%s: %s", name, strerror(errno));
}

static void file(const char *name, const char *text)
{
	char path[512];
	FILE *out = fopen(at(name, path), "wbe");

	cr_assert(out, "%s: %s", name, strerror(errno));
	fputs(text, out);
	fclose(out);
}

static void link_to(const char *target, const char *name)
{
	char path[512];

	cr_assert_eq(symlink(target, at(name, path)), 0);
}

static void move(const char *from, const char *to)
{
	char path[512], other[512];

	cr_assert_eq(rename(at(from, path), at(to, other)), 0, "%s: %s", from, strerror(errno));
}

static void mount_root(struct ldr_native_options options)
{
	struct ldr_mount mount = {.id = 1, .at = ""};
	struct ldr_error err = {.status = LDR_OK};
	char path[512];

	options.size = sizeof(options);
	mount.flags = options.read_only ? 0 : LDR_MOUNT_WRITE;
	cr_assert_eq(ldr_layer_native_new(at("root", path), &options, &mount.layer, &err), LDR_OK,
		     "%s", err.text);
	cr_assert_eq(ldr_vfs_new(NULL, &vfs, &err), LDR_OK);
	cr_assert_eq(ldr_vfs_mount(vfs, &mount, &err), LDR_OK, "%s", err.text);
	ldr_layer_unref(mount.layer);
}

static void unmount_root(void)
{
	ldr_vfs_free(vfs);
	vfs = NULL;
}

/* root/ is mounted, beside it outside/ with a secret. */
static void setup(void)
{
	char path[512];

	strcpy(top, "/tmp/larder-native.XXXXXX"); /* style: fixed text */
	cr_assert(mkdtemp(top));
	folder("root");
	folder("outside");
	file("outside/name", SECRET);
	cr_assert_eq(chmod(at("outside/name", path), 0600), 0);
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *where)
{
	(void)found;
	(void)kind;
	(void)where;
	return remove(path);
}

static void teardown(void)
{
	ldr_vfs_free(vfs);
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(layer_native, .init = setup, .fini = teardown);

/* The first bytes of a file, or the status's name. */
static enum ldr_status read_text(const char *path, char text[16])
{
	struct ldr_file *opened;
	size_t got = 0;
	enum ldr_status status = ldr_vfs_open(vfs, path, LDR_OPEN_READ, &opened, NULL);

	text[0] = '\0';
	if (status != LDR_OK)
		return status;
	status = ldr_file_pread(opened, text, 15, 0, &got, NULL);
	text[got] = '\0';
	ldr_file_close(opened);
	return status;
}

static void must_read(const char *path, const char *wanted)
{
	char text[16];
	enum ldr_status status = read_text(path, text);

	cr_assert_eq(status, LDR_OK, "%s: %s", path, ldr_status_name(status));
	cr_assert_str_eq(text, wanted, "%s: \"%s\", wanted \"%s\"", path, text, wanted);
}

static const struct ldr_native_options modes[] = {
	{.symlinks = LDR_SYMLINKS_INSIDE},
	{.symlinks = LDR_SYMLINKS_REFUSE},
	{.symlinks = LDR_SYMLINKS_INSIDE, .watched = true},
	{.symlinks = LDR_SYMLINKS_REFUSE, .watched = true},
};
#define MODES (sizeof(modes) / sizeof(modes[0]))

/* ---- what is there ---- */

struct link_row {
	const char *path;
	enum ldr_status inside, refuse;
	bool listed; /* at the root, when links inside are followed */
};

static const struct link_row link_rows[] = {
	{"to-file", LDR_OK, LDR_ELINK, true},
	{"to-folder", LDR_OK, LDR_ELINK, true},
	{"to-folder/name", LDR_OK, LDR_ELINK, false},
	{"out", LDR_ELINK, LDR_ELINK, false},
	{"out/name", LDR_ELINK, LDR_ELINK, false},
	{"out-file", LDR_ELINK, LDR_ELINK, false},
	{"absolute", LDR_ELINK, LDR_ELINK, false},
	{"circle", LDR_ELINK, LDR_ELINK, false},
	{"dangling", LDR_ENOTFOUND, LDR_ELINK, false},
	{"real/out-file", LDR_ELINK, LDR_ELINK, false},
	{"real/to-name", LDR_OK, LDR_ELINK, false},
	{"pipe", LDR_ENOTREG, LDR_ENOTREG, false},
	{"real/pipe", LDR_ENOTREG, LDR_ENOTREG, false},
};

static bool is_listed(const char *name)
{
	struct ldr_list *list;
	bool found = false;

	cr_assert_eq(ldr_vfs_list(vfs, "", &list, NULL), LDR_OK);
	for (size_t i = 0; i < ldr_list_count(list); i++) {
		struct ldr_list_entry entry;

		ldr_list_at(list, i, &entry);
		found |= strcmp(entry.name, name) == 0;
	}
	ldr_list_free(list);
	return found;
}

static void must_be(const struct link_row *row, enum ldr_status wanted)
{
	enum ldr_status status;
	struct ldr_stat found;

	/* Twice: the second time the layer remembers the first. */
	for (int i = 0; i < 2; i++) {
		status = ldr_vfs_stat(vfs, row->path, &found, NULL);
		cr_assert_eq(status, wanted, "stat %s: %s, wanted %s", row->path,
			     ldr_status_name(status), ldr_status_name(wanted));
		status = ldr_vfs_exists(vfs, row->path, NULL);
		cr_assert_eq(status, wanted, "exists %s: %s, wanted %s", row->path,
			     ldr_status_name(status), ldr_status_name(wanted));
	}
}

Test(layer_native, symlinks_and_pipes)
{
	char path[512];

	folder("root/real");
	file("root/real/name", PUBLIC);
	link_to("real/name", "root/to-file");
	link_to("real", "root/to-folder");
	link_to("../outside", "root/out");
	link_to("../outside/name", "root/out-file");
	link_to(at("root/real", path), "root/absolute");
	link_to("circle", "root/circle");
	link_to("nowhere", "root/dangling");
	link_to("../../outside/name", "root/real/out-file");
	link_to("name", "root/real/to-name");
	cr_assert_eq(mkfifo(at("root/pipe", path), 0644), 0);
	cr_assert_eq(mkfifo(at("root/real/pipe", path), 0644), 0);
	for (size_t m = 0; m < MODES; m++) {
		bool inside = modes[m].symlinks == LDR_SYMLINKS_INSIDE;

		mount_root(modes[m]);
		for (size_t i = 0; i < sizeof(link_rows) / sizeof(link_rows[0]); i++) {
			const struct link_row *row = &link_rows[i];

			must_be(row, inside ? row->inside : row->refuse);
			if (!strchr(row->path, '/'))
				cr_assert_eq(is_listed(row->path), inside && row->listed,
					     "mode %zu: list has %s", m, row->path);
		}
		unmount_root();
	}
}

Test(layer_native, no_descriptor_left_is_a_limit)
{
	struct rlimit limit;
	struct ldr_file *files[64];
	enum ldr_status status = LDR_OK;
	size_t count = 0;

	folder("root/a");
	file("root/a/name", PUBLIC);
	mount_root(modes[0]);
	must_read("a/name", PUBLIC);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 40;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (count < 64 && status == LDR_OK) {
		status = ldr_vfs_open(vfs, "a/name", LDR_OPEN_READ, &files[count], NULL);
		count += status == LDR_OK;
	}
	cr_assert_eq(status, LDR_ELIMIT, "%s", ldr_status_name(status));
	while (count > 0)
		ldr_file_close(files[--count]);
	must_read("a/name", PUBLIC);
}

/* ---- races ---- */

/* A process that runs until it is killed. */
static pid_t start(void (*loop)(void))
{
	pid_t pid = fork();

	cr_assert(pid >= 0);
	while (pid == 0)
		loop();
	return pid;
}

static void stop(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
}

/* root/a is a folder, then a symlink to the outside, then the folder again. */
static void swap_folder(void)
{
	char a[512], kept[512], link[512];

	at("root/a", a);
	at("root/kept", kept);
	at("root/link", link);
	if (rename(a, kept) != 0 || rename(link, a) != 0 || rename(a, link) != 0 ||
	    rename(kept, a) != 0)
		_exit(1);
}

/* V11: nothing outside is ever read, whatever is put in the place of a folder that was seen. */
Test(layer_native, a_folder_swapped_for_a_symlink_never_leads_outside)
{
	for (size_t m = 0; m < MODES; m++) {
		unsigned good = 0;
		pid_t pid;

		folder("root/a");
		file("root/a/name", PUBLIC);
		link_to("../outside", "root/link");
		mount_root(modes[m]);
		must_read("a/name", PUBLIC);
		pid = start(swap_folder);
		/* Once it has been read at least, however the two processes are given time. */
		for (unsigned i = 0; i < 4000 || (good == 0 && i < 4000000); i++) {
			struct ldr_stat found;
			char text[16];

			if (read_text("a/name", text) == LDR_OK) {
				cr_assert_str_eq(text, PUBLIC);
				good++;
			}
			if (ldr_vfs_stat(vfs, "a/name", &found, NULL) == LDR_OK)
				cr_assert_eq(found.mode, 0644);
		}
		stop(pid);
		unmount_root();
		cr_assert_gt(good, 0);
		nftw(at("root", (char[512]){0}), remove_one, 16, FTW_DEPTH | FTW_PHYS);
		folder("root");
	}
}

/* A held folder is another one's place: what is there now counts, at once in safe mode. */
Test(layer_native, a_folder_that_was_replaced_is_not_remembered)
{
	struct ldr_stat found;

	folder("root/a");
	file("root/a/name", "1");
	folder("root/b");
	file("root/b/name", "22");
	mount_root(modes[0]);
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < 4; k++) {
			cr_assert_eq(ldr_vfs_stat(vfs, "a/name", &found, NULL), LDR_OK);
			cr_assert_eq(found.size_bytes, i % 2 + 1);
		}
		move("root/a", "root/c");
		cr_assert_eq(ldr_vfs_stat(vfs, "a/name", &found, NULL), LDR_ENOTFOUND);
		move("root/b", "root/a");
		move("root/c", "root/b");
	}
	move("root/a", "root/c");
	link_to("../outside", "root/a");
	cr_assert_eq(ldr_vfs_stat(vfs, "a/name", &found, NULL), LDR_ELINK);
}

/* ---- watched ---- */

static const char *const few[] = {"a", "b", "c", "d"};

/* One of 4 + 16 + 64 paths. */
static void random_path(uint64_t *seed, char path[512])
{
	size_t used = (size_t)snprintf(path, 512, "%s/root", top);
	unsigned depth;

	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	depth = 1 + (unsigned)(*seed >> 60) % 3;
	for (unsigned i = 0; i < depth; i++)
		used += (size_t)snprintf(path + used, 512 - used, "/%s",
					 few[(*seed >> (40 + 4 * i)) % 4]);
}

/* Whatever it does may fail. */
static void random_change(uint64_t *seed)
{
	char path[512], other[512];
	int fd;

	random_path(seed, path);
	switch ((*seed >> 33) % 6) {
	case 0:
		mkdir(path, 0755);
		break;
	case 1:
		random_path(seed, other);
		rename(path, other);
		break;
	case 2:
		remove(path);
		break;
	case 3:
		if (symlink(few[(*seed >> 36) % 4], path) < 0)
			remove(path);
		break;
	default:
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd >= 0)
			close(fd);
	}
}

static void must_agree(struct ldr_vfs *live, const char *path)
{
	struct ldr_stat seen = {.mode = 0}, there = {.mode = 0};
	enum ldr_status status = ldr_vfs_stat(vfs, path, &seen, NULL);
	enum ldr_status wanted = ldr_vfs_stat(live, path, &there, NULL);

	cr_assert_eq(status, wanted, "%s: %s, is %s", path, ldr_status_name(status),
		     ldr_status_name(wanted));
	cr_assert_eq(seen.kind, there.kind, "%s", path);
}

static void must_list_alike(struct ldr_vfs *live, const char *path)
{
	struct ldr_list *seen, *there;
	enum ldr_status status = ldr_vfs_list(vfs, path, &seen, NULL);
	enum ldr_status wanted = ldr_vfs_list(live, path, &there, NULL);

	cr_assert_eq(status, wanted, "list %s: %s, is %s", path, ldr_status_name(status),
		     ldr_status_name(wanted));
	if (status != LDR_OK)
		return;
	cr_assert_eq(ldr_list_count(seen), ldr_list_count(there), "list %s: %zu, there are %zu",
		     path, ldr_list_count(seen), ldr_list_count(there));
	for (size_t i = 0; i < ldr_list_count(seen); i++) {
		struct ldr_list_entry a, b;

		ldr_list_at(seen, i, &a);
		ldr_list_at(there, i, &b);
		cr_assert_str_eq(a.name, b.name);
		cr_assert_eq(a.kind, b.kind, "%s/%s", path, a.name);
	}
	ldr_list_free(seen);
	ldr_list_free(there);
}

/* Every path that changes can be about, through the watched layer and a live one. */
static void must_be_as_on_disk(struct ldr_vfs *live)
{
	cr_assert_eq(ldr_vfs_sync(vfs, NULL), LDR_OK);
	must_list_alike(live, "");
	for (unsigned i = 0; i < 4 * 5 * 5; i++) {
		char path[64];
		int used = snprintf(path, sizeof(path), "%s", few[i % 4]);

		for (unsigned rest = i / 4; used < 5; rest /= 5) {
			if (rest % 5 == 4)
				break;
			used += snprintf(path + used, sizeof(path) - (size_t)used, "/%s",
					 few[rest % 5]);
		}
		must_agree(live, path);
		must_list_alike(live, path);
	}
}

static struct ldr_vfs *open_live(void)
{
	struct ldr_vfs *watched = vfs, *live;

	mount_root((struct ldr_native_options){.read_only = true});
	live = vfs;
	vfs = watched;
	return live;
}

static uint64_t seed_of_others;

static void change_at_random(void)
{
	random_change(&seed_of_others);
}

/* Own changes through the layer; what they did must be seen at once unless others undo it. */
static void own_change(uint64_t *seed)
{
	char path[512], other[512];
	const char *rel;
	size_t skip = strlen(top) + sizeof("/root");
	struct ldr_file *opened;

	random_path(seed, path);
	random_path(seed, other);
	rel = path + skip;
	switch ((*seed >> 33) % 4) {
	case 0:
		ldr_vfs_mkdir(vfs, rel, NULL);
		break;
	case 1:
		ldr_vfs_remove(vfs, rel, NULL);
		break;
	case 2:
		ldr_vfs_rename(vfs, rel, other + skip, NULL);
		break;
	default:
		if (ldr_vfs_open(vfs, rel, LDR_OPEN_WRITE, &opened, NULL) == LDR_OK)
			ldr_file_close(opened);
	}
}

/* Alone, every own change is seen before the next one, without waiting for events. */
Test(layer_native, own_changes_are_seen_at_once)
{
	struct ldr_vfs *live;
	uint64_t seed = 3;

	mount_root(modes[2]);
	live = open_live();
	for (unsigned i = 0; i < 1500; i++) {
		char path[512];

		own_change(&seed);
		for (unsigned k = 0; k < 6; k++) {
			random_path(&seed, path);
			must_agree(live, path + strlen(top) + sizeof("/root"));
		}
		if (i % 16 == 0)
			must_list_alike(live, few[i / 16 % 4]);
	}
	must_be_as_on_disk(live);
	ldr_vfs_free(live);
}

Test(layer_native, the_table_equals_the_disk_after_changes_by_others)
{
	struct ldr_vfs *live;
	uint64_t seed = 11;

	mount_root(modes[2]);
	live = open_live();
	for (unsigned round = 0; round < 8; round++) {
		pid_t pid;

		seed_of_others = seed + round;
		pid = start(change_at_random);
		for (unsigned i = 0; i < 300; i++)
			own_change(&seed);
		stop(pid);
		must_be_as_on_disk(live);
	}
	ldr_vfs_free(live);
}

#define THREADS 4u

/* A file of the thread's own is there as soon as it was made, and gone as soon as it was removed;
 * the same name, made and removed by all threads, is at least no error. */
static void *churn(void *argument)
{
	char own[32], common[32];
	uintptr_t index = (uintptr_t)argument;

	snprintf(common, sizeof(common), "a/common");
	for (unsigned i = 0; i < 400; i++) {
		struct ldr_file *opened;
		struct ldr_stat found;

		snprintf(own, sizeof(own), "a/%u-%u", (unsigned)index, i % 5);
		cr_assert_eq(ldr_vfs_replace(vfs, own, "x", 1, LDR_SYNC_NONE, NULL), LDR_OK);
		cr_assert_eq(ldr_vfs_stat(vfs, own, &found, NULL), LDR_OK);
		if (ldr_vfs_open(vfs, common, LDR_OPEN_WRITE, &opened, NULL) == LDR_OK)
			ldr_file_close(opened);
		cr_assert_eq(ldr_vfs_remove(vfs, own, NULL), LDR_OK);
		cr_assert_eq(ldr_vfs_stat(vfs, own, &found, NULL), LDR_ENOTFOUND);
		ldr_vfs_remove(vfs, common, NULL);
	}
	return NULL;
}

Test(layer_native, threads_see_their_own_changes_at_once)
{
	pthread_t threads[THREADS];
	struct ldr_vfs *live;

	for (size_t m = 0; m < MODES; m += 2) {
		if (m == 0)
			folder("root/a");
		mount_root(modes[m]);
		for (uintptr_t i = 0; i < THREADS; i++)
			cr_assert_eq(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		live = open_live();
		must_be_as_on_disk(live);
		ldr_vfs_free(live);
		unmount_root();
	}
}

/* More events than the system keeps: it says so, and everything is read anew. */
Test(layer_native, a_queue_that_overflows_loses_nothing)
{
	char path[512], name[64];
	struct ldr_vfs_metrics before, after;
	unsigned long keeps = 16384;
	FILE *proc = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	struct ldr_stat found;
	pid_t pid;
	int status;

	if (proc) {
		cr_assert_eq(fscanf(proc, "%lu", &keeps), 1);
		fclose(proc);
	}
	if (keeps > 65536)
		cr_skip_test("the queue is too long to fill: %lu", keeps);
	mount_root(modes[2]);
	ldr_vfs_metrics(vfs, &before);
	pid = fork();
	if (pid == 0) {
		/* The watching process stands still meanwhile, or nearly so: what it takes until then is not
		 * in the queue. */
		kill(getppid(), SIGSTOP);
		for (unsigned long i = 0; i <= 2 * keeps; i++) {
			snprintf(name, sizeof(name), "root/%lu", i % 512);
			if (mkdir(at(name, path), 0755) != 0 && rmdir(path) != 0)
				break;
		}
		snprintf(name, sizeof(name), "root/last");
		mkdir(at(name, path), 0755);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(ldr_vfs_sync(vfs, NULL), LDR_OK);
	ldr_vfs_metrics(vfs, &after);
	cr_assert_gt(after.watch_fallbacks, before.watch_fallbacks);
	cr_assert_eq(ldr_vfs_stat(vfs, "last", &found, NULL), LDR_OK);
	cr_assert(is_listed("last"));
	cr_assert_eq(ldr_vfs_stat(vfs, "lost", &found, NULL), LDR_ENOTFOUND);
}

/* A mount over a watched folder tells no event. */
Test(layer_native, a_mount_of_the_system_is_seen)
{
	char path[512];

	folder("root/a");
	file("root/a/under", PUBLIC);
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		cr_skip_test("no mounts of one's own: %s", strerror(errno));
	mount_root(modes[2]);
	must_read("a/under", PUBLIC);
	cr_assert_eq(mount("none", at("root/a", path), "tmpfs", 0, NULL), 0);
	file("root/a/over", PUBLIC);
	cr_assert_eq(ldr_vfs_sync(vfs, NULL), LDR_OK);
	must_read("a/over", PUBLIC);
	cr_assert_eq(ldr_vfs_exists(vfs, "a/under", NULL), LDR_ENOTFOUND);
	cr_assert_eq(umount(path), 0);
	cr_assert_eq(ldr_vfs_sync(vfs, NULL), LDR_OK);
	must_read("a/under", PUBLIC);
	cr_assert_eq(ldr_vfs_exists(vfs, "a/over", NULL), LDR_ENOTFOUND);
}

/* More folders than may be watched: those beyond are looked up live. */
Test(layer_native, folders_beyond_the_limit_are_live)
{
	struct ldr_native_options options = {.watched = true, .max_watches = 3};
	struct ldr_vfs_metrics counts;
	char name[64];

	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "root/%u", i);
		folder(name);
	}
	mount_root(options);
	ldr_vfs_metrics(vfs, &counts);
	cr_assert_geq(counts.watch_fallbacks, 6);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "root/%u/new", i);
		file(name, PUBLIC);
	}
	cr_assert_eq(ldr_vfs_sync(vfs, NULL), LDR_OK);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "%u/new", i);
		must_read(name, PUBLIC);
		snprintf(name, sizeof(name), "%u/none", i);
		cr_assert_eq(ldr_vfs_exists(vfs, name, NULL), LDR_ENOTFOUND);
	}
}
