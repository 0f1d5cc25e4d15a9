/* Finds the waits between passes on different branches, and which passes may run at the same time.
 */
#include "net/exec/branch_order.h"

#include "base/os.h"
#include "net/graph/bits.h"

enum { NONE = -1 };

void sw_branch_order_free(struct sw_branch_order *o)
{
    if (!o)
        return;

    for (int a = 0; a < o->ops && o->done; a++)
        sw_event_free(o->branches->dev, o->done[a]);
    sw_free(o->done);
    sw_free(o->done_in);
    sw_free(o->wait);
    sw_free(o->from);
    sw_free(o->until);
    sw_free(o->state);
    sw_free(o);
}

/* ---- Accesses of a pass ---- */

enum what { ACTIVATION, GRADIENT, PARAMETER };

struct use {
    enum what what;
    int which; /* root of the activation; node that owns the gradient's memory; parameter index */
    bool writes;
};

enum { MOST_USES = 2 * SW_LAYER_SRCS + SW_LAYER_PARAMS + 2 };

static int gradient_of(const struct sw_net_aliases *a, int node)
{
    while (sw_net_shares_grad(a, node))
        node = a->node[node].first_writer;
    return node;
}

static int uses_of_forward(const struct sw_net_aliases *a, int i, struct use *out)
{
    const struct sw_net_graph_node *node = &a->graph->node[i];
    int n = 0;

    out[n++] = (struct use){ACTIVATION, a->node[i].root, true};
    for (int k = 0; k < node->src_count; k++)
        out[n++] = (struct use){ACTIVATION, a->node[node->src[k]].root, false};

    return n;
}

/* Activations are only read in backward and not listed. Every layer with a tied parameter writes
 * its gradient. */
static int uses_of_backward(const struct sw_net_aliases *a, int i, struct use *out)
{
    const struct sw_net_graph_node *node = &a->graph->node[i];
    const struct sw_net_shape *shape = &a->shapes->node[i];
    int n = 0;

    out[n++] = (struct use){GRADIENT, gradient_of(a, i), false};

    for (int k = 0; k < node->src_count; k++)
        if (a->shapes->node[node->src[k]].needs_grad)
            out[n++] = (struct use){GRADIENT, gradient_of(a, node->src[k]), true};

    for (int k = 0; k < shape->layer.param_count; k++) {
        int entry = shape->first_param + k, root = a->shapes->params[entry].root;
        out[n++] = (struct use){PARAMETER, root >= 0 ? root : entry, true};
    }

    return n;
}

static int uses_of(const struct sw_net_aliases *a, const struct sw_exec_op *op, struct use *out)
{
    return op->kind == SW_EXEC_FORWARD ? uses_of_forward(a, op->node, out)
                                       : uses_of_backward(a, op->node, out);
}

static bool collide(const struct use *a, int na, const struct use *b, int nb)
{
    for (int i = 0; i < na; i++)
        for (int j = 0; j < nb; j++)
            if (a[i].what == b[j].what && a[i].which == b[j].which && (a[i].writes || b[j].writes))
                return true;

    return false;
}

/* ---- Waits ---- */

/* For every op: the set of ops that are complete when it begins, and its accesses. */
struct finding {
    uint64_t *over; /* owned [ops][words] */
    size_t words;
    struct use (*uses)[MOST_USES]; /* owned [ops] */
    int *count;                    /* owned [ops] */
};

static uint64_t *over(const struct finding *f, int op)
{
    return &f->over[(size_t)op * f->words];
}

static void follow(const struct finding *f, int op, int earlier)
{
    sw_bits_join(over(f, op), over(f, earlier), f->words);
    sw_bits_put(over(f, op), earlier);
}

static int branch_of(const struct sw_branch_order *o, int op)
{
    return o->branches->of[o->exec->ops[op].node];
}

/* Ops are visited in order. An op waits for conflicting earlier ops, latest first, unless earlier
 * waits imply it; that is at most one op of every other branch. */
static void find_waits(struct sw_branch_order *o, const struct finding *f, int op)
{
    const struct sw_exec_op *ops = o->exec->ops;
    int waits = 0, before = op - 1;

    while (before >= 0 && branch_of(o, before) != branch_of(o, op))
        before--;
    if (before >= 0)
        follow(f, op, before);

    for (int e = op - 1; e >= 0; e--) {
        if (sw_bits_has(over(f, op), e))
            continue;
        if (ops[e].kind != ops[op].kind) {
            follow(f, op, e); /* the directions do not overlap */
            continue;
        }
        if (!collide(f->uses[e], f->count[e], f->uses[op], f->count[op]))
            continue;

        follow(f, op, e);
        o->wait[op * o->branches->count + waits++] = e;
    }
}

static void find_windows(struct sw_branch_order *o, const struct finding *f)
{
    for (int a = 0; a < o->ops; a++) {
        o->from[a] = 0;
        o->until[a] = o->ops - 1;
        while (sw_bits_has(over(f, a), o->from[a]))
            o->from[a]++;
        while (sw_bits_has(over(f, o->until[a]), a))
            o->until[a]--;
    }
}

static int make_events(struct sw_branch_order *o, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < o->ops * o->branches->count && rc == SW_OK; i++)
        if (o->wait[i] != NONE && !o->done[o->wait[i]])
            rc = sw_event_new(o->branches->dev, &o->done[o->wait[i]], err);

    return rc;
}

static int allocate(struct sw_branch_order *o, struct finding *f, struct sw_err *err)
{
    size_t ops = (size_t)o->ops, branches = (size_t)o->branches->count;

    f->words = sw_bits_words(o->ops);
    f->over = sw_calloc(ops * f->words, sizeof *f->over);
    f->uses = sw_calloc(ops, sizeof *f->uses);
    f->count = sw_calloc(ops, sizeof *f->count);
    o->done = sw_calloc(ops, sizeof *o->done);
    o->done_in = sw_calloc(ops, sizeof *o->done_in);
    o->wait = sw_calloc(ops * branches, sizeof *o->wait);
    o->from = sw_calloc(ops, sizeof *o->from);
    o->until = sw_calloc(ops, sizeof *o->until);

    o->state = sw_calloc(branches, sizeof *o->state);
    if (!f->over || !f->uses || !f->count || !o->done || !o->done_in || !o->wait || !o->from ||
        !o->until || !o->state)
        return sw_err_nomem(err, "the order of branches", ops * f->words * sizeof *f->over);

    for (size_t i = 0; i < ops * branches; i++)
        o->wait[i] = NONE;
    return SW_OK;
}

static int find_order(struct sw_branch_order *o, struct sw_err *err)
{
    struct finding f = {0};
    int rc = allocate(o, &f, err);

    for (int a = 0; a < o->ops && rc == SW_OK; a++) {
        f.count[a] = uses_of(o->exec->aliases, &o->exec->ops[a], f.uses[a]);
        find_waits(o, &f, a);
    }

    if (rc == SW_OK) {
        find_windows(o, &f);
        rc = make_events(o, err);
    }

    sw_free(f.over);
    sw_free(f.uses);
    sw_free(f.count);

    return rc;
}

int sw_branch_order_new(const struct sw_branches *branches, const struct sw_exec_order *exec,
                        struct sw_stream *control, struct sw_branch_order **out, struct sw_err *err)
{
    sw_branch_order_free(*out);
    *out = NULL;

    struct sw_branch_order *o = sw_calloc(1, sizeof *o);
    if (!o)
        return sw_err_nomem(err, "the order of branches", sizeof *o);

    *o = (struct sw_branch_order){
        .branches = branches, .exec = exec, .control = control, .ops = exec->count};

    int rc = find_order(o, err);
    if (rc != SW_OK) {
        sw_branch_order_free(o);
        return rc;
    }

    *out = o;
    return SW_OK;
}
