/* ctest-labels: gpu
 * Updates of parameters on a GPU have the same bits as on the CPU, for every updater. Skipped
 * without a GPU. */
#include "device/op.h"
#include "unit/device/cuda_support.h"
#include "unit/device/sim_support.h" /* streams, copies to and from the device */
#include "updater_support.h"

enum { COUNT = 9600, PARAMS = 5, STEPS = 3, ARRAYS = 1 + SW_UPDATER_SLOTS };

/* Parameters in the arrays of an update, not in their order: more than a chunk, exactly one, few
 * elements, none, and such that are not aligned to 16 bytes. The rest is padding. */
static const struct {
    int64_t first, count;
} ranges[PARAMS] = {{0, 5003}, {9568, 3}, {5040, 0}, {5056, 4096}, {9153, 402}};

static struct sw_device *dev;
static struct sw_stream *gpu;
static struct fixture cpu;

/* Value and state on host and device. */
struct model {
    float *here[ARRAYS], *there[ARRAYS];
    int arrays;
};

static const struct sw_update_formula *numbers_of(const struct sw_updater *u, const void *conf,
                                                  int step, int param,
                                                  struct sw_update_numbers *out)
{
    struct sw_update_order order;
    const struct sw_update_args update = {.count = ranges[param].count,
                                          .lr = 0.03f + 0.01f * (float)param,
                                          .weight_decay = 0.01f,
                                          .value_norm = 3,
                                          .gradient_norm = 2,
                                          .step = (uint64_t)step,
                                          .order = &order};
    sw_updater_apply(u, conf, &update);
    out->first = ranges[param].first;
    out->count = ranges[param].count;
    memcpy(out->constants, order.constants, order.formula->constants_bytes);
    out->gradient_scale = 0.75f;
    return order.formula;
}

static void update_one(struct sw_stream *s, struct sw_update_op_args a, float *const *arrays,
                       int count)
{
    struct sw_err err;
    a.value = arrays[0];
    for (int i = 1; i < count; i++)
        a.slot[i - 1] = arrays[i];
    ASSERT_OK(sw_op_run(s, &sw_op_update, &a, &err));
}

static void update_both(const struct sw_updater *u, const void *conf, struct model *m, int step,
                        float clip_value, const float *gradient)
{
    bool bad[PARAMS] = {false}, bad_there[PARAMS], good[PARAMS] = {false};
    struct sw_update_numbers numbers[PARAMS] = {{0}};
    struct sw_update_op_args a = {.numbers = numbers,
                                  .gradient = gradient,
                                  .elements = COUNT,
                                  .params = PARAMS,
                                  .clip_value = clip_value,
                                  .non_finite = bad};
    for (int p = 0; p < PARAMS; p++) {
        a.formula = numbers_of(u, conf, step, p, &numbers[p]);
        numbers[p].first_chunk = a.chunks;
        a.chunks += sw_update_chunks(numbers[p].count);
    }
    update_one(cpu.stream, a, m->here, m->arrays);
    float *g = to_device(gpu, gradient, COUNT * sizeof *g);
    bool *flag = to_device(gpu, good, sizeof good);
    a.numbers = to_device(gpu, numbers, sizeof numbers);
    a.gradient = g;
    a.non_finite = flag;
    update_one(gpu, a, m->there, m->arrays);
    to_host(gpu, bad_there, flag, sizeof bad_there);
    assert_memory_equal(bad_there, bad, sizeof bad);
    assert_true(bad[1] == (step == STEPS - 1) && !bad[0] && !bad[2] && !bad[3] && !bad[4]);
    sw_device_free(dev, g, COUNT * sizeof *g);
    sw_device_free(dev, flag, sizeof bad);
    sw_device_free(dev, (void *)a.numbers, sizeof numbers);
}

static void compare(const struct sw_updater *u, const struct model *m, float clip_value)
{
    float back[COUNT];
    char what[64];
    for (int i = 0; i < m->arrays; i++) {
        snprintf(what, sizeof what, "%s, array %d, clip_value %g", u->base.name, i,
                 (double)clip_value);
        to_host(gpu, back, m->there[i], sizeof back);
        assert_same_bits(what, back, m->here[i], sizeof back);
    }
}

static void check_updater(const struct sw_updater *u, const char *key, double value,
                          float clip_value)
{
    struct rng r = rng_of(7);
    void *conf = updater_conf(u, key, value);
    struct model m = {.arrays = 1 + sw_updater_slots(u, conf)};
    for (int i = 0; i < m.arrays; i++) {
        m.here[i] = i ? get_floats(COUNT) : random_floats(&r, COUNT, -1, 1);
        if (i)
            memset(m.here[i], 0, COUNT * sizeof(float));
        m.there[i] = to_device(gpu, m.here[i], COUNT * sizeof(float));
    }
    for (int t = 0; t < STEPS; t++) {
        float *gradient = random_floats(&r, COUNT, -0.5, 0.5);
        if (t == STEPS - 1)
            gradient[ranges[1].first + 2] = INFINITY; /* is reported, and the update still runs */
        update_both(u, conf, &m, t, clip_value, gradient);
        free(gradient);
        compare(u, &m, clip_value);
    }
    for (int i = 0; i < m.arrays; i++) {
        sw_device_free(dev, m.there[i], COUNT * sizeof(float));
        free(m.here[i]);
    }
    free(conf);
}

static void every_updater_gives_the_bits_of_the_cpu(void **state)
{
    for (int u = 0; sw_updaters[u]; u++) {
        check_updater(sw_updaters[u], NULL, 0, 0);
        check_updater(sw_updaters[u], NULL, 0, 0.25f);
    }
    for (int u = 0; sw_updaters[u]; u++)
        if (strcmp(sw_updaters[u]->base.name, "sgd") == 0)
            check_updater(sw_updaters[u], "momentum", 0.9, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_updater_gives_the_bits_of_the_cpu),
    };
    dev = open_gpu(0);
    if (!dev)
        return SKIPPED;
    gpu = new_stream(dev);
    cpu = open_cpu(true, 1);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    sw_stream_free(gpu);
    sw_device_close(dev);
    close_cpu(&cpu);
    return rc;
}
