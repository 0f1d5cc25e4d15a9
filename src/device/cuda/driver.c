/* The driver of NVIDIA GPUs. This file is part of libsinga and loads the module with the device
 * when a GPU is requested. */
#include "device/cuda/cuda_module.h"
#include "device/cuda/nccl_module.h"

#include "base/os.h"
#include "base/str.h"
#include "device/module.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Loading ---- */

static const struct sw_module_kind kind = {
    .file = "singa_cuda.so",
    .variable = "SINGA_CUDA_MODULE",
    .table = "sw_cuda_module",
    .abi = SW_CUDA_ABI,
    .table_bytes = SW_CUDA_TABLE_BYTES,
    .what = "CUDA device",
    .without =
        "install the package singa-ws-cuda, or configure with -DSINGA_CUDA=ON where nvcc and "
        "cuDNN are; use --device cpu",
};

/* Reports a missing NVIDIA driver, since without it libraries only report that they failed; else
 * returns rc. */
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

/* Finds the device number and properties of the GPU at a PCI address. */
static int find_gpu(const struct sw_cuda_module *m, const char *bus, int *gpu,
                    struct sw_cuda_gpu *out, struct sw_err *err)
{
    int count = 0, rc = m->count(&count, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < count; i++) {
        rc = m->describe(i, out, err);
        if (rc != SW_OK)
            return rc;
        if (sw_cuda_same_bus(bus, out->bus)) {
            *gpu = i;
            return SW_OK;
        }
    }

    return sw_err_set(err, SW_ERR_NOTFOUND, "the driver has no GPU at %s; it lists %d", bus, count);
}

static int open_device(const struct sw_device_args *args, struct sw_device **out,
                       struct sw_err *err)
{
    const struct sw_cuda_module *m = NULL;
    struct sw_cuda_gpu found;

    int gpu = args->index, rc = sw_cuda_load(&m, err);
    if (rc != SW_OK)
        return rc;

    if (args->bus) {
        rc = find_gpu(m, args->bus, &gpu, &found, err);
        if (rc != SW_OK)
            return rc;
    }

    return m->open(gpu, args->index, args->precision, out, err);
}

/* The device files of Linux and of WSL. */
static bool is_likely(void)
{
    return getenv(kind.variable) || access("/dev/nvidiactl", F_OK) == 0 ||
           access("/dev/dxg", F_OK) == 0;
}

static int installed(struct sw_err *err)
{
    return sw_module_installed(&kind, err);
}

static int enumerate(struct sw_device_info **out, int *count, struct sw_err *err)
{
    const struct sw_cuda_module *m;

    int gpus = 0, rc = sw_cuda_load(&m, err);
    if (rc != SW_OK)
        return rc;
    rc = m->count(&gpus, err);
    if (rc != SW_OK)
        return rc;

    struct sw_device_info *list = sw_calloc((size_t)gpus, sizeof *list);
    if (!list)
        return sw_err_nomem(err, "the list of GPUs", (size_t)gpus * sizeof *list);

    for (int i = 0; i < gpus && rc == SW_OK; i++) {
        struct sw_cuda_gpu g;

        rc = m->describe(i, &g, err);
        if (rc != SW_OK)
            break;

        memcpy(list[i].bus, g.bus, sizeof list[i].bus);
        memcpy(list[i].name, g.name, sizeof list[i].name);
    }

    if (rc != SW_OK) {
        sw_free(list);
        return rc;
    }

    *out = list;
    *count = gpus;
    return SW_OK;
}

static int libraries(char *out, size_t bytes, struct sw_err *err)
{
    const struct sw_cuda_module *m;

    int rc = sw_cuda_load(&m, err);
    if (rc != SW_OK)
        return rc;

    snprintf(out, bytes, "%s", m->libraries);
    return SW_OK;
}

/* ---- Option text: numbers, comma-separated ---- */

static int parse(const char *options, struct sw_device_request *out, struct sw_err *err)
{
    if (!options)
        return SW_OK;

    const char *text = options;
    for (const char *end = ","; *end == ','; text = end + 1) {
        char item[16];
        int64_t number;
        size_t n = strcspn(text, ",");

        snprintf(item, sizeof item, "%.*s", n < sizeof item ? (int)n : 0, text);
        if (!sw_parse_int(item, &number) || number < 0 || number > INT32_MAX ||
            out->count == SW_DEVICE_REQUEST_MOST)
            return sw_err_set(err, SW_ERR_INVALID,
                              "cuda: expected at most %d GPU numbers, as in cuda:0,2",
                              SW_DEVICE_REQUEST_MOST);

        out->index[out->count++] = (int)number;
        end = text + n;
    }

    return SW_OK;
}

/* ---- Links ---- */

/* Reads the version of the kernel driver, which the runtime does not report. */
static void read_driver(char *out, size_t bytes)
{
    struct sw_err ignored;
    char *text = NULL;
    size_t n;
    int rc = sw_os_read_file("/sys/module/nvidia/version", 256, &text, &n, &ignored);

    snprintf(out, bytes, "%s", rc == SW_OK ? text : "unknown");
    out[strcspn(out, "\r\n\t")] = '\0';
    sw_free(text);
}

/* "GPU-6e2c... at 0000:34:00.0"; the options of a probe are the addresses. */
static int identify(const char *options, const char *const *bus, int count,
                    struct sw_probe_identity *out, struct sw_err *err)
{
    const struct sw_cuda_module *m;
    const struct sw_nccl_module *nccl;
    struct sw_bytes list = {0};
    char driver[64], library[64] = "no NCCL";
    struct sw_err ignored;
    int rc = sw_cuda_load(&m, err);

    for (int i = 0; i < count && rc == SW_OK; i++) {
        struct sw_cuda_gpu gpu;
        int number;

        rc = find_gpu(m, bus[i], &number, &gpu, err);
        if (rc == SW_OK)
            out->device[i] = sw_format("%s at %s", gpu.uuid, bus[i]);
        sw_bytes_printf(&list, "%s%s", i ? "," : "", bus[i]);
    }

    if (rc != SW_OK) {
        sw_bytes_fini(&list);
        return rc;
    }

    if (sw_nccl_load(&nccl, &ignored) == SW_OK)
        nccl->collectives->name(library, sizeof library);
    read_driver(driver, sizeof driver);
    out->common = sw_format("driver %s, %s, %s", driver, m->libraries, library);
    out->options = sw_bytes_take(&list);

    return SW_OK;
}

static int open_probe(const char *options, struct sw_device **out, int most, int *count,
                      struct sw_err *err)
{
    while (*options && *count < most) {
        char bus[20];
        size_t n = strcspn(options, ",");

        snprintf(bus, sizeof bus, "%.*s", (int)n, options);

        const struct sw_device_args args = {.index = *count, .bus = bus};
        int rc = open_device(&args, &out[*count], err);
        if (rc != SW_OK)
            return rc;

        ++*count;
        options += n + (options[n] == ',');
    }

    return SW_OK;
}

const struct sw_driver sw_driver_cuda = {
    .name = "cuda",
    .label = "CUDA device",
    .forms = (const char *const[]){"cuda", "cuda:0,2", NULL},
    .caps = {.captures = true, .own_processor = true, .on_bus = true},
    .gemm_side = 2048,
    .parse = parse,
    .is_likely = is_likely,
    .installed = installed,
    .enumerate = enumerate,
    .open = open_device,
    .libraries = libraries,
    .identify = identify,
    .open_probe = open_probe,
};
