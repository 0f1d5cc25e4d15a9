#include "device/cuda/cuda_module.h"
#include "device/module.h"
#include <dlfcn.h>
#include <stdio.h>

/* ---- Loading ---- */

static const struct sw_module_kind kind = {
    .file = "singa_cuda.so",
    .variable = "SINGA_CUDA_MODULE",
    .table = "sw_cuda_module",
    .abi = SW_CUDA_ABI,
    .table_bytes = SW_CUDA_TABLE_BYTES,
    .what = "CUDA device",
    .without = "configure with -DSINGA_CUDA=ON where nvcc and cuDNN are; use --device cpu",
};

/* Without the driver nothing else matters, and libraries only say that they failed. */
static int need_driver(int rc, struct sw_err *err)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver) {
        dlclose(driver);
        return rc;
    }
    const char *why = dlerror();
    return sw_err_set(err, SW_ERR_NOTFOUND,
                      "there is no NVIDIA driver on this machine: %s; use --device cpu",
                      why ? why : "libcuda.so.1 is missing");
}

int sw_cuda_load(const struct sw_cuda_module **out, struct sw_err *err)
{
    const void *table = NULL;
    int count = 0, rc = sw_module_load(&kind, &table, err);
    if (rc == SW_ERR_LIBRARY && err)
        err->code = SW_ERR_UNSUPPORTED;
    if (rc == SW_ERR_LIBRARY)
        return need_driver(SW_ERR_UNSUPPORTED, err);
    if (rc != SW_OK)
        return rc;
    const struct sw_cuda_module *m = table;
    rc = m->count(&count, err);
    if (rc != SW_OK)
        return need_driver(rc, err);
    *out = m;
    return SW_OK;
}

/* ---- Devices ---- */

bool sw_cuda_same_bus(const char *a, const char *b)
{
    unsigned domain[2], bus[2], slot[2], function[2];
    return sscanf(a, "%x:%x:%x.%x", &domain[0], &bus[0], &slot[0], &function[0]) == 4 &&
           sscanf(b, "%x:%x:%x.%x", &domain[1], &bus[1], &slot[1], &function[1]) == 4 &&
           domain[0] == domain[1] && bus[0] == bus[1] && slot[0] == slot[1] &&
           function[0] == function[1];
}

/* The driver's number of the GPU at an address. */
static int find_gpu(const struct sw_cuda_module *m, const char *bus, int *gpu, struct sw_err *err)
{
    int count = 0, rc = m->count(&count, err);
    for (int i = 0; i < count && rc == SW_OK; i++) {
        struct sw_cuda_gpu g;
        rc = m->describe(i, &g, err);
        if (rc == SW_OK && sw_cuda_same_bus(bus, g.bus)) {
            *gpu = i;
            return SW_OK;
        }
    }
    if (rc != SW_OK)
        return rc;
    return sw_err_set(err, SW_ERR_NOTFOUND, "the driver knows no GPU at %s; it has %d", bus, count);
}

int sw_cuda_open(const char *bus, int index, enum sw_precision precision, struct sw_device **out,
                 struct sw_err *err)
{
    const struct sw_cuda_module *m = NULL;
    int gpu = index, rc = sw_cuda_load(&m, err);
    if (rc == SW_OK && *bus)
        rc = find_gpu(m, bus, &gpu, err);
    return rc == SW_OK ? m->open(gpu, index, precision, out, err) : rc;
}
