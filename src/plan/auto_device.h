/* What `device = auto` stands for: the GPUs that compute correctly, else the CPU. A GPU that has no
 * saved result is tested by a child process (plan/peer_links.h), once per GPU, driver and build. By
 * the main thread. */
#pragma once

#include "device/driver.h"
#include "machine/machine.h"

struct sw_auto_device_args {
    const struct sw_driver *driver;   /* of the GPUs */
    const struct sw_machine *machine; /* has the GPUs that the driver lists */
    int workers;                      /* each needs a GPU */
    bool saved_only;                  /* test nothing: a GPU without a result is not used */
    int timeout_ms;                   /* of the test of one GPU; 0: the default */
};

/* Writes the option text of the device, and to `why` in one line why it is not all GPUs of the
 * machine; "": it is. Errors: SW_ERR_NOMEM. */
int sw_auto_device(const struct sw_auto_device_args *args, char *text, size_t text_bytes, char *why,
                   size_t why_bytes, struct sw_err *err) SW_MUST_CHECK;
