/* Makes the nodes of a net. A layer is one node, or with `unroll` one per time step, all with the
 * parameters of the first (ties.c): the cycle of a recurrent layer becomes a path through its
 * steps, as in SINGA (TOMM, section 4.1.1 and Figures 5b, 9). Extra nodes connect steps with layers
 * that are not unrolled (steps.c): `tokens@3` takes a step out of a sequence, `h` joins the steps
 * h@0, h@1, ... into one, `h@begin` is the previous step of the first step, and `h@end` saves the
 * last step's output for the next batch. If a step passes more state to the next step than other
 * layers read, `h@3` has all of it and is read by h@4 only, and the others read `h@3.h`.
 * Back-propagation through time is truncated at batch boundaries.
 *
 * Steps run one after another, each through all of its layers, so that readers of an early step can
 * start before later steps run.
 *
 * The section's name (sw_layer.home) names parameters and state of all steps. Losses and metrics of
 * the steps are one result (sw_net_add_pairs), and the loss of each step has 1/steps of the weight.
 * Reports show the steps of a layer as one row (run/plan.c). sw_net_args.steps overrides the number
 * of steps. */
#include "net/graph/stages.h"

#include "base/os.h"
#include <string.h>

enum { NONE = -1 };

/* The nodes of a layer; NONE if missing. */
struct made {
    int first, joined;      /* its first node, and the join of its steps */
    int taken;              /* the first of the nodes that take steps out of its output */
    int begins;             /* `begin` */
    int shown, shown_begin; /* the first of the `front` nodes of its steps, and that of `begin` */
};

struct unrolling {
    struct sw_net_graph *graph; /* receives the nodes */
    bool keep_state; /* recurrent layers keep their state from pass to pass, whatever their keys say
                      */
    const struct sw_net_graph_layer *layers;
    int count;
    int64_t capacity;
    struct made *of; /* owned, per layer */
    struct sw_err *err;
};

static const struct sw_layer_type *type_of(const struct sw_net_graph_layer *l)
{
    return (const struct sw_layer_type *)(const void *)l->section->type[0];
}

static int64_t copies_of(const struct sw_net_graph_layer *l)
{
    return l->steps > 0 ? l->steps : 1;
}

static bool reads_before(const struct sw_net_graph_layer *l, int k)
{
    return l->how[k] == SW_PREVIOUS || l->how[k] == SW_STATEFUL;
}

/* True if a source that is connected first-to-last replaces the step before the first one. */
static bool is_begun(const struct sw_net_graph_layer *l)
{
    for (int k = 0; k < l->src_count; k++)
        if (l->steps > 0 && l->how[k] == SW_FIRST_TO_LAST)
            return true;
    return false;
}

static bool has_source(const struct sw_net_graph_layer *l, int k, int64_t step)
{
    if (step > 0)
        return l->how[k] != SW_FIRST_TO_LAST;
    return !reads_before(l, k) || !is_begun(l);
}

int sw_net_step_sources(const struct sw_net_graph_layer *l, int64_t step)
{
    int n = 0;
    for (int k = 0; k < l->src_count; k++)
        n += has_source(l, k, step);
    return n;
}

/* ---- Adding nodes ---- */

/* Takes ownership of name; NULL name and type: those of the layer. Returns the node, or NONE on
 * errors. */
static int add_node(struct unrolling *u, const struct sw_section *section,
                    const struct sw_layer_type *type, char *name)
{
    struct sw_net_graph *g = u->graph;

    if (type && !name) {
        sw_err_set(u->err, SW_ERR_NOMEM, "out of memory for a layer's name");
        return NONE;
    }
    if (sw_grow(&g->node, sizeof *g->node, g->count, &u->capacity, 16, "the layers", u->err)) {
        sw_free(name);
        return NONE;
    }

    int at = g->count++;
    g->node[at] = (struct sw_net_graph_node){
        .name = name ? name : section->name,
        .home = section->name,
        .section = section,
        .type = type ? type : (const struct sw_layer_type *)(const void *)section->type[0],
        .conf = type ? NULL : section->conf[0],
        .owned_name = name,
        .step = -1};

    return at;
}

static void add_source(struct unrolling *u, int node, int source)
{
    struct sw_net_graph_node *n = &u->graph->node[node];
    n->src[n->src_count++] = source;
}

/* Divides the weight of a loss by the number of steps. */
static int share_weight(struct unrolling *u, struct sw_net_graph_node *node, int64_t steps)
{
    const struct sw_type *type = &node->type->base;
    const struct sw_opt *o = type->opts;

    if (node->type->role != SW_ROLE_LOSS || steps < 2)
        return SW_OK;

    while (o && o->key && !sw_str_eq(o->key, "weight"))
        o++;
    if (!o || !o->key) {
        if (!sw_net_is_later_step(node))
            sw_recipe_error(u->graph->recipe, node->section, "unroll",
                            "%s has no weight that its steps could share", type->name);
        return sw_recipe_status(u->graph->recipe, u->err);
    }

    node->owned_conf = sw_calloc(1, type->conf_bytes);
    if (!node->owned_conf)
        return sw_err_nomem(u->err, "a loss", type->conf_bytes);

    memcpy(node->owned_conf, node->conf, type->conf_bytes);

    double *weight = (double *)(void *)((char *)node->owned_conf + o->offset);
    *weight /= (double)steps;
    node->conf = node->owned_conf;

    return SW_OK;
}

/* Adds the nodes of a layer, without sources. */
static int add_layer(struct unrolling *u, int i)
{
    const struct sw_net_graph_layer *l = &u->layers[i];

    u->of[i].first = u->graph->count;
    for (int64_t t = 0; t < copies_of(l); t++) {
        char *name = l->steps > 0 ? sw_format("%s@%lld", l->section->name, (long long)t) : NULL;
        if (l->steps > 0 && !name)
            return sw_err_nomem(u->err, "a layer's name", 0);

        int at = add_node(u, l->section, NULL, name);
        if (at == NONE)
            return SW_ERR_NOMEM;

        if (l->steps > 0) {
            u->graph->node[at].step = (int)t;
            u->graph->node[at].steps = (int)l->steps;

            int rc = share_weight(u, &u->graph->node[at], l->steps);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}

/* ---- The part of a step that other layers read ---- */

/* Width of the state that a step passes to the next one, if other layers read only a part of it;
 * else 0. */
static int64_t handed_on(const struct sw_net_graph_layer *l)
{
    const struct sw_layer_type *type = type_of(l);
    return l->steps > 0 && type->hands_on ? type->hands_on(l->section->conf[0]) : 0;
}

static int show(struct unrolling *u, int i, int node)
{
    const struct sw_section *s = u->layers[i].section;
    int at = add_node(u, s, &sw_net_front, sw_format("%s.h", u->graph->node[node].name));
    if (at == NONE)
        return NONE;

    u->graph->node[at].step = u->graph->node[node].step;
    u->graph->node[at].steps = u->graph->node[node].steps;
    u->graph->node[at].width = type_of(&u->layers[i])->width(s->conf[0]);
    add_source(u, at, node);

    return at;
}

static int show_steps(struct unrolling *u, int i)
{
    const struct sw_net_graph_layer *l = &u->layers[i];

    for (int64_t t = 0; handed_on(l) > 0 && t < l->steps; t++) {
        int at = show(u, i, u->of[i].first + (int)t);
        if (at == NONE)
            return SW_ERR_NOMEM;
        u->of[i].shown = t == 0 ? at : u->of[i].shown;
    }

    return SW_OK;
}

/* The node that other layers read for step t of layer i. */
static int output_of(const struct unrolling *u, int i, int64_t t)
{
    return (u->of[i].shown == NONE ? u->of[i].first : u->of[i].shown) + (int)t;
}

/* ---- Between steps and layers that are not unrolled ---- */

/* Adds a node that joins `count` steps or sequences; the final one has the layer's name. */
static int add_join(struct unrolling *u, int i, const int *parts, int count, int level, int number)
{
    const struct sw_section *s = u->layers[i].section;
    char *name =
        number < 0 ? sw_format("%s", s->name) : sw_format("%s@joined%d.%d", s->name, level, number);
    int at = add_node(u, s, &sw_net_join, name);
    if (at == NONE)
        return NONE;

    u->graph->node[at].joins_joins = level > 0;
    for (int k = 0; k < count; k++)
        add_source(u, at, parts[k]);

    return at;
}

/* The node with the sequence of a layer's steps. It is a tree of joins, because a layer has a
 * limited number of sources. */
static int join(struct unrolling *u, int i)
{
    int n = (int)u->layers[i].steps;

    if (u->of[i].joined != NONE)
        return u->of[i].joined;

    int *parts = sw_calloc((size_t)n, sizeof *parts);
    if (!parts) {
        sw_err_set(u->err, SW_ERR_NOMEM, "out of memory for the steps of a layer");
        return NONE;
    }

    for (int t = 0; t < n; t++)
        parts[t] = output_of(u, i, t);

    for (int level = 0; (n > 1 || level == 0) && parts[0] != NONE; level++) {
        int made = 0;

        for (int from = 0; from < n && parts[0] != NONE; from += SW_LAYER_SRCS) {
            int count = n - from < SW_LAYER_SRCS ? n - from : SW_LAYER_SRCS;
            int at = add_join(u, i, parts + from, count, level, n <= SW_LAYER_SRCS ? NONE : made);
            parts[at == NONE ? 0 : made++] = at;
        }

        n = parts[0] == NONE ? 0 : made;
    }

    u->of[i].joined = parts[0];
    sw_free(parts);
    return u->of[i].joined;
}

/* The node that takes step t out of the output of a layer that is not unrolled. */
static int take(struct unrolling *u, int i, const struct sw_net_graph_layer *reader, int64_t t)
{
    const struct sw_section *s = u->layers[i].section;

    if (u->of[i].taken == NONE) {
        for (int64_t step = 0; step < reader->steps; step++) {
            int at = add_node(u, reader->section, &sw_net_step,
                              sw_format("%s@%lld", s->name, (long long)step));
            if (at == NONE)
                return NONE;

            u->of[i].taken = step == 0 ? at : u->of[i].taken;
            u->graph->node[at].step = (int)step;
            u->graph->node[at].steps = (int)reader->steps;
            u->graph->node[at].of = s->name;
            u->graph->node[at].home = s->name;
            add_source(u, at, u->of[i].first);
        }
    }

    return u->of[i].taken + (int)t;
}

/* Features per row of the layer's output, from its type or its sources' types; 0: unknown. */
static int64_t width_of(const struct unrolling *u, int i, bool *seen)
{
    const struct sw_net_graph_layer *l = &u->layers[i];
    const struct sw_layer_type *type = u->graph->node[u->of[i].first].type;
    int64_t width = type->width ? type->width(l->section->conf[0]) : 0;
    if (seen[i] || width > 0)
        return seen[i] ? 0 : width;

    seen[i] = true;
    for (int k = 0; k < l->src_count && width == 0; k++)
        width = width_of(u, l->src[k], seen);

    return width;
}

/* Adds the `begin` node: the previous step that the first step reads; with an `end` node that saves
 * it between batches if keeps_state is set. */
static int begin(struct unrolling *u, int i, bool keeps_state)
{
    const struct sw_net_graph_layer *l = &u->layers[i];

    if (u->of[i].begins != NONE)
        return u->of[i].begins;

    bool *seen = sw_calloc((size_t)u->count, sizeof *seen);
    int at = seen ? add_node(u, l->section, &sw_net_begin, sw_format("%s@begin", l->section->name))
                  : NONE;
    if (at == NONE) {
        sw_free(seen);
        return NONE;
    }

    int64_t width = handed_on(l) > 0 ? handed_on(l) : width_of(u, i, seen);
    sw_free(seen);

    if (width == 0)
        sw_recipe_error(u->graph->recipe, l->section, NULL,
                        "its previous step is read, but no layer before it defines the number of "
                        "features: add an inner_product");

    u->graph->node[at].width = width > 0 ? width : 1;
    u->graph->node[at].keeps_state = keeps_state;
    for (int64_t t = 0; t < l->steps; t++)
        u->graph->node[u->of[i].first + t].width = u->graph->node[at].width;
    u->of[i].begins = at;
    if (!keeps_state)
        return at;

    int end = add_node(u, l->section, &sw_net_end, sw_format("%s@end", l->section->name));
    if (end == NONE)
        return NONE;

    add_source(u, end, u->of[i].first + (int)l->steps - 1);
    add_source(u, end, at);
    return at;
}

/* The node that the first step of layer `reader` reads as the previous step of layer i. */
static int read_begin(struct unrolling *u, int reader, int i, bool keeps_state)
{
    int at = begin(u, i, keeps_state);
    if (at == NONE || reader == i || handed_on(&u->layers[i]) == 0)
        return at;

    if (u->of[i].shown_begin == NONE)
        u->of[i].shown_begin = show(u, i, at);
    return u->of[i].shown_begin;
}

/* ---- Sources ---- */

/* The node that step t of layer i reads as its k-th source. */
static int source_of(struct unrolling *u, int i, int k, int64_t t)
{
    const struct sw_net_graph_layer *l = &u->layers[i], *from = &u->layers[l->src[k]];
    const int j = l->src[k];

    switch (l->how[k]) {
    case SW_ONE_TO_ONE:
        if (l->steps > 0)
            return from->steps > 0 ? output_of(u, j, t) : take(u, j, l, t);
        break;
    case SW_ONE_TO_ALL:
        break;
    case SW_FIRST_TO_LAST:
        return output_of(u, j, copies_of(from) - 1);
    case SW_PREVIOUS:
    case SW_STATEFUL:
        if (t == 0)
            return read_begin(u, i, j, l->how[k] == SW_STATEFUL || u->keep_state);
        return i == j ? u->of[j].first + (int)t - 1 : output_of(u, j, t - 1);
    }

    return from->steps > 0 ? join(u, j) : u->of[j].first;
}

static int add_sources(struct unrolling *u, int i)
{
    const struct sw_net_graph_layer *l = &u->layers[i];

    for (int64_t t = 0; t < copies_of(l); t++)
        for (int k = 0; k < l->src_count; k++) {
            int source = has_source(l, k, t) ? source_of(u, i, k, t) : NONE;
            if (source != NONE)
                add_source(u, u->of[i].first + (int)t, source);
            else if (has_source(l, k, t))
                return SW_ERR_NOMEM;
        }

    return SW_OK;
}

/* ---- Order ---- */

/* The first step comes before the others, which use its parameters. */
static bool is_ready(const struct sw_net_graph *g, int i, const int *place, int own_first)
{
    const struct sw_net_graph_node *node = &g->node[i];

    for (int k = 0; k < node->src_count; k++)
        if (place[node->src[k]] == NONE)
            return false;

    return own_first == i || place[own_first] != NONE;
}

/* Chooses the next node: the first ready node with the lowest time step. */
static int choose(const struct unrolling *u, const int *place, const int *own_first)
{
    const struct sw_net_graph *g = u->graph;
    int best = NONE;

    for (int i = 0; i < g->count; i++)
        if (place[i] == NONE && (best == NONE || g->node[i].step < g->node[best].step) &&
            is_ready(g, i, place, own_first[i]))
            best = i;

    return best;
}

static void report_cycle(struct unrolling *u, const int *place)
{
    int i = 0;

    while (place[i] != NONE)
        i++;
    sw_recipe_error(u->graph->recipe, u->graph->node[i].section, "src",
                    "the layer depends on its own output (a cycle through all steps)");
}

static int order(struct unrolling *u)
{
    struct sw_net_graph *g = u->graph;
    size_t n = (size_t)g->count + 1;
    int *place = sw_calloc(n, sizeof *place), *own_first = sw_calloc(n, sizeof *own_first);
    struct sw_net_graph_node *nodes = sw_calloc(n, sizeof *nodes);
    int rc =
        place && own_first && nodes ? SW_OK : sw_err_nomem(u->err, "the layers", n * sizeof *nodes);

    for (int i = 0; i < g->count && rc == SW_OK; i++) {
        place[i] = NONE;
        own_first[i] = i;
    }

    for (int i = 0; i < u->count && rc == SW_OK; i++)
        for (int64_t t = 0; t < copies_of(&u->layers[i]); t++)
            own_first[u->of[i].first + t] = u->of[i].first;

    for (int at = 0; at < g->count && rc == SW_OK; at++) {
        int i = choose(u, place, own_first);
        if (i != NONE) {
            place[i] = at;
            continue;
        }

        report_cycle(u, place);
        rc = sw_recipe_status(g->recipe, u->err);
    }

    if (rc == SW_OK) {
        sw_net_graph_reorder(g, place, nodes);
        sw_net_graph_link(g);
        nodes = NULL;
    }

    sw_free(nodes);
    sw_free(place);
    sw_free(own_first);

    return rc;
}

/* ---- The whole ---- */

static int make(struct unrolling *u, const char *until)
{
    int rc = SW_OK;

    for (int i = 0; i < u->count; i++)
        u->of[i] = (struct made){NONE, NONE, NONE, NONE, NONE, NONE};

    for (int i = 0; i < u->count && rc == SW_OK; i++)
        rc = add_layer(u, i);
    for (int i = 0; i < u->count && rc == SW_OK; i++)
        rc = show_steps(u, i);
    for (int i = 0; i < u->count && rc == SW_OK; i++)
        rc = add_sources(u, i);

    /* The output of an unrolled layer is requested as a sequence. */
    for (int i = 0; i < u->count && rc == SW_OK && until; i++)
        if (u->layers[i].steps > 0 && strcmp(u->layers[i].section->name, until) == 0 &&
            join(u, i) == NONE)
            rc = SW_ERR_NOMEM;

    if (rc == SW_OK)
        rc = sw_recipe_status(u->graph->recipe, u->err);
    return rc == SW_OK ? order(u) : rc;
}

int sw_net_unroll(struct sw_net_graph *g, const struct sw_net_graph_layer *layers, int count,
                  const struct sw_net_args *args, struct sw_err *err)
{
    size_t n = (size_t)count + 1;
    struct unrolling u = {.graph = g,
                          .keep_state = args->keep_state,
                          .layers = layers,
                          .count = count,
                          .of = sw_calloc(n, sizeof(struct made)),
                          .err = err};
    int rc = u.of ? make(&u, args->until) : sw_err_nomem(err, "the layers", n * sizeof *u.of);

    sw_free(u.of);
    return rc;
}
