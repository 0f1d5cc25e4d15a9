/* What the movements of activations of a plan are: between which layers, and the links that they
 * cross. */
#include "planner/simulate_private.h"

#include "base/os.h"
#include "planner/cost_private.h"

/* The move that makes distribution d of a source; -1: it is its output. */
static int maker_of(const struct sw_plansim *s, int source, struct sw_distribution d)
{
    for (int i = 0; i < s->moves; i++)
        if (s->move[i].source == source && sw_distribution_equal(s->move[i].to, d))
            return i;
    return -1;
}

/* The lowest layer with a gradient that reads the source in distribution d; -1: none. */
static int back_reader(const struct sw_plansim *s, int source, struct sw_distribution d)
{
    for (int j = source + 1; j < s->layers; j++) {
        const struct sw_layer_model *l = &s->net->layer[j];

        for (int k = 0; k < l->source_count; k++)
            if (l->has_backward && l->source[k] == source &&
                sw_distribution_equal(sw_cost_input(&s->cost, j, k, &s->plan->choice[j]), d))
                return j;
    }

    return -1;
}

/* The path of a move in a group, and the floats of one of its units for each that moves. */
static int path_of(struct sw_plansim *s, struct sw_plansim_move *m, int group, int back,
                   double *unit, struct sw_err *err)
{
    const struct sw_distribution *from = back ? &m->to : &m->from, *to = back ? &m->from : &m->to;
    int first = group * s->size;
    double others = s->size - 1;
    struct sw_plansim_members all = {first, 1, s->size};
    enum sw_plansim_path_kind kind = SW_PLANSIM_EXCHANGE;
    int at = 0;

    *unit = 1 / (others * s->size);
    if (from->dist == SW_DIST_ONE && to->dist == SW_DIST_ONE) {
        all = (struct sw_plansim_members){first + to->at, 1, 1};
        others = 1;
    }

    if (from->dist == SW_DIST_ONE) {
        kind = SW_PLANSIM_SPREAD;
        at = first + from->at;
        *unit = 1 / others;
    } else if (to->dist == SW_DIST_ONE) {
        kind = SW_PLANSIM_COLLECT;
        at = first + to->at;
        *unit = 1 / others;
    }

    return sw_plansim_paths_get(&s->paths, kind, all, at, &m->path[back][group], err);
}

static int plan_move(struct sw_plansim *s, struct sw_plansim_move *m, struct sw_err *err)
{
    const struct sw_layer_model *source = &s->net->layer[m->source];
    double bytes = SW_FLOAT_BYTES * sw_cost_moved(&s->cost, m->source, m->from, m->to), unit;
    double seconds_all = sw_cost_move(&s->cost, m->source, m->from, m->to, NULL);

    m->has_back = source->has_backward && m->back_reader >= 0;
    if (s->cost.group.bytes_per_s == 0) /* copies in the memory that all share */
        m->copy_s = source->has_backward ? seconds_all / 2 : seconds_all;

    for (int back = 0; back < 2; back++) {
        m->path[back] = sw_calloc((size_t)s->groups, sizeof(const struct sw_plansim_path *));
        m->crossing[back] = sw_calloc((size_t)s->groups, sizeof *m->crossing[back]);
        if (!m->path[back] || !m->crossing[back])
            return sw_err_nomem(err, "movements", (size_t)s->groups * sizeof *m->crossing[back]);

        for (int g = 0; g < s->groups; g++) {
            int rc = path_of(s, m, g, back, &unit, err);
            if (rc != SW_OK)
                return rc;
            m->bytes[back] = bytes * unit;
        }
    }

    return SW_OK;
}

static int plan_moves_to(struct sw_plansim *s, int reader, struct sw_err *err)
{
    const struct sw_layer_model *l = &s->net->layer[reader];
    struct sw_cost_connection c[2];

    for (int k = 0; k < l->source_count; k++) {
        int count = sw_cost_connections(&s->cost, s->plan, reader, k, c);

        for (int i = 0; i < count; i++) {
            if (!sw_movement_cell(c[i].from, c[i].to))
                return sw_err_set(err, SW_ERR_INVALID, "layer %s cannot read %s as they are split",
                                  l->name, s->net->layer[l->source[k]].name);

            int parent = maker_of(s, l->source[k], c[i].from);
            struct sw_plansim_move *m = sw_array_add(&s->move, &s->moves, sizeof *s->move);
            if (!m)
                return sw_err_nomem(err, "movements", (size_t)s->moves * sizeof *s->move);

            m->source = l->source[k];
            m->reader = reader;
            m->from = c[i].from;
            m->to = c[i].to;
            m->parent = parent;
            m->back_reader = back_reader(s, m->source, m->to);
            int rc = plan_move(s, m, err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}

int sw_plansim_plan_moves(struct sw_plansim *s, struct sw_err *err)
{
    for (int l = 0; l < s->layers && s->size > 1; l++) {
        int rc = plan_moves_to(s, l, err);
        if (rc != SW_OK)
            return rc;
    }

    /* A move is made after its parent. */
    for (int i = s->moves - 1; i >= 0; i--) {
        struct sw_plansim_move *m = &s->move[i];

        m->has_back = m->has_back || m->back_children > 0;
        if (m->parent >= 0)
            s->move[m->parent].back_children += m->has_back;
    }

    return SW_OK;
}
