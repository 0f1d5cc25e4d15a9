/* Prints the state of a run once, as the text of the overview screen or as JSON, for `singa-ws top
 * --once`. Pure functions of the model; the contract is in ui/once.h. */
#include "ui/once.h"

#include "base/json.h"
#include "ui/ending.h"
#include "ui/keys.h"
#include "ui/screen.h"
#include <math.h>

enum { MIN_W = 60, HEIGHT = 44, PLAN_HEIGHT = 18 };

int sw_once_text(const struct sw_ui_model *m, int w, struct sw_ui_caps caps, struct sw_bytes *out,
                 struct sw_err *err)
{
    struct sw_canvas c = {0};
    struct sw_ui_view v = sw_ui_first_view();

    v.focus = 0;

    int h = HEIGHT + (m->plan.known ? PLAN_HEIGHT : 0);
    int rc = sw_canvas_begin(&c, w < MIN_W ? MIN_W : w, h, caps, err);
    if (rc != SW_OK)
        return rc;

    sw_screen_draw(&c, m, &v);
    c.h--; /* without the line of keys */

    if (caps.colours > 0)
        sw_canvas_to_ansi(&c, out);
    else
        sw_canvas_to_text(&c, out);

    sw_canvas_fini(&c);
    return out->failed ? sw_err_set(err, SW_ERR_NOMEM, "out of memory") : SW_OK;
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void put_metrics(struct sw_json_writer *w, const struct sw_ui_model *m)
{
    const char *split = NULL;

    sw_json_open_object(w, "metrics");

    for (int i = 0; i < m->series_count; i++) {
        const struct sw_ui_series *s = &m->series[i];

        if (!split || !sw_str_eq(split, s->split)) {
            if (split)
                sw_json_close_object(w);
            sw_json_open_object(w, s->split);
            split = s->split;
        }

        sw_json_real(w, s->name, sw_ui_newest(s));
    }

    if (split)
        sw_json_close_object(w);
    sw_json_close_object(w);
}

static void put_time(struct sw_json_writer *w, const struct sw_ui_model *m)
{
    struct sw_bottleneck v = sw_ui_bottleneck(m);

    sw_json_real(w, "step_ms", m->ledger.step_ms);
    sw_json_open_object(w, "time_shares");

    for (int p = 0; p < SW_STEP_PHASES; p++)
        sw_json_real(w, sw_step_phase_name((enum sw_step_phase)p),
                     sw_ledger_fraction(&m->ledger, (enum sw_step_phase)p));

    sw_json_close_object(w);
    sw_json_string(w, "bound", sw_bound_name(v.bound));
    sw_json_string(w, "verdict", v.text);
    sw_json_string(w, "advice", *v.advice ? v.advice : NULL);
}

static void put_layers_of_plan(struct sw_json_writer *w, const struct sw_ui_model *m)
{
    sw_json_open_array(w, "layers");

    for (int i = 0; i < m->plan.layer_count; i++) {
        const struct sw_ui_plan_layer *l = &m->plan.layers[i];

        sw_json_open_object(w, NULL);
        sw_json_string(w, "name", l->name);
        sw_json_real(w, "predicted_ms", l->compute_ms);
        sw_json_real(w, "measured_ms", sw_ui_plan_layer_ms(l->name, m->layers, m->layer_count));
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

/* As `history show` prints it, with recent times, which the plan panel shows. */
static void put_plan(struct sw_json_writer *w, const struct sw_ui_model *m)
{
    const struct sw_ui_plan_measured got =
        sw_ui_plan_measure(&m->plan, &m->ledger, m->layers, m->layer_count);

    if (!m->plan.known) {
        sw_json_string(w, "plan", NULL);
        return;
    }

    sw_json_open_object(w, "plan");
    sw_json_string(w, "shape", m->plan.shape);
    sw_json_real(w, "predicted_ms", m->plan.step_ms);
    sw_json_real(w, "measured_ms", m->plan.mean_ms);
    sw_json_real(w, "recent_ms", got.step_ms);

    sw_json_open_array(w, "parts");
    for (int i = 0; i < SW_UI_PLAN_PARTS; i++) {
        sw_json_open_object(w, NULL);
        sw_json_string(w, "part", sw_ui_plan_part_name((enum sw_ui_plan_part)i));
        sw_json_real(w, "predicted_ms", m->plan.part_ms[i]);
        sw_json_real(w, "recent_ms", got.part_ms[i]);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);

    put_layers_of_plan(w, m);
    sw_json_close_object(w);
}

static void put_units(struct sw_json_writer *w, const struct sw_ui_model *m)
{
    sw_json_open_array(w, "units");

    for (int i = 0; m->live && i < m->thread_count; i++) {
        const struct sw_slot_state *s = &m->threads[i].slot;

        sw_json_open_object(w, NULL);
        sw_json_string(w, "unit", s->name);
        sw_json_string(w, "state", sw_phase_name(s->phase));
        sw_json_int(w, "step", s->done_step);
        sw_json_string(w, "layer", *s->layer_name ? s->layer_name : NULL);
        sw_json_string(w, "waiting_for", *s->waiting_for ? s->waiting_for : NULL);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

static void put_hosts(struct sw_json_writer *w, const struct sw_ui_model *m)
{
    sw_json_open_array(w, "hosts");

    for (int i = 0; i < m->host_count; i++) {
        const struct sw_ui_host *h = &m->hosts[i];

        sw_json_open_object(w, NULL);
        sw_json_string(w, "host", h->name);
        sw_json_string(w, "state", sw_ui_host_state(h));
        sw_json_int(w, "step", h->step);
        sw_json_real(w, "sends_bytes_per_s", h->bytes_per_s);
        sw_json_string(w, "why", *h->why ? h->why : NULL);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

void sw_once_json(const struct sw_ui_model *m, struct sw_bytes *out)
{
    struct sw_json_writer w;
    char hint[SW_RESUME_HINT];

    sw_json_begin(&w, out);
    sw_json_open_object(&w, NULL);
    sw_json_int(&w, "run", m->run.id);
    sw_json_string(&w, "name", *m->run.name ? m->run.name : NULL);
    sw_json_string(&w, "status", sw_ui_status(m));
    sw_json_bool(&w, "live", m->live);
    sw_json_int(&w, "step", sw_ui_step(m));
    sw_json_int(&w, "steps", m->run.steps);
    sw_json_real(&w, "loss", sw_ui_newest(sw_ui_series_find(m, "train", "loss")));
    sw_json_real(&w, "accuracy", sw_ui_newest(sw_ui_series_find(m, NULL, "accuracy")));
    sw_json_real(&w, "samples_per_s", sw_ui_median(sw_ui_series_find(m, "train", "samples_per_s")));
    sw_json_real(&w, "elapsed_s", sw_ui_elapsed(m));
    sw_json_real(&w, "eta_s", sw_ui_eta(m));
    sw_json_real(&w, "ended_at", m->run.ended_at > 0 ? m->run.ended_at : (double)NAN);
    sw_json_string(&w, "resume",
                   *sw_resume_hint(hint, m->run.id, m->run.status, m->checkpoint_step) ? hint
                                                                                       : NULL);
    put_time(&w, m);
    put_plan(&w, m);
    put_metrics(&w, m);
    put_hosts(&w, m);
    put_units(&w, m);
    sw_json_close_object(&w);
    sw_bytes_add(out, "\n");
}
