/* Utilization, temperature and power of GPUs through NVML, the library that comes with NVIDIA's
 * driver. It is loaded if it is installed; its types are declared in nvml.c, since Debian has no
 * header for it. One owner; calls may take long, and never return if a GPU hangs.
 */
#pragma once

#include "base/err.h"

struct sw_nvml;

/* library NULL: libnvidia-ml.so.1. Errors: SW_ERR_NOTFOUND (no such library), SW_ERR_LIBRARY (it
 * finds no driver, or cannot be used at all), SW_ERR_NOMEM. A library that lacks the function of
 * one figure gives the others. */
int sw_nvml_open(struct sw_nvml **out, const char *library, struct sw_err *err) SW_MUST_CHECK;
void sw_nvml_close(struct sw_nvml *n); /* NULL is accepted */

/* Unknown values are NaN. */
struct sw_gpu_reading {
    double util;     /* fraction of time in which a kernel ran, 0 to 1 */
    double mem_used; /* bytes used by all processes */
    double power_w, temp_c, clock_mhz;
};
/* Reads the GPU with a PCI bus id ("0000:34:00.0"). */
struct sw_gpu_reading sw_nvml_read(struct sw_nvml *n, const char *bus);
