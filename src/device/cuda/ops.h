/* Operations as the kernels want them: a function per operation that turns its arguments into those
 * of a launcher. Internal to device/cuda. */
#ifndef SW_DEVICE_CUDA_OPS_H
#define SW_DEVICE_CUDA_OPS_H

#include "device/cuda/cuda_private.h"

/* Beside an enum cudaError: no kernel knows such a layout, and the host computes it. */
enum { SW_CUDA_NO_KERNEL = -1 };

/* One kernel's launch, or `run` for what is made of several. */
struct sw_cuda_op {
    const struct sw_op *op;
    int (*launch)(const struct sw_cuda_launch *l, const void *args);
    int (*run)(struct sw_stream *s, const void *args, struct sw_err *err);
};

/* Tables that end with op NULL. */
extern const struct sw_cuda_op sw_cuda_array_ops[];     /* ops_arrays.c */
extern const struct sw_cuda_op sw_cuda_feature_ops[];   /* ops_features.c */
extern const struct sw_cuda_op sw_cuda_row_ops[];       /* ops_rows.c */
extern const struct sw_cuda_op sw_cuda_recurrent_ops[]; /* op_recurrent.c */
extern const struct sw_cuda_op sw_cuda_unit_ops[];      /* ops_units.c */
extern const struct sw_cuda_op sw_cuda_ais_ops[];       /* op_ais.c */

/* Where the channels of a feature lie, for the kernels; false for a layout that they do not know,
 * and for rows of 2^31 elements or more. */
bool sw_cuda_channels(const struct sw_desc *d, struct sw_kernel_channels *k);
/* Any layout. */
struct sw_cuda_layout sw_cuda_layout_of(const struct sw_desc *d);
/* Everything of one tensor to another of the same shape; padding of `to` becomes zero. */
int sw_cuda_reorder(const struct sw_cuda_launch *l, const struct sw_desc *from, const void *src,
                    const struct sw_desc *to, void *dst);
/* The same with elements converted, where the descriptors say how they lie, but not what they are.
 */
int sw_cuda_reorder_as(const struct sw_cuda_launch *l, enum sw_cuda_conversion c,
                       const struct sw_desc *from, const void *src, const struct sw_desc *to,
                       void *dst);

#endif
