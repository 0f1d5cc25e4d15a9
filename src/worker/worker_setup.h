/* Makes what a worker works with: stream, nets, memory. */
#pragma once

#include "net/net.h"

struct sw_source;
struct sw_worker;

/* Stream and training net; then, once the table knows the parameters, the evaluation net. */
int sw_worker_build(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_worker_build_eval(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Between two steps, by the leader while the worker waits: nets, memory and batches for the rows
 * that it has now. After an error the worker cannot go on before another call succeeds. */
int sw_worker_rebuild(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The source's fields as a net of so many rows sees them; how many. */
int sw_worker_fields(const struct sw_source *source, int64_t rows, struct sw_net_field *out);
int sw_worker_allocate(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_worker_fini(struct sw_worker *w);
