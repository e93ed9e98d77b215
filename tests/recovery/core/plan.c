/* Reading a campaign; see plan.h. */
#include "tests/recovery/core/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/recovery/core/disk.h"

struct word {
	const char *text;
	unsigned bit;
};

static const struct word model_words[] = {{"prefix", CRASH_PREFIX},     {"subset", CRASH_SUBSET},
					  {"tornlast", CRASH_TORNLAST}, {"torn", CRASH_TORN},
					  {"lying", CRASH_LYING},       {NULL, 0}};
static const struct word inject_words[] = {{"none", CRASH_INJECT_NONE},
					   {"all", CRASH_INJECT_ALL},
					   {"each", CRASH_INJECT_EACH},
					   {NULL, 0}};
static const struct word kind_words[] = {
	{"commit", CRASH_KIND_COMMIT}, {"w", CRASH_KIND_WRITEBACK}, {NULL, 0}};
static const struct word expect_words[] = {{"violations", 1}, {NULL, 0}};

static bool number_of(const char *text, unsigned *out)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > 10000000)
		return false;
	*out = (unsigned)value;
	return true;
}

/* One word of a list, of the given length. */
static bool bit_of(const struct word *words, const char *text, size_t length, unsigned *out)
{
	for (; words->text; words++) {
		if (strlen(words->text) == length && memcmp(words->text, text, length) == 0) {
			*out |= words->bit;
			return true;
		}
	}
	return false;
}

static bool bits_of(const struct word *words, const char *text, unsigned *out)
{
	*out = 0;
	for (;;) {
		size_t length = strcspn(text, ",");

		if (!bit_of(words, text, length, out))
			return false;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

bool crash_plan_legs(const char *text, unsigned *out_legs)
{
	*out_legs = 0;
	for (;;) {
		size_t length = strcspn(text, ",");
		const struct crash_leg *leg = crash_leg_find(text, length);

		if (!leg)
			return false;
		*out_legs |= 1u << (leg - crash_legs);
		if (!text[length])
			return true;
		text += length + 1;
	}
}

bool crash_plan_models(const char *text, unsigned *out_models)
{
	return bits_of(model_words, text, out_models);
}

/* inject=none,all,random:6 : the number behind "random:" is cut off first. */
static bool take_inject(struct crash_item *item, char *text)
{
	char *random = strstr(text, "random:");

	if (random && random != text && random[-1] != ',')
		return false;
	if (random && !number_of(random + 7, &item->random))
		return false;
	if (random == text) {
		item->inject = 0;
		return true;
	}
	if (random)
		random[-1] = 0;
	return bits_of(inject_words, text, &item->inject);
}

static bool take_number(struct crash_item *item, const char *key, const char *value)
{
	const struct {
		const char *key;
		unsigned *place;
	} numbers[] = {
		{"grain", &item->grain},     {"torn", &item->torn},       {"lying", &item->lying},
		{"exhaust", &item->exhaust}, {"subsets", &item->subsets}, {"faults", &item->faults},
		{"sample", &item->sample},   {"max", &item->max},         {"fsck", &item->fsck},
		{"agree", &item->agree},     {"cuts", &item->cuts}};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(key, numbers[i].key) == 0)
			return number_of(value, numbers[i].place);
	}
	return false;
}

static bool take_key(struct crash_item *item, char *word)
{
	char *value = strchr(word, '=');
	unsigned expected;

	if (!value)
		return false;
	*value++ = 0;
	if (strcmp(word, "legs") == 0)
		return crash_plan_legs(value, &item->legs);
	if (strcmp(word, "inject") == 0)
		return take_inject(item, value);
	if (strcmp(word, "kinds") == 0)
		return bits_of(kind_words, value, &item->kinds);
	if (strcmp(word, "models") == 0)
		return bits_of(model_words, value, &item->models);
	if (strcmp(word, "expect") == 0) {
		item->expect_violations = true;
		return bits_of(expect_words, value, &expected);
	}
	return take_number(item, word, value);
}

static void defaults(struct crash_item *item)
{
	*item = (struct crash_item){.legs = (1u << crash_leg_count) - 1,
				    .inject = CRASH_INJECT_NONE,
				    .kinds = CRASH_KIND_COMMIT,
				    .models = CRASH_PREFIX | CRASH_SUBSET,
				    .grain = 4096,
				    .torn = 8,
				    .lying = 60,
				    .exhaust = 8,
				    .subsets = 64,
				    .max = 20000};
}

static bool take_pending(struct crash_item *item, char *rest)
{
	char *colon = strchr(rest, ':');

	if (!colon || colon == rest || (size_t)(colon - rest) >= sizeof(item->name))
		return false;
	snprintf(item->name, sizeof(item->name), "%.*s", (int)(colon - rest), rest);
	item->reason = colon + 1 + strspn(colon + 1, " ");
	item->pending = true;
	return true;
}

/* One line; *out_bad is the word that is wrong. */
static bool take_line(struct crash_item *item, char *line, const char **out_bad)
{
	bool command = false;
	char *word;

	defaults(item);
	*out_bad = line;
	if (strncmp(line, "pending ", 8) == 0)
		return take_pending(item, line + 8);
	word = strsep(&line, " \t");
	snprintf(item->name, sizeof(item->name), "%s", word);
	while ((word = strsep(&line, " \t"))) {
		*out_bad = word;
		if (!*word)
			continue;
		if (!command && strcmp(word, "--") == 0)
			command = true;
		else if (!command && !take_key(item, word))
			return false;
		else if (command && item->word_count == CRASH_WORDS_MAX)
			return false;
		else if (command)
			item->words[item->word_count++] = word;
	}
	*out_bad = "(no command)";
	return item->word_count > 0;
}

static bool sensible(const struct crash_item *item)
{
	return item->pending || (item->grain >= 512 && item->grain % 512 == 0 &&
				 item->grain <= 4096 && item->exhaust <= 16 && item->max > 0);
}

enum ldr_status crash_plan_parse(char *text, struct crash_plan *out_plan, struct ldr_error *err)
{
	struct crash_plan plan = {.text = text,
				  .items = calloc(CRASH_ITEMS_MAX, sizeof(*plan.items))};
	unsigned number = 0;
	char *line, *rest = text;
	const char *bad;

	if (!plan.items) {
		crash_plan_dispose(&plan);
		return ldr_fail(err, LDR_ENOMEM, "no memory for a campaign");
	}
	while ((line = strsep(&rest, "\n"))) {
		number++;
		if (!*line || *line == '#')
			continue;
		if (plan.count == CRASH_ITEMS_MAX ||
		    !take_line(&plan.items[plan.count], line, &bad) ||
		    !sensible(&plan.items[plan.count])) {
			ldr_fail(err, LDR_EINVAL, "campaign line %u: \"%s\" is not understood",
				 number, plan.count == CRASH_ITEMS_MAX ? "(too many)" : bad);
			crash_plan_dispose(&plan);
			return LDR_EINVAL;
		}
		plan.count++;
	}
	*out_plan = plan;
	return LDR_OK;
}

void crash_plan_dispose(struct crash_plan *plan)
{
	free(plan->items);
	free(plan->text);
	memset(plan, 0, sizeof(*plan));
}
