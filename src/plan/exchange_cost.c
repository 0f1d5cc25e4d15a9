/* The cost model of exchange modes (plan/exchange_cost.h): for each mode the bytes on a worker's
 * link, the computing in factor products, and the passes over memory, in shared memory and between
 * devices. Pure functions; any thread. */
#include "plan/exchange_cost.h"
#include <math.h>

#define FLOAT_BYTES ((double)sizeof(float))

/* With factors a weight has the plain layout, for which the CPU library's products are slower than
 * for its own layout: extra time as a fraction (9216 x 4096, 64 rows, Zen 5: a third). */
#define PLAIN_SHARE 0.35

/* Bytes of whole gradients of `params` parameters, and of the sums or values sent back. */
static double whole_s(const struct sw_exchange_cost_args *t, double params)
{
    double seconds = params * FLOAT_BYTES / t->link_bytes_per_s, k = t->workers;

    if (t->hosts > 1)
        return 2 * seconds * (k - 1) / k;
    return t->reduces ? 2 * seconds * (k - 1) / k * (t->peers ? 1 : 2) : 2 * seconds;
}

/* Cost of a mode, from its time on the link and its computing time. */
static void put(const struct sw_exchange_cost_args *t, enum sw_exchange_mode mode, double link_s,
                double computes_s, struct sw_exchange_price *out)
{
    double busy_s = t->link.busy_s + whole_s(t, (double)t->others);
    double before_s = fmax(fmax(t->link.exposed_s, busy_s - t->hidden_s), 0);
    double after_s = fmax(before_s, busy_s + link_s - t->hidden_s);

    out->ms[mode] = 1e3 * (computes_s + after_s - before_s);
    out->link[mode] = (struct sw_exchange_link){
        .busy_s = t->link.busy_s + link_s, .exposed_s = after_s, .whole = t->link.whole};
}

/* Time of the product of the factors of `rows` rows. */
static double flops_of(const struct sw_exchange_cost_args *t, double rows)
{
    return 2 * rows * t->inputs * t->outputs;
}

/* In shared memory nothing is copied; the modes differ in who computes and in the passes over
 * memory: every gradient is written by its worker and read by a server, or computed by the server.
 */
static void cost_shared(const struct sw_exchange_cost_args *t, double ms[SW_EXCHANGE_MODES])
{
    double bytes = t->inputs * t->outputs * FLOAT_BYTES, servers = t->servers, k = t->workers;
    double copied = t->rows / k * (t->inputs + t->outputs) * FLOAT_BYTES;
    double whole = flops_of(t, t->rows / k) / t->flops_per_s +
                   (bytes + k * bytes / servers) / t->memory_bytes_per_s;
    double forth_and_back = 2 * flops_of(t, t->rows / k) / t->flops_per_s;
    double factors = PLAIN_SHARE * forth_and_back +
                     flops_of(t, t->rows) / servers / t->server_flops_per_s +
                     (2 * copied + 2 * bytes / servers) / t->memory_bytes_per_s;

    ms[SW_EXCHANGE_PS] = whole * 1e3;
    ms[SW_EXCHANGE_SFB] = ms[SW_EXCHANGE_ADAM] = factors * 1e3;
}

static void cost_devices(const struct sw_exchange_cost_args *t, struct sw_exchange_price *out)
{
    double matrix = t->inputs * t->outputs, k = t->workers, own = t->rows / k;
    double row_s = (t->inputs + t->outputs) * FLOAT_BYTES / t->link_bytes_per_s;
    double to_servers_s =
        own * (t->servers * t->inputs + t->outputs) * FLOAT_BYTES / t->link_bytes_per_s;
    double made_s = flops_of(t, t->rows) / t->servers / t->server_flops_per_s;
    double back_s = matrix * FLOAT_BYTES / t->link_bytes_per_s;

    put(t, SW_EXCHANGE_PS, whole_s(t, matrix), flops_of(t, own) / t->flops_per_s, out);
    put(t, SW_EXCHANGE_SFB, own * (k - 1) * row_s * (t->peers ? 1 : 2),
        flops_of(t, t->rows) / t->flops_per_s, out);
    put(t, SW_EXCHANGE_ADAM, to_servers_s + made_s + back_s, 0, out);
    out->link[SW_EXCHANGE_PS].whole += (int64_t)matrix;
}

/* Between hosts whole gradients are summed by direct exchange, and factors go to all. What a host
 * computes is as in shared memory. */
static void cost_hosts(const struct sw_exchange_cost_args *t, struct sw_exchange_price *out)
{
    double ms[SW_EXCHANGE_MODES], k = t->workers, matrix = t->inputs * t->outputs;
    double factors_s =
        (k - 1) * t->rows / k * (t->inputs + t->outputs) * FLOAT_BYTES / t->link_bytes_per_s;

    cost_shared(t, ms);
    put(t, SW_EXCHANGE_PS, whole_s(t, matrix), ms[SW_EXCHANGE_PS] * 1e-3, out);
    put(t, SW_EXCHANGE_SFB, factors_s, ms[SW_EXCHANGE_SFB] * 1e-3, out);
    put(t, SW_EXCHANGE_ADAM, factors_s, ms[SW_EXCHANGE_ADAM] * 1e-3, out);
    out->link[SW_EXCHANGE_PS].whole += (int64_t)matrix;
}

void sw_exchange_cost(const struct sw_exchange_cost_args *t, struct sw_exchange_price *out)
{
    *out = (struct sw_exchange_price){.ms = {0}};

    if (t->hosts > 1)
        cost_hosts(t, out);
    else if (t->devices)
        cost_devices(t, out);
    else
        cost_shared(t, out->ms);
}

struct sw_exchange_count sw_exchange_count(enum sw_exchange_mode mode,
                                           const struct sw_exchange_cost_args *t, int64_t params)
{
    int64_t k = t->workers, rows = (int64_t)t->rows, in = (int64_t)t->inputs,
            out = (int64_t)t->outputs, servers = t->servers;
    struct sw_exchange_count c = {.moved = 2 * params * (t->reduces ? k - 1 : k),
                                  .counted = 2 * k * in * out};

    if (mode == SW_EXCHANGE_SFB)
        c = (struct sw_exchange_count){(k - 1) * rows * (in + out),
                                       (k - 1) * (k - 1) * rows * (in + out) / k};

    if (mode == SW_EXCHANGE_ADAM)
        c = (struct sw_exchange_count){rows * (out + servers * in) + k * params,
                                       rows * (in + out) + k * in * out};

    if (!t->devices)
        c.moved = 0;
    return c;
}
