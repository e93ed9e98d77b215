/*
 * Arguments of the commands. One table holds every long option; a command names those that it takes, so
 * that an option means the same everywhere and its help is written once.
 */
#ifndef LDR_CLIENT_CLI_ARGS_H
#define LDR_CLIENT_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/location.h"
#include "client/transport.h"
#include "client/view.h"
#include "common/keys.h"
#include "packs/builder.h"
#include "packs/pack.h"

/* name, takes a value (its word in the help, or NULL), help */
#define LDR_OPTION_TABLE(X)                                                                        \
	X(JSON, "json", NULL, "print one JSON object and nothing else")                            \
	X(QUIET, "quiet", NULL, "no progress")                                                     \
	X(TRUST, "trust", "KEY.pub", "public key that may sign (more than once)")                  \
	X(CACHE, "cache", "DIR", "cache folder")                                                   \
	X(HOST, "host", "URL", "another host of the same store (more than once)")                  \
	X(OFFLINE, "offline", NULL, "ask no host: use what is held")                               \
	X(TOKEN_FILE, "token-file", "FILE", "bearer token for the server")                         \
	X(LIMIT_RATE, "limit-rate", "BYTES", "receive at most so many bytes a second (K, M, G)")   \
	X(CA, "ca", "FILE", "certificates to trust for https (PEM)")                               \
	X(CODEC, "codec", "none|lz4|zstd|auto", "how blocks are stored")                           \
	X(LEVEL, "level", "N", "compression level")                                                \
	X(BLOCK_SIZE, "block-size", "KIB", "usual size of a block: 4 to 128, a power of two")      \
	X(COMPRESS, "compress", "GLOB", "compress only files that match (more than once)")         \
	X(OBFUSCATE, "obfuscate", "xor",                                                           \
	  "make blocks look unlike what they are; protects nothing")                               \
	X(ENCRYPT_KEY, "encrypt-key", "FILE", "encrypt blocks with the title key in FILE")         \
	X(KEY_FILE, "key-file", "FILE", "title key of an encrypted pack: 64 hexadecimal digits")   \
	X(ALIGN, "align", "N", "align blocks that are stored raw, for mapping")                    \
	X(LAYOUT, "layout", "LIST", "file of paths, one a line, whose bytes come first")           \
	X(LINKS, "links", "drop|copy", "symlinks that lead out of the folder: leave out, or copy") \
	X(TO, "to", "STORE", "where to publish")                                                   \
	X(CHANNEL, "channel", "NAME", "channel to publish, or that a token allows")                \
	X(KEY, "key", "KEY", "signing key")                                                        \
	X(NOTE, "note", "TEXT", "kept with the release or token")                                  \
	X(LIKE, "like", "CHANNEL", "reuse the blocks of another channel too")                      \
	X(EXPIRES, "expires", "AGE", "followers refuse it after 90s, 10m, 12h or 30d")             \
	X(DRY_RUN, "dry-run", NULL, "store nothing, say what would be")                            \
	X(REBASE, "rebase", NULL, "if somebody else published first, do it again upon theirs")     \
	X(JOBS, "jobs", "N", "threads (default: processors)")                                      \
	X(NO_SYNC, "no-sync", NULL, "do not wait for the disk: a power cut may undo the work")     \
	X(OVER, "over", "DIR", "a folder stacked above SRC (more than once: the last is topmost)") \
	X(UNDER, "under", "FILE.pack",                                                             \
	  "an archive stacked below SRC (more than once: the last is lowest)")                     \
	X(RECURSIVE, "recursive", NULL, "folders inside folders too")                              \
	X(DEEP, "deep", NULL, "read and digest every block")                                       \
	X(TOKENS, "tokens", "FILE", "the server's token file")                                     \
	X(SCOPE, "scope", "read|publish", "what a token allows")                                   \
	X(HELP, "help", NULL, "this text")                                                         \
	X(VERSION, "version", NULL, "the version")

enum ldr_option {
#define LDR_OPTION_ENUM(id, name, value, help) LDR_OPT_##id,
	LDR_OPTION_TABLE(LDR_OPTION_ENUM)
#undef LDR_OPTION_ENUM
		LDR_OPT_COUNT
};

#define LDR_OPTION_BIT(id) (UINT64_C(1) << LDR_OPT_##id)
#define LDR_OPTIONS_ALWAYS                                                     \
	(LDR_OPTION_BIT(JSON) | LDR_OPTION_BIT(QUIET) | LDR_OPTION_BIT(HELP) | \
	 LDR_OPTION_BIT(VERSION))
/* What every command with a SRC or STORE takes. */
#define LDR_OPTIONS_NETWORK                                                                  \
	(LDR_OPTION_BIT(TRUST) | LDR_OPTION_BIT(CACHE) | LDR_OPTION_BIT(HOST) |              \
	 LDR_OPTION_BIT(OFFLINE) | LDR_OPTION_BIT(TOKEN_FILE) | LDR_OPTION_BIT(LIMIT_RATE) | \
	 LDR_OPTION_BIT(CA) | LDR_OPTION_BIT(KEY_FILE))

#define LDR_OPTIONS_LAYERS (LDR_OPTION_BIT(OVER) | LDR_OPTION_BIT(UNDER))

#define LDR_ARGS_LIST_MAX 64

/* Filled by ldr_args_parse; owns what it loads. Strings are borrowed from argv. */
struct ldr_args {
	uint64_t given; /* bits of options that were given */
	const char *value[LDR_OPT_COUNT];
	const char *hosts[LDR_ARGS_LIST_MAX];
	size_t host_count;
	const char *globs[LDR_ARGS_LIST_MAX];
	size_t glob_count;
	const char *over[LDR_ARGS_LIST_MAX];
	size_t over_count;
	const char *under[LDR_ARGS_LIST_MAX];
	size_t under_count;
	struct ldr_public_key *keys[LDR_ARGS_LIST_MAX]; /* owns */
	size_t key_count;
	char *token;      /* owns */
	char *cache_path; /* owns; NULL: no cache folder can be had */
	char **layout;    /* owns */
	size_t layout_count;
	char **positional; /* borrowed from argv */
	int positional_count;
	uint64_t limit_rate_bytes;
	int64_t lifetime_s;
	unsigned jobs;
	struct ldr_codec_choice codec;
	struct ldr_chunk_sizes chunks;
	uint32_t align;
	enum ldr_link_policy links;
	bool has_title_key;
	uint8_t title_key[LDR_TITLE_KEY_BYTES]; /* wiped by dispose */
};

struct ldr_command {
	const char *name;
	const char *arguments; /* for the usage line */
	const char *help;
	uint64_t options; /* bits, besides LDR_OPTIONS_ALWAYS */
	int least, most;  /* positional arguments */
	enum ldr_status (*run)(struct ldr_args *args, struct ldr_error *err);
};

/* argv[0] is the command's name. LDR_EUSAGE with what is wrong. */
enum ldr_status ldr_args_parse(const struct ldr_command *command, int argc, char **argv,
			       struct ldr_args *out, struct ldr_error *err);
void ldr_args_dispose(struct ldr_args *args);

static inline bool ldr_args_has(const struct ldr_args *args, enum ldr_option option)
{
	return args->given >> option & 1;
}

void ldr_args_help(const struct ldr_command *command);

/* A file that the user named, whole, at most max_bytes. Owns: free(). */
enum ldr_status ldr_args_read_file(const char *path, size_t max_bytes, uint8_t **out_data,
				   size_t *out_length, struct ldr_error *err);
/* What a view needs of the arguments. */
struct ldr_view_options ldr_args_view_options(const struct ldr_args *args);
/* Opens the SRC that the positional argument `index` names. */
enum ldr_status ldr_args_open_view(const struct ldr_args *args, int index,
				   struct ldr_view **out_view, struct ldr_error *err);

#endif
