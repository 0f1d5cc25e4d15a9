/* Prints a plan for people: the machine, the chosen shape, layers, memory, and what was rejected.
 * The contract is in cli/plan/output.h. */
#include "cli/plan/output.h"

#include "base/str.h"
#include "base/text.h"
#include "cli/terminal/columns.h"
#include <math.h>
#include <string.h>

#define INDENT "             " /* the width of a title */

/* Milliseconds; what is below a nanosecond comes from rounding. */
static const char *ms(char out[32], double seconds)
{
    return sw_human_real(out, fabs(seconds) < 1e-9 ? 0 : seconds * 1000);
}

/* A cell of milliseconds; empty for 0. */
static void ms_cell(struct sw_columns *t, double seconds)
{
    char text[32];

    sw_columns_cell(t, "%s", seconds > 0 ? ms(text, seconds) : "");
}

/* ---- Machine ---- */

static bool same_figure(const struct sw_figure *a, const struct sw_figure *b)
{
    return a->value == b->value && strcmp(a->source, b->source) == 0;
}

static bool same_device(const struct sw_device_model *a, const struct sw_device_model *b)
{
    return same_figure(&a->flops_per_s, &b->flops_per_s) &&
           same_figure(&a->bytes_per_s, &b->bytes_per_s) && a->memory_bytes == b->memory_bytes &&
           a->host_memory == b->host_memory;
}

static void print_figure(struct sw_bytes *out, const struct sw_figure *f, const char *unit)
{
    char text[32];

    sw_bytes_printf(out, "%s (", sw_human_unit(text, f->value, unit));
    sw_text_add(out, f->source);
    sw_bytes_add(out, ")");
}

static void print_device(struct sw_bytes *out, const struct sw_machine_model *m, int first,
                         int count)
{
    const struct sw_device_model *d = &m->device[first];
    char bytes[32];

    sw_bytes_add(out, INDENT);
    sw_text_add(out, d->name);
    if (count > 1) {
        sw_bytes_add(out, count > 2 ? " to " : ", ");
        sw_text_add(out, m->device[first + count - 1].name);
        sw_bytes_add(out, ", each");
    }

    sw_bytes_add(out, ": ");
    print_figure(out, &d->flops_per_s, "flop/s");
    sw_bytes_add(out, ", memory ");
    print_figure(out, &d->bytes_per_s, "B/s");
    if (d->memory_bytes > 0)
        sw_bytes_printf(out, ", %s%s", sw_human_bytes(bytes, (double)d->memory_bytes),
                        d->host_memory ? " of the host" : "");
    sw_bytes_add(out, "\n");
}

static bool same_link(const struct sw_hub_model *a, const struct sw_hub_model *b)
{
    return same_figure(&a->bytes_per_s, &b->bytes_per_s) && a->latency_s == b->latency_s &&
           (a->host < 0) == (b->host < 0);
}

/* A link of which nothing limits the throughput is no news. */
static bool is_shown(const struct sw_machine_model *m, int hub)
{
    if (m->hub[hub].parent < 0 || m->hub[hub].bytes_per_s.value <= 0)
        return false;

    for (int i = 0; i < hub; i++)
        if (m->hub[i].parent >= 0 && same_link(&m->hub[i], &m->hub[hub]))
            return false;
    return true;
}

static void print_link(struct sw_bytes *out, const struct sw_machine_model *m, int hub)
{
    const struct sw_hub_model *h = &m->hub[hub];
    int alike = 0;
    char latency[32];

    for (int i = hub + 1; i < m->hub_count; i++)
        alike += same_link(&m->hub[i], h);

    sw_bytes_add(out, INDENT "link of ");
    sw_text_add(out, h->name);
    if (alike)
        sw_bytes_printf(out, " and %d more", alike);
    sw_bytes_add(out, ": ");
    print_figure(out, &h->bytes_per_s, "B/s");
    sw_bytes_add(out, " in each direction");
    if (h->latency_s > 0)
        sw_bytes_printf(out, ", %s", sw_human_seconds(latency, h->latency_s));
    sw_bytes_add(out, "\n");
}

void sw_planned_print_machine(struct sw_bytes *out, const struct sw_machine_model *m)
{
    sw_bytes_add(out, "machine      ");
    sw_text_add(out, m->name);
    sw_bytes_add(out, "\n");

    for (int i = 0, count; i < m->device_count; i += count) {
        for (count = 1;
             i + count < m->device_count && same_device(&m->device[i], &m->device[i + count]);)
            count++;
        print_device(out, m, i, count);
    }

    for (int i = 0; i < m->hub_count; i++)
        if (is_shown(m, i))
            print_link(out, m, i);

    if (m->pair_count) {
        sw_bytes_printf(out, INDENT "%d direct link%s between devices: ", m->pair_count,
                        m->pair_count == 1 ? "" : "s");
        print_figure(out, &m->pair[0].bytes_per_s, "B/s");
        sw_bytes_add(out, " in each direction\n");
    }
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

static void layer_row(struct sw_columns *t, const struct sw_planned *p, int i)
{
    const struct sw_layer_choice *c = &p->best.choice[i];
    char choice[64], text[32];

    sw_columns_cell(t, "%s", p->net->layer[i].name);
    if (c->partition == SW_PARTITION_NONE)
        sw_columns_cell(t, "none on worker %d", c->location);
    else
        sw_columns_cell(t, "%s", sw_partition_names[c->partition]);
    sw_columns_cell(
        t, "%s", sw_planned_exchanges(p->net, &p->best, i) ? sw_exchange_mode_names[c->comm] : "");

    ms_cell(t, p->costs[i].compute_s);
    ms_cell(t, p->costs[i].params_s);
    ms_cell(t, p->costs[i].activations_s);

    const bool has = isfinite(p->runner_up_s[i]);
    sw_columns_cell(t, "%s",
                    has ? sw_planned_choice_text(p->net, i, &p->runner_up[i], choice) : "");
    sw_columns_cell(t, "%s%s", has && p->runner_up_s[i] >= 0 ? "+" : "",
                    has ? ms(text, p->runner_up_s[i]) : "");
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
    struct sw_columns t = {0};

    sw_columns_begin(&t, "layer|partition|comm|>compute ms|>parameters ms|>activations ms|"
                         "runner-up|>more ms");
    for (int i = 0; i < p->net->count; i++)
        if (all || is_notable(p, i))
            layer_row(&t, p, i);
    sw_columns_print(&t, out);
    sw_columns_fini(&t);

    if (!all)
        print_others(out, p);
}

/* ---- The whole ---- */

static void print_shape(struct sw_bytes *out, const struct sw_plan_shape *s)
{
    char shape[96];

    sw_bytes_printf(out, "%s, %s", sw_framework_name(s->framework),
                    sw_planned_shape_text(s, shape));
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

    sw_bytes_printf(out, "%s ms predicted, %s samples/s", ms(step, t->step_s),
                    sw_human_real(rate, samples / t->step_s));
    if (p->best.workers > 1)
        sw_bytes_printf(out, ": %.2f times as fast as 1 worker (%s ms)", sw_planned_speed_up(p),
                        ms(one, p->one_worker_s));
    sw_bytes_add(out, "\n");
}

/* Why this plan: what it saves over the next one. */
static void print_reason(struct sw_bytes *out, const struct sw_planned *p)
{
    char more[32];

    if (p->as_fast)
        sw_bytes_printf(out, INDENT "as fast as %d other plan%s\n", p->as_fast,
                        p->as_fast == 1 ? "" : "s");
    if (p->alternatives == 0)
        return;

    const struct sw_planned_alternative *a = &p->alternative[0];
    const double more_s = a->step_s - p->best.time.step_s;

    sw_bytes_printf(out, INDENT "%s ms per step faster than the next best: ", ms(more, more_s));
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
    if (p->rows_between_hosts)
        sw_bytes_add(out, INDENT "layers are split by rows, because activations do not move "
                                 "between hosts\n");
    if (has_factors_between_hosts(p))
        sw_bytes_add(out, INDENT "GPUs of several hosts do not exchange factors yet: a run needs "
                                 "--set cluster.comm=ps\n");
}

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
        sw_columns_cell(&t, "%.1f %%", 100 * more_s / p->best.time.step_s);
    }

    sw_bytes_add(out, "\n");
    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

void sw_planned_print(struct sw_bytes *out, const struct sw_planned *p,
                      const struct sw_planned_about *about)
{
    const struct sw_plan_time *t = &p->best.time;
    char count[32], compute[32], params[32], activations[32], wait[32];

    sw_text_add(out, about->name);
    sw_bytes_add(out, " (");
    sw_text_add(out, about->recipe);
    sw_bytes_printf(out, "): batch %lld, %s parameters\n\n", (long long)p->net->batch,
                    sw_human_count(count, (double)about->params));
    sw_planned_print_machine(out, p->machine);
    if (about->times[0]) {
        sw_bytes_add(out, "times        of layers: ");
        sw_text_add(out, about->times);
        sw_bytes_add(out, "\n");
    }

    sw_bytes_add(out, "plan         ");
    print_shape(out, &p->best.shape);
    sw_bytes_add(out, "\n");
    print_reason(out, p);
    sw_bytes_add(out, "step         ");
    print_step(out, p);
    sw_bytes_printf(out, INDENT "compute %s ms, parameters %s, activations %s, wait %s\n",
                    ms(compute, t->compute_s), ms(params, t->params_s),
                    ms(activations, t->activations_s), ms(wait, t->wait_s));
    print_memory(out, p);
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
    print_shape(out, &p->best.shape);
    sw_bytes_add(out, "\n" INDENT);
    print_step(out, p);

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
