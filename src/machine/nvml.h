/* What a GPU says of itself: how busy, how warm, how much power, through NVML, the library that
 * comes with NVIDIA's driver. It is loaded when it is there; its types are declared in nvml.c,
 * since Debian has no header of it. One owner; calls may take long, or for ever when a GPU hangs.
 */
#pragma once

#include "base/err.h"

struct sw_nvml;

/* library NULL: libnvidia-ml.so.1. Errors: SW_ERR_NOTFOUND (no such library), SW_ERR_LIBRARY (it
 * has other functions, or finds no driver), SW_ERR_NOMEM. */
int sw_nvml_open(struct sw_nvml **out, const char *library, struct sw_err *err) SW_MUST_CHECK;
void sw_nvml_close(struct sw_nvml *n); /* NULL is accepted */

/* What is not known is NaN. */
struct sw_gpu_reading {
    double util;     /* share of time at which anything ran on it */
    double mem_used; /* bytes, of all processes */
    double power_w, temp_c, clock_mhz;
};
/* The GPU of a PCI bus id ("0000:34:00.0"). */
struct sw_gpu_reading sw_nvml_read(struct sw_nvml *n, const char *bus);
