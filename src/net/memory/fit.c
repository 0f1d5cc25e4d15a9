/* Fitting a budget: chooses which activations are recomputed or offloaded, so that the arena is
 * small enough and the step takes the least time for the device's throughput.
 *
 * A choice is evaluated by its execution order: live bytes at each op, and predicted seconds. The
 * search starts with all activations resident and repeatedly applies the change that lowers the
 * excess (bytes above the budget, summed over ops) the most per second of added time; then single
 * choices are changed as long as that saves time within the budget. Scores become stale and only
 * the best one is updated (the lazy greedy rule of Minoux, 1978). If blocks do not pack as tightly
 * as the live bytes, the search uses a lower target. The least possible memory is found by lowering
 * the target until the search fails; any budget of at least that is met. */
#include "net/memory/fit.h"

#include "base/os.h"
#include "net/memory/blocks.h"
#include <math.h>
#include <string.h>

struct move {
    int root;
    enum sw_residency residency;
    bool deep; /* also recomputes sources that nothing else restores */
    double score;
};

struct search {
    const struct sw_net_aliases *aliases;
    const struct sw_device_throughput *throughput;
    struct sw_exec_order exec;   /* of the current choice */
    struct sw_net_memory memory; /* offsets for the current choice */
    struct sw_blocks blocks;
    double *live; /* owned: bytes, of each op */
    enum sw_residency *before, *best;
    struct move *moves; /* owned */
    int move_count;
    size_t aim;
    /* Properties of the current choice. */
    size_t peak;
    int peak_op;
    double excess, seconds;
};

enum { MOVES_PER_ACTIVATION = 4, ROUNDS = 4, TRIES = 8, PAGE = 4096 };

/* ---- Evaluating ---- */

static double copy_seconds(const struct search *x)
{
    double bytes = 0;

    for (int i = 0; i < x->aliases->graph->count; i++)
        if (x->exec.node[i].offloaded_until >= 0)
            bytes += 2 * (double)sw_desc_bytes(&x->aliases->shapes->node[i].layer.dst.desc);

    return bytes > 0 ? bytes / x->throughput->link_bytes_per_s : 0;
}

static void judge(struct search *x)
{
    const struct sw_exec_order *s = &x->exec;
    double live = 0;

    sw_exec_order_make(&x->exec, x->throughput);
    sw_blocks_find(&x->blocks, s, &x->memory);
    memset(x->live, 0, (size_t)(s->count + 1) * sizeof *x->live);

    for (int i = 0; i < x->blocks.count; i++) {
        const struct sw_block *b = &x->blocks.block[i];
        if (b->in_scratch)
            continue;

        x->live[b->first] += (double)b->bytes;
        x->live[b->last + 1] -= (double)b->bytes;
    }

    x->peak = 0;

    x->excess = 0;
    for (int a = 0; a < s->count; a++) {
        live += x->live[a];
        if (live > (double)x->peak) {
            x->peak = (size_t)live;
            x->peak_op = a;
        }

        if (live > (double)x->aim)
            x->excess += live - (double)x->aim;
    }

    x->seconds =
        sw_exec_order_seconds(&x->exec, x->throughput) + SW_NET_COPY_COST * copy_seconds(x);
}

/* ---- Moves ---- */

static void get_residency(const struct search *x, enum sw_residency *to)
{
    memcpy(to, x->exec.residency, (size_t)x->aliases->graph->count * sizeof *to);
}

static void put_residency(struct search *x, const enum sw_residency *from)
{
    memcpy(x->exec.residency, from, (size_t)x->aliases->graph->count * sizeof *from);
}

/* All nodes that share memory have the residency of their root. */
static void set_residency(struct search *x, int root, enum sw_residency residency)
{
    for (int i = root; i >= 0; i = x->aliases->node[i].next_in_place)
        x->exec.residency[i] = residency;
}

static void recompute_sources(struct search *x, int root)
{
    const struct sw_net_aliases *a = x->aliases;

    for (int i = root; i >= 0; i = a->node[i].next_in_place)
        for (int k = 0; k < a->graph->node[i].src_count; k++) {
            int source = a->node[a->graph->node[i].src[k]].root;
            if (source == root || x->exec.residency[source] != SW_RESIDENT ||
                !sw_net_can_recompute(a, source) || sw_net_read_in_backward(a, source))
                continue;

            set_residency(x, source, SW_RECOMPUTED);
            recompute_sources(x, source);
        }
}

static void apply(struct search *x, const struct move *m)
{
    set_residency(x, m->root, m->residency);
    if (m->deep)
        recompute_sources(x, m->root);
}

static void add_move(struct search *x, int root, enum sw_residency residency, bool deep)
{
    x->moves[x->move_count++] = (struct move){root, residency, deep, 0};
}

static void list_moves(struct search *x)
{
    const struct sw_net_aliases *a = x->aliases;

    for (int i = 0; i < a->graph->count; i++) {
        if (a->node[i].root != i || a->shapes->node[i].absent)
            continue;

        if (sw_net_can_recompute(a, i)) {
            add_move(x, i, SW_RECOMPUTED, false);
            add_move(x, i, SW_RECOMPUTED, true);
        }

        if (sw_net_can_offload(a, i, x->throughput)) {
            add_move(x, i, SW_OFFLOADED, false);
            add_move(x, i, SW_OFFLOADED_LATE, false);
        }
    }
}

/* Excess that a move removes per second of added time; below 0 if it removes none. */
static void score(struct search *x, struct move *m, double excess, double seconds)
{
    get_residency(x, x->before);
    apply(x, m);
    judge(x);

    double gain = excess - x->excess, cost = x->seconds - seconds;
    m->score = gain > 0 ? gain / (cost > 1e-12 ? cost : 1e-12) : -1;
    put_residency(x, x->before);
}

static struct move *best_of(const struct search *x)
{
    struct move *best = NULL;

    for (int i = 0; i < x->move_count; i++)
        if (x->moves[i].score > 0 && (!best || x->moves[i].score > best->score))
            best = &x->moves[i];

    return best;
}

/* The move that is still the best after its score was updated; NULL: none helps. */
static struct move *find_move(struct search *x)
{
    double excess = x->excess, seconds = x->seconds;

    for (int round = 0; round < 2; round++) {
        struct move *m;

        for (struct move *last = NULL; (m = best_of(x)) && m != last; last = m)
            score(x, m, excess, seconds);
        if (m)
            return m;

        for (int i = 0; i < x->move_count; i++)
            score(x, &x->moves[i], excess, seconds);
    }

    return NULL;
}

/* ---- Searching ---- */

/* Lowers the peak to the target, from the current choice. Returns false if that is not possible. */
static bool lower(struct search *x)
{
    judge(x);
    for (int i = 0; i < x->move_count; i++)
        x->moves[i].score = INFINITY; /* unknown */

    while (x->excess > 0) {
        const struct move *m = find_move(x);

        if (m)
            apply(x, m);
        judge(x);
        if (!m)
            return false;
    }

    return true;
}

/* Changes the choice for an activation if that saves time within the target. */
static bool change(struct search *x, int root, enum sw_residency residency)
{
    enum sw_residency old = x->exec.residency[root];
    double seconds = x->seconds;

    if (old == residency)
        return false;

    set_residency(x, root, residency);
    judge(x);
    if (x->excess <= 0 && x->seconds < seconds)
        return true;

    set_residency(x, root, old);
    judge(x);
    return false;
}

static void polish(struct search *x)
{
    bool changed = true;

    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (int i = 0; i < x->aliases->graph->count; i++)
            if (x->aliases->node[i].root == i && x->exec.residency[i] != SW_RESIDENT)
                changed = change(x, i, SW_RESIDENT) || changed;

        for (int m = 0; m < x->move_count; m++)
            if (!x->moves[m].deep && x->exec.residency[x->moves[m].root] != SW_RESIDENT)
                changed = change(x, x->moves[m].root, x->moves[m].residency) || changed;
    }
}

static void keep_all(struct search *x)
{
    for (int i = 0; i < x->aliases->graph->count; i++)
        x->exec.residency[i] = SW_RESIDENT;
}

/* Arena size of the current choice. */
static size_t place(struct search *x)
{
    size_t scratch;
    judge(x);
    return sw_blocks_place(&x->blocks, &scratch);
}

/* Finds a choice that meets the budget; lowers the target while blocks do not pack well enough. */
static bool find_fit(struct search *x, size_t budget)
{
    keep_all(x);

    x->aim = budget;
    for (int i = 0; i < TRIES; i++) {
        if (!lower(x))
            return false;

        polish(x);

        size_t bytes = place(x);
        if (bytes <= budget)
            return true;

        size_t over = bytes - budget;
        if (x->aim <= over)
            return false;

        x->aim -= over;
    }

    return false;
}

/* Finds a choice with the least memory and returns its size. Lowers the target by ever smaller
 * steps. */
static size_t find_least(struct search *x)
{
    keep_all(x);

    size_t least = place(x);
    get_residency(x, x->best);

    for (size_t step = x->peak / 16; step >= x->peak / 1024 && step >= PAGE;) {
        put_residency(x, x->best);
        judge(x);
        x->aim = x->peak > step ? x->peak - step : 0;

        bool lowered = lower(x);
        size_t bytes = lowered ? place(x) : SIZE_MAX;
        if (bytes < least) {
            least = bytes;
            get_residency(x, x->best);
        } else {
            step /= 4;
        }
    }

    put_residency(x, x->best);
    return place(x);
}

/* ---- Life ---- */

static void fini(struct search *x)
{
    sw_exec_order_fini(&x->exec);
    sw_net_memory_fini(&x->memory);
    sw_blocks_fini(&x->blocks);
    sw_free(x->live);
    sw_free(x->before);
    sw_free(x->best);
    sw_free(x->moves);
}

/* The execution order, the blocks and the memory of the search come from the caller's aliases. */
static int init(struct search *x, const struct sw_net_aliases *aliases,
                const struct sw_device_throughput *throughput, struct sw_err *err)
{
    size_t n = (size_t)aliases->graph->count + 1;

    *x = (struct search){.aliases = aliases,
                         .throughput = throughput,
                         .live = sw_calloc(8 * n, sizeof *x->live),
                         .before = sw_calloc(n, sizeof *x->before),
                         .best = sw_calloc(n, sizeof *x->best),
                         .moves = sw_calloc(MOVES_PER_ACTIVATION * n, sizeof *x->moves)};
    if (!x->live || !x->before || !x->best || !x->moves)
        return sw_err_nomem(err, "the memory plan", 8 * n * sizeof *x->live);

    int rc = sw_exec_order_init(&x->exec, aliases, err);
    if (rc == SW_OK)
        rc = sw_net_memory_init(&x->memory, aliases->graph->count, err);
    if (rc == SW_OK)
        list_moves(x);

    return rc;
}

static void find_tightest(const struct search *x, struct sw_net_fit *fit)
{
    static const char *const passes[] = {[SW_EXEC_FORWARD] = "forward",
                                         [SW_EXEC_BACKWARD] = "backward",
                                         [SW_EXEC_RECOMPUTE] = "forward"};
    int a = x->peak_op;

    while (x->exec.ops[a].kind > SW_EXEC_RECOMPUTE && a + 1 < x->exec.count)
        a++; /* copies belong to the pass after them */
    fit->layer = x->aliases->graph->node[x->exec.ops[a].node].name;
    fit->pass = passes[x->exec.ops[a].kind];
}

int sw_net_find_residency(struct sw_exec_order *s, const struct sw_branch_order *order,
                          bool separate_scratch, size_t budget_bytes,
                          const struct sw_device_throughput *throughput, struct sw_net_fit *fit,
                          struct sw_err *err)
{
    struct search x;
    int rc = init(&x, s->aliases, throughput, err);

    if (rc == SW_OK)
        rc = sw_blocks_init(&x.blocks, s->aliases, order, separate_scratch, err);
    if (rc != SW_OK) {
        fini(&x);
        return rc;
    }

    *fit = (struct sw_net_fit){.fits = find_fit(&x, budget_bytes)};
    if (!fit->fits) {
        fit->least_bytes = find_least(&x);
        find_tightest(&x, fit);
        fit->fits = fit->least_bytes <= budget_bytes;
    }

    get_residency(&x, s->residency);
    fini(&x);
    return SW_OK;
}
