/*
 * Layers: what can be mounted. A layer is an object and a table of functions; those of Larder
 * (layer_native.h, layer_memory.h, layer_tree.h) and a program's own stand behind the same table,
 * which is all that the core knows of them.
 *
 * Two sorts. A *live* layer is asked at every lookup. An *immutable* one (LDR_LAYER_IMMUTABLE)
 * never changes its names or bytes: it lists all its nodes once (walk), the core merges them with
 * those of all other immutable layers into one table, and from then on addresses nodes by number,
 * without looking anything up. Until that table is built, it is asked by path.
 *
 * Answers. LDR_OK; LDR_ENOTFOUND means "not here" and alone lets the lookup go on below (it needs
 * no text: the core writes it); LDR_EGONE means "hidden here": the lookup ends and the caller hears
 * LDR_ENOTFOUND; everything else is a failure and ends the lookup. A path with a file as one of its
 * parents is LDR_ENOTDIR. Other texts of errors name the path and both values; err may be NULL.
 *
 * What the core does for a layer: it checks paths before the layer sees them (common/path.h), hands
 * on no reserved name (".larder" at a layer's root) of a caller, calls writing functions only on
 * mounts flagged for it, closes every file that was opened, and frees the layer after the last
 * close. Its own half-made copies it keeps as ".larder/copy-N" in a write target, and names of
 * ".larder" that a layer lists it drops. What a layer must do: be callable by any thread at once,
 * call nothing of the instance it is mounted in, and write outputs on success only.
 */
#ifndef LDR_VFS_LAYER_H
#define LDR_VFS_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/publisher.h"
#include "common/wait.h"
#include "packs/tree_reader.h" /* enum ldr_kind */

struct ldr_layer;

struct ldr_stat {
	enum ldr_kind kind;  /* never a symlink: layers resolve or refuse theirs */
	uint32_t mode;       /* nine permission bits */
	uint64_t size_bytes; /* files; 0 for folders */
	int64_t modified_ns; /* since 1970; 0 where a layer keeps no times (trees) */
};

/* A path inside the layer: the mount point taken off. "" is the layer's root. */
struct ldr_layer_path {
	const char *text; /* NUL-terminated, checked; borrowed for the call */
	size_t length;
	bool fold_case; /* only when the layer has LDR_LAYER_FOLDS */
};

/* An open file of a layer, in the core's storage: the layer fills state as it likes and allocates
 * only what does not fit. The core sets ops and layer_self before open is called. */
struct ldr_layer_file {
	const struct ldr_file_ops *ops; /* static; set by open (a layer may have several) */
	void *layer_self;
	uint64_t state[8];
};

struct ldr_mapping;

/* Where bytes go to, and where in a file they come from. */
struct ldr_read_range {
	void *bytes;
	size_t length;
	uint64_t offset;
};

/* The functions of open files. Every layer needs pread and stat, a writable one pwrite, append and
 * truncate; close, sync, map and unmap may be NULL. The core has checked overflow and the handle's
 * mode. */
struct ldr_file_ops {
	size_t size; /* sizeof(struct ldr_file_ops) */
	void (*close)(struct ldr_layer_file *file);
	enum ldr_status (*pread)(struct ldr_layer_file *file, void *bytes, size_t length,
				 uint64_t offset, size_t *out_length, struct ldr_error *err);
	enum ldr_status (*pwrite)(struct ldr_layer_file *file, const void *bytes, size_t length,
				  uint64_t offset, struct ldr_error *err);
	/* At the end as it is then; *out_end is the new end (NULL: nobody wants to know). */
	enum ldr_status (*append)(struct ldr_layer_file *file, const void *bytes, size_t length,
				  uint64_t *out_end, struct ldr_error *err);
	enum ldr_status (*truncate)(struct ldr_layer_file *file, uint64_t length,
				    struct ldr_error *err);
	enum ldr_status (*sync)(struct ldr_layer_file *file, struct ldr_error *err);
	enum ldr_status (*stat)(struct ldr_layer_file *file, struct ldr_stat *out,
				struct ldr_error *err);
	/* Zero-copy only: fills bytes and pin, or LDR_EUNSUPPORTED; the core makes copies. The
	 * range lies in the file. */
	enum ldr_status (*map)(struct ldr_layer_file *file, uint64_t offset, size_t length,
			       struct ldr_mapping *out, struct ldr_error *err);
	void (*unmap)(struct ldr_layer_file *file, struct ldr_mapping *mapping);
	/* A descriptor of a file of the host with exactly these bytes, borrowed until close. May be
	 * NULL. */
	int (*descriptor)(struct ldr_layer_file *file);
	/* pread without a thread that waits for the network: LDR_EAGAIN, and the wait hears when to come
	 * again (common/wait.h). NULL: pread waits for no network. */
	enum ldr_status (*pread_or_wait)(struct ldr_layer_file *file,
					 const struct ldr_read_range *range, struct ldr_wait *wait,
					 size_t *out_length, struct ldr_error *err);
};

/* How a file is opened in a layer; the core has resolved the user's flags. */
enum ldr_layer_open {
	LDR_LAYER_READ = 1u,
	LDR_LAYER_WRITE = 2u,
	LDR_LAYER_CREATE = 4u, /* make it when missing; its parent is there */
	LDR_LAYER_NEW = 8u,    /* with CREATE: LDR_EEXISTS when it is there */
	LDR_LAYER_TRUNCATE = 16u,
	LDR_LAYER_APPEND = 32u, /* writes come through append */
};

enum ldr_layer_trait {
	LDR_LAYER_IMMUTABLE = 1u,
	LDR_LAYER_WRITABLE = 2u,
	LDR_LAYER_FOLDS = 4u,
};

/* Called by list and walk for each name or node; another status than LDR_OK stops and is returned.
 * */
typedef enum ldr_status (*ldr_emit_name)(void *context, const char *name, size_t name_bytes,
					 enum ldr_kind kind, struct ldr_error *err);
typedef enum ldr_status (*ldr_emit_node)(void *context, const char *path, size_t path_bytes,
					 enum ldr_kind kind, uint64_t node, struct ldr_error *err);

struct ldr_layer_ops {
	size_t size;      /* sizeof(struct ldr_layer_ops) */
	const char *kind; /* static; what ldr_vfs_which says */
	void (*free)(void *self);

	/* ---- by path; all layers ---- */
	enum ldr_status (*stat)(void *self, const struct ldr_layer_path *path, struct ldr_stat *out,
				struct ldr_error *err);
	/* As stat without the attributes; NULL: stat is used. */
	enum ldr_status (*exists)(void *self, const struct ldr_layer_path *path,
				  struct ldr_error *err);
	enum ldr_status (*open)(void *self, const struct ldr_layer_path *path, unsigned how,
				struct ldr_layer_file *file, struct ldr_error *err);
	/* The names in a folder, in any order (sorted is cheaper for the core), none twice. */
	enum ldr_status (*list)(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				void *context, struct ldr_error *err);

	/* ---- by node; immutable layers ---- */
	/* Every node but the root, parents before children. Symlinks are given as what they lead
	 * to, or not at all. */
	enum ldr_status (*walk)(void *self, ldr_emit_node emit, void *context,
				struct ldr_error *err);
	enum ldr_status (*stat_node)(void *self, uint64_t node, struct ldr_stat *out,
				     struct ldr_error *err);
	enum ldr_status (*open_node)(void *self, uint64_t node, struct ldr_layer_file *file,
				     struct ldr_error *err);

	/* ---- changes; writable layers ---- */
	enum ldr_status (*mkdir)(void *self, const struct ldr_layer_path *path,
				 struct ldr_error *err);
	/* A file, or an empty folder (LDR_ENOTEMPTY). */
	enum ldr_status (*remove)(void *self, const struct ldr_layer_path *path,
				  struct ldr_error *err);
	/* Atomic; replaces a file at `to`, or an empty folder by a folder. */
	enum ldr_status (*rename)(void *self, const struct ldr_layer_path *from,
				  const struct ldr_layer_path *to, struct ldr_error *err);
	enum ldr_status (*replace)(void *self, const struct ldr_layer_path *path, const void *bytes,
				   size_t length, enum ldr_sync sync, struct ldr_error *err);
	/* A place of the layer's own for the core's whiteouts, outside its names: the whole log
	 * (the caller frees *out_log; LDR_ENOTFOUND: none yet), records added at its end, and a new
	 * log in place of the old one, atomically. All three or none; without them whiteouts live
	 * as long as the layer. */
	enum ldr_status (*side_read)(void *self, uint8_t **out_log, size_t *out_length,
				     struct ldr_error *err);
	enum ldr_status (*side_append)(void *self, const void *records, size_t length,
				       struct ldr_error *err);
	enum ldr_status (*side_replace)(void *self, const void *log, size_t length,
					struct ldr_error *err);

	/* The place is this layer's alone to write to, from the first mount as a write target to the
	 * last, or until the process dies: LDR_ECONFLICT when another layer or process has it. Both
	 * or none; without them nobody else may write to the place meanwhile. */
	enum ldr_status (*side_lock)(void *self, struct ldr_error *err);
	void (*side_unlock)(void *self);

	/* A count that is 0 while the layer has no name at all but its root; it stays where it is
	 * while the layer lives. Where the function is given, an empty layer costs a lookup one
	 * load. May be NULL. */
	const _Atomic uint64_t *(*name_count)(void *self);
	/* With name_count, both or none: from now on, whenever that has risen from 0, the layer
	 * adds 1 to *wakes before the call that made the name returns. So however many empty layers
	 * cost a lookup one load together. It refuses (false) when somebody watches already. After
	 * unwatch *wakes is not touched any more. */
	bool (*watch_names)(void *self, _Atomic uint64_t *wakes);
	void (*unwatch_names)(void *self);

	/* A number that is another one for other bytes, and the same for the same bytes in any layer
	 * of this kind, without reading them; never 0. Of a file that is there. May be NULL. */
	enum ldr_status (*identity)(void *self, const struct ldr_layer_path *path, uint64_t *out);

	/* ---- watching; may be NULL ---- */
	/* Returns when what others changed before the call is known to the layer. */
	enum ldr_status (*settle)(void *self, struct ldr_error *err);
	void (*watch_counts)(void *self, uint64_t *out_events, uint64_t *out_fallbacks);
};

/* A layer of one's own. ops is static and stays; self goes to ops->free with the last reference.
 * LDR_EINVAL: a table that lacks what its traits need, or whose size is not known. Owns:
 * ldr_layer_unref. */
LDR_API enum ldr_status ldr_layer_new(const struct ldr_layer_ops *ops, void *self, unsigned traits,
				      struct ldr_layer **out_layer, struct ldr_error *err);
LDR_API struct ldr_layer *ldr_layer_ref(struct ldr_layer *layer);
LDR_API void ldr_layer_unref(struct ldr_layer *layer); /* NULL is allowed */
void ldr_layer_cleanup(struct ldr_layer **layer);
#define LDR_AUTO_LAYER __attribute__((cleanup(ldr_layer_cleanup)))

LDR_API const char *ldr_layer_kind(const struct ldr_layer *layer);
LDR_API unsigned ldr_layer_traits(const struct ldr_layer *layer);
/* The object behind a layer of this kind's table, NULL when the table is another's: how a layer's
 * own functions find it. */
LDR_API void *ldr_layer_self(const struct ldr_layer *layer, const struct ldr_layer_ops *ops);

#endif
