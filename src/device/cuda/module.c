/* The table of the CUDA module, the only symbol that it exports, and the properties of GPUs. */
#include "device/cuda/cuda_module.h"
#include "device/cuda/cuda_private.h"
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdio.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static int count(int *out, struct sw_err *err)
{
    int n = 0;
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status == cudaErrorInsufficientDriver)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "the NVIDIA driver is too old for this build (%s); install a newer one, "
                          "or use --device cpu",
                          "CUDA " TEXT(CUDART_VERSION));

    if (status == cudaErrorNoDevice || (status == cudaSuccess && n == 0))
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "there is no CUDA device: the driver lists none, or CUDA_VISIBLE_DEVICES "
                          "hides all of them; use --device cpu");
    if (status != cudaSuccess)
        return sw_err_set(err, SW_ERR_NOTFOUND, "there is no CUDA device: %s (%s)",
                          cudaGetErrorString(status), cudaGetErrorName(status));

    *out = n;
    return SW_OK;
}

static void write_uuid(const cudaUUID_t *uuid, char *out, size_t bytes)
{
    size_t n = (size_t)snprintf(out, bytes, "GPU-");

    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%02x",
                              i >= 4 && i <= 10 && i % 2 == 0 ? "-" : "",
                              (unsigned)(unsigned char)uuid->bytes[i]);
}

static int describe(int gpu, struct sw_cuda_gpu *out, struct sw_err *err)
{
    struct cudaDeviceProp p;
    cudaError_t status = cudaGetDeviceProperties(&p, gpu);
    if (status != cudaSuccess)
        return sw_err_set(err, SW_ERR_LIBRARY, "cannot read the properties of GPU %d: %s", gpu,
                          cudaGetErrorString(status));

    *out = (struct sw_cuda_gpu){
        .memory_bytes = (int64_t)p.totalGlobalMem, .major = p.major, .minor = p.minor};
    snprintf(out->bus, sizeof out->bus, "%04x:%02x:%02x.0", (unsigned)p.pciDomainID,
             (unsigned)p.pciBusID, (unsigned)p.pciDeviceID);
    write_uuid(&p.uuid, out->uuid, sizeof out->uuid);
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);

    return SW_OK;
}

__attribute__((visibility("default"))) extern const struct sw_cuda_module sw_cuda_module;
const struct sw_cuda_module sw_cuda_module = {
    .abi = SW_CUDA_ABI,
    .table_bytes = SW_CUDA_TABLE_BYTES,
    .libraries = "CUDA " TEXT(CUDART_VERSION) ", cuBLAS " TEXT(CUBLAS_VER_MAJOR) "." TEXT(
        CUBLAS_VER_MINOR) ", cuDNN " TEXT(CUDNN_MAJOR) "." TEXT(CUDNN_MINOR),
    .count = count,
    .describe = describe,
    .open = sw_cuda_open_device,
};
