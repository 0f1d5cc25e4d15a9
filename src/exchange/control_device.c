/* Update controller `device`: update control that needs all gradients
 * (exchange/table/update_control.c), on the devices that have them. With `copy = none` the device
 * measures every gradient, adds up the squares, and computes the scale that the following updates
 * read. Devices that have all sums compute the same result independently. Where a device lacks
 * some, because other workers own parts or may veto the update, the squares go to the host, which
 * sums them over all workers and sends them back.
 *
 * With one worker and no vote, update control is part of the step's own operations, and so of its
 * graph. Otherwise it follows the last backward pass, after the sums of the other workers have
 * arrived. The result is read back together with the loss and stored in the table, where everybody
 * looks it up. */
#include "base/os.h"
#include "base/str.h"
#include "device/op.h"
#include "exchange/exchange_private.h"
#include "kernels/ops/update.h"
#include <string.h>

struct sw_device_control {
    bool begun;   /* the ends of blocks are on the device */
    void *memory; /* owned device memory: */
    size_t bytes;
    double *totals;  /* sums of squares: [kinds][parameters], then those of the gradients of whole
                        parameters */
    int64_t *ends;   /* ends of the blocks: [kinds][parameters] */
    double *squares; /* [blocks] */
    void *host;      /* owned host memory, source and target of copies: */
    size_t host_bytes;
    double *host_totals;
    int64_t *host_ends;
    double *votes; /* owned [reduction leaves of the worker][totals and the veto] */
};

/* What is measured: the gradient of each parameter and, where the updater needs norms, its value.
 */
static int kinds(const struct sw_table *t)
{
    return sw_table_updater(t)->needs_norms ? 2 : 1;
}

static bool takes(const struct sw_exchange_args *a)
{
    return sw_table_is_controlled_on_device(a->table);
}

static int64_t blocks_of(const struct sw_table *t, int worker, int param)
{
    const struct sw_param *p = sw_table_param(t, param);
    return p->frozen || !sw_table_contributes(t, param, worker)
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

/* Totals: [kinds][parameters], followed by those of the gradients of whole parameters. */
static size_t total_count(const struct sw_table *t)
{
    return (size_t)((kinds(t) + 1) * sw_table_count(t));
}

static size_t end_count(const struct sw_table *t)
{
    return (size_t)(kinds(t) * sw_table_count(t));
}

int sw_exchange_vote_count(const struct sw_table *t)
{
    return sw_table_is_controlled_on_device(t) ? (int)end_count(t) + 1 : 0;
}

struct sw_exchange_bytes sw_device_control_bytes(const struct sw_exchange_args *a)
{
    const struct sw_table *t = a->table;

    if (!a->own_memory || !takes(a))
        return (struct sw_exchange_bytes){0};
    return (struct sw_exchange_bytes){
        .device =
            (total_count(t) + end_count(t) + (size_t)all_blocks(t, a->worker)) * sizeof(double),
        .host = (end_count(t) + total_count(t)) * sizeof(double)};
}

static void fill_ends(const struct sw_exchange *x)
{
    const struct sw_table *t = x->args.table;
    int params = sw_table_count(t);
    int64_t end = 0;

    for (int i = 0; i < kinds(t) * params; i++)
        x->control_state->host_ends[i] = end += blocks_of(t, x->args.worker, i % params);
}

static int attach(struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_table *t = x->args.table;
    const struct sw_exchange_bytes bytes = sw_device_control_bytes(&x->args);

    if (!x->args.own_memory)
        return sw_err_set(err, SW_ERR_INVALID,
                          "update control on the device needs a worker with device memory");

    struct sw_device_control *d = sw_calloc(1, sizeof *d);
    int first, leaves;

    sw_table_leaves(t, x->args.worker, &first, &leaves);

    size_t votes = (end_count(t) + 1) * (size_t)leaves * sizeof *d->votes;
    x->control_state = d;
    if (d)
        d->votes = sw_calloc(1, votes);
    if (!d || !d->votes)
        return sw_err_nomem(err, "norms of gradients", votes);

    d->bytes = bytes.device;
    d->host_bytes = bytes.host;

    int rc =
        sw_device_host_alloc(x->args.device, d->host_bytes, "norms of gradients", &d->host, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_device_alloc(x->args.device, d->bytes, "norms of gradients", &d->memory, err);
    if (rc != SW_OK)
        return rc;

    d->totals = d->memory;
    d->ends = (int64_t *)(void *)(d->totals + total_count(t));
    d->squares = (double *)(void *)(d->ends + end_count(t));
    d->host_totals = d->host;
    d->host_ends = (int64_t *)(void *)(d->host_totals + total_count(t));
    memset(d->host, 0, d->host_bytes);
    fill_ends(x);
    sw_device_name(x->args.device, d->memory, d->bytes, "norms of gradients");

    return SW_OK;
}

static void detach(struct sw_exchange *x)
{
    struct sw_device_control *d = x->control_state;

    if (!d)
        return;

    sw_device_free(x->args.device, d->memory, d->bytes);
    sw_device_host_free(x->args.device, d->host, d->host_bytes);
    sw_free(d->votes);
    sw_free(d);
}

static int begin(struct sw_exchange *x, uint64_t version, double *scale, struct sw_err *err)
{
    struct sw_device_control *d = x->control_state;
    const struct sw_device_report *r = &x->report;

    int rc = sw_device_update_begin(x, version, err);
    if (rc != SW_OK)
        return rc;

    *scale = sw_table_loss_scale(x->args.table, 0);

    struct sw_update_control_input *known = sw_device_report_on_host(r, r->known, 0);
    *known = (struct sw_update_control_input){.loss_scale = *scale};

    rc = sw_copy(x->args.stream, r->known, known, sizeof *r->known, err);
    if (rc != SW_OK || d->begun)
        return rc;

    d->begun = true;
    return sw_copy(x->args.stream, d->ends, d->host_ends,
                   end_count(x->args.table) * sizeof *d->ends, err);
}

/* ---- Measures ---- */

int64_t sw_device_control_first_square(const struct sw_port *p)
{
    const struct sw_device_control *d = p->x->control_state;

    return d && p->param > 0 ? d->host_ends[p->param - 1] : 0;
}

static int measure_list(const struct sw_exchange *x, const struct sw_update_list *list, int kind,
                        struct sw_err *err)
{
    const struct sw_device_control *d = x->control_state;
    const struct sw_table *t = x->args.table;
    const int64_t blocks = all_blocks(t, x->args.worker) / kinds(t);
    const struct sw_measure_args a = {.x = kind == 0 ? list->at.gradient : list->at.value,
                                      .numbers = list->at.numbers,
                                      .elements = list->elements,
                                      .chunks = list->chunks,
                                      .params = list->count,
                                      .limit = kind == 0 ? sw_table_clip_value(t) : 0,
                                      .known = x->report.known,
                                      .squares = d->squares + kind * blocks,
                                      .blocks = blocks};

    return sw_op_run(x->args.stream, &sw_op_measure, &a, err);
}

static bool updates(const struct sw_exchange *x, const struct sw_update_list *list)
{
    return sw_exchange_listed(x, list, 0)->route->updates_on_device;
}

static int measure(const struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_device_control *d = x->control_state;
    const struct sw_table *t = x->args.table;
    const int64_t blocks = all_blocks(t, x->args.worker); /* 0: other workers own all parameters */
    const struct sw_norm_totals_args all = {.squares = blocks > 0 ? d->squares : NULL,
                                            .ends = d->ends,
                                            .totals = d->totals,
                                            .blocks = blocks,
                                            .arrays = (int)end_count(t)};

    for (int kind = 0; kind < kinds(t); kind++)
        for (int i = 0; i < x->list_count; i++) {
            int rc = updates(x, &x->lists[i]) ? measure_list(x, &x->lists[i], kind, err) : SW_OK;
            if (rc != SW_OK)
                return rc;
        }

    return sw_op_run(x->args.stream, &sw_op_norm_totals, &all, err);
}

/* ---- Votes of all workers ---- */

/* One worker contributes a parameter's norm to the sum: its owner or, for a replicated parameter,
 * whose norm all workers know, worker 0. */
static bool speaks_for(const struct sw_exchange *x, int param)
{
    int owner = sw_table_param(x->args.table, param)->owner;

    return owner < 0 ? x->args.worker == 0 : owner == x->args.worker;
}

static void fill_votes(const struct sw_exchange *x, bool veto)
{
    const struct sw_table *t = x->args.table;
    struct sw_device_control *d = x->control_state;
    int first, leaves, count = sw_exchange_vote_count(t);

    sw_table_leaves(t, x->args.worker, &first, &leaves);
    memset(d->votes, 0, (size_t)(count * leaves) * sizeof *d->votes);
    for (int i = 0; i + 1 < count; i++)
        d->votes[i] = speaks_for(x, i % sw_table_count(t)) ? d->host_totals[i] : 0;
    d->votes[count - 1] = veto;
}

/* Sums over all parts of the parameter, which share one norm. */
static double whole(const struct sw_table *t, const double *sums, int param)
{
    const struct sw_param *p = sw_table_param(t, param);
    double sum = 0;

    for (int k = 0; k < sw_table_count(t); k++)
        if (k == param || (p->part_whole && sw_str_eq(sw_table_param(t, k)->name, p->name)))
            sum += sums[k];

    return sum;
}

/* Uploads the sums over all workers to the device. */
static int send_totals(struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_table *t = x->args.table;
    const struct sw_device_report *r = &x->report;
    struct sw_device_control *d = x->control_state;
    struct sw_update_control_input *known = sw_device_report_on_host(r, r->known, 0);
    int params = sw_table_count(t), many = kinds(t);

    for (int p = 0; p < params; p++) {
        d->host_totals[p] = d->votes[p];
        d->host_totals[many * params + p] = whole(t, d->votes, p);
        if (many > 1)
            d->host_totals[params + p] = whole(t, d->votes + params, p);
    }

    known->vetoes = d->votes[many * params];

    int rc =
        sw_copy(x->args.stream, d->totals, d->host_totals, total_count(t) * sizeof *d->totals, err);
    if (rc != SW_OK)
        return rc;

    return sw_copy(x->args.stream, r->known, known, sizeof *r->known, err);
}

static int vote(struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_exchange_hooks *h = &x->args.hooks;
    struct sw_device_control *d = x->control_state;
    bool finite;

    int rc = sw_copy(x->args.stream, d->host_totals, d->totals,
                     end_count(x->args.table) * sizeof *d->totals, err);
    if (rc != SW_OK)
        return rc;
    rc = h->finish(h->user, true, err);
    if (rc != SW_OK)
        return rc;
    rc = h->finite(h->user, &finite, err);
    if (rc != SW_OK)
        return rc;

    fill_votes(x, !finite);
    rc = h->sum(h->user, d->votes, sw_exchange_vote_count(x->args.table), err);
    if (rc != SW_OK)
        return rc;

    return send_totals(x, err);
}

/* ---- The result ---- */

/* Computes the learning rates where the updater derives them from norms. */
static int adapt(const struct sw_exchange *x, const struct sw_update_list *list, struct sw_err *err)
{
    const double *totals = x->control_state->totals;
    int params = sw_table_count(x->args.table);
    const struct sw_rate_args a = {.value_squares = totals + params,
                                   .gradient_squares = totals + (x->args.votes ? 2 * params : 0),
                                   .control = x->report.control,
                                   .numbers = list->at.numbers,
                                   .totals = params,
                                   .params = list->count};

    return kinds(x->args.table) > 1 ? sw_op_run(x->args.stream, &sw_op_rate, &a, err) : SW_OK;
}

/* Queues update control and all updates. Runs nothing on the host, so it may be captured. */
static int control(struct sw_exchange *x, struct sw_err *err)
{
    const struct sw_update_control_args a = {.squares = x->control_state->totals,
                                             .params = sw_table_count(x->args.table),
                                             .clip_norm = sw_table_clip_norm(x->args.table),
                                             .known = x->report.known,
                                             .control = x->report.control};

    int rc = sw_op_run(x->args.stream, &sw_op_update_control, &a, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < x->list_count; i++) {
        const struct sw_update_list *list = &x->lists[i];
        if (!updates(x, list))
            continue;
        rc = adapt(x, list, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_device_update_queue(x, list, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Can this worker decide alone, without gradients or votes of others? */
static bool is_queued(const struct sw_exchange *x)
{
    if (x->args.votes || !x->args.overlap)
        return false;

    for (int i = 0; i < x->count; i++)
        if (!x->ports[i].route->device_only)
            return false;

    return true;
}

static int queue(struct sw_exchange *x, struct sw_err *err)
{
    int rc = measure(x, err);
    if (rc != SW_OK)
        return rc;
    return control(x, err);
}

/* Update control where gradients of other workers are needed: pulls all sums first. */
static int gather_and_control(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    int rc = sw_exchange_gather(x, version, err);
    if (rc != SW_OK)
        return rc;

    rc = measure(x, err);
    if (rc != SW_OK)
        return rc;

    if (x->args.votes)
        rc = vote(x, err);
    if (rc != SW_OK)
        return rc;

    sw_exchange_begin_updates(x);
    return control(x, err);
}

static int end(struct sw_exchange *x, uint64_t version, struct sw_err *err)
{
    int rc = is_queued(x) ? SW_OK : gather_and_control(x, version, err);
    return rc == SW_OK ? sw_exchange_end_updates(x, version, err) : rc;
}

/* Votes are counted on the host, which also verifies the sums of whole steps. With a loss scale it
 * is the host, too, that computes what follows from a dropped update: the scale of the next step,
 * and constants of updates that count those made (the bias corrections of adam). */
static bool waits(const struct sw_exchange *x)
{
    return x->args.votes || x->args.whole_steps || sw_table_scales(x->args.table);
}

static int finish(struct sw_exchange *x, uint64_t version, int behind, struct sw_err *err)
{
    const struct sw_device_report *r = &x->report;

    return sw_table_settle(x->args.table, sw_device_report_on_host(r, r->control, behind), version,
                           err);
}

const struct sw_update_controller sw_control_device = {.name = "device",
                                                       .takes = takes,
                                                       .two_phase = true,
                                                       .at_end = true,
                                                       .waits = waits,
                                                       .attach = attach,
                                                       .detach = detach,
                                                       .begin = begin,
                                                       .is_queued = is_queued,
                                                       .queue = queue,
                                                       .end = end,
                                                       .finish = finish};
