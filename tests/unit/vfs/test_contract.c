/*
 * The contract over every stack of layers, settled and unsettled: no case may tell them apart.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vfs/contract.h"

/* Says which stack it was. */
#define NAME(c) ((c)->stack->name)

static void want(const struct contract *c, enum ldr_status got, enum ldr_status wanted,
		 const char *what)
{
	cr_assert_eq(got, wanted, "%s: %s: %s, wanted %s", NAME(c), what, ldr_status_name(got),
		     ldr_status_name(wanted));
}

static void over_all(bool writable, void (*run)(struct contract *c))
{
	for (size_t i = 0; i < contract_stack_count; i++) {
		for (int settled = 0; settled < 2; settled++) {
			struct contract c;

			if (writable && !contract_stacks[i].writable)
				continue;
			contract_open(&c, i, settled);
			run(&c);
			contract_close(&c);
		}
	}
}

static struct ldr_file *must_open(struct contract *c, const char *path, unsigned flags)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_file *file = NULL;
	enum ldr_status status = ldr_vfs_open(c->vfs, path, flags, &file, &err);

	cr_assert_eq(status, LDR_OK, "%s: open %s: %s", NAME(c), path, err.text);
	return file;
}

static void must_write(struct contract *c, const char *path, const char *text)
{
	struct ldr_file *file = must_open(c, path, LDR_OPEN_WRITE);

	want(c, ldr_file_pwrite(file, text, strlen(text), 0, NULL), LDR_OK, path);
	ldr_file_close(file);
}

/* The whole content is exactly text. */
static void must_hold(struct contract *c, const char *path, const char *text, size_t length)
{
	struct ldr_file *file = must_open(c, path, LDR_OPEN_READ);
	char *bytes = malloc(length + 2);
	struct ldr_stat found;
	size_t got;

	want(c, ldr_file_pread(file, bytes, length + 2, 0, &got, NULL), LDR_OK, path);
	cr_assert_eq(got, length, "%s: %s: %zu bytes, wanted %zu", NAME(c), path, got, length);
	cr_assert(memcmp(bytes, text, length) == 0, "%s: %s: other bytes", NAME(c), path);
	want(c, ldr_file_stat(file, &found, NULL), LDR_OK, path);
	cr_assert_eq(found.size_bytes, length, "%s: %s", NAME(c), path);
	want(c, ldr_vfs_stat(c->vfs, path, &found, NULL), LDR_OK, path);
	cr_assert(found.kind == LDR_KIND_FILE && found.size_bytes == length, "%s: %s", NAME(c),
		  path);
	free(bytes);
	ldr_file_close(file);
}

/* The folder's names, joined by spaces. */
static void must_list(struct contract *c, const char *path, const char *wanted)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_list *list = NULL;
	struct ldr_list_entry entry;
	char joined[1024] = "";
	enum ldr_status status = ldr_vfs_list(c->vfs, path, &list, &err);

	cr_assert_eq(status, LDR_OK, "%s: list \"%s\": %s", NAME(c), path, err.text);
	for (size_t i = 0; i < ldr_list_count(list); i++) {
		ldr_list_at(list, i, &entry);
		cr_assert_eq(strlen(entry.name), entry.name_bytes);
		snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s%s%s",
			 i ? " " : "", entry.name, entry.kind == LDR_KIND_FOLDER ? "/" : "");
	}
	ldr_list_free(list);
	cr_assert_str_eq(joined, wanted, "%s: list \"%s\": \"%s\", wanted \"%s\"", NAME(c), path,
			 joined, wanted);
}

/* ---- reading ---- */

static void reads(struct contract *c)
{
	static const struct {
		uint64_t offset;
		size_t length, got;
	} table[] = {
		{0, 13, 13},        {0, 0, 0},
		{0, 100, 13},       {7, 5, 5},
		{12, 1, 1},         {12, 9, 1},
		{13, 1, 0},         {14, 10, 0},
		{1u << 30, 10, 0},  {UINT64_MAX - 10, 10, 0},
		{INT64_MAX, 10, 0},
	};
	struct ldr_file *file = must_open(c, "readme.txt", LDR_OPEN_READ);
	char bytes[128];
	size_t got = 77;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		want(c, ldr_file_pread(file, bytes, table[i].length, table[i].offset, &got, NULL),
		     LDR_OK, "pread");
		cr_assert_eq(got, table[i].got, "%s: row %zu: %zu bytes", NAME(c), i, got);
		if (got > 0)
			cr_assert(memcmp(bytes, &"hello, world\n"[table[i].offset], got) == 0);
	}
	got = 77;
	want(c, ldr_file_pread(file, bytes, 11, UINT64_MAX - 10, &got, NULL), LDR_EINVAL,
	     "overflow");
	cr_assert_eq(got, 77, "%s: an output was written on failure", NAME(c));
	want(c, ldr_file_pwrite(file, "x", 1, 0, NULL), LDR_EDENIED, "write to a reader");
	want(c, ldr_file_truncate(file, 0, NULL), LDR_EDENIED, "truncate a reader");
	want(c, ldr_file_sync(file, NULL), LDR_OK, "sync a reader");
	ldr_file_close(file);
	for (size_t i = 0; i < contract_content_count; i++) {
		if (contract_content[i].bytes)
			must_hold(c, contract_content[i].path, contract_content[i].bytes,
				  contract_content[i].length);
	}
}

Test(contract, reading)
{
	over_all(false, reads);
}

static void random_reads(struct contract *c)
{
	struct ldr_file *file = must_open(c, "dir/sub/deep.bin", LDR_OPEN_READ);
	static unsigned char bytes[100000];
	unsigned seed = 1;

	for (int i = 0; i < 100; i++) {
		uint64_t offset = (uint64_t)rand_r(&seed) % (CONTRACT_DEEP_BYTES + 1000);
		size_t length = (size_t)rand_r(&seed) % sizeof(bytes), got;
		size_t wanted = offset >= CONTRACT_DEEP_BYTES ? 0 : CONTRACT_DEEP_BYTES - offset;

		if (wanted > length)
			wanted = length;
		want(c, ldr_file_pread(file, bytes, length, offset, &got, NULL), LDR_OK, "pread");
		cr_assert_eq(got, wanted, "%s", NAME(c));
		for (size_t k = 0; k < got; k++)
			cr_assert(bytes[k] == contract_byte(offset + k), "%s: byte %zu", NAME(c),
				  k);
	}
	ldr_file_close(file);
}

Test(contract, random_reads)
{
	over_all(false, random_reads);
}

static void cursors(struct contract *c)
{
	struct ldr_file *file = must_open(c, "readme.txt", LDR_OPEN_READ);
	struct ldr_file_cursor cursor;
	uint64_t at;
	char bytes[16];
	size_t got;

	ldr_file_cursor_init(&cursor, file);
	want(c, ldr_file_cursor_read(&cursor, bytes, 5, &got, NULL), LDR_OK, "read");
	cr_assert(got == 5 && cursor.offset == 5, "%s", NAME(c));
	want(c, ldr_file_cursor_seek(&cursor, -3, LDR_FROM_END, &at, NULL), LDR_OK, "seek");
	cr_assert_eq(at, 10, "%s", NAME(c));
	want(c, ldr_file_cursor_read(&cursor, bytes, 16, &got, NULL), LDR_OK, "read");
	cr_assert(got == 3 && memcmp(bytes, "ld\n", 3) == 0, "%s", NAME(c));
	want(c, ldr_file_cursor_read(&cursor, bytes, 16, &got, NULL), LDR_OK, "at the end");
	cr_assert(got == 0, "%s", NAME(c));
	want(c, ldr_file_cursor_seek(&cursor, 90, LDR_FROM_CURRENT, &at, NULL), LDR_OK, "past");
	cr_assert_eq(at, 103, "%s", NAME(c));
	want(c, ldr_file_cursor_read(&cursor, bytes, 16, &got, NULL), LDR_OK, "past the end");
	cr_assert(got == 0 && cursor.offset == 103, "%s", NAME(c));
	want(c, ldr_file_cursor_seek(&cursor, -104, LDR_FROM_CURRENT, &at, NULL), LDR_EINVAL,
	     "before the start");
	cr_assert(cursor.offset == 103, "%s: a failed seek moved", NAME(c));
	want(c, ldr_file_cursor_seek(&cursor, 0, LDR_FROM_START, NULL, NULL), LDR_OK, "back");
	want(c, ldr_file_cursor_read(&cursor, bytes, 16, &got, NULL), LDR_OK, "again");
	cr_assert(got == 13, "%s: the end sticks", NAME(c));
	ldr_file_close(file);
}

Test(contract, cursors)
{
	over_all(false, cursors);
}

static void mappings(struct contract *c)
{
	struct ldr_file *file = must_open(c, "dir/sub/deep.bin", LDR_OPEN_READ);
	struct ldr_mapping mapping = {.length = 7};

	want(c, ldr_file_map(file, 1000, 50000, LDR_MAP_COPY, &mapping, NULL), LDR_OK, "map");
	ldr_file_close(file); /* the mapping keeps it */
	for (size_t i = 0; i < 50000; i++)
		cr_assert(mapping.bytes[i] == contract_byte(1000 + i), "%s", NAME(c));
	ldr_file_unmap(&mapping);
	file = must_open(c, "empty", LDR_OPEN_READ);
	want(c, ldr_file_map(file, 0, 0, LDR_MAP_COPY, &mapping, NULL), LDR_OK, "map nothing");
	ldr_file_unmap(&mapping);
	want(c, ldr_file_map(file, 0, 1, LDR_MAP_COPY, &mapping, NULL), LDR_EINVAL, "map too much");
	want(c, ldr_file_map(file, 0, 0, 64, &mapping, NULL), LDR_EINVAL, "map flags");
	ldr_file_close(file);
}

Test(contract, mappings)
{
	over_all(false, mappings);
}

/* ---- names ---- */

static void errors(struct contract *c)
{
	static const struct {
		const char *path;
		enum ldr_status stat, open, list;
	} table[] = {
		{"nothing", LDR_ENOTFOUND, LDR_ENOTFOUND, LDR_ENOTFOUND},
		{"dir/nothing", LDR_ENOTFOUND, LDR_ENOTFOUND, LDR_ENOTFOUND},
		{"no/such/path", LDR_ENOTFOUND, LDR_ENOTFOUND, LDR_ENOTFOUND},
		{"readme.txt/below", LDR_ENOTDIR, LDR_ENOTDIR, LDR_ENOTDIR},
		{"dir/a/b/c", LDR_ENOTDIR, LDR_ENOTDIR, LDR_ENOTDIR},
		{"dir", LDR_OK, LDR_EISDIR, LDR_OK},
		{"dir/sub", LDR_OK, LDR_EISDIR, LDR_OK},
		{"", LDR_OK, LDR_EISDIR, LDR_OK},
		{"readme.txt", LDR_OK, LDR_OK, LDR_ENOTDIR},
		{".larder", LDR_ENOTFOUND, LDR_ENOTFOUND, LDR_ENOTFOUND},
		{".larder/overlay.log", LDR_ENOTFOUND, LDR_ENOTFOUND, LDR_ENOTFOUND},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *path = table[i].path;
		struct ldr_stat found = {.size_bytes = 99};
		struct ldr_file *file = NULL;
		struct ldr_list *list = NULL;
		struct ldr_error err = {.status = LDR_OK};
		enum ldr_status exists = table[i].stat == LDR_OK ? LDR_OK : LDR_ENOTFOUND;

		want(c, ldr_vfs_stat(c->vfs, path, &found, &err), table[i].stat, path);
		cr_assert(err.status == table[i].stat, "%s: %s: the text says %s", NAME(c), path,
			  err.text);
		want(c, ldr_vfs_exists(c->vfs, path, NULL), exists, path);
		want(c, ldr_vfs_open(c->vfs, path, LDR_OPEN_READ, &file, &err), table[i].open,
		     path);
		ldr_file_close(file);
		want(c, ldr_vfs_list(c->vfs, path, &list, &err), table[i].list, path);
		ldr_list_free(list);
	}
}

Test(contract, errors)
{
	over_all(false, errors);
}

static const char *const hostile[] = {
	"/etc/passwd", "../x", "a/../b",       "./a",  "a//b",         "a/",
	"..",          ".",    "C:\\x",        "a\\b", "\\\\?\\x",     "a:b",
	"a\nb",        "\x7f", "a/\xc0\xaf/b", "\xff", "\xed\xa0\x80", "e\xcc\x81",
};

/* V10: each of them is refused in the same way by every function. */
static void hostile_paths(struct contract *c)
{
	struct ldr_stat found;
	struct ldr_which which;
	struct ldr_file *file;
	struct ldr_list *list;
	size_t count;
	char long_path[1100];

	memset(long_path, 'a', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	for (size_t i = 0; i <= sizeof(hostile) / sizeof(hostile[0]); i++) {
		const char *p = i < sizeof(hostile) / sizeof(hostile[0]) ? hostile[i] : long_path;

		want(c, ldr_vfs_stat(c->vfs, p, &found, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_exists(c->vfs, p, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_which(c->vfs, p, &which, NULL, 0, &count, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_list(c->vfs, p, &list, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_open(c->vfs, p, LDR_OPEN_READ, &file, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_open(c->vfs, p, LDR_OPEN_WRITE, &file, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_mkdir(c->vfs, p, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_remove(c->vfs, p, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_replace(c->vfs, p, "", 0, LDR_SYNC_NONE, NULL), LDR_EINVAL, p);
		want(c, ldr_vfs_rename(c->vfs, p, "fine", NULL), LDR_EINVAL, p);
		if (c->stack->writable)
			want(c, ldr_vfs_rename(c->vfs, "readme.txt", p, NULL), LDR_EINVAL, p);
	}
}

Test(contract, hostile_paths)
{
	over_all(false, hostile_paths);
}

static void listings(struct contract *c)
{
	must_list(c, "", "dir/ empty other/ readme.txt");
	must_list(c, "dir", "a b sub/ \xc3\xbcml\xc3\xa4ut.txt");
	must_list(c, "dir/sub", "deep.bin");
	must_list(c, "other", "...x .hidden");
}

Test(contract, listings)
{
	over_all(false, listings);
}

static void open_flags(struct contract *c)
{
	static const unsigned illegal[] = {0, 3, 5, 6, 9, 12, 16, 17, 32, 33};
	struct ldr_file *file;

	for (size_t i = 0; i < sizeof(illegal) / sizeof(illegal[0]); i++)
		want(c, ldr_vfs_open(c->vfs, "readme.txt", illegal[i], &file, NULL), LDR_EINVAL,
		     "flags");
}

Test(contract, open_flags)
{
	over_all(false, open_flags);
}

static void refuses_writing(struct contract *c)
{
	struct ldr_file *file;

	if (c->stack->writable)
		return;
	want(c, ldr_vfs_open(c->vfs, "new", LDR_OPEN_WRITE, &file, NULL), LDR_EDENIED, "write");
	want(c, ldr_vfs_open(c->vfs, "readme.txt", LDR_OPEN_APPEND, &file, NULL), LDR_EDENIED,
	     "append");
	want(c, ldr_vfs_mkdir(c->vfs, "new", NULL), LDR_EDENIED, "mkdir");
	want(c, ldr_vfs_remove(c->vfs, "readme.txt", NULL), LDR_EDENIED, "remove");
	want(c, ldr_vfs_rename(c->vfs, "readme.txt", "new", NULL), LDR_EDENIED, "rename");
	want(c, ldr_vfs_replace(c->vfs, "readme.txt", "x", 1, LDR_SYNC_NONE, NULL), LDR_EDENIED,
	     "replace");
}

Test(contract, without_a_write_target)
{
	over_all(false, refuses_writing);
}

/* ---- writing ---- */

static void writes(struct contract *c)
{
	struct ldr_file *file = must_open(c, "new/folder/file", LDR_OPEN_WRITE);
	struct ldr_file *reader;
	char bytes[32];
	size_t got;

	want(c, ldr_file_pwrite(file, "12345", 5, 0, NULL), LDR_OK, "write");
	want(c, ldr_file_pwrite(file, "", 0, 100, NULL), LDR_OK, "write nothing far away");
	want(c, ldr_file_pread(file, bytes, 1, 0, &got, NULL), LDR_EDENIED, "read a writer");
	must_hold(c, "new/folder/file", "12345", 5);
	want(c, ldr_file_pwrite(file, "X", 1, 8, NULL), LDR_OK, "gap");
	must_hold(c, "new/folder/file", "12345\0\0\0X", 9);
	want(c, ldr_file_truncate(file, 3, NULL), LDR_OK, "cut");
	want(c, ldr_file_truncate(file, 6, NULL), LDR_OK, "extend");
	must_hold(c, "new/folder/file", "123\0\0\0", 6);
	want(c, ldr_file_sync(file, NULL), LDR_OK, "sync");
	ldr_file_close(file);
	/* WRITE empties what is there; a reader that is open stays one of the same file or of the
	 * old bytes, and closes. */
	reader = must_open(c, "readme.txt", LDR_OPEN_READ);
	must_write(c, "readme.txt", "other");
	must_hold(c, "readme.txt", "other", 5);
	want(c, ldr_file_pread(reader, bytes, sizeof(bytes), 0, &got, NULL), LDR_OK, "reader");
	ldr_file_close(reader);
	want(c, ldr_vfs_open(c->vfs, "dir", LDR_OPEN_WRITE, &file, NULL), LDR_EISDIR, "a folder");
	want(c, ldr_vfs_open(c->vfs, "", LDR_OPEN_WRITE, &file, NULL), LDR_EISDIR, "the root");
	want(c, ldr_vfs_open(c->vfs, "dir/a/x", LDR_OPEN_WRITE, &file, NULL), LDR_ENOTDIR,
	     "below a file");
	want(c, ldr_vfs_open(c->vfs, "dir/a", LDR_OPEN_WRITE | LDR_OPEN_NEW, &file, NULL),
	     LDR_EEXISTS, "new, but there");
	want(c, ldr_vfs_open(c->vfs, ".larder/x", LDR_OPEN_WRITE, &file, NULL), LDR_EDENIED,
	     "reserved");
	must_list(c, "", "dir/ empty new/ other/ readme.txt");
}

Test(contract, writing)
{
	over_all(true, writes);
}

static void overlapped_and_append(struct contract *c)
{
	struct ldr_file *file = must_open(c, "readme.txt", LDR_OPEN_OVERLAPPED);
	struct ldr_file_cursor cursor;
	char bytes[32];
	size_t got;

	want(c, ldr_file_pwrite(file, "J", 1, 0, NULL), LDR_OK, "write");
	want(c, ldr_file_pread(file, bytes, 32, 0, &got, NULL), LDR_OK, "read");
	cr_assert(got == 13 && memcmp(bytes, "Jello, world\n", 13) == 0, "%s", NAME(c));
	ldr_file_close(file);
	file = must_open(c, "readme.txt", LDR_OPEN_APPEND);
	want(c, ldr_file_pwrite(file, "1", 1, 0, NULL), LDR_OK, "append ignores the offset");
	want(c, ldr_file_truncate(file, 0, NULL), LDR_EDENIED, "truncate an appender");
	want(c, ldr_file_pread(file, bytes, 1, 0, &got, NULL), LDR_EDENIED, "read an appender");
	ldr_file_cursor_init(&cursor, file);
	want(c, ldr_file_cursor_write(&cursor, "22", 2, NULL), LDR_OK, "append by cursor");
	cr_assert_eq(cursor.offset, 16, "%s", NAME(c));
	ldr_file_close(file);
	must_hold(c, "readme.txt", "Jello, world\n122", 16);
	file = must_open(c, "fresh", LDR_OPEN_OVERLAPPED);
	ldr_file_close(file);
	must_hold(c, "fresh", "", 0);
	file = must_open(c, "log/today", LDR_OPEN_APPEND);
	want(c, ldr_file_pwrite(file, "a", 1, 0, NULL), LDR_OK, "first line");
	ldr_file_close(file);
	must_hold(c, "log/today", "a", 1);
}

Test(contract, overlapped_and_append)
{
	over_all(true, overlapped_and_append);
}

/* A large file is copied up whole before it is changed. */
static void copies_up(struct contract *c)
{
	struct ldr_file *file = must_open(c, "dir/sub/deep.bin", LDR_OPEN_OVERLAPPED);
	static unsigned char bytes[CONTRACT_DEEP_BYTES];
	size_t got;

	want(c, ldr_file_pwrite(file, "!", 1, 777, NULL), LDR_OK, "write");
	ldr_file_close(file);
	file = must_open(c, "dir/sub/deep.bin", LDR_OPEN_READ);
	want(c, ldr_file_pread(file, bytes, sizeof(bytes), 0, &got, NULL), LDR_OK, "read");
	cr_assert_eq(got, sizeof(bytes), "%s", NAME(c));
	for (size_t i = 0; i < got; i++)
		cr_assert(bytes[i] == (i == 777 ? '!' : contract_byte(i)), "%s: %zu", NAME(c), i);
	ldr_file_close(file);
	must_list(c, "dir/sub", "deep.bin");
}

Test(contract, copy_up)
{
	over_all(true, copies_up);
}

static void replaces(struct contract *c)
{
	static const enum ldr_sync syncs[] = {LDR_SYNC_NONE, LDR_SYNC_FILE,
					      LDR_SYNC_FILE_AND_FOLDER};
	struct ldr_file *old;
	char bytes[32];
	size_t got;

	for (size_t i = 0; i < 3; i++) {
		char text[8];

		snprintf(text, sizeof(text), "v%zu", i);
		old = must_open(c, "dir/a", LDR_OPEN_READ);
		want(c, ldr_vfs_replace(c->vfs, "dir/a", text, 2, syncs[i], NULL), LDR_OK,
		     "replace");
		must_hold(c, "dir/a", text, 2);
		want(c, ldr_file_pread(old, bytes, 8, 0, &got, NULL), LDR_OK, "old handle");
		cr_assert(got == (i ? 2u : 1u) && bytes[got - 1] == (i ? (char)('0' + i - 1) : 'a'),
			  "%s: the old handle sees the new bytes", NAME(c));
		ldr_file_close(old);
	}
	want(c, ldr_vfs_replace(c->vfs, "saves/slot/1", "s", 1, LDR_SYNC_FILE, NULL), LDR_OK,
	     "new");
	must_hold(c, "saves/slot/1", "s", 1);
	want(c, ldr_vfs_replace(c->vfs, "dir", "s", 1, LDR_SYNC_FILE, NULL), LDR_EISDIR, "folder");
	want(c, ldr_vfs_replace(c->vfs, "dir/a/b", "s", 1, LDR_SYNC_FILE, NULL), LDR_ENOTDIR,
	     "file");
	must_list(c, "dir", "a b sub/ \xc3\xbcml\xc3\xa4ut.txt");
}

Test(contract, replace)
{
	over_all(true, replaces);
}

static void removes(struct contract *c)
{
	struct ldr_file *open = must_open(c, "dir/a", LDR_OPEN_READ);
	char bytes[4];
	size_t got;

	want(c, ldr_vfs_remove(c->vfs, "dir/a", NULL), LDR_OK, "remove");
	want(c, ldr_vfs_remove(c->vfs, "dir/a", NULL), LDR_ENOTFOUND, "again");
	want(c, ldr_vfs_exists(c->vfs, "dir/a", NULL), LDR_ENOTFOUND, "gone");
	want(c, ldr_file_pread(open, bytes, 4, 0, &got, NULL), LDR_OK, "open handle");
	cr_assert(got == 1 && bytes[0] == 'a', "%s", NAME(c));
	ldr_file_close(open);
	must_list(c, "dir", "b sub/ \xc3\xbcml\xc3\xa4ut.txt");
	want(c, ldr_vfs_remove(c->vfs, "dir", NULL), c->stack->points ? LDR_EDENIED : LDR_ENOTEMPTY,
	     "full folder");
	want(c, ldr_vfs_remove(c->vfs, "", NULL), LDR_EDENIED, "root");
	want(c, ldr_vfs_remove(c->vfs, "empty/x", NULL), LDR_ENOTDIR, "below a file");
	must_write(c, "dir/a", "anew"); /* V18 */
	must_hold(c, "dir/a", "anew", 4);
	want(c, ldr_vfs_remove(c->vfs, "dir/a", NULL), LDR_OK, "remove what was made anew");
	want(c, ldr_vfs_exists(c->vfs, "dir/a", NULL), LDR_ENOTFOUND, "gone again");
	/* V16: only this name. */
	must_write(c, "a", "root");
	must_hold(c, "a", "root", 4);
}

Test(contract, remove)
{
	over_all(true, removes);
}

/* V19: a folder that was removed and made anew is empty, however deep. */
static void folders(struct contract *c)
{
	if (c->stack->points)
		return;
	want(c, ldr_vfs_mkdir(c->vfs, "dir", NULL), LDR_EEXISTS, "mkdir");
	want(c, ldr_vfs_mkdir(c->vfs, "readme.txt", NULL), LDR_EEXISTS, "mkdir over a file");
	want(c, ldr_vfs_mkdir(c->vfs, "readme.txt/x", NULL), LDR_ENOTDIR, "mkdir below a file");
	want(c, ldr_vfs_mkdir(c->vfs, "p/q/r", NULL), LDR_OK, "mkdir with parents");
	must_list(c, "p", "q/");
	must_list(c, "p/q/r", "");
	want(c, ldr_vfs_remove(c->vfs, "dir/sub/deep.bin", NULL), LDR_OK, "remove");
	must_list(c, "dir/sub", "");
	want(c, ldr_vfs_remove(c->vfs, "dir/sub", NULL), LDR_OK, "remove folder");
	want(c, ldr_vfs_exists(c->vfs, "dir/sub", NULL), LDR_ENOTFOUND, "folder gone");
	want(c, ldr_vfs_mkdir(c->vfs, "dir/sub", NULL), LDR_OK, "folder anew");
	must_list(c, "dir/sub", "");
	want(c, ldr_vfs_exists(c->vfs, "dir/sub/deep.bin", NULL), LDR_ENOTFOUND, "still gone");
	want(c, ldr_vfs_mkdir(c->vfs, "dir/sub/deep.bin", NULL), LDR_OK,
	     "a folder of a file's name");
	must_list(c, "dir/sub", "deep.bin/");
}

Test(contract, folders)
{
	over_all(true, folders);
}

static void renames(struct contract *c)
{
	want(c, ldr_vfs_rename(c->vfs, "readme.txt", "dir/renamed", NULL), LDR_OK, "rename");
	must_hold(c, "dir/renamed", "hello, world\n", 13);
	want(c, ldr_vfs_exists(c->vfs, "readme.txt", NULL), LDR_ENOTFOUND, "source");
	want(c, ldr_vfs_rename(c->vfs, "readme.txt", "x", NULL), LDR_ENOTFOUND, "again");
	want(c, ldr_vfs_rename(c->vfs, "dir/a", "dir/b", NULL), LDR_OK, "onto another");
	must_hold(c, "dir/b", "a", 1);
	/* V17: the source's whiteout is not lost when the target's name was hidden too. */
	want(c, ldr_vfs_remove(c->vfs, "dir/b", NULL), LDR_OK, "remove");
	want(c, ldr_vfs_rename(c->vfs, "dir/renamed", "dir/b", NULL), LDR_OK, "onto a hidden name");
	must_hold(c, "dir/b", "hello, world\n", 13);
	want(c, ldr_vfs_exists(c->vfs, "dir/a", NULL), LDR_ENOTFOUND, "hidden source");
	want(c, ldr_vfs_rename(c->vfs, "dir/b", "dir", NULL),
	     c->stack->points ? LDR_EDENIED : LDR_EISDIR, "onto a folder");
	want(c, ldr_vfs_rename(c->vfs, "dir/b", "dir/b", NULL), LDR_OK, "onto itself");
	want(c, ldr_vfs_rename(c->vfs, "dir/b", "dir/b/c", NULL), LDR_EINVAL, "below itself");
	want(c, ldr_vfs_rename(c->vfs, "dir/b", "empty/c", NULL), LDR_ENOTDIR, "below a file");
	/* A folder of the target's own. */
	must_write(c, "own/deep/er/file", "1");
	must_write(c, "own/other", "2");
	want(c, ldr_vfs_rename(c->vfs, "own", "moved/here", NULL), LDR_OK, "folder");
	must_hold(c, "moved/here/deep/er/file", "1", 1);
	must_hold(c, "moved/here/other", "2", 1);
	must_list(c, "moved/here", "deep/ other");
	want(c, ldr_vfs_exists(c->vfs, "own", NULL), LDR_ENOTFOUND, "old folder");
	want(c, ldr_vfs_exists(c->vfs, "own/other", NULL), LDR_ENOTFOUND, "old file");
	want(c, ldr_vfs_rename(c->vfs, "moved", "other", NULL), LDR_ENOTEMPTY,
	     "onto a full folder");
	want(c, ldr_vfs_rename(c->vfs, "moved", "empty", NULL), LDR_ENOTDIR, "folder onto a file");
}

Test(contract, rename)
{
	over_all(true, renames);
}

/* V20: saving again and again leaves nothing behind. */
static void save_cycles(struct contract *c)
{
	struct ldr_vfs_metrics before, after;

	want(c, ldr_vfs_replace(c->vfs, "save", "0", 1, LDR_SYNC_NONE, NULL), LDR_OK, "first");
	ldr_vfs_metrics(c->vfs, &before);
	for (int i = 0; i < 200; i++) {
		must_write(c, "save.tmp", "data");
		want(c, ldr_vfs_rename(c->vfs, "save.tmp", "save", NULL), LDR_OK, "rename");
	}
	ldr_vfs_metrics(c->vfs, &after);
	cr_assert_eq(before.whiteouts, after.whiteouts, "%s: whiteouts grew", NAME(c));
	cr_assert_eq(after.handles_open, 0, "%s", NAME(c));
	must_hold(c, "save", "data", 4);
}

Test(contract, save_cycles)
{
	over_all(true, save_cycles);
}

/* V21: a handle keeps what it was opened on; unmounted layers go when the last handle goes. */
static void handles_outlive(struct contract *c)
{
	struct ldr_mount mounts[8];
	size_t count = ldr_vfs_mounts(c->vfs, mounts, 8);
	struct ldr_file *kept = must_open(c, "dir/sub/deep.bin", LDR_OPEN_READ);
	struct ldr_file *stale = must_open(c, "readme.txt", LDR_OPEN_READ);
	unsigned char byte;
	size_t got;

	for (size_t i = 0; i < count; i++)
		want(c, ldr_vfs_unmount(c->vfs, mounts[i].id, false, NULL), LDR_OK, "unmount");
	want(c, ldr_vfs_exists(c->vfs, "readme.txt", NULL), LDR_ENOTFOUND, "unmounted");
	want(c, ldr_vfs_exists(c->vfs, "", NULL), LDR_OK, "the root stays");
	want(c, ldr_file_pread(kept, &byte, 1, 12345, &got, NULL), LDR_OK, "kept");
	cr_assert(got == 1 && byte == contract_byte(12345), "%s", NAME(c));
	want(c, ldr_vfs_unmount(c->vfs, 1, true, NULL), LDR_ENOTFOUND, "unmount twice");
	ldr_file_close(kept);
	ldr_file_close(stale);
}

Test(contract, handles_outlive_mounts)
{
	over_all(false, handles_outlive);
}

static void forced_unmount(struct contract *c)
{
	struct ldr_mount mounts[8];
	size_t count = ldr_vfs_mounts(c->vfs, mounts, 8), got;
	struct ldr_file *file = must_open(c, "readme.txt", LDR_OPEN_READ);
	struct ldr_stat found;
	struct ldr_mapping mapping;
	char byte;

	for (size_t i = 0; i < count; i++)
		want(c, ldr_vfs_unmount(c->vfs, mounts[i].id, true, NULL), LDR_OK, "unmount");
	want(c, ldr_file_pread(file, &byte, 1, 0, &got, NULL), LDR_ESTALE, "pread");
	want(c, ldr_file_pwrite(file, "x", 1, 0, NULL), LDR_ESTALE, "pwrite");
	want(c, ldr_file_truncate(file, 0, NULL), LDR_ESTALE, "truncate");
	want(c, ldr_file_sync(file, NULL), LDR_ESTALE, "sync");
	want(c, ldr_file_stat(file, &found, NULL), LDR_ESTALE, "stat");
	want(c, ldr_file_map(file, 0, 1, LDR_MAP_COPY, &mapping, NULL), LDR_ESTALE, "map");
	ldr_file_close(file);
}

Test(contract, forced_unmount)
{
	over_all(false, forced_unmount);
}
