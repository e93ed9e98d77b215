/*
 * The one path rule; see path.h.
 *
 * Checking is one pass over a table of byte classes; only a name with bytes above 0x7f takes the long
 * way through a strict UTF-8 decoder and libutf8proc's normalisation, on the stack.
 */
#include "common/path.h"

#include <string.h>
#include <utf8proc.h>

/* Canonical decomposition gives at most 3 code points per byte of UTF-8 input (U+0390, two bytes, gives
 * 3; U+1F82, three bytes, gives 4), so this holds any legal name; one more is for libutf8proc's NUL. */
#define DECOMPOSED_MAX (3 * LDR_NAME_MAX_BYTES + 1)

enum byte_class { PLAIN, SLASH, HIGH, CONTROL, FORBIDDEN };

static const unsigned char byte_classes[256] = {
	[0x00 ... 0x1f] = CONTROL, ['/'] = SLASH,    ['\\'] = FORBIDDEN,
	[':'] = FORBIDDEN,         [0x7f] = CONTROL, [0x80 ... 0xff] = HIGH,
};

const char *ldr_path_quote(const char *text, size_t length, char out[LDR_QUOTE_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	enum { SHOWN_MAX = 80 };
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)text[i];
		bool escaped = byte < 0x20 || byte >= 0x7f;

		if (used + (escaped ? 4 : 1) > SHOWN_MAX) {
			memcpy(out + used, "...", 3);
			used += 3;
			break;
		}
		if (!escaped) {
			out[used++] = (char)byte;
			continue;
		}
		out[used++] = '\\';
		out[used++] = 'x';
		out[used++] = digits[byte >> 4];
		out[used++] = digits[byte & 15];
	}
	out[used] = '\0';
	return out;
}

/* ---- what a legal name must not be: each gives NULL or the reason ---- */

/* Strict UTF-8 by RFC 3629; false for overlong forms, surrogates and values above U+10FFFF. */
static bool decode(const unsigned char *bytes, size_t left, uint32_t *out_value, size_t *out_used)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t used = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
	uint32_t value = used == 1 ? bytes[0] : bytes[0] & (0x7fu >> used);

	if ((bytes[0] >= 0x80 && bytes[0] < 0xc2) || bytes[0] > 0xf4 || used > left)
		return false;
	for (size_t i = 1; i < used; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return false;
		value = value << 6 | (bytes[i] & 0x3f);
	}
	if (value < smallest[used] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return false;
	*out_value = value;
	*out_used = used;
	return true;
}

static const char *utf8_fault(const char *name, size_t length)
{
	const unsigned char *bytes = (const unsigned char *)name;

	while (length > 0) {
		uint32_t value;
		size_t used;

		if (!decode(bytes, length, &value, &used))
			return "not UTF-8";
		if (value >= 0x80 && value < 0xa0)
			return "control character";
		bytes += used;
		length -= used;
	}
	return NULL;
}

/* Normalises a name (at most LDR_NAME_MAX_BYTES) into composed; gives its length, 0 on failure. */
static size_t normalise(const char *name, size_t length, utf8proc_option_t more,
			utf8proc_int32_t composed[DECOMPOSED_MAX])
{
	utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE | more;
	utf8proc_ssize_t count = utf8proc_decompose((const utf8proc_uint8_t *)name,
						    (utf8proc_ssize_t)length, composed,
						    DECOMPOSED_MAX - 1, options);

	if (count < 0 || count > DECOMPOSED_MAX - 1)
		return 0;
	count = utf8proc_reencode(composed, count, options);
	return count < 0 ? 0 : (size_t)count;
}

/* The long way, for names with bytes above 0x7f. */
static const char *unicode_fault(const char *name, size_t length)
{
	utf8proc_int32_t composed[DECOMPOSED_MAX];
	const char *fault = utf8_fault(name, length);

	if (fault)
		return fault;
	if (normalise(name, length, 0, composed) != length || memcmp(composed, name, length) != 0)
		return "not in Unicode's form NFC";
	return NULL;
}

/* A name whose bytes are known to be PLAIN or HIGH. */
static const char *shape_fault(const char *name, size_t length, bool high)
{
	if (length == 0)
		return "empty component";
	if (length > LDR_NAME_MAX_BYTES)
		return "component too long";
	if (name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.')))
		return length == 1 ? "component \".\"" : "component \"..\"";
	return high ? unicode_fault(name, length) : NULL;
}

/* Checks up to the next '/' or the end and gives the component's length. */
static const char *component_fault(const char *name, size_t left, size_t *out_length)
{
	unsigned char seen_high = 0;
	size_t i;

	for (i = 0; i < left; i++) {
		unsigned char class = byte_classes[(unsigned char)name[i]];

		if (class == PLAIN)
			continue;
		if (class == SLASH)
			break;
		if (class != HIGH)
			return class == CONTROL ? "control character" : "backslash or colon";
		seen_high = 1;
	}
	*out_length = i;
	return shape_fault(name, i, seen_high);
}

static const char *path_fault(const char *path, size_t length)
{
	if (length == 0)
		return "empty";
	if (path[0] == '/')
		return "absolute";
	if (length > LDR_PATH_MAX_BYTES)
		return "too long";
	for (;;) {
		size_t used;
		const char *fault = component_fault(path, length, &used);

		if (fault || used == length)
			return fault;
		path += used + 1;
		length -= used + 1;
	}
}

static const char *name_fault(const char *name, size_t length)
{
	size_t used;
	const char *fault = component_fault(name, length, &used);

	return fault ? fault : used == length ? NULL : "slash in a name";
}

/* ---- names that are not safe on other systems ---- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool equals_folded(const char *name, const char *folded, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (lower(name[i]) != folded[i])
			return false;
	return true;
}

/* COM1 to COM9, and the same with superscript 1, 2, 3 (U+00B9, U+00B2, U+00B3). */
static bool is_port(const char *name, size_t length)
{
	if (length < 4 || (!equals_folded(name, "com", 3) && !equals_folded(name, "lpt", 3)))
		return false;
	if (length == 4)
		return name[3] >= '1' && name[3] <= '9';
	return length == 5 && (unsigned char)name[3] == 0xc2 &&
	       ((unsigned char)name[4] == 0xb9 || (unsigned char)name[4] == 0xb2 ||
		(unsigned char)name[4] == 0xb3);
}

/* What is before the first dot counts, without spaces at its end: "nul .txt" is the device too. */
static bool is_device(const char *name, size_t length)
{
	static const char devices[][8] = {"con", "prn", "aux", "nul", "conin$", "conout$"};
	const char *dot = memchr(name, '.', length);

	if (dot)
		length = (size_t)(dot - name);
	while (length > 0 && name[length - 1] == ' ')
		length--;
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		if (strlen(devices[i]) == length && equals_folded(name, devices[i], length))
			return true;
	return is_port(name, length);
}

static const char *portable_fault(const char *name, size_t length)
{
	char last = name[length - 1];

	if (last == '.' || last == ' ')
		return last == '.' ? "dot at its end" : "space at its end";
	for (size_t i = 0; i < length; i++)
		if (memchr("<>\"|?*", name[i], 6))
			return "one of <>\"|?*";
	return is_device(name, length) ? "device name" : NULL;
}

/* ---- the rule itself ---- */

static enum ldr_status raise(struct ldr_error *err, enum ldr_status status, const char *what,
			     const char *text, size_t length, const char *fault)
{
	char quoted[LDR_QUOTE_BYTES];

	return ldr_fail(err, status, "%s \"%s\": %s (%zu bytes)", what,
			ldr_path_quote(text, length, quoted), fault, length);
}

/* A path of plain ASCII components: the usual one. False sends it the long way, right or wrong. */
static bool is_simple(const char *path, size_t *out_length)
{
	size_t start = 0;

	for (size_t i = 0; i <= LDR_PATH_MAX_BYTES; i++) {
		unsigned char byte = (unsigned char)path[i];

		if (byte_classes[byte] == PLAIN)
			continue;
		if (byte != '/' && byte != '\0')
			return false;
		if (i == start || i - start > LDR_NAME_MAX_BYTES || path[start] == '.')
			return false;
		if (byte == '\0') {
			*out_length = i;
			return true;
		}
		start = i + 1;
	}
	return false;
}

enum ldr_status ldr_path_measure(const char *path, size_t *out_length, struct ldr_error *err)
{
	enum ldr_status status;
	size_t length;

	if (is_simple(path, out_length))
		return LDR_OK;
	length = strnlen(path, LDR_PATH_MAX_BYTES + 1);
	status = length > 0 ? ldr_path_check(path, length, err) : LDR_OK;
	if (status == LDR_OK)
		*out_length = length;
	return status;
}

enum ldr_status ldr_path_check(const char *path, size_t length, struct ldr_error *err)
{
	const char *fault = path_fault(path, length);

	return fault ? raise(err, LDR_EINVAL, "path", path, length, fault) : LDR_OK;
}

enum ldr_status ldr_name_check(const char *name, size_t length, struct ldr_error *err)
{
	const char *fault = name_fault(name, length);

	return fault ? raise(err, LDR_EINVAL, "name", name, length, fault) : LDR_OK;
}

enum ldr_status ldr_name_check_portable(const char *name, size_t length, struct ldr_error *err)
{
	const char *fault = name_fault(name, length);

	if (!fault)
		fault = portable_fault(name, length);
	return fault ? raise(err, LDR_EINVAL, "name", name, length, fault) : LDR_OK;
}

static const char *target_fault(const char *target, size_t length, unsigned depth)
{
	unsigned ups = 0;

	if (length > LDR_PATH_MAX_BYTES)
		return "too long";
	while (length >= 2 && target[0] == '.' && target[1] == '.' &&
	       (length == 2 || target[2] == '/')) {
		if (++ups > depth)
			return "leads out of the tree";
		if (length == 2)
			return NULL;
		target += 3;
		length -= 3;
	}
	return path_fault(target, length);
}

enum ldr_status ldr_path_check_target(const char *target, size_t length, unsigned depth,
				      struct ldr_error *err)
{
	const char *fault = target_fault(target, length, depth);

	return fault ? raise(err, LDR_ELINK, "link target", target, length, fault) : LDR_OK;
}

/* ---- folding and order ---- */

static bool fold_unicode(const char *name, size_t length, char *folded, size_t capacity,
			 size_t *out_length)
{
	utf8proc_int32_t composed[DECOMPOSED_MAX];
	size_t used;

	if (length > LDR_NAME_MAX_BYTES || utf8_fault(name, length))
		return false;
	used = normalise(name, length, UTF8PROC_CASEFOLD, composed);
	if (used == 0 || used > capacity)
		return false;
	memcpy(folded, composed, used);
	*out_length = used;
	return true;
}

bool ldr_name_fold(const char *name, size_t length, char *folded, size_t capacity,
		   size_t *out_length)
{
	size_t plain = length < capacity ? length : capacity;

	for (size_t i = 0; i < plain; i++) {
		if ((unsigned char)name[i] >= 0x80)
			return fold_unicode(name, length, folded, capacity, out_length);
		folded[i] = lower(name[i]);
	}
	if (plain < length)
		return false;
	*out_length = length;
	return true;
}

int ldr_name_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t common = a_length < b_length ? a_length : b_length;
	int order = common ? memcmp(a, b, common) : 0;

	return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* No legal byte lies between the end, '/' and the rest once '/' is 1: "a" < "a/b" < "a!". */
static int rank(char c)
{
	return c == '/' ? 1 : (unsigned char)c;
}

int ldr_path_compare(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return rank(*a) - rank(*b);
}

bool ldr_name_same_folded(const char *a, size_t a_length, const char *b, size_t b_length)
{
	char folded_a[4 * LDR_NAME_MAX_BYTES], folded_b[4 * LDR_NAME_MAX_BYTES];
	size_t a_folded, b_folded;

	return ldr_name_fold(a, a_length, folded_a, sizeof(folded_a), &a_folded) &&
	       ldr_name_fold(b, b_length, folded_b, sizeof(folded_b), &b_folded) &&
	       a_folded == b_folded && memcmp(folded_a, folded_b, a_folded) == 0;
}
