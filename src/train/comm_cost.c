#include "train/comm_cost.h"

#include "train/choices.h"
#include "train/job_private.h"

#define FLOAT_BYTES ((double)sizeof(float))

/* Where there are factors a weight is plain, and the CPU's library multiplies by one in its own
 * layout quicker: what a product with it takes longer (9216 x 4096, 64 rows, Zen 5: a third). */
#define PLAIN_SHARE 0.35

/* Seconds that bytes take on a worker's link beyond what is computed meanwhile. */
static double exposed_s(const struct sw_comm_terms *t, double seconds)
{
    return seconds > t->hidden_s ? seconds - t->hidden_s : 0;
}

/* The product of the factors of so many rows. */
static double flops_of(const struct sw_comm_terms *t, double rows)
{
    return 2 * rows * t->inputs * t->outputs;
}

/* In shared memory nothing travels; what differs is who computes, and how often memory is passed
 * over: every gradient is written by its worker and read by a server, or made by the server. */
static void cost_shared(const struct sw_comm_terms *t, double ms[SW_COMM_WAYS])
{
    double bytes = t->inputs * t->outputs * FLOAT_BYTES, servers = t->servers, k = t->workers;
    double copied = t->rows / k * (t->inputs + t->outputs) * FLOAT_BYTES;
    double whole = flops_of(t, t->rows / k) / t->flops_per_s +
                   (bytes + k * bytes / servers) / t->memory_bytes_per_s;
    double forth_and_back = 2 * flops_of(t, t->rows / k) / t->flops_per_s;
    double factors = PLAIN_SHARE * forth_and_back +
                     flops_of(t, t->rows) / servers / t->server_flops_per_s +
                     (2 * copied + 2 * bytes / servers) / t->memory_bytes_per_s;
    ms[SW_COMM_PS] = whole * 1e3;
    ms[SW_COMM_SFB] = ms[SW_COMM_ADAM] = factors * 1e3;
}

static void cost_devices(const struct sw_comm_terms *t, double ms[SW_COMM_WAYS])
{
    double matrix_s = t->inputs * t->outputs * FLOAT_BYTES / t->link_bytes_per_s;
    double k = t->workers, own = t->rows / k, legs = t->peers ? 1 : 2;
    double row_s = (t->inputs + t->outputs) * FLOAT_BYTES / t->link_bytes_per_s;
    double all_s = t->reduces ? 2 * matrix_s * (k - 1) / k * legs : 2 * matrix_s;
    double to_servers_s =
        own * (t->servers * t->inputs + t->outputs) * FLOAT_BYTES / t->link_bytes_per_s;
    double made_s = flops_of(t, t->rows) / t->servers / t->server_flops_per_s;
    ms[SW_COMM_PS] = 1e3 * (flops_of(t, own) / t->flops_per_s + exposed_s(t, all_s));
    ms[SW_COMM_SFB] =
        1e3 * (flops_of(t, t->rows) / t->flops_per_s + exposed_s(t, own * (k - 1) * row_s * legs));
    ms[SW_COMM_ADAM] = 1e3 * exposed_s(t, to_servers_s + made_s + matrix_s);
}

void sw_comm_cost(const struct sw_comm_terms *t, double ms[SW_COMM_WAYS])
{
    if (t->devices)
        cost_devices(t, ms);
    else
        cost_shared(t, ms);
}

static struct sw_comm_terms terms_of(struct sw_job *job, const struct sw_net_comm_layer *l)
{
    int workers = job->topology->update_group_size;
    return (struct sw_comm_terms){.workers = workers,
                                  .servers = job->topology->servers_per_group,
                                  .rows = (double)(job->conf->batch * l->steps),
                                  .inputs = (double)l->inputs,
                                  .outputs = (double)l->outputs,
                                  .devices = job->topology->devices > 0,
                                  .reduces = sw_job_reduces(job),
                                  .peers = job->on_sim && job->sim.peer};
}

void sw_comm_predict(struct sw_job *job, const struct sw_net_comm_layer *l, double ms[SW_COMM_WAYS])
{
    const struct sw_rates *rates = sw_rates_of(job);
    struct sw_comm_terms t = terms_of(job, l);
    t.flops_per_s = rates->worker_flops_per_s;
    t.server_flops_per_s = rates->server_flops_per_s;
    t.memory_bytes_per_s = rates->memory_bytes_per_s;
    t.link_bytes_per_s = rates->link_bytes_per_s;
    /* Layers below go back while gradients travel, and forward before this one wants new values. */
    double flops = l->forward_flops_below;
    if (job->overlap == SW_OVERLAP_YES)
        flops += l->backward_flops_below;
    t.hidden_s = job->copy == SW_COPY_SYNC ? 0 : flops / t.flops_per_s;
    sw_comm_cost(&t, ms);
}

struct sw_comm_count sw_comm_count(enum sw_comm_way way, const struct sw_comm_terms *t,
                                   int64_t params)
{
    int64_t k = t->workers, rows = (int64_t)t->rows, in = (int64_t)t->inputs,
            out = (int64_t)t->outputs, servers = t->servers;
    struct sw_comm_count c = {.moved = 2 * params * (t->reduces ? k - 1 : k),
                              .counted = 2 * k * in * out};
    if (way == SW_COMM_SFB)
        c = (struct sw_comm_count){(k - 1) * rows * (in + out),
                                   (k - 1) * (k - 1) * rows * (in + out) / k};
    if (way == SW_COMM_ADAM)
        c = (struct sw_comm_count){rows * (out + servers * in) + k * params,
                                   rows * (in + out) + k * in * out};
    if (!t->devices)
        c.moved = 0;
    return c;
}
