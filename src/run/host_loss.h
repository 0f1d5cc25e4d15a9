/* When a host is lost (cluster.on_host_loss = save): the others return to the end of the last
 * complete step and write its checkpoint, which is the one that an undisturbed run would have
 * written. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct sw_job;

/* Cancels all devices, but not where their values are to be read after the loss of a host; the
 * abort of their collective has then ended what would not end by itself. For sw_fault_attach. */
void sw_host_loss_cancel_devices_v(void *job);
/* After all roles have ended with rc. For the loss of a host: agrees with the others on the last
 * complete step and on who writes the checkpoint, waits until it is written, and returns
 * SW_ERR_CANCELLED; SW_ERR_LOST if none could be written. Otherwise returns rc. *err tells what was
 * done. */
int sw_host_loss_save(struct sw_job *job, int rc, struct sw_err *err) SW_MUST_CHECK;
