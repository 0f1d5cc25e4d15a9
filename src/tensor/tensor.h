/* Tensors: a layout descriptor together with memory on a device. The host reads and writes the
 * contents in plain logical order, whatever the storage looks like; initialization, checkpoints,
 * predictions and tests use this, training steps do not. One owner; the memory of an owned tensor
 * is freed with it. Host copies use the stream of the owner and wait for it, so they see everything
 * that was queued before. */
#pragma once

#include "base/err.h"
#include "device/device.h"
#include "kernels/desc.h"

struct sw_tensor {
    struct sw_desc desc;
    struct sw_device *device; /* borrowed for life; NULL: host memory of base/os.h */
    void *data;               /* storage order, sw_desc_bytes(&desc) */
    bool owned;               /* data is freed with the tensor */
};
typedef struct sw_tensor sw_tensor;

/* A new tensor of zeros; what names it in errors. Free with sw_tensor_free.
 * Errors: SW_ERR_NOMEM, SW_ERR_INVALID when the size overflows. */
int sw_tensor_new(struct sw_device *device, const struct sw_desc *desc, const char *what,
                  struct sw_tensor **out, struct sw_err *err) SW_MUST_CHECK;
void sw_tensor_free(struct sw_tensor *t); /* NULL is accepted */

/* A tensor over memory that it does not own (an arena, a parameter table). */
struct sw_tensor sw_tensor_view(struct sw_device *device, const struct sw_desc *desc, void *data);

/* The length of dimension 0; a tensor without dimensions has one row. */
int64_t sw_tensor_rows(const struct sw_tensor *t);
/* Bytes of one row in row-major order. */
size_t sw_tensor_row_bytes(const struct sw_tensor *t);
/* The granularity of host copies in rows: the block size of the batch dimension, or all rows if
 * dimension 0 is not outermost in storage. */
int64_t sw_tensor_row_step(const struct sw_tensor *t);

/* Copies rows [first, first + rows) to and from plain order on the host. first is a multiple of the
 * granularity, and so is rows unless the range ends the tensor. Writing keeps padding at zero.
 * stream may be NULL for memory that the host can access. Errors: SW_ERR_INVALID (range),
 * SW_ERR_NOMEM (staging of device memory), those of the device. */
int sw_tensor_read_rows(const struct sw_tensor *t, struct sw_stream *stream, int64_t first,
                        int64_t rows, void *plain, struct sw_err *err) SW_MUST_CHECK;
int sw_tensor_write_rows(struct sw_tensor *t, struct sw_stream *stream, int64_t first, int64_t rows,
                         const void *plain, struct sw_err *err) SW_MUST_CHECK;

/* Copy all rows to or from plain memory of sw_desc_count elements. Errors: those of
 * sw_tensor_read_rows. */
int sw_tensor_read(const struct sw_tensor *t, struct sw_stream *stream, void *plain,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_tensor_write(struct sw_tensor *t, struct sw_stream *stream, const void *plain,
                    struct sw_err *err) SW_MUST_CHECK;
