/* How gradients and values travel between a device and the servers. */
#pragma once

enum sw_copy_mode {
    SW_COPY_AUTO,
    SW_COPY_ASYNC, /* while the device computes */
    SW_COPY_SYNC,  /* the worker waits for each copy and for its update */
    SW_COPY_NONE,  /* no copies: the device makes the updates */
};
