/* Gradients from factors in the parameter table: slices are whole outputs, a bias has the slices of
 * its weight, and the gradient that servers make is the sum over rows of the products of the
 * factors. */
#include "table_support.h"

enum { ROWS = 7, INPUTS = 33, OUTPUTS = 10 };

struct layer {
    struct stand stand;
    struct sw_table_factors f;
    int weight, bias;
};

static void add(struct layer *l, const char *name, int ndim, int number, int *index)
{
    const int64_t dim[2] = {l->f.outputs, l->f.inputs};
    const struct sw_param_spec spec = {.name = name,
                                       .layout = sw_desc_plain(SW_F32, ndim, dim),
                                       .owner = -1,
                                       .factors = number,
                                       .lr_mult = 1,
                                       .decay_mult = 1,
                                       .init = {.init = SW_INIT_CONSTANT}};
    struct sw_err err;
    ASSERT_OK(sw_table_add(l->stand.table, &spec, index, &err));
}

/* A table with nothing but a fully-connected layer of so many outputs; sgd at rate 1, values 0. */
static void layer_new(struct layer *l, int workers, int servers, int64_t outputs,
                      enum sw_factor_home home, double clip_norm)
{
    struct sw_err err;
    int number = 0;
    *l = (struct layer){.stand.common.lr = 1};
    l->stand.updater_conf = conf_with(&sgd()->base, NULL, 0);
    l->stand.schedule_conf = conf_with(fixed_schedule(), NULL, 0);
    ASSERT_OK(sw_cpu_open(false, &l->stand.dev, &err));
    const struct sw_table_args args = {.device = l->stand.dev,
                                       .updater = sgd(),
                                       .updater_conf = l->stand.updater_conf,
                                       .common = &l->stand.common,
                                       .schedule = fixed_schedule(),
                                       .schedule_conf = l->stand.schedule_conf,
                                       .horizon_steps = 10,
                                       .slice_elements = 1 << 20,
                                       .workers = workers,
                                       .servers = servers,
                                       .clip_norm = clip_norm};
    ASSERT_OK(sw_table_new(&args, &l->stand.table, &err));
    l->f = (struct sw_table_factors){
        .rows = ROWS, .inputs = INPUTS, .outputs = outputs, .steps = 1, .home = home};
    ASSERT_OK(sw_table_add_factors(l->stand.table, &l->f, &number, &err));
    add(l, "fc.weight", 2, number, &l->weight);
    add(l, "fc.bias", 1, number, &l->bias);
    ASSERT_OK(sw_table_freeze(l->stand.table, &err));
    ASSERT_OK(sw_table_allocate(l->stand.table, &err));
    ASSERT_OK(sw_table_init_values(l->stand.table, &err));
}

static float x_at(int64_t r, int64_t i)
{
    return (float)((r * 31 + i * 7) % 11 - 5);
}

static float dy_at(int64_t r, int64_t o)
{
    return (float)((r * 13 + o * 5) % 7 - 3);
}

/* What workers do: each array that a server reads gets all rows; what it does not need is NaN. */
static void write_factors(struct layer *l)
{
    const struct sw_table_factors *f = sw_table_factors_of(l->stand.table, l->weight);
    bool shared = f->home == SW_FACTORS_SHARED;
    for (int s = 0; s < (shared ? 1 : sw_table_servers(l->stand.table)); s++) {
        float *x = sw_table_factor_x(l->stand.table, f, 0, s),
              *dy = sw_table_factor_dy(l->stand.table, f, 0, s);
        int64_t first = 0, outputs = f->outputs;
        if (!shared)
            sw_table_factor_range(l->stand.table, f, s, &first, &outputs);
        assert_int_equal(x != NULL, outputs > 0);
        for (int64_t r = 0; r < ROWS && outputs > 0; r++) {
            for (int64_t i = 0; i < INPUTS; i++)
                x[r * INPUTS + i] = x_at(r, i);
            for (int64_t o = 0; o < f->outputs; o++)
                dy[r * f->outputs + o] =
                    o >= first && o < first + outputs ? dy_at(r, o) : (float)NAN;
        }
    }
}

static void serve_all(struct sw_table *t)
{
    struct sw_message m;
    struct sw_err err;
    for (int again = 0; again < 3; again++) /* decisions come behind updates */
        for (int s = 0; s < sw_table_servers(t); s++)
            while (sw_queue_try_pop(sw_table_inbox(t, s), &m) == SW_OK)
                ASSERT_OK(sw_table_serve(t, s, &m, &err));
}

/* Whole numbers: sums are exact in any order. */
static void assert_updated(const struct layer *l, double scale)
{
    const float *w = sw_table_param(l->stand.table, l->weight)->value,
                *b = sw_table_param(l->stand.table, l->bias)->value;
    for (int64_t o = 0; o < l->f.outputs; o++) {
        double bias = 0;
        for (int64_t r = 0; r < ROWS; r++)
            bias += (double)dy_at(r, o);
        assert_true(fabs((double)b[o] + scale * bias) <= 1e-6 * fabs(bias));
        for (int64_t i = 0; i < INPUTS; i++) {
            double sum = 0;
            for (int64_t r = 0; r < ROWS; r++)
                sum += (double)dy_at(r, o) * (double)x_at(r, i);
            assert_true(fabs((double)w[o * INPUTS + i] + scale * sum) <= 1e-6 * fabs(sum));
        }
    }
}

static void update(struct layer *l, int workers)
{
    struct sw_err err;
    write_factors(l);
    for (int w = 0; w < workers; w++) {
        ASSERT_OK(sw_table_update(l->stand.table, w, l->weight, 1, &err));
        ASSERT_OK(sw_table_update(l->stand.table, w, l->bias, 1, &err));
        if (w + 1 < workers) {
            serve_all(l->stand.table);
            assert_false(sw_table_ready(l->stand.table, 0, l->weight, 1));
        }
    }
    serve_all(l->stand.table);
    assert_true(sw_table_ready(l->stand.table, 0, l->weight, 1));
    assert_true(sw_table_ready(l->stand.table, 0, l->bias, 1));
}

static void layer_free(struct layer *l)
{
    sw_table_free(l->stand.table);
    sw_device_close(l->stand.dev);
    free(l->stand.updater_conf);
    free(l->stand.schedule_conf);
}

static void servers_make_the_gradient_of_all_rows(void **state)
{
    static const enum sw_factor_home homes[] = {SW_FACTORS_SHARED, SW_FACTORS_BY_SERVER};
    for (int servers = 1; servers <= 12; servers++)
        for (int h = 0; h < 2; h++) {
            struct layer l;
            layer_new(&l, 3, servers, OUTPUTS, homes[h], 0);
            update(&l, 3);
            assert_updated(&l, 1);
            layer_free(&l);
        }
}

/* Every output is one server's, of weight and bias alike, and as evenly as can be. */
static void servers_own_runs_of_outputs(void **state)
{
    for (int servers = 1; servers <= 12; servers++) {
        struct layer l;
        int64_t next = 0;
        layer_new(&l, 2, servers, OUTPUTS, SW_FACTORS_BY_SERVER, 0);
        const struct sw_table_factors *f = sw_table_factors_of(l.stand.table, l.weight);
        for (int s = 0; s < servers; s++) {
            int64_t first, outputs;
            sw_table_factor_range(l.stand.table, f, s, &first, &outputs);
            assert_true(outputs == 0 || first == next);
            assert_true(outputs <= (OUTPUTS + servers - 1) / servers);
            assert_int_equal(sw_table_has_slices(l.stand.table, s, l.bias), outputs > 0);
            assert_int_equal(sw_table_pushed_bytes(l.stand.table, 0, 3, s),
                             outputs ? 3 * (INPUTS + outputs) * 4 : 0);
            next += outputs;
        }
        assert_int_equal(next, OUTPUTS);
        layer_free(&l);
    }
}

static void a_norm_is_that_of_the_made_gradient(void **state)
{
    double squares = 0;
    for (int64_t o = 0; o < OUTPUTS; o++)
        for (int64_t i = 0; i <= INPUTS; i++) {
            double sum = 0;
            for (int64_t r = 0; r < ROWS; r++)
                sum += (double)dy_at(r, o) * (i < INPUTS ? (double)x_at(r, i) : 1);
            squares += sum * sum;
        }
    for (int servers = 1; servers <= 4; servers++) {
        struct layer l;
        layer_new(&l, 2, servers, OUTPUTS, SW_FACTORS_SHARED, 0.5);
        update(&l, 2);
        assert_updated(&l, 0.5 / sqrt(squares));
        layer_free(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_make_the_gradient_of_all_rows),
        cmocka_unit_test(servers_own_runs_of_outputs),
        cmocka_unit_test(a_norm_is_that_of_the_made_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
