/* Sums of layers over the workers of a group, made by their devices, so that no host waits for a
 * device between the phases of a layer (synchronized batch normalization). Every worker has a table
 * with a row of each. For a sum it stores its own row and, once the others have queued theirs,
 * fetches their rows and adds all up in the order of base/tree.h: the bits are those of
 * sw_group_sum, for any devices.
 *
 * Two tables take turns. A worker that stores a row again has queued the sum in between, which
 * waits for what all others had queued until then, so they have fetched the old row.
 *
 * Thread rule: put and take by the worker; for one sum all workers return from put before any calls
 * take. */
#pragma once

#include "device/device.h"

struct sw_layer_sums;

/* workers: at most SW_LEAF_SUMS (kernels/ops/sums.h). most: values of the longest sum. Errors:
 * SW_ERR_NOMEM. */
int sw_layer_sums_new(int workers, int most, struct sw_layer_sums **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Before the devices are closed, when their streams are done. NULL is accepted. */
void sw_layer_sums_free(struct sw_layer_sums *s);
/* Memory of a worker on its device. */
size_t sw_layer_sums_bytes(int workers, int most);
/* Allocates the worker's tables. The stream is borrowed: the one on which it sums. */
int sw_layer_sums_join(struct sw_layer_sums *s, int worker, struct sw_stream *stream,
                       struct sw_err *err) SW_MUST_CHECK;

/* Queues the worker's part of a sum, values [count] in device memory. */
int sw_layer_sums_put(struct sw_layer_sums *s, int worker, const double *values, int count,
                      struct sw_err *err) SW_MUST_CHECK;
/* Queues the sum over all workers, into the same values. */
int sw_layer_sums_take(struct sw_layer_sums *s, int worker, double *values, int count,
                       struct sw_err *err) SW_MUST_CHECK;
