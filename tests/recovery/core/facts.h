/*
 * What a record says about the machine and the programs, and whether a record says enough.
 *
 * Invariants
 *  1. A fact is observed where it can be; what cannot be found out is left out, and then the
 *     record is refused: none goes with a guess or an empty field.
 *  2. crash_facts_check knows every field that a record owes, and what it may look like.
 *
 * Threads: none; pure but for the reading of files.
 */
#ifndef LDR_TESTS_RECOVERY_FACTS_H
#define LDR_TESTS_RECOVERY_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Which source: CRASHLAB_REVISION, as revision.sh prints it. NULL: not told. */
const char *crash_facts_revision(void);

/* The digest of a file under that name; nothing when it cannot be read. */
void crash_facts_digest(json_t *tools, const char *name, const char *path);
/* Digests of all that campaigns use besides their subjects: this program, the recorder, the makers
 * and checkers of file systems, the product's programs. `programs` is the folder of tests/recovery
 * in the build; BUILD, where it is set, is where the product's are. */
json_t *crash_facts_tools(const char *programs, const char *recorder);

/* Adds kernel, machine, cpu, processors, memory_bytes, compiler, and storage: what holds the images
 * (`work`) and the results (`out`). */
void crash_facts_put_host(json_t *record, const char *work, const char *out);

/* Sets a text; bytes that are not printable ASCII become '?' (JSON takes no others). */
void crash_facts_put_text(json_t *object, const char *field, const char *bytes, size_t length);

/* False when a field is missing, empty or not of its shape, or two do not agree; the text names it. */
bool crash_facts_check(const json_t *record, char *out_text, size_t room);

#endif
