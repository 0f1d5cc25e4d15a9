/* Sharing of links by transfers. A cell is a link at one level of urgency: the transfers that cross
 * it, in the order of their begin, of which the first few are admitted, and the throughput that
 * they use. A cell is dirty when its transfers or what more urgent levels leave to it have changed.
 * Levels are settled from the most urgent one: the transfers that share links with a dirty cell,
 * directly or by way of others, are a component, whose rates are computed together. */
#include "planner/simulate_links.h"

#include "base/os.h"
#include <math.h>

/* Relative differences of rates that are rounding. */
#define EPSILON 1e-9

struct sw_plansim_link {
    double capacity, busy_s;
    uint64_t component; /* the last one that it belonged to */
    double left;        /* of that component: throughput that is not assigned */
    double weight;      /* and the sum of the weights of transfers without a rate */
    int users;          /* and their number */
};

struct node {
    struct node *previous, *next;
    int transfer;
    bool admitted;
};

struct sw_plansim_cell {
    struct node *first, *last, *waiting; /* waiting: the first one that is not admitted */
    double left, used;                   /* bytes per second, when it was settled last */
    int admitted, next_dirty;
    bool is_dirty, is_listed;
};

struct sw_plansim_transfer {
    const struct sw_plansim_path *path; /* NULL: unused */
    struct node *node;                  /* owned [path->count] */
    int level, owner, next_unused;
    int refusals;                           /* links on which it is not admitted */
    double bytes, all, left, rate, since_s; /* all: with what the time of copies counts as */
    double share;                           /* the new rate; below 0: none yet */
    uint64_t component, stamp; /* the last ones that visited it, and that gave it a rate */
};

static struct sw_plansim_cell *cell_of(const struct sw_plansim_links *l, int level, int link)
{
    return &l->cell[(size_t)link * (size_t)l->levels + (size_t)level];
}

static int words_of(const struct sw_plansim_links *l)
{
    return (l->levels + 63) / 64;
}

/* Notes in one of the two sets of levels whether the cell belongs to it. */
static void note(const struct sw_plansim_links *l, uint64_t *set, int level, int link, bool belongs)
{
    uint64_t *word = &set[link * words_of(l) + level / 64], bit = 1ull << level % 64;

    *word = belongs ? *word | bit : *word & ~bit;
}

/* Notes whether the cell has transfers. */
static void note_presence(struct sw_plansim_links *l, int level, int link)
{
    note(l, l->present, level, link, cell_of(l, level, link)->first != NULL);
}

/* The first level of the link, from `level` on, that belongs to the set; l->levels: none. */
static int next_in(const struct sw_plansim_links *l, const uint64_t *set, int level, int link)
{
    for (int word = level / 64; word < words_of(l); word++) {
        uint64_t bits = set[link * words_of(l) + word];

        if (word == level / 64)
            bits &= ~0ull << level % 64;
        if (bits)
            return 64 * word + __builtin_ctzll(bits);
    }

    return l->levels;
}

/* The first level, from `level` on, at which the link has transfers; l->levels: none. */
static int next_level(const struct sw_plansim_links *l, int level, int link)
{
    return next_in(l, l->present, level, link);
}

/* ---- Life ---- */

int sw_plansim_links_init(struct sw_plansim_links *l, const double *capacity, int links, int levels,
                          struct sw_err *err)
{
    size_t n = (size_t)links + 1, cells = n * (size_t)levels;

    *l = (struct sw_plansim_links){.links = links,
                                   .levels = levels,
                                   .most = SW_PLANSIM_ADMITTED,
                                   .serial = -1,
                                   .first_unused = -1};
    l->link = sw_calloc(n, sizeof *l->link);
    l->cell = sw_calloc(cells, sizeof *l->cell);
    l->present = sw_calloc(n * (size_t)words_of(l), sizeof *l->present);
    l->active = sw_calloc(n * (size_t)words_of(l), sizeof *l->active);
    l->first_dirty = sw_calloc((size_t)levels, sizeof *l->first_dirty);
    l->found_link = sw_calloc(n, sizeof *l->found_link);
    if (!l->link || !l->cell || !l->present || !l->active || !l->first_dirty || !l->found_link)
        return sw_err_nomem(err, "links", cells * sizeof *l->cell);

    for (int i = 0; i < links; i++)
        l->link[i].capacity = capacity[i];
    for (int i = 0; i < levels; i++)
        l->first_dirty[i] = -1;

    return SW_OK;
}

void sw_plansim_links_fini(struct sw_plansim_links *l)
{
    for (int64_t i = 0; i < l->count; i++)
        sw_free(l->transfer[i].node);

    sw_free(l->transfer);
    sw_free(l->found);
    sw_free(l->found_link);
    sw_free(l->first_dirty);
    sw_free(l->present);
    sw_free(l->active);
    sw_free(l->cell);
    sw_free(l->link);
    *l = (struct sw_plansim_links){.link = NULL};
}

/* ---- Begin and end of a transfer ---- */

static void mark_dirty(struct sw_plansim_links *l, int level, int link)
{
    struct sw_plansim_cell *c = cell_of(l, level, link);

    c->is_dirty = true;
    if (c->is_listed)
        return;

    c->is_listed = true;
    c->next_dirty = l->first_dirty[level];
    l->first_dirty[level] = link;
}

/* Admits waiting transfers of a cell while it has room. */
static void admit(struct sw_plansim_links *l, int level, int link)
{
    struct sw_plansim_cell *c = cell_of(l, level, link);
    const int most = level == l->serial ? 1 : l->most;

    for (; c->waiting && c->admitted < most; c->waiting = c->waiting->next) {
        struct sw_plansim_transfer *t = &l->transfer[c->waiting->transfer];

        c->waiting->admitted = true;
        c->admitted++;
        if (--t->refusals == 0)
            mark_dirty(l, level, link);
    }
}

static void enter(struct sw_plansim_links *l, struct sw_plansim_transfer *t, int use)
{
    int link = t->path->use[use].link;
    struct sw_plansim_cell *c = cell_of(l, t->level, link);
    struct node *n = &t->node[use];

    *n = (struct node){.previous = c->last, .transfer = (int)(t - l->transfer)};
    if (c->last)
        c->last->next = n;
    else
        c->first = n;
    c->last = n;
    if (!c->waiting)
        c->waiting = n;
    c->left = -1; /* not settled with this one */

    note_presence(l, t->level, link);
    admit(l, t->level, link);
}

static void leave(struct sw_plansim_links *l, struct sw_plansim_transfer *t, int use)
{
    int link = t->path->use[use].link;
    struct sw_plansim_cell *c = cell_of(l, t->level, link);
    struct node *n = &t->node[use];

    *(n->previous ? &n->previous->next : &c->first) = n->next;
    *(n->next ? &n->next->previous : &c->last) = n->previous;
    if (c->waiting == n)
        c->waiting = n->next;
    c->admitted -= n->admitted;

    note_presence(l, t->level, link);
    admit(l, t->level, link);
    mark_dirty(l, t->level, link);
}

static int add_transfer(struct sw_plansim_links *l, int *index, struct sw_err *err)
{
    *index = l->first_unused;
    if (*index >= 0) {
        l->first_unused = l->transfer[*index].next_unused;
        return SW_OK;
    }

    int64_t capacity = l->capacity;
    int rc = sw_grow(&l->transfer, sizeof *l->transfer, l->count, &capacity, 64, "transfers", err);
    if (rc != SW_OK)
        return rc;
    rc = sw_grow(&l->found, sizeof *l->found, l->count, &l->capacity, 64, "transfers", err);
    if (rc != SW_OK)
        return rc;

    *index = (int)l->count++;
    l->transfer[*index] = (struct sw_plansim_transfer){.path = NULL};
    return SW_OK;
}

int sw_plansim_links_begin(struct sw_plansim_links *l, const struct sw_plansim_path *path,
                           const struct sw_plansim_load *load, double now_s, struct sw_err *err)
{
    const double all = load->bytes + (load->copies_s > 0 ? load->copies_s * path->rate : 0);
    size_t uses = (size_t)path->count;
    int index;

    struct node *nodes = sw_calloc(uses, sizeof *nodes);
    if (!nodes)
        return sw_err_nomem(err, "a transfer", uses * sizeof *nodes);
    int rc = add_transfer(l, &index, err);
    if (rc != SW_OK) {
        sw_free(nodes);
        return rc;
    }

    l->transfer[index] = (struct sw_plansim_transfer){.path = path,
                                                      .node = nodes,
                                                      .level = load->level,
                                                      .owner = load->owner,
                                                      .refusals = path->count,
                                                      .bytes = load->bytes,
                                                      .all = all,
                                                      .left = all,
                                                      .since_s = now_s};
    for (int i = 0; i < path->count; i++)
        enter(l, &l->transfer[index], i);

    return SW_OK;
}

bool sw_plansim_links_end(struct sw_plansim_links *l, const struct sw_plansim_event *event,
                          int *owner)
{
    struct sw_plansim_transfer *t = &l->transfer[event->index];
    if (!t->path || t->stamp != event->stamp)
        return false;

    for (int i = 0; i < t->path->count; i++) {
        struct sw_plansim_link *link = &l->link[t->path->use[i].link];

        leave(l, t, i);
        link->busy_s += t->bytes * t->path->use[i].weight / link->capacity;
    }

    *owner = t->owner;
    sw_free(t->node);
    *t = (struct sw_plansim_transfer){.next_unused = l->first_unused};
    l->first_unused = event->index;

    return true;
}

/* ---- Rates ---- */

/* Throughput of the link that more urgent levels leave. */
static double left_to(const struct sw_plansim_links *l, int level, int link)
{
    const double capacity = l->link[link].capacity, rounding = EPSILON * capacity;
    double left = capacity;

    for (int q = next_in(l, l->active, 0, link); q < level && left > rounding;
         q = next_in(l, l->active, q + 1, link))
        left -= cell_of(l, q, link)->used;
    return left > rounding ? left : 0;
}

static bool is_blocked(const struct sw_plansim_links *l, const struct sw_plansim_transfer *t)
{
    for (int i = 0; i < t->path->count; i++)
        if (left_to(l, t->level, t->path->use[i].link) == 0)
            return true;
    return false;
}

static void find_link(struct sw_plansim_links *l, int level, int link)
{
    struct sw_plansim_link *k = &l->link[link];
    if (k->component == l->stamp)
        return;

    k->component = l->stamp;
    k->left = left_to(l, level, link);
    k->weight = 0;
    k->users = 0;
    cell_of(l, level, link)->left = k->left;
    cell_of(l, level, link)->is_dirty = false;
    l->found_link[l->found_links++] = link;
}

/* Gives a transfer a new rate from now on. */
static void set_rate(struct sw_plansim_links *l, struct sw_plansim_transfer *t, double rate)
{
    t->left = fmax(t->left - t->rate * (l->now_s - t->since_s), 0);
    t->since_s = l->now_s;
    t->rate = rate;
    t->stamp = l->stamp;
}

static bool is_done(const struct sw_plansim_links *l, const struct sw_plansim_transfer *t)
{
    return t->left - t->rate * (l->now_s - t->since_s) <= EPSILON * t->all;
}

/* A transfer stops because nothing is left to it on a link: its other links settle without it. */
static void stop(struct sw_plansim_links *l, struct sw_plansim_transfer *t)
{
    set_rate(l, t, 0);
    for (int i = 0; i < t->path->count; i++)
        mark_dirty(l, t->level, t->path->use[i].link);
}

/* Adds a transfer to the component, with all its links. A blocked one connects nothing. */
static void find_transfer(struct sw_plansim_links *l, int index)
{
    struct sw_plansim_transfer *t = &l->transfer[index];
    if (t->refusals > 0 || t->component == l->stamp)
        return;

    t->component = l->stamp;
    if (is_blocked(l, t) && !is_done(l, t)) {
        if (t->rate > 0)
            stop(l, t);
        return;
    }

    l->found[l->found_count++] = index;
    t->share = -1;
    for (int i = 0; i < t->path->count; i++) {
        const struct sw_plansim_use *use = &t->path->use[i];

        find_link(l, t->level, use->link);
        l->link[use->link].weight += use->weight;
        l->link[use->link].users++;
    }
}

static void find_component(struct sw_plansim_links *l, int level, int link)
{
    l->stamp++;
    l->found_links = l->found_count = 0;
    find_link(l, level, link);

    for (int i = 0; i < l->found_links; i++) {
        const struct node *n = cell_of(l, level, l->found_link[i])->first;

        for (; n && n->admitted; n = n->next)
            find_transfer(l, n->transfer);
    }
}

static double share_of(const struct sw_plansim_link *k)
{
    return k->users > 0 ? fmax(k->left, 0) / k->weight : (double)INFINITY;
}

/* The lowest share among the links of the component, and limits of transfers without a rate. */
static double lowest_share(const struct sw_plansim_links *l)
{
    double lowest = (double)INFINITY;

    for (int i = 0; i < l->found_links; i++)
        lowest = fmin(lowest, share_of(&l->link[l->found_link[i]]));
    for (int i = 0; i < l->found_count; i++)
        if (l->transfer[l->found[i]].share < 0)
            lowest = fmin(lowest, l->transfer[l->found[i]].path->limit);
    return lowest;
}

static bool is_limited(const struct sw_plansim_links *l, const struct sw_plansim_transfer *t,
                       double most)
{
    bool is = t->path->limit <= most;

    for (int i = 0; i < t->path->count && !is; i++)
        is = share_of(&l->link[t->path->use[i].link]) <= most;
    return is;
}

static void assign(struct sw_plansim_links *l, const struct sw_plansim_transfer *t)
{
    for (int i = 0; i < t->path->count; i++) {
        struct sw_plansim_link *k = &l->link[t->path->use[i].link];

        k->left -= t->share * t->path->use[i].weight;
        k->weight -= t->path->use[i].weight;
        k->users--;
    }
}

/* Max-min fairness: the transfers of the link with the lowest share get that share, and so on with
 * what is left to the others. */
static void share_links(struct sw_plansim_links *l)
{
    for (int without = l->found_count; without > 0;) {
        double lowest = lowest_share(l), most = lowest * (1 + EPSILON);
        int limited = 0;

        /* The limited ones come first in the rest of the array, so that links change after all have
         * been looked at. */
        int *rest = &l->found[l->found_count - without];
        for (int i = 0; i < without; i++)
            if (is_limited(l, &l->transfer[rest[i]], most)) {
                int index = rest[i];

                rest[i] = rest[limited];
                rest[limited++] = index;
            }

        for (int i = 0; i < limited; i++) {
            struct sw_plansim_transfer *t = &l->transfer[rest[i]];

            t->share = lowest;
            assign(l, t);
        }
        without -= limited;
    }
}

/* The next less urgent level of a link has to be settled if another throughput is left to it than
 * when it was settled last. */
static void pass_on(struct sw_plansim_links *l, int level, int link)
{
    int next = next_level(l, level + 1, link);
    if (next == l->levels)
        return;

    double change = left_to(l, next, link) - cell_of(l, next, link)->left;
    if (fabs(change) > EPSILON * l->link[link].capacity)
        mark_dirty(l, next, link);
}

static void use_links(struct sw_plansim_links *l, int level)
{
    for (int i = 0; i < l->found_links; i++)
        l->link[l->found_link[i]].weight = 0;
    for (int i = 0; i < l->found_count; i++) {
        const struct sw_plansim_transfer *t = &l->transfer[l->found[i]];

        for (int k = 0; k < t->path->count; k++)
            l->link[t->path->use[k].link].weight += t->rate * t->path->use[k].weight;
    }

    for (int i = 0; i < l->found_links; i++) {
        int link = l->found_link[i];

        cell_of(l, level, link)->used = l->link[link].weight;
        note(l, l->active, level, link, l->link[link].weight > 0);
        pass_on(l, level, link);
    }
}

/* When a transfer ends at its rate. */
static double end_s(const struct sw_plansim_transfer *t)
{
    if (t->left <= EPSILON * t->all)
        return t->since_s;
    return t->rate > 0 ? t->since_s + t->left / t->rate : (double)INFINITY;
}

/* Begins the new rates. Only the first ends become events: each of them makes the component settle
 * again. */
static int begin_rates(struct sw_plansim_links *l, struct sw_plansim_events *events,
                       struct sw_err *err)
{
    double first_s = (double)INFINITY;
    int rc = SW_OK;

    for (int i = 0; i < l->found_count; i++) {
        struct sw_plansim_transfer *t = &l->transfer[l->found[i]];

        set_rate(l, t, t->share);
        first_s = fmin(first_s, end_s(t));
    }

    for (int i = 0; i < l->found_count && rc == SW_OK && isfinite(first_s); i++) {
        double ends_s = end_s(&l->transfer[l->found[i]]);
        struct sw_plansim_event event = {
            .time_s = ends_s, .kind = SW_PLANSIM_TRANSFER, .index = l->found[i], .stamp = l->stamp};

        if (ends_s - l->now_s <= (first_s - l->now_s) * (1 + EPSILON))
            rc = sw_plansim_events_push(events, event, err);
    }

    return rc;
}

static int settle_level(struct sw_plansim_links *l, int level, struct sw_plansim_events *events,
                        struct sw_err *err)
{
    while (l->first_dirty[level] >= 0) {
        int link = l->first_dirty[level];
        struct sw_plansim_cell *c = cell_of(l, level, link);

        l->first_dirty[level] = c->next_dirty;
        c->is_listed = false;
        if (!c->is_dirty)
            continue;

        find_component(l, level, link);
        share_links(l);
        int rc = begin_rates(l, events, err);
        if (rc != SW_OK)
            return rc;
        use_links(l, level);
    }

    return SW_OK;
}

int sw_plansim_links_settle(struct sw_plansim_links *l, double now_s,
                            struct sw_plansim_events *events, struct sw_err *err)
{
    l->now_s = now_s;
    for (int level = 0; level < l->levels; level++) {
        int rc = settle_level(l, level, events, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- What is known about links ---- */

/* The bytes of the largest chunk that transfers of the cell have on the link. */
static double chunk_of(const struct sw_plansim_links *l, int level, int link, double now_s)
{
    const struct node *n = cell_of(l, level, link)->first;
    double most = 0;

    for (; n && n->admitted; n = n->next) {
        const struct sw_plansim_transfer *t = &l->transfer[n->transfer];

        if (t->rate > 0)
            most = fmax(most, t->left - t->rate * (now_s - t->since_s));
    }

    return fmin(most, SW_PLANSIM_CHUNK);
}

double sw_plansim_links_chunk_s(const struct sw_plansim_links *l,
                                const struct sw_plansim_path *path, int level, double now_s)
{
    double longest_s = 0;

    for (int i = 0; i < path->count; i++) {
        int link = path->use[i].link;

        int q = next_in(l, l->active, level + 1, link);

        if (q < l->levels)
            longest_s = fmax(longest_s, chunk_of(l, q, link, now_s) / l->link[link].capacity);
    }

    return longest_s;
}

double sw_plansim_links_busy_s(const struct sw_plansim_links *l, int link)
{
    return l->link[link].busy_s;
}
