/* The process-wide request to stop: one atomic word and the first signal. Every function may be
 * called by any thread; sw_stop_request is also safe in a signal handler. base/stop.h says who
 * makes, holds and checks the request. */
#include "base/stop.h"

/* Requests are in the low bits, holders in the high ones. They share one word, so that no request
 * can come between the check and the hold in sw_stop_hold. Relaxed, since no other memory is
 * published with it. */
enum { HOLDER = 1 << 16, REQUESTS = HOLDER - 1 };
static int state;
static int first_signal;

int sw_stop_request(int signal)
{
    int none = 0;

    if (signal)
        __atomic_compare_exchange_n(&first_signal, &none, signal, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);

    if (sw_stop_requests() ==
        REQUESTS) /* saturates, so that the count does not overflow into the holders */
        return REQUESTS;

    return (__atomic_add_fetch(&state, 1, __ATOMIC_RELAXED)) & REQUESTS;
}

int sw_stop_requests(void)
{
    return __atomic_load_n(&state, __ATOMIC_RELAXED) & REQUESTS;
}

int sw_stop_signal(void)
{
    return __atomic_load_n(&first_signal, __ATOMIC_RELAXED);
}

void sw_stop_reset(void)
{
    __atomic_store_n(&first_signal, 0, __ATOMIC_RELAXED);
    __atomic_fetch_and(&state, ~REQUESTS, __ATOMIC_RELAXED);
}

static int cancelled(struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_CANCELLED, "stopped by request");
}

int sw_stop_check(struct sw_err *err)
{
    const int now = __atomic_load_n(&state, __ATOMIC_RELAXED);
    return (now & REQUESTS) > (now >= HOLDER) ? cancelled(err) : SW_OK;
}

int sw_stop_hold(struct sw_err *err)
{
    const int before = __atomic_fetch_add(&state, HOLDER, __ATOMIC_RELAXED);
    if ((before & REQUESTS) == 0)
        return SW_OK;

    sw_stop_release();
    return cancelled(err);
}

void sw_stop_release(void)
{
    __atomic_fetch_sub(&state, HOLDER, __ATOMIC_RELAXED);
}

bool sw_stop_is_held(void)
{
    return __atomic_load_n(&state, __ATOMIC_RELAXED) >= HOLDER;
}
