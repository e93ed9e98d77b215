/*
 * The pool of handles; see handles.h.
 */
#include "vfs/handles.h"

#include <assert.h>
#include <stdlib.h>

#define SLAB_HANDLES 32u

struct ldr_handle_slab {
	struct ldr_handle_slab *next;
	struct ldr_file files[SLAB_HANDLES];
};

void ldr_handles_init(struct ldr_handles *handles, uint32_t max)
{
	memset(handles, 0, sizeof(*handles));
	handles->max = max;
	for (unsigned i = 0; i < LDR_STRIPES; i++)
		atomic_flag_clear(&handles->stripes[i].busy);
}

void ldr_handles_dispose(struct ldr_handles *handles)
{
	for (unsigned i = 0; i < LDR_STRIPES; i++) {
		struct ldr_handle_slab *slab = handles->stripes[i].slabs;

		assert(atomic_load(&handles->stripes[i].open) == 0);
		while (slab) {
			struct ldr_handle_slab *next = slab->next;

			free(slab);
			slab = next;
		}
	}
}

/* A slab for this stripe; one more handle is promised to the caller than the limit has when it is
 * out by less than a slab. */
static enum ldr_status grow(struct ldr_handles *handles, unsigned stripe, struct ldr_error *err)
{
	struct ldr_handle_slab *slab;
	uint32_t made = atomic_fetch_add(&handles->made, SLAB_HANDLES);
	uint32_t count = SLAB_HANDLES;

	if (made >= handles->max) {
		atomic_fetch_sub(&handles->made, SLAB_HANDLES);
		return ldr_fail(err, LDR_ELIMIT,
				"handles: %u open or kept for other threads, limit %u", made,
				handles->max);
	}
	if (count > handles->max - made)
		count = handles->max - made;
	slab = calloc(1, sizeof(*slab));
	if (!slab) {
		atomic_fetch_sub(&handles->made, SLAB_HANDLES);
		return ldr_fail(err, LDR_ENOMEM, "handles: out of memory");
	}
	for (uint32_t i = 0; i < count; i++) {
		slab->files[i].stripe = stripe;
		slab->files[i].next = i + 1 < count ? &slab->files[i + 1] : NULL;
	}
	ldr_spin_lock(&handles->stripes[stripe].busy);
	slab->next = handles->stripes[stripe].slabs;
	handles->stripes[stripe].slabs = slab;
	slab->files[count - 1].next = handles->stripes[stripe].free;
	handles->stripes[stripe].free = slab->files;
	ldr_spin_unlock(&handles->stripes[stripe].busy);
	return LDR_OK;
}

static struct ldr_file *pop(struct ldr_handles *handles, unsigned stripe)
{
	struct ldr_file *file;

	ldr_spin_lock(&handles->stripes[stripe].busy);
	file = handles->stripes[stripe].free;
	if (file) {
		handles->stripes[stripe].free = file->next;
		atomic_store_explicit(
			&handles->stripes[stripe].open,
			atomic_load_explicit(&handles->stripes[stripe].open, memory_order_relaxed) +
				1,
			memory_order_relaxed);
	}
	ldr_spin_unlock(&handles->stripes[stripe].busy);
	return file;
}

/* When no more may be made, one of another stripe will do. */
static struct ldr_file *pop_anywhere(struct ldr_handles *handles)
{
	struct ldr_file *file = NULL;

	for (unsigned i = 0; i < LDR_STRIPES && !file; i++)
		file = pop(handles, i);
	return file;
}

enum ldr_status ldr_handles_take(struct ldr_handles *handles, struct ldr_file **out_file,
				 struct ldr_error *err)
{
	unsigned stripe = ldr_thread_stripe();
	struct ldr_file *file = pop(handles, stripe);

	while (!file) {
		struct ldr_error why;
		enum ldr_status status = grow(handles, stripe, &why);

		file = status == LDR_ELIMIT ? pop_anywhere(handles) : pop(handles, stripe);
		if (!file && status != LDR_OK)
			return ldr_fail(err, status, "%s", why.text);
	}
	atomic_store_explicit(&file->references, 1, memory_order_relaxed);
	*out_file = file;
	return LDR_OK;
}

void ldr_handles_give(struct ldr_handles *handles, struct ldr_file *file)
{
	unsigned stripe = file->stripe;

	ldr_spin_lock(&handles->stripes[stripe].busy);
	file->next = handles->stripes[stripe].free;
	handles->stripes[stripe].free = file;
	atomic_store_explicit(
		&handles->stripes[stripe].open,
		atomic_load_explicit(&handles->stripes[stripe].open, memory_order_relaxed) - 1,
		memory_order_relaxed);
	ldr_spin_unlock(&handles->stripes[stripe].busy);
}

uint64_t ldr_handles_open(struct ldr_handles *handles)
{
	uint64_t open = 0;

	for (unsigned i = 0; i < LDR_STRIPES; i++)
		open += atomic_load_explicit(&handles->stripes[i].open, memory_order_relaxed);
	return open;
}
