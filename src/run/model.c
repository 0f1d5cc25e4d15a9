/* A net without a job (run/model.h): training and evaluation net on one stream, their parameters in
 * a table with one worker and one server, whose messages the calling thread handles itself. Order:
 * making it, passes, getters. */
#include "run/model.h"

#include "base/os.h"
#include "exchange/table/table.h"
#include "plan/params.h"
#include "run/schema.h"
#include "worker/series.h"
#include <math.h>
#include <string.h>

enum { TRAIN, EVAL, NETS, ALIGN = 64 };

struct sw_model {
    struct sw_device *device; /* borrowed */
    struct sw_recipe *recipe;
    struct sw_stream *stream;
    struct sw_net *net[NETS];
    int *param_of[NETS]; /* owned: table index of each parameter of a net */
    struct sw_series series[NETS];
    struct sw_table *table;
    char **field; /* owned, and each owned: names */
    int field_count;
    int64_t rows;
    void *arena; /* owned; shared by both nets */
    size_t arena_bytes;
    float *buffers; /* owned; buffers of both nets */
    size_t buffer_bytes;
    int64_t step; /* updates made */
    int last;     /* the net of the last pass */
};

/* ---- Making ---- */

static int read_recipe(struct sw_model *m, const char *text, enum sw_algorithm algorithm,
                       struct sw_err *err)
{
    struct sw_recipe_source source = {
        .path = "recipe", .text = text, .text_bytes = strlen(text), .fallback = ""};

    int rc = sw_recipe_load(&source, sw_net_schema(), &m->recipe, err);
    if (rc != SW_OK)
        return rc;

    if (m->recipe)
        rc = sw_net_check(m->recipe, algorithm, err);
    if (rc != SW_OK)
        return rc;

    if (m->recipe)
        rc = sw_params_check_updater(m->recipe, err);
    return rc;
}

static int copy_fields(struct sw_model *m, const struct sw_model_args *a, struct sw_err *err)
{
    m->field = sw_calloc((size_t)a->field_count + 1, sizeof *m->field);
    if (!m->field)
        return sw_err_nomem(err, "the fields of a model", 0);
    if (a->field_count < 1)
        return sw_err_set(err, SW_ERR_INVALID, "a model needs at least one field of data");

    m->rows = a->fields[0].desc.dim[0];
    for (int f = 0; f < a->field_count; f++) {
        const struct sw_desc *d = &a->fields[f].desc;
        if (d->ndim < 1 || d->dim[0] != m->rows || !sw_desc_is_plain(d))
            return sw_err_set(err, SW_ERR_INVALID,
                              "field %s: must be plain, with as many rows as field %s (%lld)",
                              a->fields[f].name, a->fields[0].name, (long long)m->rows);
        m->field[f] = sw_strdup(a->fields[f].name);
        if (!m->field[f])
            return sw_err_nomem(err, "the fields of a model", 0);

        m->field_count++;
    }

    return SW_OK;
}

static int refuse_outputs(const struct sw_net *net, struct sw_err *err)
{
    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const struct sw_layer *l = sw_net_layer(net, i);
        if (l->type->role == SW_ROLE_OUTPUT)
            return sw_err_set(err, SW_ERR_INVALID,
                              "layer %s: %s writes files in an evaluation of a job, which a model "
                              "does not have: remove the layer",
                              l->name, l->type->base.name);
    }

    return SW_OK;
}

static int build_nets(struct sw_model *m, const struct sw_model_args *a, struct sw_err *err)
{
    for (int i = 0; i < NETS; i++) {
        struct sw_net_args args = {.recipe = m->recipe,
                                   .stream = m->stream,
                                   .seed = a->seed,
                                   .algorithm = a->algorithm,
                                   .training = i == TRAIN,
                                   .rows = m->rows,
                                   .fields = a->fields,
                                   .field_count = a->field_count,
                                   .source = "of the program",
                                   .sharing = i == EVAL ? m->net[TRAIN] : NULL};
        int rc = sw_net_new(&args, &m->net[i], err);
        if (rc != SW_OK)
            return rc;
        rc = refuse_outputs(m->net[i], err);
        if (rc != SW_OK)
            return rc;
        rc = sw_series_init(&m->series[i], m->recipe, m->net[i], 1, err);
        if (rc != SW_OK)
            return rc;

        if (sw_net_arena_bytes(m->net[i]) > m->arena_bytes)
            m->arena_bytes = sw_net_arena_bytes(m->net[i]);
    }

    return SW_OK;
}

static int find_params(struct sw_model *m, int which, struct sw_err *err)
{
    const struct sw_net *net = m->net[which];
    int rc = SW_OK;

    m->param_of[which] = sw_calloc((size_t)sw_net_param_count(net) + 1, sizeof(int));
    if (!m->param_of[which])
        return sw_err_nomem(err, "the parameter table", 0);

    for (int p = 0; p < sw_net_param_count(net); p++) {
        int index = sw_table_find(m->table, sw_net_param(net, p)->name, 0);
        if (index < 0 && which == EVAL)
            return sw_err_set(
                err, SW_ERR_INVALID,
                "parameter %s exists only in the evaluation net: it would not be trained",
                sw_net_param(net, p)->name);

        if (index < 0)
            rc = sw_params_add(m->recipe, m->table, net, p, 0, &index, err);
        m->param_of[which][p] = index;
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int make_table(struct sw_model *m, const struct sw_model_args *a, struct sw_err *err)
{
    const struct sw_section *u = sw_recipe_find(m->recipe, "updater", NULL);
    struct sw_table_args args = {.device = m->device,
                                 .seed = a->seed,
                                 .updater = (const struct sw_updater *)(const void *)u->type[0],
                                 .updater_conf = u->conf[0],
                                 .common = u->common,
                                 .schedule = u->type[1],
                                 .schedule_conf = u->conf[1],
                                 .horizon_steps = a->steps > 0 ? (uint64_t)a->steps : UINT64_MAX,
                                 .slice_elements = 1 << 20,
                                 .workers = 1,
                                 .servers = 1};

    int rc = sw_table_new(&args, &m->table, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < NETS; i++) {
        rc = find_params(m, i, err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_params_check_patterns(m->recipe, m->table, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_table_freeze(m->table, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_table_allocate(m->table, err);
    if (rc != SW_OK)
        return rc;

    return sw_table_init_values(m->table, err);
}

static void bind_params(struct sw_model *m, int which)
{
    for (int p = 0; p < sw_net_param_count(m->net[which]); p++) {
        const struct sw_param *param = sw_table_param(m->table, m->param_of[which][p]);
        sw_net_bind_param(m->net[which], p, param->value,
                          which == TRAIN ? param->gradient[0] : NULL);
    }
}

static const struct sw_desc *buffer_layout(const struct sw_net *net, int s, double *natural)
{
    const struct sw_net_buffer *ns = sw_net_buffer(net, s);
    const struct sw_layer_buffer *ls = &sw_net_layer(net, ns->layer)->keeps[ns->index];
    *natural = ls->natural;
    return &ls->layout;
}

static int64_t buffer_room(const struct sw_desc *d)
{
    return (sw_desc_storage(d) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Allocates the buffers of the training net, which the evaluation net shares where it has the
 * layer. */
static int make_buffers(struct sw_model *m, struct sw_err *err)
{
    double natural;
    const struct sw_net *train = m->net[TRAIN];

    for (int s = 0; s < sw_net_buffer_count(train); s++)
        m->buffer_bytes += (size_t)buffer_room(buffer_layout(train, s, &natural)) * sizeof(float);
    if (m->buffer_bytes == 0)
        return SW_OK;

    int rc =
        sw_device_alloc(m->device, m->buffer_bytes, "the layers' state", (void **)&m->buffers, err);
    float *at = m->buffers;
    if (rc != SW_OK)
        return rc;

    for (int s = 0; s < sw_net_buffer_count(train); s++) {
        const struct sw_desc *d = buffer_layout(train, s, &natural);
        const char *name = sw_net_buffer(train, s)->name;

        for (int64_t i = 0; i < sw_desc_storage(d); i++)
            at[i] = (float)natural;
        sw_net_bind_buffer(m->net[TRAIN], s, at, at);

        for (int e = 0; e < sw_net_buffer_count(m->net[EVAL]); e++)
            if (sw_str_eq(sw_net_buffer(m->net[EVAL], e)->name, name))
                sw_net_bind_buffer(m->net[EVAL], e, at, NULL);

        at += buffer_room(d);
    }

    return SW_OK;
}

static int make(struct sw_model *m, const struct sw_model_args *a, struct sw_err *err)
{
    if (!a->device->host_memory)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "a model needs a device whose memory the host can access, which %s is not",
            a->device->name);

    m->device = a->device;

    int rc = read_recipe(m, a->recipe, a->algorithm, err);
    if (rc != SW_OK)
        return rc;
    rc = copy_fields(m, a, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_new(a->device, a->threads, &m->stream, err);
    if (rc != SW_OK)
        return rc;
    rc = build_nets(m, a, err);
    if (rc != SW_OK)
        return rc;
    rc = make_table(m, a, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_device_alloc(m->device, m->arena_bytes, "activations and gradients", &m->arena, err);
    if (rc != SW_OK)
        return rc;
    rc = make_buffers(m, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < NETS; i++) {
        sw_net_bind(m->net[i], m->arena, NULL);
        bind_params(m, i);
    }

    return SW_OK;
}

int sw_model_new(const struct sw_model_args *args, struct sw_model **out, struct sw_bytes *messages,
                 struct sw_err *err)
{
    struct sw_model *m = sw_calloc(1, sizeof *m);
    if (!m)
        return sw_err_nomem(err, "a model", sizeof *m);

    int rc = make(m, args, err);
    if (rc == SW_ERR_INVALID && m->recipe && messages)
        sw_diags_print(sw_recipe_diags(m->recipe), messages);
    if (rc != SW_OK) {
        sw_model_free(m);
        return rc;
    }

    *out = m;
    return SW_OK;
}

void sw_model_free(struct sw_model *m)
{
    if (!m)
        return;

    for (int i = NETS - 1; i >= 0; i--) {
        sw_series_fini(&m->series[i]);
        sw_net_free(m->net[i]);
        sw_free(m->param_of[i]);
    }

    sw_table_free(m->table);
    sw_device_free(m->device, m->arena, m->arena_bytes);
    sw_device_free(m->device, m->buffers, m->buffer_bytes);
    sw_stream_free(m->stream);
    sw_recipe_free(m->recipe);
    for (int f = 0; f < m->field_count; f++)
        sw_free(m->field[f]);
    sw_free(m->field);
    sw_free(m);
}

/* ---- Passes ---- */

/* Queues a forward pass and waits for its losses. */
static int run_forward(struct sw_model *m, int which, void *const *data, int64_t valid_rows,
                       struct sw_err *err)
{
    struct sw_net *net = m->net[which];
    struct sw_step step = {.step = (uint64_t)m->step,
                           .valid_rows = valid_rows,
                           .batch_valid_rows = valid_rows,
                           .chains_begin = true,
                           .pass_begins = true,
                           .backward_scale = 1.0f / (float)m->rows};
    int rc;

    for (int f = 0; f < m->field_count; f++) {
        rc = sw_net_set_field(net, m->field[f], data[f], err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_net_set_step(net, &step, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < sw_net_layer_count(net); i++) {
        rc = sw_net_forward(net, i, err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_net_run_chains(net, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_net_fetch(net, err);
    if (rc != SW_OK)
        return rc;

    return sw_stream_wait(m->stream, err);
}

static int forward(struct sw_model *m, int which, void *const *data, int64_t valid_rows,
                   struct sw_err *err)
{
    m->last = which;

    int rc = run_forward(m, which, data, valid_rows, err);
    sw_series_clear(&m->series[which]);
    if (rc != SW_OK)
        return rc;

    sw_results_add(m->net[which], &m->series[which], 0);
    return SW_OK;
}

static int backward(struct sw_model *m, struct sw_err *err)
{
    struct sw_net *net = m->net[TRAIN];
    int rc = SW_OK;

    for (int i = sw_net_layer_count(net) - 1; i >= 0; i--) {
        if (sw_net_has_backward(net, i))
            rc = sw_net_backward(net, i, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Makes the update: sends each gradient and handles the messages at once. */
static int update(struct sw_model *m, struct sw_err *err)
{
    struct sw_message message;

    m->step++;

    for (int p = 0; p < sw_table_count(m->table); p++) {
        int rc = sw_table_update(m->table, 0, p, (uint64_t)m->step, err);
        if (rc != SW_OK)
            return rc;

        while (sw_queue_try_pop(sw_table_inbox(m->table, 0), &message) == SW_OK) {
            rc = sw_table_serve(m->table, 0, &message, err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}

int sw_model_train(struct sw_model *m, void *const *data, double *loss, struct sw_err *err)
{
    int rc = forward(m, TRAIN, data, m->rows, err);
    if (rc != SW_OK)
        return rc;

    double value = sw_results_loss(m->net[TRAIN], m->series[TRAIN].sums);
    if (!isfinite(value))
        return sw_err_set(err, SW_ERR_DIVERGED, "step %lld: the loss is not finite",
                          (long long)m->step + 1);
    rc = backward(m, err);
    if (rc != SW_OK)
        return rc;
    rc = update(m, err);
    if (rc != SW_OK)
        return rc;

    if (loss)
        *loss = value;
    return SW_OK;
}

int sw_model_evaluate(struct sw_model *m, void *const *data, int64_t valid_rows, double *loss,
                      struct sw_err *err)
{
    if (valid_rows < 1 || valid_rows > m->rows)
        return sw_err_set(err, SW_ERR_INVALID,
                          "valid_rows is %lld; it must be 1 to %lld, the rows of a batch",
                          (long long)valid_rows, (long long)m->rows);

    int rc = forward(m, EVAL, data, valid_rows, err);
    if (rc != SW_OK)
        return rc;

    if (loss)
        *loss = sw_results_loss(m->net[EVAL], m->series[EVAL].sums);
    return SW_OK;
}

/* ---- Getters ---- */

double sw_model_result(const struct sw_model *m, const char *name)
{
    struct sw_job_metric metric[SW_JOB_METRICS];
    int count;

    sw_results_read(m->net[m->last], &m->series[m->last], m->series[m->last].sums, metric, &count);

    for (int i = 0; i < count; i++)
        if (sw_str_eq(metric[i].name, name))
            return metric[i].value;

    return (double)NAN;
}

int64_t sw_model_step(const struct sw_model *m)
{
    return m->step;
}

int sw_model_param(struct sw_model *m, const char *name, struct sw_tensor *out, struct sw_err *err)
{
    int index = sw_table_find(m->table, name, 0);
    if (index < 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "parameter %s not found", name);

    *out = sw_table_tensor(m->table, index, -1);
    return SW_OK;
}
