/* Running operations (kernels/op.h) on streams.
 *
 * Thread rule: sw_op_run is called by the stream's owner. */
#pragma once

#include "device/device.h"
#include "kernels/op.h"

/* Queues the operation. The arguments are copied; memory that they point to must stay valid until
 * it has run. Errors: those of the operation, which may be returned by a later call (device.h). */
SW_MUST_CHECK static inline int sw_op_run(struct sw_stream *s, const struct sw_op *op,
                                          const void *args, struct sw_err *err)
{
    return s->dev->ops->run(s, op, args, err);
}

/* Computes the operation on the CPU, synchronously. Activations of 16 bits are converted to floats
 * in temporary memory, and those that are written are rounded back (kernels/half.h), so an
 * operation rounds each result once, as on a GPU. Errors: those of the operation, SW_ERR_NOMEM. */
int sw_op_compute(const struct sw_op *op, int threads, enum sw_precision precision,
                  const void *args, struct sw_err *err) SW_MUST_CHECK;
