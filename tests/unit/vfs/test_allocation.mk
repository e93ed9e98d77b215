# The tests that fail the n-th allocation stand between Larder and the allocator.
LIBS_tests/unit/vfs/test_allocation := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup,--wrap=strndup
