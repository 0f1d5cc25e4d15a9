/* ctest-labels: threads
 * Buckets and all-reduce over devices: how gradients are divided into buckets and ordered; sums
 * with the bits of the reduction tree on every device, in any order of arrival, and equal bits on
 * every device with a library; traffic that is counted exactly; detection of missing waits; and the
 * end of all waits after a fault, a missing member, or the time limit of the first sum. */
#include "unit/device/sim_support.h"

#include "base/os.h"
#include "base/tree.h"
#include "device/collective.h"
#include "device/copy_queue.h"
#include "exchange/reduce/buckets.h"
#include "unit/exchange/inspect.h"
#include <math.h>

/* ---- Buckets ---- */

static void buckets_have_at_least_the_requested_bytes(void **state)
{
    const struct sw_bucket_item items[] = {{10, 7, 0.1}, {90, 7, 0.1}, {300, 5, 0.2},
                                           {1, 5, 0.3},  {99, 3, 0.4}, {5, 1, 0.5}};
    struct sw_bucket b[6];
    assert_int_equal(sw_buckets_split(items, 6, 400, b), 4);
    const struct sw_bucket want[] = {
        {0, 2, 100, 7, 0.1}, {2, 1, 300, 5, 0.2}, {3, 2, 100, 3, 0.4}, {5, 1, 5, 1, 0.5}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b[i].first, want[i].first);
        assert_int_equal(b[i].count, want[i].count);
        assert_int_equal(b[i].elements, want[i].elements);
        assert_int_equal(b[i].layer, want[i].layer);
        assert_true(b[i].ready_s == want[i].ready_s);
    }
    assert_int_equal(sw_buckets_split(items, 6, 1, b), 6);
    assert_int_equal(sw_buckets_split(items, 6, 1 << 20, b), 1);
    assert_int_equal(sw_buckets_split(items, 0, 1, b), 0);
}

/* A quick link takes them as they come; one that is behind takes the lowest layer there is. */
static void lowest_layer_is_reduced_first_on_a_slow_link(void **state)
{
    const struct sw_bucket b[] = {
        {0, 1, 1000, 4, 1}, {1, 1, 1000, 3, 2}, {2, 1, 1000, 2, 3}, {3, 1, 1000, 1, 4}};
    int order[4];
    sw_buckets_order(b, 4, 4e6, order);
    for (int i = 0; i < 4; i++)
        assert_int_equal(order[i], i);
    sw_buckets_order(b, 4, 4000 / 2.5, order); /* 2.5 s each: 1 to 3.5, then three are there */
    const int behind[] = {0, 2, 3, 1};
    for (int i = 0; i < 4; i++)
        assert_int_equal(order[i], behind[i]);
}

/* ---- Sums ---- */

enum { MOST_RANKS = 5, BUCKETS = 5, ROUNDS = 4 };

enum way { STAGED, DIRECT, LIBRARY, WAYS };

struct ring {
    int ranks;
    enum way way;
    struct sw_collective *library; /* or NULL */
    struct sw_device *dev[MOST_RANKS];
    struct sw_stream *compute[MOST_RANKS];
    struct sw_allreduce *a;
    /* What each gives in each round. A copy may read it until the streams have ended, also one that
     * the next round should have waited for. */
    float *host[ROUNDS][MOST_RANKS][BUCKETS];
};

static const int64_t elements[BUCKETS] = {4096, 1, 70, 333, 16};
static const int order[BUCKETS] = {0, 2, 1, 4, 3};

static void reach_all(const struct ring *g)
{
    struct sw_err err;
    for (int r = 0; r < g->ranks; r++)
        for (int q = 0; q < g->ranks; q++)
            if (q != r)
                ASSERT_OK(sw_device_reach(g->dev[r], g->dev[q], &err));
}

static void open_library(struct ring *g)
{
    const struct sw_collective_ops *ops;
    struct sw_err err;
    ASSERT_OK(sw_device_collectives(g->dev[0], &ops, &err));
    const struct sw_collective_args args = {
        .devices = g->dev, .ranks = g->ranks, .timeout_ms = 1000};
    ASSERT_OK(sw_collective_open(ops, &args, &g->library, &err));
}

static struct ring ring_open_with(int ranks, enum way way, struct sw_sim_conf conf)
{
    struct ring g = {.ranks = ranks, .way = way};
    struct sw_err err;
    for (int r = 0; r < ranks; r++) {
        conf.gpus = ranks;
        ASSERT_OK(sw_sim_open(&conf, r, &g.dev[r], &err));
        if (r > 0)
            sw_sim_join(g.dev[r], g.dev[0]);
        g.compute[r] = new_stream(g.dev[r]);
        sw_stream_name(g.compute[r], "compute");
    }
    if (way == DIRECT)
        reach_all(&g);
    if (way == LIBRARY)
        open_library(&g);
    const struct sw_allreduce_args args = {.devices = g.dev,
                                           .ranks = ranks,
                                           .library = g.library,
                                           .elements = elements,
                                           .order = order,
                                           .buckets = BUCKETS,
                                           .first_ms = 60000};
    ASSERT_OK(sw_allreduce_new(&args, &g.a, &err));
    for (int r = 0; r < ranks; r++)
        assert_int_equal(sw_device_bytes_of(g.dev[r]).in_use,
                         sw_allreduce_bytes(elements, BUCKETS, ranks, way == LIBRARY));
    return g;
}

static struct ring ring_open(int ranks, enum way way)
{
    return ring_open_with(ranks, way, small_conf());
}

static void ring_close(struct ring *g)
{
    struct sw_err err;
    for (int r = 0; r < g->ranks; r++) {
        int rc = sw_stream_wait(g->compute[r], &err);
        (void)rc;
        sw_stream_free(g->compute[r]);
    }
    sw_allreduce_free(g->a);
    sw_collective_close(g->library);
    for (int r = 0; r < g->ranks; r++) {
        sw_device_close(g->dev[r]);
        for (int round = 0; round < ROUNDS; round++)
            for (int b = 0; b < BUCKETS; b++)
                free(g->host[round][r][b]);
    }
}

/* The rank's kernels write the bucket, once in a round (from 1). */
static int fill(struct ring *g, int r, int b, uint64_t round, struct sw_err *err)
{
    struct rng rng = rng_of(round * 100 + (uint64_t)(r * BUCKETS + b));
    float **host = &g->host[round - 1][r][b];
    assert_null(*host);
    *host = random_floats(&rng, elements[b], -1, 1);
    return sw_copy(g->compute[r], sw_allreduce_bucket(g->a, r, b), *host,
                   (size_t)elements[b] * sizeof(float), err);
}

static float tree_sum(const struct ring *g, int b, uint64_t round, int64_t i)
{
    float stack[SW_TREE_DEPTH];
    int top = 0;
    for (int r = 0; r < g->ranks; r++) {
        stack[top++] = g->host[round - 1][r][b][i];
        for (int adds = sw_tree_adds(g->ranks, r, r + 1); adds > 0; adds--, top--)
            stack[top - 2] += stack[top - 1];
    }
    return stack[0];
}

/* A library's order is its own, but one for all. */
static void assert_sums(struct ring *g, int b, uint64_t round)
{
    float *got = get_floats(elements[b]), *first = get_floats(elements[b]);
    for (int r = 0; r < g->ranks; r++) {
        to_host(g->compute[r], got, sw_allreduce_bucket(g->a, r, b),
                (size_t)elements[b] * sizeof(float));
        if (r == 0)
            memcpy(first, got, (size_t)elements[b] * sizeof(float));
        assert_memory_equal(got, first, (size_t)elements[b] * sizeof(float));
        float near = g->way == LIBRARY ? 1e-6f * (float)g->ranks : 0;
        for (int64_t i = 0; i < elements[b]; i++) {
            float want = tree_sum(g, b, round, i);
            if (!(fabsf(got[i] - want) <= near))
                fail_msg("%d ranks: element %lld of bucket %d is %.9g on rank %d, not %.9g",
                         g->ranks, (long long)i, b, (double)got[i], r, (double)want);
        }
    }
    free(got);
    free(first);
}

/* Ranks give in orders of their own, each from the top bucket down to the last. */
static void run_round(struct ring *g, uint64_t round, struct rng *rng)
{
    struct sw_err err;
    int given[MOST_RANKS] = {0};
    for (int left = g->ranks * BUCKETS; left > 0; left--) {
        int r = (int)rng_int(rng, 0, g->ranks - 1);
        while (given[r] == BUCKETS)
            r = (r + 1) % g->ranks;
        int b = given[r]++;
        ASSERT_OK(fill(g, r, b, round, &err));
        ASSERT_OK(sw_allreduce_push(g->a, r, b, round, g->compute[r], &err));
    }
    for (int b = BUCKETS - 1; b >= 0; b--) {
        assert_int_equal(sw_allreduce_wait(g->a, b, round, 1000), SW_OK);
        for (int r = 0; r < g->ranks; r++)
            ASSERT_OK(sw_allreduce_take(g->a, r, b, g->compute[r], &err));
        assert_sums(g, b, round);
    }
}

/* A reduce-scatter and an all-gather: each takes (ranks - 1) times all that there is. What a link
 * has carried is that, and what the test itself has copied. */
static void assert_traffic(struct ring *g)
{
    int64_t sum = 0, all = 0;
    uint64_t moved = 0;
    for (int b = 0; b < BUCKETS; b++)
        all += elements[b] * (int64_t)sizeof(float);
    for (int r = 0; r < g->ranks; r++) {
        int64_t out = all, in = all;
        for (int q = 0; q < g->ranks; q++) {
            out += sw_allreduce_round_bytes(g->a, r, q);
            in += sw_allreduce_round_bytes(g->a, q, r);
            sum += sw_allreduce_round_bytes(g->a, r, q);
        }
        moved += sw_sim_traffic(g->dev[r], SW_SIM_OUT).bytes;
        if (g->way == LIBRARY)
            continue; /* what goes where is its own affair */
        assert_int_equal(sw_sim_traffic(g->dev[r], SW_SIM_OUT).bytes, out * ROUNDS);
        assert_int_equal(sw_sim_traffic(g->dev[r], SW_SIM_IN).bytes, in * ROUNDS);
    }
    int64_t first = g->way == LIBRARY ? sum : 0; /* before the first round */
    assert_int_equal(moved, (sum + g->ranks * all) * ROUNDS + first);
    assert_int_equal(sum, 2 * (g->ranks - 1) * all);
}

static void every_device_has_the_same_sums(void **state)
{
    struct rng rng = rng_of(3);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++)
        for (enum way way = 0; way < WAYS; way++) {
            struct ring g = ring_open(ranks, way);
            for (uint64_t round = 1; round <= ROUNDS; round++)
                run_round(&g, round, &rng);
            assert_traffic(&g);
            ring_close(&g);
        }
}

static void turns_come_in_the_order_of_buckets(enum way way)
{
    struct ring g = ring_open(2, way);
    struct sw_err err;
    for (int r = 0; r < 2; r++)
        for (int b = 1; b < 3; b++) {
            ASSERT_OK(fill(&g, r, b, 1, &err));
            ASSERT_OK(sw_allreduce_push(g.a, r, b, 1, g.compute[r], &err));
        }
    assert_int_equal(sw_allreduce_wait(g.a, 2, 1, 1), SW_ERR_BUSY);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(sw_allreduce_wait(g.a, 2, 1, 1), SW_ERR_BUSY);
        ASSERT_OK(fill(&g, r, 0, 1, &err));
        ASSERT_OK(sw_allreduce_push(g.a, r, 0, 1, g.compute[r], &err));
    }
    for (int b = 0; b < 3; b++)
        assert_int_equal(sw_allreduce_wait(g.a, b, 1, 1), SW_OK);
    assert_int_equal(sw_allreduce_wait(g.a, 0, 2, 1), SW_ERR_BUSY);
    assert_int_equal(sw_allreduce_push(g.a, 0, 3, 2, g.compute[0], &err), SW_ERR_INVALID);
    ring_close(&g);
}

static void bucket_waits_for_its_turn(void **state)
{
    turns_come_in_the_order_of_buckets(DIRECT);
    turns_come_in_the_order_of_buckets(LIBRARY);
}

/* With a library one device does all that several do. */
static void a_library_sums_over_one_rank(void **state)
{
    struct rng rng = rng_of(5);
    struct ring g = ring_open(1, LIBRARY);
    for (uint64_t round = 1; round <= ROUNDS; round++)
        run_round(&g, round, &rng);
    ring_close(&g);
}

/* ---- What goes wrong ---- */

/* A rank that reads the sum, or writes the bucket again, without having taken it. The copies of the
 * first round still run then, and read host memory until the streams end. */
static void a_bucket_is_not_taken(enum way way)
{
    struct sw_sim_conf conf = small_conf();
    struct sw_err err;
    conf.copy_delay_us = 5000;
    struct ring g = ring_open_with(3, way, conf);
    for (int r = 0; r < 3; r++) {
        ASSERT_OK(fill(&g, r, 0, 1, &err));
        ASSERT_OK(sw_allreduce_push(g.a, r, 0, 1, g.compute[r], &err));
    }
    assert_int_equal(sw_allreduce_wait(g.a, 0, 1, 1000), SW_OK);
    assert_int_equal(fill(&g, 1, 0, 2, &err), SW_ERR_INVALID);
    assert_says(&err, "writes gradients while");
    assert_says(&err, "of stream all-reduce");
    ring_close(&g);
}

static void pushing_a_bucket_before_its_sum_is_taken_is_a_race(void **state)
{
    a_bucket_is_not_taken(DIRECT);
    a_bucket_is_not_taken(LIBRARY);
}

/* Members that would wait for one another for ever are told at once. */
static void members_with_different_sums_are_detected(void **state)
{
    struct ring g = ring_open(2, LIBRARY);
    struct sw_err err;
    struct sw_stream *s[2] = {new_stream(g.dev[0]), new_stream(g.dev[1])};
    float *x = sw_allreduce_bucket(g.a, 0, 0), *y = sw_allreduce_bucket(g.a, 1, 0);
    assert_int_equal(sw_collective_sum(g.library, 0, s[0], x, 16, &err), SW_ERR_INVALID);
    assert_says(&err, "must be called inside a group");
    ASSERT_OK(sw_collective_begin(g.library, &err));
    ASSERT_OK(sw_collective_sum(g.library, 0, s[0], x, 16, &err));
    assert_int_equal(sw_collective_end(g.library, &err), SW_ERR_INVALID);
    assert_says(&err, "1 operations on sim:0, but 0 on sim:1");
    ASSERT_OK(sw_collective_begin(g.library, &err));
    ASSERT_OK(sw_collective_sum(g.library, 0, s[0], x, 16, &err));
    ASSERT_OK(sw_collective_sum(g.library, 1, s[1], y, 32, &err));
    assert_int_equal(sw_collective_end(g.library, &err), SW_ERR_INVALID);
    assert_says(&err, "16 elements on sim:0, but 32 on sim:1");
    for (int r = 0; r < 2; r++)
        sw_stream_free(s[r]);
    ring_close(&g);
}

static void one_device_cannot_be_two_members(void **state)
{
    struct sw_device *dev = open_sim(0), *twice[2] = {dev, dev};
    const struct sw_collective_ops *ops;
    struct sw_collective *none;
    struct sw_err err;
    ASSERT_OK(sw_device_collectives(dev, &ops, &err));
    const struct sw_collective_args args = {.devices = twice, .ranks = 2, .timeout_ms = 1000};
    assert_int_equal(sw_collective_open(ops, &args, &none, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0 cannot join a collective twice");
    sw_device_close(dev);
}

/* A device that fails early may be told of by the call that queues the sum. */
static int give_all(struct ring *g, int b, struct sw_err *why)
{
    struct sw_err err;
    int rc = SW_OK;
    for (int r = 0; r < g->ranks && rc == SW_OK; r++) {
        ASSERT_OK(fill(g, r, b, 1, &err));
        rc = sw_allreduce_push(g->a, r, b, 1, g->compute[r], why);
    }
    for (int r = 0; r < g->ranks && rc == SW_OK; r++)
        rc = sw_allreduce_take(g->a, r, b, g->compute[r], why);
    return rc;
}

/* The others stand in the sum, until all is closed. No stream of theirs says a word, then or
 * afterwards: that the sums are wrong is found by verifying them. */
static void closing_ends_a_wait_for_a_hanging_member(void **state)
{
    struct ring g = ring_open(3, LIBRARY);
    struct sw_err err;
    sw_sim_inject(g.dev[1], SW_SIM_HANG, 1); /* behind the test's copy */
    ASSERT_OK(give_all(&g, 0, &err));
    ASSERT_OK(sw_allreduce_check(g.a, &err));
    ASSERT_OK(sw_allreduce_verify(g.a, &err));
    sw_allreduce_close_v(g.a);
    for (int r = 0; r < 3; r += 2)
        ASSERT_OK(sw_stream_wait(g.compute[r], &err));
    assert_int_equal(sw_allreduce_verify(g.a, &err), SW_ERR_CANCELLED);
    sw_device_cancel(g.dev[1]);
    ring_close(&g);
}

/* Who asks is told which one does not come. */
static void a_lost_member_is_named_in_the_error(void **state)
{
    struct ring g = ring_open(3, LIBRARY);
    struct sw_err err;
    sw_sim_inject(g.dev[1], SW_SIM_LOST, 1);
    int rc = give_all(&g, 0, &err);
    if (rc != SW_OK)
        assert_says(&err, "sim:1: all_reduce: the device is lost");
    while (sw_allreduce_check(g.a, &err) == SW_OK)
        sleep_ms(1);
    assert_says(&err, "sim:1: all_reduce: the device is lost");
    sw_allreduce_close_v(g.a);
    if (rc == SW_OK)
        ASSERT_OK(sw_stream_wait(g.compute[0], &err));
    assert_int_equal(sw_allreduce_verify(g.a, &err), SW_ERR_CANCELLED);
    ring_close(&g);
}

/* ---- First sums ---- */

enum { FIRST_MS = 100 };

static int try_first_sums(struct ring *g, struct sw_err *err)
{
    const struct sw_allreduce_args args = {.devices = g->dev,
                                           .ranks = g->ranks,
                                           .library = g->library,
                                           .elements = elements,
                                           .order = order,
                                           .buckets = BUCKETS,
                                           .first_ms = FIRST_MS};
    struct sw_allreduce *second = NULL;
    int rc = sw_allreduce_new(&args, &second, err);
    assert_null(second);
    return rc;
}

/* Its stream hangs on, though the library is aborted. */
static void a_hang_in_the_first_sum_is_an_error(void **state)
{
    struct ring g = ring_open(2, LIBRARY);
    struct sw_err err;
    sw_sim_inject(g.dev[0], SW_SIM_HANG, 0);
    assert_int_equal(try_first_sums(&g, &err), SW_ERR_LIBRARY);
    assert_says(&err,
                "the first all-reduce over 2 devices did not finish within 0 s; try all_reduce = "
                "copies");
    assert_null(g.library->hanging);
    ring_close(&g);
}

static const struct sw_collective_ops *real_library;
static int groups;

/* The second group is queued on the first member only. */
static int end_badly(struct sw_collective *c, struct sw_err *err)
{
    struct sw_err ignored;
    const int ranks = c->ranks;

    if (++groups != 2)
        return real_library->group_end(c, err);
    c->ranks = 1;
    int rc = real_library->group_end(c, &ignored);
    c->ranks = ranks;
    assert_int_equal(rc, SW_OK);
    return sw_err_set(err, SW_ERR_LIBRARY, "the other member is gone");
}

/* The first member waits for the other in its stream, which nobody could free but for the abort. */
static void a_first_sum_that_fails_is_aborted(void **state)
{
    struct ring g = ring_open(2, LIBRARY);
    struct sw_err err;
    real_library = g.library->ops;
    struct sw_collective_ops failing = *real_library;
    failing.group_end = end_badly;
    g.library->ops = &failing;
    groups = 0;
    assert_int_equal(try_first_sums(&g, &err), SW_ERR_LIBRARY);
    assert_says(&err, "the other member is gone");
    assert_null(g.library->hanging);
    g.library->ops = real_library;
    assert_int_equal(sw_collective_begin(g.library, &err), SW_ERR_CANCELLED);
    ring_close(&g);
}

static struct sw_mutex held;
static struct sw_collective_ops stubborn;

static int begin_and_hang(struct sw_collective *c, struct sw_err *err)
{
    sw_mutex_lock(&held);
    sw_mutex_unlock(&held);
    return sw_err_set(err, SW_ERR_CANCELLED, "the library has returned");
}

/* What the thread uses that hangs in it is not freed, and it is not closed. */
static void a_library_that_does_not_return_is_abandoned(void **state)
{
    struct ring g = ring_open(2, LIBRARY);
    const struct sw_collective_ops *real = g.library->ops;
    struct sw_err err;
    stubborn = *real;
    stubborn.group_begin = begin_and_hang;
    stubborn.close = NULL;
    g.library->ops = &stubborn;
    sw_mutex_init(&held);
    sw_mutex_lock(&held);
    assert_int_equal(try_first_sums(&g, &err), SW_ERR_LIBRARY);
    assert_says(&err, "the first all-reduce over 2 devices did not finish within 0 s");
    assert_non_null(g.library->hanging);
    sw_collective_close(g.library);

    sw_mutex_unlock(&held);
    struct sw_allreduce_first *first = g.library->hanging;
    sw_thread_join(&first->thread);
    assert_int_equal(first->rc, SW_ERR_CANCELLED);
    sw_allreduce_free(first->a);
    sw_free(first);
    g.library->hanging = NULL;
    g.library->ops = real;
    ring_close(&g);
    sw_mutex_fini(&held);
}

struct waiter {
    struct sw_allreduce *a;
    int rc;
};

static void wait_long(void *waiter)
{
    struct waiter *w = waiter;
    w->rc = sw_allreduce_wait(w->a, 0, 1, 60000);
}

static void closing_ends_all_waits(void **state)
{
    struct ring g = ring_open(2, DIRECT);
    struct waiter w = {.a = g.a};
    struct sw_thread thread;
    struct sw_err err;
    ASSERT_OK(sw_thread_start(&thread, "waiter", wait_long, &w, &err));
    sw_allreduce_close_v(g.a);
    sw_thread_join(&thread);
    assert_int_equal(w.rc, SW_ERR_CANCELLED);
    assert_int_equal(sw_allreduce_push(g.a, 0, 0, 1, g.compute[0], &err), SW_ERR_CANCELLED);
    ring_close(&g);
}

/* ---- Urgency ---- */

static const struct sw_device_ops *real_ops;
static int urgent_streams, other_streams;

static int watched_stream_new(struct sw_device *dev, int threads, bool urgent,
                              struct sw_stream **out, struct sw_err *err)
{
    *(urgent ? &urgent_streams : &other_streams) += 1;
    return real_ops->stream_new(dev, threads, urgent, out, err);
}

/* A device that is told what is urgent begins with sums and copies of gradients. */
static void gradients_are_copied_on_high_priority_streams(void **state)
{
    struct ring g = ring_open(2, STAGED);
    const struct sw_allreduce_args args = {.devices = g.dev,
                                           .ranks = g.ranks,
                                           .elements = elements,
                                           .order = order,
                                           .buckets = BUCKETS};
    struct sw_allreduce *second;
    struct sw_copy_queue *queue;
    struct sw_err err;
    real_ops = g.dev[0]->ops;
    struct sw_device_ops watched = *real_ops;
    watched.stream_new = watched_stream_new;
    g.dev[0]->ops = &watched;
    ASSERT_OK(sw_allreduce_new(&args, &second, &err));
    assert_int_equal(urgent_streams, 1);
    ASSERT_OK(sw_copy_queue_new(g.dev[0], 4, &queue, &err));
    assert_int_equal(urgent_streams, 3);
    assert_int_equal(other_streams, 0);
    g.dev[0]->ops = real_ops;
    sw_copy_queue_free(queue);
    sw_allreduce_free(second);
    ring_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_have_at_least_the_requested_bytes),
        cmocka_unit_test(lowest_layer_is_reduced_first_on_a_slow_link),
        cmocka_unit_test(every_device_has_the_same_sums),
        cmocka_unit_test(bucket_waits_for_its_turn),
        cmocka_unit_test(pushing_a_bucket_before_its_sum_is_taken_is_a_race),
        cmocka_unit_test(a_library_sums_over_one_rank),
        cmocka_unit_test(members_with_different_sums_are_detected),
        cmocka_unit_test(one_device_cannot_be_two_members),
        cmocka_unit_test(closing_ends_a_wait_for_a_hanging_member),
        cmocka_unit_test(a_lost_member_is_named_in_the_error),
        cmocka_unit_test(a_hang_in_the_first_sum_is_an_error),
        cmocka_unit_test(a_first_sum_that_fails_is_aborted),
        cmocka_unit_test(a_library_that_does_not_return_is_abandoned),
        cmocka_unit_test(closing_ends_all_waits),
        cmocka_unit_test(gradients_are_copied_on_high_priority_streams),
    };
    return cmocka_run_group_tests_name("allreduce", tests, NULL, NULL);
}
