/* Converts results of the CUDA runtime to errors, and waits for the GPU. */
#include "base/os.h"
#include "device/cuda/cuda_private.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/label_count.h"
#include "kernels/ops/row_loss.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

enum {
    SPIN_NS = 200000,    /* how long a wait only yields the processor */
    NAP_NS = 50000,      /* then it sleeps for this long at a time */
    CANCELLED_MS = 2000, /* how long to wait for the work of a cancelled device */
    /* Error codes that older toolkits do not name. */
    ERROR_CONTAINED = 226,
    ERROR_TENSOR_MEMORY_LEAK = 721,
};

/* ---- Errors ---- */

/* Whether the error is sticky: permanent for the context. */
static bool is_sticky(cudaError_t status)
{
    switch ((int)status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
    case ERROR_CONTAINED:
    case ERROR_TENSOR_MEMORY_LEAK:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

static int store_sticky_error(struct sw_cuda_device *d, const struct sw_err *why)
{
    sw_mutex_lock(&d->lock);
    if (d->sticky_error.code == SW_OK)
        d->sticky_error = *why;
    sw_mutex_unlock(&d->lock);

    return why->code;
}

int sw_cuda_check(struct sw_cuda_device *d, int status, const char *what, struct sw_err *err)
{
    cudaError_t e = (cudaError_t)status;
    struct sw_err mine;

    if (e == cudaSuccess)
        return SW_OK;

    (void)cudaGetLastError(); /* otherwise the next launch would return it */
    if (e == cudaErrorMemoryAllocation)
        return sw_err_set(err, SW_ERR_NOMEM, "%s: %s: out of memory", d->base.name, what);

    int rc = sw_err_set(&mine, SW_ERR_LIBRARY, "%s: %s: %s%s (%s)", d->base.name, what,
                        is_sticky(e) ? "the device is lost: " : "", cudaGetErrorString(e),
                        cudaGetErrorName(e));
    if (is_sticky(e))
        rc = store_sticky_error(d, &mine);
    if (err)
        *err = mine;

    return rc;
}

int sw_cuda_trouble_of(const struct sw_cuda_device *d, struct sw_err *err)
{
    const struct sw_cuda_trouble *t = d->trouble;
    const char *who = (const char *)(uintptr_t)t->who;
    int rc = SW_OK;

    switch ((enum sw_cuda_found)__atomic_load_n(&t->found, __ATOMIC_ACQUIRE)) {
    case SW_FOUND_NOTHING:
        return SW_OK;
    case SW_FOUND_LABEL:
        rc = sw_labels_report_bad(who, t->row, (int64_t)t->value, t->limit, err);
        break;
    case SW_FOUND_TARGET:
        rc = sw_row_loss_report_bad((enum sw_loss)t->limit, who, t->row, t->column, t->value, err);
        break;
    case SW_FOUND_TOKEN:
        rc = sw_tokens_report_bad(t->row, t->column, (int64_t)t->value, t->limit, err);
        break;
    }

    return sw_err_prefix(err, rc, "%s", d->base.name);
}

static int set_cancelled(const struct sw_cuda_device *d, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_CANCELLED, "%s: cancelled", d->base.name);
}

static bool is_cancelled(const struct sw_cuda_device *d)
{
    return __atomic_load_n(&d->cancelled, __ATOMIC_RELAXED);
}

static int sticky_error_of(struct sw_cuda_device *d, struct sw_err *err)
{
    sw_mutex_lock(&d->lock);

    int rc = d->sticky_error.code;
    if (rc != SW_OK && err)
        *err = d->sticky_error;
    sw_mutex_unlock(&d->lock);

    return rc;
}

void sw_cuda_use(const struct sw_cuda_device *d)
{
    (void)cudaSetDevice(d->gpu); /* cannot fail: it succeeded when the device was opened */
}

int sw_cuda_enter(struct sw_cuda_device *d, struct sw_err *err)
{
    if (is_cancelled(d))
        return set_cancelled(d, err);

    int rc = sticky_error_of(d, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_cuda_trouble_of(d, err);
    if (rc != SW_OK)
        goto out;

    rc = sw_cuda_check(d, (int)cudaSetDevice(d->gpu), "selecting the device", err);

out:
    /* A launch reports only the last error of the thread, so an error that a library or another
     * call left is cleared first. Errors that break the context appear again. */
    (void)cudaGetLastError();
    return rc;
}

int sw_cuda_poll(struct sw_cuda_device *d, int (*query)(void *handle), void *handle,
                 const char *what, struct sw_err *err)
{
    int64_t began_ns = sw_os()->monotonic_ns(), end_ns = 0;
    int status;

    while ((status = query(handle)) == (int)cudaErrorNotReady) {
        int64_t now_ns = sw_os()->monotonic_ns();

        if (is_cancelled(d) && end_ns == 0)
            end_ns = now_ns + (int64_t)CANCELLED_MS * 1000000;
        if (end_ns > 0 && now_ns > end_ns) {
            (void)cudaGetLastError();
            return set_cancelled(d, err);
        }

        if (now_ns - began_ns < SPIN_NS)
            sw_thread_yield();
        else
            sw_thread_nap(NAP_NS);
    }

    (void)cudaGetLastError(); /* "not ready" is also recorded as the last error */

    int rc = sw_cuda_check(d, status, what, err);
    if (rc != SW_OK)
        return rc;
    rc = sticky_error_of(d, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_trouble_of(d, err);
    if (rc != SW_OK)
        return rc;

    return is_cancelled(d) ? set_cancelled(d, err) : SW_OK;
}
