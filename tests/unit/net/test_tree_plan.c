/* Plans of partial sums: executed step by step, they compute the sums of the reduction tree, never
 * overwrite a value that is still needed, and use few buffers. */
#include "net/tree_plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 24, NOWHERE = -1 };

/* Which node a buffer holds. */
struct holds {
    int from, to;
};

/* A worker that follows the plan: buffers of its terms and of every lane's pool. */
struct walk {
    const struct sw_tree_plan *p;
    struct holds partial[MOST], pool[MOST][MOST];
};

static int lane_of(const struct sw_tree_plan *p, int part)
{
    for (int j = 0; j < p->lanes; j++) {
        int64_t first, count;
        sw_part(p->count, p->lanes, j, &first, &count);
        if (part < first + count)
            return j;
    }
    return NOWHERE;
}

static struct holds *buffer_of(struct walk *w, int part)
{
    int slot = w->p->slot[part];
    return slot < 0 ? &w->partial[w->p->partial[part]] : &w->pool[lane_of(w->p, part)][slot];
}

static void follow_merge(struct walk *w, const struct sw_tree_merge *m)
{
    const struct sw_tree_node *node = &w->p->node[m->first];
    int from = node[0].from, to = node[m->count - 1].to;
    assert_true(m->count > 1);
    for (int i = 0; i < m->count; i++) {
        struct holds *b = buffer_of(w, node[i].from - w->p->first);
        assert_int_equal(b->from, node[i].from);
        assert_int_equal(b->to, node[i].to);
        if (i > 0)
            assert_int_equal(node[i].from, node[i - 1].to);
        b->from = b->to = NOWHERE; /* used up */
    }
    assert_int_equal(sw_tree_node_end(w->p->leaves, from, to), to);
    *buffer_of(w, from - w->p->first) = (struct holds){from, to};
}

static void follow_part(struct walk *w, int part)
{
    for (int m = 0; m < w->p->merges; m++)
        if (w->p->merge[m].before == part)
            follow_merge(w, &w->p->merge[m]);
    if (part == w->p->count)
        return;
    struct holds *b = buffer_of(w, part);
    assert_true(w->p->slot[part] < w->p->slots);
    assert_int_equal(b->from, NOWHERE); /* nothing is lost */
    *b = (struct holds){w->p->first + part, w->p->first + part + 1};
}

static void follow(const struct sw_tree_plan *p)
{
    struct walk w = {.p = p};
    for (int i = 0; i < MOST; i++) {
        w.partial[i] = (struct holds){NOWHERE, NOWHERE};
        for (int j = 0; j < MOST; j++)
            w.pool[i][j] = (struct holds){NOWHERE, NOWHERE};
    }
    for (int part = 0; part <= p->count; part++)
        follow_part(&w, part);
    int at = p->first;
    for (int t = 0; t < p->partials; t++) {
        assert_int_equal(w.partial[t].from, at);
        at = sw_tree_node_end(p->leaves, at, p->first + p->count);
        assert_int_equal(w.partial[t].to, at);
    }
    assert_int_equal(at, p->first + p->count);
}

static void every_plan_ends_with_its_partial_sums(void **state)
{
    for (int leaves = 1; leaves <= MOST; leaves++)
        for (int first = 0; first < leaves; first++)
            for (int count = 1; first + count <= leaves; count++)
                for (int lanes = 1; lanes <= count && lanes <= 5; lanes++) {
                    struct sw_tree_plan p;
                    struct sw_err err;
                    assert_int_equal(sw_tree_plan_init(&p, leaves, first, count, lanes, &err),
                                     SW_OK);
                    follow(&p);
                    sw_tree_plan_fini(&p);
                }
}

static int log2_of(int n)
{
    int log = 0;
    while (1 << log < n)
        log++;
    return log;
}

/* One lane needs a slot for every level; a few arrays are added at a time, not two. */
static void plan_uses_few_slots_and_long_merges(void **state)
{
    for (int leaves = 2; leaves <= 256; leaves *= 2) {
        struct sw_tree_plan p;
        struct sw_err err;
        assert_int_equal(sw_tree_plan_init(&p, leaves, 0, leaves, 1, &err), SW_OK);
        assert_int_equal(p.slots, log2_of(leaves));
        int touched = 0, in_pairs = 3 * (leaves - 1);
        for (int m = 0; m < p.merges; m++)
            touched += p.merge[m].count + 1;
        if (leaves > 4)
            assert_true(touched < 3 * in_pairs / 4);
        sw_tree_plan_fini(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_ends_with_its_partial_sums),
        cmocka_unit_test(plan_uses_few_slots_and_long_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
