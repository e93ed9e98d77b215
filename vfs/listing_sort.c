/*
 * Sorting a list of names.
 *
 * Names are sorted by keys of eight bytes: those behind the prefix that all names have, as one
 * big-endian number, zeros where a name is shorter (no name has a NUL, so a name comes before those
 * it begins). The keys are sorted by bytes from the last to the first (a radix sort: each pass is
 * two walks over memory, and a byte in which all keys are equal needs none); the texts themselves
 * are compared only among names whose keys are equal.
 */
#include <endian.h>
#include <stdlib.h>

#include "vfs/listing_priv.h"

#define KEY_BYTES 8u
#define FEW_NAMES 48u /* below, comparing texts is faster than counting bytes */

struct keyed {
	uint64_t key;
	uint32_t index; /* in names */
	uint32_t reserved;
};

static int by_name(const void *left, const void *right, void *context)
{
	const struct ldr_listed *a = left, *b = right;
	const char *text = context;
	int order = ldr_name_compare(text + a->at, a->length, text + b->at, b->length);

	if (order != 0)
		return order;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* How many bytes all names begin with. */
static size_t common_prefix(const struct ldr_list *list)
{
	const char *first = list->text + list->names[0].at;
	size_t common = list->names[0].length;

	for (uint32_t i = 1; i < list->count && common > 0; i++) {
		const char *name = list->text + list->names[i].at;
		size_t same = 0;

		/* The NUL of a shorter name differs from every byte. */
		while (same < common && name[same] == first[same])
			same++;
		common = same;
	}
	return common;
}

static uint64_t key_of(const char *text, size_t length)
{
	uint8_t bytes[KEY_BYTES] = {0};
	uint64_t key;

	memcpy(bytes, text, length < KEY_BYTES ? length : KEY_BYTES);
	memcpy(&key, bytes, KEY_BYTES);
	return be64toh(key);
}

static void count_bytes(const struct keyed *items, uint32_t count, uint32_t counts[KEY_BYTES][256])
{
	memset(counts, 0, KEY_BYTES * sizeof(counts[0]));
	for (uint32_t i = 0; i < count; i++) {
		for (unsigned byte = 0; byte < KEY_BYTES; byte++)
			counts[byte][(items[i].key >> (8 * byte)) & 255]++;
	}
}

/* Sorts from into one of the two, which is returned; equal keys stay in their order. */
static struct keyed *sort_keys(struct keyed *from, struct keyed *to, uint32_t count)
{
	uint32_t counts[KEY_BYTES][256];

	count_bytes(from, count, counts);
	for (unsigned byte = 0; byte < KEY_BYTES; byte++) {
		unsigned shift = 8 * byte;
		struct keyed *sorted = to;
		uint32_t at = 0;

		if (counts[byte][(from[0].key >> shift) & 255] == count)
			continue;
		for (unsigned value = 0; value < 256; value++) {
			uint32_t here = counts[byte][value];

			counts[byte][value] = at;
			at += here;
		}
		for (uint32_t i = 0; i < count; i++)
			to[counts[byte][(from[i].key >> shift) & 255]++] = from[i];
		to = from;
		from = sorted;
	}
	return from;
}

/* Runs of equal keys, by their texts. */
static void sort_ties(struct ldr_listed *names, const struct keyed *sorted, uint32_t count,
		      char *text)
{
	for (uint32_t i = 0; i < count;) {
		uint32_t end = i + 1;

		while (end < count && sorted[end].key == sorted[i].key)
			end++;
		if (end - i > 1)
			qsort_r(names + i, end - i, sizeof(names[0]), by_name, text);
		i = end;
	}
}

static bool sort_by_keys(struct ldr_list *list)
{
	size_t key_bytes = list->count * sizeof(struct keyed);
	size_t name_bytes = list->count * sizeof(list->names[0]);
	size_t wanted = 2 * key_bytes + name_bytes, prefix = common_prefix(list);
	struct keyed *keys, *sorted;
	struct ldr_listed *copy;

	if (wanted > list->scratch_bytes) {
		/* With room to spare, as the names have: folders grow. */
		free(list->scratch);
		list->scratch_bytes = wanted + wanted / 4;
		list->scratch = malloc(list->scratch_bytes);
		if (!list->scratch)
			list->scratch_bytes = 0;
	}
	keys = list->scratch;
	if (!keys)
		return false;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct ldr_listed *name = &list->names[i];

		keys[i] = (struct keyed){.index = i};
		keys[i].key = key_of(list->text + name->at + prefix, name->length - prefix);
	}
	sorted = sort_keys(keys, keys + list->count, list->count);
	copy = (void *)(keys + 2 * (size_t)list->count);
	memcpy(copy, list->names, name_bytes);
	for (uint32_t i = 0; i < list->count; i++)
		list->names[i] = copy[sorted[i].index];
	sort_ties(list->names, sorted, list->count, list->text);
	return true;
}

static void unite(struct ldr_list *list)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct ldr_listed *last = kept ? &list->names[kept - 1] : NULL;

		if (last && last->length == list->names[i].length &&
		    memcmp(list->text + last->at, list->text + list->names[i].at, last->length) ==
			    0)
			continue;
		list->names[kept++] = list->names[i];
	}
	list->count = kept;
}

bool ldr_list_sort(struct ldr_list *list)
{
	if (list->is_sorted || list->count == 0)
		return true;
	if (list->count < FEW_NAMES)
		qsort_r(list->names, list->count, sizeof(list->names[0]), by_name, list->text);
	else if (!sort_by_keys(list))
		return false;
	unite(list);
	list->is_sorted = true;
	return true;
}
