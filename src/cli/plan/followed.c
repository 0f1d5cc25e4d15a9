/* The JSON of plans, read back. The contract is in cli/plan/followed.h. */
#include "cli/plan/followed.h"

#include "base/os.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- In the history ---- */

/* Keeps the plan of the only row. */
static int take_plan(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct sw_json **plan = user;
    struct sw_err ignored; /* a plan that cannot be read is none */

    if (row >= 0 && columns == 1 && cells[0].text && !*plan &&
        sw_json_parse(cells[0].text, strlen(cells[0].text), plan, &ignored) != SW_OK)
        *plan = NULL;
    return 0;
}

struct sw_json *sw_plan_followed_read(const char *db, const struct sw_run *run)
{
    struct sw_history_reader *reader = NULL;
    struct sw_json *plan = NULL;
    struct sw_err ignored;
    char sql[80];

    snprintf(sql, sizeof sql, "SELECT json FROM plans WHERE run_id = %lld", (long long)run->id);
    if (sw_history_reader_open(&reader, db, &ignored) == SW_OK &&
        sw_history_sql(reader, sql, take_plan, &plan, &ignored) != SW_OK) {
        sw_json_free(plan);
        plan = NULL;
    }

    sw_history_reader_close(reader);
    return plan;
}

/* ---- Settings ---- */

static bool is_of_plan(const struct sw_json *plan, const char *line, size_t bytes)
{
    const struct sw_json *sets = sw_json_get(plan, "sets");

    for (const struct sw_json *s = sets ? sets->first : NULL; s; s = s->next)
        if (s->string && strlen(s->string) == bytes && memcmp(s->string, line, bytes) == 0)
            return true;
    return false;
}

char *sw_plan_followed_without(const struct sw_json *plan, const char *overrides)
{
    struct sw_bytes out = {0};

    for (const char *p = overrides ? overrides : ""; *p;) {
        const size_t n = strcspn(p, "\n");

        if (n && !is_of_plan(plan, p, n)) {
            sw_bytes_add(&out, out.length ? "\n" : "");
            sw_bytes_append(&out, p, n);
        }
        p += n + (p[n] == '\n');
    }

    char *text = out.failed ? NULL : sw_strdup(sw_bytes_text(&out));
    sw_bytes_fini(&out);
    return text;
}

/* ---- The prediction ---- */

static double number(const struct sw_json *object, const char *key)
{
    const struct sw_json *v = sw_json_get(object, key);
    return v && v->type == SW_JSON_NUMBER && isfinite(v->number) ? v->number : 0;
}

static const char *text(const struct sw_json *object, const char *key)
{
    const struct sw_json *v = sw_json_get(object, key);
    return v && v->type == SW_JSON_STRING ? v->string : "";
}

struct sw_plan_times sw_plan_followed_times(const struct sw_json *plan)
{
    const bool has_rest = sw_json_get(plan, "rest_ms") != NULL;
    const struct sw_json *layers = has_rest ? NULL : sw_json_get(plan, "layers");
    double inputs_ms = 0;

    /* Without a part of its own, the first input has what a step takes beside passes, updates and
     * exchanges. */
    for (const struct sw_json *l = layers ? layers->first : NULL; l; l = l->next)
        inputs_ms += sw_str_eq(text(l, "type"), "input") ? number(l, "compute_ms") : 0;

    return (struct sw_plan_times){
        .ms = {[SW_PLAN_COMPUTE] = fmax(number(plan, "compute_ms") - inputs_ms, 0),
               [SW_PLAN_PARAMS] = number(plan, "params_ms"),
               [SW_PLAN_WAITS] = number(plan, "activations_ms") + number(plan, "wait_ms"),
               [SW_PLAN_REST] = has_rest ? number(plan, "rest_ms") : inputs_ms},
        .step_ms = number(plan, "predicted_ms")};
}

/* ---- The plan ---- */

static int index_of(const char *name, const char *const *names, int count)
{
    int i = 0;

    while (i < count && names[i] && !sw_str_eq(names[i], name))
        i++;
    return i < count && names[i] ? i : -1;
}

static bool read_shape(const struct sw_json *plan, struct sw_plan_shape *s)
{
    const struct sw_json *staleness = sw_json_get(plan, "staleness");
    const char *framework = text(plan, "framework"), *consistency = text(plan, "consistency");

    *s = (struct sw_plan_shape){.groups = (int)number(plan, "worker_groups"),
                                .group_size = (int)number(plan, "workers_per_group"),
                                .servers = (int)number(plan, "servers"),
                                .threads = (int)number(plan, "threads_per_worker"),
                                .staleness = -1};
    if (staleness && staleness->type == SW_JSON_NUMBER)
        s->staleness = (int64_t)staleness->number;

    for (int f = SW_FRAMEWORK_AUTO; f <= SW_FRAMEWORK_CUSTOM; f++)
        if (sw_str_eq(framework, sw_framework_name((enum sw_framework)f)))
            s->framework = (enum sw_framework)f;
    for (int c = SW_CONSISTENCY_AUTO; c <= SW_CONSISTENCY_HOGWILD; c++)
        if (sw_str_eq(consistency, sw_consistency_name((enum sw_consistency)c)))
            s->consistency = (enum sw_consistency)c;

    return s->framework != SW_FRAMEWORK_AUTO && s->consistency != SW_CONSISTENCY_AUTO &&
           s->groups > 0 && s->group_size > 0 && s->groups <= SW_MODEL_DEVICES / s->group_size;
}

static bool read_choice(const struct sw_json *l, int workers, struct sw_layer_choice *c)
{
    const int partition = index_of(text(l, "partition"), sw_partition_names, SW_PARTITION_NONE + 1);
    const int comm = index_of(text(l, "comm"), sw_exchange_mode_names, SW_EXCHANGE_MODES);

    *c = (struct sw_layer_choice){.partition = (enum sw_partition)partition,
                                  .location = (int)number(l, "location"),
                                  .comm = comm < 0 ? SW_EXCHANGE_PS : (enum sw_exchange_mode)comm};
    return partition >= 0 && c->location >= 0 && c->location < workers;
}

int sw_plan_followed_parse(const struct sw_json *plan, const struct sw_net_model *net,
                           struct sw_parallel_plan *out, struct sw_err *err)
{
    const struct sw_json *layers = sw_json_get(plan, "layers"), *l = layers ? layers->first : NULL;
    struct sw_plan_shape shape;
    bool good = read_shape(plan, &shape);

    *out = (struct sw_parallel_plan){.layers = 0};
    if (!good)
        return sw_err_set(err, SW_ERR_FORMAT, "the plan of the run has no known shape");

    int rc = sw_parallel_plan_init(out, &shape, net->count, err);
    for (int i = 0; rc == SW_OK && i < net->count; i++, l = l ? l->next : NULL)
        good = good && l && sw_str_eq(text(l, "name"), net->layer[i].name) &&
               read_choice(l, shape.group_size, &out->choice[i]);

    return rc != SW_OK || (good && !l)
               ? rc
               : sw_err_set(err, SW_ERR_FORMAT, "the plan of the run is of another net");
}

/* ---- Writing ---- */

void sw_plan_followed_copy(struct sw_json_writer *w, const char *key, const struct sw_json *v)
{
    const bool is_array = v->type == SW_JSON_ARRAY;

    switch (v->type) {
    case SW_JSON_NULL:
        sw_json_string(w, key, NULL);
        break;
    case SW_JSON_BOOL:
        sw_json_bool(w, key, v->boolean);
        break;
    case SW_JSON_NUMBER:
        sw_json_real(w, key, v->number);
        break;
    case SW_JSON_STRING:
        sw_json_string(w, key, v->string);
        break;
    default:
        (is_array ? sw_json_open_array : sw_json_open_object)(w, key);
        for (const struct sw_json *c = v->first; c; c = c->next)
            sw_plan_followed_copy(w, is_array ? NULL : c->key, c);
        (is_array ? sw_json_close_array : sw_json_close_object)(w);
        break;
    }
}
