/* The tracer; see trace.h. */
#include "tests/recovery/sim/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/sim/model.h"

#define SYSCALL_STOP (SIGTRAP | 0x80)
#define EVENTS_MOST 4096

struct call {
	uint64_t number;
	uint64_t args[6];
	int64_t result;
};

struct tracer {
	pid_t pid;
	struct stat folder, mark;
	struct sim_trace *trace;
	struct sim_folder now;
	ino_t inodes[SIM_OBJECTS_MAX];
	struct call call;
};

/* ---- the folder as it lies there ---- */

static int object_of(const struct tracer *tracer, ino_t inode)
{
	for (unsigned i = tracer->trace->object_count; i > 0; i--) {
		if (tracer->inodes[i - 1] == inode)
			return (int)i - 1;
	}
	return -1;
}

static int new_object(struct tracer *tracer, ino_t inode)
{
	if (tracer->trace->object_count == SIM_OBJECTS_MAX)
		return -1;
	tracer->inodes[tracer->trace->object_count] = inode;
	return (int)tracer->trace->object_count++;
}

static enum ldr_status read_whole(int fd, const char *name, struct sim_folder *out, unsigned object,
				  struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *bytes = malloc(SIM_FILE_BYTES + 1);
	struct sim_event event = {.kind = SIM_WRITE, .object = object, .bytes = bytes};
	ssize_t got = bytes ? read(fd, bytes, SIM_FILE_BYTES + 1) : -1;

	if (got < 0)
		return ldr_fail(err, LDR_EIO, "trace: %s cannot be read", name);
	event.length = (size_t)got;
	return sim_apply(out, &event, err);
}

static enum ldr_status scan_name(struct tracer *tracer, int folder_fd, const char *name,
				 struct sim_folder *out, struct ldr_error *err)
{
	struct sim_event event = {.kind = SIM_CREATE};
	LDR_AUTO_FD int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat found;
	int object;

	if (strlen(name) >= SIM_NAME_BYTES || fd < 0 || fstat(fd, &found) != 0 ||
	    !S_ISREG(found.st_mode))
		return ldr_fail(err, LDR_ECORRUPT, "trace: %s is no file that can be modelled",
				name);
	object = object_of(tracer, found.st_ino);
	if (object < 0)
		object = new_object(tracer, found.st_ino);
	if (object < 0)
		return ldr_fail(err, LDR_ELIMIT, "trace: more than %d files", SIM_OBJECTS_MAX);
	event.object = (unsigned)object;
	memcpy(event.name, name, strlen(name) + 1);
	if (!out->objects[object].length &&
	    read_whole(fd, name, out, (unsigned)object, err) != LDR_OK)
		return LDR_EIO;
	return sim_apply(out, &event, err);
}

static enum ldr_status scan(struct tracer *tracer, const char *folder, struct sim_folder *out,
			    struct ldr_error *err)
{
	DIR *listing = opendir(folder);
	enum ldr_status status = LDR_OK;
	struct dirent *entry;

	if (!listing)
		return ldr_fail_errno(err, errno, "trace: %s", folder);
	while (!status && (entry = readdir(listing))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			status = scan_name(tracer, dirfd(listing), entry->d_name, out, err);
	}
	closedir(listing);
	return status;
}

/* ---- the program's memory and descriptors ---- */

static bool peek(const struct tracer *tracer, uint64_t address, void *out, size_t length)
{
	struct iovec here = {out, length};
	struct iovec there = {(void *)(uintptr_t)address, length};

	return process_vm_readv(tracer->pid, &here, 1, &there, 1, 0) == (ssize_t)length;
}

/* A path as the program gave it: a plain name, which is relative to the folder. */
static bool peek_name(const struct tracer *tracer, uint64_t address, char out[SIM_NAME_BYTES])
{
	for (size_t i = 0; i < SIM_NAME_BYTES; i++) {
		if (!peek(tracer, address + i, &out[i], 1) || out[i] == '/')
			return false;
		if (!out[i])
			return i > 0;
	}
	return false;
}

static bool stat_fd(const struct tracer *tracer, uint64_t fd, struct stat *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tracer->pid, (int)fd);
	return stat(path, out) == 0;
}

/* Where a write that has happened began. */
static bool offset_before(const struct tracer *tracer, uint64_t fd, uint64_t *out)
{
	LDR_AUTO_FD int info = -1;
	char path[64], text[256];
	unsigned long long position;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)tracer->pid, (int)fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	got = info >= 0 ? read(info, text, sizeof(text) - 1) : -1;
	if (got <= 0)
		return false;
	text[got] = '\0';
	if (sscanf(text, "pos: %llu", &position) != 1 || position < (uint64_t)tracer->call.result)
		return false;
	*out = position - (uint64_t)tracer->call.result;
	return true;
}

/* ---- events ---- */

static enum ldr_status add(struct tracer *tracer, const struct sim_event *event,
			   struct ldr_error *err)
{
	struct sim_trace *trace = tracer->trace;

	if (trace->event_count == EVENTS_MOST)
		return ldr_fail(err, LDR_ELIMIT, "trace: more than %d events", EVENTS_MOST);
	if (trace->event_count == trace->capacity) {
		size_t capacity = trace->capacity ? 2 * trace->capacity : 64;
		struct sim_event *events = reallocarray(trace->events, capacity, sizeof(*events));

		if (!events)
			return ldr_fail(err, LDR_ENOMEM, "trace: no memory for events");
		trace->events = events;
		trace->capacity = capacity;
	}
	trace->events[trace->event_count++] = *event;
	return sim_apply(&tracer->now, event, err);
}

static enum ldr_status unexplained(const char *what, struct ldr_error *err)
{
	return ldr_fail(err, LDR_ECORRUPT, "trace: %s that the model does not know", what);
}

/* An open that succeeded: it may have made a file, or emptied one. */
static enum ldr_status on_open(struct tracer *tracer, uint64_t path, uint64_t flags,
			       struct ldr_error *err)
{
	struct sim_event event = {.kind = SIM_CREATE};
	struct stat found;
	int object;

	if (!(flags & (O_CREAT | O_TRUNC)) ||
	    !stat_fd(tracer, (uint64_t)tracer->call.result, &found) ||
	    found.st_ino == tracer->mark.st_ino || !peek_name(tracer, path, event.name))
		return LDR_OK;
	object = sim_find(&tracer->now, event.name);
	if (object >= 0 && !(flags & O_TRUNC))
		return LDR_OK;
	event.kind = object < 0 ? SIM_CREATE : SIM_TRUNCATE;
	if (object < 0)
		object = new_object(tracer, found.st_ino);
	if (object < 0)
		return ldr_fail(err, LDR_ELIMIT, "trace: more than %d files", SIM_OBJECTS_MAX);
	event.object = (unsigned)object;
	return add(tracer, &event, err);
}

static enum ldr_status on_mark(struct tracer *tracer, struct ldr_error *err)
{
	struct sim_event event = {.kind = SIM_MARK};
	size_t length = (size_t)tracer->call.result;

	if (length < 2 || length > SIM_NAME_BYTES ||
	    !peek(tracer, tracer->call.args[1], event.name, length))
		return unexplained("a mark", err);
	event.name[length - 1] = '\0'; /* in the line feed's place */
	return add(tracer, &event, err);
}

static enum ldr_status on_write(struct tracer *tracer, bool has_offset, struct ldr_error *err)
{
	const struct call *call = &tracer->call;
	struct sim_event event = {.kind = SIM_WRITE, .length = (size_t)call->result};
	enum ldr_status status;
	struct stat found;
	int object;

	if (!stat_fd(tracer, call->args[0], &found))
		return LDR_OK;
	if (found.st_ino == tracer->mark.st_ino && found.st_dev == tracer->mark.st_dev)
		return on_mark(tracer, err);
	object = found.st_dev == tracer->folder.st_dev ? object_of(tracer, found.st_ino) : -1;
	if (object < 0 || call->result == 0)
		return LDR_OK;
	event.object = (unsigned)object;
	event.offset = call->args[3];
	event.bytes = malloc(event.length);
	if (!event.bytes || !peek(tracer, call->args[1], event.bytes, event.length) ||
	    (!has_offset && !offset_before(tracer, call->args[0], &event.offset))) {
		free(event.bytes);
		return unexplained("a write", err);
	}
	status = add(tracer, &event, err);
	if (status && tracer->trace->event_count == EVENTS_MOST)
		free(event.bytes);
	return status;
}

static enum ldr_status on_fd(struct tracer *tracer, enum sim_kind kind, struct ldr_error *err)
{
	struct sim_event event = {.kind = kind, .offset = tracer->call.args[1]};
	struct stat found;
	int object;

	if (!stat_fd(tracer, tracer->call.args[0], &found) || found.st_dev != tracer->folder.st_dev)
		return LDR_OK;
	object = object_of(tracer, found.st_ino);
	if (kind == SIM_SYNC && found.st_ino == tracer->folder.st_ino)
		event.kind = SIM_SYNC_FOLDER;
	else if (object < 0)
		return LDR_OK;
	else
		event.object = (unsigned)object;
	return add(tracer, &event, err);
}

/* to is 0 for a removal. */
static enum ldr_status on_name(struct tracer *tracer, enum sim_kind kind, uint64_t from,
			       uint64_t to, struct ldr_error *err)
{
	struct sim_event event = {.kind = kind};
	int object;

	if (!peek_name(tracer, from, event.name) || (to && !peek_name(tracer, to, event.to)))
		return unexplained("a path with folders", err);
	object = sim_find(&tracer->now, event.name);
	if (object < 0)
		return unexplained("a name from elsewhere", err);
	event.object = (unsigned)object;
	return add(tracer, &event, err);
}

static enum ldr_status on_open2(struct tracer *tracer, struct ldr_error *err)
{
	struct open_how how;

	if (!peek(tracer, tracer->call.args[2], &how, sizeof(how)))
		return unexplained("an openat2", err);
	return on_open(tracer, tracer->call.args[1], how.flags, err);
}

static enum ldr_status on_old_call(struct tracer *tracer, struct ldr_error *err)
{
	const uint64_t *args = tracer->call.args;

	(void)args;
	switch (tracer->call.number) {
#ifdef SYS_open
	case SYS_open:
		return on_open(tracer, args[0], args[1], err);
	case SYS_rename:
		return on_name(tracer, SIM_RENAME, args[0], args[1], err);
	case SYS_unlink:
		return on_name(tracer, SIM_UNLINK, args[0], 0, err);
	case SYS_link:
		return on_name(tracer, SIM_LINK, args[0], args[1], err);
	case SYS_mkdir:
	case SYS_rmdir:
	case SYS_symlink:
		return unexplained("a folder or link", err);
#endif
	default:
		return LDR_OK;
	}
}

static enum ldr_status on_call(struct tracer *tracer, struct ldr_error *err)
{
	const uint64_t *args = tracer->call.args;

	switch (tracer->call.number) {
	case SYS_openat:
		return on_open(tracer, args[1], args[2], err);
	case SYS_openat2:
		return on_open2(tracer, err);
	case SYS_write:
		return on_write(tracer, false, err);
	case SYS_pwrite64:
		return on_write(tracer, true, err);
	case SYS_ftruncate:
		return on_fd(tracer, SIM_TRUNCATE, err);
	case SYS_fsync:
	case SYS_fdatasync:
		return on_fd(tracer, SIM_SYNC, err);
	case SYS_sync:
	case SYS_syncfs:
		return add(tracer, &(struct sim_event){.kind = SIM_SYNC_ALL}, err);
#ifdef SYS_renameat
	case SYS_renameat:
#endif
	case SYS_renameat2:
		return on_name(tracer, SIM_RENAME, args[1], args[3], err);
	case SYS_unlinkat:
		return on_name(tracer, SIM_UNLINK, args[1], 0, err);
	case SYS_linkat:
		return on_name(tracer, SIM_LINK, args[1], args[3], err);
	case SYS_mkdirat:
	case SYS_symlinkat:
		return unexplained("a folder or link", err);
	default:
		return on_old_call(tracer, err);
	}
}

/* ---- the program ---- */

/* Leaks cannot be looked for under ptrace, by those builds that would. */
static void become(const struct crash_subject *subject, const char *folder, const char *mark_path)
{
	const char *argv[CRASH_WORDS_MAX + 2];

	memcpy(argv, subject->argv, sizeof(argv));
	argv[subject->words] = "--run";
	argv[subject->words + 1] = NULL;
	if (chdir(folder) != 0 || setenv("CRASHLAB_MARK", mark_path, 1) != 0 ||
	    setenv("ASAN_OPTIONS", "abort_on_error=1:detect_leaks=0", 1) != 0 ||
	    ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(126);
	raise(SIGSTOP);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* A stop at a call's entry keeps its arguments, the one at its end makes events of them. */
static enum ldr_status on_stop(struct tracer *tracer, struct ldr_error *err)
{
	struct __ptrace_syscall_info info;
	struct call *call = &tracer->call;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tracer->pid, sizeof(info), &info) <= 0)
		return ldr_fail(err, LDR_EUNSUPPORTED, "trace: the kernel tells no system calls");
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		call->number = info.entry.nr;
		memcpy(call->args, info.entry.args, sizeof(call->args));
		return LDR_OK;
	}
	if (info.op != PTRACE_SYSCALL_INFO_EXIT || info.exit.is_error)
		return LDR_OK;
	call->result = info.exit.rval;
	return on_call(tracer, err);
}

static enum ldr_status follow(struct tracer *tracer, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	int state = 0, deliver = 0;

	while (!status) {
		if (ptrace(PTRACE_SYSCALL, tracer->pid, NULL, deliver) != 0 ||
		    waitpid(tracer->pid, &state, 0) != tracer->pid)
			return ldr_fail_errno(err, errno, "trace: the program is lost");
		deliver = 0;
		if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
			return LDR_OK;
		if (!WIFSTOPPED(state))
			return ldr_fail(err, LDR_EIO, "trace: the program ended with %#x",
					(unsigned)state);
		if (WSTOPSIG(state) == SYSCALL_STOP)
			status = on_stop(tracer, err);
		else if (WSTOPSIG(state) != SIGTRAP)
			deliver = WSTOPSIG(state);
	}
	kill(tracer->pid, SIGKILL);
	waitpid(tracer->pid, &state, 0);
	return status;
}

static enum ldr_status compare(const struct sim_folder *model, const struct sim_folder *real,
			       struct ldr_error *err)
{
	for (size_t i = 0; i < 2 * SIM_NAMES_MAX; i++) {
		const char *name =
			(i < SIM_NAMES_MAX ? real : model)->names[i % SIM_NAMES_MAX].name;
		int a = *name ? sim_find(model, name) : -1, b = *name ? sim_find(real, name) : -1;

		if (!*name)
			continue;
		if (a < 0 || b < 0)
			return ldr_fail(err, LDR_ECORRUPT, "trace: %s is there or not", name);
		if (model->objects[a].length != real->objects[b].length ||
		    (real->objects[b].length &&
		     memcmp(model->objects[a].bytes, real->objects[b].bytes,
			    real->objects[b].length) != 0))
			return ldr_fail(err, LDR_ECORRUPT, "trace: %s has other bytes", name);
	}
	return LDR_OK;
}

static enum ldr_status run(struct tracer *tracer, const struct crash_subject *subject,
			   const char *folder, const char *mark_path, struct ldr_error *err)
{
	int state;

	tracer->pid = fork();
	if (tracer->pid == 0)
		become(subject, folder, mark_path);
	if (tracer->pid < 0 || waitpid(tracer->pid, &state, 0) != tracer->pid)
		return ldr_fail_errno(err, errno, "trace: fork");
	if (!WIFSTOPPED(state))
		return ldr_fail(err, LDR_EUNSUPPORTED, "trace: a program may not be traced here");
	if (ptrace(PTRACE_SETOPTIONS, tracer->pid, NULL,
		   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0)
		return ldr_fail_errno(err, errno, "trace: options");
	return follow(tracer, err);
}

enum ldr_status sim_trace_run(const struct crash_subject *subject, const char *folder,
			      const char *mark_path, struct sim_trace *out, struct ldr_error *err)
{
	struct tracer tracer = {.trace = out};
	struct sim_folder real = {0};
	LDR_AUTO_FD int fd = open(mark_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	enum ldr_status status;

	memset(out, 0, sizeof(*out));
	if (fd < 0 || fstat(fd, &tracer.mark) != 0 || stat(folder, &tracer.folder) != 0)
		return ldr_fail_errno(err, errno, "trace: %s, %s", folder, mark_path);
	status = scan(&tracer, folder, &out->before, err);
	if (!status)
		status = sim_folder_copy(&out->before, &tracer.now, err);
	if (!status)
		status = run(&tracer, subject, folder, mark_path, err);
	if (!status)
		status = scan(&tracer, folder, &real, err);
	if (!status)
		status = compare(&tracer.now, &real, err);
	sim_folder_dispose(&real);
	sim_folder_dispose(&tracer.now);
	return status;
}

void sim_trace_dispose(struct sim_trace *trace)
{
	for (size_t i = 0; i < trace->event_count; i++)
		free(trace->events[i].bytes);
	free(trace->events);
	sim_folder_dispose(&trace->before);
	memset(trace, 0, sizeof(*trace));
}
