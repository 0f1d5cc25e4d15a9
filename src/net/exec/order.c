/* Builds the execution order of a step and predicts its duration. */
#include "net/exec/order.h"

#include "base/os.h"
#include <string.h>

/* ---- Properties and costs of an activation ---- */

/* Do the turns of a Gibbs chain, between forward and backward, read it as a condition? */
static bool is_condition(const struct sw_net_aliases *a, int root)
{
    for (int j = 0; j < a->graph->count; j++)
        for (int k = 1; k < a->graph->node[j].src_count && sw_net_takes_turns(a->shapes, j); k++)
            if (a->node[a->graph->node[j].src[k]].root == root)
                return true;

    return false;
}

bool sw_net_can_recompute(const struct sw_net_aliases *a, int root)
{
    if (a->node[root].published || is_condition(a, root))
        return false;

    for (int i = root; i >= 0; i = a->node[i].next_in_place) {
        const struct sw_layer *l = &a->shapes->node[i].layer;
        if (!sw_layer_can_recompute(l) || l->type == &sw_net_bridge_dst)
            return false; /* recomputing would repeat the exchange between workers */
    }

    return true;
}

bool sw_net_can_offload(const struct sw_net_aliases *a, int root,
                        const struct sw_device_throughput *throughput)
{
    const struct sw_net_shape *shape = &a->shapes->node[root];
    return !sw_net_takes_turns(a->shapes, root) && !is_condition(a, root) &&
           throughput->link_bytes_per_s > 0 && shape->layer.type->role == SW_ROLE_NEURON;
}

bool sw_net_read_in_backward(const struct sw_net_aliases *a, int root)
{
    for (int j = 0; j < a->graph->count; j++) {
        const struct sw_net_shape *shape = &a->shapes->node[j];
        if (!shape->has_backward)
            continue;
        if (a->node[j].root == root && shape->layer.backward_reads_dst)
            return true;

        for (int k = 0; k < shape->layer.src_count; k++)
            if (a->node[a->graph->node[j].src[k]].root == root &&
                (shape->layer.backward_reads_src >> k & 1))
                return true;
    }

    return false;
}

/* Does forward of the node compute or copy anything? */
static bool computes(const struct sw_net_aliases *a, int i)
{
    const struct sw_net_shape *shape = &a->shapes->node[i];
    return !shape->absent && !shape->fused && !(a->node[i].in_place && shape->layer.view);
}

double sw_net_recompute_flops(const struct sw_net_aliases *a, int root)
{
    double flops = 0;

    for (int i = root; i >= 0; i = a->node[i].next_in_place)
        if (computes(a, i))
            flops += a->shapes->node[i].layer.flops_forward;

    return flops;
}

/* Bytes of activations that a pass reads and writes. */
static double bytes_of_pass(const struct sw_net_aliases *a, int i)
{
    const struct sw_layer *l = &a->shapes->node[i].layer;
    double bytes = (double)sw_desc_bytes(&l->dst.desc);

    for (int k = 0; k < l->src_count; k++)
        bytes += (double)sw_desc_bytes(&l->src[k]->desc);
    return computes(a, i) ? bytes : 0;
}

double sw_net_recompute_bytes(const struct sw_net_aliases *a, int root)
{
    double bytes = 0;
    for (int i = root; i >= 0; i = a->node[i].next_in_place)
        bytes += bytes_of_pass(a, i);
    return bytes;
}

/* Arithmetic and memory overlap: the slower one counts. */
static double seconds_of(double flops, double bytes, const struct sw_device_throughput *r)
{
    double compute = flops / r->flops_per_s, memory = bytes / r->bytes_per_s;
    return compute > memory ? compute : memory;
}

static double seconds_of_op(const struct sw_net_aliases *a, const struct sw_exec_op *op,
                            const struct sw_device_throughput *r)
{
    const struct sw_layer *l = &a->shapes->node[op->node].layer;

    switch (op->kind) {
    case SW_EXEC_FORWARD:
        return computes(a, op->node) ? seconds_of(l->flops_forward, bytes_of_pass(a, op->node), r)
                                     : 0;
    case SW_EXEC_BACKWARD:
        return computes(a, op->node)
                   ? seconds_of(l->flops_backward, 2 * bytes_of_pass(a, op->node), r)
                   : 0;
    case SW_EXEC_RECOMPUTE:
        return seconds_of(sw_net_recompute_flops(a, op->node), sw_net_recompute_bytes(a, op->node),
                          r);
    default:
        return 0;
    }
}

static double seconds_of_copy(const struct sw_net_aliases *a, int root,
                              const struct sw_device_throughput *r)
{
    return (double)sw_desc_bytes(&a->shapes->node[root].layer.dst.desc) / r->link_bytes_per_s;
}

static bool is_offloaded(const struct sw_exec_order *s, int root)
{
    return s->residency[root] == SW_OFFLOADED || s->residency[root] == SW_OFFLOADED_LATE;
}

/* ---- Life ---- */

enum { OPS_PER_NODE = 7 }; /* one of each kind at most */

int sw_exec_order_init(struct sw_exec_order *s, const struct sw_net_aliases *aliases,
                       struct sw_err *err)
{
    size_t n = (size_t)aliases->graph->count + 1, ops = OPS_PER_NODE * n;

    *s = (struct sw_exec_order){.aliases = aliases,
                                .residency = sw_calloc(n, sizeof *s->residency),
                                .ops = sw_calloc(ops, sizeof *s->ops),
                                .more = sw_calloc(ops, sizeof *s->more),
                                .begin_s = sw_calloc(ops, sizeof *s->begin_s),
                                .pass = sw_calloc(2 * n, sizeof *s->pass),
                                .node = sw_calloc(n, sizeof *s->node)};
    if (s->residency && s->ops && s->more && s->begin_s && s->pass && s->node)
        return SW_OK;

    sw_exec_order_fini(s);
    return sw_err_nomem(err, "the schedule of a step", ops * sizeof *s->ops);
}

void sw_exec_order_fini(struct sw_exec_order *s)
{
    sw_free(s->residency);
    sw_free(s->ops);
    sw_free(s->more);
    sw_free(s->begin_s);
    sw_free(s->pass);
    sw_free(s->node);
    *s = (struct sw_exec_order){0};
}

/* ---- Passes, and what has to be there before them ---- */

static void emit(struct sw_exec_order *s, enum sw_exec_op_kind kind, int node)
{
    s->ops[s->count++] = (struct sw_exec_op){kind, node};
}

/* Restores an activation that is not in memory, after what its restoration needs. in_before keeps
 * the position of the first op that needs it. */
static void need(struct sw_exec_order *s, int root)
{
    const struct sw_net_aliases *a = s->aliases;

    if (s->residency[root] == SW_RESIDENT || s->node[root].needed)
        return;

    s->node[root].needed = true;
    if (is_offloaded(s, root)) {
        emit(s, SW_EXEC_WAIT_RELOAD, root);
        return;
    }

    for (int i = root; i >= 0; i = a->node[i].next_in_place)
        for (int k = 0; k < a->graph->node[i].src_count; k++) {
            int source = a->node[a->graph->node[i].src[k]].root;
            if (source != root)
                need(s, source);
        }

    emit(s, SW_EXEC_RECOMPUTE, root);
}

static void need_for_backward(struct sw_exec_order *s, int i)
{
    const struct sw_net_aliases *a = s->aliases;
    const struct sw_layer *l = &a->shapes->node[i].layer;
    int root = a->node[i].root;

    /* The layer's saved data is discarded with its activation, unless the activation is recomputed
     * from it. */
    if (l->backward_reads_dst ||
        (l->saved_bytes && !l->recomputes_from_saved && s->residency[root] == SW_RECOMPUTED))
        need(s, root);

    for (int k = 0; k < l->src_count; k++)
        if (l->backward_reads_src >> k & 1)
            need(s, a->node[a->graph->node[i].src[k]].root);
}

static void emit_passes(struct sw_exec_order *s)
{
    const struct sw_net_aliases *a = s->aliases;

    s->count = 0;
    for (int i = 0; i < a->graph->count; i++)
        s->node[i].needed = false;

    for (int i = 0; i < a->graph->count; i++) {
        int root = a->node[i].root;
        s->pass[i] = s->count;
        emit(s, SW_EXEC_FORWARD, i);
        if (is_offloaded(s, root) && a->node[i].next_in_place < 0)
            emit(s, SW_EXEC_OFFLOAD, root);
    }

    for (int i = a->graph->count - 1; i >= 0; i--) {
        s->pass[2 * a->graph->count - 1 - i] = s->count;
        if (!a->shapes->node[i].has_backward)
            continue;

        need_for_backward(s, i);
        emit(s, SW_EXEC_BACKWARD, i);
    }

    s->pass[2 * a->graph->count] = s->count;
}

/* ---- Start of copies back ---- */

static void find_begins(struct sw_exec_order *s, const struct sw_device_throughput *r)
{
    double now = 0;

    for (int a = 0; a < s->count; a++) {
        s->begin_s[a] = now;
        now += seconds_of_op(s->aliases, &s->ops[a], r);
    }
}

static int turn_of(const struct sw_exec_order *s)
{
    return s->pass[s->aliases->graph->count];
}

/* From the last needed one to the first: each copy starts early enough to end before the next one
 * starts and before it is needed, but not before backward begins. */
static void place_copies_in(struct sw_exec_order *s, const struct sw_device_throughput *r)
{
    double link_free = 1e300;

    for (int a = s->count - 1, at = a; a >= 0; a--) {
        int root = s->ops[a].node;

        if (s->ops[a].kind != SW_EXEC_WAIT_RELOAD)
            continue;

        double end = s->begin_s[a] < link_free ? s->begin_s[a] : link_free;
        double begin = end - seconds_of_copy(s->aliases, root, r);
        at = at < a ? at : a;
        while (at > turn_of(s) && s->begin_s[at] > begin)
            at--;
        s->node[root].in_before = s->residency[root] == SW_OFFLOADED ? at : a;
        link_free = begin;
    }
}

/* Rewrites the ops: inserts the RELOAD of every activation before op in_before, and drops the
 * OFFLOAD of activations that are not needed again. */
static void insert_copies_in(struct sw_exec_order *s)
{
    int n = 0, pass = 0, passes = 2 * s->aliases->graph->count, turn = turn_of(s);

    for (int a = 0; a <= s->count; a++) {
        for (; pass <= passes && s->pass[pass] == a; pass++)
            s->pass[pass] = n;

        /* In the order of their waits, the order in which they are needed. */
        for (int b = a; b < s->count && a >= turn; b++)
            if (s->ops[b].kind == SW_EXEC_WAIT_RELOAD && s->node[s->ops[b].node].in_before == a)
                s->more[n++] = (struct sw_exec_op){SW_EXEC_RELOAD, s->ops[b].node};

        if (a < s->count && (s->ops[a].kind != SW_EXEC_OFFLOAD || s->node[s->ops[a].node].needed))
            s->more[n++] = s->ops[a];
    }

    memcpy(s->ops, s->more, (size_t)n * sizeof *s->ops);
    s->count = n;
}

static void number_ops(struct sw_exec_order *s)
{
    for (int i = 0; i < s->aliases->graph->count; i++)
        s->node[i].forward_at = s->node[i].backward_at = s->node[i].back_at =
            s->node[i].offloaded_until = -1;

    for (int a = 0; a < s->count; a++) {
        const struct sw_exec_op *op = &s->ops[a];

        if (op->kind == SW_EXEC_FORWARD)
            s->node[op->node].forward_at = a;
        else if (op->kind == SW_EXEC_BACKWARD)
            s->node[op->node].backward_at = a;
        else if (op->kind == SW_EXEC_RECOMPUTE || op->kind == SW_EXEC_RELOAD)
            s->node[op->node].back_at = a;
    }
}

/* Sets offloaded_until: the last op that overlaps with each copy out. */
static void find_ends_of_copies(struct sw_exec_order *s, const struct sw_device_throughput *r)
{
    double link_free = 0;

    for (int a = 0; a < s->count; a++) {
        int root = s->ops[a].node, until = a;
        if (s->ops[a].kind != SW_EXEC_OFFLOAD)
            continue;

        link_free = (link_free > s->begin_s[a] ? link_free : s->begin_s[a]) +
                    seconds_of_copy(s->aliases, root, r);
        while (s->residency[root] == SW_OFFLOADED && until + 1 < s->node[root].back_at &&
               s->begin_s[until + 1] < link_free)
            until++;

        s->node[root].offloaded_until = until;
    }
}

void sw_exec_order_make(struct sw_exec_order *s, const struct sw_device_throughput *throughput)
{
    emit_passes(s);

    if (throughput->link_bytes_per_s > 0) {
        find_begins(s, throughput);
        place_copies_in(s, throughput);
        insert_copies_in(s);
        find_begins(s, throughput);
    }

    number_ops(s);
    if (throughput->link_bytes_per_s > 0)
        find_ends_of_copies(s, throughput);
}

/* ---- Time ---- */

/* The op before which the copy out of an activation must be complete. */
static int end_of_first_memory(const struct sw_exec_order *s, int root)
{
    int last = s->aliases->node[root].last_reader, until = s->node[root].offloaded_until;
    return 1 + (last >= 0 && s->node[last].forward_at > until ? s->node[last].forward_at : until);
}

/* Reuses begin_s as a flag per op: copies must be complete before it. */
static void mark_ends_of_copies(struct sw_exec_order *s)
{
    memset(s->begin_s, 0, (size_t)s->count * sizeof *s->begin_s);
    for (int i = 0; i < s->aliases->graph->count; i++)
        if (s->node[i].offloaded_until >= 0)
            s->begin_s[end_of_first_memory(s, i)] = 1;
}

/* Waits for the copies that must be complete before op a. */
static double wait_for_copies_out(const struct sw_exec_order *s, int a, double now)
{
    for (int i = 0; i < s->aliases->graph->count; i++)
        if (s->node[i].offloaded_until >= 0 && end_of_first_memory(s, i) == a &&
            s->node[i].done_out_s > now)
            now = s->node[i].done_out_s;
    return now;
}

double sw_exec_order_seconds(struct sw_exec_order *s, const struct sw_device_throughput *throughput)
{
    double now = 0, out = 0, in = 0;

    mark_ends_of_copies(s);

    for (int a = 0; a < s->count; a++) {
        int i = s->ops[a].node;

        if (s->begin_s[a] > 0)
            now = wait_for_copies_out(s, a, now);

        switch (s->ops[a].kind) {
        case SW_EXEC_OFFLOAD:
            out = (out > now ? out : now) + seconds_of_copy(s->aliases, i, throughput);
            s->node[i].done_out_s = out;
            break;
        case SW_EXEC_RELOAD:
            in = in > now ? in : now;
            in = (in > s->node[i].done_out_s ? in : s->node[i].done_out_s) +
                 seconds_of_copy(s->aliases, i, throughput);
            s->node[i].done_in_s = in;
            break;
        case SW_EXEC_WAIT_OFFLOAD:
            now = s->node[i].done_out_s > now ? s->node[i].done_out_s : now;
            break;
        case SW_EXEC_WAIT_RELOAD:
            now = s->node[i].done_in_s > now ? s->node[i].done_in_s : now;
            break;
        default:
            now += seconds_of_op(s->aliases, &s->ops[a], throughput);
            break;
        }
    }

    return now;
}

void sw_exec_order_add_waits(struct sw_exec_order *s, const int *before)
{
    int n = 0, pass = 0, passes = 2 * s->aliases->graph->count;

    for (int a = 0; a <= s->count; a++) {
        for (; pass <= passes && s->pass[pass] == a; pass++)
            s->pass[pass] = n;

        for (int i = 0; i < s->aliases->graph->count && a < s->count; i++)
            if (before[i] == a)
                s->more[n++] = (struct sw_exec_op){SW_EXEC_WAIT_OFFLOAD, i};

        if (a < s->count)
            s->more[n++] = s->ops[a];
    }

    memcpy(s->ops, s->more, (size_t)n * sizeof *s->ops);
    s->count = n;
    number_ops(s);
}
