#include "net/branches.h"

#include "base/os.h"
#include "net/schedule.h"
#include <stdio.h>
#include <string.h>

enum { NONE = -1, WORD = 64 };

struct branch {
    struct sw_stream *stream; /* owned */
    struct sw_event *tail;    /* owned: recorded where the control stream is to wait */
    bool begun;               /* it has waited for the beginning of this direction */
    bool ahead;               /* the control stream has not waited for all of it */
};

struct sw_branches {
    const struct sw_net *net; /* borrowed */
    struct sw_device *dev;    /* borrowed: the net's */
    struct branch *branch;    /* owned [count] */
    int count;
    int *of;    /* owned [nodes]: which branch */
    bool begun; /* a direction is under way */
    /* Owned: recorded on the control stream when a direction begins, and wherever a branch is to
     * wait for all that stands there. */
    struct sw_event *begin, *control;

    /* Owned, of the schedule's acts. */
    int acts;
    struct sw_event **done; /* [acts]; NULL: nobody waits for it */
    int *wait;              /* [acts][count]: acts that it waits for, NONE behind the last */
    int *from, *until;      /* [acts] */
};

int sw_branches_count(const struct sw_branches *b)
{
    return b ? b->count : 1;
}

struct sw_stream *sw_net_stream_of(const struct sw_net *net, int node)
{
    const struct sw_branches *b = net->branches;
    return b ? b->branch[b->of[node]].stream : net->stream;
}

/* ---- Sets of numbers ---- */

static bool has(const uint64_t *set, int i)
{
    return set[i / WORD] >> (i % WORD) & 1;
}

static void put(uint64_t *set, int i)
{
    set[i / WORD] |= (uint64_t)1 << (i % WORD);
}

static void join(uint64_t *to, const uint64_t *from, size_t words)
{
    for (size_t w = 0; w < words; w++)
        to[w] |= from[w];
}

static size_t words_of(int n)
{
    return ((size_t)n + WORD) / WORD;
}

/* ---- Which branch ---- */

/* Nothing runs for an input; losses, metrics and outputs are not worth a stream. */
static bool is_light(const struct sw_net_node *node)
{
    return node->layer.type->role != SW_ROLE_NEURON;
}

/* A branch that ends with one of the node's sources. */
static int find_continued(const struct sw_net *net, const int *of, const int *tail, int i)
{
    const struct sw_net_node *node = &net->nodes[i];
    for (int k = 0; k < node->layer.src_count; k++)
        if (tail[of[node->src[k]]] == node->src[k])
            return of[node->src[k]];
    return NONE;
}

/* A branch on which nothing runs that the node does not need. */
static int find_free(const int *tail, int most, const uint64_t *needs)
{
    for (int b = 0; b < most; b++)
        if (tail[b] == NONE || has(needs, tail[b]))
            return b;
    return NONE;
}

static int choose(const struct sw_net *net, const int *of, const int *tail, int most, int i,
                  const uint64_t *needs)
{
    const struct sw_net_node *node = &net->nodes[i];
    int own = node->layer.src_count > 0 ? of[node->src[0]] : 0;
    int found = find_continued(net, of, tail, i);
    if (found == NONE && !is_light(node))
        found = find_free(tail, most, needs);
    return found == NONE ? own : found;
}

/* Returns how many branches there are. needs: a set of nodes for each node, zeroed. */
static int assign(const struct sw_net *net, int most, int *of, int *tail, uint64_t *needs)
{
    size_t words = words_of(net->count);
    int count = 1;
    for (int b = 0; b < most; b++)
        tail[b] = NONE;
    for (int i = 0; i < net->count; i++) {
        const struct sw_net_node *node = &net->nodes[i];
        uint64_t *mine = &needs[(size_t)i * words];
        for (int k = 0; k < node->layer.src_count; k++) {
            join(mine, &needs[(size_t)node->src[k] * words], words);
            put(mine, node->src[k]);
        }
        of[i] = choose(net, of, tail, most, i, mine);
        count = of[i] < count ? count : of[i] + 1;
        if (node->layer.type->role != SW_ROLE_INPUT)
            tail[of[i]] = i;
    }
    return count;
}

/* ---- Life ---- */

static int find_branches(struct sw_branches *b, int most, struct sw_err *err)
{
    size_t n = (size_t)b->net->count, bytes = n * words_of(b->net->count) * sizeof(uint64_t);
    int *tail = sw_calloc((size_t)most, sizeof *tail);
    uint64_t *needs = sw_calloc(1, bytes);
    b->of = sw_calloc(n, sizeof *b->of);
    int rc = tail && needs && b->of ? SW_OK : sw_err_nomem(err, "branches of a net", bytes);
    if (rc == SW_OK)
        b->count = assign(b->net, most, b->of, tail, needs);
    sw_free(tail);
    sw_free(needs);
    return rc;
}

static int make_streams(struct sw_branches *b, int threads, struct sw_err *err)
{
    b->branch = sw_calloc((size_t)b->count, sizeof *b->branch);
    if (!b->branch)
        return sw_err_nomem(err, "branches of a net", (size_t)b->count * sizeof *b->branch);
    int rc = sw_event_new(b->dev, &b->begin, err);
    if (rc == SW_OK)
        rc = sw_event_new(b->dev, &b->control, err);
    for (int i = 0; i < b->count && rc == SW_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "branch %d", i + 1);
        rc = sw_event_new(b->dev, &b->branch[i].tail, err);
        if (rc == SW_OK)
            rc = sw_stream_new(b->dev, threads, &b->branch[i].stream, err);
        if (rc == SW_OK)
            sw_stream_name(b->branch[i].stream, name);
    }
    return rc;
}

/* Exchanges with other workers and what outputs write are ordered with the net's own stream alone,
 * and the passes of a Gibbs chain are no acts of the schedule. */
static bool must_run_in_turn(const struct sw_net *net)
{
    bool found = net->scratch_apart || net->stream->dev->host_memory;
    for (int i = 0; i < net->count; i++) {
        const struct sw_net_node *node = &net->nodes[i];
        found = found || node->chain || node->layer.type == &sw_net_bridge_src ||
                node->layer.type->role == SW_ROLE_OUTPUT;
    }
    return found;
}

int sw_branches_new(const struct sw_net *net, int most, int threads, struct sw_branches **out,
                    struct sw_err *err)
{
    *out = NULL;
    if (most < 2 || must_run_in_turn(net))
        return SW_OK;
    struct sw_branches *b = sw_calloc(1, sizeof *b);
    if (!b)
        return sw_err_nomem(err, "branches of a net", sizeof *b);
    b->net = net;
    b->dev = net->stream->dev;
    int rc = find_branches(b, most, err);
    if (rc == SW_OK && b->count > 1) {
        rc = make_streams(b, threads, err);
        *out = b;
    }
    if (rc == SW_OK && b->count > 1)
        return SW_OK;
    *out = NULL;
    sw_branches_free(b);
    return rc;
}

static void forget_order(struct sw_branches *b)
{
    for (int a = 0; a < b->acts && b->done; a++)
        sw_event_free(b->dev, b->done[a]);
    sw_free(b->done);
    sw_free(b->wait);
    sw_free(b->from);
    sw_free(b->until);
    b->done = NULL;
    b->wait = b->from = b->until = NULL;
    b->acts = 0;
}

void sw_branches_free(struct sw_branches *b)
{
    if (!b)
        return;
    forget_order(b);
    for (int i = 0; i < b->count && b->branch; i++) {
        sw_event_free(b->dev, b->branch[i].tail);
        sw_stream_free(b->branch[i].stream);
    }
    sw_event_free(b->dev, b->begin);
    sw_event_free(b->dev, b->control);
    sw_free(b->branch);
    sw_free(b->of);
    sw_free(b);
}

void sw_branches_settle(struct sw_branches *b)
{
    struct sw_err ignored; /* a stream that has failed has let go of memory all the same */
    for (int i = 0; b && i < b->count; i++) {
        int rc = sw_stream_wait(b->branch[i].stream, &ignored);
        (void)rc;
    }
}

/* ---- What a pass reads and writes ---- */

enum what { FEATURE, GRADIENT, PARAMETER };

struct use {
    enum what what;
    int which; /* the root of the feature; the node in whose gradient's memory it lies; the entry */
    bool writes;
};

enum { MOST_USES = 2 * SW_LAYER_SRCS + SW_LAYER_PARAMS + 2 };

static int gradient_of(const struct sw_net *net, int node)
{
    while (sw_net_shares_grad(net, node))
        node = net->nodes[node].first_giver;
    return node;
}

static int uses_of_forward(const struct sw_net *net, int i, struct use *out)
{
    const struct sw_net_node *node = &net->nodes[i];
    int n = 0;
    out[n++] = (struct use){FEATURE, node->root, true};
    for (int k = 0; k < node->layer.src_count; k++)
        out[n++] = (struct use){FEATURE, net->nodes[node->src[k]].root, false};
    return n;
}

/* Features are no longer written. A parameter's gradient is written by the layers that share it. */
static int uses_of_backward(const struct sw_net *net, int i, struct use *out)
{
    const struct sw_net_node *node = &net->nodes[i];
    int n = 0;
    out[n++] = (struct use){GRADIENT, gradient_of(net, i), false};
    for (int k = 0; k < node->layer.src_count; k++)
        if (net->nodes[node->src[k]].needs_grad)
            out[n++] = (struct use){GRADIENT, gradient_of(net, node->src[k]), true};
    for (int k = 0; k < node->layer.param_count; k++) {
        int entry = node->first_param + k, root = net->params[entry].root;
        out[n++] = (struct use){PARAMETER, root >= 0 ? root : entry, true};
    }
    return n;
}

static int uses_of(const struct sw_net *net, const struct sw_act *act, struct use *out)
{
    return act->kind == SW_ACT_FORWARD ? uses_of_forward(net, act->node, out)
                                       : uses_of_backward(net, act->node, out);
}

static bool collide(const struct use *a, int na, const struct use *b, int nb)
{
    for (int i = 0; i < na; i++)
        for (int j = 0; j < nb; j++)
            if (a[i].what == b[j].what && a[i].which == b[j].which && (a[i].writes || b[j].writes))
                return true;
    return false;
}

/* ---- Who waits for whom ---- */

/* Of every act the set of those that are over when it begins. */
struct order {
    uint64_t *over; /* owned [acts][words] */
    size_t words;
    struct use (*uses)[MOST_USES]; /* owned [acts] */
    int *count;                    /* owned [acts] */
};

static uint64_t *over(const struct order *o, int act)
{
    return &o->over[(size_t)act * o->words];
}

static void follow(const struct order *o, int act, int earlier)
{
    join(over(o, act), over(o, earlier), o->words);
    put(over(o, act), earlier);
}

static int branch_of(const struct sw_branches *b, int act)
{
    return b->of[b->net->schedule->acts[act].node];
}

/* Acts are visited in their order. Of those that an act collides with, latest first, it waits for
 * each that the waits before do not cover: one of every other branch at most. */
static void find_waits(struct sw_branches *b, const struct order *o, int act)
{
    const struct sw_act *acts = b->net->schedule->acts;
    int waits = 0, before = act - 1;
    while (before >= 0 && branch_of(b, before) != branch_of(b, act))
        before--;
    if (before >= 0)
        follow(o, act, before);
    for (int e = act - 1; e >= 0; e--) {
        if (has(over(o, act), e))
            continue;
        if (acts[e].kind != acts[act].kind) {
            follow(o, act, e); /* the directions do not overlap */
            continue;
        }
        if (!collide(o->uses[e], o->count[e], o->uses[act], o->count[act]))
            continue;
        follow(o, act, e);
        b->wait[act * b->count + waits++] = e;
    }
}

static void find_windows(struct sw_branches *b, const struct order *o)
{
    for (int a = 0; a < b->acts; a++) {
        b->from[a] = 0;
        b->until[a] = b->acts - 1;
        while (has(over(o, a), b->from[a]))
            b->from[a]++;
        while (has(over(o, b->until[a]), a))
            b->until[a]--;
    }
}

static int make_events(struct sw_branches *b, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < b->acts * b->count && rc == SW_OK; i++)
        if (b->wait[i] != NONE && !b->done[b->wait[i]])
            rc = sw_event_new(b->dev, &b->done[b->wait[i]], err);
    return rc;
}

static int allocate(struct sw_branches *b, struct order *o, struct sw_err *err)
{
    size_t acts = (size_t)b->net->schedule->count, waits = acts * (size_t)b->count;
    o->words = words_of((int)acts);
    o->over = sw_calloc(acts * o->words, sizeof *o->over);
    o->uses = sw_calloc(acts, sizeof *o->uses);
    o->count = sw_calloc(acts, sizeof *o->count);
    b->done = sw_calloc(acts, sizeof *b->done);
    b->wait = sw_calloc(waits, sizeof *b->wait);
    b->from = sw_calloc(acts, sizeof *b->from);
    b->until = sw_calloc(acts, sizeof *b->until);
    if (!o->over || !o->uses || !o->count || !b->done || !b->wait || !b->from || !b->until)
        return sw_err_nomem(err, "the order of branches", acts * o->words * sizeof *o->over);
    b->acts = (int)acts;
    for (size_t i = 0; i < waits; i++)
        b->wait[i] = NONE;
    return SW_OK;
}

int sw_branches_order(struct sw_branches *b, struct sw_err *err)
{
    struct order o = {0};
    forget_order(b);
    int rc = allocate(b, &o, err);
    for (int a = 0; a < b->acts && rc == SW_OK; a++) {
        o.count[a] = uses_of(b->net, &b->net->schedule->acts[a], o.uses[a]);
        find_waits(b, &o, a);
    }
    if (rc == SW_OK) {
        find_windows(b, &o);
        rc = make_events(b, err);
    }
    sw_free(o.over);
    sw_free(o.uses);
    sw_free(o.count);
    return rc;
}

int sw_branches_from(const struct sw_branches *b, int act)
{
    return b && act >= 0 ? b->from[act] : act;
}

int sw_branches_until(const struct sw_branches *b, int act)
{
    return b && act >= 0 ? b->until[act] : act;
}

/* ---- Passes ---- */

static int act_of(const struct sw_branches *b, int node, bool back)
{
    const struct sw_net_schedule *s = b->net->schedule;
    return back ? s->backward_at[node] : s->forward_at[node];
}

/* Does the direction begin, or end, with the node's pass? */
static bool is_first(const struct sw_net *net, int node, bool back)
{
    int i = net->count - 1;
    while (back && i > node && !net->nodes[i].has_backward)
        i--;
    return node == (back ? i : 0);
}

static bool is_last(const struct sw_net *net, int node, bool back)
{
    int i = 0;
    while (back && i < node && !net->nodes[i].has_backward)
        i++;
    return node == (back ? i : net->count - 1);
}

/* In a direction every branch begins behind what the control stream was given before it, and not
 * behind what other branches have made it wait for since. */
static int begin(struct sw_branches *b, struct branch *branch, bool first, struct sw_err *err)
{
    for (int i = 0; i < b->count && first;
         i++) /* a direction before may not have come to its end */
        b->branch[i].begun = false;
    b->begun = b->begun && !first;
    int rc = b->begun ? SW_OK : sw_event_record(b->net->stream, b->begin, err);
    b->begun = true;
    if (rc == SW_OK && !branch->begun)
        rc = sw_event_wait(branch->stream, b->begin, err);
    branch->begun = true;
    return rc;
}

/* The branch goes on behind everything that the control stream has been given. */
static int wait_for_control(struct sw_branches *b, struct branch *branch, struct sw_err *err)
{
    int rc = sw_event_record(b->net->stream, b->control, err);
    return rc == SW_OK ? sw_event_wait(branch->stream, b->control, err) : rc;
}

static int control_waits(struct sw_branches *b, struct branch *branch, struct sw_err *err)
{
    int rc = sw_event_record(branch->stream, branch->tail, err);
    if (rc == SW_OK)
        rc = sw_event_wait(b->net->stream, branch->tail, err);
    branch->ahead = false;
    return rc;
}

int sw_branches_enter(struct sw_branches *b, int node, bool back, int phase, struct sw_err *err)
{
    if (!b)
        return SW_OK;
    struct branch *branch = &b->branch[b->of[node]];
    const int *wait = &b->wait[act_of(b, node, back) * b->count];
    bool has_values = !back && b->net->nodes[node].layer.param_count > 0;
    int rc = begin(b, branch, phase == 0 && is_first(b->net, node, back), err);
    if (rc == SW_OK && (has_values || phase > 0)) /* what was done between phases is there */
        rc = wait_for_control(b, branch, err);
    for (int k = 0; k < b->count && wait[k] != NONE && phase == 0 && rc == SW_OK; k++)
        rc = sw_event_wait(branch->stream, b->done[wait[k]], err);
    branch->ahead = true;
    return rc;
}

static int end_direction(struct sw_branches *b, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < b->count && rc == SW_OK; i++)
        if (b->branch[i].ahead)
            rc = control_waits(b, &b->branch[i], err);
    return rc;
}

int sw_branches_leave(struct sw_branches *b, int node, bool back, int phase, struct sw_err *err)
{
    if (!b)
        return SW_OK;
    struct branch *branch = &b->branch[b->of[node]];
    struct sw_event *done = b->done[act_of(b, node, back)];
    bool over = phase + 1 == sw_net_phases(b->net, node, back);
    int rc = SW_OK;
    if (!over)
        return control_waits(b, branch, err);
    if (done)
        rc = sw_event_record(branch->stream, done, err);
    if (rc == SW_OK && back && b->net->nodes[node].layer.param_count > 0)
        rc = control_waits(b, branch, err);
    if (rc == SW_OK && is_last(b->net, node, back))
        rc = end_direction(b, err);
    return rc;
}

/* ---- For tests ---- */

int sw_branches_wait_of(const struct sw_branches *b, int node, bool back, int k)
{
    int wait = k < b->count ? b->wait[act_of(b, node, back) * b->count + k] : NONE;
    return wait == NONE ? NONE : b->net->schedule->acts[wait].node;
}

void sw_branches_drop_wait(struct sw_branches *b, int node, bool back, int k)
{
    int *wait = &b->wait[act_of(b, node, back) * b->count];
    memmove(&wait[k], &wait[k + 1], (size_t)(b->count - k - 1) * sizeof *wait);
    wait[b->count - 1] = NONE;
}
