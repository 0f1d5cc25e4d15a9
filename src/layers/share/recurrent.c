/* Stacks of recurrent cells for rnn, gru and lstm. Setup adds the cells layer by layer and
 * direction by direction (add_cell) and reserves what backward needs; each pass then runs one
 * operation per cell (kernels/ops/recurrent.h). Most of the rest handles the initial and final
 * state of a run: zeros, the state of an encoder, the state of the previous batch, or that of the
 * previous step of an unrolled layer. */
#include "layers/share/recurrent.h"
#include "kernels/ops/layout.h"

enum { PARAMS = 3 };

const char *const sw_stack_outputs[] = {"all", "last", NULL};

const struct sw_opt sw_stack_opts[] = {
    SW_STACK_OPTS,
    {0},
};

const struct sw_layer_example sw_stack_examples[] = {
    SW_STACK_EXAMPLES,
    {0},
};

/* Three names per cell; the directions of a layer are adjacent. */
const char *const sw_stack_params[] = {
    "weight",  "recurrent",  "bias",  "weight_reverse",  "recurrent_reverse",  "bias_reverse",
    "weight2", "recurrent2", "bias2", "weight2_reverse", "recurrent2_reverse", "bias2_reverse",
    "weight3", "recurrent3", "bias3", "weight3_reverse", "recurrent3_reverse", "bias3_reverse",
    "weight4", "recurrent4", "bias4", "weight4_reverse", "recurrent4_reverse", "bias4_reverse",
    NULL};
_Static_assert(sizeof sw_stack_params / sizeof *sw_stack_params == PARAMS * SW_STACK_CELLS + 1 &&
                   PARAMS * SW_STACK_CELLS <= SW_LAYER_PARAMS,
               "names, and room, for all parameters");

static const char *const state_names_h[] = {"h", "h2", "h3", "h4"};
static const char *const state_names_c[] = {"c", "c2", "c3", "c4"};
_Static_assert(2 * SW_STACK_LAYERS <= SW_LAYER_RECURRENT_STATES, "room for all recurrent state");

static void add_params(struct sw_layer *l, const struct sw_recurrent *r, int cell)
{
    const char *const *name = sw_stack_params + PARAMS * cell;
    const int64_t gates = sw_cell_gates(r->kind) * r->hidden;
    const int64_t weight[] = {gates, r->inputs}, recurrent[] = {gates, r->hidden};
    const int64_t bias[] = {sw_cell_biases(r->kind) * r->hidden};
    const struct sw_desc w = sw_desc_plain(SW_F32, 2, weight), b = sw_desc_plain(SW_F32, 1, bias);
    const struct sw_desc u = sw_desc_plain(SW_F32, 2, recurrent);

    l->can_add.params |= 3u << l->param_count; /* the matrices */
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
                                   .kept_h = -1,
                                   .kept_c = -1,
                                   .state_h = top ? 0 : layer + 1,
                                   .state_c = st->layers + layer};
    cell->r.reverse = direction == 1;
    cell->r.last = top && c->output == SW_STACK_LAST;
    cell->r.pitch = (top ? st->states : 1) * st->directions * like->hidden;
    cell->r.inputs = layer == 0 ? like->inputs : st->directions * like->hidden;
    cell->gates_at = sw_layer_reserve(
        &st->kept_bytes, sw_op_floats(places * sw_cell_saved(like->kind) * like->hidden));
    cell->before_at = sw_layer_reserve(&st->kept_bytes, sw_op_floats(places * like->hidden));
    add_params(l, &cell->r, 2 * layer + direction);

    if (st->keeps_state) {
        cell->kept_h = sw_layer_add_recurrent_state(l, state_names_h[layer], like->hidden);
        if (like->kind == SW_CELL_LSTM)
            cell->kept_c = sw_layer_add_recurrent_state(l, state_names_c[layer], like->hidden);
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
        st->between_at[i] = sw_layer_reserve(&st->kept_bytes, between);

    const size_t state = sw_op_floats(r->rows * r->hidden);

    st->c_at = sw_layer_reserve(&l->scratch_bytes, state);
    if (st->states > 1) {
        st->h_at = sw_layer_reserve(&l->scratch_bytes, state);
        st->h0_at = sw_layer_reserve(&l->scratch_bytes, state);
        st->c0_at = sw_layer_reserve(&l->scratch_bytes, state);
    }

    if (!st->training) {
        st->kept_at = sw_layer_reserve(&l->scratch_bytes, st->kept_bytes);
        return;
    }

    l->saved_bytes = st->kept_bytes;
    st->dgates_at = sw_layer_reserve(&l->scratch_bytes,
                                     sw_op_floats(places * sw_cell_biases(r->kind) * r->hidden));
    st->dstate_at = sw_layer_reserve(&l->scratch_bytes, sw_op_floats(2 * r->rows * r->hidden));
    for (int i = 0; i < 2 && i + 1 < st->layers; i++)
        st->dbetween_at[i] = sw_layer_reserve(&l->scratch_bytes, between);
}

/* Is source 2 the state of the previous step of an unrolled layer, with more than its output? */
static bool reads_step_state(const struct sw_layer *l, const struct sw_stack *st, int64_t hidden)
{
    const struct sw_desc *d = l->src_count > 1 ? &l->src[1]->desc : NULL;
    return d && st->states > 1 && d->ndim == 2 && sw_desc_is_plain(d) &&
           d->dim[1] == st->states * hidden;
}

/* Checks source 2: the initial state, such as that of an encoder for its decoder, or the state of
 * the previous step. */
static int check_initial_state(const struct sw_layer *l, const struct sw_stack_conf *c,
                               struct sw_err *err)
{
    const struct sw_desc *d = l->src_count > 1 ? &l->src[1]->desc : NULL;
    char text[128];

    if (!d || reads_step_state(l, l->state, c->hidden))
        return SW_OK;

    if (c->stateful || c->bidirectional || c->layers > 1)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "source 2 is the initial state: this requires layers = 1, bidirectional = "
            "no and stateful = no");

    if (d->dtype != SW_F32 || d->ndim != 2 || !sw_desc_is_plain(d) || d->dim[1] != c->hidden)
        return sw_err_set(err, SW_ERR_INVALID, "source 2 is %s: it must be [rows, hidden = %lld]",
                          sw_desc_text(d, text), (long long)c->hidden);

    return SW_OK;
}

/* Checks the keys of one step of an unrolled layer, which reads the state of the previous step as a
 * source and passes its own on. */
static int check_step(const struct sw_layer_setup *s, const struct sw_stack_conf *c, bool alone,
                      int states, struct sw_err *err)
{
    if (!s->unrolled)
        return SW_OK;
    if (c->stateful)
        return sw_err_set(err, SW_ERR_INVALID,
                          "stateful = yes requires a layer that runs over all steps; for an "
                          "unrolled layer set connections = stateful for its own previous step");

    if (alone && c->bidirectional)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "bidirectional = yes requires a layer that runs over all steps: a step of "
            "an unrolled layer does not know later steps; remove unroll");

    if (!alone && states > 1 && c->output != SW_STACK_LAST)
        return sw_err_set(err, SW_ERR_INVALID,
                          "each step reads a whole sequence and passes on its final state: set "
                          "output = last, or connections = one-to-one");

    return SW_OK;
}

int64_t sw_stack_width(const void *conf)
{
    const struct sw_stack_conf *c = conf;
    return c->bidirectional ? 2 * c->hidden : c->hidden;
}

int64_t sw_stack_hands_on(const void *conf)
{
    const struct sw_stack_conf *c = conf;
    return c->bidirectional || c->layers == 1 ? 0 : c->layers * c->hidden;
}

_Static_assert(SW_CELL_RNN_RELU == SW_CELL_RNN_TANH + 1, "functions of rnn follow each other");

int sw_stack_setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_stack_conf *c = l->conf;
    struct sw_stack *st = l->state;
    const bool alone = s->unrolled && l->src[0]->desc.ndim == 2; /* one step of an unrolled layer */

    int rc = sw_layer_need_src(l, 0, alone ? 2 : 3, err);
    if (rc != SW_OK)
        return rc;

    st->keeps_state = c->stateful || s->keep_state;
    st->states = s->unrolled && l->type->hands_on(c) ? (int)(l->type->hands_on(c) / c->hidden) : 1;

    rc = check_step(s, c, alone, st->states, err);
    if (rc != SW_OK)
        return rc;
    rc = check_initial_state(l, c, err);
    if (rc != SW_OK)
        return rc;

    if (st->keeps_state && c->bidirectional)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%s cannot be combined with bidirectional = yes: later steps are not known yet",
            c->stateful ? "stateful = yes" : "sampling");

    rc = sw_plain_init(&st->in, l, 0, s, err);
    if (rc != SW_OK)
        return rc;

    const int64_t *dim = st->in.desc.dim;
    const struct sw_recurrent like = {.kind = (enum sw_cell_kind)(l->type->variant + c->function),
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

    const int64_t out = st->states * st->directions * c->hidden;
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
    return st->training ? l->saved : sw_layer_at(l->scratch, st->kept_at);
}

static float *kept_state(const struct sw_layer *l, int i)
{
    return i < 0 ? NULL : l->recurrent[i].value;
}

/* Layout of the state that steps pass on, [rows, states, hidden], or with at = ALONE of a single
 * one. */
enum { ALONE = -1 };
static struct sw_desc states(const struct sw_stack *st, int at)
{
    const struct sw_recurrent *r = &st->cell[0].r;
    return sw_desc_plain(SW_F32, 3, (int64_t[]){r->rows, at == ALONE ? 1 : st->states, r->hidden});
}

static int copy_state(const struct sw_stack *st, const struct sw_pass *r, const float *from,
                      int from_at, float *to, int to_at, struct sw_err *err)
{
    const struct sw_part_args a = {.from = states(st, from_at),
                                   .to = states(st, to_at),
                                   .axis = 1,
                                   .from_at = from_at == ALONE ? 0 : from_at,
                                   .to_at = to_at == ALONE ? 0 : to_at,
                                   .count = 1,
                                   .src = from,
                                   .dst = to};
    return sw_op_run(r->stream, &sw_op_part, &a, err);
}

/* Sets the initial state of a run: source 2, or zeros or recurrent state without it. */
static int find_initial_state(struct sw_layer *l, const struct sw_pass *r,
                              const struct sw_stack_cell *cell, struct sw_recurrent_args *a,
                              struct sw_err *err)
{
    const struct sw_stack *st = l->state;

    if (l->src_count < 2)
        return SW_OK;
    if (!reads_step_state(l, st, cell->r.hidden)) {
        a->h0 = l->src[1]->data;
        return SW_OK;
    }

    float *h0 = sw_layer_at(l->scratch, st->h0_at), *c0 = sw_layer_at(l->scratch, st->c0_at);
    a->h0 = h0;

    int rc = copy_state(st, r, l->src[1]->data, cell->state_h, h0, ALONE, err);
    if (rc != SW_OK || cell->r.kind != SW_CELL_LSTM)
        return rc;

    a->c0 = c0;
    return copy_state(st, r, l->src[1]->data, cell->state_c, c0, ALONE, err);
}

/* Copies the final state to the output for the next step; h of the top layer is already there. */
static int pass_state_on(struct sw_layer *l, const struct sw_pass *r,
                         const struct sw_stack_cell *cell, const struct sw_recurrent_args *a,
                         struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    int rc = SW_OK;

    if (cell->state_h > 0)
        rc = copy_state(st, r, a->h, ALONE, l->dst.data, cell->state_h, err);
    if (rc != SW_OK)
        return rc;

    if (cell->r.kind == SW_CELL_LSTM)
        rc = copy_state(st, r, a->c, ALONE, l->dst.data, cell->state_c, err);
    return rc;
}

static int run_cell(struct sw_layer *l, const struct sw_pass *r, const struct sw_stack_cell *cell,
                    const float *x, float *y, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const struct sw_layer_param *p = l->param + cell->first_param;
    float *c = kept_state(l, cell->kept_c);
    struct sw_recurrent_args a = {.r = cell->r,
                                  .x = x,
                                  .weight = p[0].value,
                                  .recurrent = p[1].value,
                                  .bias = p[2].value,
                                  .h = kept_state(l, cell->kept_h),
                                  .c = c ? c : sw_layer_at(l->scratch, st->c_at),
                                  .step = r->step,
                                  .gates = sw_layer_at(kept(l, st), cell->gates_at),
                                  .before = sw_layer_at(kept(l, st), cell->before_at),
                                  .y = y + cell->column};

    a.carried = a.h != NULL;
    if (st->states > 1 && cell->state_h > 0)
        a.h = sw_layer_at(l->scratch, st->h_at);

    int rc = find_initial_state(l, r, cell, &a, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_op_run(r->stream, &sw_op_recurrent, &a, err);
    if (rc != SW_OK)
        return rc;

    return st->states > 1 ? pass_state_on(l, r, cell, &a, err) : SW_OK;
}

int sw_stack_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const float *x;

    int rc = sw_plain_values(&st->in, l, r, &x, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < st->layers; i++) {
        float *y = i + 1 < st->layers ? sw_layer_at(kept(l, st), st->between_at[i]) : l->dst.data;

        for (int d = 0; d < st->directions; d++) {
            rc = run_cell(l, r, &st->cell[i * st->directions + d], x, y, err);
            if (rc != SW_OK)
                return rc;
        }

        x = y;
    }

    return SW_OK;
}

static bool adds_to(const struct sw_layer *l, int param)
{
    return l->adds.params >> param & 1;
}

/* Copies the gradients of the state that a step passes on; the gradient of the top layer's h is
 * part of dy. */
static int load_state_gradients(struct sw_layer *l, const struct sw_pass *r,
                                const struct sw_stack_cell *cell, float *dh, float *dc,
                                struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const size_t bytes = (size_t)(cell->r.rows * cell->r.hidden) * sizeof(float);

    int rc = cell->state_h > 0 ? copy_state(st, r, l->dst.grad, cell->state_h, dh, ALONE, err)
                               : sw_fill_zero(r->stream, dh, bytes, err);
    if (rc != SW_OK)
        return rc;

    if (cell->r.kind == SW_CELL_LSTM)
        rc = copy_state(st, r, l->dst.grad, cell->state_c, dc, ALONE, err);
    return rc;
}

static int store_state_gradients(struct sw_layer *l, const struct sw_pass *r,
                                 const struct sw_stack_cell *cell, const float *dh, const float *dc,
                                 struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    if (l->src_count < 2 || !l->src_grad[1] || !reads_step_state(l, st, cell->r.hidden))
        return SW_OK;

    int rc = copy_state(st, r, dh, ALONE, l->src_grad[1], cell->state_h, err);
    if (rc != SW_OK)
        return rc;

    if (cell->r.kind == SW_CELL_LSTM)
        rc = copy_state(st, r, dc, ALONE, l->src_grad[1], cell->state_c, err);
    return rc;
}

/* Backward of one cell. dx: gradient of x; NULL: not needed. */
static int run_cell_backward(struct sw_layer *l, const struct sw_pass *r,
                             const struct sw_stack_cell *cell, const float *x, const float *dy,
                             float *dx, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const struct sw_layer_param *p = l->param + cell->first_param;
    const bool begun = l->src_count > 1 && !reads_step_state(l, st, cell->r.hidden);
    float *dh = sw_layer_at(l->scratch, st->dstate_at), *dc = dh + cell->r.rows * cell->r.hidden;
    const struct sw_recurrent_gradient_args a = {
        .r = cell->r,
        .x = p[0].grad ? x : NULL,
        .weight = dx ? p[0].value : NULL,
        .recurrent = p[1].value,
        .gates = sw_layer_at(kept(l, st), cell->gates_at),
        .before = sw_layer_at(kept(l, st), cell->before_at),
        .dy = dy + cell->column,
        .dgates = sw_layer_at(l->scratch, st->dgates_at),
        .dstate = dh,
        .handed_on = st->states > 1,
        .dx = dx,
        .dh0 = begun ? l->src_grad[1] : NULL,
        .adds_dx = cell->r.reverse,
        .adds_dweight = adds_to(l, cell->first_param),
        .adds_drecurrent = adds_to(l, cell->first_param + 1),
        .dweight = p[0].grad,
        .drecurrent = p[1].grad,
        .dbias = p[2].grad};

    int rc = a.handed_on ? load_state_gradients(l, r, cell, dh, dc, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = sw_op_run(r->stream, &sw_op_recurrent_gradient, &a, err);
    if (rc != SW_OK)
        return rc;

    return a.handed_on ? store_state_gradients(l, r, cell, dh, dc, err) : SW_OK;
}

int sw_stack_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_stack *st = l->state;
    const float *input, *dy = l->dst.grad;

    int rc = sw_plain_values(&st->in, l, r, &input, err);
    if (rc != SW_OK)
        return rc;

    for (int i = st->layers - 1; i >= 0; i--) {
        const float *x = i > 0 ? sw_layer_at(kept(l, st), st->between_at[i - 1]) : input;
        float *dx = i > 0 ? sw_layer_at(l->scratch, st->dbetween_at[(i - 1) % 2])
                          : sw_plain_gradient(&st->in, l);

        for (int d = 0; d < st->directions; d++) {
            rc = run_cell_backward(l, r, &st->cell[i * st->directions + d], x, dy, dx, err);
            if (rc != SW_OK)
                return rc;
        }

        dy = dx;
    }

    return sw_plain_write(&st->in, l, err);
}
