/* The throughput of this machine, and files of the state directory. */
#pragma once

#include "base/json.h"
#include "base/str.h"
#include "plan/exchange_cost.h"

struct sw_events;
struct sw_worker;

/* Returns the stored rates, or measures them. Call after the first worker has its stream. */
const struct sw_throughputs *sw_throughputs_of(struct sw_throughputs *r,
                                               const struct sw_worker *first);
/* Would it return them without measuring? */
bool sw_throughputs_are_stored(const struct sw_worker *first);
/* Stores what was measured for the next job. A failure to write is logged only. */
void sw_throughputs_save(const struct sw_throughputs *r, const struct sw_worker *first);
/* Reads a file of the state directory: *out is freed by the caller, and NULL when the file is
 * missing or of another machine than `host`. Errors: SW_ERR_FORMAT (damaged), SW_ERR_IO,
 * SW_ERR_NOMEM, those of sw_history_state_dir. */
int sw_state_file_load(const char *host, const char *name, struct sw_json **out,
                       struct sw_err *err) SW_MUST_CHECK;
/* The same without errors: NULL. */
struct sw_json *sw_state_file_read(const char *host, const char *name);
/* Writes a file of the state directory. Errors: SW_ERR_IO, SW_ERR_NOMEM, those of
 * sw_history_state_dir. */
int sw_state_file_store(const char *name, struct sw_bytes *text, struct sw_err *err) SW_MUST_CHECK;
/* The same; a failure is logged only. */
void sw_state_file_write(struct sw_events *events, const char *name, struct sw_bytes *text);
