/* ctest-labels: threads
 * ctest-timeout: 120
 * A net that several hosts train together, each with its own rows of every batch: after a number of
 * steps the parameters are those of one machine, to rounding; all hosts have the same bits, and so
 * have two runs in which messages arrive in different orders. The net has what is summed beside
 * gradients: batch normalization over all rows, and a loss. */
#include "unit/exchange/hosts_support.h"

#include "net/microbatches.h"
#include "unit/net/net_support.h"

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

enum { ROWS = 24, CHANNELS = 3, HEIGHT = 6, WIDTH = 5, CLASSES = 4, STEPS = 12 };
enum { IMAGE = CHANNELS * HEIGHT * WIDTH };

/* A host's share of the training. */
struct trainer {
    struct host *host;
    int64_t first_row, rows;
    double clip_norm;
    struct world w; /* the graph, and the first values */
    struct stand stand;
    struct sw_microbatches *nets; /* one net, of the own rows */
    void *arena;
    int index[WORLD_PARAMS]; /* of a net's parameter in the table; -1: another one's */
    float *image;
    int32_t *label;
    double first_loss, last_loss; /* over the rows of all hosts */
};

/* Sums of layers: over the rows of all hosts. */
static int sum_rows(void *user, double *values, int count, bool in_rows, struct sw_err *err)
{
    struct trainer *t = user;
    return t->host->fabric
               ? sw_hosts_sum_small(t->host->sums.sum, SW_HOSTS_PASSES, values, count, err)
               : SW_OK;
}

/* ---- Setup ---- */

static int make_nets(struct trainer *t, struct sw_err *err)
{
    const int64_t dim[4] = {ROWS, CHANNELS, HEIGHT, WIDTH};
    const struct sw_net_field fields[2] = {
        {.name = "image", .desc = sw_desc_plain(SW_F32, 4, dim)},
        {.name = "label", .desc = sw_desc_plain(SW_I32, 1, dim)}};
    const struct sw_net_args net = {.recipe = t->w.recipe,
                                    .stream = t->w.f.stream,
                                    .seed = 3,
                                    .training = true,
                                    .batch_rows = ROWS,
                                    .fields = fields,
                                    .field_count = 2,
                                    .source = "test",
                                    .sharing = t->w.net};
    const struct sw_microbatches_args args = {
        .net = &net, .rows = &t->rows, .leaves = 1, .count = 1, .threads = 1};
    int rc = sw_microbatches_new(&args, &t->nets, err);
    if (rc == SW_OK)
        sw_microbatches_set_sum(t->nets, sum_rows, t);
    return rc;
}

/* The table of all parameters that have a gradient of their own. */
static int make_table(struct trainer *t, struct sw_err *err)
{
    struct stand *s = &t->stand;
    s->common.lr = 0.05;
    s->updater_conf = conf_with(&sgd()->base, "momentum", 0.9);
    s->schedule_conf = conf_with(fixed_schedule(), NULL, 0);
    s->dev = t->w.f.dev;
    const struct sw_table_args args = {.device = s->dev,
                                       .updater = sgd(),
                                       .updater_conf = s->updater_conf,
                                       .common = &s->common,
                                       .schedule = fixed_schedule(),
                                       .schedule_conf = s->schedule_conf,
                                       .horizon_steps = STEPS,
                                       .slice_elements = 200,
                                       .workers = 1,
                                       .servers = 2,
                                       .clip_norm = t->clip_norm,
                                       .outer = outer_of(t->host)};
    int rc = sw_table_new(&args, &s->table, err);
    for (int p = 0; p < sw_net_param_count(t->w.net) && rc == SW_OK; p++) {
        const struct sw_param_spec spec = {.name = sw_net_param(t->w.net, p)->name,
                                           .layout = world_layer_param(&t->w, p)->layout,
                                           .owner = -1,
                                           .init = {.init = SW_INIT_CONSTANT},
                                           .lr_mult = 1,
                                           .decay_mult = 1};
        t->index[p] = -1;
        if (sw_net_param(t->w.net, p)->root < 0)
            rc = sw_table_add(s->table, &spec, &t->index[p], err);
    }
    if (rc == SW_OK)
        rc = sw_table_freeze(s->table, err);
    if (rc == SW_OK)
        rc = sw_table_allocate(s->table, err);
    return rc;
}

/* The net reads values, and writes gradients, where the table has them. */
static void bind_table(struct trainer *t)
{
    const struct sw_net *net = sw_microbatches_net(t->nets, 0);
    size_t bytes = sw_microbatches_arena_bytes(t->nets) / 4096 * 4096 + 4096;
    t->arena = aligned_alloc(4096, bytes);
    assert_non_null(t->arena);
    poison(t->arena, bytes);
    sw_microbatches_bind(t->nets, t->arena);
    for (int p = 0; p < sw_net_param_count(net); p++) {
        int root = sw_net_param(net, p)->root, index = t->index[root < 0 ? p : root];
        const struct sw_param *param = sw_table_param(t->stand.table, index);
        if (root < 0)
            memcpy(param->value, t->w.value[p], sw_desc_bytes(&param->layout));
        sw_microbatches_bind_param(t->nets, p, param->value, param->gradient);
    }
    for (int k = 0; k < sw_net_buffer_count(net); k++)
        sw_net_bind_buffer(sw_microbatches_net(t->nets, 0), k, t->w.kept[k], NULL);
}

static void trainer_begin(struct trainer *t, struct host *h, int64_t first_row, int64_t rows)
{
    const struct plan_of_world plan = {
        .rows = ROWS, .channels = CHANNELS, .height = HEIGHT, .width = WIDTH, .classes = CLASSES};
    t->host = h;
    t->first_row = first_row;
    t->rows = rows;
    t->w = world_new(text, &plan);
    t->image = get_floats(rows * IMAGE);
    t->label = get_bytes((size_t)rows * sizeof *t->label);
    h->own = t;
}

static void trainer_end(struct trainer *t)
{
    sw_microbatches_free(t->nets);
    sw_table_free(t->stand.table);
    free(t->stand.updater_conf);
    free(t->stand.schedule_conf);
    free(t->arena);
    free(t->image);
    free(t->label);
    world_free(&t->w);
}

/* ---- Steps ---- */

/* The host's rows of the batch of a step; each class has a mean of its own. */
static void draw_rows(struct trainer *t, uint64_t step)
{
    for (int64_t r = 0; r < t->rows; r++) {
        struct rng rng = rng_of(step * 1000 + (uint64_t)(t->first_row + r));
        t->label[r] = (int32_t)rng_int(&rng, 0, CLASSES - 1);
        for (int i = 0; i < IMAGE; i++)
            t->image[r * IMAGE + i] =
                rng_real(&rng, -1, 1) + (i % CLASSES == t->label[r] ? 0.7f : 0);
    }
}

static int forward(struct trainer *t, uint64_t step, struct sw_err *err)
{
    const struct sw_net *net = sw_microbatches_net(t->nets, 0);
    const struct sw_step now = {.step = (int64_t)step - 1,
                                .first_row = t->first_row,
                                .valid_rows = t->rows,
                                .backward_scale = 1.0f / ROWS};
    int rc = sw_microbatches_set_field(t->nets, "image", t->image, err);
    if (rc == SW_OK)
        rc = sw_microbatches_set_field(t->nets, "label", t->label, err);
    if (rc == SW_OK)
        rc = sw_microbatches_set_step(t->nets, &now, err);
    for (int i = 0; i < sw_net_layer_count(net) && rc == SW_OK; i++)
        rc = sw_microbatches_forward(t->nets, i, err);
    return rc == SW_OK ? sw_microbatches_fetch(t->nets, err) : rc;
}

/* Hands over the gradients of each layer as soon as they are complete, and runs servers between
 * layers, while sums of layers above are under way. */
static int backward(struct trainer *t, uint64_t step, struct sw_err *err)
{
    const struct sw_net *net = sw_microbatches_net(t->nets, 0);
    int rc = SW_OK;
    for (int i = sw_net_layer_count(net) - 1; i >= 0 && rc == SW_OK; i--) {
        if (sw_net_has_backward(net, i))
            rc = sw_microbatches_backward(t->nets, i, err);
        for (int p = 0; p < sw_net_param_count(net) && rc == SW_OK; p++)
            if (sw_net_param(net, p)->layer == i && t->index[p] >= 0)
                rc = sw_table_update(t->stand.table, 0, t->index[p], step, err);
        if (rc == SW_OK)
            rc = pump(&t->stand, err);
    }
    return rc;
}

static int train_step(struct trainer *t, uint64_t step, struct sw_err *err)
{
    draw_rows(t, step);
    int rc = forward(t, step, err);
    if (rc != SW_OK)
        return rc;
    double loss = sw_net_pairs(sw_microbatches_net(t->nets, 0))[0].sum / ROWS;
    rc = sum_rows(t, &loss, 1, true, err);
    t->first_loss = step == 1 ? loss : t->first_loss;
    t->last_loss = loss;
    if (rc == SW_OK)
        rc = backward(t, step, err);
    for (int p = 0; p < sw_table_count(t->stand.table) && rc == SW_OK; p++)
        rc = serve_until(t->host, &t->stand, p, step, err);
    return rc;
}

static int train(struct host *h, struct sw_err *err)
{
    struct trainer *t = h->own;
    int rc = make_nets(t, err);
    if (rc == SW_OK)
        rc = make_table(t, err);
    if (rc != SW_OK)
        return rc;
    bind_table(t);
    rc = connect_table(h, t->stand.table, 0, err);
    for (uint64_t step = 1; step <= STEPS && rc == SW_OK; step++)
        rc = train_step(t, step, err);
    return rc;
}

/* ---- Cases ---- */

/* Trains on hosts with uneven numbers of rows. */
static void train_on(struct cluster *c, struct trainer t[MOST_HOSTS], int hosts, uint64_t seed,
                     double clip_norm)
{
    const struct sw_loop_conf conf = {.hosts = hosts, .seed = seed, .window = 1 + (int)(seed % 4)};
    cluster_begin(c, hosts, &conf, train);
    int64_t first = 0;
    for (int i = 0; i < hosts; i++) {
        int64_t rows = i == hosts - 1 ? ROWS - first : ROWS / hosts - 1 + i % 2;
        t[i] = (struct trainer){.clip_norm = clip_norm};
        trainer_begin(&t[i], &c->host[i], first, rows);
        first += rows;
    }
    cluster_run(c);
    assert_all_ok(c);
}

static void end_training(struct cluster *c, struct trainer t[MOST_HOSTS])
{
    for (int i = 0; i < c->hosts; i++)
        trainer_end(&t[i]);
    cluster_end(c);
}

/* The largest difference of a parameter, relative to its largest value. */
static double difference(const struct trainer *a, const struct trainer *b)
{
    double most = 0;
    for (int p = 0; p < sw_table_count(a->stand.table); p++) {
        float *x = plain_of_table(&a->stand, p, -1), *y = plain_of_table(&b->stand, p, -1);
        double off = 0, size = 0;
        for (int64_t i = 0; i < sw_desc_count(&sw_table_param(a->stand.table, p)->layout); i++) {
            off = fmax(off, fabs((double)x[i] - (double)y[i]));
            size = fmax(size, fabs((double)y[i]));
        }
        most = fmax(most, off / size);
        free(x);
        free(y);
    }
    return most;
}

static bool same_bits(const struct trainer *a, const struct trainer *b)
{
    for (int p = 0; p < sw_table_count(a->stand.table); p++)
        for (int slot = -1; slot < sw_table_slots(a->stand.table); slot++) {
            float *x = plain_of_table(&a->stand, p, slot), *y = plain_of_table(&b->stand, p, slot);
            size_t n = (size_t)sw_desc_count(&sw_table_param(a->stand.table, p)->layout);
            bool same = memcmp(x, y, n * sizeof *x) == 0;
            free(x);
            free(y);
            if (!same)
                return false;
        }
    return memcmp(&a->last_loss, &b->last_loss, sizeof a->last_loss) == 0;
}

static void check_training(double clip_norm)
{
    static struct trainer one[MOST_HOSTS], many[MOST_HOSTS], again[MOST_HOSTS];
    struct cluster single, c, d;
    train_on(&single, one, 1, 0, clip_norm);
    assert_true(one[0].last_loss < 0.9 * one[0].first_loss);
    for (int hosts = 2; hosts <= MOST_HOSTS; hosts++) {
        train_on(&c, many, hosts, 0, clip_norm);
        train_on(&d, again, hosts, (uint64_t)hosts, clip_norm);
        for (int i = 0; i < hosts; i++) {
            double off = difference(&many[i], &one[0]);
            if (!(off <= 1e-4))
                print_error("%d hosts: %g\n", hosts, off);
            assert_true(off <= 1e-4);
            assert_true(fabs(many[i].last_loss - one[0].last_loss) < 1e-4);
            assert_true(same_bits(&many[i], &many[0]));
            assert_true(same_bits(&again[i], &many[0]));
        }
        end_training(&c, many);
        end_training(&d, again);
    }
    end_training(&single, one);
}

static void hosts_train_as_one_machine(void **state)
{
    check_training(0);
}

static void hosts_clip_the_norm_of_all_gradients(void **state)
{
    check_training(0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_train_as_one_machine),
        cmocka_unit_test(hosts_clip_the_norm_of_all_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
