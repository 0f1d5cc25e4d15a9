/* Where the elements of a channel lie, for kernels that work channel by channel. Plain arithmetic
 * on descriptors; any thread. */
#ifndef SW_DEVICE_OPS_CHANNELS_H
#define SW_DEVICE_OPS_CHANNELS_H

#include "kernels/cpu/kernels.h"
#include "kernels/desc.h"

/* False for a layout that these kernels do not know: all but plain, blocked channels and channels
 * last. */
bool sw_op_channels(const struct sw_desc *d, struct sw_kernel_channels *k);

#endif
