/* Plans the reduction of one worker's gradients by simulating a backward pass: it assigns each leaf
 * a slot of its lane's pool and emits merges of the tree. It runs twice: the first pass merges as
 * early as possible, which gives the smallest number of slots; the second merges as late as these
 * slots allow, because one merge of many arrays reads memory once. */
#include "net/tree_plan.h"

#include "base/os.h"
#include <stdbool.h>
#include <string.h>

/* One lane while it is planned. */
struct lane {
    struct sw_tree_plan *plan;
    struct sw_tree_node pending[SW_TREE_LEAVES]; /* adjacent */
    int count;
    bool taken[SW_TREE_LEAVES]; /* slots of the pool in use */
};

static bool begins_partial(const struct sw_tree_plan *p, int part)
{
    return part == 0 || p->partial[part] != p->partial[part - 1];
}

static void emit(struct sw_tree_plan *p, int before, const struct sw_tree_node *nodes, int count)
{
    p->merge[p->merges++] =
        (struct sw_tree_merge){.before = before, .first = p->nodes, .count = count};
    memcpy(&p->node[p->nodes], nodes, (size_t)count * sizeof *nodes);
    p->nodes += count;
}

/* Number of pending nodes from i on that form one node of the tree. */
static int siblings(const struct lane *l, int i)
{
    int end = sw_tree_node_end(l->plan->leaves, l->pending[i].from, l->pending[l->count - 1].to);
    int n = 1;

    while (l->pending[i + n - 1].to < end)
        n++;
    return n;
}

/* Merges pending nodes as far as the tree allows; only the buffer of each merged node's first leaf
 * stays in use. */
static void collapse(struct lane *l, int before, bool emits)
{
    int kept = 0;

    for (int i = 0, n; i < l->count; i += n) {
        n = siblings(l, i);
        for (int k = 1; k < n; k++) {
            int slot = l->plan->slot[l->pending[i + k].from - l->plan->first];
            if (slot >= 0)
                l->taken[slot] = false;
        }

        if (n > 1 && emits)
            emit(l->plan, before, &l->pending[i], n);
        l->pending[kept++] = (struct sw_tree_node){l->pending[i].from, l->pending[i + n - 1].to};
    }

    l->count = kept;
}

static int free_slot(const struct lane *l, int slots)
{
    for (int s = 0; s < slots; s++)
        if (!l->taken[s])
            return s;
    return -1;
}

/* Assigns a slot to the gradient of the next microbatch. */
static void assign_buffer(struct lane *l, int part, int slots, bool emits)
{
    struct sw_tree_plan *p = l->plan;

    p->slot[part] = -1;
    if (begins_partial(p, part))
        return;

    if (free_slot(l, slots) < 0)
        collapse(l, part, emits);

    int slot = free_slot(l, slots);
    if (slot >= 0)
        l->taken[slot] = true;
    p->slot[part] = slot;
}

/* Plans the lane's microbatches [from, to) with the given number of slots; returns the most in use.
 */
static int plan_lane(struct lane *l, int from, int to, int slots, bool eager, bool emits)
{
    int most = 0;

    l->count = 0;
    memset(l->taken, 0, sizeof l->taken);

    for (int part = from; part < to; part++) {
        int leaf = l->plan->first + part;

        assign_buffer(l, part, slots, emits);
        if (l->plan->slot[part] >= most)
            most = l->plan->slot[part] + 1;
        l->pending[l->count++] = (struct sw_tree_node){leaf, leaf + 1};
        if (eager)
            collapse(l, part + 1, false);
    }

    return most;
}

/* Merges what remains in the lanes, for each partial sum. */
static void finish_partials(struct sw_tree_plan *p, const struct sw_tree_node *left, int count)
{
    for (int i = 0, n; i < count; i += n) {
        int partial = p->partial[left[i].from - p->first];
        for (n = 1; i + n < count && p->partial[left[i + n].from - p->first] == partial; n++)
            continue;
        if (n > 1)
            emit(p, p->count, &left[i], n);
    }
}

static void plan_all(struct sw_tree_plan *p, struct lane *l, struct sw_tree_node *left)
{
    int count = 0;

    for (int pass = 0; pass < 2; pass++) /* pass 0 merges eagerly and counts slots */
        for (int j = 0; j < p->lanes; j++) {
            int64_t from, parts;

            sw_part(p->count, p->lanes, j, &from, &parts);

            int slots = pass == 0 ? SW_TREE_LEAVES : p->slots;
            int most = plan_lane(l, (int)from, (int)(from + parts), slots, pass == 0, pass == 1);
            p->slots = most > p->slots ? most : p->slots;
            if (pass == 0)
                continue;

            memcpy(&left[count], l->pending, (size_t)l->count * sizeof *left);
            count += l->count;
        }

    finish_partials(p, left, count);
}

static void find_partials(struct sw_tree_plan *p)
{
    int end = p->first + p->count;

    for (int at = p->first, to; at < end; at = to, p->partials++) {
        to = sw_tree_node_end(p->leaves, at, end);
        for (int leaf = at; leaf < to; leaf++)
            p->partial[leaf - p->first] = p->partials;
    }
}

int sw_tree_plan_init(struct sw_tree_plan *p, int leaves, int first, int count, int lanes,
                      struct sw_err *err)
{
    size_t n = (size_t)count;

    *p = (struct sw_tree_plan){.leaves = leaves, .first = first, .count = count, .lanes = lanes};
    p->slot = sw_calloc(n, sizeof *p->slot);
    p->partial = sw_calloc(n, sizeof *p->partial);
    p->merge = sw_calloc(2 * n, sizeof *p->merge);
    p->node = sw_calloc(4 * n, sizeof *p->node);

    struct sw_tree_node *left = sw_calloc(n, sizeof *left);
    struct lane *l = sw_calloc(1, sizeof *l);
    bool taken = p->slot && p->partial && p->merge && p->node && left && l;
    if (taken) {
        l->plan = p;
        find_partials(p);
        plan_all(p, l, left);
    }

    sw_free(left);
    sw_free(l);
    return taken ? SW_OK : sw_err_nomem(err, "the order of sums", 6 * n * sizeof *p->node);
}

void sw_tree_plan_fini(struct sw_tree_plan *p)
{
    sw_free(p->slot);
    sw_free(p->partial);
    sw_free(p->merge);
    sw_free(p->node);
    *p = (struct sw_tree_plan){0};
}
