/*
 * What the two files of the release share. Inside packs/, and for the fuzz target of the payload, which
 * no fuzzer gets at through a signature.
 */
#ifndef LDR_PACKS_RELEASE_PRIV_H
#define LDR_PACKS_RELEASE_PRIV_H

#include "packs/release.h"

/* Every rule that a release's fields obey, whoever made them: `status` (LDR_EINVAL when signing,
 * LDR_ECORRUPT when reading) naming field and both values. */
enum ldr_status ldr_release_check_fields(const struct ldr_release *release, enum ldr_status status,
					 struct ldr_error *err);

/* The canonical payload: sorted keys, no white space. Owns: free(). The fields have been checked. */
enum ldr_status ldr_release_write_payload(const struct ldr_release *release, char **out_json,
					  size_t *out_length, struct ldr_error *err);
/* On success the release must be disposed; digest and kid are left empty. */
enum ldr_status ldr_release_parse_payload(const char *json, size_t length, const char *name,
					  struct ldr_release *out, struct ldr_error *err);

#endif
