/* The additive cost of layers, of connections between them, and of whole plans. */
#include "planner/cost.h"

#include "plan/exchange_cost.h"
#include <math.h>
#include <stdlib.h>

#define FLOAT_BYTES ((double)sizeof(float))

/* The part of `total` that the worker with the largest part has. */
static double largest_part(double total, int parts)
{
    return total > 0 ? ceil(total / parts) / total : 1.0 / parts;
}

/* Seconds for `amount` at `rate` per second; an unknown rate takes no time. */
static double time_of(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

static int64_t group_rows(const struct sw_cost_model *c)
{
    const int64_t batch = c->net->batch, groups = c->is_async ? 1 : c->shape.groups;
    return (batch + groups - 1) / groups;
}

int64_t sw_cost_rows(const struct sw_cost_model *c)
{
    const int size = c->shape.group_size;
    return (group_rows(c) + size - 1) / size;
}

/* ---- Passes ---- */

/* The number of concurrent workers that is closest to `workers` among the samples of devices with
 * as many threads; -1: there are no such samples. */
static int closest_workers(const struct sw_layer_model *l, int threads, int workers)
{
    int closest = -1;

    for (int i = 0; i < l->sample_count; i++) {
        const int count = l->samples[i].workers;
        if (l->samples[i].threads == threads &&
            (closest < 0 || abs(count - workers) < abs(closest - workers)))
            closest = count;
    }

    return closest;
}

/* Puts a sample among the two that are closest to `rows`, closest first, with different rows. */
static void put_sample(const struct sw_layer_sample *near[2], const struct sw_layer_sample *s,
                       double rows)
{
    const double distance = fabs((double)s->rows - rows);

    for (int i = 0; i < 2; i++) {
        if (near[i] && near[i]->rows == s->rows)
            return;
        if (near[i] && fabs((double)near[i]->rows - rows) <= distance)
            continue;

        if (i == 0)
            near[1] = near[0];
        near[i] = s;
        return;
    }
}

/* Measured times, affine in the rows between samples and beyond them. False: there are none for
 * this kind of device. */
static bool find_sampled(const struct sw_layer_model *l, int threads, double rows, int workers,
                         double seconds[2])
{
    const struct sw_layer_sample *fewer[2] = {NULL}, *more[2] = {NULL};
    const int closest = closest_workers(l, threads, workers);

    for (int i = 0; i < l->sample_count; i++) {
        const struct sw_layer_sample *s = &l->samples[i];
        if (s->threads == threads && s->workers == closest)
            put_sample((double)s->rows <= rows ? fewer : more, s, rows);
    }

    const struct sw_layer_sample *a = fewer[0] ? fewer[0] : more[0];
    const struct sw_layer_sample *b = !fewer[0] ? more[1] : more[0] ? more[0] : fewer[1];
    if (!a)
        return false;

    const double least = fmin(1, rows / (double)a->rows);
    const double way = b ? (rows - (double)a->rows) / (double)(b->rows - a->rows) : 0;
    seconds[0] = a->forward_s + (b ? way * (b->forward_s - a->forward_s) : 0);
    seconds[1] = a->backward_s + (b ? way * (b->backward_s - a->backward_s) : 0);

    /* A single sample is taken to be proportional to the rows. */
    const double single = rows / (double)a->rows;
    seconds[0] = b ? fmax(seconds[0], least * a->forward_s) : single * a->forward_s;
    seconds[1] = b ? fmax(seconds[1], least * a->backward_s) : single * a->backward_s;
    return true;
}

double sw_cost_pass(const struct sw_cost_model *c, int layer, int device, double rows,
                    double columns, int workers, bool backward)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    const struct sw_device_model *d = &c->machine->device[device];
    double sampled[2];

    if (backward && !l->has_backward)
        return 0;
    if (find_sampled(l, d->threads, rows, workers, sampled))
        return columns * sampled[backward];

    const double part = columns * rows / (double)c->net->batch;
    const double flops = part * (backward ? l->backward_flops : l->forward_flops);
    const double bytes = part * (backward ? l->backward_bytes : l->forward_bytes);
    const double sharing = d->host_memory ? workers : 1;
    const double launch_s = d->host_memory ? 0 : c->machine->launch_s;

    return fmax(time_of(flops, d->flops_per_s.value),
                time_of(bytes * sharing, d->bytes_per_s.value)) +
           launch_s;
}

/* The share of a layer's work per row of the batch that one worker has. */
static double work_of(const struct sw_cost_model *c, const struct sw_layer_model *l,
                      enum sw_partition p)
{
    const int size = c->shape.group_size;
    return p == SW_PARTITION_COLUMNS  ? largest_part(l->columns, size)
           : p == SW_PARTITION_INPUTS ? largest_part(l->inputs, size)
                                      : 1;
}

static bool same_kind(const struct sw_device_model *a, const struct sw_device_model *b)
{
    return a->host == b->host && a->host_memory == b->host_memory && a->threads == b->threads &&
           a->flops_per_s.value == b->flops_per_s.value &&
           a->bytes_per_s.value == b->bytes_per_s.value;
}

/* Workers that compute the layer in the memory of a device at the same time. */
static int concurrent(const struct sw_cost_model *c, const struct sw_layer_choice *choice,
                      int device)
{
    int count = 0;

    if (choice->partition != SW_PARTITION_NONE)
        return sw_cost_together(c, device);
    for (int d = choice->location; d < c->workers; d += c->shape.group_size)
        count += d == device || (c->machine->device[d].host_memory &&
                                 c->machine->device[d].host == c->machine->device[device].host);
    return count;
}

/* Of the slowest worker. */
static double compute_s(const struct sw_cost_model *c, int layer,
                        const struct sw_layer_choice *choice)
{
    const bool whole = choice->partition == SW_PARTITION_NONE;
    const bool by_rows = choice->partition == SW_PARTITION_ROWS;
    const double rows = (double)(by_rows ? sw_cost_rows(c) : group_rows(c));
    const double work = work_of(c, &c->net->layer[layer], choice->partition);
    const int first = whole ? choice->location : 0, stride = whole ? c->shape.group_size : 1;
    double slowest = 0;

    for (int d = first; d < c->workers; d += stride) {
        const struct sw_device_model *device = c->machine->device;
        if (d > first && same_kind(&device[d], &device[d - stride]))
            continue;

        const int workers = concurrent(c, choice, d);
        slowest = fmax(slowest, sw_cost_pass(c, layer, d, rows, work, workers, false) +
                                    sw_cost_pass(c, layer, d, rows, work, workers, true));
    }

    return slowest;
}

/* ---- Parameters ---- */

/* Workers whose gradients of the same parameters make one update. */
static int contributors(const struct sw_cost_model *c, enum sw_partition p)
{
    const int groups = c->is_async ? 1 : c->shape.groups;
    return p == SW_PARTITION_ROWS ? groups * c->shape.group_size : groups;
}

static int count_hosts(const struct sw_cost_model *c)
{
    int hosts = 0;
    for (int d = 0; d < c->workers; d++)
        hosts += d == 0 || c->machine->device[d].host != c->machine->device[d - 1].host;
    return hosts;
}

/* Parameters that a contributor has of a layer. */
static double owned_params(const struct sw_cost_model *c, const struct sw_layer_model *l,
                           enum sw_partition p)
{
    const bool split = p == SW_PARTITION_COLUMNS || p == SW_PARTITION_INPUTS;
    return (double)l->params * (split ? work_of(c, l, p) : 1);
}

/* Do devices reduce whole gradients and update their own values? Otherwise servers on hosts do. */
static bool devices_update(const struct sw_cost_model *c)
{
    return !c->machine->device[0].host_memory && c->shape.framework == SW_FRAMEWORK_ALLREDUCE;
}

/* The link over which contributors exchange gradients. */
static const struct sw_cost_link *exchange_link(const struct sw_cost_model *c, enum sw_partition p)
{
    const struct sw_cost_link *peers = p == SW_PARTITION_ROWS ? &c->all : &c->across;

    if (c->is_async)
        return &c->servers;
    if (devices_update(c) || c->machine->device[0].host_memory)
        return peers;
    return peers->bytes_per_s > 0 && peers->bytes_per_s < c->servers.bytes_per_s ? peers
                                                                                 : &c->servers;
}

/* The arguments of plan/exchange_cost.h, as the runtime sets them (plan/exchange_modes.c), without
 * overlap. Workers on cores of several hosts count as one per host. */
static struct sw_exchange_cost_args exchange_args(const struct sw_cost_model *c,
                                                  const struct sw_layer_model *l,
                                                  const struct sw_layer_choice *choice)
{
    const struct sw_cost_link *link = exchange_link(c, choice->partition);
    const bool cores = c->machine->device[0].host_memory, sends = link->bytes_per_s > 0;
    const int hosts = cores && sends && !c->is_async ? count_hosts(c) : 1;
    const int workers = contributors(c, choice->partition);
    const int per_host = hosts > 1 ? (c->workers + hosts - 1) / hosts : 1;
    const bool whole = choice->comm == SW_EXCHANGE_PS;

    return (struct sw_exchange_cost_args){
        .workers = hosts > 1 ? hosts : workers,
        .servers = hosts > 1 || c->shape.servers < 1 ? 1 : c->shape.servers,
        .hosts = hosts,
        .rows = whole ? 0 : (double)c->net->batch * l->steps,
        .inputs = whole ? owned_params(c, l, choice->partition) : l->inputs,
        .outputs = whole ? 1 : l->outputs,
        .devices = sends,
        .reduces = devices_update(c) || hosts > 1,
        .peers = true, /* else it is in the link's throughput */
        .flops_per_s = c->flops_per_s * per_host,
        .server_flops_per_s =
            cores ? c->flops_per_s * per_host : c->machine->core_flops_per_s.value,
        .memory_bytes_per_s = c->bytes_per_s,
        .link_bytes_per_s = link->bytes_per_s};
}

/* Time until all contributors have the sum, or the new values, of a layer's gradients. The product
 * of a worker's own factors is part of its backward pass. */
static double exchange_s(const struct sw_cost_model *c, const struct sw_layer_model *l,
                         const struct sw_layer_choice *choice, double *floats)
{
    const struct sw_exchange_cost_args args = exchange_args(c, l, choice);
    const struct sw_cost_link *link = exchange_link(c, choice->partition);
    const double owned = owned_params(c, l, choice->partition);
    const bool to_servers = args.devices && !args.reduces;
    const int ranks =
        choice->partition == SW_PARTITION_COLUMNS || choice->partition == SW_PARTITION_INPUTS
            ? c->shape.group_size
            : 1;
    struct sw_exchange_price price;

    if (contributors(c, choice->partition) == 1 && !to_servers)
        return 0;

    *floats = ranks * (double)sw_exchange_count(choice->comm, &args, (int64_t)owned).moved;
    sw_exchange_cost(&args, &price);

    const double product_s =
        time_of(2 * args.rows / args.workers * args.inputs * args.outputs, args.flops_per_s);
    return fmax(1e-3 * price.ms[choice->comm] - product_s, 0) + 2 * link->latency_s;
}

/* An update reads the gradient, and reads and writes values and slots, in the memory where it runs:
 * each device its own, servers on hosts those of all workers. */
static double update_s(const struct sw_cost_model *c, const struct sw_layer_model *l,
                       const struct sw_layer_choice *choice)
{
    const double value_bytes = FLOAT_BYTES * (3 + 2 * c->net->updater_slots);
    const double owned = owned_params(c, l, choice->partition) * value_bytes;
    const double all = (double)l->params * value_bytes;

    if (c->machine->device[0].host_memory)
        return time_of(c->group.bytes_per_s > 0 ? owned : all, c->memory_bytes_per_s);
    if (devices_update(c) || choice->comm == SW_EXCHANGE_SFB)
        return time_of(owned, c->memory_bytes_per_s);

    const int servers = c->shape.servers > 1 ? c->shape.servers : 1;
    return time_of(all, c->machine->core_bytes_per_s.value * servers);
}

struct sw_layer_cost sw_cost_layer(const struct sw_cost_model *c, int layer,
                                   const struct sw_layer_choice *choice)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    struct sw_layer_cost cost = {.compute_s = compute_s(c, layer, choice)};

    if (l->params > 0)
        cost.params_s = exchange_s(c, l, choice, &cost.moved_params) + update_s(c, l, choice);
    return cost;
}

/* ---- Connections ---- */

struct sw_distribution sw_cost_output(const struct sw_cost_model *c,
                                      const struct sw_layer_choice *choice)
{
    static const enum sw_dist dists[] = {[SW_PARTITION_ROWS] = SW_DIST_ROWS,
                                         [SW_PARTITION_COLUMNS] = SW_DIST_COLUMNS,
                                         [SW_PARTITION_INPUTS] = SW_DIST_SUMS,
                                         [SW_PARTITION_NONE] = SW_DIST_ONE};
    const enum sw_partition p = c->shape.group_size > 1 ? choice->partition : SW_PARTITION_ROWS;

    return (struct sw_distribution){.dist = dists[p],
                                    .at = p == SW_PARTITION_NONE ? choice->location : 0};
}

/* The columns of a joining layer that its source number k has. */
static struct sw_distribution columns_of_join(const struct sw_net_model *net, int layer, int k)
{
    const struct sw_layer_model *l = &net->layer[layer];
    struct sw_distribution part = {.dist = SW_DIST_COLUMNS, .whole = (int64_t)l->columns};

    for (int i = 0; i < k; i++)
        part.first += (int64_t)net->layer[l->source[i]].columns;
    return part;
}

struct sw_distribution sw_cost_input(const struct sw_cost_model *c, int layer, int k,
                                     const struct sw_layer_choice *choice)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    const struct sw_distribution output = sw_cost_output(c, choice);

    if (output.dist == SW_DIST_SUMS)
        return (struct sw_distribution){.dist = SW_DIST_COLUMNS};
    if (output.dist != SW_DIST_COLUMNS)
        return output;
    if (!l->reads_columns)
        return (struct sw_distribution){.dist = SW_DIST_FULL};
    return l->joins ? columns_of_join(c->net, layer, k) : output;
}

struct sw_distribution sw_cost_start(struct sw_distribution from, struct sw_distribution to)
{
    return sw_movement_cell(from, to) ? from : (struct sw_distribution){.dist = SW_DIST_ROWS};
}

/* In one memory the receiver reads what one worker alone has in place, if it is contiguous there
 * (net/layers/bridge.c). Otherwise it copies its pieces, or adds partial sums: the first is copied,
 * and every other one read and added. */
static double copy_s(const struct sw_cost_model *c, double elements, struct sw_distribution from,
                     struct sw_distribution to, bool backward)
{
    const struct sw_distribution *a = backward ? &to : &from, *b = backward ? &from : &to;
    const int size = c->shape.group_size;
    const bool adds = sw_movement_adds(from, to, backward);
    const double share = b->dist == SW_DIST_ROWS || b->dist == SW_DIST_COLUMNS ? 1.0 / size : 1;
    const double passes = adds ? 2 + 3 * (size - 1) : 2;
    const double rate = b->dist == SW_DIST_ONE ? c->memory_bytes_per_s : c->bytes_per_s;

    if (a->dist == SW_DIST_ONE && b->dist != SW_DIST_COLUMNS && !adds)
        return 0;
    return time_of(elements * share * passes * FLOAT_BYTES, rate);
}

double sw_cost_move(const struct sw_cost_model *c, int source, struct sw_distribution from,
                    struct sw_distribution to, double *floats)
{
    const struct sw_layer_model *l = &c->net->layer[source];
    const struct sw_movement_cell *cell = sw_movement_cell(from, to);
    const int size = c->shape.group_size, ways = l->has_backward ? 2 : 1;
    const double rows = (double)group_rows(c), elements = rows * l->columns;
    const bool sends = c->group.bytes_per_s > 0;

    if (floats)
        *floats = 0;
    if (!cell)
        return (double)INFINITY;
    if (sw_distribution_equal(from, to))
        return 0;

    const double moved = elements * (cell->k_minus_1 * (size - 1) +
                                     cell->k_minus_1_over_k * (size - 1.0) / size + cell->whole);
    const int replicas = c->shape.groups;
    if (floats && sends)
        *floats = ways * replicas * moved;

    if (!sends)
        return copy_s(c, elements, from, to, false) +
               (ways > 1 ? copy_s(c, elements, from, to, true) : 0);

    /* A single worker sends or receives everything, or all have a part each. */
    const bool single = from.dist == SW_DIST_ONE || to.dist == SW_DIST_ONE;
    const bool by_rows = from.dist == SW_DIST_ROWS || to.dist == SW_DIST_ROWS;
    const double part = single ? 1 : largest_part(by_rows ? rows : l->columns, size);
    return ways * (moved * part * FLOAT_BYTES / c->group.bytes_per_s + c->group.latency_s);
}

/* Does reader j need its source number k in distribution d, for itself or on the way? */
static bool needs(const struct sw_cost_model *c, const struct sw_parallel_plan *p, int j, int k,
                  struct sw_distribution d)
{
    const int source = c->net->layer[j].source[k];
    const struct sw_distribution from = sw_cost_output(c, &p->choice[source]);
    const struct sw_distribution to = sw_cost_input(c, j, k, &p->choice[j]);

    return sw_distribution_equal(d, to) || sw_distribution_equal(d, sw_cost_start(from, to));
}

/* Does a reader before number k of `reader` need the source in distribution d? */
static bool is_made(const struct sw_cost_model *c, const struct sw_parallel_plan *p, int reader,
                    int k, struct sw_distribution d)
{
    const int source = c->net->layer[reader].source[k];

    for (int j = source + 1; j <= reader; j++)
        for (int i = 0; i < (j == reader ? k : c->net->layer[j].source_count); i++)
            if (c->net->layer[j].source[i] == source && needs(c, p, j, i, d))
                return true;

    return false;
}

int sw_cost_connections(const struct sw_cost_model *c, const struct sw_parallel_plan *p, int reader,
                        int k, struct sw_cost_connection out[2])
{
    const int source = c->net->layer[reader].source[k];
    const struct sw_distribution from = sw_cost_output(c, &p->choice[source]);
    const struct sw_distribution to = sw_cost_input(c, reader, k, &p->choice[reader]);
    const struct sw_distribution start = sw_cost_start(from, to);
    int count = 0;

    if (sw_distribution_equal(from, to))
        return 0;
    if (!sw_distribution_equal(from, start) && !is_made(c, p, reader, k, start))
        out[count++] = (struct sw_cost_connection){from, start};
    if (!is_made(c, p, reader, k, to))
        out[count++] = (struct sw_cost_connection){start, to};

    return count;
}

/* ---- Memory ---- */

/* The part of a layer's output that a worker has. */
static double output_part(const struct sw_cost_model *c, const struct sw_layer_model *l,
                          enum sw_partition p)
{
    const double batch = (double)c->net->batch;

    if (p == SW_PARTITION_ROWS)
        return (double)sw_cost_rows(c) / batch;
    return (double)group_rows(c) / batch * (p == SW_PARTITION_COLUMNS ? work_of(c, l, p) : 1);
}

/* Whole copies of sources, and of their gradients. */
static double source_bytes(const struct sw_cost_model *c, int layer,
                           const struct sw_layer_choice *choice)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    double elements = 0;

    for (int k = 0; k < l->source_count; k++) {
        const struct sw_layer_model *source = &c->net->layer[l->source[k]];
        if (sw_cost_input(c, layer, k, choice).dist == SW_DIST_FULL)
            elements += (double)group_rows(c) * source->columns * (1 + source->has_backward);
    }

    return elements * FLOAT_BYTES;
}

/* Values and slots are kept once in a memory that workers share, gradients by each of them. */
static double param_bytes(const struct sw_cost_model *c, const struct sw_layer_model *l,
                          const struct sw_layer_choice *choice, int rank)
{
    const double owned = owned_params(c, l, choice->partition);
    const double kept = owned * (1 + c->net->updater_slots);
    const bool shared = choice->partition == SW_PARTITION_ROWS && !c->is_async;
    const double factors = choice->comm == SW_EXCHANGE_PS
                               ? 0
                               : (double)c->net->batch * l->steps * (l->inputs + l->outputs);

    return FLOAT_BYTES * (kept / (shared ? sw_cost_together(c, rank) : 1) + owned + factors);
}

int64_t sw_cost_bytes(const struct sw_cost_model *c, int layer,
                      const struct sw_layer_choice *choice, int rank)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    if (choice->partition == SW_PARTITION_NONE && choice->location != rank)
        return 0;

    const double features = (double)(l->output_bytes + l->gradient_bytes + l->saved_bytes);
    const double part = output_part(c, l, choice->partition);
    return (int64_t)ceil(part * (features + (double)l->scratch_bytes) +
                         source_bytes(c, layer, choice) + param_bytes(c, l, choice, rank));
}

int sw_cost_overfull(const struct sw_cost_model *c, const struct sw_parallel_plan *p)
{
    const struct sw_device_model *device = c->machine->device;

    for (int w = 0; w < p->workers; w++) {
        int64_t bytes = device[w].host_memory ? 0 : p->device_bytes[w];

        for (int v = 0; v < p->workers && device[w].host_memory; v++)
            if (device[v].host_memory && device[v].host == device[w].host)
                bytes += p->device_bytes[v];
        if (device[w].memory_bytes > 0 && bytes > device[w].memory_bytes)
            return w;
    }

    return -1;
}

/* ---- Plans ---- */

struct sw_layer_cost sw_cost_layer_in(const struct sw_cost_model *c,
                                      const struct sw_parallel_plan *p, int layer)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    struct sw_layer_cost cost = sw_cost_layer(c, layer, &p->choice[layer]);
    struct sw_cost_connection move[2];

    for (int k = 0; k < l->source_count; k++) {
        const int count = sw_cost_connections(c, p, layer, k, move);

        for (int i = 0; i < count; i++) {
            double floats;
            cost.activations_s += sw_cost_move(c, l->source[k], move[i].from, move[i].to, &floats);
            cost.moved_activations += floats;
        }
    }

    return cost;
}

double sw_cost_plan(const struct sw_cost_model *c, struct sw_parallel_plan *p,
                    struct sw_layer_cost *costs)
{
    const int size = c->shape.group_size;
    double total = 0;

    for (int w = 0; w < p->workers; w++)
        p->device_bytes[w] = c->net->fixed_bytes;

    for (int i = 0; i < c->net->count; i++) {
        const struct sw_layer_cost cost = sw_cost_layer_in(c, p, i);

        total += cost.compute_s + cost.params_s + cost.activations_s;
        if (costs)
            costs[i] = cost;

        for (int w = 0; w < p->workers; w++)
            p->device_bytes[w] += sw_cost_bytes(c, i, &p->choice[i], w % size);
    }

    return total;
}
