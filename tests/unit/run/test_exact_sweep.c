/* ctest-labels: threads
 * ctest-timeout: 600
 * repeat_exact over random nets: the set-ups of the oracle's cases (oracle_support.h), split by
 * rows, have the bits of one worker, and send what their terms say. */
#include "oracle_support.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { CASES = 16 };
#else
enum { CASES = 64 };
#endif

/* As many parts as workers at least, and as rows of any batch at most. */
static int draw_parts(const struct oracle_case *c)
{
    struct rng r = rng_of(99000 + c->seed);
    int rows = c->batch < c->eval_batch ? c->batch : c->eval_batch, most = rows < 10 ? rows : 10;
    int workers = oracle_workers(&c->way[0]);
    return (int)rng_int(&r, workers, most > workers ? most : workers);
}

/* Does it split or place a layer, or send factors? Such keys are left out: all layers are in rows
 * here, and all sums are over the parts of a batch. */
static bool is_left_out(const char *set)
{
    return strncmp(set, "job.partition", 13) == 0 || strstr(set, ".partition=") ||
           strstr(set, ".location=") || strncmp(set, "cluster.comm=", 13) == 0;
}

static bool go(const struct oracle_case *c, const char *name, const char *parts, bool alone)
{
    struct trial t = {.recipe = c->recipe,
                      .name = name,
                      .steps = c->steps,
                      .device = alone ? "cpu" : c->way[0].device,
                      .oversubscribe = true,
                      .sets = {"job.repeat_exact=yes", parts}};
    for (int n = 0, to = 2; !alone && n < ORACLE_SETS && c->way[0].sets[n][0]; n++)
        if (!is_left_out(c->way[0].sets[n]))
            t.sets[to++] = c->way[0].sets[n];
    if (trial_go(&t) == SW_OK)
        return true;
    /* A net whose training diverges says so in every set-up. */
    if (t.rc != SW_ERR_DIVERGED)
        fprintf(stderr, "%s: %s\n", name, t.err.text);
    return false;
}

/* Bytes of gradients in a step: once per term of every worker. */
static int64_t terms_of(const struct oracle_case *c, int parts)
{
    int64_t terms = 0;
    for (int w = 0; w < oracle_workers(&c->way[0]); w++) {
        int64_t at, count;
        sw_part(parts, oracle_workers(&c->way[0]), w, &at, &count);
        for (int64_t end = at + count; at < end; terms++)
            at = sw_tree_node_end(parts, (int)at, (int)end);
    }
    return terms;
}

static int64_t gradient_bytes(const char *run)
{
    return (int64_t)ask("SELECT sum(bytes) FROM link_traffic WHERE run_id = %d AND step = 1 AND "
                        "kind IN ('shared', 'd2h') AND from_unit LIKE 'worker%%'",
                        run_id(run));
}

static bool judge(const struct oracle_case *c, int *compared)
{
    char parts[48];
    int leaves = draw_parts(c);
    snprintf(parts, sizeof parts, "job.virtual_workers=%d", leaves);
    bool one = go(c, "one", parts, true), many = go(c, "many", parts, false);
    if (one != many)
        return false;
    if (!one)
        return true;
    ++*compared;
    const char *differs =
        differing_tensor(checkpoint_path("one", c->steps), checkpoint_path("many", c->steps), NULL);
    if (differs)
        fprintf(stderr, "%s differs\n", differs);
    int64_t sent = gradient_bytes("many"), once = gradient_bytes("one");
    bool told = sent == once * terms_of(c, leaves) || strcmp(c->way[0].copy, "none") == 0;
    if (!told)
        fprintf(stderr, "%lld bytes of gradients, where one worker sends %lld, of %lld terms\n",
                (long long)sent, (long long)once, (long long)terms_of(c, leaves));
    return !differs && told;
}

static void random_jobs_have_the_bits_of_one_worker(void **state)
{
    int failed = 0, compared = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct oracle_case c = oracle_draw(seed);
        if (!judge(&c, &compared)) {
            oracle_print(&c);
            failed++;
        }
        sw_free(c.recipe);
    }
    assert_int_equal(failed, 0);
    assert_true(compared > CASES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_jobs_have_the_bits_of_one_worker, home_begin,
                                        home_end),
    };
    return cmocka_run_group_tests_name("repeat_exact over random nets", tests, NULL, NULL);
}
