/* The sum of the best primitive times of oneDNN 2 for a net: a bound for any program that computes
 * layer by layer with this library, since here every primitive runs alone in its preferred layouts,
 * with nothing between two of them.
 *
 *     gcc -O2 -fopenmp primitives.c -o primitives -ldnnl      OMP_NUM_THREADS=2 ./primitives <LIST
 *
 * A line of LIST is `COUNT OPERATION NUMBERS...`:
 *
 *     conv  N C H W M OH OW KH KW SH SW PH PW DH DW G BIAS RELU BACKDATA
 *     ip    N K M BIAS RELU BACKDATA
 *     max|avg|avgpad  N C H W OH OW KH KW SH SW PH PW BACK
 *     lrn   N C H W SIZE BACK
 *     bn    N C H W RELU BACK
 *     relu  N C H W FORWARD BACK
 *     sum   N C H W SOURCES
 *     concat  N H W C1 C2 ...
 *     gemm  M N K TRANSPOSED_A TRANSPOSED_B
 *
 * Bottom and right padding follow from the output's size. A relu that is fused costs nothing in
 * forward; its backward pass is a `relu` line with FORWARD 0. Prints `MS OPERATION PASS IMPL` for
 * each pass (milliseconds of COUNT times) and the sum last. */
#include <dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NUMBERS = 64, ARGS = 8, LEAST_RUNS = 5, MOST_RUNS = 200 };

static const double enough_s = 0.15; /* measured time per primitive */

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static double total_ms;

static void check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "primitives: %s: oneDNN status %d\n", what, (int)status);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Memory ---- */

static dnnl_memory_desc_t any(int ndims, const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t d;
    check(dnnl_memory_desc_init_by_tag(&d, ndims, dims, dnnl_f32, dnnl_format_tag_any), "layout");
    return d;
}

static dnnl_memory_desc_t vector(dnnl_dim_t n)
{
    dnnl_memory_desc_t d;
    check(dnnl_memory_desc_init_by_tag(&d, 1, &n, dnnl_f32, dnnl_a), "layout");
    return d;
}

/* The layout of activations for layers without a preferred one. */
static dnnl_memory_desc_t blocked(const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t d;
    check(dnnl_memory_desc_init_by_tag(&d, 4, dims, dnnl_f32, dnnl_nChw16c), "layout");
    return d;
}

static dnnl_memory_t memory(const dnnl_memory_desc_t *d)
{
    size_t bytes = dnnl_memory_desc_get_size(d);
    float *data = aligned_alloc(2 << 20, (bytes + (2 << 20)) / (2 << 20) * (2 << 20));
    dnnl_memory_t m;
    for (size_t i = 0; data && i < bytes / sizeof(float); i++)
        data[i] = (float)((i * 2654435761u >> 8) % 1000) / 1000.0f - 0.4f;
    check(data ? dnnl_success : dnnl_out_of_memory, "memory");
    check(dnnl_memory_create(&m, d, engine, data), "memory");
    return m;
}

static void release(dnnl_memory_t m)
{
    void *data;
    check(dnnl_memory_get_data_handle(m, &data), "memory");
    dnnl_memory_destroy(m);
    free(data);
}

/* ---- Running one primitive ---- */

struct use {
    int arg;
    dnnl_query_t query; /* the query for its layout */
    int index;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median milliseconds of a primitive with its own memory. */
static double time_of(dnnl_primitive_desc_t pd, const struct use *use, int count)
{
    dnnl_primitive_t p;
    dnnl_exec_arg_t args[NUMBERS];
    double times[MOST_RUNS], begin;
    int runs = 0;
    check(dnnl_primitive_create(&p, pd), "primitive");
    for (int i = 0; i < count; i++) {
        const dnnl_memory_desc_t *d = dnnl_primitive_desc_query_md(pd, use[i].query, use[i].index);
        args[i] = (dnnl_exec_arg_t){.arg = use[i].arg, .memory = memory(d)};
    }
    check(dnnl_primitive_execute(p, stream, count, args), "warm-up");
    begin = now_s();
    while (runs < MOST_RUNS && (runs < LEAST_RUNS || now_s() - begin < enough_s)) {
        double t = now_s();
        check(dnnl_primitive_execute(p, stream, count, args), "execute");
        check(dnnl_stream_wait(stream), "wait");
        times[runs++] = 1e3 * (now_s() - t);
    }
    for (int i = 0; i < count; i++)
        release(args[i].memory);
    dnnl_primitive_destroy(p);
    qsort(times, (size_t)runs, sizeof *times, compare);
    return times[runs / 2];
}

struct best {
    double ms;
    char impl[80];
};

/* Times the primitive, updates *best if it is faster, and destroys its descriptor. */
static void compete(struct best *best, dnnl_primitive_desc_t pd, const struct use *use, int count)
{
    double ms = time_of(pd, use, count);
    const char *impl;
    if (best->ms == 0 || ms < best->ms) {
        best->ms = ms;
        check(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl), "name");
        snprintf(best->impl, sizeof best->impl, "%s", impl);
    }
    dnnl_primitive_desc_destroy(pd);
}

static void report(const struct best *best, double times, const char *op, const char *pass)
{
    total_ms += times * best->ms;
    printf("%.4f %s %s %s\n", times * best->ms, op, pass, best->impl);
}

static dnnl_primitive_attr_t with_relu(bool relu)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    check(dnnl_primitive_attr_create(&attr), "attributes");
    if (relu) {
        check(dnnl_post_ops_create(&ops), "post-ops");
        check(dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0), "post-ops");
        check(dnnl_primitive_attr_set_post_ops(attr, ops), "post-ops");
        dnnl_post_ops_destroy(ops);
    }
    return attr;
}

static dnnl_primitive_desc_t describe(const void *desc, bool relu, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_attr_t attr = with_relu(relu);
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_primitive_desc_create(&pd, desc, attr, engine, hint) != dnnl_success)
        pd = NULL;
    dnnl_primitive_attr_destroy(attr);
    return pd;
}

#define USE(arg, query, index)                                                                     \
    {                                                                                              \
        DNNL_ARG_##arg, dnnl_query_##query##_md, index                                             \
    }

/* ---- Operations ---- */

static const struct use forward_uses[] = {USE(SRC, src, 0), USE(WEIGHTS, weights, 0),
                                          USE(DST, dst, 0), USE(BIAS, weights, 1)};
static const struct use data_uses[] = {USE(DIFF_DST, diff_dst, 0), USE(WEIGHTS, weights, 0),
                                       USE(DIFF_SRC, diff_src, 0)};
static const struct use weight_uses[] = {USE(SRC, src, 0), USE(DIFF_DST, diff_dst, 0),
                                         USE(DIFF_WEIGHTS, diff_weights, 0),
                                         USE(DIFF_BIAS, diff_weights, 1)};

static void conv(double times, const dnnl_dim_t *v)
{
    dnnl_dim_t n = v[0], c = v[1], m = v[4], g = v[15];
    dnnl_dim_t src_dims[] = {n, c, v[2], v[3]}, dst_dims[] = {n, m, v[5], v[6]};
    dnnl_dim_t grouped[] = {g, m / g, c / g, v[7], v[8]}, whole[] = {m, c, v[7], v[8]};
    dnnl_dim_t strides[] = {v[9], v[10]}, left[] = {v[11], v[12]};
    dnnl_dim_t dilates[] = {v[13] - 1, v[14] - 1}, right[2];
    for (int i = 0; i < 2; i++)
        right[i] =
            (v[5 + i] - 1) * v[9 + i] + v[13 + i] * (v[7 + i] - 1) + 1 - v[11 + i] - v[2 + i];
    dnnl_memory_desc_t src = any(4, src_dims), dst = any(4, dst_dims), bias = vector(m);
    dnnl_memory_desc_t weights = g > 1 ? any(5, grouped) : any(4, whole);
    const dnnl_alg_kind_t algs[] = {dnnl_convolution_direct, dnnl_convolution_auto};
    struct best fwd = {0}, bwd_d = {0}, bwd_w = {0};
    bool with_bias = v[16], relu = v[17], back_data = v[18];
    for (int a = 0; a < 2; a++) {
        dnnl_convolution_desc_t d;
        dnnl_primitive_desc_t hint, pd;
        check(dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, algs[a], &src,
                                                         &weights, with_bias ? &bias : NULL, &dst,
                                                         strides, dilates, left, right),
              "convolution");
        hint = describe(&d, false, NULL);
        if (!hint)
            continue;
        pd = describe(&d, relu, NULL);
        if (pd)
            compete(&fwd, pd, forward_uses, with_bias ? 4 : 3);
        check(dnnl_dilated_convolution_backward_data_desc_init(&d, algs[a], &src, &weights, &dst,
                                                               strides, dilates, left, right),
              "convolution");
        if (back_data && (pd = describe(&d, false, hint)))
            compete(&bwd_d, pd, data_uses, 3);
        check(dnnl_dilated_convolution_backward_weights_desc_init(&d, algs[a], &src, &weights,
                                                                  with_bias ? &bias : NULL, &dst,
                                                                  strides, dilates, left, right),
              "convolution");
        if ((pd = describe(&d, false, hint)))
            compete(&bwd_w, pd, weight_uses, with_bias ? 4 : 3);
        dnnl_primitive_desc_destroy(hint);
    }
    report(&fwd, times, "conv", "forward");
    report(&bwd_w, times, "conv", "backward-weights");
    if (back_data)
        report(&bwd_d, times, "conv", "backward-data");
}

static void ip(double times, const dnnl_dim_t *v)
{
    dnnl_dim_t src_dims[] = {v[0], v[1]}, weight_dims[] = {v[2], v[1]}, dst_dims[] = {v[0], v[2]};
    dnnl_memory_desc_t src = any(2, src_dims), weights = any(2, weight_dims);
    dnnl_memory_desc_t dst = any(2, dst_dims), bias = vector(v[2]);
    dnnl_inner_product_desc_t d;
    struct best fwd = {0}, bwd_d = {0}, bwd_w = {0};
    check(dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, &src, &weights,
                                               v[3] ? &bias : NULL, &dst),
          "inner product");
    dnnl_primitive_desc_t hint = describe(&d, false, NULL);
    compete(&fwd, describe(&d, v[4], NULL), forward_uses, v[3] ? 4 : 3);
    check(dnnl_inner_product_backward_weights_desc_init(&d, &src, &weights, v[3] ? &bias : NULL,
                                                        &dst),
          "inner product");
    compete(&bwd_w, describe(&d, false, hint), weight_uses, v[3] ? 4 : 3);
    check(dnnl_inner_product_backward_data_desc_init(&d, &src, &weights, &dst), "inner product");
    if (v[5])
        compete(&bwd_d, describe(&d, false, hint), data_uses, 3);
    dnnl_primitive_desc_destroy(hint);
    report(&fwd, times, "ip", "forward");
    report(&bwd_w, times, "ip", "backward-weights");
    if (v[5])
        report(&bwd_d, times, "ip", "backward-data");
}

static void pool(double times, const dnnl_dim_t *v, dnnl_alg_kind_t alg)
{
    dnnl_dim_t src_dims[] = {v[0], v[1], v[2], v[3]}, dst_dims[] = {v[0], v[1], v[4], v[5]};
    dnnl_dim_t kernel[] = {v[6], v[7]}, strides[] = {v[8], v[9]}, left[] = {v[10], v[11]};
    dnnl_dim_t right[2];
    for (int i = 0; i < 2; i++)
        right[i] = (dst_dims[2 + i] - 1) * strides[i] + kernel[i] - left[i] - src_dims[2 + i];
    dnnl_memory_desc_t src = blocked(src_dims), dst = blocked(dst_dims);
    dnnl_pooling_desc_t d;
    struct best fwd = {0}, bwd = {0};
    const struct use fwd_uses[] = {USE(SRC, src, 0), USE(DST, dst, 0),
                                   USE(WORKSPACE, workspace, 0)};
    const struct use bwd_uses[] = {USE(DIFF_DST, diff_dst, 0), USE(DIFF_SRC, diff_src, 0),
                                   USE(WORKSPACE, workspace, 0)};
    int count = alg == dnnl_pooling_max ? 3 : 2;
    check(dnnl_pooling_forward_desc_init(&d, dnnl_forward_training, alg, &src, &dst, strides,
                                         kernel, left, right),
          "pooling");
    dnnl_primitive_desc_t hint = describe(&d, false, NULL);
    compete(&fwd, describe(&d, false, NULL), fwd_uses, count);
    check(dnnl_pooling_backward_desc_init(&d, alg, &src, &dst, strides, kernel, left, right),
          "pooling");
    if (v[12])
        compete(&bwd, describe(&d, false, hint), bwd_uses, count);
    dnnl_primitive_desc_destroy(hint);
    report(&fwd, times, "pool", "forward");
    if (v[12])
        report(&bwd, times, "pool", "backward");
}

static void lrn(double times, const dnnl_dim_t *v)
{
    dnnl_memory_desc_t src = blocked(v);
    dnnl_lrn_desc_t d;
    struct best fwd = {0}, bwd = {0};
    const struct use fwd_uses[] = {USE(SRC, src, 0), USE(DST, dst, 0),
                                   USE(WORKSPACE, workspace, 0)};
    const struct use bwd_uses[] = {USE(SRC, src, 0), USE(DIFF_DST, diff_dst, 0),
                                   USE(DIFF_SRC, diff_src, 0), USE(WORKSPACE, workspace, 0)};
    check(dnnl_lrn_forward_desc_init(&d, dnnl_forward_training, dnnl_lrn_across_channels, &src,
                                     v[4], 1e-4f, 0.75f, 1),
          "lrn");
    dnnl_primitive_desc_t hint = describe(&d, false, NULL);
    compete(&fwd, describe(&d, false, NULL), fwd_uses, 3);
    check(dnnl_lrn_backward_desc_init(&d, dnnl_lrn_across_channels, &src, &src, v[4], 1e-4f, 0.75f,
                                      1),
          "lrn");
    if (v[5])
        compete(&bwd, describe(&d, false, hint), bwd_uses, 4);
    dnnl_primitive_desc_destroy(hint);
    report(&fwd, times, "lrn", "forward");
    if (v[5])
        report(&bwd, times, "lrn", "backward");
}

static void batch_norm(double times, const dnnl_dim_t *v)
{
    dnnl_memory_desc_t src = blocked(v);
    dnnl_batch_normalization_desc_t d;
    unsigned flags = dnnl_use_scaleshift | (v[4] ? dnnl_fuse_norm_relu : 0);
    struct best fwd = {0}, bwd = {0};
    const struct use fwd_uses[] = {USE(SRC, src, 0),
                                   USE(DST, dst, 0),
                                   USE(MEAN, dst, 1),
                                   USE(VARIANCE, dst, 2),
                                   USE(SCALE_SHIFT, weights, 0),
                                   USE(WORKSPACE, workspace, 0)};
    const struct use bwd_uses[] = {USE(SRC, src, 0),
                                   USE(DIFF_DST, diff_dst, 0),
                                   USE(DIFF_SRC, diff_src, 0),
                                   USE(MEAN, src, 1),
                                   USE(VARIANCE, src, 2),
                                   USE(SCALE_SHIFT, weights, 0),
                                   USE(DIFF_SCALE_SHIFT, diff_weights, 0),
                                   USE(WORKSPACE, workspace, 0)};
    check(dnnl_batch_normalization_forward_desc_init(&d, dnnl_forward_training, &src, 1e-5f, flags),
          "batch normalisation");
    dnnl_primitive_desc_t hint = describe(&d, false, NULL);
    compete(&fwd, describe(&d, false, NULL), fwd_uses, v[4] ? 6 : 5);
    check(dnnl_batch_normalization_backward_desc_init(&d, dnnl_backward, &src, &src, 1e-5f, flags),
          "batch normalisation");
    if (v[5])
        compete(&bwd, describe(&d, false, hint), bwd_uses, v[4] ? 8 : 7);
    dnnl_primitive_desc_destroy(hint);
    report(&fwd, times, "bn", "forward");
    if (v[5])
        report(&bwd, times, "bn", "backward");
}

static void relu(double times, const dnnl_dim_t *v)
{
    dnnl_memory_desc_t src = blocked(v);
    dnnl_eltwise_desc_t d;
    struct best fwd = {0}, bwd = {0};
    const struct use fwd_uses[] = {USE(SRC, src, 0), USE(DST, dst, 0)};
    const struct use bwd_uses[] = {USE(DST, dst, 0), USE(DIFF_DST, diff_dst, 0),
                                   USE(DIFF_SRC, diff_src, 0)};
    check(dnnl_eltwise_forward_desc_init(&d, dnnl_forward_training,
                                         dnnl_eltwise_relu_use_dst_for_bwd, &src, 0, 0),
          "relu");
    dnnl_primitive_desc_t hint = describe(&d, false, NULL);
    if (v[4]) {
        compete(&fwd, describe(&d, false, NULL), fwd_uses, 2);
        report(&fwd, times, "relu", "forward");
    }
    check(dnnl_eltwise_backward_desc_init(&d, dnnl_eltwise_relu_use_dst_for_bwd, &src, &src, 0, 0),
          "relu");
    if (v[5]) {
        compete(&bwd, describe(&d, false, hint), bwd_uses, 3);
        report(&bwd, times, "relu", "backward");
    }
    dnnl_primitive_desc_destroy(hint);
}

static void sum(double times, const dnnl_dim_t *v)
{
    dnnl_memory_desc_t src[NUMBERS];
    float scales[NUMBERS];
    struct use uses[NUMBERS] = {USE(DST, dst, 0)};
    dnnl_primitive_desc_t pd;
    struct best fwd = {0};
    int n = (int)v[4];
    for (int i = 0; i < n; i++) {
        src[i] = blocked(v);
        scales[i] = 1;
        uses[i + 1] = (struct use){DNNL_ARG_MULTIPLE_SRC + i, dnnl_query_src_md, i};
    }
    check(dnnl_sum_primitive_desc_create(&pd, NULL, n, scales, src, NULL, engine), "sum");
    compete(&fwd, pd, uses, n + 1);
    report(&fwd, times, "sum", "forward");
}

/* Backward counts like forward: the same bytes in the other direction. */
static void concat(double times, const dnnl_dim_t *v, int sources)
{
    dnnl_memory_desc_t src[NUMBERS];
    struct use uses[NUMBERS] = {USE(DST, dst, 0)};
    dnnl_primitive_desc_t pd;
    struct best fwd = {0};
    for (int i = 0; i < sources; i++) {
        src[i] = blocked((dnnl_dim_t[]){v[0], v[3 + i], v[1], v[2]});
        uses[i + 1] = (struct use){DNNL_ARG_MULTIPLE_SRC + i, dnnl_query_src_md, i};
    }
    check(dnnl_concat_primitive_desc_create(&pd, NULL, sources, 1, src, NULL, engine), "concat");
    compete(&fwd, pd, uses, sources + 1);
    report(&fwd, times, "concat", "forward");
    report(&fwd, times, "concat", "backward");
}

/* ---- GEMMs in the given layouts ---- */

static float *numbers(dnnl_dim_t n)
{
    float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
    check(x ? dnnl_success : dnnl_out_of_memory, "memory");
    for (dnnl_dim_t i = 0; i < n; i++)
        x[i] = (float)(i % 17) * 0.1f;
    return x;
}

static void gemm(double times, const dnnl_dim_t *v)
{
    dnnl_dim_t m = v[0], n = v[1], k = v[2];
    float *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n);
    double ms[MOST_RUNS], begin = now_s();
    int runs = 0;
    while (runs < MOST_RUNS && (runs < LEAST_RUNS || now_s() - begin < enough_s)) {
        double t = now_s();
        check(dnnl_sgemm(v[3] ? 'T' : 'N', v[4] ? 'T' : 'N', m, n, k, 1, a, v[3] ? m : k, b,
                         v[4] ? k : n, 0, c, n),
              "gemm");
        ms[runs++] = 1e3 * (now_s() - t);
    }
    qsort(ms, (size_t)runs, sizeof *ms, compare);
    report(&(struct best){.ms = ms[runs / 2], .impl = "sgemm"}, times, "gemm", "forward");
    free(a);
    free(b);
    free(c);
}

/* ---- The list ---- */

static int numbers_of(char *text, dnnl_dim_t *v)
{
    int n = 0;
    for (char *word = strtok(text, " \n"); word && n < NUMBERS / 2; word = strtok(NULL, " \n"))
        v[n++] = strtoll(word, NULL, 10);
    return n;
}

/* Runs the operation of a line. False: unknown operation, or too few numbers. */
static bool run(double times, const char *op, const dnnl_dim_t *v, int n)
{
    if (!strcmp(op, "conv") && n == 19)
        conv(times, v);
    else if (!strcmp(op, "ip") && n == 6)
        ip(times, v);
    else if (!strcmp(op, "max") && n == 13)
        pool(times, v, dnnl_pooling_max);
    else if (!strcmp(op, "avg") && n == 13)
        pool(times, v, dnnl_pooling_avg_exclude_padding);
    else if (!strcmp(op, "avgpad") && n == 13)
        pool(times, v, dnnl_pooling_avg_include_padding);
    else if (!strcmp(op, "lrn") && n == 6)
        lrn(times, v);
    else if (!strcmp(op, "bn") && n == 6)
        batch_norm(times, v);
    else if (!strcmp(op, "relu") && n == 6)
        relu(times, v);
    else if (!strcmp(op, "sum") && n == 5)
        sum(times, v);
    else if (!strcmp(op, "concat") && n >= 4)
        concat(times, v, n - 3);
    else if (!strcmp(op, "gemm") && n == 5)
        gemm(times, v);
    else
        return false;
    return true;
}

int main(void)
{
    char line[1024], op[32];
    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
    while (fgets(line, sizeof line, stdin)) {
        dnnl_dim_t v[NUMBERS];
        double times;
        int read = 0;
        if (sscanf(line, "%lf %31s%n", &times, op, &read) < 2)
            continue;
        int n = numbers_of(line + read, v);
        if (!run(times, op, v, n)) {
            fprintf(stderr, "primitives: unknown operation %s with %d numbers\n", op, n);
            return 2;
        }
    }
    printf("%.4f total\n", total_ms);
    return 0;
}
