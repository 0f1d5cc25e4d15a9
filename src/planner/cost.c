/* The additive cost of a layer alone: its passes, and the exchange and update of its parameters. */
#include "planner/cost_private.h"

#include "plan/exchange_cost.h"
#include <stdlib.h>

int64_t sw_cost_rows(const struct sw_cost_model *c)
{
    const int size = c->shape.group_size;
    return (sw_cost_group_rows(c) + size - 1) / size;
}

/* ---- Passes ---- */

/* Is it a sample of devices with as many threads, of the whole layer or of a part of its columns?
 */
static bool is_kind(const struct sw_layer_sample *s, int threads, bool part)
{
    return s->threads == threads && (s->part > 0) == part;
}

/* The number of concurrent workers that is closest to `workers` among the samples of a kind; -1:
 * there are no such samples. */
static int closest_workers(const struct sw_layer_model *l, int threads, bool part, int workers)
{
    int closest = -1;

    for (int i = 0; i < l->sample_count; i++) {
        const int count = l->samples[i].workers;
        if (is_kind(&l->samples[i], threads, part) &&
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
    const int closest = closest_workers(l, threads, false, workers);

    for (int i = 0; i < l->sample_count; i++) {
        const struct sw_layer_sample *s = &l->samples[i];
        if (is_kind(s, threads, false) && s->workers == closest)
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

/* Measured times of about the same part of the layer's columns, in proportion to the part and the
 * rows. False: there are none. */
static bool find_sampled_part(const struct sw_layer_model *l, int threads, double rows,
                              double columns, int workers, double seconds[2])
{
    const int closest = closest_workers(l, threads, true, workers);

    for (int i = 0; i < l->sample_count; i++) {
        const struct sw_layer_sample *s = &l->samples[i];
        const double share = s->part > 0 ? columns * rows / (s->part * (double)s->rows) : 0;
        if (!is_kind(s, threads, true) || s->workers != closest || share < 0.5 || share > 2)
            continue;

        seconds[0] = share * s->forward_s;
        seconds[1] = share * s->backward_s;
        return true;
    }

    return false;
}

/* Samples of cores with another number of threads, the nearest one; NULL: there are none. */
static const struct sw_layer_sample *other_threads(const struct sw_layer_model *l, int threads)
{
    const struct sw_layer_sample *nearest = NULL;

    for (int i = 0; i < l->sample_count; i++) {
        const struct sw_layer_sample *s = &l->samples[i];
        if (s->threads > 0 && s->part == 0 &&
            (!nearest || abs(s->threads - threads) < abs(nearest->threads - threads)))
            nearest = s;
    }

    return nearest;
}

/* The time of a part of a pass from its flops and bytes. */
static double work_s(const struct sw_layer_model *l, double part, double flops_per_s,
                     double bytes_per_s, bool backward)
{
    const double flops = part * (backward ? l->backward_flops : l->forward_flops);
    const double bytes = part * (backward ? l->backward_bytes : l->forward_bytes);

    return fmax(sw_cost_time(flops, flops_per_s), sw_cost_time(bytes, bytes_per_s));
}

double sw_cost_pass(const struct sw_cost_model *c, int layer, int device, double rows,
                    double columns, int workers, bool backward)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    const struct sw_device_model *d = &c->machine->device[device];
    double sampled[2];

    if (backward && !l->has_backward)
        return 0;
    if (columns < 1 && find_sampled_part(l, d->threads, rows, columns, workers, sampled))
        return sampled[backward];
    if (find_sampled(l, d->threads, rows, workers, sampled))
        return columns * sampled[backward];

    const double part = columns * rows / (double)c->net->batch;
    const double seconds = work_s(l, part, d->flops_per_s.value,
                                  sw_cost_memory_rate(d, d->threads, workers), backward);

    /* What was measured with other threads is scaled as flops and bytes say. */
    const struct sw_layer_sample *other = d->host_memory ? other_threads(l, d->threads) : NULL;
    if (other && find_sampled(l, other->threads, rows, other->workers, sampled)) {
        const double flops_per_s = d->flops_per_s.value * other->threads / d->threads;
        const double other_s = work_s(
            l, part, flops_per_s, sw_cost_memory_rate(d, other->threads, other->workers), backward);
        return columns * sampled[backward] * (other_s > 0 ? seconds / other_s : 1);
    }

    return seconds + (d->host_memory ? 0 : c->machine->launch_s);
}

/* Is a layer in the memory of another one's output? */
static bool is_in_place_on(const struct sw_net_model *net, int layer, int root)
{
    while (layer > root && net->layer[layer].in_place)
        layer = net->layer[layer].source[0];
    return layer == root;
}

double sw_cost_restore(const struct sw_cost_model *c, int layer, enum sw_plan_residency residency,
                       int device, double rows, double columns, int workers)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    const double bytes = (double)l->output_bytes * columns * rows / (double)c->net->batch;
    double seconds = 0;

    if (residency == SW_PLAN_OFFLOADED)
        return 2 * (sw_cost_time(bytes, c->host.bytes_per_s) + c->host.latency_s);

    for (int i = layer; i < c->net->count && residency == SW_PLAN_RECOMPUTED; i++)
        if (is_in_place_on(c->net, i, layer))
            seconds += sw_cost_pass(c, i, device, rows, columns, workers, false);
    return seconds;
}

double sw_cost_fit(const struct sw_cost_model *c, const struct sw_plan_fit *fit, double compute_s)
{
    const double recompute_s = fmax(sw_cost_time(fit->flops / c->workers, c->flops_per_s),
                                    sw_cost_time(fit->bytes / c->workers, c->bytes_per_s));
    const double copies_s = 2 * sw_cost_time(fit->copied_bytes / c->workers, c->host.bytes_per_s);

    return recompute_s + fmax(SW_NET_COPY_COST * copies_s, copies_s - compute_s);
}

/* How well a measured step tells of others: with as many threads, of the same kind, then with as
 * many workers. */
static int distance(const struct sw_rest_sample *r, int threads, enum sw_step_kind kind,
                    int workers)
{
    return (abs(r->threads - threads) * 2 + (r->kind != kind)) * SW_MODEL_DEVICES +
           abs(r->workers - workers);
}

/* The sample that tells most of a kind of steps; NULL: there are none of such devices. */
static const struct sw_rest_sample *closest_rest(const struct sw_cost_model *c,
                                                 enum sw_step_kind kind)
{
    const struct sw_device_model *d = &c->machine->device[0];
    const struct sw_rest_sample *best = NULL;

    for (int i = 0; i < c->net->rest_count; i++) {
        const struct sw_rest_sample *r = &c->net->rest[i];
        if ((r->threads > 0) != d->host_memory)
            continue;

        if (!best || distance(r, d->threads, kind, c->workers) <
                         distance(best, d->threads, kind, c->workers))
            best = r;
    }

    return best;
}

double sw_cost_rest(const struct sw_cost_model *c, enum sw_step_kind kind, int moves)
{
    const struct sw_rest_sample *r = closest_rest(c, kind);
    const struct sw_rest_sample *without = closest_rest(c, SW_STEP_GRADIENTS);

    if (!r)
        return 0;
    if (r->kind != SW_STEP_MOVES || r->moves == 0 || without->kind != SW_STEP_GRADIENTS ||
        r->seconds < without->seconds)
        return r->seconds;

    /* In each movement workers wait for one another. */
    return without->seconds + (r->seconds - without->seconds) * moves / r->moves;
}

static bool same_kind(const struct sw_device_model *a, const struct sw_device_model *b)
{
    return (a->host == b->host || !a->host_memory) && a->host_memory == b->host_memory &&
           a->threads == b->threads && a->flops_per_s.value == b->flops_per_s.value &&
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
    const double rows = (double)(by_rows ? sw_cost_rows(c) : sw_cost_group_rows(c));
    const double work = sw_cost_work(c, &c->net->layer[layer], choice->partition);
    const int first = whole ? choice->location : 0, stride = whole ? c->shape.group_size : 1;
    double slowest = 0;

    for (int d = first; d < c->workers; d += stride) {
        const struct sw_device_model *device = c->machine->device;
        if (d > first && same_kind(&device[d], &device[d - stride]))
            continue;

        const int workers = concurrent(c, choice, d);
        slowest =
            fmax(slowest, sw_cost_pass(c, layer, d, rows, work, workers, false) +
                              sw_cost_pass(c, layer, d, rows, work, workers, true) +
                              sw_cost_restore(c, layer, choice->residency, d, rows, work, workers));
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

int sw_cost_connected_groups(const struct sw_cost_model *c)
{
    const bool alone = c->machine->device[0].host_memory || sw_cost_hosts(c) > 1;
    return c->is_async && !alone ? c->shape.groups : 1;
}

int sw_cost_connected(const struct sw_cost_model *c)
{
    return contributors(c, SW_PARTITION_ROWS) * sw_cost_connected_groups(c);
}

bool sw_cost_spreads_factors(const struct sw_cost_model *c, enum sw_exchange_mode comm)
{
    return comm == SW_EXCHANGE_SFB && !c->machine->device[0].host_memory && !c->why_no_factors;
}

bool sw_cost_devices_update(const struct sw_cost_model *c)
{
    return c->devices_update;
}

bool sw_cost_uses_server_hosts(const struct sw_cost_model *c, int contributors,
                               enum sw_exchange_mode comm)
{
    const bool uses_servers =
        comm == SW_EXCHANGE_PS || (comm == SW_EXCHANGE_ADAM && !c->machine->device[0].host_memory);

    return c->machine->server_hosts > 0 && uses_servers && (c->is_async || contributors > 1) &&
           c->shape.consistency != SW_CONSISTENCY_HOGWILD;
}

static bool uses_server_hosts(const struct sw_cost_model *c, const struct sw_layer_choice *choice)
{
    return sw_cost_uses_server_hosts(c, contributors(c, choice->partition), choice->comm);
}

/* The link over which contributors exchange gradients. */
static const struct sw_cost_link *exchange_link(const struct sw_cost_model *c,
                                                const struct sw_layer_choice *choice)
{
    const struct sw_cost_link *peers =
        choice->partition == SW_PARTITION_ROWS ? &c->all : &c->across;

    if ((c->is_async && !sw_cost_spreads_factors(c, choice->comm)) || uses_server_hosts(c, choice))
        return &c->servers;
    if (sw_cost_devices_update(c) || c->machine->device[0].host_memory ||
        choice->comm == SW_EXCHANGE_SFB)
        return peers;
    return c->machine->hosts > 1 && peers->bytes_per_s > 0 &&
                   peers->bytes_per_s < c->servers.bytes_per_s
               ? peers
               : &c->servers;
}

/* An unknown rate takes no time. */
static double known(double rate)
{
    return rate > 0 ? rate : (double)INFINITY;
}

/* The arguments of plan/exchange_cost.h, as the runtime sets them (plan/exchange_modes.c), without
 * overlap. Workers on cores of several hosts count as one per host. */
static struct sw_exchange_cost_args exchange_args(const struct sw_cost_model *c,
                                                  const struct sw_layer_model *l,
                                                  const struct sw_layer_choice *choice)
{
    const struct sw_cost_link *link = exchange_link(c, choice);
    const bool cores = c->machine->device[0].host_memory, sends = link->bytes_per_s > 0;
    const int hosts = cores && sends && !c->is_async ? sw_cost_hosts(c) : 1;
    const int groups = sw_cost_connected_groups(c);
    const int workers = contributors(c, choice->partition) * groups;
    const int per_host = hosts > 1 ? (c->workers + hosts - 1) / hosts : 1;
    const bool whole = choice->comm == SW_EXCHANGE_PS, remote = uses_server_hosts(c, choice);

    return (struct sw_exchange_cost_args){
        .workers = hosts > 1 && hosts < workers ? hosts : workers,
        .servers = (hosts > 1 && !remote) || c->shape.servers < 1 ? 1 : c->shape.servers,
        .hosts = remote ? 1 : hosts,
        .rows = whole ? 0 : (double)(c->net->batch * groups) * l->steps,
        .inputs = whole ? sw_cost_owned(c, l, choice->partition) : l->inputs,
        .outputs = whole ? 1 : l->outputs,
        .devices = sends,
        .reduces = !remote && (sw_cost_devices_update(c) || hosts > 1),
        .peers = true, /* else it is in the link's throughput */
        .flops_per_s = known(c->flops_per_s * per_host),
        .server_flops_per_s =
            known(cores ? c->flops_per_s * per_host : c->machine->core_flops_per_s.value),
        .memory_bytes_per_s = known(c->bytes_per_s),
        .link_bytes_per_s = link->bytes_per_s};
}

/* Time until all contributors have the sum, or the new values, of a layer's gradients. The product
 * of a worker's own factors is part of its backward pass. */
static double exchange_s(const struct sw_cost_model *c, const struct sw_layer_model *l,
                         const struct sw_layer_choice *choice, double *floats)
{
    const struct sw_exchange_cost_args args = exchange_args(c, l, choice);
    const struct sw_cost_link *link = exchange_link(c, choice);
    const double owned = sw_cost_owned(c, l, choice->partition);
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
        sw_cost_time(2 * args.rows / args.workers * args.inputs * args.outputs, args.flops_per_s);
    return fmax(1e-3 * price.ms[choice->comm] - product_s, 0) + 2 * link->latency_s;
}

double sw_cost_measured_update(const struct sw_cost_model *c, int layer, int gradients)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    const struct sw_device_model *d = &c->machine->device[0];
    const int closest = closest_workers(l, d->threads, false, c->workers);

    if (c->is_async || (d->host_memory ? c->all.bytes_per_s > 0 : !c->machine->mirrors))
        return 0;

    for (int i = 0; i < l->sample_count; i++) {
        const struct sw_layer_sample *s = &l->samples[i];
        if (is_kind(s, d->threads, false) && s->workers == closest)
            return s->update_s * sw_cost_touched(c, gradients) / sw_cost_touched(c, s->workers);
    }

    return 0;
}

/* An update reads the gradient, and reads and writes values and slots, in the memory where it runs:
 * each device its own, servers on hosts those of all workers. Every connected group has one. */
double sw_cost_update(const struct sw_cost_model *c, int layer,
                      const struct sw_layer_choice *choice)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    const double value_bytes = SW_FLOAT_BYTES * sw_cost_touched(c, 1);
    const double owned = sw_cost_owned(c, l, choice->partition) * value_bytes;
    const double all = (double)l->params * value_bytes;
    const bool remote = uses_server_hosts(c, choice);
    const int groups = sw_cost_connected_groups(c);

    if (c->machine->device[0].host_memory && !remote)
        return sw_cost_time(c->group.bytes_per_s > 0 ? owned : all, c->memory_bytes_per_s);
    if ((sw_cost_devices_update(c) && !remote) || choice->comm == SW_EXCHANGE_SFB)
        return sw_cost_time(groups * owned, c->memory_bytes_per_s);

    const int servers = c->shape.servers > 1 ? c->shape.servers : 1;
    return sw_cost_time(groups * all, c->machine->core_bytes_per_s.value * servers);
}

/* Exchange and update. What servers were measured to take has the sum of gradients in it, which in
 * one memory is all of the exchange. */
static double params_s(const struct sw_cost_model *c, int layer,
                       const struct sw_layer_choice *choice, double *floats)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    const bool factors = choice->comm != SW_EXCHANGE_PS, shared = c->machine->device[0].host_memory;
    const int gradients = factors ? 1 : contributors(c, choice->partition);
    const double measured_s = factors && !shared ? 0 : sw_cost_measured_update(c, layer, gradients);

    if (measured_s == 0)
        return exchange_s(c, l, choice, floats) + sw_cost_update(c, layer, choice);
    return measured_s + (shared && !factors ? 0 : exchange_s(c, l, choice, floats));
}

struct sw_layer_cost sw_cost_layer(const struct sw_cost_model *c, int layer,
                                   const struct sw_layer_choice *choice)
{
    struct sw_layer_cost cost = {.compute_s = compute_s(c, layer, choice)};

    if (c->net->layer[layer].params > 0)
        cost.params_s = params_s(c, layer, choice, &cost.moved_params);
    return cost;
}
