/* Uploading the next batch to a device with its own memory: the batch is copied to a buffer next to
 * the net's inputs, on a stream of its own, while the previous step computes. A step then takes it
 * over by a copy within the device, which is cheap, so that the net's inputs, whose addresses are
 * in graphs, stay the same.
 *
 * One owner: the worker. Devices with host memory have none: the net reads batches in place. */
#pragma once

#include "data/prefetch.h"

struct sw_worker;
struct sw_input;

/* Allocates room for one of the worker's training batches on its device. Errors: SW_ERR_NOMEM. */
int sw_input_new(const struct sw_worker *w, struct sw_input **out, struct sw_err *err);
/* Ends its copies first; afterwards the memory of batches that were started may be freed. NULL is
 * accepted. */
void sw_input_free(struct sw_input *in);
/* Bytes on the device; 0 for a device with host memory. */
size_t sw_input_bytes(const struct sw_worker *w);

/* Starts the copy of the next step's batch, which is released after that step. */
int sw_input_start(struct sw_input *in, const struct sw_batch *batch,
                   struct sw_err *err) SW_MUST_CHECK;
/* Makes work that is queued on the compute stream from here on find the batch in the training nets.
 */
int sw_input_take(struct sw_input *in, const struct sw_batch *batch,
                  struct sw_err *err) SW_MUST_CHECK;
/* While a device with its own memory computes step t: starts the copy of the next batch if that is
 * ready. */
int sw_input_start_next(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
