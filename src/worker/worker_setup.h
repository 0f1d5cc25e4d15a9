/* Creates what a worker needs: stream, nets, memory. */
#pragma once

#include "net/net.h"

struct sw_source;
struct sw_worker;

/* Makes the stream and the training net; and, after the table has the parameters, the evaluation
 * net. */
int sw_worker_build(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_worker_build_eval(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Remakes nets, memory and batches for the worker's current rows: between two steps, by the leader
 * while the worker waits. After an error the worker cannot run until another call succeeds. */
int sw_worker_rebuild(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Fills the source's fields for a net of `rows` rows; returns their number. */
int sw_worker_fields(const struct sw_source *source, int64_t rows, struct sw_net_field *out);
int sw_worker_allocate(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_worker_fini(struct sw_worker *w);
