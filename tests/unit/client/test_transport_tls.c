/*
 * The transport over TLS, against libmicrohttpd with a certificate that was made for these tests alone
 * (self-signed, for 127.0.0.1, valid for a hundred years; its key protects nothing).
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/transport.h"
#include "tests/faults/lying_server.h"

static const char certificate[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBjzCCATagAwIBAgIUSsqPwMYCT0MopYqkjj3yUls70lowCgYIKoZIzj0EAwIw\n"
	"FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEzMDIxNDExMloYDzIxMjYxMTA2\n"
	"MjE0MTEyWjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO\n"
	"PQMBBwNCAAQ5pFWPremO/0UrNW8jIHpm4WfnSv7eqW72QQRrk3p20WHPPGYdWxIO\n"
	"5Kzz6ut0PLLvkj7RT+aujsPuMaY64LKwo2QwYjAdBgNVHQ4EFgQUFNvX7i26P9RT\n"
	"71Qs6LB7NsS0yLQwHwYDVR0jBBgwFoAUFNvX7i26P9RT71Qs6LB7NsS0yLQwDwYD\n"
	"VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0cAMEQC\n"
	"ICTEr4tJqcmavMA1T+zHVnpikfkNoNdoI7ws9gGHNeIFAiAVYsKlbsAPukmCml2y\n"
	"0Sa8ZnkHQExT3HVE5ToVtg6SxA==\n"
	"-----END CERTIFICATE-----\n";

static const char key[] = "-----BEGIN PRIVATE KEY-----\n"
			  "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg6J0RqAXbEv9efT3k\n"
			  "quIkKYTG+4sSYKpgZzqdbULcstahRANCAAQ5pFWPremO/0UrNW8jIHpm4WfnSv7e\n"
			  "qW72QQRrk3p20WHPPGYdWxIO5Kzz6ut0PLLvkj7RT+aujsPuMaY64LKw\n"
			  "-----END PRIVATE KEY-----\n";

/* "/a" is a file, "/down" a redirect to the URL in context, "/up" one to "/a". */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **state)
{
	struct MHD_Response *response;
	enum MHD_Result result;
	unsigned status = 200;

	(void)method;
	(void)version;
	(void)upload;
	(void)upload_bytes;
	(void)state;
	response = MHD_create_response_from_buffer(11, (void *)(uintptr_t) "hello world",
						   MHD_RESPMEM_MUST_COPY);
	if (strcmp(url, "/down") == 0) {
		status = 302;
		MHD_add_response_header(response, "Location", context);
	} else if (strcmp(url, "/up") == 0) {
		status = 302;
		MHD_add_response_header(response, "Location", "/a");
	}
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static struct MHD_Daemon *serve(const char *redirect, char url[64])
{
	struct MHD_Daemon *daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_TLS, 0, NULL, NULL, handle,
		(void *)(uintptr_t)redirect, MHD_OPTION_HTTPS_MEM_KEY, key,
		MHD_OPTION_HTTPS_MEM_CERT, certificate, MHD_OPTION_END);

	cr_assert_not_null(daemon);
	snprintf(url, 64, "https://127.0.0.1:%u",
		 MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
	return daemon;
}

static enum ldr_status get(const char *ca_file, const char *base, const char *path,
			   struct ldr_exchange *exchange, struct ldr_error *err)
{
	struct ldr_transport_options options = {.ca_file = ca_file, .token = "secret-1"};
	char *url = ldr_url_join(base, path);
	struct ldr_request request = {.url = url};
	struct ldr_transport *transport;
	enum ldr_status status;

	cr_assert_eq(ldr_transport_new(&options, &transport, NULL), LDR_OK);
	status = ldr_transport_perform(transport, &request, 1000, exchange, err);
	ldr_transport_free(transport);
	free(url);
	return status;
}

Test(transport_tls, certificates_and_redirects)
{
	struct lying_server *plain = lying_server_start();
	char ca_file[] = "/tmp/ldr-ca-XXXXXX";
	int fd = mkostemp(ca_file, O_CLOEXEC);
	char url[64], plain_url[80], tls_url[80];
	struct ldr_exchange exchange;
	struct ldr_error err = {0};
	struct MHD_Daemon *daemon;

	snprintf(plain_url, sizeof(plain_url), "%s/a", lying_server_url(plain));
	lying_server_add_file(plain, "/a", "hello plain", 11);
	daemon = serve(plain_url, url);
	cr_assert_eq(write(fd, certificate, strlen(certificate)), (ssize_t)strlen(certificate));
	close(fd);

	cr_assert_eq(get(NULL, url, "a", &exchange, &err), LDR_EDENIED, "%s", err.text);
	cr_assert_not_null(strstr(err.text, url), "%s", err.text);
	cr_assert_not_null(strstr(err.text, "certificate"), "%s", err.text);

	cr_assert_eq(get(ca_file, url, "up", &exchange, &err), LDR_OK, "%s", err.text);
	cr_assert_str_eq((char *)exchange.body, "hello world");
	ldr_exchange_dispose(&exchange);

	/* From https to http is refused; nothing is asked there. */
	cr_assert_eq(get(ca_file, url, "down", &exchange, &err), LDR_ENET, "%s", err.text);
	cr_assert_not_null(strstr(err.text, "would leave https"), "%s", err.text);
	cr_assert_not_null(strstr(err.text, plain_url), "%s", err.text);
	cr_assert_eq(lying_server_request_count(plain), 0);

	/* From http to https is followed; going down again from there is not. */
	snprintf(tls_url, sizeof(tls_url), "%s/down", url);
	lying_server_lie(
		plain,
		&(struct lie_plan){.lie = LIE_REDIRECT, .path = "/there", .location = tls_url});
	cr_assert_eq(get(ca_file, lying_server_url(plain), "there", &exchange, &err), LDR_ENET);
	cr_assert_not_null(strstr(err.text, "would leave https"), "%s", err.text);
	cr_assert_eq(lying_server_request_count(plain), 1);

	unlink(ca_file);
	MHD_stop_daemon(daemon);
	lying_server_stop(plain);
}
