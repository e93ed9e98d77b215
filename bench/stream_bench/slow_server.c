/*
 * slow_server.c   a web server that waits.
 */
#include "bench/stream_bench/slow_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/support.h"
#include "common/lock.h"
#include "common/os.h"

#define NAP_US 5000

/* "bytes=A-B" within size; the whole file where there is no such header. */
static bool range_of(struct MHD_Connection *connection, uint64_t size, uint64_t *out_first,
		     uint64_t *out_length, bool *out_part)
{
	const char *text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Range");
	unsigned long long first, last;
	char end;

	*out_part = text != NULL;
	*out_first = 0;
	*out_length = size;
	if (!text)
		return true;
	if (sscanf(text, "bytes=%llu-%llu%c", &first, &last, &end) != 2 || first > last ||
	    last >= size)
		return false;
	*out_first = first;
	*out_length = last - first + 1;
	return true;
}

static void take_time(struct slow_server *server)
{
	uint64_t began = bench_now();

	atomic_fetch_add(&server->active, 1);
	atomic_fetch_add(&server->requests, 1);
	while (bench_now() - began < (uint64_t)atomic_load(&server->delay_ms) * 1000000)
		ldr_thread_pause_us(NAP_US);
	atomic_fetch_sub(&server->active, 1);
}

static struct MHD_Response *response_of(int fd, uint64_t size, uint64_t first, uint64_t length,
					bool part)
{
	struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(length, fd, first);
	char text[96];

	if (!response) {
		ldr_os_close(fd);
		return NULL;
	}
	snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)first,
		 (unsigned long long)(first + length - 1), (unsigned long long)size);
	if (part)
		MHD_add_response_header(response, "Content-Range", text);
	MHD_add_response_header(response, "Accept-Ranges", "bytes");
	return response;
}

static enum MHD_Result answer_status(struct MHD_Connection *connection, unsigned status)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "",
									MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result = MHD_queue_response(connection, status, response);

	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_file(struct MHD_Connection *connection, int fd)
{
	struct MHD_Response *response;
	enum MHD_Result result;
	struct stat held;
	uint64_t first, length;
	bool part;

	if (ldr_os_stat(fd, &held) || !S_ISREG(held.st_mode)) {
		ldr_os_close(fd);
		return answer_status(connection, MHD_HTTP_NOT_FOUND);
	}
	if (!range_of(connection, (uint64_t)held.st_size, &first, &length, &part)) {
		ldr_os_close(fd);
		return answer_status(connection, MHD_HTTP_RANGE_NOT_SATISFIABLE);
	}
	response = response_of(fd, (uint64_t)held.st_size, first, length, part);
	if (!response)
		return MHD_NO;
	result = MHD_queue_response(connection, part ? MHD_HTTP_PARTIAL_CONTENT : MHD_HTTP_OK,
				    response);
	MHD_destroy_response(response);
	return result;
}

/* NOLINTNEXTLINE(readability-function-size): the library says how many parameters there are */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload_data,
			      size_t *upload_data_size, void **request)
{
	struct slow_server *server = context;
	char *path;
	int folder = -1, fd = -1, code;

	(void)version;
	(void)upload_data;
	(void)upload_data_size;
	(void)request;
	if (strcmp(method, "GET") != 0 || url[0] != '/')
		return answer_status(connection, MHD_HTTP_METHOD_NOT_ALLOWED);
	path = bench_copy(url + 1);
	code = ldr_os_open_folder(server->folder, &folder);
	if (!code)
		code = ldr_os_open_beneath(folder, path, 0, 0, &fd);
	if (folder >= 0)
		ldr_os_close(folder);
	free(path);
	if (code)
		return answer_status(connection, MHD_HTTP_NOT_FOUND);
	if (!strncmp(url, "/packs/", 7))
		take_time(server);
	return answer_file(connection, fd);
}

bool slow_server_start(const char *folder, struct slow_server *server)
{
	const union MHD_DaemonInfo *info;

	server->folder = folder;
	atomic_store(&server->delay_ms, 0);
	atomic_store(&server->active, 0);
	atomic_store(&server->requests, 0);
	server->daemon = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION |
						  MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL,
					  0, NULL, NULL, handle, server, MHD_OPTION_END);
	info = server->daemon ? MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)
			      : NULL;
	if (!info) {
		bench_say("slow server: does not start: %s", strerror(errno));
		return false;
	}
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u", info->port);
	return true;
}

void slow_server_stop(struct slow_server *server)
{
	atomic_store(&server->delay_ms, 0);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	server->daemon = NULL;
}
