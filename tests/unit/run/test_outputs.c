/* ctest-labels: threads
 * ctest-timeout: 120
 * Output layers write every sample of an evaluation once, in data order, with any workers and
 * devices; a file exists completely or not at all. */
#include "workers_support.h"

#include "data/shard.h"
#include "tensor/npy.h"

enum { RECORDS = 53, CLASSES = 4 };

static const char outputs_recipe[] =
    "[job]\nsteps = 4\nbatch = 25\neval_batch = 10\neval_every = 2\n" DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv]\ntype = convolution\nsrc = image\noutputs = 16\nkernel = 3\n"
    "[layer act]\ntype = activation\nsrc = conv\nfunction = tanh\n"
    "[layer fc]\ntype = inner_product\nsrc = act\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n"
    "[layer order]\ntype = argsort\nsrc = fc\ntop_k = 4\n"
    "[layer text]\ntype = csv_output\nsrc = label, fc, order\npath = rows.csv\n"
    "names = label, score, place\n"
    "[layer array]\ntype = npy_output\nsrc = conv\npath = conv.npy\n"
    "[layer records]\ntype = record_output\nsrc = image, label\npath = rows.shard\n"
    "fields = image, label\n";

#define outputs(...) train(.recipe = outputs_recipe, .oversubscribe = true, __VA_ARGS__)

struct row {
    int label, place[CLASSES];
    double score[CLASSES];
};

/* The lines of a run's rows.csv. */
static void read_rows(const char *run, struct row rows[RECORDS])
{
    char line[512];
    FILE *f = fopen(in_home("%s/rows.csv", run), "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line,
                        "label,score_0,score_1,score_2,score_3,place_0,place_1,place_2,place_3\n");
    for (int i = 0; i < RECORDS; i++) {
        struct row *r = &rows[i];
        assert_non_null(fgets(line, sizeof line, f));
        assert_int_equal(sscanf(line, "%d,%lf,%lf,%lf,%lf,%d,%d,%d,%d", &r->label, &r->score[0],
                                &r->score[1], &r->score[2], &r->score[3], &r->place[0],
                                &r->place[1], &r->place[2], &r->place[3]),
                         9);
    }
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
}

static void check_order(const struct row *r)
{
    for (int k = 0; k + 1 < CLASSES; k++)
        assert_true(r->score[r->place[k]] >= r->score[r->place[k + 1]]);
}

/* The records of a run's shard are those of another's: pictures and labels are data. */
static void assert_same_shards(const char *a, const char *b)
{
    struct sw_shard s, t;
    struct sw_err err;
    assert_int_equal(sw_shard_open(&s, in_home("%s/rows.shard", a), 0, &err), SW_OK);
    assert_int_equal(sw_shard_open(&t, in_home("%s/rows.shard", b), 0, &err), SW_OK);
    assert_int_equal(s.records, RECORDS);
    assert_int_equal(t.records, RECORDS);
    assert_int_equal(s.classes, CLASSES);
    for (int64_t i = 0; i < RECORDS; i++)
        for (int f = 0; f < 2; f++) {
            struct sw_shard_value x, y;
            assert_int_equal(sw_shard_read(&s, i, f, &x, &err), SW_OK);
            assert_int_equal(sw_shard_read(&t, i, f, &y, &err), SW_OK);
            assert_int_equal(x.bytes, y.bytes);
            assert_memory_equal(x.data, y.data, x.bytes);
        }
    sw_shard_close(&s);
    sw_shard_close(&t);
}

static int label_in_shard(const char *run, int64_t record)
{
    struct sw_shard s;
    struct sw_shard_value v;
    struct sw_err err;
    assert_int_equal(sw_shard_open(&s, in_home("%s/rows.shard", run), 0, &err), SW_OK);
    assert_int_equal(sw_shard_read(&s, record, 1, &v, &err), SW_OK);
    int label = *(const int32_t *)v.data;
    sw_shard_close(&s);
    return label;
}

static float *read_array(const char *run)
{
    struct sw_npy_file f;
    struct sw_err err;
    size_t count = (size_t)RECORDS * 16 * 12 * 12;
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    assert_int_equal(sw_npy_open(&f, in_home("%s/conv.npy", run), &err), SW_OK);
    assert_int_equal(f.header.ndim, 4);
    assert_int_equal(f.header.shape[0], RECORDS);
    assert_int_equal(f.header.shape[1], 16);
    assert_int_equal(f.header.shape[3], 12);
    assert_int_equal(sw_npy_read_rows(&f, 0, RECORDS, SW_F32, values, &err), SW_OK);
    sw_npy_close(&f);
    return values;
}

static void assert_same_rows(const char *a, const char *b)
{
    static struct row x[RECORDS], y[RECORDS];
    read_rows(a, x);
    read_rows(b, y);
    for (int i = 0; i < RECORDS; i++) {
        assert_int_equal(x[i].label, y[i].label);
        for (int k = 0; k < CLASSES; k++)
            assert_true(fabs(x[i].score[k] - y[i].score[k]) < 1e-4);
        check_order(&y[i]);
    }
    float *u = read_array(a), *v = read_array(b);
    for (int i = 0; i < RECORDS * 16 * 12 * 12; i++)
        assert_true(fabsf(u[i] - v[i]) < 1e-4f);
    free(u);
    free(v);
    assert_same_shards(a, b);
}

static void every_sample_is_written_once_in_order(void **state)
{
    static struct row rows[RECORDS];
    int differing = 0;
    outputs(.name = "one");
    read_rows("one", rows);
    for (int i = 0; i < RECORDS; i++) {
        check_order(&rows[i]);
        assert_int_equal(rows[i].label, label_in_shard("one", i));
        differing += i > 0 && rows[i].score[0] != rows[i - 1].score[0];
    }
    assert_true(differing > RECORDS / 2);
    assert_int_equal(count_files("one", "tmp-"), 0);
}

static void workers_and_devices_make_no_difference(void **state)
{
    outputs(.name = "alone");
    outputs(.name = "two", .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    outputs(.name = "three",
            .sets = {SANDBLASTER, "cluster.workers_per_group=3", "job.partition=1"});
    outputs(.name = "sim", .device = "sim:gpus=2,mem=64MiB",
            .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    assert_same_rows("alone", "two");
    assert_same_rows("alone", "three");
    assert_same_rows("alone", "sim");
}

static void a_file_that_cannot_be_written_names_the_layer(void **state)
{
    struct trial t = {.recipe = outputs_recipe, .name = "bad"};
    t.sets[0] = "layer.text.path=/nowhere/rows.csv";
    assert_int_not_equal(trial_go(&t), SW_OK);
    assert_non_null(strstr(t.err.text, "layer text"));
    assert_non_null(strstr(t.err.text, "/nowhere/rows.csv"));
    assert_false(exists(in_home("bad/conv.npy")));
    assert_int_equal(count_files("bad", "tmp-"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_written_once_in_order),
        cmocka_unit_test(workers_and_devices_make_no_difference),
        cmocka_unit_test(a_file_that_cannot_be_written_names_the_layer),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
