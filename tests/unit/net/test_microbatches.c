/* Nets of microbatches: together they compute the same as one net, with sums in the order of the
 * reduction tree; sums between phases come from the caller; a device without host memory computes
 * the same. */
#include "net/microbatches.h"
#include "net_support.h"

static const char text[] = WORLD_INPUTS
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 6\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
    "[layer fc1]\ntype = inner_product\nsrc = act1\noutputs = 9\n"
    "[layer fc2]\ntype = inner_product\nsrc = fc1\noutputs = 9\n"
    "[layer fc3]\ntype = inner_product\nsrc = fc2\noutputs = 9\n"
    "weight.share = fc2.weight\n"
    "[layer fc4]\ntype = inner_product\nsrc = fc3\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc4, label\n";

enum { ROWS = 23, PARTS = 5, MOST_TERMS = 4 };
static const int64_t part_rows[PARTS] = {4, 5, 4, 5, 5};
static const struct plan_of_world whole = {
    .rows = ROWS, .channels = 3, .height = 6, .width = 5, .classes = 4};

/* Some of the parts as a worker has them, beside a world that has values and the batch. */
struct share {
    struct world w;
    struct sw_microbatches *microbatches;
    void *arena;
    float *partial[WORLD_PARAMS][MOST_TERMS];
    float *image;
    int32_t *label;
    int calls, fails_at, last_count;
};

/* The group is this worker. */
static int add_up(void *user, double *values, int count, bool in_rows, struct sw_err *err)
{
    struct share *s = user;
    if (++s->calls == s->fails_at)
        return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    assert_true(in_rows);
    s->last_count = count;
    sw_tree_sum(values, sw_microbatches_count(s->microbatches), count, count, values);
    return SW_OK;
}

static size_t padded(size_t bytes)
{
    return (bytes + SW_MICROBATCHES_ALIGN - 1) / SW_MICROBATCHES_ALIGN * SW_MICROBATCHES_ALIGN;
}

/* The rows of the world's batch, every part at a multiple of SW_MICROBATCHES_ALIGN. */
static void *spread_rows(const void *rows, size_t row_bytes)
{
    char *to = aligned_alloc(SW_MICROBATCHES_ALIGN,
                             padded(ROWS * row_bytes) + PARTS * SW_MICROBATCHES_ALIGN);
    const char *from = rows;
    size_t at = 0;
    assert_non_null(to);
    for (int i = 0; i < PARTS; i++) {
        size_t bytes = (size_t)part_rows[i] * row_bytes;
        memcpy(to + at, from, bytes);
        from += bytes;
        at += padded(bytes);
    }
    return to;
}

static void bind_share(struct share *s)
{
    const struct sw_net *net = sw_microbatches_net(s->microbatches, 0);
    s->arena =
        aligned_alloc(4096, sw_microbatches_arena_bytes(s->microbatches) / 4096 * 4096 + 4096);
    assert_non_null(s->arena);
    poison(s->arena, sw_microbatches_arena_bytes(s->microbatches));
    sw_microbatches_bind(s->microbatches, s->arena);
    for (int p = 0; p < sw_net_param_count(net); p++) {
        int root = sw_net_param(net, p)->root, own = root < 0 ? p : root;
        for (int k = 0; root < 0 && k < sw_microbatches_partials(s->microbatches); k++)
            s->partial[p][k] = get_bytes(sw_desc_bytes(&world_layer_param(&s->w, p)->layout));
        sw_microbatches_bind_param(s->microbatches, p, s->w.value[p], s->partial[own]);
    }
    for (int i = 0; i < sw_microbatches_count(s->microbatches); i++)
        for (int k = 0; k < sw_net_buffer_count(net); k++)
            sw_net_bind_buffer(sw_microbatches_net(s->microbatches, i), k, s->w.kept[k], NULL);
}

static void share_open(struct share *s, bool apart, int threads)
{
    const int64_t dim[4] = {ROWS, 3, 6, 5};
    const struct sw_net_field fields[2] = {
        {.name = "image", .desc = sw_desc_plain(SW_F32, 4, dim)},
        {.name = "label", .desc = sw_desc_plain(SW_I32, 1, dim)}};
    struct plan_of_world plan = whole;
    struct sw_err err;
    plan.apart = apart;
    *s = (struct share){.w = world_new(text, &plan)};
    const struct sw_net_args net = {.recipe = s->w.recipe,
                                    .stream = s->w.f.stream,
                                    .seed = 3,
                                    .training = true,
                                    .batch_rows = ROWS,
                                    .fields = fields,
                                    .field_count = 2,
                                    .source = "test",
                                    .sharing = s->w.net};
    const struct sw_microbatches_args args = {.net = &net,
                                              .rows = part_rows,
                                              .leaves = PARTS,
                                              .count = PARTS,
                                              .alone = true,
                                              .threads = threads};
    ASSERT_OK(sw_microbatches_new(&args, &s->microbatches, &err));
    sw_microbatches_set_sum(s->microbatches, add_up, s);
    bind_share(s);
    s->image = spread_rows(s->w.image, 3 * 6 * 5 * sizeof(float));
    s->label = spread_rows(s->w.label, sizeof(int32_t));
}

static void share_close(struct share *s)
{
    for (int p = 0; p < WORLD_PARAMS; p++)
        for (int k = 0; k < MOST_TERMS; k++)
            free(s->partial[p][k]);
    free(s->arena);
    free(s->image);
    free(s->label);
    sw_microbatches_free(s->microbatches);
    world_free(&s->w);
}

static int share_run(struct share *s, struct sw_err *err)
{
    const struct sw_net *net = sw_microbatches_net(s->microbatches, 0);
    int rc = sw_microbatches_set_field(s->microbatches, "image", s->image, err);
    if (rc == SW_OK)
        rc = sw_microbatches_set_field(s->microbatches, "label", s->label, err);
    if (rc == SW_OK)
        rc = sw_microbatches_set_step(s->microbatches, &s->w.step, err);
    for (int i = 0; i < sw_net_layer_count(net) && rc == SW_OK; i++)
        rc = sw_microbatches_forward(s->microbatches, i, err);
    if (rc == SW_OK)
        rc = sw_microbatches_fetch(s->microbatches, err);
    for (int i = sw_net_layer_count(net) - 1; i >= 0 && rc == SW_OK; i--)
        if (sw_net_has_backward(net, i))
            rc = sw_microbatches_backward(s->microbatches, i, err);
    return rc;
}

/* Sums over parts are those of the whole batch: the same loss and gradients, to rounding. */
static void microbatch_nets_match_one_net(void **state)
{
    struct share s;
    struct sw_err err;
    double loss = 0;
    share_open(&s, false, 1);
    world_forward(&s.w);
    world_backward(&s.w);
    ASSERT_OK(share_run(&s, &err));
    assert_int_equal(s.calls, 2); /* batch_norm, forward and backward */
    assert_int_equal(s.last_count, 2 * 6 + 1);
    assert_int_equal(sw_microbatches_partials(s.microbatches), 1);
    for (int i = 0; i < PARTS; i++)
        loss += sw_net_pairs(sw_microbatches_net(s.microbatches, i))[0].sum;
    assert_true(fabs(loss / ROWS - world_loss(&s.w)) < 1e-6);
    for (int p = 0; p < sw_net_param_count(s.w.net); p++)
        if (sw_net_param(s.w.net, p)->root < 0)
            assert_close(sw_net_param(s.w.net, p)->name, s.partial[p][0], s.w.grad[p],
                         sw_desc_storage(&world_layer_param(&s.w, p)->layout), 2e-5);
    share_close(&s);
}

static void assert_same_partials(const struct share *a, const struct share *b)
{
    for (int p = 0; p < sw_net_param_count(a->w.net); p++)
        if (a->partial[p][0])
            assert_same_bits(sw_net_param(a->w.net, p)->name, a->partial[p][0], b->partial[p][0],
                             sw_desc_bytes(&world_layer_param(&a->w, p)->layout));
}

/* However many run at the same time, and where the host does not reach the device's memory. */
static void lanes_and_devices_are_bit_identical(void **state)
{
    struct share one, other;
    struct sw_err err;
    share_open(&one, false, 1);
    ASSERT_OK(share_run(&one, &err));
    for (int threads = 2; threads <= 6; threads++) {
        share_open(&other, threads == 6, threads);
        ASSERT_OK(share_run(&other, &err));
        assert_same_partials(&one, &other);
        share_close(&other);
    }
    share_close(&one);
}

static void error_between_phases_names_the_layer(void **state)
{
    struct share s;
    struct sw_err err;
    share_open(&s, false, 1);
    s.fails_at = 1;
    assert_int_equal(share_run(&s, &err), SW_ERR_CANCELLED);
    assert_string_equal(err.text, "layer bn1: the job is ending");
    share_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(microbatch_nets_match_one_net),
        cmocka_unit_test(lanes_and_devices_are_bit_identical),
        cmocka_unit_test(error_between_phases_names_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
