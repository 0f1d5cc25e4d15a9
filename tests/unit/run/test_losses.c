/* ctest-labels: threads
 * ctest-timeout: 120
 * Nets with many losses and metrics: the loss is the weighted sum of them all, several workers (on
 * the CPU and on simulated devices) train and count as one does, layers of one net only, names, and
 * targets that learn nothing from being targets. */
#include "workers_support.h"

enum { STEPS = 12 };

/* Pixels in 0..1, so that they can be targets of every kind; 25 rows divide by neither 2 nor 3. */
#define LOSS_JOB                                                                                   \
    "[job]\nsteps = 12\nbatch = 25\neval_batch = 10\n"                                             \
    "[data train]\nformat = synthetic\nclasses = 4\nrecords = 200\nheight = 12\nwidth = 12\n"      \
    "scale = 0.00390625\nshuffle = yes\n"                                                          \
    "[data test]\nformat = synthetic\nclasses = 4\nrecords = 53\nheight = 12\nwidth = 12\n"        \
    "scale = 0.00390625\n"                                                                         \
    "[updater]\ntype = sgd\nlr = 0.05\nmomentum = 0.9\n"                                           \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"

/* Smooth throughout: sums in another order flip nothing. */
static const char many_recipe[] = LOSS_JOB
    "[layer conv]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nstride = 2\n"
    "[layer act]\ntype = activation\nsrc = conv\nfunction = tanh\n"
    "[layer code]\ntype = inner_product\nsrc = act\noutputs = 16\n"
    "[layer code_act]\ntype = activation\nsrc = code\nfunction = tanh\n"
    "[layer other]\ntype = inner_product\nsrc = act\noutputs = 16\n"
    "[layer third]\ntype = inner_product\nsrc = act\noutputs = 16\n"
    "[layer scores]\ntype = inner_product\nsrc = code_act\noutputs = 4\n"
    "[layer pixels]\ntype = inner_product\nsrc = code_act\noutputs = 432\n"
    "[layer counts]\ntype = inner_product\nsrc = code_act\noutputs = 432\n"
    "[layer student]\ntype = inner_product\nsrc = code_act\noutputs = 4\n"
    "[layer teacher]\ntype = inner_product\nsrc = act\noutputs = 4\n"
    "[layer taught]\ntype = activation\nsrc = teacher\nfunction = sigmoid\n"
    "[layer class]\ntype = softmax_loss\nsrc = scores, label\n"
    "[layer known]\ntype = softmax_loss\nsrc = teacher, label\nignore_label = 3\nweight = 0.5\n"
    "[layer picture]\ntype = sigmoid_cross_entropy\nsrc = pixels, image\nweight = 0.01\n"
    "[layer words]\ntype = poisson_loss\nsrc = counts, image\nweight = 0.01\n"
    "[layer near]\ntype = euclidean_loss\nsrc = code, other\nweight = 0.1\n"
    "[layer apart]\ntype = hinge_loss\nsrc = scores, label\nnorm = l2\nweight = 0.2\n"
    "[layer rank]\ntype = hinge_loss\nsrc = code, other, third\nmethod = ranking\nnorm = l2\n"
    "weight = 0.01\n"
    "[layer soft]\ntype = softmax_loss\nsrc = student, class\nweight = 0.3\n"
    "[layer distil]\ntype = sigmoid_cross_entropy\nsrc = student, taught\nweight = 0.3\n"
    "[layer accuracy]\ntype = accuracy\nsrc = scores, label\n"
    "[layer top2]\ntype = accuracy\nsrc = scores, label\ntop_k = 2\ninclude = eval\n"
    "[layer overall]\ntype = precision_recall\nsrc = scores, label\naverage = micro\n"
    "[layer by_class]\ntype = precision_recall\nsrc = scores, label\ninclude = eval\n"
    "[layer error]\ntype = reconstruction_error\nsrc = picture, image\ninclude = eval\n";

#define many(...) train(.recipe = many_recipe, .oversubscribe = true, __VA_ARGS__)

static double metric(const char *run, const char *split, const char *name, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %d",
               run_id(run), split, name, step);
}

static int names(const char *run, const char *split, const char *name)
{
    return (int)ask("SELECT count(*) FROM series WHERE run_id = %d AND split = '%s' AND name = "
                    "'%s'",
                    run_id(run), split, name);
}

/* ---- The sum ---- */

static const char *const loss_names[] = {
    "softmax_loss.class", "softmax_loss.known",  "sigmoid_cross_entropy.picture",
    "poisson_loss.words", "euclidean_loss.near", "hinge_loss.apart",
    "hinge_loss.rank",    "softmax_loss.soft",   "sigmoid_cross_entropy.distil"};

static double sum_of_losses(const char *run, const char *split, int step)
{
    double sum = 0;
    for (size_t i = 0; i < sizeof loss_names / sizeof *loss_names; i++)
        sum += metric(run, split, loss_names[i], step);
    return sum;
}

static void the_loss_is_the_weighted_sum_of_all_losses(void **state)
{
    many(.name = "sum");
    for (int step = 1; step <= STEPS; step++) {
        double loss = metric("sum", "train", "loss", step);
        assert_true(fabs(loss - sum_of_losses("sum", "train", step)) < 1e-12 * loss);
    }
    double loss = metric("sum", "test", "loss", STEPS);
    assert_true(fabs(loss - sum_of_losses("sum", "test", STEPS)) < 1e-12 * loss);
    /* A weight is a factor of what is stored, too. */
    many(.name = "half", .steps = 1, .sets = {"layer.class.weight=0.5", "layer.near.weight=0"});
    assert_true(fabs(2 * metric("half", "train", "softmax_loss.class", 1) -
                     metric("sum", "train", "softmax_loss.class", 1)) < 1e-12);
    assert_true(metric("half", "train", "euclidean_loss.near", 1) == 0);
    assert_true(metric("sum", "train", "loss", STEPS) < metric("sum", "train", "loss", 1));
}

/* ---- Workers ---- */

static const char *const exact[] = {"accuracy",
                                    "accuracy.top2",
                                    "precision_recall",
                                    "precision_recall.recall",
                                    "precision_recall.by_class",
                                    "precision_recall.by_class.precision"};

/* Losses of training and figures of the evaluation: counts are exact sums. */
static void assert_same_figures(const char *one, const char *name)
{
    for (int step = 1; step <= STEPS; step++) {
        double loss = metric(one, "train", "loss", step);
        assert_true(fabs(metric(name, "train", "loss", step) - loss) < 1e-5 * loss);
    }
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        assert_true(metric(name, "test", exact[i], STEPS) == metric(one, "test", exact[i], STEPS));
    double error = metric(one, "test", "reconstruction_error", STEPS);
    assert_true(error > 0 &&
                fabs(metric(name, "test", "reconstruction_error", STEPS) - error) < 1e-5 * error);
}

/* With any number of workers and batches they are the same. */
static void workers_train_and_count_as_one_does(void **state)
{
    many(.name = "one");
    for (int workers = 2; workers <= 4; workers++) {
        char name[32];
        snprintf(name, sizeof name, "workers-%d", workers);
        many(.name = name, .sets = {workers_set[workers], "job.eval_batch=7"});
        assert_equal_runs("one", name, STEPS);
        assert_same_figures("one", name);
    }
    /* With one label a row and one class said, all overall figures are the accuracy. */
    double accuracy = metric("one", "test", "accuracy", STEPS);
    assert_true(fabs(accuracy * 53 - round(accuracy * 53)) < 1e-9);
    assert_true(metric("one", "test", "precision_recall", STEPS) == accuracy);
    assert_true(metric("one", "test", "precision_recall.precision", STEPS) == accuracy);
}

static void simulated_devices_train_as_the_cpu_does(void **state)
{
    many(.name = "cpu");
    many(.name = "sim", .device = "sim:gpus=2,mem=64MiB", .sets = {workers_set[2]});
    assert_equal_runs("cpu", "sim", STEPS);
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        assert_true(metric("sim", "test", exact[i], STEPS) ==
                    metric("cpu", "test", exact[i], STEPS));
}

/* Whoever has them counts all rows of all, also in a last batch that is not full, and where labels
 * are left out; several groups that share a batch add up what their workers count. */
static void losses_and_metrics_are_on_any_worker(void **state)
{
    static const char *const sets[][6] = {
        {"job.partition=none"},
        {"layer.class.location=1", "layer.known.location=1", "layer.accuracy.location=1",
         "layer.by_class.location=0", "layer.overall.location=1"},
        {"layer.known.location=0", "layer.distil.location=1", "layer.soft.location=1",
         "layer.near.location=1", "layer.rank.location=0", "layer.error.location=1"},
        {"layer.picture.location=1", "layer.words.location=0", "layer.apart.location=1",
         "layer.top2.location=0", "layer.teacher.location=1", "layer.known.location=1"},
        {"cluster.framework=custom", "cluster.worker_groups=2", "layer.known.location=1",
         "layer.class.location=1", "layer.accuracy.location=1"}};
    many(.name = "one");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int sim = 0; sim < 2; sim++) {
            char name[32];
            snprintf(name, sizeof name, "at-%zu-%d", i, sim);
            many(.name = name, .device = sim ? "sim:gpus=4,mem=64MiB" : "cpu",
                 .sets = {workers_set[2], "job.eval_batch=7", sets[i][0], sets[i][1], sets[i][2],
                          sets[i][3], sets[i][4], sets[i][5]});
            assert_equal_runs("one", name, STEPS);
            assert_same_figures("one", name);
        }
}

/* Sources that are split by columns come together before a loss, and a gradient goes back. */
static void losses_read_layers_that_are_split_by_columns(void **state)
{
    many(.name = "rows", .sets = {workers_set[3]});
    many(.name = "columns", .sets = {workers_set[3], "layer.code.partition=1",
                                     "layer.other.partition=1", "layer.teacher.partition=1",
                                     "layer.taught.partition=1", "layer.pixels.partition=1"});
    assert_equal_runs("rows", "columns", STEPS);
}

/* ---- Targets ---- */

/* How much the student's losses weigh changes nothing in whom they take as a target. */
static void targets_get_no_gradient(void **state)
{
    static const char *const both[] = {"teacher.weight", "teacher.bias"};
    static const char recipe[] =
        LOSS_JOB "[layer teacher]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                 "[layer taught]\ntype = activation\nsrc = teacher\nfunction = sigmoid\n"
                 "[layer student]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                 "[layer known]\ntype = softmax_loss\nsrc = teacher, label\n"
                 "[layer distil]\ntype = sigmoid_cross_entropy\nsrc = student, taught\n"
                 "[layer soft]\ntype = softmax_loss\nsrc = student, known\n";
    for (int workers = 1; workers <= 3; workers += 2) {
        const char *set = workers_set[workers], *split = "layer.teacher.partition=1";
        train(.recipe = recipe, .oversubscribe = true, .name = "with",
              .sets = {set, split, "layer.taught.partition=1"});
        train(.recipe = recipe, .oversubscribe = true, .name = "without",
              .sets = {set, split, "layer.taught.partition=1", "layer.distil.weight=0",
                       "layer.soft.weight=0"});
        for (int i = 0; i < 2; i++)
            assert_null(differing_tensor(checkpoint_path("with", STEPS),
                                         checkpoint_path("without", STEPS), both[i]));
        assert_non_null(differing_tensor(checkpoint_path("with", STEPS),
                                         checkpoint_path("without", STEPS), "student.weight"));
    }
}

static void parameters_that_are_only_targets_are_refused(void **state)
{
    static const char recipe[] =
        LOSS_JOB "[layer taught]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                 "[layer student]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                 "[layer soft]\ntype = softmax_loss\nsrc = student, taught\n";
    struct trial t = {.recipe = recipe};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    assert_non_null(strstr(sw_bytes_text(&t.messages), "layer taught: no loss depends on it"));
    assert_non_null(strstr(sw_bytes_text(&t.messages), "targets of a loss get no gradient"));
    trial_close(&t);
}

/* ---- One net only, and names ---- */

static const char few_recipe[] =
    LOSS_JOB "[layer scores]\ntype = inner_product\nsrc = image\noutputs = 4\n"
             "[layer class]\ntype = softmax_loss\nsrc = scores, label\n"
             "[layer apart]\ntype = hinge_loss\nsrc = scores, label\nnorm = l2\ninclude = train\n"
             "[layer accuracy]\ntype = accuracy\nsrc = scores, label\ninclude = eval\n"
             "[layer quality]\ntype = precision_recall\nsrc = scores, label\ninclude = train\n";

static void layers_of_one_net_count_only_there(void **state)
{
    train(.recipe = few_recipe, .name = "few");
    assert_int_equal(names("few", "train", "hinge_loss.apart"), 1);
    assert_int_equal(names("few", "test", "hinge_loss.apart"), 0);
    /* One loss needs no second name. */
    assert_int_equal(names("few", "test", "softmax_loss.class"), 0);
    assert_int_equal(names("few", "train", "accuracy"), 0);
    assert_int_equal(names("few", "train", "precision_recall"), 1);
    assert_int_equal(names("few", "train", "precision_recall.f1"), 1);
    assert_int_equal(names("few", "train", "precision_recall.quality"), 0);
    assert_int_equal(names("few", "test", "precision_recall"), 0);
    assert_true(metric("few", "train", "precision_recall", STEPS) ==
                metric("few", "train", "precision_recall.f1", STEPS));
    train(.recipe = few_recipe, .name = "alone", .sets = {"layer.apart.include=always"});
    assert_true(metric("alone", "test", "softmax_loss.class", STEPS) ==
                metric("few", "test", "loss", STEPS));
    assert_true(metric("alone", "test", "loss", STEPS) > metric("few", "test", "loss", STEPS));
}

/* ---- Labels left out ---- */

/* The mean of an evaluation is over all labels that count, wherever they are. */
static void ignored_labels_do_not_count_in_the_mean(void **state)
{
    static const char recipe[] =
        LOSS_JOB "[layer scores]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                 "[layer known]\ntype = softmax_loss\nsrc = scores, label\nignore_label = 3\n"
                 "[layer known_share]\ntype = accuracy\nsrc = scores, label\nignore_label = 3\n"
                 "[layer share]\ntype = accuracy\nsrc = scores, label\n";
    train(.recipe = recipe, .name = "known");
    train(.recipe = recipe, .name = "known-3", .oversubscribe = true, .sets = {workers_set[3]});
    assert_equal_runs("known", "known-3", STEPS);
    double of_known = metric("known", "test", "accuracy.known_share", STEPS);
    double of_all = metric("known", "test", "accuracy.share", STEPS);
    /* Of 53 records a quarter is of each class; class 3 is never learnt, so all its rows are wrong
     * and what is right is right in both. */
    double known = of_all * 53 / of_known;
    assert_true(of_known > of_all && of_all > 0);
    assert_true(fabs(known - round(known)) < 1e-9 && known > 30 && known < 50);
}

/* ---- What cannot be named ---- */

static void assert_refused(const char *recipe, const char *says)
{
    struct trial t = {.recipe = recipe};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), says))
        fail_msg("%s", sw_bytes_text(&t.messages));
    trial_close(&t);
}

static void duplicate_metric_names_are_refused(void **state)
{
    assert_refused(LOSS_JOB
                   "[layer scores]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                   "[layer class]\ntype = softmax_loss\nsrc = scores, label\n"
                   "[layer all]\ntype = precision_recall\nsrc = scores, label\n"
                   "[layer recall]\ntype = precision_recall\nsrc = scores, label\nclass = 1\n",
                   "layer recall: its value precision_recall.recall has the same name as one of "
                   "layer all");
}

static void too_many_metric_values_are_refused(void **state)
{
    struct sw_bytes text = {0};
    sw_bytes_add(&text, LOSS_JOB "[layer scores]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                                 "[layer class]\ntype = softmax_loss\nsrc = scores, label\n");
    for (int i = 0; i < SW_JOB_METRICS; i++)
        sw_bytes_printf(&text, "[layer a%d]\ntype = accuracy\nsrc = scores, label\n", i);
    assert_refused(sw_bytes_text(&text), "more than 32 values of losses and metrics");
    sw_bytes_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_weighted_sum_of_all_losses),
        cmocka_unit_test(workers_train_and_count_as_one_does),
        cmocka_unit_test(simulated_devices_train_as_the_cpu_does),
        cmocka_unit_test(losses_and_metrics_are_on_any_worker),
        cmocka_unit_test(losses_read_layers_that_are_split_by_columns),
        cmocka_unit_test(targets_get_no_gradient),
        cmocka_unit_test(parameters_that_are_only_targets_are_refused),
        cmocka_unit_test(layers_of_one_net_count_only_there),
        cmocka_unit_test(ignored_labels_do_not_count_in_the_mean),
        cmocka_unit_test(duplicate_metric_names_are_refused),
        cmocka_unit_test(too_many_metric_values_are_refused),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
