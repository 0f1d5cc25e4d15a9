/* Annealed importance sampling as part of a metric: phases, and the estimate from the chains. */
#include "layers/share/ais.h"
#include "device/op.h"
#include <math.h>

/* Work per phase: phases are short so that the worker's heartbeat continues. */
#define PHASE_FLOPS 1e10

static size_t reserve(struct sw_layer *l, int64_t bytes)
{
    return sw_layer_reserve(&l->scratch_bytes, (size_t)bytes);
}

int sw_ais_setup(struct sw_ais *a, struct sw_layer *l, const struct sw_layer_setup *s,
                 const struct sw_ais_conf *c, const struct sw_ais_size *size, struct sw_err *err)
{
    if (c->chains > s->batch_rows)
        return sw_err_set(err, SW_ERR_INVALID,
                          "chains = %lld, but an evaluation batch has %lld rows: raise eval_batch "
                          "or lower chains",
                          (long long)c->chains, (long long)s->batch_rows);

    const int64_t rows = size->rows < c->chains ? size->rows : c->chains;
    const int64_t units = size->visible + size->hidden;
    const double step = 4.0 * (double)c->chains * (double)size->visible * (double)size->hidden;
    const double phases = ceil(step * (double)c->temperatures / PHASE_FLOPS);

    *a = (struct sw_ais){.conf = *c, .size = *size, .seed = s->seed};
    a->size.rows = rows;
    a->v_at = reserve(l, rows * size->visible * (int64_t)sizeof(float));
    a->h_at = reserve(l, rows * size->hidden * (int64_t)sizeof(float));
    a->weight_at = reserve(l, rows * (int64_t)sizeof(double));
    a->base_at = reserve(l, units * (int64_t)sizeof(float));
    a->blend_at = reserve(l, SW_AIS_TILES(rows) * units * (int64_t)sizeof(float));
    l->pair_count = 1 + (int)c->chains;
    l->phases.sums = (int)(units + 1);
    l->phases.forward = 1 + (phases < (double)c->temperatures ? (int)phases : (int)c->temperatures);

    return SW_OK;
}

int sw_ais_count(const struct sw_ais *a, struct sw_layer *l, const struct sw_pass *r,
                 const struct sw_ais_units *units, struct sw_err *err)
{
    const int64_t at = units->first + (units->hidden ? a->size.visible : 0);
    const struct sw_activity_args args = {.rows = units->rows,
                                          .columns = units->columns,
                                          .x = units->mean,
                                          .step = r->step,
                                          .sum = l->sums + at,
                                          .counted = l->sums + a->size.visible + a->size.hidden};

    return sw_op_run(r->stream, &sw_op_activity, &args, err);
}

int sw_ais_run(const struct sw_ais *a, struct sw_layer *l, const struct sw_pass *r,
               const struct sw_ais_args *machine, struct sw_err *err)
{
    const int64_t phases = l->phases.forward - 1;
    struct sw_ais_args args = *machine;

    if (r->phase == 0)
        return SW_OK;

    args.rows = a->size.rows;
    args.chains = a->conf.chains;
    args.visible = a->size.visible;
    args.hidden = a->size.hidden;
    args.first = a->conf.temperatures * (r->phase - 1) / phases;
    args.last = a->conf.temperatures * r->phase / phases;
    args.temperatures = a->conf.temperatures;
    args.activity = l->sums;
    args.seed = a->seed;
    args.id = l->id;
    args.runs = r->begins;
    args.step = r->step;
    args.v = sw_layer_at(l->scratch, a->v_at);
    args.h = sw_layer_at(l->scratch, a->h_at);
    args.base = sw_layer_at(l->scratch, a->base_at);
    args.blend = sw_layer_at(l->scratch, a->blend_at);
    args.log_weight = sw_layer_at(l->scratch, a->weight_at);
    args.result = l->result + 1;

    int rc = sw_op_run(r->stream, &sw_op_ais, &args, err);
    if (rc != SW_OK)
        return rc;

    /* Only the sums of phase 0 are used, but those of every phase are added up over the workers. */
    return sw_fill_zero(r->stream, l->sums, (size_t)l->phases.sums * sizeof *l->sums, err);
}

const char *const sw_ais_values[] = {"nats", "log_partition", "log_partition_low",
                                     "log_partition_high", NULL};

/* Returns the log of Z plus `errors` standard errors, of which the chains' weights are samples. */
static double log_partition(const struct sw_result *chain, int64_t chains, double errors)
{
    double most = -INFINITY, sum = 0, squares = 0, count = 0;

    for (int64_t i = 0; i < chains; i++)
        if (chain[i].weight > 0)
            most = fmax(most, chain[i].sum / chain[i].weight);

    for (int64_t i = 0; i < chains; i++)
        if (chain[i].weight > 0) {
            const double w = exp(chain[i].sum / chain[i].weight - most);
            sum += w;
            squares += w * w;
            count++;
        }

    if (count < 1 || (count < 2 && errors != 0))
        return (double)NAN;

    const double mean = sum / count;
    const double variance = count < 2 ? 0 : (squares - sum * mean) / (count - 1);
    const double z = mean + errors * sqrt(fmax(variance, 0) / count);

    return z > 0 ? most + log(z) : (double)NAN;
}

double sw_ais_value(const struct sw_result *total, int64_t chains, int which)
{
    static const double errors[] = {0, 0, -3, 3};
    const double log_z = log_partition(total + 1, chains, errors[which]);

    return which > 0 ? log_z : total->weight > 0 ? total->sum / total->weight - log_z : (double)NAN;
}
