/* Reads the JSON of a plan, and divides measured times into the parts that a plan predicts. Pure
 * functions; the contract is in ui/plan.h. */
#include "ui/plan.h"

#include "base/json.h"
#include "base/os.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How far a measured time may be from a prediction: of the prediction, and of the step. What is
 * less than a billionth of the step is a rounding error of the simulation. */
static const double far_fraction = 0.2, significant = 0.01, negligible = 1e-9;

const char *sw_ui_plan_part_name(enum sw_ui_plan_part p)
{
    static const char *const names[SW_UI_PLAN_PARTS] = {"compute", "parameters", "activations",
                                                        "wait", "rest"};
    return names[p];
}

/* ---- The plan ---- */

static double number(const struct sw_json *object, const char *key)
{
    const struct sw_json *v = sw_json_get(object, key);
    return v && v->type == SW_JSON_NUMBER ? v->number : (double)NAN;
}

static const char *text(const struct sw_json *object, const char *key)
{
    const struct sw_json *v = sw_json_get(object, key);
    return v && v->type == SW_JSON_STRING ? v->string : NULL;
}

/* "1 group", "4 workers", "-- workers". */
static const char *counted(char out[48], double count, const char *what)
{
    if (fabs(count) < 1e9)
        snprintf(out, 48, "%.0f %s%s", count, what, count == 1 ? "" : "s");
    else
        snprintf(out, 48, "-- %ss", what);
    return out;
}

static void read_shape(struct sw_ui_plan *p, const struct sw_json *root)
{
    const char *framework = text(root, "framework"), *consistency = text(root, "consistency");
    char groups[48], workers[48], shape[160];

    p->is_async = consistency && !sw_str_eq(consistency, "bsp");
    snprintf(shape, sizeof shape, "%.24s, %s of %s%s%.16s", framework ? framework : "--",
             counted(groups, number(root, "worker_groups"), "group"),
             counted(workers, number(root, "workers_per_group"), "worker"), p->is_async ? ", " : "",
             p->is_async ? consistency : "");
    sw_utf8_copy(p->shape, sizeof p->shape, shape);
}

static void read_layer(struct sw_ui_plan_layer *to, const struct sw_json *layer)
{
    const char *name = text(layer, "name"), *partition = text(layer, "partition");
    const char *comm = text(layer, "comm");
    double location = number(layer, "location");
    char choice[32];

    snprintf(choice, sizeof choice, fabs(location) < 1e6 ? "%.8s @%.0f" : "%.8s",
             partition ? partition : "--", location);
    sw_utf8_copy(to->name, sizeof to->name, name ? name : "--");
    sw_utf8_copy(to->partition, sizeof to->partition, choice);
    sw_utf8_copy(to->comm, sizeof to->comm, comm ? comm : "");
    to->compute_ms = number(layer, "compute_ms");
}

static int read_layers(struct sw_ui_plan *p, const struct sw_json *root, int most,
                       struct sw_err *err)
{
    const struct sw_json *layers = sw_json_get(root, "layers");
    bool has_rest = !isnan(p->part_ms[SW_UI_PLAN_REST]);
    double inputs_ms = 0;

    if (!layers || layers->type != SW_JSON_ARRAY)
        return SW_OK;

    for (const struct sw_json *l = layers->first; l && p->layer_count < most; l = l->next) {
        struct sw_ui_plan_layer *to = sw_array_add(&p->layers, &p->layer_count, sizeof *to);
        const char *type = text(l, "type");

        if (!to)
            return sw_err_nomem(err, "the layers of a plan", sizeof *to);

        read_layer(to, l);
        if (!has_rest && type && sw_str_eq(type, "input")) {
            inputs_ms += isnan(to->compute_ms) ? 0 : to->compute_ms;
            to->compute_ms = NAN;
        }
    }

    /* Without a part of its own, the inputs have what a step takes beside its layers. */
    if (!has_rest) {
        p->part_ms[SW_UI_PLAN_COMPUTE] -= inputs_ms;
        p->part_ms[SW_UI_PLAN_REST] = inputs_ms;
    }

    return SW_OK;
}

static void read_past(struct sw_ui_plan *p, const struct sw_json *root)
{
    const struct sw_json *replaced = sw_json_get(root, "replaced");

    for (const struct sw_json *r = replaced && replaced->type == SW_JSON_ARRAY ? replaced->first
                                                                               : NULL;
         r && p->past_count < SW_UI_PLAN_PASTS; r = r->next) {
        struct sw_ui_plan_past *to = &p->past[p->past_count++];
        double step = number(r, "until_step");

        snprintf(to->name, sizeof to->name, fabs(step) < 1e15 ? "until step %.0f" : "before", step);
        to->predicted_ms = number(r, "predicted_ms");
        to->measured_ms = number(r, "measured_ms");
    }
}

static int read_json(struct sw_ui_plan *p, const char *json, int most_layers, struct sw_err *err)
{
    static const char *const keys[SW_UI_PLAN_PARTS] = {"compute_ms", "params_ms", "activations_ms",
                                                       "wait_ms", "rest_ms"};
    struct sw_json *root = NULL;

    int rc = sw_json_parse(json, strlen(json), &root, err);
    if (rc != SW_OK)
        return rc;

    read_shape(p, root);
    read_past(p, root);
    for (int i = 0; i < SW_UI_PLAN_PARTS; i++) {
        double ms = number(root, keys[i]);
        p->part_ms[i] = fabs(ms) < negligible * p->step_ms ? 0 : ms;
    }

    rc = read_layers(p, root, most_layers, err);
    sw_json_free(root);

    return rc;
}

int sw_ui_plan_read(struct sw_ui_plan *p, const struct sw_run_plan_text *row, int most_layers,
                    struct sw_err *err)
{
    sw_ui_plan_fini(p);
    *p = (struct sw_ui_plan){
        .known = true, .step_ms = row->predicted_ms, .mean_ms = row->measured_ms};
    for (int i = 0; i < SW_UI_PLAN_PARTS; i++)
        p->part_ms[i] = NAN;

    int rc = read_json(p, row->json, most_layers, err);
    if (rc == SW_ERR_NOMEM)
        sw_ui_plan_fini(p);

    return rc;
}

void sw_ui_plan_fini(struct sw_ui_plan *p)
{
    sw_free(p->layers);
    *p = (struct sw_ui_plan){0};
}

/* ---- Measured times ---- */

static double compute_ms(const double ms[SW_STEP_PHASES])
{
    return ms[SW_STEP_FORWARD] + ms[SW_STEP_BACKWARD];
}

/* The worker that the simulation of a plan takes as the critical one (planner/simulate.c). */
static const struct sw_ledger_worker *critical(const struct sw_ui_plan *p,
                                               const struct sw_ledger *l)
{
    const struct sw_ledger_worker *worst = NULL;
    double most = -1;

    for (int i = 0; i < l->worker_count; i++) {
        const struct sw_ledger_worker *w = &l->worker[i];
        double ms = p->is_async ? sw_ledger_step_ms(w) : compute_ms(w->ms) + w->ms[SW_STEP_UPDATE];

        if (ms > most) {
            most = ms;
            worst = w;
        }
    }

    return worst;
}

static bool is_planned(const struct sw_ui_plan *p, const char *name)
{
    for (int i = 0; i < p->layer_count; i++)
        if (sw_str_eq(p->layers[i].name, name))
            return true;
    return false;
}

/* The share of connections in the time of all layers; NaN: unknown. A net whose layers are split
 * has them in addition to the layers of its plan, with names such as "fc2>one" and "fc2:one". */
static double connections(const struct sw_ui_plan *p, const struct sw_run_layer *layers, int count)
{
    double all = 0, moves = 0;

    for (int i = 0; i < count; i++) {
        double ms = layers[i].forward_ms + layers[i].backward_ms;

        all += ms;
        moves += strpbrk(layers[i].name, ">:") && !is_planned(p, layers[i].name) ? ms : 0;
    }

    return all > 0 ? moves / all : (double)NAN;
}

struct sw_ui_plan_measured sw_ui_plan_measure(const struct sw_ui_plan *p,
                                              const struct sw_ledger *ledger,
                                              const struct sw_run_layer *layers, int count)
{
    struct sw_ui_plan_measured out = {.step_ms = ledger->p50_ms, .input_ms = NAN};
    const struct sw_ledger_worker *w = critical(p, ledger);
    double moves = connections(p, layers, count);

    for (int i = 0; i < SW_UI_PLAN_PARTS; i++)
        out.part_ms[i] = NAN;
    if (!w)
        return out;

    const double *ms = w->median_ms;

    out.part_ms[SW_UI_PLAN_COMPUTE] = compute_ms(ms) * (isnan(moves) ? 1 : 1 - moves);
    out.part_ms[SW_UI_PLAN_PARAMS] = ms[SW_STEP_UPDATE] + ms[SW_STEP_COMM];
    out.part_ms[SW_UI_PLAN_ACTIVATIONS] = compute_ms(ms) * moves;
    out.part_ms[SW_UI_PLAN_WAIT] = ms[SW_STEP_WAIT];
    out.input_ms = ms[SW_STEP_READ] + ms[SW_STEP_DECODE] + ms[SW_STEP_H2D];
    out.part_ms[SW_UI_PLAN_REST] = out.input_ms + ms[SW_STEP_IDLE];

    return out;
}

double sw_ui_plan_layer_ms(const char *name, const struct sw_run_layer *layers, int count)
{
    for (int i = 0; i < count; i++)
        if (sw_str_eq(layers[i].name, name))
            return layers[i].slowest_ms;
    return NAN;
}

/* ---- Differences ---- */

bool sw_ui_plan_differs(const struct sw_ui_plan *p, double predicted_ms, double measured_ms)
{
    double distance_ms = fabs(measured_ms - predicted_ms);

    return distance_ms > far_fraction * predicted_ms &&
           distance_ms > (p->step_ms > 0 ? significant * p->step_ms : 0);
}

void sw_ui_plan_verdict(char out[48], const struct sw_ui_plan *p, double step_ms)
{
    double ratio = step_ms / p->step_ms, percent = 100 * (ratio - 1);

    out[0] = 0;
    if (!(p->step_ms > 0) || !(ratio >= 0 && ratio < 1e6))
        return;

    if (ratio >= 2)
        snprintf(out, 48, "%.*f times as long as planned", ratio < 10, ratio);
    else if (fabs(percent) < 0.5)
        snprintf(out, 48, "as planned");
    else
        snprintf(out, 48, "%.0f %% %s than planned", fabs(percent),
                 percent > 0 ? "slower" : "faster");
}
