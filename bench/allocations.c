/*
 * allocations.c   glibc's allocator, counted.
 */
#include "bench/allocations.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTING 0
#endif
#endif
#ifndef COUNTING
#define COUNTING 1
#endif

static atomic_bool counting;
static atomic_uint_fast64_t allocations;

bool bench_allocations_work(void)
{
	return COUNTING;
}

void bench_allocations_start(void)
{
	atomic_store(&allocations, 0);
	atomic_store(&counting, true);
}

uint64_t bench_allocations_stop(void)
{
	atomic_store(&counting, false);
	return atomic_load(&allocations);
}

#if COUNTING

/* The one flag is read by all and written between runs only, so that counting costs the timed runs a
 * load. */
static inline void count_one(void)
{
	if (atomic_load_explicit(&counting, memory_order_relaxed))
		atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *bytes, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *bytes, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **out_bytes, size_t alignment, size_t size);

__attribute__((visibility("default"))) void *malloc(size_t size)
{
	count_one();
	return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
	count_one();
	return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *bytes, size_t size)
{
	count_one();
	return __libc_realloc(bytes, size);
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size)
{
	count_one();
	return __libc_memalign(alignment, size);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size)
{
	count_one();
	return __libc_memalign(alignment, size);
}

__attribute__((visibility("default"))) int posix_memalign(void **out_bytes, size_t alignment,
							  size_t size)
{
	void *bytes;

	count_one();
	if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || !alignment)
		return EINVAL;
	bytes = __libc_memalign(alignment, size);
	if (!bytes)
		return ENOMEM;
	*out_bytes = bytes;
	return 0;
}

#endif
