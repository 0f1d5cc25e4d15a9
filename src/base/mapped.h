/* Memory-mapped files that survive truncation. When another program truncates a file, an access to
 * a page after the new end raises SIGBUS, which ends the process. A watched mapping gets a page of
 * zeros there instead, and the loss is recorded; the reader calls sw_mapped_check afterwards and
 * reports an error. Data must not be trusted before that check, even if it was validated.
 *
 * A watch installs a handler for SIGBUS. A fault outside all watched mappings goes to the previous
 * handler, which by default ends the process. Thread rule: any thread. Call sw_mapped_unwatch
 * before a mapping is unmapped. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_mapped; /* one watched mapping */

/* Watches `bytes` of memory from the page-aligned `begin` until sw_mapped_unwatch. Errors:
 * SW_ERR_NOMEM when 16384 mappings are already watched. */
int sw_mapped_watch(struct sw_mapped **out, const void *begin, size_t bytes,
                    struct sw_err *err) SW_MUST_CHECK;
/* Watches the whole mapping that contains an address, for libraries that hide their mappings.
 * Errors: those of sw_mapped_watch, SW_ERR_IO (/proc/self/maps), SW_ERR_NOTFOUND. */
int sw_mapped_watch_around(struct sw_mapped **out, const void *address,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_mapped_unwatch(struct sw_mapped *m); /* NULL is accepted */

bool sw_mapped_lost(const struct sw_mapped *m); /* whether a page of it was replaced */

/* Whether the file behind a mapping still has the `bytes` that it had when it was mapped, and no
 * page was lost. Costs one fstat. Errors: SW_ERR_FORMAT naming path, SW_ERR_IO. */
int sw_mapped_check(const struct sw_mapped *m, int fd, uint64_t bytes, const char *path,
                    struct sw_err *err) SW_MUST_CHECK;
