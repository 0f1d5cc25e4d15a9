/* Common parts of the tests of sim and the copy queue: simulated GPUs, gates that block a stream
 * until the test opens them, and copies to a device and back. */
#pragma once

#include "device/sim/sim.h"
#include "device_support.h"
#include "thread/thread.h"
#include <time.h>

/* ---- Devices ---- */

/* Opens GPU `index` with little memory, since address space is expensive with a sanitizer. */
static inline struct sw_device *open_sim_with(int index, struct sw_sim_conf conf)
{
    struct sw_device *dev;
    struct sw_err err;
    conf.gpus = index + 1;
    ASSERT_OK(sw_sim_open(&conf, index, &dev, &err));
    return dev;
}

static inline struct sw_sim_conf small_conf(void)
{
    struct sw_sim_conf conf = sw_sim_defaults();
    conf.memory_bytes = 64 << 20;
    return conf;
}

static inline struct sw_device *open_sim(int index)
{
    return open_sim_with(index, small_conf());
}

static inline struct sw_stream *new_stream(struct sw_device *dev)
{
    struct sw_stream *s;
    struct sw_err err;
    ASSERT_OK(sw_stream_new(dev, 1, &s, &err));
    return s;
}

static inline struct sw_event *new_event(struct sw_device *dev)
{
    struct sw_event *e;
    struct sw_err err;
    ASSERT_OK(sw_event_new(dev, &e, &err));
    return e;
}

static inline void *device_bytes(struct sw_device *dev, size_t bytes)
{
    void *p;
    struct sw_err err;
    ASSERT_OK(sw_device_alloc(dev, bytes, "test memory", &p, &err));
    return p;
}

/* Allocates device memory with these contents. */
static inline void *to_device(struct sw_stream *s, const void *host, size_t bytes)
{
    struct sw_err err;
    void *p = device_bytes(s->dev, bytes);
    ASSERT_OK(sw_copy(s, p, host, bytes, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    return p;
}

static inline void to_host(struct sw_stream *s, void *host, const void *device, size_t bytes)
{
    struct sw_err err;
    ASSERT_OK(sw_copy(s, host, device, bytes, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
}

static inline void assert_says(const struct sw_err *err, const char *part)
{
    if (!strstr(err->text, part))
        fail_msg("the message \"%s\" does not say \"%s\"", err->text, part);
}

static inline void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* ---- Gates ---- */

struct gate {
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    bool open, reached;
};

static inline void gate_init(struct gate *g)
{
    *g = (struct gate){.open = false};
    sw_mutex_init(&g->lock);
    sw_cond_init(&g->changed);
}

static inline void gate_fini(struct gate *g)
{
    sw_cond_fini(&g->changed);
    sw_mutex_fini(&g->lock);
}

static inline void gate_open(struct gate *g)
{
    sw_mutex_lock(&g->lock);
    g->open = true;
    sw_cond_broadcast(&g->changed);
    sw_mutex_unlock(&g->lock);
}

/* A host function that ends when the gate is open. */
static inline void stand_at_gate(void *gate)
{
    struct gate *g = gate;
    sw_mutex_lock(&g->lock);
    g->reached = true;
    sw_cond_broadcast(&g->changed);
    while (!g->open)
        sw_cond_wait(&g->changed, &g->lock);
    sw_mutex_unlock(&g->lock);
}

static inline void gate_wait_reached(struct gate *g)
{
    sw_mutex_lock(&g->lock);
    while (!g->reached)
        sw_cond_wait(&g->changed, &g->lock);
    sw_mutex_unlock(&g->lock);
}

/* Operations queued on s after this call run when the gate is open. */
static inline void hold(struct sw_stream *s, struct gate *g)
{
    struct sw_err err;
    gate_init(g);
    ASSERT_OK(sw_stream_call(s, stand_at_gate, g, &err));
}

/* ---- Cancelling from another thread ---- */

struct canceller {
    struct sw_thread thread;
    struct sw_device *dev;
    int64_t operations; /* cancel when so many operations have begun */
};

static inline void cancel_main(void *arg)
{
    struct canceller *c = arg;
    while (sw_sim_operations(c->dev) < c->operations)
        sleep_ms(1);
    sleep_ms(5);
    sw_device_cancel(c->dev);
}

static inline void cancel_later(struct canceller *c, struct sw_device *dev, int64_t operations)
{
    struct sw_err err;
    *c = (struct canceller){.dev = dev, .operations = operations};
    ASSERT_OK(sw_thread_start(&c->thread, "canceller", cancel_main, c, &err));
}
