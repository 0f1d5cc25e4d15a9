/* ctest-labels: threads
 * Factors of several groups of devices: the order of updates, the ones that a round needs, and
 * their rows, however far groups are ahead of each other within the bound. One thread plays all
 * ranks. */
#include "unit/device/sim_support.h"

#include "exchange/reduce/factors.h"

enum { GROUPS = 2, MEMBERS = 2, RANKS = GROUPS * MEMBERS, INPUTS = 3, OUTPUTS = 2, BATCH = 5 };
enum { MOST_UPDATES = 400 };
static const int64_t first_row[MEMBERS] = {0, 2}, rows_of[MEMBERS] = {2, 3};

struct crowd {
    struct sw_device *dev[RANKS];
    struct sw_stream *stream[RANKS];
    struct sw_factors *factors;
    uint64_t pushed[GROUPS], pulled[GROUPS];
    int order[MOST_UPDATES]; /* groups of the updates, as first read */
    uint64_t known, read[RANKS][SW_FACTORS_READERS];
};

static void crowd_new(struct crowd *c, int64_t staleness)
{
    static const struct sw_factors_layer layer = {1, INPUTS, OUTPUTS};
    struct sw_sim_conf conf = small_conf();
    struct sw_err err;
    *c = (struct crowd){.known = 0};
    conf.gpus = RANKS;
    for (int r = 0; r < RANKS; r++) {
        ASSERT_OK(sw_sim_open(&conf, r, &c->dev[r], &err));
        if (r > 0)
            sw_sim_join(c->dev[r], c->dev[0]);
        c->stream[r] = new_stream(c->dev[r]);
    }
    const struct sw_factors_args args = {.devices = c->dev,
                                         .ranks = RANKS,
                                         .groups = GROUPS,
                                         .staleness = staleness,
                                         .batch_rows = BATCH,
                                         .layers = &layer,
                                         .count = 1};
    ASSERT_OK(sw_factors_new(&args, &c->factors, &err));
    assert_int_equal(sw_factors_bytes(&args), 2 * 16 * 4 * (1 + 2 * staleness + 2));
    assert_int_equal(sw_device_bytes_of(c->dev[0]).in_use, sw_factors_bytes(&args));
    for (int r = 0; r < RANKS; r++)
        sw_factors_set_rows(c->factors, r, first_row[r % MEMBERS], rows_of[r % MEMBERS]);
}

static void crowd_free(struct crowd *c)
{
    struct sw_err err;
    for (int r = 0; r < RANKS; r++)
        ASSERT_OK(sw_stream_wait(c->stream[r], &err));
    sw_factors_free(c->factors);
    for (int r = 0; r < RANKS; r++) {
        sw_stream_free(c->stream[r]);
        sw_device_close(c->dev[r]);
    }
}

static float value_of(int group, uint64_t round, int64_t i)
{
    return (float)(group * 10000 + (int64_t)round * 100 + i);
}

static void copy(struct crowd *c, int r, float *to, const float *from, int64_t count)
{
    struct sw_err err;
    ASSERT_OK(sw_copy(c->stream[r], to, from, (size_t)count * sizeof *to, &err));
}

/* Both members of a group push their rows of its next round. */
static void push(struct crowd *c, int group)
{
    struct sw_err err;
    float x[BATCH * INPUTS], dy[BATCH * OUTPUTS];
    const uint64_t round = ++c->pushed[group];
    for (int64_t i = 0; i < BATCH * INPUTS; i++)
        x[i] = value_of(group, round, i);
    for (int64_t i = 0; i < BATCH * OUTPUTS; i++)
        dy[i] = -value_of(group, round, i);
    for (int r = group * MEMBERS; r < (group + 1) * MEMBERS; r++) {
        int64_t first = first_row[r % MEMBERS], rows = rows_of[r % MEMBERS];
        copy(c, r, sw_factors_x(c->factors, r, 0) + first * INPUTS, x + first * INPUTS,
             rows * INPUTS);
        copy(c, r, sw_factors_dy(c->factors, r, 0) + first * OUTPUTS, dy + first * OUTPUTS,
             rows * OUTPUTS);
        ASSERT_OK(sw_factors_push(c->factors, r, 0, round, c->stream[r], &err));
        ASSERT_OK(sw_stream_wait(c->stream[r], &err)); /* x and dy are on the stack */
    }
}

/* The update is the next one of the order that all ranks have, and its rows are complete. */
static void check(struct crowd *c, int r, enum sw_factors_reader reader,
                  const struct sw_factors_update *u)
{
    struct sw_err err;
    float x[BATCH * INPUTS], dy[BATCH * OUTPUTS];
    const uint64_t at = c->read[r][reader]++;
    assert_true(at < MOST_UPDATES);
    assert_int_equal(u->before, at);
    if (at == c->known)
        c->order[c->known++] = u->group;
    assert_int_equal(u->group, c->order[at]);

    ASSERT_OK(sw_factors_take(c->factors, r, 0, u, c->stream[r], &err));
    copy(c, r, x, u->x, BATCH * INPUTS);
    copy(c, r, dy, u->dy, BATCH * OUTPUTS);
    ASSERT_OK(sw_factors_release(c->factors, r, 0, u, c->stream[r], &err));
    ASSERT_OK(sw_stream_wait(c->stream[r], &err));
    for (int64_t i = 0; i < BATCH * INPUTS; i++)
        assert_true(x[i] == value_of(u->group, u->round, i));
    for (int64_t i = 0; i < BATCH * OUTPUTS; i++)
        assert_true(dy[i] == -value_of(u->group, u->round, i));
}

/* Reads what the rank needs for a round; returns the number of updates. */
static int take_up_to(struct crowd *c, int r, uint64_t round, bool all)
{
    struct sw_factors_update u;
    int count = 0;
    for (int reader = 0; reader < SW_FACTORS_READERS; reader++)
        for (; sw_factors_next(c->factors, r, 0, reader, round, all, &u); count++)
            check(c, r, reader, &u);
    assert_true(count % SW_FACTORS_READERS == 0);
    return count / SW_FACTORS_READERS;
}

/* A group pulls its last round; false: it would wait for the other one. */
static bool pull(struct crowd *c, int group)
{
    const int r = group * MEMBERS;
    int rc = sw_factors_wait(c->factors, r, 0, c->pushed[group], 0);
    if (rc == SW_ERR_BUSY)
        return false;
    assert_int_equal(rc, SW_OK);
    assert_int_equal(take_up_to(c, r, c->pushed[group], false),
                     take_up_to(c, r + 1, c->pushed[group], false));
    c->pulled[group] = c->pushed[group];
    return true;
}

static void a_round_needs_its_own_updates_and_those_of_the_bound(void **state)
{
    struct crowd c;
    crowd_new(&c, 1);
    push(&c, 0);
    assert_true(pull(&c, 0));
    push(&c, 0);
    assert_false(pull(&c, 0)); /* the other group has not begun */
    push(&c, 1);
    assert_int_equal(take_up_to(&c, 0, 2, false), 2);
    assert_int_equal(sw_factors_lag(c.factors, 0, 0, SW_FACTORS_WEIGHT), 1);

    /* What is complete but not needed waits for the meeting of all groups. */
    assert_true(pull(&c, 1));
    push(&c, 1);
    assert_int_equal(take_up_to(&c, 0, 2, false), 0);
    assert_true(sw_factors_is_behind(c.factors, 0, 0, SW_FACTORS_WEIGHT));
    assert_int_equal(sw_factors_wait_all(c.factors, 0, 2, 0), SW_OK);
    assert_int_equal(sw_factors_wait_all(c.factors, 0, 3, 0), SW_ERR_BUSY);
    assert_int_equal(take_up_to(&c, 0, 2, true), 1);
    assert_false(sw_factors_is_behind(c.factors, 0, 0, SW_FACTORS_WEIGHT));
    assert_int_equal(sw_factors_lag(c.factors, 0, 0, SW_FACTORS_WEIGHT), 0);
    crowd_free(&c);
}

/* Each group in turn goes as far as it can: what it sends fills all arrays of the other. */
static void groups_overtake_each_other_within_the_bound(void **state)
{
    for (int64_t staleness = 1; staleness <= 3; staleness++) {
        struct crowd c;
        crowd_new(&c, staleness);
        for (int turn = 0; turn < 8; turn++) {
            const int g = turn % GROUPS;
            uint64_t before = c.pushed[g];
            while (c.pulled[g] == c.pushed[g] || pull(&c, g))
                push(&c, g);
            assert_true(turn == 0 || c.pushed[g] == before + 2 * (uint64_t)staleness + 2);
        }
        crowd_free(&c);
    }
}

static void groups_take_turns_in_any_order(void **state)
{
    uint32_t random = 12345;
    struct crowd c;
    crowd_new(&c, 2);
    for (int i = 0; i < 200; i++) {
        random = random * 1664525 + 1013904223;
        const int g = random >> 31;
        if (c.pulled[g] == c.pushed[g] || pull(&c, g))
            push(&c, g);
    }
    assert_true(c.pushed[0] > 40 && c.pushed[1] > 40);
    crowd_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_needs_its_own_updates_and_those_of_the_bound),
        cmocka_unit_test(groups_overtake_each_other_within_the_bound),
        cmocka_unit_test(groups_take_turns_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
