/* Nets and machines for tests of the planner: random ones, and those of well-known nets in full
 * size. Include once per program. */
#pragma once

#include "unit/device/device_support.h"

#include "planner/machine_model.h"
#include "planner/net_model.h"
#include <stdio.h>

enum { PLANNER_LAYERS = 256, PLANNER_DEVICES = 64 };

/* ---- Nets ---- */

struct planner_net {
    struct sw_net_model model;
    struct sw_layer_model layer[PLANNER_LAYERS];
    char name[PLANNER_LAYERS][16];
    int channels[PLANNER_LAYERS], side[PLANNER_LAYERS]; /* of the outputs of pictures */
    /* Partitions that a layer refuses (bit: enum sw_partition), over any number of workers. */
    unsigned refused[PLANNER_LAYERS];
};

static inline const char *planner_refuses(const struct sw_net_model *m, int layer,
                                          enum sw_partition p, int workers)
{
    const struct planner_net *n = m->user;
    const struct sw_layer_model *l = &n->layer[layer];

    if (p != SW_PARTITION_ROWS && (l->is_input || n->refused[layer] & 1u << p))
        return "its type has no rule for this partition";
    if (p == SW_PARTITION_COLUMNS && n->channels[layer] < workers)
        return "it has fewer columns than there are workers";
    return NULL;
}

static inline void planner_net_begin(struct planner_net *n, int64_t batch)
{
    *n = (struct planner_net){.model = {.batch = batch, .updater_slots = 1}};
    n->model.layer = n->layer;
    n->model.refuses = planner_refuses;
    n->model.user = n;
}

/* A layer of channels x side x side outputs per row, without sources, work or parameters. */
static inline int planner_add(struct planner_net *n, const char *type, int channels, int side)
{
    const int i = n->model.count++;
    const double columns = (double)channels * side * side, batch = (double)n->model.batch;
    const int64_t bytes = (int64_t)(batch * columns * sizeof(float));

    assert_true(i < PLANNER_LAYERS);
    snprintf(n->name[i], sizeof n->name[i], "%.8s%d", type, i);
    n->channels[i] = channels;
    n->side[i] = side;
    n->refused[i] = 1u << SW_PARTITION_INPUTS;
    n->layer[i] = (struct sw_layer_model){.name = n->name[i],
                                          .type = type,
                                          .columns = columns,
                                          .forward_bytes = (double)bytes,
                                          .output_bytes = bytes};
    return i;
}

static inline void planner_connect(struct planner_net *n, int layer, int source)
{
    struct sw_layer_model *l = &n->layer[layer];

    assert_true(source < layer && l->source_count < SW_PLANNER_SOURCES);
    l->source[l->source_count++] = source;
    l->forward_bytes += (double)n->layer[source].output_bytes;
    l->has_backward = true;
    l->gradient_bytes = l->output_bytes;
    l->backward_bytes = 2 * l->forward_bytes;
}

static inline int planner_input(struct planner_net *n, int channels, int side)
{
    const int i = planner_add(n, "input", channels, side);
    n->layer[i].is_input = true;
    return i;
}

/* A layer with parameters: `weights` of them, each used in `uses` multiply-adds per row. */
static inline void planner_train(struct planner_net *n, int layer, double weights, double uses)
{
    struct sw_layer_model *l = &n->layer[layer];

    l->params = (int64_t)weights + n->channels[layer];
    l->forward_flops = 2 * (double)n->model.batch * weights * uses;
    l->backward_flops = 2 * l->forward_flops;
}

static inline int planner_conv(struct planner_net *n, int source, int channels, int kernel,
                               int stride)
{
    const int side = (n->side[source] + stride - 1) / stride;
    const int i = planner_add(n, "convolution", channels, side);

    planner_connect(n, i, source);
    planner_train(n, i, (double)n->channels[source] * kernel * kernel * channels,
                  (double)side * side);
    return i;
}

static inline int planner_inner_product(struct planner_net *n, int source, int outputs)
{
    const int i = planner_add(n, "inner_product", outputs, 1);
    const double inputs = n->layer[source].columns;

    planner_connect(n, i, source);
    planner_train(n, i, inputs * outputs, 1);
    n->layer[i].steps = 1;
    n->layer[i].inputs = inputs;
    n->layer[i].outputs = outputs;
    n->refused[i] = 0;
    return i;
}

/* A layer whose output has the columns of its sources: an activation, or the sum of two. */
static inline int planner_alike(struct planner_net *n, const char *type, int source)
{
    const int i = planner_add(n, type, n->channels[source], n->side[source]);

    planner_connect(n, i, source);
    n->layer[i].reads_columns = true;
    return i;
}

static inline int planner_pool(struct planner_net *n, int source, int side)
{
    const int i = planner_add(n, "pooling", n->channels[source], side);

    planner_connect(n, i, source);
    n->layer[i].reads_columns = true;
    return i;
}

static inline int planner_sum(struct planner_net *n, int a, int b)
{
    const int i = planner_alike(n, "eltwise", a);
    planner_connect(n, i, b);
    return i;
}

static inline int planner_concat(struct planner_net *n, const int *sources, int count)
{
    int channels = 0;
    for (int k = 0; k < count; k++)
        channels += n->channels[sources[k]];

    const int i = planner_add(n, "concat", channels, n->side[sources[0]]);
    for (int k = 0; k < count; k++)
        planner_connect(n, i, sources[k]);
    n->layer[i].reads_columns = n->layer[i].joins = true;
    return i;
}

static inline int planner_loss(struct planner_net *n, int source)
{
    const int i = planner_add(n, "softmax_loss", 1, 1);

    planner_connect(n, i, source);
    n->refused[i] |= 1u << SW_PARTITION_COLUMNS;
    return i;
}

/* Convolution, batch norm and activation. */
static inline int planner_unit(struct planner_net *n, int source, int channels, int kernel,
                               int stride, bool activates)
{
    int i = planner_conv(n, source, channels, kernel, stride);

    i = planner_alike(n, "batch_norm", i);
    n->layer[i].params = 2 * (int64_t)channels;
    return activates ? planner_alike(n, "relu", i) : i;
}

static inline void planner_alexnet(struct planner_net *n, int64_t batch)
{
    static const struct {
        int channels, kernel, stride, pooled;
    } convs[] = {{96, 11, 4, 27}, {256, 5, 1, 13}, {384, 3, 1, 0}, {384, 3, 1, 0}, {256, 3, 1, 6}};

    planner_net_begin(n, batch);
    int top = planner_input(n, 3, 220);
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        top = planner_conv(n, top, convs[i].channels, convs[i].kernel, convs[i].stride);
        top = planner_alike(n, "relu", top);
        if (convs[i].pooled)
            top = planner_pool(n, top, convs[i].pooled);
    }
    for (int i = 0; i < 2; i++)
        top = planner_alike(n, "dropout",
                            planner_alike(n, "relu", planner_inner_product(n, top, 4096)));
    planner_loss(n, planner_inner_product(n, top, 1000));
}

/* 50 layers with parameters beside those of batch norm; 177 in all. */
static inline void planner_resnet50(struct planner_net *n, int64_t batch)
{
    static const int blocks[] = {3, 4, 6, 3};

    planner_net_begin(n, batch);
    int top = planner_pool(n, planner_unit(n, planner_input(n, 3, 224), 64, 7, 2, true), 56);
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++) {
            const int width = 64 << stage, stride = stage > 0 && block == 0 ? 2 : 1;
            const int side = block == 0 ? planner_unit(n, top, 4 * width, 1, stride, false) : top;
            int deep = planner_unit(n, top, width, 1, stride, true);

            deep =
                planner_unit(n, planner_unit(n, deep, width, 3, 1, true), 4 * width, 1, 1, false);
            top = planner_alike(n, "relu", planner_sum(n, deep, side));
        }
    planner_loss(n, planner_inner_product(n, planner_pool(n, top, 1), 1000));
}

/* Four branches: 1x1, 3x3, 5x5, and pooling; channels: those of the six convolutions. */
static inline int planner_inception(struct planner_net *n, int source, const int channels[6])
{
    int branch[4];
    int reduced = 0;

    branch[0] = planner_alike(n, "relu", planner_conv(n, source, channels[0], 1, 1));
    for (int i = 0; i < 2; i++) {
        reduced = planner_alike(n, "relu", planner_conv(n, source, channels[1 + 2 * i], 1, 1));
        branch[1 + i] =
            planner_alike(n, "relu", planner_conv(n, reduced, channels[2 + 2 * i], 3 + 2 * i, 1));
    }
    reduced = planner_pool(n, source, n->side[source]);
    branch[3] = planner_alike(n, "relu", planner_conv(n, reduced, channels[5], 1, 1));
    return planner_concat(n, branch, 4);
}

static inline void planner_googlenet(struct planner_net *n, int64_t batch)
{
    static const int channels[9][6] = {{64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},
                                       {192, 96, 208, 16, 48, 64},    {160, 112, 224, 24, 64, 64},
                                       {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
                                       {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128},
                                       {384, 192, 384, 48, 128, 128}};

    planner_net_begin(n, batch);
    int top = planner_pool(n, planner_conv(n, planner_input(n, 3, 224), 64, 7, 2), 56);
    top = planner_alike(n, "relu", planner_conv(n, planner_conv(n, top, 64, 1, 1), 192, 3, 1));
    top = planner_pool(n, top, 28);
    for (int i = 0; i < 9; i++) {
        top = planner_inception(n, top, channels[i]);
        if (i == 1 || i == 6)
            top = planner_pool(n, top, i == 1 ? 14 : 7);
    }
    top = planner_alike(n, "dropout", planner_pool(n, top, 1));
    planner_loss(n, planner_inner_product(n, top, 1000));
}

/* A random net of an input and `layers` others: most read the layer before them, some an earlier
 * one or two, so that branches split and join. */
static inline void planner_random_net(struct planner_net *n, struct rng *r, int layers)
{
    planner_net_begin(n, rng_int(r, 4, 200));
    n->model.updater_slots = (int)rng_int(r, 0, 2);
    n->model.fixed_bytes = rng_int(r, 0, 1000);
    planner_input(n, (int)rng_int(r, 1, 40), (int)rng_int(r, 1, 2));

    for (int i = 1; i <= layers; i++) {
        const int below = rng_int(r, 0, 2) ? i - 1 : (int)rng_int(r, 0, i - 1);
        const int other = (int)rng_int(r, 0, i - 1), kind = (int)rng_int(r, 0, 6);
        const int channels = (int)rng_int(r, 1, 300);

        if (kind <= 1)
            planner_inner_product(n, below, channels);
        else if (kind <= 3)
            planner_conv(n, below, channels, (int)rng_int(r, 1, 3), 1);
        else if (kind == 4 && n->layer[other].columns == n->layer[below].columns)
            planner_sum(n, below, other);
        else if (kind == 5 && other != below)
            planner_concat(n, (int[]){below, other}, 2);
        else
            planner_alike(n, "relu", below);

        for (int p = 0; p < 2; p++)
            if (rng_int(r, 0, 3) == 0)
                n->refused[i] |= 1u << rng_int(r, SW_PARTITION_COLUMNS, SW_PARTITION_NONE);
    }
}

/* Lets outputs be recomputed or offloaded, with memory = fit, and be in place. */
static inline void planner_restore(struct planner_net *n, struct rng *r)
{
    for (int i = 1; i < n->model.count; i++) {
        struct sw_layer_model *l = &n->layer[i];

        l->saved_bytes = rng_int(r, 0, 2) * l->output_bytes / 2;
        l->may_recompute = rng_int(r, 0, 3) > 0;
        l->may_offload = rng_int(r, 0, 3) > 0;
        if (l->reads_columns && l->source_count == 1 && rng_int(r, 0, 1)) {
            l->in_place = true;
            l->output_bytes = l->gradient_bytes = 0;
        }
    }
}

/* ---- Machines ---- */

struct planner_machine {
    struct sw_machine_model model;
    struct sw_device_model device[PLANNER_DEVICES];
    struct sw_hub_model hub[2 * PLANNER_DEVICES + 2];
};

struct planner_machine_terms {
    int hosts, per_host;
    int server_hosts;
    int threads; /* of devices that are cores of their host; 0: GPUs, each with a link to its host
                  */
    double flops_per_s, bytes_per_s;
    double network_bytes_per_s, device_bytes_per_s; /* links of hosts, and of GPUs */
    double latency_s;
    int64_t memory_bytes; /* of a GPU or of a host; 0: no limit */
    bool peers;
};

static inline void planner_machine(struct planner_machine *m, const struct planner_machine_terms *t)
{
    *m = (struct planner_machine){.model = {.name = "a test's machine",
                                            .hosts = t->hosts,
                                            .server_hosts = t->server_hosts,
                                            .core_flops_per_s = {t->flops_per_s / 8, "given"},
                                            .core_bytes_per_s = {t->bytes_per_s / 8, "given"},
                                            .server_threads = 1,
                                            .peers = t->peers,
                                            .launch_s = t->threads ? 0 : 5e-6}};
    m->model.device = m->device;
    m->model.hub = m->hub;

    struct sw_hub_model *hub = m->hub;
    *hub++ = (struct sw_hub_model){.name = "network", .parent = -1, .host = -1};
    for (int h = 0; h < t->hosts; h++) {
        const int host_hub = (int)(hub - m->hub);
        *hub++ = (struct sw_hub_model){.name = "host",
                                       .host = h,
                                       .memory = true,
                                       .bytes_per_s = {t->network_bytes_per_s, "given"},
                                       .latency_s = t->latency_s};

        for (int k = 0; k < t->per_host; k++) {
            const int d = m->model.device_count++;

            assert_true(d < PLANNER_DEVICES);
            if (!t->threads)
                *hub++ = (struct sw_hub_model){.name = "device",
                                               .parent = host_hub,
                                               .host = h,
                                               .bytes_per_s = {t->device_bytes_per_s, "given"},
                                               .latency_s = t->latency_s};
            m->device[d] = (struct sw_device_model){.hub = (int)(hub - m->hub) - 1,
                                                    .host = h,
                                                    .host_memory = t->threads > 0,
                                                    .threads = t->threads,
                                                    .flops_per_s = {t->flops_per_s, "given"},
                                                    .bytes_per_s = {t->bytes_per_s, "given"},
                                                    .memory_bytes = t->memory_bytes};
            if (t->threads)
                m->device[d].hub = host_hub;
            snprintf(m->device[d].name, sizeof m->device[d].name, "device %d", d);
        }
    }

    if (t->server_hosts)
        *hub++ = (struct sw_hub_model){
            .name = "server hosts",
            .host = t->hosts,
            .memory = true,
            .bytes_per_s = {t->server_hosts * t->network_bytes_per_s, "given"},
            .latency_s = t->latency_s};
    m->model.hub_count = (int)(hub - m->hub);
}

/* 1 to 4 devices on 1 or 2 hosts, some with less memory or speed than others. */
static inline void planner_random_machine(struct planner_machine *m, struct rng *r, int64_t memory)
{
    const int hosts = (int)rng_int(r, 1, 2);
    const struct planner_machine_terms t = {.hosts = hosts,
                                            .per_host = (int)rng_int(r, 1, 4 / hosts),
                                            .threads = rng_int(r, 0, 2) ? 0 : 2,
                                            .flops_per_s = 1e9 * (double)rng_int(r, 1, 100),
                                            .bytes_per_s = 1e9 * (double)rng_int(r, 1, 100),
                                            .network_bytes_per_s =
                                                1e6 * (double)rng_int(r, 10, 1000),
                                            .device_bytes_per_s = 1e8 * (double)rng_int(r, 1, 100),
                                            .latency_s = 1e-6 * (double)rng_int(r, 0, 50),
                                            .memory_bytes = memory,
                                            .peers = rng_int(r, 0, 1)};

    planner_machine(m, &t);
    for (int d = 0; d < m->model.device_count && rng_int(r, 0, 3) == 0; d++) {
        m->device[d].flops_per_s.value *= (double)rng_real(r, 0.5, 1);
        if (!t.threads)
            m->device[d].memory_bytes = (int64_t)((double)memory * (double)rng_real(r, 0.5, 1));
    }
}
