/*
 * A folder of the host with files in it, for the tests of scan and builder: made below the system's
 * temporary folder, gone with folder_end. Every function asserts that it worked.
 */
#ifndef LDR_TESTS_UNIT_PACKS_FOLDER_FIXTURE_H
#define LDR_TESTS_UNIT_PACKS_FOLDER_FIXTURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct folder {
	char path[64];
};

void folder_begin(struct folder *folder);
void folder_end(struct folder *folder);
/* The whole path of something in it; valid for 15 further calls (folder_link makes one a parent). */
const char *folder_path(const struct folder *folder, const char *path);

/* Parents that are missing are made (0755). */
void folder_make(const struct folder *folder, const char *path, mode_t mode);
void folder_file(const struct folder *folder, const char *path, const void *bytes, size_t length);
void folder_text(const struct folder *folder, const char *path, const char *text);
/* Bytes that nothing compresses (seed) or that much compresses (text of words). */
void folder_random(const struct folder *folder, const char *path, uint64_t seed, size_t length);
void folder_words(const struct folder *folder, const char *path, uint64_t seed, size_t length);
void folder_link(const struct folder *folder, const char *path, const char *target);
void folder_mode(const struct folder *folder, const char *path, mode_t mode);
/* Last changed long ago. */
void folder_age(const struct folder *folder, const char *path);
void folder_remove(const struct folder *folder, const char *path);
/* The file's bytes: owns, free(). */
uint8_t *folder_read(const struct folder *folder, const char *path, size_t *out_length);

#endif
