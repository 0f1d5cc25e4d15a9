/* Gradients that are made out of factors (base/comm_way.h): a device gives the factors of its rows.
 * They go to every server that owns outputs of the layer, into its own arrays, and the servers are
 * told when all pieces are there; or to all other devices, and each makes the gradients from those
 * of all rows when it wants the next values. Both while the layers below compute. */
#include "device/op.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"
#include "train/replica_private.h"

#include "base/os.h"

enum { LINE = 64 };

static struct sw_given_factors *find(const struct sw_replica *r, int param)
{
    return &r->factors[sw_table_param(r->args.table, param)->factors];
}

static size_t line_bytes(int64_t elements)
{
    return ((size_t)elements * sizeof(float) + LINE - 1) / LINE * LINE;
}

size_t sw_replica_factor_bytes(const struct sw_table *t, int64_t most_rows)
{
    size_t bytes = 0;
    for (int i = 0; i < sw_table_factor_count(t); i++) {
        const struct sw_table_factors *f = sw_table_factors_at(t, i);
        if (f->home == SW_FACTORS_BY_SERVER)
            bytes += line_bytes(most_rows * f->steps * f->inputs) +
                     line_bytes(most_rows * f->steps * f->outputs);
    }
    return bytes;
}

static int take_stage(struct sw_replica *r, struct sw_err *err)
{
    size_t bytes = sw_replica_factor_bytes(r->args.table, r->args.most_rows);
    void *memory = NULL;
    int rc = bytes ? sw_device_alloc(r->args.device, bytes, "factors of gradients", &memory, err)
                   : SW_OK;
    r->stage = memory;
    sw_device_name(r->args.device, memory, bytes, "factors of gradients");
    return rc;
}

/* A bias may be frozen, a weight with factors is not. */
static int params_of(const struct sw_replica *r, const struct sw_table_factors *f)
{
    return 1 + (f->bias >= 0 && !sw_table_param(r->args.table, f->bias)->frozen);
}

int sw_replica_make_factors(struct sw_replica *r, struct sw_err *err)
{
    int count = sw_table_factor_count(r->args.table), exchanged = 0;
    r->factors = sw_calloc((size_t)count + 1, sizeof *r->factors);
    if (!r->factors)
        return sw_err_nomem(err, "a replica", (size_t)count * sizeof *r->factors);
    int rc = take_stage(r, err);
    char *at = (char *)r->stage;
    for (int i = 0; i < count && rc == SW_OK; i++) {
        const struct sw_table_factors *f = sw_table_factors_at(r->args.table, i);
        struct sw_given_factors *g = &r->factors[i];
        bool elsewhere = f->home == SW_FACTORS_ELSEWHERE;
        *g = (struct sw_given_factors){
            .owner = r, .of = f, .layer = elsewhere ? exchanged++ : -1, .params = params_of(r, f)};
        if (!elsewhere) {
            g->x = (float *)(void *)at;
            at += line_bytes(r->args.most_rows * f->steps * f->inputs);
            g->dy = (float *)(void *)at;
            at += line_bytes(r->args.most_rows * f->steps * f->outputs);
        }
        rc = sw_event_new(r->args.device, &g->made, err);
        if (rc == SW_OK)
            rc = sw_event_new(r->args.device, &g->sent, err);
    }
    return rc;
}

void sw_replica_free_factors(struct sw_replica *r)
{
    int count = sw_table_factor_count(r->args.table);
    for (int i = 0; i < count && r->factors; i++) {
        sw_event_free(r->args.device, r->factors[i].made);
        sw_event_free(r->args.device, r->factors[i].sent);
    }
    sw_device_free(r->args.device, r->stage,
                   sw_replica_factor_bytes(r->args.table, r->args.most_rows));
    sw_free(r->factors);
}

void sw_replica_set_rows(struct sw_replica *r, int64_t first, int64_t rows)
{
    r->first_row = first;
    r->rows = rows;
    for (int i = 0; i < sw_table_factor_count(r->args.table); i++) {
        struct sw_given_factors *g = &r->factors[i];
        if (g->layer < 0)
            continue;
        g->x = sw_factors_x(r->args.factors, r->args.rank, g->layer) +
               first * g->of->steps * g->of->inputs;
        g->dy = sw_factors_dy(r->args.factors, r->args.rank, g->layer) +
                first * g->of->steps * g->of->outputs;
    }
}

float *sw_replica_factor_x(const struct sw_replica *r, int param)
{
    return find(r, param)->x;
}

float *sw_replica_factor_dy(const struct sw_replica *r, int param)
{
    return find(r, param)->dy;
}

/* ---- To servers ---- */

/* On a thread of the device: a piece is on the host, and with the last one the factors are. Else
 * the worker is told why, by the call that met the error. */
static void on_sent(void *user, int rc)
{
    struct sw_given_factors *g = user;
    struct sw_replica *r = g->owner;
    const int params[] = {g->of->weight, g->params > 1 ? g->of->bias : -1};
    struct sw_err err;
    /* The pieces' bytes were written by this thread, or are acquired from those who did. */
    if (rc != SW_OK || __atomic_sub_fetch(&g->missing, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (int i = 0; i < g->params && rc == SW_OK; i++)
        rc = sw_table_update(r->args.table, r->args.worker, params[i], g->gives, &err);
    if (rc != SW_OK && rc != SW_ERR_CANCELLED)
        sw_fault_set(r->args.fault, r->args.unit, &err);
}

/* So many rows of `columns` values, whose first is at `at` of the arrays' rows. */
static int push(struct sw_given_factors *g, float *dst, const float *src, int64_t width,
                int64_t columns, struct sw_err *err)
{
    struct sw_replica *r = g->owner;
    int64_t rows = r->rows * g->of->steps;
    struct sw_copy_event e = {.direction = SW_COPY_TO_HOST,
                              .dst = dst,
                              .src = src,
                              .bytes = (size_t)columns * sizeof *dst,
                              .rows = rows,
                              .dst_pitch = (size_t)width * sizeof *dst,
                              .src_pitch = (size_t)width * sizeof *dst,
                              .priority = r->item_of[g->of->weight],
                              .after = g->made,
                              .then = g->sent,
                              .done = on_sent,
                              .user = g};
    if (columns == width) {
        e.bytes *= (size_t)rows;
        e.rows = 1;
    }
    return sw_copy_queue_push(r->queue, &e, err);
}

/* What one server needs. */
static int send_to(struct sw_given_factors *g, int server, struct sw_err *err)
{
    const struct sw_replica *r = g->owner;
    const struct sw_table_factors *f = g->of;
    int party = sw_table_party(r->args.table, r->args.worker);
    int64_t row = r->first_row * f->steps, first, outputs;
    sw_table_factor_range(r->args.table, f, server, &first, &outputs);
    if (outputs == 0)
        return SW_OK;
    float *x = sw_table_factor_x(r->args.table, f, party, server) + row * f->inputs;
    float *dy = sw_table_factor_dy(r->args.table, f, party, server) + row * f->outputs;
    int rc = push(g, x, g->x, f->inputs, f->inputs, err);
    return rc == SW_OK ? push(g, dy + first, g->dy + first, f->outputs, outputs, err) : rc;
}

/* x and a part of dy for every server that owns outputs. */
static int pieces_of(const struct sw_table *t, const struct sw_table_factors *f)
{
    int pieces = 0;
    for (int s = 0; s < sw_table_servers(t) && f->home == SW_FACTORS_BY_SERVER; s++) {
        int64_t first, outputs;
        sw_table_factor_range(t, f, s, &first, &outputs);
        pieces += outputs ? 2 : 0;
    }
    return pieces;
}

int sw_replica_factor_copies(const struct sw_replica *r)
{
    int copies = 0;
    for (int i = 0; i < sw_table_factor_count(r->args.table); i++)
        copies += pieces_of(r->args.table, sw_table_factors_at(r->args.table, i));
    return copies;
}

static int send_to_servers(struct sw_given_factors *g, uint64_t version, struct sw_err *err)
{
    struct sw_replica *r = g->owner;
    int rc = sw_event_record(r->args.stream, g->made, err);
    g->gives = version;
    __atomic_store_n(&g->missing, pieces_of(r->args.table, g->of), __ATOMIC_RELAXED);
    for (int s = 0; s < sw_table_servers(r->args.table) && rc == SW_OK; s++)
        rc = send_to(g, s, err);
    if (rc == SW_OK)
        rc = sw_copy_queue_drain(r->queue, err);
    return rc == SW_OK ? sw_replica_settle(r, err) : rc;
}

struct sw_event *sw_replica_factors_made(const struct sw_replica *r, int param)
{
    return find(r, param)->made;
}

int sw_replica_wait_sent(const struct sw_replica *r, int param, struct sw_err *err)
{
    if (!sw_table_factors_of(r->args.table, param))
        return SW_OK;
    return sw_event_wait(r->args.stream, find(r, param)->sent, err);
}

/* ---- To other devices ---- */

static uint64_t round_of(const struct sw_replica *r, uint64_t version)
{
    return version - (uint64_t)r->base;
}

int sw_replica_give_factors(struct sw_replica *r, const struct sw_replica_item *item,
                            uint64_t version, struct sw_err *err)
{
    struct sw_given_factors *g = find(r, item->param);
    /* Backward of the layer has made them all: with the first of its parameters they go. */
    bool first = g->given == 0;
    g->given = (g->given + 1) % g->params;
    if (!first)
        return SW_OK;
    return g->layer < 0 ? send_to_servers(g, version, err)
                        : sw_factors_give(r->args.factors, r->args.rank, g->layer,
                                          round_of(r, version), r->args.stream, err);
}

int sw_replica_wait_factors(const struct sw_replica *r, int param, uint64_t version, int timeout_ms)
{
    return sw_factors_wait(r->args.factors, find(r, param)->layer, round_of(r, version),
                           timeout_ms);
}

int sw_replica_remake(struct sw_replica *r, const struct sw_replica_item *item, uint64_t version,
                      struct sw_err *err)
{
    struct sw_given_factors *g = find(r, item->param);
    const struct sw_table_factors *f = g->of;
    const float *x = sw_factors_x(r->args.factors, r->args.rank, g->layer),
                *dy = sw_factors_dy(r->args.factors, r->args.rank, g->layer);
    int rc = SW_OK;
    if (g->taken < round_of(r, version)) {
        g->taken = round_of(r, version);
        rc = sw_factors_take(r->args.factors, g->layer, r->args.stream, err);
    }
    const struct sw_gemm_args weight = {.trans_a = true,
                                        .m = f->outputs,
                                        .n = f->inputs,
                                        .k = f->rows,
                                        .alpha = 1,
                                        .a = dy,
                                        .b = x,
                                        .c = item->at.gradient};
    const struct sw_sum_rows_args bias = {
        .rows = f->rows, .columns = f->outputs, .x = dy, .sum = item->at.gradient};
    if (rc != SW_OK)
        return rc;
    return item->param == f->weight ? sw_op_run(r->args.stream, &sw_op_gemm, &weight, err)
                                    : sw_op_run(r->args.stream, &sw_op_sum_rows, &bias, err);
}
