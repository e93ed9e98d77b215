/* Recording; see record.h. */
#include "tests/recovery/core/record.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/process.h"

#define START_TRIES 2000
#define END_LIMIT_MS 5000
#define SEED_BUFFER (1u << 20)

enum ldr_status crash_place_make(struct crash_place *place, const char *folder,
				 const char *recorder, struct ldr_error *err)
{
	const char *const folders[] = {place->folder, place->fuse, place->mount};

	snprintf(place->folder, sizeof(place->folder), "%s", folder);
	snprintf(place->seed, sizeof(place->seed), "%s/seed.img", folder);
	snprintf(place->image, sizeof(place->image), "%s/state.img", folder);
	snprintf(place->fuse, sizeof(place->fuse), "%s/fuse", folder);
	snprintf(place->mount, sizeof(place->mount), "%s/mnt", folder);
	snprintf(place->work, sizeof(place->work), "%s/mnt/work", folder);
	snprintf(place->output, sizeof(place->output), "%s/output", folder);
	place->recorder = recorder;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (mkdir(folders[i], 0700) != 0 && errno != EEXIST)
			return ldr_fail_errno(err, errno, "folder %s", folders[i]);
	}
	return LDR_OK;
}

/* The end of what the last program printed, for messages. */
static void last_words(const struct crash_place *place, char *out_text, size_t room)
{
	LDR_AUTO_FD int fd = open(place->output, O_RDONLY | O_CLOEXEC);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t got;

	out_text[0] = 0;
	if (end <= 0)
		return;
	got = pread(fd, out_text, room - 1, end > (off_t)room ? end - (off_t)room + 1 : 0);
	out_text[got > 0 ? got : 0] = 0;
	for (char *c = out_text; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
}

static enum ldr_status mounted(const struct crash_place *place, const struct crash_leg *leg,
			       const char *image, bool direct_io, struct ldr_error *err)
{
	int error;
	enum ldr_status status = crash_disk_mount(leg, image, direct_io, place->mount, &error, err);

	if (!status && error)
		return ldr_fail_errno(err, error, "mounting %s", leg->name);
	return status;
}

static enum ldr_status populate(const struct crash_place *place, const struct crash_leg *leg,
				const struct crash_subject *subject, struct ldr_error *err)
{
	enum ldr_status status = mounted(place, leg, place->seed, false, err);
	char words[200];
	int rc;

	if (status)
		return status;
	if (mkdir(place->work, 0755) != 0)
		return ldr_fail_errno(err, errno, "folder %s", place->work);
	rc = crash_subject_step(subject, "--seed", place->work, NULL, place->output);
	if (rc != 0) {
		last_words(place, words, sizeof(words));
		ldr_fail(err, LDR_EIO, "--seed: exit status %d: %s", rc, words);
	}
	status = crash_disk_unmount(place->mount, umount2, rc ? NULL : err);
	return rc ? LDR_EIO : status;
}

/* A formatted image of each leg is kept: mkfs takes longer than most cases. */
static enum ldr_status formatted(const struct crash_place *place, const struct crash_leg *leg,
				 struct ldr_error *err)
{
	char kept[CRASH_PATH_BYTES], output[CRASH_PATH_BYTES];
	enum ldr_status status = LDR_OK;

	snprintf(kept, sizeof(kept), "%s/%s.img", place->folder, leg->name);
	snprintf(output, sizeof(output), "%s/%s.mkfs", place->folder, leg->name);
	if (access(kept, F_OK) != 0)
		status = crash_disk_format(leg, kept, output, err);
	return status ? status : crash_disk_copy(kept, place->seed, err);
}

enum ldr_status crash_record_seed(const struct crash_place *place, const struct crash_leg *leg,
				  const struct crash_subject *subject, struct ldr_error *err)
{
	enum ldr_status status = formatted(place, leg, err);

	return status ? status : populate(place, leg, subject, err);
}

enum ldr_status crash_record_open(const struct crash_place *place, struct crash_recording *out,
				  struct ldr_error *err)
{
	const char *const argv[] = {place->recorder, place->fuse, place->seed, NULL};
	struct crash_spawn spawn = {.argv = argv, .output = place->output};
	char path[CRASH_PATH_BYTES + 8], words[200];

	memset(out, 0, sizeof(*out));
	unlink(place->output);
	out->daemon = crash_spawn_start(&spawn);
	snprintf(path, sizeof(path), "%s/ctl", place->fuse);
	for (int i = 0; out->daemon > 0 && i < START_TRIES; i++) {
		if (access(path, F_OK) == 0)
			return LDR_OK;
		if (waitpid(out->daemon, NULL, WNOHANG) != 0)
			out->daemon = 0;
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	crash_record_close(place, out);
	last_words(place, words, sizeof(words));
	return ldr_fail(err, LDR_EIO, "the recorder did not start: %s", words);
}

static enum ldr_status order(const struct crash_place *place, const char *text,
			     struct ldr_error *err)
{
	char path[CRASH_PATH_BYTES + 8];
	LDR_AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "%s/ctl", place->fuse);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return ldr_fail_errno(err, errno, "recorder: \"%s\"", text);
	return LDR_OK;
}

static enum ldr_status order_fault(const struct crash_place *place, const struct crash_fault *fault,
				   struct ldr_error *err)
{
	char text[48];

	if (!fault->kind)
		return LDR_OK;
	snprintf(text, sizeof(text), "fail %s %u", fault->kind == 'w' ? "write" : "flush",
		 fault->number);
	return order(place, text, err);
}

static enum ldr_status read_log(const struct crash_place *place, struct crash_recording *recording,
				struct ldr_error *err)
{
	char path[CRASH_PATH_BYTES + 8];
	LDR_AUTO_FD int fd = -1;
	size_t room = 0;
	ssize_t got = 1;

	snprintf(path, sizeof(path), "%s/log", place->fuse);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && got > 0) {
		if (recording->length == room) {
			uint8_t *grown = realloc(recording->bytes, room + SEED_BUFFER);

			if (!grown)
				return ldr_fail(err, LDR_ENOMEM, "no memory for a log");
			recording->bytes = grown;
			room += SEED_BUFFER;
		}
		got = read(fd, recording->bytes + recording->length, room - recording->length);
		recording->length += got > 0 ? (size_t)got : 0;
	}
	if (fd < 0 || got < 0)
		return ldr_fail_errno(err, errno, "%s", path);
	return crash_log_read(recording->bytes, recording->length, &recording->log, err);
}

static int run_subject(const struct crash_place *place, const struct crash_subject *subject,
		       const char *inject)
{
	char mark[CRASH_PATH_BYTES + 32], order_text[64];
	const char *const env[] = {mark, order_text, NULL};

	snprintf(mark, sizeof(mark), "CRASHLAB_MARK=%s/mark", place->fuse);
	snprintf(order_text, sizeof(order_text), "CRASHLAB_INJECT=%s", inject);
	return crash_subject_step(subject, "--run", place->work, env, place->output);
}

enum ldr_status crash_record_run(const struct crash_place *place, const struct crash_leg *leg,
				 const struct crash_subject *subject, const char *inject,
				 const struct crash_fault *fault, struct crash_recording *recording,
				 struct ldr_error *err)
{
	char disk[CRASH_PATH_BYTES + 8], words[200];
	enum ldr_status status;

	snprintf(disk, sizeof(disk), "%s/d0", place->fuse);
	unlink(place->output);
	status = order(place, "record on", err);
	if (!status)
		status = mounted(place, leg, disk, true, err);
	if (status)
		return status;
	crash_disk_observe(place->mount, recording->options, sizeof(recording->options),
			   &recording->direct_io);
	if (recording->direct_io == 1)
		status = order_fault(place, fault, err);
	else
		status = ldr_fail(err, LDR_EUNSUPPORTED,
				  "direct I/O of the loop device: asked for, found %d",
				  recording->direct_io);
	if (!status)
		recording->subject_status = run_subject(place, subject, inject);
	if (crash_disk_unmount(place->mount, umount2, status ? NULL : err) != LDR_OK)
		return LDR_EIO;
	if (!status)
		status = read_log(place, recording, err);
	if (!status && recording->subject_status != 0 && !fault->kind) {
		last_words(place, words, sizeof(words));
		return ldr_fail(err, LDR_EIO, "--run: exit status %d: %s",
				recording->subject_status, words);
	}
	return status;
}

void crash_record_close(const struct crash_place *place, struct crash_recording *recording)
{
	if (recording->daemon > 0) {
		kill(recording->daemon, SIGTERM);
		crash_wait(recording->daemon, END_LIMIT_MS);
	}
	umount2(place->fuse, MNT_DETACH);
	crash_log_dispose(&recording->log);
	free(recording->bytes);
	memset(recording, 0, sizeof(*recording));
}
