/* How fast this machine is, and files of the machine's state directory. */
#pragma once

#include "base/json.h"
#include "base/str.h"
#include "plan/comm_cost.h"

struct sw_events;
struct sw_worker;

/* Once the first worker has its stream: from what was kept, else measured. */
const struct sw_rates *sw_rates_of(struct sw_rates *r, const struct sw_worker *first);
/* Keeps what was measured for the next job. A state directory that cannot be written is no error.
 */
void sw_rates_keep(const struct sw_rates *r, const struct sw_worker *first);
/* A file of the machine's state directory; NULL when it is not there, or of another machine than
 * `host`. Freed by the caller. */
struct sw_json *sw_rates_read_kept(const char *host, const char *name);
/* Writes one. Where that does not work it is told. */
void sw_rates_keep_file(struct sw_events *events, const char *name, struct sw_buf *text);
