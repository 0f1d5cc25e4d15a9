#include "layers/share/recurrent.h"

enum { ALIGN = 64, PARAMS = 3 };

const char *const sw_stack_outputs[] = {"all", "last", NULL};

/* Three of each cell, directions inside layers. */
const char *const sw_stack_params[] = {
    "weight",  "recurrent",  "bias",  "weight_reverse",  "recurrent_reverse",  "bias_reverse",
    "weight2", "recurrent2", "bias2", "weight2_reverse", "recurrent2_reverse", "bias2_reverse",
    "weight3", "recurrent3", "bias3", "weight3_reverse", "recurrent3_reverse", "bias3_reverse",
    "weight4", "recurrent4", "bias4", "weight4_reverse", "recurrent4_reverse", "bias4_reverse",
    NULL};
_Static_assert(sizeof sw_stack_params / sizeof *sw_stack_params == PARAMS * SW_STACK_CELLS + 1 &&
                   PARAMS * SW_STACK_CELLS <= SW_LAYER_PARAMS,
               "names, and room, for all parameters");

static const char *const carried_h[] = {"h", "h2", "h3", "h4"};
static const char *const carried_c[] = {"c", "c2", "c3", "c4"};
_Static_assert(2 * SW_STACK_LAYERS <= SW_LAYER_CARRIES, "room for all carried state");

static size_t reserve(size_t *total, size_t bytes)
{
    size_t at = *total;
    *total += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static float *at(void *memory, size_t offset)
{
    return (float *)(void *)((char *)memory + offset);
}

static void add_params(struct sw_layer *l, const struct sw_recurrent *r, int cell)
{
    const char *const *name = sw_stack_params + PARAMS * cell;
    const int64_t gates = sw_cell_gates(r->kind) * r->hidden;
    const int64_t weight[] = {gates, r->inputs}, recurrent[] = {gates, r->hidden};
    const int64_t bias[] = {sw_cell_biases(r->kind) * r->hidden};
    const struct sw_desc w = sw_desc_plain(SW_F32, 2, weight), b = sw_desc_plain(SW_F32, 1, bias);
    const struct sw_desc u = sw_desc_plain(SW_F32, 2, recurrent);
    l->can_add_params |= 3u << l->param_count; /* the matrices */
    sw_layer_add_param(l, name[0], &w, r->inputs, r->hidden);
    sw_layer_add_param(l, name[1], &u, r->hidden, r->hidden);
    sw_layer_add_param(l, name[2], &b, 0, 0);
}

static void add_cell(struct sw_layer *l, struct sw_stack *st, const struct sw_stack_conf *c,
                     const struct sw_recurrent *like, int layer, int direction)
{
    struct sw_stack_cell *cell = &st->cell[st->cells];
    const int64_t places = like->rows * like->steps;
    const bool top = layer == st->layers - 1;
    *cell = (struct sw_stack_cell){.r = *like,
                                   .first_param = l->param_count,
                                   .column = direction * like->hidden,
                                   .carry_h = -1,
                                   .carry_c = -1};
    cell->r.reverse = direction == 1;
    cell->r.last = top && c->output == SW_STACK_LAST;
    cell->r.pitch = st->directions * like->hidden;
    cell->r.inputs = layer == 0 ? like->inputs : cell->r.pitch;
    cell->gates_at =
        reserve(&st->kept_bytes, sw_op_floats(places * sw_cell_kept(like->kind) * like->hidden));
    cell->before_at = reserve(&st->kept_bytes, sw_op_floats(places * like->hidden));
    add_params(l, &cell->r, 2 * layer + direction);
    if (st->carries) {
        cell->carry_h = sw_layer_add_carry(l, carried_h[layer], like->hidden);
        if (like->kind == SW_CELL_LSTM)
            cell->carry_c = sw_layer_add_carry(l, carried_c[layer], like->hidden);
    }
    st->cells++;
    double products = 2.0 * (double)(places * sw_cell_gates(like->kind) * like->hidden) *
                      (double)(cell->r.inputs + like->hidden);
    l->flops_forward += products;
    l->flops_backward += 2 * products;
}

static void reserve_memory(struct sw_layer *l, struct sw_stack *st, const struct sw_recurrent *r)
{
    const int64_t places = r->rows * r->steps, width = st->directions * r->hidden;
    const size_t between = sw_op_floats(places * width);
    for (int i = 0; i + 1 < st->layers; i++)
        st->between_at[i] = reserve(&st->kept_bytes, between);
    st->c_at = reserve(&l->scratch_bytes, sw_op_floats(r->rows * r->hidden));
    if (!st->training) {
        st->kept_at = reserve(&l->scratch_bytes, st->kept_bytes);
        return;
    }
    l->saved_bytes = st->kept_bytes;
    st->dgates_at =
        reserve(&l->scratch_bytes, sw_op_floats(places * sw_cell_biases(r->kind) * r->hidden));
    st->dstate_at = reserve(&l->scratch_bytes, sw_op_floats(2 * r->rows * r->hidden));
    for (int i = 0; i < 2 && i + 1 < st->layers; i++)
        st->dbetween_at[i] = reserve(&l->scratch_bytes, between);
}

/* Where the sequence begins, of an encoder for its decoder. */
static int check_beginning(const struct sw_layer *l, const struct sw_stack_conf *c,
                           struct sw_err *err)
{
    const struct sw_desc *d = l->src_count > 1 ? &l->src[1]->desc : NULL;
    char text[128];
    if (!d)
        return SW_OK;
    if (c->stateful || c->bidirectional || c->layers > 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "source 2 says where the sequences begin: that goes with one layer and "
                          "one direction, and not with stateful = yes");
    if (d->dtype != SW_F32 || d->ndim != 2 || !sw_desc_is_plain(d) || d->dim[1] != c->hidden)
        return sw_err_set(err, SW_ERR_INVALID, "source 2 is %s: it must be [rows, hidden = %lld]",
                          sw_desc_text(d, text), (long long)c->hidden);
    return SW_OK;
}

/* A cell of an unrolled net has one state, which it reads as a source and hands on as its output.
 */
static int check_step(const struct sw_layer_setup *s, const struct sw_stack_conf *c,
                      enum sw_cell_kind kind, struct sw_err *err)
{
    if (!s->unrolled)
        return SW_OK;
    if (c->stateful)
        return sw_err_set(err, SW_ERR_INVALID,
                          "stateful = yes is for a layer that runs over all steps; of an unrolled "
                          "one say connections = stateful where it reads the step before");
    if (kind == SW_CELL_LSTM)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a step of lstm hands on two states, and a layer has one output: leave "
                          "unroll out, or unroll its gates as layers of their own");
    return SW_OK;
}

int64_t sw_stack_width(const void *conf)
{
    const struct sw_stack_conf *c = conf;
    return c->bidirectional ? 2 * c->hidden : c->hidden;
}

int sw_stack_setup(struct sw_layer *l, const struct sw_layer_setup *s,
                   const struct sw_stack_conf *c, enum sw_cell_kind kind, struct sw_err *err)
{
    struct sw_stack *st = l->state;
    const bool alone = s->unrolled && l->src[0]->desc.ndim == 2; /* a step of a sequence */
    int rc = sw_layer_need_src(l, 0, alone ? 2 : 3, err);
    st->carries = c->stateful || s->carry;
    if (rc == SW_OK)
        rc = check_step(s, c, kind, err);
    if (rc == SW_OK)
        rc = check_beginning(l, c, err);
    if (rc == SW_OK && st->carries && c->bidirectional)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s cannot go with bidirectional = yes: what comes later is not known yet",
                        c->stateful ? "stateful = yes" : "sampling");
    if (rc == SW_OK)
        rc = sw_plain_init(&st->in, l, 0, s, err);
    if (rc != SW_OK)
        return rc;
    const int64_t *dim = st->in.desc.dim;
    const struct sw_recurrent like = {.kind = kind,
                                      .rows = dim[0],
                                      .steps = alone ? 1 : dim[1],
                                      .inputs = dim[alone ? 1 : 2],
                                      .hidden = c->hidden};
    st->training = s->training;
    st->layers = (int)c->layers;
    st->directions = c->bidirectional ? 2 : 1;
    for (int i = 0; i < st->layers; i++)
        for (int d = 0; d < st->directions; d++)
            add_cell(l, st, c, &like, i, d);
    reserve_memory(l, st, &like);
    const int64_t out = st->directions * c->hidden;
    l->dst.desc = c->output == SW_STACK_LAST || alone
                      ? sw_desc_plain(SW_F32, 2, (const int64_t[]){dim[0], out})
                      : sw_desc_plain(SW_F32, 3, (const int64_t[]){dim[0], dim[1], out});
    l->backward_reads_src = 1;
    l->algorithm = "gemm";
    return SW_OK;
}

/* ---- Passes ---- */

static void *kept(const struct sw_layer *l, const struct sw_stack *st)
{
    return st->training ? l->saved : at(l->scratch, st->kept_at);
}

static float *carried(const struct sw_layer *l, int i)
{
    return i < 0 ? NULL : l->carry[i].value;
}

static int run_cell(struct sw_layer *l, const struct sw_pass *r, const struct sw_stack_cell *cell,
                    const float *x, float *y, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const struct sw_layer_param *p = l->param + cell->first_param;
    float *c = carried(l, cell->carry_c);
    struct sw_recurrent_args a = {.r = cell->r,
                                  .x = x,
                                  .weight = p[0].value,
                                  .recurrent = p[1].value,
                                  .bias = p[2].value,
                                  .h0 = l->src_count > 1 ? l->src[1]->data : NULL,
                                  .h = carried(l, cell->carry_h),
                                  .c = c ? c : at(l->scratch, st->c_at),
                                  .step = r->step,
                                  .gates = at(kept(l, st), cell->gates_at),
                                  .before = at(kept(l, st), cell->before_at),
                                  .y = y + cell->column};
    a.carried = a.h != NULL;
    return sw_op_run(r->stream, &sw_op_recurrent, &a, err);
}

int sw_stack_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const float *x;
    int rc = sw_plain_values(&st->in, l, r, &x, err);
    for (int i = 0; i < st->layers && rc == SW_OK; i++) {
        float *y = i + 1 < st->layers ? at(kept(l, st), st->between_at[i]) : l->dst.data;
        for (int d = 0; d < st->directions && rc == SW_OK; d++)
            rc = run_cell(l, r, &st->cell[i * st->directions + d], x, y, err);
        x = y;
    }
    return rc;
}

static bool adds_to(const struct sw_layer *l, int param)
{
    return l->param_adds >> param & 1;
}

/* dx: where the gradient of x goes, NULL: nowhere. */
static int run_cell_back(struct sw_layer *l, const struct sw_pass *r,
                         const struct sw_stack_cell *cell, const float *x, const float *dy,
                         float *dx, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const struct sw_layer_param *p = l->param + cell->first_param;
    const struct sw_recurrent_gradient_args a = {.r = cell->r,
                                                 .x = p[0].grad ? x : NULL,
                                                 .weight = dx ? p[0].value : NULL,
                                                 .recurrent = p[1].value,
                                                 .gates = at(kept(l, st), cell->gates_at),
                                                 .before = at(kept(l, st), cell->before_at),
                                                 .dy = dy + cell->column,
                                                 .dgates = at(l->scratch, st->dgates_at),
                                                 .dstate = at(l->scratch, st->dstate_at),
                                                 .dx = dx,
                                                 .dh0 = l->src_count > 1 ? l->src_grad[1] : NULL,
                                                 .adds_dx = cell->r.reverse,
                                                 .adds_dweight = adds_to(l, cell->first_param),
                                                 .adds_drecurrent =
                                                     adds_to(l, cell->first_param + 1),
                                                 .dweight = p[0].grad,
                                                 .drecurrent = p[1].grad,
                                                 .dbias = p[2].grad};
    return sw_op_run(r->stream, &sw_op_recurrent_gradient, &a, err);
}

int sw_stack_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const float *input, *dy = l->dst.grad;
    int rc = sw_plain_values(&st->in, l, r, &input, err);
    for (int i = st->layers - 1; i >= 0 && rc == SW_OK; i--) {
        const float *x = i > 0 ? at(kept(l, st), st->between_at[i - 1]) : input;
        float *dx =
            i > 0 ? at(l->scratch, st->dbetween_at[(i - 1) % 2]) : sw_plain_gradient(&st->in, l);
        for (int d = 0; d < st->directions && rc == SW_OK; d++)
            rc = run_cell_back(l, r, &st->cell[i * st->directions + d], x, dy, dx, err);
        dy = dx;
    }
    return rc == SW_OK ? sw_plain_give(&st->in, l, err) : rc;
}

void sw_stack_teardown(struct sw_layer *l)
{
    struct sw_stack *st = l->state;
    sw_plain_fini(&st->in);
}
