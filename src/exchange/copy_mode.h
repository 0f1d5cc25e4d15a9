/* How gradients and values travel between a device and the servers. */
#pragma once

enum sw_copy_mode {
    SW_COPY_AUTO,
    SW_COPY_ASYNC, /* while the device computes */
    SW_COPY_SYNC,  /* each copy is waited for, and the update with it */
    SW_COPY_NONE,  /* not at all: the device updates */
};
