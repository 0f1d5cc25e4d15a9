/* Decisions that need all gradients (param/decide.c), made where these are: with `copy = none`
 * every gradient is measured on the device, the measures are added up there, and what follows from
 * them is read by the updates behind it. Devices that have all sums come to the same decision, each
 * for itself. Where a device lacks some, because other workers have parts of their own or a word to
 * say about their losses, sums go to the host, which adds up those of all workers, and back. */
#include "base/os.h"
#include "base/str.h"
#include "device/op.h"
#include "kernels/ops/update.h"
#include "train/replica_private.h"
#include <string.h>

/* What is measured of each parameter: its gradient, and where updaters ask for norms its value. */
static int kinds(const struct sw_table *t)
{
    return sw_table_updater(t)->needs_norms ? 2 : 1;
}

static int64_t blocks_of(const struct sw_table *t, int worker, int param)
{
    const struct sw_param *p = sw_table_param(t, param);
    return p->frozen || !sw_table_gives(t, param, worker)
               ? 0
               : sw_norm_blocks(sw_desc_storage(&p->layout));
}

static int64_t all_blocks(const struct sw_table *t, int worker)
{
    int64_t blocks = 0;
    for (int p = 0; p < sw_table_count(t); p++)
        blocks += blocks_of(t, worker, p);
    return blocks * kinds(t);
}

/* Totals: [kinds][parameters], and behind them the gradients' of whole parameters. */
static size_t total_count(const struct sw_table *t)
{
    return (size_t)((kinds(t) + 1) * sw_table_count(t));
}

static size_t end_count(const struct sw_table *t)
{
    return (size_t)(kinds(t) * sw_table_count(t));
}

int sw_replica_sum_count(const struct sw_table *t)
{
    return sw_table_is_decided_elsewhere(t) ? (int)end_count(t) + 1 : 0;
}

static bool decides(const struct sw_table *t, enum sw_copy_mode mode)
{
    return mode == SW_COPY_NONE && sw_table_is_decided_elsewhere(t);
}

size_t sw_replica_norm_bytes(const struct sw_table *t, int worker, enum sw_copy_mode mode)
{
    size_t numbers = total_count(t) + end_count(t) + (size_t)all_blocks(t, worker);
    return decides(t, mode) ? numbers * sizeof(double) : 0;
}

size_t sw_replica_norm_mail_bytes(const struct sw_table *t, enum sw_copy_mode mode)
{
    return decides(t, mode) ? (end_count(t) + total_count(t)) * sizeof(double) : 0;
}

bool sw_replica_decides(const struct sw_replica *r)
{
    return r->norms.decides;
}

bool sw_replica_exchanges(const struct sw_replica *r)
{
    return r->norms.decides && r->args.exchanges;
}

bool sw_replica_decides_alone(const struct sw_replica *r)
{
    bool alone = r->norms.decides && !r->args.exchanges;
    for (int i = 0; i < r->count && alone; i++)
        alone = sw_table_param(r->args.table, r->items[i].param)->frozen ||
                sw_replica_is_own(r, r->items[i].param);
    return alone;
}

static void fill_ends(const struct sw_replica *r)
{
    const struct sw_table *t = r->args.table;
    int64_t end = 0;
    int params = sw_table_count(t);
    for (int i = 0; i < kinds(t) * params; i++)
        r->norms.ends_here[i] = end += blocks_of(t, r->args.worker, i % params);
}

int sw_replica_make_norms(struct sw_replica *r, struct sw_err *err)
{
    const struct sw_table *t = r->args.table;
    struct sw_replica_norms *n = &r->norms;
    int first, leaves;
    n->decides = decides(t, r->args.mode);
    if (!n->decides)
        return SW_OK;
    sw_table_leaves(t, r->args.worker, &first, &leaves);
    size_t sums = (end_count(t) + 1) * (size_t)leaves * sizeof *n->sums;
    n->here_bytes = sw_replica_norm_mail_bytes(t, r->args.mode);
    n->bytes = sw_replica_norm_bytes(t, r->args.worker, r->args.mode);
    n->sums = sw_calloc(1, sums);
    if (!n->sums)
        return sw_err_nomem(err, "norms of gradients", sums);
    int rc =
        sw_device_host_alloc(r->args.device, n->here_bytes, "norms of gradients", &n->here, err);
    if (rc == SW_OK)
        rc = sw_device_alloc(r->args.device, n->bytes, "norms of gradients", &n->there, err);
    if (rc != SW_OK)
        return rc;
    n->totals = n->there;
    n->ends = (int64_t *)(void *)(n->totals + total_count(t));
    n->squares = (double *)(void *)(n->ends + end_count(t));
    n->totals_here = n->here;
    n->ends_here = (int64_t *)(void *)(n->totals_here + total_count(t));
    memset(n->here, 0, n->here_bytes);
    fill_ends(r);
    sw_device_name(r->args.device, n->there, n->bytes, "norms of gradients");
    return SW_OK;
}

void sw_replica_free_norms(struct sw_replica *r)
{
    struct sw_replica_norms *n = &r->norms;
    sw_device_free(r->args.device, n->there, n->bytes);
    sw_device_host_free(r->args.device, n->here, n->here_bytes);
    sw_free(n->sums);
}

int sw_replica_begin_norms(struct sw_replica *r, struct sw_err *err)
{
    struct sw_replica_norms *n = &r->norms;
    *n->sent = (struct sw_deciding){.loss_scale = sw_table_loss_scale(r->args.table, 0)};
    int rc = sw_copy(r->args.stream, n->known, n->sent, sizeof *n->sent, err);
    if (rc == SW_OK && !n->begun)
        rc = sw_copy(r->args.stream, n->ends, n->ends_here,
                     end_count(r->args.table) * sizeof *n->ends, err);
    n->begun = true;
    return rc;
}

/* ---- Measures ---- */

static bool is_trained(const struct sw_replica *r, const struct sw_replica_item *item)
{
    return !sw_table_param(r->args.table, item->param)->frozen;
}

static int measure_item(const struct sw_replica *r, const struct sw_replica_item *item, int kind,
                        struct sw_err *err)
{
    const struct sw_table *t = r->args.table;
    int at = kind * sw_table_count(t) + item->param;
    const struct sw_measure_args a = {
        .x = kind == 0 ? item->at.gradient : item->at.value,
        .count = sw_desc_storage(&sw_table_param(t, item->param)->layout),
        .limit = kind == 0 ? sw_table_clip_value(t) : 0,
        .known = r->norms.known,
        .squares = r->norms.squares + (at > 0 ? r->norms.ends_here[at - 1] : 0)};
    return sw_op_run(r->args.stream, &sw_op_measure, &a, err);
}

int sw_replica_measure(struct sw_replica *r, struct sw_err *err)
{
    const struct sw_table *t = r->args.table;
    const int64_t blocks = all_blocks(t, r->args.worker); /* none: others have all parameters */
    const struct sw_norm_totals_args all = {.squares = blocks > 0 ? r->norms.squares : NULL,
                                            .ends = r->norms.ends,
                                            .totals = r->norms.totals,
                                            .blocks = blocks,
                                            .arrays = (int)end_count(t)};
    int rc = SW_OK;
    for (int kind = 0; kind < kinds(t); kind++)
        for (int i = 0; i < r->count && rc == SW_OK; i++)
            if (is_trained(r, &r->items[i]))
                rc = measure_item(r, &r->items[i], kind, err);
    return rc == SW_OK ? sw_op_run(r->args.stream, &sw_op_norm_totals, &all, err) : rc;
}

/* ---- Sums of all workers ---- */

int sw_replica_fetch_totals(struct sw_replica *r, struct sw_err *err)
{
    return sw_copy(r->args.stream, r->norms.totals_here, r->norms.totals,
                   end_count(r->args.table) * sizeof *r->norms.totals, err);
}

/* Of what all have the first worker speaks. */
static bool speaks_for(const struct sw_replica *r, int param)
{
    int owner = sw_table_param(r->args.table, param)->owner;
    return owner < 0 ? r->args.worker == 0 : owner == r->args.worker;
}

double *sw_replica_totals(struct sw_replica *r, bool veto, int *count)
{
    const struct sw_table *t = r->args.table;
    int params = sw_table_count(t), first, leaves;
    *count = sw_replica_sum_count(t);
    sw_table_leaves(t, r->args.worker, &first, &leaves);
    memset(r->norms.sums, 0, (size_t)(*count * leaves) * sizeof *r->norms.sums);
    for (int i = 0; i + 1 < *count; i++)
        r->norms.sums[i] = speaks_for(r, i % params) ? r->norms.totals_here[i] : 0;
    r->norms.sums[*count - 1] = veto;
    return r->norms.sums;
}

/* Parts of one parameter have one norm. */
static double whole(const struct sw_table *t, const double *sums, int param)
{
    const struct sw_param *p = sw_table_param(t, param);
    double sum = 0;
    for (int k = 0; k < sw_table_count(t); k++)
        if (k == param || (p->part_whole && sw_str_eq(sw_table_param(t, k)->name, p->name)))
            sum += sums[k];
    return sum;
}

int sw_replica_send_totals(struct sw_replica *r, struct sw_err *err)
{
    const struct sw_table *t = r->args.table;
    struct sw_replica_norms *n = &r->norms;
    int params = sw_table_count(t), many = kinds(t);
    for (int p = 0; p < params; p++) {
        n->totals_here[p] = n->sums[p];
        n->totals_here[many * params + p] = whole(t, n->sums, p);
        if (many > 1)
            n->totals_here[params + p] = whole(t, n->sums + params, p);
    }
    n->sent->vetoes = n->sums[many * params];
    int rc =
        sw_copy(r->args.stream, n->totals, n->totals_here, total_count(t) * sizeof *n->totals, err);
    return rc == SW_OK ? sw_copy(r->args.stream, n->known, n->sent, sizeof *n->sent, err) : rc;
}

/* ---- The decision ---- */

/* The rate of a parameter whose updater has one by norms. */
static int adapt(const struct sw_replica *r, const struct sw_replica_item *item, struct sw_err *err)
{
    int params = sw_table_count(r->args.table);
    const double *totals = r->norms.totals;
    const struct sw_rate_args a = {.value_squares = totals + params + item->param,
                                   .gradient_squares =
                                       totals + (r->args.exchanges ? 2 * params : 0) + item->param,
                                   .decided = r->norms.decided,
                                   .numbers = item->at.numbers};
    return kinds(r->args.table) > 1 ? sw_op_run(r->args.stream, &sw_op_rate, &a, err) : SW_OK;
}

int sw_replica_decide(struct sw_replica *r, uint64_t version, struct sw_err *err)
{
    const struct sw_decide_args a = {.squares = r->norms.totals,
                                     .params = sw_table_count(r->args.table),
                                     .clip_norm = sw_table_clip_norm(r->args.table),
                                     .known = r->norms.known,
                                     .decided = r->norms.decided};
    int rc = sw_op_run(r->args.stream, &sw_op_decide, &a, err);
    for (int i = 0; i < r->count && rc == SW_OK; i++) {
        if (!is_trained(r, &r->items[i]))
            continue;
        rc = adapt(r, &r->items[i], err);
        if (rc == SW_OK)
            rc = sw_replica_update_there(r, &r->items[i], version, err);
    }
    return rc;
}

void sw_replica_went_on(struct sw_replica *r, uint64_t version)
{
    for (int i = 0; i < r->count; i++)
        if (is_trained(r, &r->items[i]))
            r->items[i].has = (int64_t)version;
}

const struct sw_decided *sw_replica_decided(const struct sw_replica *r)
{
    return r->norms.told;
}
