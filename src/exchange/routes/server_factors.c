/* Routes `mirror-factors` and `server-sum-factors`: like mirror and server-sum, but the factors of
 * a layer's gradients go to the host (as in Microsoft's Project Adam; see Poseidon, section 4.3.1).
 * Every server that owns outputs of the layer gets x and its outputs' columns of dy in arrays of
 * its own, and makes its slices of the gradient. The push of the weight sends the factors for
 * weight and bias. */
#include "base/os.h"
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

enum { LINE = 64 };

/* Device memory for the factors of one layer, of this worker's rows. */
struct factors {
    float *x, *dy;
};
struct state {
    void *memory; /* owned device memory */
    size_t bytes;
    struct factors layer[]; /* [factors of the table] */
};

static bool sends_factors(const struct sw_route_query *q)
{
    const struct sw_table_factors *f = sw_table_factors_of(q->table, q->param);

    return f && f->home == SW_FACTORS_BY_SERVER;
}

static bool takes_sum(const struct sw_route_query *q)
{
    return q->copy == SW_COPY_NONE && sends_factors(q);
}

static int one_array(const struct sw_route_query *q)
{
    return 1; /* for the sum that comes back */
}

/* ---- Memory ---- */

static size_t line_bytes(int64_t elements)
{
    return ((size_t)elements * sizeof(float) + LINE - 1) / LINE * LINE;
}

static size_t bytes(const struct sw_exchange_args *a)
{
    size_t sum = 0;

    for (int i = 0; i < sw_table_factor_count(a->table); i++) {
        const struct sw_table_factors *f = sw_table_factors_at(a->table, i);
        if (f->home == SW_FACTORS_BY_SERVER)
            sum += line_bytes(a->max_rows * f->steps * f->inputs) +
                   line_bytes(a->max_rows * f->steps * f->outputs);
    }

    return sum;
}

/* Copies of a push: x and columns of dy for every server that owns outputs. */
static int pieces_of(const struct sw_table *t, const struct sw_table_factors *f)
{
    int pieces = 0;

    for (int s = 0; s < sw_table_servers(t); s++) {
        int64_t first, outputs;
        sw_table_factor_range(t, f, s, &first, &outputs);
        pieces += outputs ? 2 : 0;
    }

    return pieces;
}

static int copies(const struct sw_route_query *q)
{
    return 1 + pieces_of(q->table, sw_table_factors_of(q->table, q->param));
}

static int attach(struct sw_exchange *x, void **out, struct sw_err *err)
{
    const struct sw_exchange_args *a = &x->args;
    int count = sw_table_factor_count(a->table);
    size_t size = sizeof(struct state) + (size_t)count * sizeof(struct factors);
    struct state *s = sw_calloc(1, size);

    if (!s)
        return sw_err_nomem(err, "factors of gradients", size);

    *out = s;
    s->bytes = bytes(a);

    int rc = sw_device_alloc(a->device, s->bytes, "factors of gradients", &s->memory, err);
    if (rc != SW_OK)
        return rc;

    sw_device_name(a->device, s->memory, s->bytes, "factors of gradients");

    char *at = s->memory;
    for (int i = 0; i < count; i++) {
        const struct sw_table_factors *f = sw_table_factors_at(a->table, i);
        if (f->home != SW_FACTORS_BY_SERVER)
            continue;

        s->layer[i].x = (float *)(void *)at;
        at += line_bytes(a->max_rows * f->steps * f->inputs);
        s->layer[i].dy = (float *)(void *)at;
        at += line_bytes(a->max_rows * f->steps * f->outputs);
    }

    return SW_OK;
}

static void detach(struct sw_exchange *x, void *state)
{
    struct state *s = state;

    if (s)
        sw_device_free(x->args.device, s->memory, s->bytes);
    sw_free(s);
}

static const struct factors *factors_of(const struct sw_port *p)
{
    const struct state *s = p->state;

    return &s->layer[sw_table_param(sw_port_table(p), p->param)->factors];
}

static void bind(const struct sw_port *p, struct sw_exchange_binding *out)
{
    out->value = p->at.value;
    out->x = factors_of(p)->x;
    out->dy = factors_of(p)->dy;
}

/* ---- To the servers ---- */

/* Runs on a thread of the device when a piece has reached the host; the last one completes the
 * factors. The caller that met a failed copy reports its error to the worker. */
static void on_pushed(void *user, int rc)
{
    struct sw_port *p = user;
    const struct sw_exchange_args *a = &p->x->args;
    const struct sw_table_factors *f = sw_table_factors_of(a->table, p->param);
    struct sw_err err;

    /* Acquires the bytes that other copy threads wrote. */
    if (rc != SW_OK || __atomic_sub_fetch(&p->missing, 1, __ATOMIC_ACQ_REL) > 0)
        return;

    rc = sw_table_update(a->table, a->worker, f->weight, p->sending, &err);
    if (rc == SW_OK && f->bias >= 0 && !sw_table_param(a->table, f->bias)->frozen)
        rc = sw_table_update(a->table, a->worker, f->bias, p->sending, &err);
    if (rc != SW_OK && rc != SW_ERR_CANCELLED)
        sw_fault_set(a->fault, a->role, &err);
}

/* Copies `columns` columns of the worker's rows, which are `width` values wide. */
static int push_piece(struct sw_port *p, float *dst, const float *src, int64_t width,
                      int64_t columns, struct sw_err *err)
{
    int64_t rows = p->x->rows * sw_table_factors_of(sw_port_table(p), p->param)->steps;
    struct sw_copy_event e = {.direction = SW_COPY_TO_HOST,
                              .dst = dst,
                              .src = src,
                              .bytes = (size_t)columns * sizeof *dst,
                              .rows = rows,
                              .dst_pitch = (size_t)width * sizeof *dst,
                              .src_pitch = (size_t)width * sizeof *dst,
                              .priority = p->priority,
                              .after = p->made,
                              .then = p->sent,
                              .done = on_pushed,
                              .user = p};

    if (columns == width) {
        e.bytes *= (size_t)rows;
        e.rows = 1;
    }

    return sw_copy_queue_push(p->x->queue, &e, err);
}

static int push_to(struct sw_port *p, int server, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;
    const struct sw_table_factors *f = sw_table_factors_of(a->table, p->param);
    const struct factors *own = factors_of(p);
    int group = sw_table_update_group(a->table, a->worker);
    int64_t row = p->x->first_row * f->steps, first, outputs;

    sw_table_factor_range(a->table, f, server, &first, &outputs);
    if (outputs == 0)
        return SW_OK;

    float *x = sw_table_factor_x(a->table, f, group, server) + row * f->inputs;
    float *dy = sw_table_factor_dy(a->table, f, group, server) + row * f->outputs;
    int rc = push_piece(p, x, own->x, f->inputs, f->inputs, err);
    if (rc != SW_OK)
        return rc;

    return push_piece(p, dy + first, own->dy + first, f->outputs, outputs, err);
}

static int push(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;

    if (p != p->lead)
        return SW_OK;

    int rc = sw_event_record(a->stream, p->made, err);
    if (rc != SW_OK)
        return rc;

    p->sending = version;
    __atomic_store_n(&p->missing, pieces_of(a->table, sw_table_factors_of(a->table, p->param)),
                     __ATOMIC_RELAXED);

    for (int s = 0; s < sw_table_servers(a->table); s++) {
        rc = push_to(p, s, err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_copy_queue_drain(p->x->queue, err);
    if (rc != SW_OK)
        return rc;

    return sw_copies_settle(p->x, err);
}

/* ---- Back ---- */

static void fetch_value(const struct sw_port *p, struct sw_copy_event *e)
{
    e->dst = p->at.value;
    e->src = sw_table_value(sw_port_table(p), p->x->args.worker, p->param);
    e->after = p->lead->made;
}

static void fetch_sum(const struct sw_port *p, struct sw_copy_event *e)
{
    e->dst = p->at.gradient;
    e->src = sw_table_param(sw_port_table(p), p->param)->sum;
    e->after = p->lead->made;
}

const struct sw_route sw_route_mirror_factors = {.name = "mirror-factors",
                                                 .takes = sends_factors,
                                                 .bytes = bytes,
                                                 .copies = copies,
                                                 .attach = attach,
                                                 .detach = detach,
                                                 .bind = bind,
                                                 .push = push,
                                                 .wait = sw_wait_for_table,
                                                 .pull = sw_fetch,
                                                 .fetch = fetch_value};

const struct sw_route sw_route_server_sum_factors = {.name = "server-sum-factors",
                                                     .takes = takes_sum,
                                                     .updates_on_device = true,
                                                     .arrays = one_array,
                                                     .bytes = bytes,
                                                     .copies = copies,
                                                     .attach = attach,
                                                     .detach = detach,
                                                     .bind = bind,
                                                     .push = push,
                                                     .wait = sw_wait_for_table,
                                                     .pull = sw_fetch,
                                                     .fetch = fetch_sum};
