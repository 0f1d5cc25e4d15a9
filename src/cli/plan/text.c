/* Prints a plan for people: the chosen shape, layers, memory, and what was rejected.
 * The contract is in cli/plan/output.h. */
#include "cli/plan/output.h"

#include "base/str.h"
#include "base/text.h"
#include "cli/terminal/columns.h"
#include <math.h>
#include <string.h>

#define INDENT "             " /* the width of a title */

#define ROUNDING 1e-9 /* what is below a nanosecond comes from rounding */

/* Milliseconds. */
static const char *ms(char out[32], double seconds)
{
    return sw_human_real(out, fabs(seconds) < ROUNDING ? 0 : seconds * 1000);
}

/* A cell of milliseconds; empty for 0. */
static void ms_cell(struct sw_columns *t, double seconds)
{
    char text[32];

    sw_columns_cell(t, "%s", seconds > ROUNDING ? ms(text, seconds) : "");
}

/* ---- Layers ---- */

/* Is a layer worth a line: it has parameters, is not split by rows, or takes time? */
static bool is_notable(const struct sw_planned *p, int i)
{
    const struct sw_layer_cost *c = &p->costs[i];
    const double cost_s = c->compute_s + c->params_s + c->activations_s;

    return p->net->layer[i].params > 0 || p->best.choice[i].partition != SW_PARTITION_ROWS ||
           cost_s > 0.02 * p->best.additive_s;
}

/* Columns of the table of layers that have something to say. */
struct shown {
    bool comm, params, activations, wait, runner_up;
};

static struct shown find_shown(const struct sw_planned *p)
{
    struct shown s = {0};

    for (int i = 0; i < p->net->count; i++) {
        s.comm = s.comm || sw_planned_exchanges(p->net, &p->best, i);
        s.params = s.params || p->costs[i].params_s > 0;
        s.activations = s.activations || p->costs[i].activations_s > 0;
        s.wait = s.wait || p->simulation.layer_wait_s[i] > ROUNDING;
        s.runner_up = s.runner_up || isfinite(p->runner_up_s[i]);
    }

    return s;
}

static void runner_up_cells(struct sw_columns *t, const struct sw_planned *p, int i)
{
    const bool has = isfinite(p->runner_up_s[i]);
    char choice[64], text[32];

    sw_columns_cell(t, "%s",
                    has ? sw_planned_choice_text(p->net, i, &p->runner_up[i], choice) : "");
    if (has && fabs(p->runner_up_s[i]) < SW_PLANNED_EQUAL * p->best.time.step_s)
        sw_columns_cell(t, "equal");
    else
        sw_columns_cell(t, "%s%s", has && p->runner_up_s[i] >= 0 ? "+" : "",
                        has ? ms(text, p->runner_up_s[i]) : "");
}

static void layer_row(struct sw_columns *t, const struct sw_planned *p, const struct shown *shown,
                      int i)
{
    const struct sw_layer_choice *c = &p->best.choice[i];

    sw_columns_cell(t, "%s", p->net->layer[i].name);
    if (c->partition == SW_PARTITION_NONE)
        sw_columns_cell(t, "none on worker %d", c->location);
    else
        sw_columns_cell(t, "%s", sw_partition_names[c->partition]);
    if (shown->comm)
        sw_columns_cell(t, "%s",
                        sw_planned_exchanges(p->net, &p->best, i) ? sw_exchange_mode_names[c->comm]
                                                                  : "");

    ms_cell(t, p->costs[i].compute_s);
    if (shown->params)
        ms_cell(t, p->costs[i].params_s);
    if (shown->activations)
        ms_cell(t, p->costs[i].activations_s);
    if (shown->wait)
        ms_cell(t, p->simulation.layer_wait_s[i]);
    if (shown->runner_up)
        runner_up_cells(t, p, i);
}

static void print_others(struct sw_bytes *out, const struct sw_planned *p)
{
    double cost_s = 0;
    int count = 0;
    char text[32];

    for (int i = 0; i < p->net->count; i++)
        if (!is_notable(p, i)) {
            const struct sw_layer_cost *c = &p->costs[i];

            count++;
            cost_s += c->compute_s + c->params_s + c->activations_s;
        }

    if (count)
        sw_bytes_printf(out, "%d more layer%s by rows without parameters: %s ms (-v shows them)\n",
                        count, count == 1 ? "" : "s", ms(text, cost_s));
}

static void print_layers(struct sw_bytes *out, const struct sw_planned *p, bool all)
{
    const struct shown shown = find_shown(p);
    struct sw_columns t = {0};

    sw_bytes_printf(out, "layers, in ms of a worker%s%s\n",
                    shown.wait ? "; wait is what overlap does not hide" : "",
                    shown.runner_up ? "; runner-up is the best other choice" : "");
    sw_columns_begin(&t, "layer|partition");
    if (shown.comm)
        sw_columns_add(&t, "comm");
    sw_columns_add(&t, ">compute");
    if (shown.params)
        sw_columns_add(&t, ">parameters");
    if (shown.activations)
        sw_columns_add(&t, ">activations");
    if (shown.wait)
        sw_columns_add(&t, ">wait");
    if (shown.runner_up)
        sw_columns_begin(&t, "runner-up|>slower");

    for (int i = 0; i < p->net->count; i++)
        if (all || is_notable(p, i))
            layer_row(&t, p, &shown, i);
    sw_columns_print(&t, out);
    sw_columns_fini(&t);

    if (!all)
        print_others(out, p);
}

/* ---- The whole ---- */

static void print_shape(struct sw_bytes *out, const struct sw_planned *p)
{
    const struct sw_plan_shape *s = &p->best.shape;
    char shape[96];

    sw_bytes_printf(out, "%s, %s", sw_framework_name(s->framework),
                    sw_planned_shape_text(s, shape));
    if (p->machine->hosts > 1)
        sw_bytes_printf(out, " on %d of %d hosts", sw_planned_hosts(p), p->machine->hosts);
    if (s->framework != SW_FRAMEWORK_ALLREDUCE)
        sw_bytes_printf(out, ", %d server%s", s->servers, s->servers == 1 ? "" : "s");
    if (s->consistency != SW_CONSISTENCY_BSP)
        sw_bytes_printf(out, ", %s", sw_consistency_name(s->consistency));
    if (s->staleness >= 0 && s->consistency == SW_CONSISTENCY_SSP)
        sw_bytes_printf(out, " with staleness %lld", (long long)s->staleness);
}

static void print_step(struct sw_bytes *out, const struct sw_planned *p)
{
    const struct sw_plan_time *t = &p->best.time;
    char step[32], one[32], rate[32];
    const double samples = (double)sw_planned_samples(p->net, &p->best.shape);

    sw_bytes_printf(out, "%s ms predicted", ms(step, t->step_s));
    if (samples > (double)p->net->batch)
        sw_bytes_printf(out, " for %d batches of %lld samples", p->best.shape.groups,
                        (long long)p->net->batch);
    sw_bytes_printf(out, ", %s samples/s", sw_human_real(rate, samples / t->step_s));
    if (p->best.workers > 1)
        sw_bytes_printf(out, ", speed-up %.2f over 1 worker (%s ms)", sw_planned_speed_up(p),
                        ms(one, p->one_worker_s));
    sw_bytes_add(out, "\n");
}

/* Why this plan: what it saves over the next one. */
static void print_reason(struct sw_bytes *out, const struct sw_planned *p)
{
    char more[32];

    if (p->as_fast)
        sw_bytes_printf(out, INDENT "%d other plan%s equally fast\n", p->as_fast,
                        p->as_fast == 1 ? " is" : "s are");
    if (p->alternatives == 0)
        return;

    const struct sw_planned_alternative *a = &p->alternative[0];
    const double more_s = a->step_s - p->best.time.step_s;

    sw_bytes_printf(out, INDENT "the next best takes %s ms (%.1f %%) longer: ", ms(more, more_s),
                    100 * more_s / p->best.time.step_s);
    sw_text_add(out, a->what);
    sw_bytes_add(out, "\n");
}

static void print_memory(struct sw_bytes *out, const struct sw_planned *p)
{
    const struct sw_machine_model *m = p->machine;
    char needs[32], has[32];

    sw_bytes_add(out, "memory       ");

    for (int w = 0, count; w < p->best.workers; w += count) {
        const struct sw_device_model *d = &m->device[w];

        for (count = 1; w + count < p->best.workers &&
                        p->best.device_bytes[w + count] == p->best.device_bytes[w] &&
                        m->device[w + count].memory_bytes == d->memory_bytes;)
            count++;

        sw_bytes_add(out, w ? INDENT : "");
        if (count > 1)
            sw_bytes_printf(out, "workers %d-%d  %s each", w, w + count - 1,
                            sw_human_bytes(needs, (double)p->best.device_bytes[w]));
        else
            sw_bytes_printf(out, "worker %d  %s", w,
                            sw_human_bytes(needs, (double)p->best.device_bytes[w]));
        if (d->memory_bytes > 0)
            sw_bytes_printf(out, ", of %s%s", sw_human_bytes(has, (double)d->memory_bytes),
                            d->host_memory ? " of the host" : "");
        sw_bytes_add(out, "\n");
    }
}

static void print_fit(struct sw_bytes *out, const struct sw_planned *p)
{
    const struct sw_plan_fit *f = &p->best.fit;
    char budget[32], more[32];

    if (f->budget_bytes > 0)
        sw_bytes_printf(out,
                        INDENT "memory = fit:%s: %d recomputed in backward, %d offloaded, %s ms "
                               "per step\n",
                        sw_human_bytes(budget, (double)f->budget_bytes), f->recomputed,
                        f->offloaded, ms(more, f->seconds));
}

/* Do GPUs of several hosts exchange factors? */
static bool has_factors_between_hosts(const struct sw_planned *p)
{
    bool factors = false;

    for (int i = 0; i < p->best.layers; i++)
        factors = factors || (sw_planned_exchanges(p->net, &p->best, i) &&
                              p->best.choice[i].comm != SW_EXCHANGE_PS);
    return factors && sw_planned_hosts(p) > 1 && !p->machine->device[0].host_memory;
}

static void print_search(struct sw_bytes *out, const struct sw_planned *p)
{
    sw_bytes_printf(out, "search       %s; the best plans were then simulated\n",
                    p->is_exact ? "exact: no plan has a lower sum of costs"
                                : "a beam: too many layers are open at once for an exact search");
    if (p->skipped_shapes > 0)
        sw_bytes_printf(out, INDENT "%d other counts of groups and workers were not searched\n",
                        p->skipped_shapes);
    if (p->rows_between_hosts)
        sw_bytes_add(out, INDENT "layers are split by rows, because activations do not move "
                                 "between hosts\n");
    if (has_factors_between_hosts(p))
        sw_bytes_add(out, INDENT "GPUs of several hosts do not exchange factors yet: a run needs "
                                 "--set cluster.comm=ps\n");
}

const char sw_planned_no_run[] = "no run can do this: it has no hosts for servers alone, and "
                                 "moves no activations between hosts\n";

static void print_alternatives(struct sw_bytes *out, const struct sw_planned *p)
{
    struct sw_columns t = {0};
    char text[32];

    if (p->alternatives == 0)
        return;

    sw_columns_begin(&t, "rejected|>step ms|>slower ms|>slower");

    for (int i = 0; i < p->alternatives; i++) {
        const struct sw_planned_alternative *a = &p->alternative[i];
        const double more_s = a->step_s - p->best.time.step_s;

        sw_columns_cell(&t, "%s", a->what);
        ms_cell(&t, a->step_s);
        sw_columns_cell(&t, "%s", ms(text, more_s));
        if (a->step_s < 10 * p->best.time.step_s)
            sw_columns_cell(&t, "%.1f %%", 100 * more_s / p->best.time.step_s);
        else
            sw_columns_cell(&t, "%.0f times", a->step_s / p->best.time.step_s);
    }

    sw_bytes_add(out, "\n");
    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

void sw_planned_print(struct sw_bytes *out, const struct sw_planned *p,
                      const struct sw_planned_about *about)
{
    const struct sw_plan_time *t = &p->best.time;
    char count[32], compute[32], params[32], activations[32], rest[32], wait[32];

    sw_text_add(out, about->name);
    sw_bytes_add(out, " (");
    sw_text_add(out, about->recipe);
    sw_bytes_printf(out, "): batch %lld, %s parameters\n\n", (long long)p->net->batch,
                    sw_human_count(count, (double)about->params));
    sw_planned_print_machine(out, p);
    if (about->times[0]) {
        sw_bytes_add(out, "times        of layers: ");
        sw_text_add(out, about->times);
        sw_bytes_add(out, "\n");
    }

    sw_bytes_add(out, "plan         ");
    print_shape(out, p);
    sw_bytes_add(out, "\n");
    if (p->machine->server_hosts > 0)
        sw_bytes_printf(out, INDENT "%s", sw_planned_no_run);
    print_reason(out, p);
    sw_bytes_add(out, "step         ");
    print_step(out, p);
    sw_bytes_printf(out, INDENT "compute %s ms, parameters %s, activations %s, rest %s, wait %s\n",
                    ms(compute, t->compute_s), ms(params, t->params_s),
                    ms(activations, t->activations_s), ms(rest, t->rest_s), ms(wait, t->wait_s));
    print_memory(out, p);
    print_fit(out, p);
    print_search(out, p);

    sw_bytes_add(out, "\n");
    print_layers(out, p, about->verbose);
    print_alternatives(out, p);

    if (about->ini) {
        sw_bytes_printf(out, "\n; lines for the recipe%s\n",
                        p->rows_between_hosts ? "; counts are those of each host" : "");
        sw_text_add_lines(out, about->ini, strlen(about->ini));
    }
}

void sw_planned_print_brief(struct sw_bytes *out, const struct sw_planned *p)
{
    int shown = 0, more = 0;

    sw_bytes_add(out, "plan         ");
    print_shape(out, p);
    sw_bytes_add(out, "\n" INDENT);
    print_step(out, p);
    sw_planned_print_network(out, p->machine);

    for (int i = 0; i < p->net->count; i++) {
        const struct sw_layer_choice *c = &p->best.choice[i];
        char text[64];

        if (c->partition == SW_PARTITION_ROWS && (c->comm == SW_EXCHANGE_PS || p->best.workers < 2))
            continue;
        if (shown == 6) {
            more++;
            continue;
        }

        sw_bytes_add(out, shown++ ? ", " : INDENT);
        sw_text_add(out, p->net->layer[i].name);
        sw_bytes_printf(out, " %s", sw_planned_choice_text(p->net, i, c, text));
    }

    if (more)
        sw_bytes_printf(out, ", and %d more", more);
    if (shown)
        sw_bytes_add(out, "; the others by rows\n");
}
