/*
 * The log; see status.h.
 */
#include "server/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/os.h"

#define LINE_BYTES 2048
#define TIME_BYTES 24
/* A URL or a reason longer than this is cut. */
#define QUOTED_BYTES 700

struct line {
	char text[LINE_BYTES];
	size_t length;
};

static void put(struct line *line, const char *fmt, ...) LDR_PRINTF(2, 3);

/* Keeps room for the line's end. */
static void put(struct line *line, const char *fmt, ...)
{
	size_t room = sizeof(line->text) - 1 - line->length;
	va_list arguments;
	int wanted;

	va_start(arguments, fmt);
	wanted = vsnprintf(line->text + line->length, room, fmt, arguments);
	va_end(arguments);
	if (wanted > 0)
		line->length += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

static void emit(const struct ldr_log *log, struct line *line)
{
	line->text[line->length++] = '\n';
	/* A log that cannot be written must not stop the server. */
	(void)ldr_os_write(log->fd, line->text, line->length);
}

/* Printable ASCII stays, backslash and quote are escaped, anything else becomes \u00XX: the same text is
 * right in both forms of the log. */
static const char *escape(const char *text, char out[QUOTED_BYTES])
{
	size_t n = 0;

	for (; *text && n + 8 < QUOTED_BYTES; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c >= 0x7f)
			n += (size_t)snprintf(out + n, QUOTED_BYTES - n, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			n += (size_t)snprintf(out + n, QUOTED_BYTES - n, "\\%c", c);
		else
			out[n++] = (char)c;
	}
	out[n] = '\0';
	return out;
}

static const char *time_text(const struct ldr_log *log, char out[TIME_BYTES])
{
	time_t now = (time_t)log->clock->wall_s(log->clock);
	struct tm parts;

	gmtime_r(&now, &parts);
	strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts);
	return out;
}

static void put_text(struct line *line, const struct ldr_log_request *request, const char *url)
{
	char reason[QUOTED_BYTES];
	char method[QUOTED_BYTES];

	put(line, " %s %s %s %u %llu %.1fms", request->address, escape(request->method, method),
	    url, request->status, (unsigned long long)request->bytes,
	    (double)request->took_us / 1000);
	if (request->cut)
		put(line, " cut");
	if (request->reason)
		put(line, " \"%s\"", escape(request->reason, reason));
}

static void put_json(struct line *line, const struct ldr_log_request *request, const char *url)
{
	char reason[QUOTED_BYTES];
	char method[QUOTED_BYTES];

	put(line,
	    ",\"address\":\"%s\",\"method\":\"%s\",\"url\":\"%s\",\"status\":%u,\"bytes\":%llu,"
	    "\"ms\":%.1f",
	    request->address, escape(request->method, method), url, request->status,
	    (unsigned long long)request->bytes, (double)request->took_us / 1000);
	if (request->cut)
		put(line, ",\"cut\":true");
	if (request->reason)
		put(line, ",\"reason\":\"%s\"", escape(request->reason, reason));
	put(line, "}");
}

void ldr_log_request(const struct ldr_log *log, const struct ldr_log_request *request)
{
	struct line line = {.length = 0};
	char now[TIME_BYTES];
	char url[QUOTED_BYTES];

	if (log->quiet)
		return;
	put(&line, log->json ? "{\"time\":\"%s\"" : "%s", time_text(log, now));
	escape(request->url, url);
	if (log->json)
		put_json(&line, request, url);
	else
		put_text(&line, request, url);
	emit(log, &line);
}

void ldr_log_note(const struct ldr_log *log, const char *fmt, ...)
{
	struct line line = {.length = 0};
	char now[TIME_BYTES];
	char text[QUOTED_BYTES];
	char escaped[QUOTED_BYTES];
	va_list arguments;

	va_start(arguments, fmt);
	vsnprintf(text, sizeof(text), fmt, arguments);
	va_end(arguments);
	if (log->json)
		put(&line, "{\"time\":\"%s\",\"note\":\"%s\"}", time_text(log, now),
		    escape(text, escaped));
	else
		put(&line, "%s larderd: %s", time_text(log, now), text);
	emit(log, &line);
}
