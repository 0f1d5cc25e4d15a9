/* Writes a plan as JSON. recipes/planning-json.md documents the keys. */
#include "cli/plan/output.h"

#include "base/json.h"
#include "base/str.h"
#include <math.h>

static void json_ms(struct sw_json_writer *w, const char *key, double seconds)
{
    sw_json_real(w, key, seconds * 1000);
}

/* ---- Machine ---- */

static void json_figure(struct sw_json_writer *w, const char *key, const struct sw_figure *f)
{
    sw_json_open_object(w, key);
    sw_json_real(w, "value", f->value > 0 ? f->value : (double)NAN);
    sw_json_string(w, "source", f->source);
    sw_json_close_object(w);
}

static void json_device(struct sw_json_writer *w, const struct sw_device_model *d)
{
    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", d->name);
    sw_json_int(w, "host", d->host);
    json_figure(w, "flops_per_s", &d->flops_per_s);
    json_figure(w, "bytes_per_s", &d->bytes_per_s);
    if (d->memory_bytes > 0)
        sw_json_int(w, "memory_bytes", d->memory_bytes);
    else
        sw_json_real(w, "memory_bytes", (double)NAN);
    sw_json_close_object(w);
}

static void json_link(struct sw_json_writer *w, const char *name, const struct sw_figure *f,
                      double latency_s, double busy)
{
    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", name);
    json_figure(w, "bytes_per_s", f);
    sw_json_real(w, "latency_us", latency_s * 1e6);
    sw_json_real(w, "busy", busy);
    sw_json_close_object(w);
}

static void json_cores(struct sw_json_writer *w, const struct sw_machine_model *m)
{
    sw_json_open_object(w, "cores");
    sw_json_int(w, "count", m->server_threads);
    json_figure(w, "flops_per_s", &m->core_flops_per_s);
    json_figure(w, "bytes_per_s", &m->core_bytes_per_s);
    sw_json_close_object(w);
}

void sw_planned_json_machine(struct sw_json_writer *w, const struct sw_planned *p)
{
    const struct sw_machine_model *m = p->machine;
    const double *busy = p->simulation.busy;
    struct sw_bytes name = {0};

    sw_json_open_object(w, "machine");
    sw_json_string(w, "name", m->name);
    sw_json_int(w, "hosts", m->hosts);
    sw_json_int(w, "server_hosts", m->server_hosts);
    json_cores(w, m);

    sw_json_open_array(w, "devices");
    for (int i = 0; i < m->device_count; i++)
        json_device(w, &m->device[i]);
    sw_json_close_array(w);

    sw_json_open_array(w, "links");
    for (int i = 0; i < m->hub_count; i++)
        if (m->hub[i].parent >= 0)
            json_link(w, m->hub[i].name, &m->hub[i].bytes_per_s, m->hub[i].latency_s,
                      sw_planned_busy(busy, i));
    for (int i = 0; i < m->pair_count; i++) {
        const struct sw_pair_model *pair = &m->pair[i];

        sw_bytes_clear(&name);
        sw_bytes_printf(&name, "%s, %s", m->device[pair->a].name, m->device[pair->b].name);
        json_link(w, sw_bytes_text(&name), &pair->bytes_per_s, pair->latency_s,
                  sw_planned_busy(busy, m->hub_count + i));
    }
    sw_json_close_array(w);

    sw_json_close_object(w);
    sw_bytes_fini(&name);
}

/* ---- Layers ---- */

/* Fields of an open object. exchanges: the gradient of the layer is exchanged. */
static void json_choice(struct sw_json_writer *w, const struct sw_layer_choice *c, bool exchanges)
{
    sw_json_string(w, "partition", sw_partition_names[c->partition]);
    if (c->partition == SW_PARTITION_NONE)
        sw_json_int(w, "location", c->location);
    else
        sw_json_real(w, "location", (double)NAN);
    sw_json_string(w, "comm", exchanges ? sw_exchange_mode_names[c->comm] : NULL);
}

static void json_runner_up(struct sw_json_writer *w, const struct sw_planned *p, int i)
{
    const struct sw_layer_choice *c = &p->runner_up[i];

    if (!isfinite(p->runner_up_s[i])) {
        sw_json_string(w, "runner_up", NULL);
        return;
    }

    sw_json_open_object(w, "runner_up");
    json_choice(w, c,
                p->best.workers > 1 && p->net->layer[i].params > 0 &&
                    c->partition == SW_PARTITION_ROWS);
    json_ms(w, "slower_ms", p->runner_up_s[i]);
    sw_json_close_object(w);
}

static void json_layer(struct sw_json_writer *w, const struct sw_planned *p, int i)
{
    const struct sw_layer_cost *c = &p->costs[i];

    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", p->net->layer[i].name);
    sw_json_string(w, "type", p->net->layer[i].type);
    json_choice(w, &p->best.choice[i], sw_planned_exchanges(p->net, &p->best, i));
    json_ms(w, "compute_ms", c->compute_s);
    json_ms(w, "params_ms", c->params_s);
    json_ms(w, "activations_ms", c->activations_s);
    json_ms(w, "wait_ms", p->simulation.layer_wait_s[i]);
    sw_json_real(w, "moved_params", c->moved_params);
    sw_json_real(w, "moved_activations", c->moved_activations);
    json_runner_up(w, p, i);
    sw_json_close_object(w);
}

/* ---- The whole ---- */

static void json_alternative(struct sw_json_writer *w, const struct sw_planned *p,
                             const struct sw_planned_alternative *a)
{
    sw_json_open_object(w, NULL);
    sw_json_string(w, "what", a->what);
    sw_json_string(w, "framework", sw_framework_name(a->shape.framework));
    sw_json_int(w, "worker_groups", a->shape.groups);
    sw_json_int(w, "workers_per_group", a->shape.group_size);
    json_ms(w, "predicted_ms", a->step_s);
    json_ms(w, "slower_ms", a->step_s - p->best.time.step_s);
    sw_json_close_object(w);
}

static void json_shape(struct sw_json_writer *w, const struct sw_plan_shape *s)
{
    sw_json_string(w, "framework", sw_framework_name(s->framework));
    sw_json_string(w, "consistency", sw_consistency_name(s->consistency));
    if (s->staleness >= 0)
        sw_json_int(w, "staleness", s->staleness);
    else
        sw_json_real(w, "staleness", (double)NAN);
    sw_json_int(w, "worker_groups", s->groups);
    sw_json_int(w, "workers_per_group", s->group_size);
    sw_json_int(w, "servers", s->servers);
}

static void json_fit(struct sw_json_writer *w, const struct sw_plan_fit *f)
{
    if (f->budget_bytes <= 0) {
        sw_json_real(w, "fit", (double)NAN);
        return;
    }

    sw_json_open_object(w, "fit");
    sw_json_int(w, "budget_bytes", f->budget_bytes);
    sw_json_int(w, "recomputed", f->recomputed);
    sw_json_int(w, "offloaded", f->offloaded);
    json_ms(w, "ms", f->seconds);
    sw_json_close_object(w);
}

void sw_planned_json(struct sw_json_writer *w, const struct sw_planned *p,
                     const struct sw_planned_about *about)
{
    const struct sw_plan_time *t = &p->best.time;

    sw_json_string(w, "name", about->name);
    sw_json_string(w, "recipe", about->recipe);
    sw_json_int(w, "batch", p->net->batch);
    sw_json_int(w, "parameters", about->params);

    json_shape(w, &p->best.shape);
    if (p->machine->device[0].threads > 0)
        sw_json_int(w, "threads_per_worker", p->machine->device[0].threads);
    else
        sw_json_real(w, "threads_per_worker", (double)NAN);
    json_ms(w, "predicted_ms", t->step_s);
    json_ms(w, "one_worker_ms", p->one_worker_s);
    sw_json_real(w, "speed_up", sw_planned_speed_up(p));
    json_ms(w, "compute_ms", t->compute_s);
    json_ms(w, "params_ms", t->params_s);
    json_ms(w, "activations_ms", t->activations_s);
    json_ms(w, "rest_ms", t->rest_s);
    json_ms(w, "wait_ms", t->wait_s);
    json_ms(w, "sum_of_layers_ms", p->best.additive_s);

    sw_json_open_array(w, "memory_bytes");
    for (int i = 0; i < p->best.workers; i++)
        sw_json_int(w, NULL, p->best.device_bytes[i]);
    sw_json_close_array(w);
    json_fit(w, &p->best.fit);
    sw_json_bool(w, "exact", p->is_exact);
    sw_json_int(w, "skipped_counts", p->skipped_shapes);
    sw_json_int(w, "open_layers", p->most_open);

    sw_json_open_array(w, "layers");
    for (int i = 0; i < p->net->count; i++)
        json_layer(w, p, i);
    sw_json_close_array(w);

    sw_json_open_array(w, "alternatives");
    for (int i = 0; i < p->alternatives; i++)
        json_alternative(w, p, &p->alternative[i]);
    sw_json_close_array(w);
    sw_json_int(w, "as_fast", p->as_fast);

    sw_planned_json_machine(w, p);
    sw_json_string(w, "times", about->times[0] ? about->times : NULL);
    sw_json_open_array(w, "sets");
    for (int i = 0; i < about->set_count; i++)
        sw_json_string(w, NULL, about->sets[i]);
    sw_json_close_array(w);
    sw_json_string(w, "ini", about->ini);
}
