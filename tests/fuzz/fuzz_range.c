/*
 * Any bytes as Range, If-Range, If-Match and If-None-Match: a range is inside the body, a status is one of
 * five, and 206 alone has a range.
 *
 * Input: 8 bytes, the body's size; then up to four lines, the headers.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ETAG "\"00000000\""

static char *next_line(char **text)
{
	char *line = *text;
	char *end;

	if (!line)
		return NULL;
	end = strchr(line, '\n');
	if (end)
		*end++ = '\0';
	*text = end;
	return line;
}

static void judge(char *text, uint64_t body)
{
	struct ldr_conditions conditions = {.get = true};
	struct ldr_range range;
	unsigned status;

	conditions.range = next_line(&text);
	conditions.if_range = next_line(&text);
	conditions.if_match = next_line(&text);
	conditions.if_none_match = next_line(&text);
	status = ldr_conditions_judge(&conditions, ETAG, body, &range);
	assert(status == 200 || status == 206 || status == 304 || status == 412 || status == 416);
	assert((status == 206) == (range.kind == LDR_RANGE_ONE));
	if (status == 206)
		assert(range.first <= range.last && range.last < body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ldr_range range;
	uint64_t body;
	char *text;

	if (size < sizeof(body))
		return 0;
	memcpy(&body, data, sizeof(body));
	data += sizeof(body);
	size -= sizeof(body);
	text = malloc(size + 1);
	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	range = ldr_range_parse(text, size, body);
	if (range.kind == LDR_RANGE_ONE)
		assert(range.first <= range.last && range.last < body);
	(void)ldr_etag_listed(text, size, ETAG, true);
	judge(text, body);
	free(text);
	return 0;
}
