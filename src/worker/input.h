/* A batch on its way to a device of its own: it is copied to a place beside the net's, by a stream
 * of its own, while the step before computes. A step then takes it over by a copy within the
 * device, which costs next to nothing, so that the net's places, which graphs name, stay the same.
 *
 * One owner: the worker. On devices with host memory there is none: the net reads batches where
 * they are. */
#pragma once

#include "data/prefetch.h"

struct sw_worker;
struct sw_input;

/* Room for one of the worker's training batches, on its device. Errors: SW_ERR_NOMEM. */
int sw_input_new(const struct sw_worker *w, struct sw_input **out, struct sw_err *err);
/* Ends its copies first: the memory of batches that were started may go then. NULL is accepted. */
void sw_input_free(struct sw_input *in);
/* Bytes on the device; 0 where there is none. */
size_t sw_input_bytes(const struct sw_worker *w);

/* Starts the copy of the batch that the next step is for. It is released behind that step. */
int sw_input_start(struct sw_input *in, const struct sw_batch *batch,
                   struct sw_err *err) SW_MUST_CHECK;
/* What is queued on the compute stream from here on finds the batch in the training nets. */
int sw_input_take(struct sw_input *in, const struct sw_batch *batch,
                  struct sw_err *err) SW_MUST_CHECK;
/* On devices of their own, while they compute step t: starts the copy of the next batch if that is
 * ready. */
int sw_input_look_ahead(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
