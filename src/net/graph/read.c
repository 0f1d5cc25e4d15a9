/* Reads [layer] sections in topological order: resolves sources, finds cycles, checks the number of
 * sources. Reports all errors of the graph, not only the first. */
#include "net/graph/stages.h"

#include "base/os.h"
#include "optim/init.h"
#include <string.h>

struct graph {
    struct sw_recipe *recipe;
    enum sw_algorithm algorithm;
    int64_t unrolled; /* overrides the steps of every unrolled layer; 0: use its key */
    struct sw_net_graph_layer *layer; /* owned: layers of this net in file order */
    const char **names;               /* owned: their names */
    int *order; /* owned: topological order, ignoring connections to the previous time step */
    int count;
};

static const struct sw_layer_conf *conf_of(const struct sw_section *s)
{
    return s->common;
}

static const struct sw_layer_type *type_of(const struct sw_section *s)
{
    return (const struct sw_layer_type *)(const void *)s->type[0];
}

static bool included(const struct sw_section *s, bool training)
{
    int include = conf_of(s)->include;

    if (training && type_of(s)->role == SW_ROLE_OUTPUT)
        return false;
    return include == SW_INCLUDE_ALWAYS ||
           include == (training ? SW_INCLUDE_TRAIN : SW_INCLUDE_EVAL);
}

static int collect(struct graph *g, bool training, struct sw_err *err)
{
    int n = 0;

    for (const struct sw_section *s = sw_recipe_first(g->recipe, "layer"); s;
         s = sw_section_next(s))
        n++;

    size_t slots = (size_t)n + 1;
    g->layer = sw_calloc(slots, sizeof *g->layer);
    g->order = sw_calloc(slots, sizeof *g->order);

    g->names = sw_calloc(slots, sizeof *g->names);
    if (!g->layer || !g->order || !g->names)
        return sw_err_nomem(err, "the layer graph", slots * sizeof *g->layer);

    for (const struct sw_section *s = sw_recipe_first(g->recipe, "layer"); s;
         s = sw_section_next(s))
        if (s->type[0] && included(s, training)) {
            const struct sw_layer_conf *conf = conf_of(s);

            g->names[g->count] = s->name;
            g->layer[g->count++] = (struct sw_net_graph_layer){
                .section = s,
                .src_count = conf->src.count,
                .steps = conf->unroll && g->unrolled ? g->unrolled : conf->unroll};
        }

    return SW_OK;
}

static int find(const struct graph *g, const char *name)
{
    for (int i = 0; i < g->count; i++)
        if (sw_str_eq(g->names[i], name))
            return i;
    return -1;
}

static void report_dangling(struct graph *g, const struct sw_section *s, int item, const char *name)
{
    const struct sw_section *other = sw_recipe_find(g->recipe, "layer", name);
    if (other && !other->type[0])
        return; /* its own errors are reported elsewhere */

    if (other) {
        sw_recipe_error_item(g->recipe, s, "src", item,
                             "layer %s is not in this net: its include key excludes it", name);
        return;
    }

    sw_recipe_error_item(g->recipe, s, "src", item, "layer '%s' not found", name);
    sw_recipe_hint_near(g->recipe, name, g->names, g->count, "layers");
}

/* ---- connections ---- */

static bool is_delayed(enum sw_connection how)
{
    return how == SW_PREVIOUS || how == SW_STATEFUL;
}

/* How source k is connected; -1: unknown name. */
static int connection_of(const struct sw_section *s, int k)
{
    const struct sw_layer_conf *conf = conf_of(s);
    const struct sw_strings *words = &conf->connections;
    if (words->count == 0)
        return conf->unroll && sw_str_eq(conf->src.items[k], s->name) ? SW_PREVIOUS : SW_ONE_TO_ONE;

    const char *word = words->items[words->count == 1 ? 0 : k];
    for (int how = 0; sw_connection_names[how]; how++)
        if (sw_str_eq(word, sw_connection_names[how]))
            return how;

    return -1;
}

/* Does another layer read the previous step of source k with a different connection type? */
static bool disagree(const struct graph *g, int i, int k)
{
    for (int other = 0; other < i; other++)
        for (int m = 0; m < g->layer[other].src_count; m++)
            if (g->layer[other].src[m] == g->layer[i].src[k] &&
                is_delayed(g->layer[other].how[m]) && g->layer[other].how[m] != g->layer[i].how[k])
                return true;

    return false;
}

/* Why source k cannot have its connection type, or NULL. */
static const char *why_not_connected(const struct graph *g, int i, int k)
{
    const int64_t own = g->layer[i].steps;
    const int64_t its = g->layer[g->layer[i].src[k]].steps;
    enum sw_connection how = g->layer[i].how[k];
    if (how == SW_FIRST_TO_LAST)
        return own || its ? NULL : "neither layer is unrolled";
    if (!own)
        return how == SW_ONE_TO_ONE ? NULL : "this layer has no unroll key";
    if (is_delayed(how) && !its)
        return "the source has no steps: give it the same unroll";
    if (how != SW_ONE_TO_ALL && its && its != own)
        return "the source has a different number of steps: use the same unroll, or one-to-all";

    return is_delayed(how) && disagree(g, i, k) ? "another layer reads the previous step of this "
                                                  "source with the other of previous and stateful"
                                                : NULL;
}

/* Only layers that compute activations can be unrolled. */
static bool can_unroll(struct graph *g, const struct sw_section *s)
{
    const struct sw_layer_type *type = type_of(s);
    if (!conf_of(s)->unroll || (type->role != SW_ROLE_INPUT && type->role != SW_ROLE_OUTPUT &&
                                !type->energy && !type->penalty))
        return true;

    sw_recipe_error(
        g->recipe, s, "unroll", "%s layers cannot be unrolled: %s", type->base.name,
        type->role == SW_ROLE_INPUT    ? "the layers that read it select the steps of the sequence"
        : type->role == SW_ROLE_OUTPUT ? "it reads the steps of an unrolled layer as a sequence"
        : type->energy                 ? "its chain has steps of its own"
                                       : "it needs the rows of all steps at once");
    return false;
}

static void read_connections(struct graph *g, int i)
{
    const struct sw_section *s = g->layer[i].section;
    const struct sw_strings *words = &conf_of(s)->connections;
    const int sources = conf_of(s)->src.count;

    if (!can_unroll(g, s))
        return;

    if (words->count > 1 && words->count != sources) {
        sw_recipe_error(g->recipe, s, "connections",
                        "%d connections for %d sources: give one for all sources, or one for each",
                        words->count, sources);
        return;
    }

    for (int k = 0; k < sources; k++) {
        const int how = connection_of(s, k), item = words->count > 1 ? k : 0;

        g->layer[i].how[k] = how < 0 ? SW_ONE_TO_ONE : (enum sw_connection)how;
        if (how < 0) {
            int names = 0;

            while (sw_connection_names[names])
                names++;
            sw_recipe_error_item(g->recipe, s, "connections", item, "unknown");
            sw_recipe_hint_near(g->recipe, words->items[item], sw_connection_names, names,
                                "connections");
            return;
        }
    }
}

/* Runs after the connections of all layers are known. */
static void check_connections(struct graph *g, int i)
{
    const struct sw_section *s = g->layer[i].section;

    for (int k = 0; k < conf_of(s)->src.count; k++) {
        const char *why = g->layer[i].src[k] < 0 ? NULL : why_not_connected(g, i, k);

        if (why && conf_of(s)->connections.count)
            sw_recipe_error_item(g->recipe, s, "connections",
                                 conf_of(s)->connections.count > 1 ? k : 0, "of source %s: %s",
                                 conf_of(s)->src.items[k], why);
        else if (why)
            sw_recipe_error_item(g->recipe, s, "src", k, "%s", why);
    }
}

/* ---- sources ---- */

/* Checks that every time step has a number of sources that the type accepts. */
static bool count_sources(struct graph *g, int i)
{
    const struct sw_section *s = g->layer[i].section;
    const struct sw_layer_type *type = type_of(s);
    const int given = conf_of(s)->src.count;
    const char *step = "";
    int count = given;

    if (given <= SW_LAYER_SRCS && conf_of(s)->unroll) {
        const struct sw_net_graph_layer *l = &g->layer[i];
        const int first = sw_net_step_sources(l, 0), later = sw_net_step_sources(l, 1);
        const bool fits = first >= type->sources.min && first <= type->sources.max;
        count = fits && l->steps > 1 ? later : first;
        step = first == later ? "" : fits ? " in each later step" : " in its first step";
    }

    if (count >= type->sources.min && count <= type->sources.max && given <= SW_LAYER_SRCS)
        return true;

    const char *name = type->base.name, *plural = type->sources.min == 1 ? "" : "s";
    if (type->sources.max == 0)
        sw_recipe_error(g->recipe, s, "src", "%s reads the data and has no source layers", name);
    else if (given == 0)
        sw_recipe_error(g->recipe, s, NULL, "src is missing: %s reads %d layer%s", name,
                        type->sources.min, plural);
    else if (type->sources.min == type->sources.max)
        sw_recipe_error(g->recipe, s, "src", "%s reads %d layer%s, not %d%s", name,
                        type->sources.min, plural, count, step);
    else
        sw_recipe_error(g->recipe, s, "src", "%s reads %d to %d layers, not %d%s", name,
                        type->sources.min, type->sources.max, count, step);

    return false;
}

static void link_sources(struct graph *g, int i)
{
    const struct sw_section *s = g->layer[i].section;
    const struct sw_strings *src = &conf_of(s)->src;

    if (src->count <= SW_LAYER_SRCS)
        read_connections(g, i);
    if (!count_sources(g, i))
        return;

    for (int k = 0; k < src->count; k++) {
        g->layer[i].src[k] = find(g, src->items[k]);
        if (g->layer[i].src[k] < 0)
            report_dangling(g, s, k, src->items[k]);
        else if (g->layer[i].src[k] == i && !is_delayed(g->layer[i].how[k]))
            sw_recipe_error_item(g->recipe, s, "src", k, "the layer reads itself");
        else if (type_of(g->layer[g->layer[i].src[k]].section)->role == SW_ROLE_METRIC)
            sw_recipe_error_item(g->recipe, s, "src", k,
                                 "layer %s is a metric: it has no output to read", src->items[k]);
        else if (type_of(g->layer[g->layer[i].src[k]].section)->role == SW_ROLE_OUTPUT)
            sw_recipe_error_item(
                g->recipe, s, "src", k,
                "layer %s writes a file and has no output: read its source instead", src->items[k]);
    }
}

/* ---- cycles ---- */

/* A source of layer i that is not placed yet. */
static int stuck_source(const struct graph *g, const bool *placed, int i)
{
    int k = 0;
    while (placed[g->layer[i].src[k]] || is_delayed(g->layer[i].how[k]))
        k++;
    return g->layer[i].src[k];
}

/* Adds "b reads a on worker 1" to the description of a cycle. */
static void add_link(struct sw_bytes *text, const struct graph *g, int reader, int source)
{
    sw_bytes_printf(text, "%s%s reads %s", text->length ? ", " : "", g->names[reader],
                    g->names[source]);

    if (sw_section_is_set(g->layer[source].section, "location"))
        sw_bytes_printf(text, " on worker %lld",
                        (long long)conf_of(g->layer[source].section)->location);
}

/* Follows sources from a layer that is not placed, which leads into a cycle; returns the cycle's
 * first layer in the file. */
static int find_cycle(const struct graph *g, const bool *placed)
{
    int i = 0;

    while (placed[i])
        i++;
    for (int steps = 0; steps < g->count; steps++)
        i = stuck_source(g, placed, i);

    int first = i;
    for (int j = stuck_source(g, placed, i); j != i; j = stuck_source(g, placed, j))
        first = j < first ? j : first;

    return first;
}

static void report_cycle(struct graph *g, const bool *placed)
{
    struct sw_bytes text = {0};
    int first = find_cycle(g, placed), i = first;

    do {
        int source = stuck_source(g, placed, i);
        add_link(&text, g, i, source);
        i = source;
    } while (i != first);

    sw_recipe_error(
        g->recipe, g->layer[first].section, "src",
        "the layer depends on its own output (cycle: %s); change the src of one of these layers",
        sw_bytes_text(&text));
    if (conf_of(g->layer[first].section)->unroll)
        sw_recipe_hint(g->recipe, "use connections = previous to read the previous step");
    sw_bytes_fini(&text);
}

/* Kahn's algorithm, taking the first ready layer in file order each time. */
static void sort(struct graph *g, bool *placed)
{
    int n = 0;

    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < g->count && !moved; i++) {
            bool ready = !placed[i];

            for (int k = 0; ready && k < g->layer[i].src_count; k++)
                ready = placed[g->layer[i].src[k]] || is_delayed(g->layer[i].how[k]);
            if (!ready)
                continue;

            placed[i] = moved = true;
            g->order[n++] = i;
        }
    }

    if (n < g->count)
        report_cycle(g, placed);
}

/* Copies the layers in topological order. */
static int take_layers(const struct graph *g, struct sw_net_graph_layer **out, int *count,
                       struct sw_err *err)
{
    size_t n = (size_t)g->count + 1;
    struct sw_net_graph_layer *layers = sw_calloc(n, sizeof *layers);
    int *position = sw_calloc(n, sizeof *position);
    if (!layers || !position) {
        sw_free(layers);
        sw_free(position);
        return sw_err_nomem(err, "the layers", n * sizeof *layers);
    }

    for (int at = 0; at < g->count; at++)
        position[g->order[at]] = at;

    for (int at = 0; at < g->count; at++) {
        layers[at] = g->layer[g->order[at]];
        for (int k = 0; k < layers[at].src_count; k++)
            layers[at].src[k] = position[layers[at].src[k]];
    }

    sw_free(position);
    *out = layers;
    *count = g->count;

    return SW_OK;
}

/* Is the layer type a training objective for the algorithm? */
static bool is_trained_by(enum sw_algorithm algorithm, const struct sw_layer_type *type)
{
    return algorithm == SW_ALGORITHM_CD ? type->energy == SW_ENERGY_HIDDEN
                                        : type->role == SW_ROLE_LOSS;
}

/* Reports layers that do not fit the algorithm. */
static void check_algorithm(const struct graph *g, enum sw_algorithm algorithm)
{
    bool through_time = algorithm != SW_ALGORITHM_BPTT;

    for (int i = 0; i < g->count; i++) {
        const struct sw_section *s = g->layer[i].section;

        through_time = through_time || type_of(s)->through_time || conf_of(s)->unroll;

        if (algorithm == SW_ALGORITHM_CD && type_of(s)->role == SW_ROLE_LOSS)
            sw_recipe_error(g->recipe, s, NULL,
                            "algorithm = cd trains energy models, not losses: use algorithm = bp, "
                            "or include = eval");
    }

    if (!through_time)
        sw_recipe_error(g->recipe, sw_recipe_find(g->recipe, "job", NULL), "algorithm",
                        "bptt needs a recurrent layer (rnn, gru, lstm or unroll), but the net has "
                        "none: use bp");
}

static void check_loss(const struct graph *g)
{
    const enum sw_algorithm algorithm = g->algorithm;

    check_algorithm(g, algorithm);

    for (int i = 0; i < g->count; i++)
        if (is_trained_by(algorithm, type_of(g->layer[i].section)))
            return;

    /* A section with an invalid type may be the loss. */
    for (const struct sw_section *s = sw_recipe_first(g->recipe, "layer"); s;
         s = sw_section_next(s))
        if (!s->type[0])
            return;

    sw_recipe_error(g->recipe, NULL, NULL, "the training net has no %s layer%s",
                    algorithm == SW_ALGORITHM_CD ? "rbm_hidden" : "loss",
                    g->count ? "" : ": it has no layers");
}

static void free_graph(struct graph *g)
{
    sw_free(g->layer);
    sw_free(g->order);
    sw_free(g->names);
}

/* ---- a net up to a layer ---- */

/* Marks the layer, its ancestors, and the layers that own its tied parameters. */
static void mark(struct graph *g, int i, bool *kept)
{
    const struct sw_section *s = g->layer[i].section;

    if (kept[i])
        return;

    kept[i] = true;
    link_sources(g, i);

    for (int k = 0; k < conf_of(s)->src.count && k < SW_LAYER_SRCS; k++)
        if (find(g, conf_of(s)->src.items[k]) >= 0)
            mark(g, find(g, conf_of(s)->src.items[k]), kept);

    for (int k = 0; k < s->param_count; k++) {
        const char *share = ((const struct sw_init_conf *)s->param_conf[k])->share;
        const char *dot = share ? strrchr(share, '.') : NULL;

        for (int j = 0; dot && j < g->count; j++)
            if (strlen(g->names[j]) == (size_t)(dot - share) &&
                strncmp(g->names[j], share, (size_t)(dot - share)) == 0)
                mark(g, j, kept);
    }
}

/* Removes the other layers. */
static void drop_others(struct graph *g, const bool *kept, int *place)
{
    int n = 0;

    for (int i = 0; i < g->count; i++)
        place[i] = kept[i] ? n++ : -1;

    for (int i = 0; i < g->count; i++) {
        int to = place[i];
        if (to < 0)
            continue;

        g->layer[to] = g->layer[i];
        g->names[to] = g->names[i];
        for (int k = 0; k < SW_LAYER_SRCS; k++)
            g->layer[to].src[k] = place[g->layer[to].src[k]];
    }

    g->count = n;
}

static int keep_until(struct graph *g, const char *until, struct sw_err *err)
{
    int last = find(g, until);
    if (last < 0)
        return sw_err_set(err, SW_ERR_INVALID, "layer %s is not in this net", until);

    bool *kept = sw_calloc((size_t)g->count, sizeof *kept);
    int *place = sw_calloc((size_t)g->count, sizeof *place);
    int rc = kept && place ? SW_OK : sw_err_nomem(err, "the layer graph", (size_t)g->count);
    if (rc == SW_OK) {
        mark(g, last, kept);
        rc = sw_recipe_status(g->recipe, err);
    }

    if (rc == SW_OK)
        drop_others(g, kept, place);
    sw_free(kept);
    sw_free(place);

    return rc;
}

/* ---- the whole ---- */

/* Reads sections into topological order. Adds errors to the recipe. */
static int read_graph(struct graph *g, bool training, const char *until, struct sw_err *err)
{
    bool *placed = NULL;
    int rc = collect(g, training, err);

    if (rc == SW_OK && until)
        rc = keep_until(g, until, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < g->count && !until; i++)
        link_sources(g, i);
    rc = sw_recipe_status(g->recipe, err);
    for (int i = 0; i < g->count && rc == SW_OK; i++)
        check_connections(g, i);
    if (training && !until)
        check_loss(g);
    rc = sw_recipe_status(g->recipe, err);
    if (rc != SW_OK)
        return rc;
    placed = sw_calloc((size_t)g->count + 1, sizeof *placed);
    if (!placed)
        return sw_err_nomem(err, "the layer graph", (size_t)g->count);

    sort(g, placed);
    sw_free(placed);
    return sw_recipe_status(g->recipe, err);
}

int sw_net_read_layers(const struct sw_net_args *args, struct sw_net_graph_layer **layers,
                       int *count, struct sw_err *err)
{
    struct graph g = {
        .recipe = args->recipe, .algorithm = args->algorithm, .unrolled = args->steps};
    int rc = read_graph(&g, args->training, args->until, err);

    if (rc == SW_OK)
        rc = take_layers(&g, layers, count, err);
    free_graph(&g);

    return rc;
}

int sw_net_check(struct sw_recipe *recipe, enum sw_algorithm algorithm, struct sw_err *err)
{
    struct graph g = {.recipe = recipe, .algorithm = algorithm};
    int rc = read_graph(&g, true, NULL, err);
    free_graph(&g);
    return rc;
}

int sw_net_fields(struct sw_recipe *recipe, bool training, const char *until, const char **names,
                  int most, int *count, struct sw_err *err)
{
    struct graph g = {.recipe = recipe};
    int rc = read_graph(&g, training, until, err);

    *count = 0;
    for (int i = 0; i < g.count && rc == SW_OK && *count < most; i++) {
        const struct sw_layer layer = {.conf = g.layer[i].section->conf[0]};
        bool known = type_of(g.layer[i].section)->role != SW_ROLE_INPUT;

        for (int k = 0; k < *count && !known; k++)
            known = sw_str_eq(names[k], sw_layer_input_field(&layer));
        if (!known)
            names[(*count)++] = sw_layer_input_field(&layer);
    }

    free_graph(&g);
    return rc;
}
