/* The additive cost of connections between layers and of whole plans, and the memory of these. */
#include "planner/cost_private.h"

#include "exchange/reduce/factors.h"
#include "plan/choices.h"

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
    return sw_cost_time(elements * share * passes * SW_FLOAT_BYTES, rate);
}

double sw_cost_moved(const struct sw_cost_model *c, int source, struct sw_distribution from,
                     struct sw_distribution to)
{
    const struct sw_movement_cell *cell = sw_movement_cell(from, to);
    const int size = c->shape.group_size;

    return (double)sw_cost_group_rows(c) * c->net->layer[source].columns *
           (cell->k_minus_1 * (size - 1) + cell->k_minus_1_over_k * (size - 1.0) / size +
            cell->whole);
}

double sw_cost_move(const struct sw_cost_model *c, int source, struct sw_distribution from,
                    struct sw_distribution to, double *floats)
{
    const struct sw_layer_model *l = &c->net->layer[source];
    const struct sw_movement_cell *cell = sw_movement_cell(from, to);
    const int size = c->shape.group_size, ways = l->has_backward ? 2 : 1;
    const double rows = (double)sw_cost_group_rows(c), elements = rows * l->columns;
    const bool sends = c->group.bytes_per_s > 0;

    if (floats)
        *floats = 0;
    if (!cell)
        return (double)INFINITY;
    if (sw_distribution_equal(from, to))
        return 0;

    const double moved = sw_cost_moved(c, source, from, to);
    const int replicas = c->shape.groups;
    if (floats && sends)
        *floats = ways * replicas * moved;

    if (!sends)
        return ways * c->machine->wake_s + copy_s(c, elements, from, to, false) +
               (ways > 1 ? copy_s(c, elements, from, to, true) : 0);

    /* A single worker sends or receives everything, or all have a part each. */
    const bool single = from.dist == SW_DIST_ONE || to.dist == SW_DIST_ONE;
    const bool by_rows = from.dist == SW_DIST_ROWS || to.dist == SW_DIST_ROWS;
    const double part =
        single ? 1
               : sw_cost_largest_part(
                     by_rows ? rows : sw_cost_units(c->net, l, SW_PARTITION_COLUMNS), size);
    return ways * (moved * part * SW_FLOAT_BYTES / c->moves.bytes_per_s + c->moves.latency_s);
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
    return (double)sw_cost_group_rows(c) / batch *
           (p == SW_PARTITION_COLUMNS ? sw_cost_work(c, l, p) : 1);
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
            elements +=
                (double)sw_cost_group_rows(c) * source->columns * (1 + source->has_backward);
    }

    return elements * SW_FLOAT_BYTES;
}

/* The exchange of a layer's factors between devices, as plan/exchange_modes.c makes it; *l: the
 * layer. */
static struct sw_factors_args factors_args(const struct sw_cost_model *c,
                                           const struct sw_layer_model *layer,
                                           struct sw_factors_layer *l)
{
    *l = (struct sw_factors_layer){.steps = (int64_t)layer->steps,
                                   .inputs = (int64_t)layer->inputs,
                                   .outputs = (int64_t)layer->outputs};
    return (struct sw_factors_args){.groups = sw_cost_connected_groups(c),
                                    .staleness = c->shape.staleness,
                                    .batch_rows = c->net->batch,
                                    .layers = l,
                                    .count = 1};
}

bool sw_cost_factors_take_too_much(const struct sw_cost_model *c, int layer)
{
    struct sw_factors_layer l;
    const struct sw_factors_args args = factors_args(c, &c->net->layer[layer], &l);

    return sw_factors_take_too_much(&args);
}

/* Bytes of the factors that a worker has, or the memory that workers share. */
static double factor_bytes(const struct sw_cost_model *c, const struct sw_layer_model *l,
                           enum sw_exchange_mode comm)
{
    struct sw_factors_layer layer;
    const struct sw_factors_args args = factors_args(c, l, &layer);

    if (comm == SW_EXCHANGE_PS)
        return 0;
    if (sw_cost_spreads_factors(c, comm))
        return (double)sw_factors_bytes(&args);
    return SW_FLOAT_BYTES * (double)c->net->batch * l->steps * (l->inputs + l->outputs);
}

/* Values, slots and gathered factors exist once in a memory that workers share, gradients for each
 * of them. */
static double param_bytes(const struct sw_cost_model *c, const struct sw_layer_model *l,
                          const struct sw_layer_choice *choice, int rank)
{
    const double owned = sw_cost_owned(c, l, choice->partition);
    const double frozen = (double)l->frozen * sw_cost_work(c, l, choice->partition);
    const double kept = owned * (1 + c->net->updater_slots) + frozen;
    const bool shared = choice->partition == SW_PARTITION_ROWS && !c->is_async;
    const double factors = factor_bytes(c, l, choice->comm);

    return SW_FLOAT_BYTES * owned +
           (SW_FLOAT_BYTES * kept + factors) / (shared ? sw_cost_together(c, rank) : 1);
}

/* Bytes of the whole batch that a layer does not keep until backward. */
static double restored_bytes(const struct sw_layer_model *l, enum sw_plan_residency residency)
{
    return residency == SW_PLAN_RECOMPUTED  ? (double)(l->output_bytes + l->saved_bytes)
           : residency == SW_PLAN_OFFLOADED ? (double)l->output_bytes
                                            : 0;
}

int64_t sw_cost_bytes(const struct sw_cost_model *c, int layer,
                      const struct sw_layer_choice *choice, int rank)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    if (choice->partition == SW_PARTITION_NONE && choice->location != rank)
        return 0;

    const double features = (double)(l->output_bytes + l->gradient_bytes + l->saved_bytes);
    const double part = output_part(c, l, choice->partition);
    const double share = c->net->memory_share > 0 ? c->net->memory_share : 1;
    const double used =
        part * (features + (double)l->scratch_bytes) + source_bytes(c, layer, choice);

    /* All outputs that are kept for backward exist when it begins. */
    const double freed = part * restored_bytes(l, choice->residency);
    return (int64_t)ceil(fmax(share * used - freed, 0) + param_bytes(c, l, choice, rank));
}

int64_t sw_cost_budget(const struct sw_cost_model *c, const struct sw_parallel_plan *p,
                       int64_t budget)
{
    int64_t least = budget > 0 ? budget : 0;

    for (int w = 0; w < p->workers; w++) {
        const int64_t bytes = c->machine->device[w].memory_bytes;
        least = bytes > 0 && (least == 0 || bytes < least) ? bytes : least;
    }

    return least;
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

static bool reads(const struct sw_layer_model *l, int source)
{
    for (int k = 0; k < l->source_count; k++)
        if (l->source[k] == source)
            return true;
    return false;
}

double sw_cost_around(const struct sw_cost_model *c, const struct sw_parallel_plan *p, int layer)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    double seconds = 0;

    for (int j = 0; j < c->net->count; j++) {
        bool concerned = j == layer || reads(&c->net->layer[j], layer);
        for (int k = 0; k < l->source_count; k++)
            concerned = concerned || reads(&c->net->layer[j], l->source[k]);
        if (!concerned)
            continue;

        const struct sw_layer_cost cost = sw_cost_layer_in(c, p, j);
        seconds += cost.compute_s + cost.params_s + cost.activations_s;
    }

    return seconds;
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
