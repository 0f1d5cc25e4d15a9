/* The reduction tree: the same order of additions for any distribution of the leaves. */
#include "base/tree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 40 };

/* A sum whose bits depend on the order of additions: no two orders agree. */
static double join(double a, double b)
{
    return 0.75 * a + 1.25 * b + 0.0625 * a * b;
}

static double leaf(int i)
{
    return 0.1 + 0.01 * i;
}

/* The reference: pairs, pairs of pairs, then the remainder from the right. */
static double whole(int from, int to)
{
    int left = 1;
    if (to - from == 1)
        return leaf(from);
    while (2 * left < to - from)
        left *= 2;
    return join(whole(from, from + left), whole(from + left, to));
}

struct stack {
    double at[SW_TREE_DEPTH];
    int depth;
};

static void push(struct stack *s, double value, int adds)
{
    assert_in_range(s->depth, 0, SW_TREE_DEPTH - 1);
    s->at[s->depth++] = value;
    for (; adds > 0; adds--) {
        assert_true(s->depth > 1);
        s->depth--;
        s->at[s->depth - 1] = join(s->at[s->depth - 1], s->at[s->depth]);
    }
}

/* Reduces the nodes of [from, to) one by one. */
static void push_share(struct stack *s, int leaves, int from, int to)
{
    for (int end; from < to; from = end) {
        struct stack own = {.depth = 0};
        end = sw_tree_node_end(leaves, from, to);
        assert_in_range(end, from + 1, to);
        for (int i = from; i < end; i++)
            push(&own, leaf(i), sw_tree_adds(end - from, i - from, i + 1 - from));
        assert_int_equal(own.depth, 1);
        push(s, own.at[0], sw_tree_adds(leaves, from, end));
    }
}

static void sum_is_the_same_for_any_distribution_of_leaves(void **state)
{
    for (int leaves = 1; leaves <= MOST; leaves++)
        for (int a = 0; a < leaves; a++)
            for (int b = a; b < leaves; b++) {
                struct stack s = {.depth = 0};
                push_share(&s, leaves, 0, a);
                push_share(&s, leaves, a, b);
                push_share(&s, leaves, b, leaves);
                assert_int_equal(s.depth, 1);
                assert_true(s.at[0] == whole(0, leaves));
            }
}

static void consecutive_leaves_form_few_nodes(void **state)
{
    for (int from = 0; from < 1024; from += 37)
        for (int to = from + 1; to <= 1024; to += 11) {
            int nodes = 0;
            for (int at = from; at < to; nodes++)
                at = sw_tree_node_end(1024, at, to);
            assert_in_range(nodes, 1, 2 * 10);
        }
    assert_int_equal(sw_tree_node_end(1000, 0, 1000), 1000);
}

static double plain_tree(const double *x, int n)
{
    int left = 1;
    if (n == 1)
        return x[0];
    while (2 * left < n)
        left *= 2;
    return plain_tree(x, left) + plain_tree(x + left, n - left);
}

static void tree_sum_adds_rows_in_tree_order(void **state)
{
    enum { ROOM = 150, COUNT = 149 };
    static double rows[MOST][ROOM], of_column[MOST], got[ROOM];
    for (int leaves = 1; leaves <= MOST; leaves++) {
        double want[COUNT];
        for (int c = 0; c < ROOM; c++) {
            for (int i = 0; i < leaves; i++)
                rows[i][c] = of_column[i] = 1.0 / (3 + i + 50 * c);
            if (c < COUNT)
                want[c] = plain_tree(of_column, leaves);
        }
        got[COUNT] = 7;
        sw_tree_sum(&rows[0][0], leaves, ROOM, COUNT, got);
        for (int c = 0; c < COUNT; c++)
            assert_true(got[c] == want[c]);
        assert_true(got[COUNT] == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_is_the_same_for_any_distribution_of_leaves),
        cmocka_unit_test(consecutive_leaves_form_few_nodes),
        cmocka_unit_test(tree_sum_adds_rows_in_tree_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
