/* The plans that were rejected: which are shown, and how each is called. The contract is in
 * planner/planned_private.h. */
#include "planner/planned_private.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 12, SHOWN_VARIATIONS = 5, NAMED_LAYERS = 3 };

static bool same_shape(const struct sw_plan_shape *a, const struct sw_plan_shape *b)
{
    return a->framework == b->framework && a->consistency == b->consistency &&
           a->groups == b->groups && a->group_size == b->group_size && a->servers == b->servers &&
           a->threads == b->threads;
}

/* "with fc6 1in, fc7 0 sfb and 3 more layers": where a plan of the same shape differs from the
 * best. */
static void describe_difference(const struct sw_planned *out, const struct sw_parallel_plan *p,
                                char *text, size_t bytes)
{
    size_t n = 0;
    int named = 0, more = 0;

    for (int i = 0; i < p->layers; i++) {
        char choice[64];

        if (sw_planned_same_choice(&p->choice[i], &out->best.choice[i]))
            continue;
        if (named == NAMED_LAYERS) {
            more++;
            continue;
        }

        n += (size_t)snprintf(text + n, bytes - n, "%s%.20s %.20s", named++ ? ", " : "with ",
                              out->net->layer[i].name,
                              sw_planned_choice_text(out->net, i, &p->choice[i], choice));
    }

    if (more)
        snprintf(text + n, bytes - n, " and %d more layer%s", more, more == 1 ? "" : "s");
}

/* Does a candidate have the same workers as the best plan? */
static bool same_workers(const struct sw_planned *out, const struct sw_planned_candidate *c)
{
    return c->machine == out->machine && same_shape(&c->plan.shape, &out->best.shape);
}

static void describe(const struct sw_planned *out, const struct sw_planned_candidate *c, char *text,
                     size_t bytes)
{
    const int hosts = sw_planned_hosts_of(c->machine, c->plan.workers);
    char shape[96], on[32] = "";

    text[0] = '\0';
    if (c->machine->hosts > 1)
        snprintf(on, sizeof on, " on %d host%s", hosts, hosts == 1 ? "" : "s");

    if (!same_workers(out, c))
        snprintf(text, bytes, "%s, %s%s%s%s", sw_framework_name(c->plan.shape.framework),
                 sw_planned_shape_text(&c->plan.shape, shape), on, c->what ? ": " : "",
                 c->what ? c->what : "");
    else if (c->what)
        snprintf(text, bytes, "%s", c->what);
    else
        describe_difference(out, &c->plan, text, bytes);
}

/* Is there an alternative of the same description that is as fast? A slower one is removed. */
static bool is_known(struct sw_planned *out, const struct sw_planned_alternative *a)
{
    int i = 0;

    while (i < out->alternatives && strcmp(out->alternative[i].what, a->what) != 0)
        i++;
    if (i == out->alternatives || out->alternative[i].step_s <= a->step_s)
        return i < out->alternatives;

    out->alternatives--;
    memmove(&out->alternative[i], &out->alternative[i + 1],
            (size_t)(out->alternatives - i) * sizeof *a);
    return false;
}

/* Inserts a slower plan in order. */
static void add_alternative(struct sw_planned *out, const struct sw_planned_candidate *c)
{
    const double samples = (double)sw_planned_samples(out->net, &out->best.shape);
    struct sw_planned_alternative a = {.shape = c->plan.shape,
                                       .step_s = sw_planned_sample_s(out, &c->plan) * samples};

    if (a.step_s < (1 + SW_PLANNED_EQUAL) * out->best.time.step_s) {
        out->as_fast++;
        return;
    }

    a.varies = !c->what && same_workers(out, c);
    describe(out, c, a.what, sizeof a.what);

    if (is_known(out, &a))
        return;

    int at = out->alternatives;
    while (at > 0 && out->alternative[at - 1].step_s > a.step_s)
        at--;
    if (at == SW_PLANNED_ALTERNATIVES)
        return;

    if (out->alternatives < SW_PLANNED_ALTERNATIVES)
        out->alternatives++;
    memmove(&out->alternative[at + 1], &out->alternative[at],
            (size_t)(out->alternatives - 1 - at) * sizeof a);
    out->alternative[at] = a;
}

/* Is an alternative only another form of the one before it? */
static bool is_form_of(const struct sw_planned_alternative *a,
                       const struct sw_planned_alternative *before)
{
    return !a->varies && !before->varies &&
           a->step_s <= (1 + SW_PLANNED_ROUNDING) * before->step_s &&
           a->shape.groups * a->shape.group_size == before->shape.groups * before->shape.group_size;
}

/* Keeps the fastest ones, and of those that differ in some layers only a few. */
static void trim_alternatives(struct sw_planned *out)
{
    struct sw_planned_alternative *a = out->alternative;
    int kept = 0, variations = 0;

    for (int i = 0; i < out->alternatives && kept < SHOWN; i++) {
        if ((a[i].varies && ++variations > SHOWN_VARIATIONS) ||
            (kept > 0 && is_form_of(&a[i], &a[kept - 1])))
            continue;
        a[kept++] = a[i];
    }

    out->alternatives = kept;
}

void sw_planned_compare(struct sw_planned_making *m)
{
    for (int i = 0; i < m->count; i++)
        if (m->candidate[i].plan.layers > 0)
            add_alternative(m->out, &m->candidate[i]);

    trim_alternatives(m->out);
}
