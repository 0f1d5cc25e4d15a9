/* A stream of sim: a ring of operations and the thread that runs them. The host copies an operation
 * into the ring and continues; the thread runs it in place, with pointers translated to the real
 * memory, on a cpu stream that only this thread uses.
 *
 * sw_sim_stream_free stops the thread: it drains the queue for a limited time, and cancels after
 * that or when an operation hangs. Cancelling sets the error of the stream: every wait of the
 * thread ends, and queued operations are skipped one by one, so that every thread that waits for an
 * operation is woken. Host waits therefore last until operations are done or skipped and are never
 * cut short: afterwards nothing touches the memory of the caller. */
#include "base/os.h"
#include "base/str.h"
#include "device/sim/capture.h"
#include "device/sim/memory.h"
#include <stdio.h>
#include <string.h>

enum { DRAIN_MS = 1000, JOIN_MS = 10000 };

/* ---- The thread ---- */

int sw_sim_stream_hang(struct sw_sim_stream *s, struct sw_err *err)
{
    sw_mutex_lock(&s->lock);
    s->hung = true;
    sw_cond_broadcast(&s->changed);
    while (!atomic_load(&s->cancelled))
        sw_cond_wait(&s->changed, &s->lock);
    sw_mutex_unlock(&s->lock);

    return sw_err_set(err, SW_ERR_CANCELLED, "cancelled while hanging");
}

void sw_sim_stream_sleep(struct sw_sim_stream *s, int64_t until_ns)
{
    if (sw_os()->monotonic_ns() >= until_ns)
        return;

    sw_mutex_lock(&s->lock);
    while (!atomic_load(&s->cancelled) && sw_os()->monotonic_ns() < until_ns)
        (void)sw_cond_wait_until(&s->changed, &s->lock, until_ns);
    sw_mutex_unlock(&s->lock);
}

/* Applies a fault before the operation runs; SW_SIM_WRONG is applied after it. */
static int apply_fault(struct sw_sim_stream *s, enum sw_sim_fault fault, struct sw_err *err)
{
    if (fault == SW_SIM_HANG)
        return sw_sim_stream_hang(s, err);
    if (fault == SW_SIM_LOST)
        return sw_err_set(err, SW_ERR_LIBRARY, "the device is lost");

    return SW_OK;
}

/* Corrupts the first non-zero value of the output by flipping a bit of its exponent. */
static void corrupt_output(const struct sw_sim_op *op, const size_t *bytes)
{
    const uint32_t bit = 1u << 23;

    for (int i = 0; i < SW_SIM_POINTERS; i++) {
        uint32_t *word = op->p[i];

        for (size_t n = bytes[i] / sizeof *word; word && op->written >> i & 1 && n > 0; n--, word++)
            if (*word) {
                *word ^= bit;
                return;
            }
    }
}

static int resolve_all(struct sw_sim_stream *s, struct sw_sim_op *op, bool on_thread, void **where,
                       struct sw_err *err)
{
    if (op->type->resolve)
        return op->type->resolve(s, op, on_thread, where, err);

    for (int i = 0; op->type->pointers && op->type->pointers[i]; i++) {
        int rc = sw_sim_reach(s->device, op->type->pointers[i], op->p[i], op->bytes[i],
                              &op->block[i], &where[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Puts "sim:0: convolution forward: " or "sim:0: softmax_loss: " in front of the error, once. */
static int prefix_error(const struct sw_sim_stream *s, const struct sw_sim_op *op, int code,
                        struct sw_err *err)
{
    const char *name = op->type->name ? op->type->name : op->subject;
    const char *subject = op->type->name ? op->subject : NULL;
    size_t n = strlen(name);
    if (!subject && strncmp(err->text, name, n) == 0 && err->text[n] == ':')
        return sw_err_prefix(err, code, "%s", s->base.dev->name);

    return sw_err_prefix(err, code, "%s: %s%s%s", s->base.dev->name, subject ? subject : "",
                         subject ? " " : "", name);
}

/* Sleeps to simulate a slow GPU that began the operation at began_ns. */
static void simulate_slow_gpu(struct sw_sim_stream *s, int64_t began_ns)
{
    int64_t now_ns = sw_os()->monotonic_ns();
    double more_ns = (double)(now_ns - began_ns) * (s->device->slow - 1);
    sw_sim_stream_sleep(s, now_ns + (int64_t)more_ns);
}

static int execute(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err)
{
    void *where[SW_SIM_POINTERS] = {NULL};
    enum sw_sim_fault fault = op->type->counted ? sw_sim_begin(s->device) : SW_SIM_NO_FAULT;

    int rc = apply_fault(s, fault, err);
    if (rc != SW_OK)
        goto fail;
    rc = resolve_all(s, op, true, where, err);
    if (rc != SW_OK)
        goto fail;

    int64_t began_ns = sw_os()->monotonic_ns();
    memcpy(op->p, where, sizeof where);
    rc = op->type->run(s, op, err);

    bool computes = op->type->counted && !op->type->moves && !op->type->waits;
    if (computes && s->device->slow > 1)
        simulate_slow_gpu(s, began_ns);
    if (rc != SW_OK)
        goto fail;

    if (fault == SW_SIM_WRONG)
        corrupt_output(op, op->bytes);
    return SW_OK;

fail:
    rc = prefix_error(s, op, rc, err);
    if (op->type->fail)
        op->type->fail(op, err);

    return rc;
}

/* s->lock is held. Returns the next operation, or NULL when the stream closes. */
static struct sw_sim_op *next(struct sw_sim_stream *s)
{
    while (s->queued == s->done && !s->closing)
        sw_cond_wait(&s->changed, &s->lock);
    return s->queued == s->done ? NULL : &s->ring[s->done % SW_SIM_RING];
}

/* s->lock is held, and released while the operation runs. */
static void run_next(struct sw_sim_stream *s, struct sw_sim_op *op)
{
    struct sw_err err = {.code = SW_OK};
    int rc = SW_OK;
    bool healthy = s->err.code == SW_OK;

    sw_mutex_unlock(&s->lock);

    if (healthy || op->type->always)
        rc = execute(s, op, &err);
    else if (op->type->skip)
        op->type->skip(op, &s->err); /* the first error never changes */

    sw_mutex_lock(&s->lock);
    if (rc != SW_OK && s->err.code == SW_OK)
        s->err = err;
    s->done++;
    sw_cond_broadcast(&s->changed);
}

static void stream_main(void *arg)
{
    struct sw_sim_stream *s = arg;
    struct sw_sim_op *op;
    struct sw_err err = {.code = SW_OK};
    int rc = sw_stream_new(s->device->cpu, 1, &s->cpu, &err);

    sw_mutex_lock(&s->lock);
    if (rc != SW_OK && s->err.code == SW_OK)
        s->err = err;
    s->started = true;
    sw_cond_broadcast(&s->changed);
    while ((op = next(s)))
        run_next(s, op);
    sw_mutex_unlock(&s->lock);
    sw_stream_free(s->cpu);
}

/* ---- The host's side ---- */

/* s->lock is held. */
static int stream_error(const struct sw_sim_stream *s, struct sw_err *err)
{
    if (s->err.code != SW_OK && err)
        *err = s->err;
    return s->err.code;
}

int sw_sim_push(struct sw_stream *stream, const struct sw_sim_op *given, struct sw_err *err)
{
    struct sw_sim_stream *s = sw_sim_stream_of(stream);
    struct sw_sim_op op = *given;
    void *where[SW_SIM_POINTERS];
    struct sw_err mine;

    int rc = resolve_all(s, &op, false, where, &mine);
    if (rc != SW_OK) {
        (void)prefix_error(s, &op, rc, &mine);
        if (err)
            *err = mine;
        return rc;
    }

    if (s->capture && !op.type->always)
        return sw_sim_capture_op(s, &op, err);

    sw_mutex_lock(&s->lock);
    while (s->queued - s->done == SW_SIM_RING)
        sw_cond_wait(&s->changed, &s->lock);
    rc = op.type->always ? SW_OK : stream_error(s, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_sim_race_check(s, &op, err);
    if (rc != SW_OK)
        goto out;

    s->ring[s->queued++ % SW_SIM_RING] = op;
    sw_cond_broadcast(&s->changed);

out:
    sw_mutex_unlock(&s->lock);
    return rc;
}

int sw_sim_stream_wait(struct sw_stream *stream, struct sw_err *err)
{
    struct sw_sim_stream *s = sw_sim_stream_of(stream);

    int rc = sw_sim_capture_refuse(s, "waiting for the stream", err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&s->lock);

    uint64_t end = s->queued;
    while (s->done < end)
        sw_cond_wait(&s->changed, &s->lock);
    rc = stream_error(s, err);
    sw_mutex_unlock(&s->lock);
    sw_sim_lane_know(s->lane, end); /* done or skipped */
    if (rc == SW_OK)
        sw_sim_clock_know(&s->clock);

    return rc;
}

void sw_sim_stream_cancel(struct sw_sim_stream *s)
{
    sw_mutex_lock(&s->lock);
    if (s->err.code == SW_OK)
        (void)sw_err_set(&s->err, SW_ERR_CANCELLED, "%s: cancelled", s->base.dev->name);
    atomic_store(&s->cancelled, 1);
    sw_cond_broadcast(&s->changed);
    if (s->waiting)
        sw_sim_event_wake(s->waiting);
    sw_mutex_unlock(&s->lock);
}

void sw_sim_stream_name(struct sw_stream *s, const char *name)
{
    sw_sim_lane_name(sw_sim_stream_of(s)->lane, name);
}

/* ---- Life ---- */

/* Adds the stream to the device's list, so that cancelling the device finds it. */
static int join_device(struct sw_sim_stream *s, struct sw_err *err)
{
    struct sw_sim_device *d = s->device;
    int i = 0, rc = SW_OK;

    sw_mutex_lock(&d->lock);
    while (i < SW_SIM_STREAMS && d->stream[i])
        i++;

    if (i == SW_SIM_STREAMS) {
        rc = sw_err_set(err, SW_ERR_INVALID, "%s already has %d streams, the maximum", d->base.name,
                        i);
    } else {
        d->stream[i] = s;
        d->owners++;
        snprintf(s->name, sizeof s->name, "%.11s/%d", d->base.name, i);
        sw_sim_lane_name(s->lane, s->name);
        if (d->cancelled)
            sw_sim_stream_cancel(s);
    }

    sw_mutex_unlock(&d->lock);
    return rc;
}

static void leave_device(struct sw_sim_stream *s)
{
    struct sw_sim_device *d = s->device;

    sw_mutex_lock(&d->lock);

    for (int i = 0; i < SW_SIM_STREAMS; i++)
        if (d->stream[i] == s)
            d->stream[i] = NULL;

    sw_mutex_unlock(&d->lock);
    sw_sim_release(d);
}

static void free_struct(struct sw_sim_stream *s)
{
    sw_cond_fini(&s->changed);
    sw_mutex_fini(&s->lock);
    sw_sim_clock_fini(&s->clock);
    sw_sim_lane_drop(s->lane);
    sw_free(s->ring);
    sw_free(s);
}

/* Starts the thread and waits until it has created its cpu stream. */
static int start(struct sw_sim_stream *s, struct sw_err *err)
{
    int rc = sw_thread_start(&s->thread, s->name, stream_main, s, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&s->lock);
    while (!s->started)
        sw_cond_wait(&s->changed, &s->lock);
    rc = stream_error(s, err);
    s->closing = rc != SW_OK;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
    if (rc != SW_OK)
        sw_thread_join(&s->thread);

    return rc;
}

int sw_sim_stream_new(struct sw_device *dev, int threads, bool urgent, struct sw_stream **out,
                      struct sw_err *err)
{
    (void)urgent; /* every stream has its own thread */
    if (threads < 1)
        return sw_err_set(err, SW_ERR_INVALID, "a stream of %s needs at least 1 thread, not %d",
                          dev->name, threads);

    struct sw_sim_stream *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "sim stream", sizeof *s);

    s->base.dev = dev;
    s->device = sw_sim_device_of(dev);
    sw_mutex_init(&s->lock);
    sw_cond_init(&s->changed);
    s->ring = sw_calloc(SW_SIM_RING, sizeof *s->ring);
    s->lane = sw_sim_lane_new(dev->name);

    int rc =
        s->ring && s->lane ? SW_OK : sw_err_nomem(err, "sim stream", SW_SIM_RING * sizeof *s->ring);
    if (rc != SW_OK)
        goto fail;
    rc = join_device(s, err);
    if (rc != SW_OK)
        goto fail;
    rc = start(s, err);
    if (rc != SW_OK) {
        leave_device(s);
        goto fail;
    }

    *out = &s->base;
    return SW_OK;

fail:
    free_struct(s);
    return rc;
}

/* Drains the queue within a time limit; returns whether it is empty. */
static bool drain(struct sw_sim_stream *s)
{
    int64_t end_ns = sw_os()->monotonic_ns() + (int64_t)DRAIN_MS * 1000000;

    sw_mutex_lock(&s->lock);
    s->closing = true;
    sw_cond_broadcast(&s->changed);
    while (s->done < s->queued && !s->hung && sw_os()->monotonic_ns() < end_ns)
        (void)sw_cond_wait_ms(&s->changed, &s->lock, DRAIN_MS);

    bool dry = s->done == s->queued;
    sw_mutex_unlock(&s->lock);
    return dry;
}

void sw_sim_stream_free(struct sw_stream *stream)
{
    struct sw_sim_stream *s = sw_sim_stream_of(stream);

    if (!drain(s))
        sw_sim_stream_cancel(s);

    /* A host function that hangs still uses the stream and its device, which are then leaked. */
    if (!sw_thread_join_timed(&s->thread, JOIN_MS))
        return;

    /* Nothing queued on it runs any more, nor anything that it has waited for. */
    sw_sim_lane_know(s->lane, UINT64_MAX);
    if (s->err.code == SW_OK)
        sw_sim_clock_know(&s->clock);
    leave_device(s);
    free_struct(s);
}
