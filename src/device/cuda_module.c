#include "device/cuda_module.h"
#include "base/str.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static const char *const module_name = "singa_cuda.so";

/* ---- Where it is ---- */

/* The folder of libsinga, with its last slash; "" when the loader does not know. */
static void own_folder(char *out)
{
    Dl_info info;
    out[0] = '\0';
    if (!dladdr((const void *)&module_name, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    if (slash)
        snprintf(out, PATH_BYTES, "%.*s", (int)(slash + 1 - info.dli_fname), info.dli_fname);
}

static bool is_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f)
        fclose(f);
    return f;
}

static int find_module(char *path, struct sw_err *err)
{
    const char *named = getenv("SINGA_CUDA_MODULE");
    char folder[PATH_BYTES];
    if (named && *named) {
        snprintf(path, PATH_BYTES, "%s", named);
        return is_file(path)
                   ? SW_OK
                   : sw_err_set(err, SW_ERR_NOTFOUND,
                                "SINGA_CUDA_MODULE names %s, which cannot be read", named);
    }
    own_folder(folder);
    static const char *const below[] = {"singa-ws/", ""};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        int n = snprintf(path, PATH_BYTES, "%s%s%s", folder, below[i], module_name);
        if (n > 0 && n < PATH_BYTES && is_file(path))
            return SW_OK;
    }
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "this build has no CUDA device: %s is not in %ssinga-ws (configure with "
                      "-DSINGA_CUDA=ON where nvcc and cuDNN are); use --device cpu",
                      module_name, folder);
}

/* ---- Loading ---- */

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

static int check_table(const char *path, const struct sw_cuda_module *m, struct sw_err *err)
{
    if (m->abi != SW_CUDA_ABI)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s has interface %u, this program needs %d: install both from one build",
                          path, (unsigned)m->abi, (int)SW_CUDA_ABI);
    if (m->table_bytes != SW_CUDA_TABLE_BYTES)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s was built from other sources than this program (tables of %u bytes, "
                          "not %u): install both from one build",
                          path, (unsigned)m->table_bytes, (unsigned)SW_CUDA_TABLE_BYTES);
    return SW_OK;
}

static int load(const char *path, const struct sw_cuda_module **out, struct sw_err *err)
{
    /* What the driver starts at its first use may not be unloaded under it. */
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module) {
        const char *why = dlerror();
        int rc = sw_err_set(err, SW_ERR_UNSUPPORTED, "the CUDA device cannot be loaded: %s",
                            why ? why : path);
        return need_driver(rc, err);
    }
    const struct sw_cuda_module *m = dlsym(module, "sw_cuda_module");
    int rc = m ? check_table(path, m, err)
               : sw_err_set(err, SW_ERR_UNSUPPORTED,
                            "%s is not a CUDA device of singa-ws: it has "
                            "no table sw_cuda_module",
                            path);
    if (rc == SW_OK)
        *out = m;
    else
        dlclose(module);
    return rc;
}

int sw_cuda_load(const struct sw_cuda_module **out, struct sw_err *err)
{
    const struct sw_cuda_module *m = NULL;
    char path[PATH_BYTES];
    int count = 0, rc = find_module(path, err);
    if (rc == SW_OK)
        rc = load(path, &m, err);
    if (rc != SW_OK)
        return rc;
    rc = m->count(&count, err);
    if (rc != SW_OK)
        return need_driver(rc, err);
    *out = m;
    return SW_OK;
}

/* ---- Devices ---- */

/* Bus ids differ in how many zeros they begin with, and in case. */
static bool same_bus(const char *a, const char *b)
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
        if (rc == SW_OK && same_bus(bus, g.bus)) {
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
