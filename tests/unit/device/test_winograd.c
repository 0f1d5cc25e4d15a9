/* Rounding errors of convolutions against sums in double, with Winograd's algorithm and without it,
 * pass by pass; and that a device that avoids the algorithm does not use it. recipes/language.md quotes
 * what this test prints for SW_WINOGRAD_ROWS=32. */
#include "plan_support.h"
#include <string.h>

/* Root mean square of the difference, relative to that of the exact values. */
struct errors {
    double dst, diff_src, diff_weight;
};

struct exact {
    double *dst, *diff_src, *diff_weight;
};

static int64_t rows(void)
{
    const char *given = getenv("SW_WINOGRAD_ROWS");
    return given ? atoi(given) : 16;
}

/* One row of the output and everything that it adds to: 3 x 3 windows, stride 1, padding 1. */
static void add_row(const struct problem *p, const struct tensors *t, struct exact *e, int64_t n,
                    int64_t k, int64_t y)
{
    int64_t channels = p->dim[1], height = p->dim[2], width = p->dim[3];
    int64_t out = ((n * p->conv.outputs + k) * height + y) * width;

    for (int64_t i = 0; i < channels * 9; i++) {
        int64_t c = i / 9, from = y + i / 3 % 3 - 1, left = i % 3 - 1;
        int64_t in = ((n * channels + c) * height + from) * width + left, w = k * channels * 9 + i;
        if (from < 0 || from >= height)
            continue;
        for (int64_t x = left < 0; x < width - (left > 0); x++) {
            e->dst[out + x] += (double)t->src[in + x] * t->weight[w];
            e->diff_src[in + x] += (double)t->diff_dst[out + x] * t->weight[w];
            e->diff_weight[w] += (double)t->diff_dst[out + x] * t->src[in + x];
        }
    }
}

static double error_of(const float *got, const double *want, int64_t n)
{
    double difference = 0, all = 0;

    for (int64_t i = 0; i < n; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        all += want[i] * want[i];
    }
    return sqrt(difference / all);
}

static struct errors measure(const struct problem *p, const struct tensors *t)
{
    struct exact e = {get_doubles(t->dst_count), get_doubles(t->src_count),
                      get_doubles(t->weight_count)};
    int64_t area = p->dim[2] * p->dim[3];

    for (int64_t i = 0; i < t->dst_count; i++)
        e.dst[i] = t->bias[i / area % p->conv.outputs];
    memset(e.diff_src, 0, sizeof(double) * (size_t)t->src_count);
    memset(e.diff_weight, 0, sizeof(double) * (size_t)t->weight_count);
    for (int64_t i = 0; i < p->dim[0] * p->conv.outputs * p->dim[2]; i++)
        add_row(p, t, &e, i / p->dim[2] / p->conv.outputs, i / p->dim[2] % p->conv.outputs,
                i % p->dim[2]);

    struct errors got = {error_of(t->dst, e.dst, t->dst_count),
                         error_of(t->diff_src, e.diff_src, t->src_count),
                         error_of(t->diff_weight, e.diff_weight, t->weight_count)};
    free(e.dst);
    free(e.diff_src);
    free(e.diff_weight);
    return got;
}

static void name_of(const struct problem *p, struct sw_stream *s, char name[64])
{
    const struct sw_plan_passes all = {true, true, true};
    struct sw_plan *plan;
    struct sw_err err;

    ASSERT_OK(make_plan(p, s, all, &plan, &err));
    snprintf(name, 64, "%s", plan->algorithm);
    sw_plan_free(plan);
}

/* Checks one algorithm's errors against a limit and prints them. */
static void check(const struct problem *p, struct fixture *f, bool avoid, double limit)
{
    char name[64];
    f->dev->avoid_winograd = avoid;
    name_of(p, f->stream, name);
    if (avoid)
        assert_null(strstr(name, "wino"));

    struct tensors t = run_problem(p, f->stream, 7);
    struct errors e = measure(p, &t);
    print_message("%s, %s: forward %.1e, backward data %.1e, backward weights %.1e\n", p->name,
                  name, e.dst, e.diff_src, e.diff_weight);
    assert_true(e.dst < limit && e.diff_src < limit && e.diff_weight < limit);
    free_tensors(&t);
}

static void errors_are_small_with_and_without_winograd(void **state)
{
    const struct problem p[] = {
        conv_problem("64 channels of 28x28", rows(), 64, 28, 28, 64, 3, 1, 1, 1),
        conv_problem("192 channels of 13x13", rows(), 192, 13, 13, 384, 3, 1, 1, 1),
        conv_problem("384 channels of 13x13", rows(), 384, 13, 13, 256, 3, 1, 1, 1),
    };
    struct fixture f = open_cpu(false, 1);
    int count = rows() > 16 ? 3 : 1;

    for (int i = 0; i < count; i++) {
        check(&p[i], &f, true, 1e-5);
        check(&p[i], &f, false, 3e-5);
    }
    close_cpu(&f);
}

/* Skipped on a processor where the library never uses the algorithm, as the test above then
 * compares nothing. */
static void avoid_winograd_is_respected(void **state)
{
    struct problem p = conv_problem("VGG", 32, 128, 28, 28, 128, 3, 1, 1, 1);
    struct fixture f = open_cpu(false, 1);
    char name[64];

    name_of(&p, f.stream, name);
    bool uses = strstr(name, "wino") != NULL;
    f.dev->avoid_winograd = true;
    name_of(&p, f.stream, name);
    assert_null(strstr(name, "wino"));
    close_cpu(&f);
    if (!uses) {
        print_message("skipped: here no convolution uses Winograd's algorithm by itself\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_small_with_and_without_winograd),
        cmocka_unit_test(avoid_winograd_is_respected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
