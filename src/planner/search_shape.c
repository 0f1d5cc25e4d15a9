/* Dynamic programming over the layers of a net in one shape (search.h).
 *
 * A state is a choice for all layers so far: its time, the bytes in every memory, and for every
 * open layer, one that a later layer reads, the distribution of its output and those to which it is
 * already connected. Only these decide what later layers cost. So a state is dropped if
 * as many others as plans are wanted, with the same distributions, are at least as fast and as
 * small: each of its completions also completes these.
 *
 * Two reductions keep that exact. Places of one class are exchangeable: a layer goes to the first
 * unused place of a class only, and states are compared after their places are renumbered in the
 * order of appearance. And bytes that the later layers cannot make too many count as the most of
 * which that is true.
 *
 * States go on in the order of a lower bound of what any completion takes: the time so far, and for
 * each later layer the least over its options. Where memory is short, bytes have a price in it (a
 * Lagrangian relaxation of the sum of all memories), so that a state which left too little memory
 * for fast options comes late. */
#include "planner/search_space.h"

#include "base/hash.h"
#include "base/os.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 8192 };

/* A step back to a state before the layer, and the layer's option. */
struct trail {
    int parent, option;
};

/* States after the same layer, most promising first. Arrays have a row more than there are states:
 * the one that is tried. */
struct states {
    int count;
    double *seconds; /* owned [width] */
    uint32_t *used;  /* owned [width]: places */
    uint64_t *open;  /* owned [width][most_open + 1] */
    int64_t *bytes;  /* owned [width][memories] */
};

/* A state extended by an option; any completion takes at least `bound_s`. */
struct candidate {
    double bound_s, seconds;
    int parent, option;
};

struct walk {
    const struct sw_search_space *s;
    const struct sw_search_run *run;
    int memories;                 /* that must hold a plan */
    int layer;                    /* the one that is added */
    int *open, opens;             /* owned: the open layers before it, ascending */
    int slot[SW_PLANNER_SOURCES]; /* its sources among them */
    struct sw_search_rest rest;   /* owned */
    struct states now, next;      /* owned */
    struct candidate *candidate;  /* owned [width * most options] */
    struct trail **trail;         /* owned with its elements: [layers][states] */
    struct states known;          /* owned: open layers and bytes of `next`, places renumbered */
    int *bucket, *chain;          /* owned [BUCKETS], [width]: by their open layers */
    bool exact;
};

/* ---- Open layers ---- */

/* Connects an open layer to a reader, by way of rows if there is no direct connection; returns the
 * seconds. */
static double connect_to(const struct sw_search_layer *l, uint64_t *open, int to)
{
    const double *direct = &l->move[sw_search_code(*open) * l->codes + to];

    if (*open & sw_search_bit(to))
        return 0;
    const double before = isinf(*direct) ? connect_to(l, open, SW_DIST_ROWS) : 0;
    *open |= sw_search_bit(to);
    return before + (isinf(*direct) ? l->move[SW_DIST_ROWS * l->codes + to] : *direct);
}

/* Lets the layer read its sources: changes the open layers of the state and returns the seconds. */
static double read_sources(const struct walk *w, const struct sw_search_option *o, uint64_t *open)
{
    const int sources = w->s->cost.net->layer[w->layer].source_count;
    double seconds = 0;

    for (int k = 0; k < sources; k++)
        seconds += connect_to(&w->s->layer[w->open[w->slot[k]]], &open[w->slot[k]], o->input[k]);
    return seconds;
}

/* Removes the layers that are read for the last time and adds the new one; returns their number. */
static int close_layers(const struct walk *w, const struct sw_search_option *o, uint64_t *open)
{
    int opens = 0;

    for (int i = 0; i < w->opens; i++)
        if (w->s->layer[w->open[i]].last_reader > w->layer)
            open[opens++] = open[i];
    if (w->s->layer[w->layer].last_reader >= 0)
        open[opens++] = sw_search_open(o->output);
    return opens;
}

static void begin_layer(struct walk *w, int layer)
{
    const struct sw_layer_model *model = &w->s->cost.net->layer[layer];

    w->layer = layer;
    for (int k = 0; k < model->source_count; k++)
        for (int i = 0; i < w->opens; i++)
            if (w->open[i] == model->source[k])
                w->slot[k] = i;
}

static void end_layer(struct walk *w)
{
    int opens = 0;

    for (int i = 0; i < w->opens; i++)
        if (w->s->layer[w->open[i]].last_reader > w->layer)
            w->open[opens++] = w->open[i];
    if (w->s->layer[w->layer].last_reader >= 0)
        w->open[opens++] = w->layer;
    w->opens = opens;
}

/* ---- Candidates ---- */

static uint64_t *open_of(const struct walk *w, const struct states *t, int i)
{
    return &t->open[i * (w->s->most_open + 1)];
}

static int64_t *bytes_of(const struct walk *w, const struct states *t, int i)
{
    return &t->bytes[i * w->memories];
}

/* Is the place used, or the first unused one of its class? */
static bool may_use(const struct sw_search_space *s, uint32_t used, int place)
{
    if (place < 0 || used & 1u << place)
        return true;
    for (int p = 0; p < place; p++)
        if (s->class_of[p] == s->class_of[place] && !(used & 1u << p))
            return false;
    return true;
}

/* The bytes of a state with `more`, and their sum over the memories; -1: no completion fits. */
static int64_t add_bytes(const struct walk *w, const int64_t *bytes, const int64_t *more,
                         int64_t *with)
{
    const int64_t *least = &w->rest.least[(w->layer + 1) * w->memories],
                  *most = &w->rest.most[(w->layer + 1) * w->memories];
    int64_t sum = 0;

    for (int m = 0; m < w->memories; m++) {
        const int64_t capacity = w->s->memory[m].capacity, total = bytes[m] + more[m];
        if (total > capacity - least[m])
            return -1;
        with[m] = total > capacity - most[m] ? total : capacity - most[m];
        sum += with[m];
    }

    return sum <= w->rest.capacity - w->rest.least_sum[w->layer + 1] ? sum : -1;
}

static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->bound_s != y->bound_s ? (x->bound_s > y->bound_s) - (x->bound_s < y->bound_s)
           : x->parent != y->parent ? (x->parent > y->parent) - (x->parent < y->parent)
                                    : (x->option > y->option) - (x->option < y->option);
}

/* Lists all extensions of all states that can still fit and be fast enough, most promising first.
 */
static int list_candidates(struct walk *w)
{
    const struct sw_search_layer *l = &w->s->layer[w->layer];
    const double limit = w->run->bound * (1 + 1e-9), rest_s = w->rest.seconds[w->layer + 1];
    uint64_t *open = open_of(w, &w->next, 0);
    int64_t *bytes = bytes_of(w, &w->next, 0);
    int count = 0;

    for (int i = 0; i < w->now.count; i++)
        for (int k = 0; k < sw_search_options(l, w->run->what); k++) {
            const struct sw_search_option *o = &l->option[k];
            const int64_t sum = may_use(w->s, w->now.used[i], o->place)
                                    ? add_bytes(w, bytes_of(w, &w->now, i), o->bytes, bytes)
                                    : -1;
            if (sum < 0)
                continue;

            memcpy(open, open_of(w, &w->now, i), (size_t)w->opens * sizeof *open);
            const double seconds = w->now.seconds[i] + o->seconds + read_sources(w, o, open);
            const double bound_s =
                seconds + rest_s + w->rest.byte_s * (double)(sum - w->rest.capacity);
            if (bound_s <= limit)
                w->candidate[count++] = (struct candidate){bound_s, seconds, i, k};
        }

    qsort(w->candidate, (size_t)count, sizeof *w->candidate, compare);
    return count;
}

/* ---- Dominance ---- */

static int bucket_of(const uint64_t *open, int opens)
{
    return (int)(sw_hash_bytes64(open, (size_t)opens * sizeof *open) % BUCKETS);
}

/* Are as many states as plans are wanted with the same distributions at least as fast and as small
 * as the one at the end of `known`? States that dominate another have the lower bounds, so they
 * come first. */
static bool is_dominated(const struct walk *w, int bucket, int opens)
{
    const uint64_t *open = open_of(w, &w->known, w->next.count);
    const int64_t *bytes = bytes_of(w, &w->known, w->next.count);
    int better = 0;

    for (int i = w->bucket[bucket]; i >= 0 && better < w->run->most; i = w->chain[i]) {
        const int64_t *others = bytes_of(w, &w->known, i);
        bool smaller = w->next.seconds[i] <= w->next.seconds[w->next.count] &&
                       memcmp(open, open_of(w, &w->known, i), (size_t)opens * sizeof *open) == 0;

        for (int m = 0; m < w->memories && smaller; m++)
            smaller = others[m] <= bytes[m];
        better += smaller;
    }

    return better == w->run->most;
}

/* Makes the next states from the candidates. Errors: SW_ERR_NOMEM. */
static int select_states(struct walk *w, int candidates, struct sw_err *err)
{
    const struct sw_search_layer *l = &w->s->layer[w->layer];
    struct trail *trail = sw_calloc((size_t)w->run->width, sizeof *trail);
    if (!trail)
        return sw_err_nomem(err, "the search of a plan", (size_t)w->run->width * sizeof *trail);

    w->trail[w->layer] = trail;
    w->next.count = 0;
    for (int i = 0; i < BUCKETS; i++)
        w->bucket[i] = -1;

    for (int i = 0; i < candidates; i++) {
        const struct candidate *c = &w->candidate[i];
        const struct sw_search_option *o = &l->option[c->option];
        const int n = w->next.count;
        uint64_t *open = open_of(w, &w->next, n);
        int64_t *bytes = bytes_of(w, &w->next, n);

        memcpy(open, open_of(w, &w->now, c->parent), (size_t)w->opens * sizeof *open);
        (void)read_sources(w, o, open);
        (void)add_bytes(w, bytes_of(w, &w->now, c->parent), o->bytes, bytes);
        const int opens = close_layers(w, o, open);

        w->next.seconds[n] = c->seconds;
        sw_search_renumber(w->s, open, opens, bytes,
                           &(struct sw_search_key){open_of(w, &w->known, n),
                                                   bytes_of(w, &w->known, n), w->memories});
        const int bucket = bucket_of(open_of(w, &w->known, n), opens);
        if (is_dominated(w, bucket, opens))
            continue;
        if (n == w->run->width) {
            w->exact = false;
            break;
        }

        w->next.used[n] = w->now.used[c->parent] | (o->place >= 0 ? 1u << o->place : 0);
        trail[n] = (struct trail){c->parent, c->option};
        w->chain[n] = w->bucket[bucket];
        w->bucket[bucket] = n;
        w->next.count++;
    }

    return SW_OK;
}

/* ---- The walk ---- */

static bool make_states(struct states *t, const struct walk *w, int width)
{
    const size_t n = (size_t)width + 1;

    t->seconds = sw_calloc(n, sizeof *t->seconds);
    t->used = sw_calloc(n, sizeof *t->used);
    t->open = sw_calloc(n * ((size_t)w->s->most_open + 1), sizeof *t->open);
    t->bytes = sw_calloc(n * (size_t)w->memories + 1, sizeof *t->bytes);
    return t->seconds && t->used && t->open && t->bytes;
}

static void free_states(struct states *t)
{
    sw_free(t->seconds);
    sw_free(t->used);
    sw_free(t->open);
    sw_free(t->bytes);
}

static void walk_fini(struct walk *w)
{
    for (int i = 0; i < w->s->cost.net->count && w->trail; i++)
        sw_free(w->trail[i]);
    sw_free(w->trail);
    sw_free(w->open);
    sw_search_rest_fini(&w->rest);
    sw_free(w->candidate);
    sw_free(w->bucket);
    sw_free(w->chain);
    free_states(&w->now);
    free_states(&w->next);
    free_states(&w->known);
}

static int walk_init(struct walk *w, const struct sw_search_space *s,
                     const struct sw_search_run *run, struct sw_err *err)
{
    const size_t layers = (size_t)s->cost.net->count, width = (size_t)run->width;
    size_t options = 0;

    for (size_t i = 0; i < layers; i++) {
        const size_t own = (size_t)sw_search_options(&s->layer[i], run->what);
        options = own > options ? own : options;
    }

    *w = (struct walk){
        .s = s, .run = run, .memories = sw_search_memories(s, run->what), .exact = !s->dropped};
    w->open = sw_calloc(layers + 1, sizeof *w->open);
    w->candidate = sw_calloc(width * options + 1, sizeof *w->candidate);
    w->trail = sw_calloc(layers + 1, sizeof *w->trail);
    w->bucket = sw_calloc(BUCKETS, sizeof *w->bucket);
    w->chain = sw_calloc(width, sizeof *w->chain);

    int rc = sw_search_rest_init(&w->rest, s, run->what, err);
    const bool states = make_states(&w->now, w, run->width) &&
                        make_states(&w->next, w, run->width) &&
                        make_states(&w->known, w, run->width);
    if (rc == SW_OK && !(states && w->open && w->candidate && w->trail && w->bucket && w->chain))
        rc = sw_err_nomem(err, "the search of a plan", width * options * sizeof *w->candidate);
    if (rc != SW_OK)
        walk_fini(w);
    return rc;
}

/* Follows the trail of a final state back to the first layer. */
static int take_plan(const struct walk *w, int state, struct sw_layer_choice *choice,
                     struct sw_err *err)
{
    for (int i = w->s->cost.net->count - 1; i >= 0; i--) {
        const struct trail *t = &w->trail[i][state];
        choice[i] = w->s->layer[i].option[t->option].choice;
        state = t->parent;
    }

    return w->run->take(w->run->user, w->s, choice, err);
}

static int take_plans(const struct walk *w, struct sw_err *err)
{
    const size_t layers = (size_t)w->s->cost.net->count + 1;
    struct sw_layer_choice *choice = sw_calloc(layers, sizeof *choice);
    if (!choice)
        return sw_err_nomem(err, "the search of a plan", layers * sizeof *choice);

    int rc = SW_OK;
    for (int i = 0; i < w->now.count && i < w->run->most && rc == SW_OK; i++)
        rc = take_plan(w, i, choice, err);
    sw_free(choice);
    return rc;
}

int sw_search_shape(const struct sw_search_space *s, const struct sw_search_run *run, bool *exact,
                    struct sw_err *err)
{
    struct walk w;

    *exact = true;
    if (s->blocked >= 0)
        return SW_OK;

    int rc = walk_init(&w, s, run, err);
    if (rc != SW_OK)
        return rc;

    w.now.count = 1;
    for (int m = 0; m < w.memories; m++)
        w.now.bytes[m] = s->memory[m].workers * s->cost.net->fixed_bytes;

    for (int i = 0; i < s->cost.net->count && rc == SW_OK; i++) {
        begin_layer(&w, i);
        rc = select_states(&w, list_candidates(&w), err);
        end_layer(&w);

        const struct states done = w.now;
        w.now = w.next;
        w.next = done;
    }

    if (rc == SW_OK)
        rc = take_plans(&w, err);
    *exact = w.exact;
    walk_fini(&w);
    return rc;
}
