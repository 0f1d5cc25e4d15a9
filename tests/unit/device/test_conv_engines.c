/* ctest-timeout: 600
 * The engines that cuDNN gives to the convolutions of the recipes, on GPUs that are only described:
 * no GPU is needed. The nets are really built, on the CPU, and their convolutions noted on the way.
 * SINGA_ALL_BATCHES = 1 asks for every power of two. */
#define _GNU_SOURCE 1 /* RTLD_NEXT */
#include "../home.h"
#include "base/log.h"
#include "base/os.h"
#include "base/str.h"
#include "device/plan.h"
#include "run/job.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SKIPPED = 77 };

#ifndef SW_HAVE_CUDNN

int main(void)
{
    print_message("skipped: built without cuDNN\n");
    return SKIPPED;
}

#else

#include "device/cuda/conv_engine.h"
#include "device/cuda/conv_layout.h"
#include <cudnn.h>

/* ---- The convolutions of a net ---- */

struct noted {
    char recipe[32];
    struct sw_conv_shape shape;
    int64_t channels, height, width;
    bool pass[SW_TUNE_PASSES];
};

static struct noted noted[512];
static int noted_count;
static const char *recipe_now;

static bool equal(const struct noted *a, const struct noted *b)
{
    return memcmp(&a->shape, &b->shape, sizeof a->shape) == 0 && a->channels == b->channels &&
           a->height == b->height && a->width == b->width;
}

static void note(const struct sw_plan_request *q)
{
    struct noted new;

    memset(&new, 0, sizeof new);
    memcpy(&new.shape, q->shape.conv, sizeof new.shape);
    new.shape.weight_layout = NULL;
    new.channels = q->src->dim[1];
    new.height = q->src->dim[2];
    new.width = q->src->dim[3];
    snprintf(new.recipe, sizeof new.recipe, "%s", recipe_now);

    int i = 0;
    while (i < noted_count && !equal(&noted[i], &new))
        i++;

    assert_true(i < (int)(sizeof noted / sizeof *noted));
    if (i == noted_count)
        noted[noted_count++] = new;
    noted[i].pass[SW_TUNE_FORWARD] = true;
    noted[i].pass[SW_TUNE_DATA] |= q->passes.backward_data;
    noted[i].pass[SW_TUNE_WEIGHTS] |= q->passes.backward_weights;
}

/* Takes the place of the library's function, which it calls. */
int sw_plan_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    sw_plan_maker *original;

    *(void **)&original = dlsym(RTLD_NEXT, "sw_plan_new");
    if (q->kind == SW_PLAN_CONVOLUTION && recipe_now)
        note(q);
    return original(q, out, err);
}

static void note_recipe(const char *name)
{
    const char *const sets[] = {"job.batch=2", "job.eval_batch=2", "cluster.workers_per_group=1"};
    char *path = sw_format("%s/recipes/%s.ini", SW_SOURCE_DIR, name);
    const struct sw_job_options options = {.recipe_path = path,
                                           .sets = sets,
                                           .set_count = 3,
                                           .device = "cpu",
                                           .oversubscribe = true,
                                           .no_probes = true};
    struct sw_log *log = sw_log_new();
    struct sw_bytes messages = {0};
    struct sw_job *job = NULL;
    struct sw_err err = {0};

    recipe_now = name;
    int before = noted_count, rc = sw_job_open(&options, log, &job, &messages, &err);
    recipe_now = NULL;

    if (rc != SW_OK)
        fail_msg("%s: %s %s", name, err.text, sw_bytes_text(&messages));
    print_message("%s: %d convolutions that no other recipe had\n", name, noted_count - before);
    sw_job_close(job);
    sw_bytes_fini(&messages);
    sw_log_free(log);
    sw_free(path);
}

static int note_recipes(void **state)
{
    static const char *const recipes[] = {"lenet",   "cifar10-quick", "cifar10-full", "alexnet-owt",
                                          "alexnet", "vgg16",         "googlenet",    "resnet50"};

    if (home_begin(state) != 0)
        return -1;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        note_recipe(recipes[i]);
    return 0;
}

/* ---- GPUs, by their data sheets ---- */

struct gpu {
    const char *name;
    int version, processors, clock_khz, memory_clock_khz, l2_bytes, blocks, threads, shared_bytes;
    int64_t memory_bytes;
};

static const struct gpu gpus[] = {
    {"NVIDIA H200", 900, 132, 1980000, 3201000, 62914560, 32, 2048, 232448, 150754820096},
    {"NVIDIA GeForce RTX 5090", 1200, 170, 2407000, 14001000, 100663296, 24, 1536, 101376,
     33660207104},
    {"NVIDIA GeForce RTX 4090", 890, 128, 2520000, 10501000, 75497472, 24, 1536, 101376,
     25757220864},
    {"NVIDIA GeForce RTX 2080 Ti", 750, 68, 1545000, 7000000, 5767168, 16, 1024, 65536,
     11811160064},
};

static bool describe(const struct gpu *g, enum sw_precision precision, struct sw_cuda_conv_gpu *out)
{
    char json[1024];

    snprintf(
        json, sizeof json,
        "{\"cudaDeviceId\":0,\"deviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,"
        "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
        "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,"
        "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,"
        "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,"
        "\"memClockRateKHz\":%d,\"l2CacheSize\":%d,\"totalGlobalMem\":%lld,"
        "\"deviceName\":\"%s\"}",
        g->version, g->processors, g->shared_bytes, g->blocks, g->threads, g->clock_khz,
        g->memory_clock_khz, g->l2_bytes, (long long)g->memory_bytes, g->name);

    *out = (struct sw_cuda_conv_gpu){
        .precision = precision, .workspace_bytes = sw_cuda_conv_workspace((size_t)g->memory_bytes)};
    return sw_cuda_conv_gpu_describe(out, json);
}

/* ---- The rules ---- */

struct tally {
    int asked, none, wrong_cores, compiled;
    int fused, unfused;      /* with bias and relu in the graph of the convolution, and without */
    int64_t workspace_bytes; /* the largest */
};

static void complain(const struct sw_cuda_conv_question *q, const struct noted *n, const char *what)
{
    static const char *const passes[] = {"forward", "backward_data", "backward_weights"};

    print_message("%s, %s, %lld rows, %lldx%lldx%lld to %lld, kernel %lld, stride %lld: %s: %s\n",
                  n->recipe, sw_precision_name(q->gpu->precision), (long long)q->src->dim[0],
                  (long long)n->channels, (long long)n->height, (long long)n->width,
                  (long long)n->shape.outputs, (long long)n->shape.kernel_h,
                  (long long)n->shape.stride_h, passes[q->pass], what);
}

static void judge(const struct sw_cuda_conv_question *q, const struct noted *n, struct tally *t)
{
    struct sw_cuda_conv_graph *g = sw_cuda_conv_graph_get(q);
    bool tensor_cores = q->gpu->precision != SW_PRECISION_FP32;

    t->asked++;
    if (!g) {
        t->none++;
        complain(q, n, "no engine");
        return;
    }

    assert_true(g->workspace_bytes <= q->gpu->workspace_bytes);
    if (g->workspace_bytes > t->workspace_bytes)
        t->workspace_bytes = g->workspace_bytes;
    if (g->tensor_cores != tensor_cores) {
        /* cuDNN 9.19 has none for some batches of grouped convolutions. */
        t->wrong_cores += !tensor_cores || n->shape.groups == 1;
        complain(q, n, tensor_cores ? "no tensor cores" : "tensor cores, which round to tf32");
    }
    if (g->compiles) {
        t->compiled++;
        complain(q, n, "compiled at run time");
    }

    sw_cuda_conv_graph_put(g);
}

/* Bias and relu are fused by an engine that is not compiled, in a workspace within the limit, with
 * tensor cores except in fp32. */
static void judge_fused(const struct sw_cuda_conv_question *asked, const struct noted *n,
                        struct tally *t)
{
    struct sw_cuda_conv_question q = *asked;
    q.fused = true;
    struct sw_cuda_conv_graph *g = sw_cuda_conv_graph_get(&q);

    if (!g) {
        /* cuDNN 9.19 has no engine for some grouped convolutions of AlexNet. */
        assert_true(n->shape.groups > 1);
        t->unfused++;
        complain(&q, n, "bias and relu not fused");
        return;
    }

    t->fused++;
    assert_true(g->fused && g->halves == q.halves && !g->compiles);
    assert_true(g->tensor_cores == (q.gpu->precision != SW_PRECISION_FP32));
    assert_true(g->workspace_bytes <= q.gpu->workspace_bytes);
    sw_cuda_conv_graph_put(g);
}

static void judge_convolution(struct sw_cuda_conv_gpu *gpu, const struct noted *n, int64_t rows,
                              struct tally *t)
{
    const struct sw_conv_shape *s = &n->shape;
    const bool half = sw_precision_is_half(gpu->precision);
    const int64_t dim[] = {rows, n->channels, n->height, n->width};
    const struct sw_cuda_conv_layouts l =
        sw_cuda_conv_lay_out(sw_cuda_conv_prefers_last(gpu->precision), dim, s);

    /* Refused before cuDNN is asked, whose indices have 32 bits; and a net with a layer that takes
     * an eighth of the memory does not fit. */
    if (sw_desc_storage(&l.src) > INT32_MAX || sw_desc_storage(&l.dst) > INT32_MAX ||
        (int64_t)(sw_desc_bytes(&l.src) + sw_desc_bytes(&l.dst)) > gpu->workspace_bytes)
        return;

    for (int pass = 0; pass < SW_TUNE_PASSES; pass++) {
        const struct sw_cuda_conv_question q = {.gpu = gpu,
                                                .shape = s,
                                                .src = &l.src,
                                                .weight = &l.weight,
                                                .dst = &l.dst,
                                                .pass = (enum sw_tune_pass)pass,
                                                .halves = half,
                                                .writes_halves = half,
                                                .tf32 = gpu->precision == SW_PRECISION_TF32,
                                                .wanted = ""};
        if (n->pass[pass])
            judge(&q, n, t);
        if (n->pass[pass] && pass == SW_TUNE_FORWARD && s->bias)
            judge_fused(&q, n, t);
    }
}

static bool has(const struct gpu *g, enum sw_precision precision)
{
    bool turing = g->version < 800;
    return !turing || (precision != SW_PRECISION_TF32 && precision != SW_PRECISION_BF16);
}

static void judge_gpu(const struct gpu *g, enum sw_precision precision, const int64_t *rows,
                      int count)
{
    struct sw_cuda_conv_gpu gpu;
    struct tally t = {0};

    assert_true(describe(g, precision, &gpu));
    for (int i = 0; i < noted_count; i++)
        for (int k = 0; k < count; k++)
            judge_convolution(&gpu, &noted[i], rows[k], &t);
    sw_cuda_conv_gpu_fini(&gpu);

    print_message("%s, %s: %d passes, largest workspace %lld MB", g->name,
                  sw_precision_name(precision), t.asked, (long long)(t.workspace_bytes >> 20));
    print_message(", bias fused in %d of %d\n", t.fused, t.fused + t.unfused);
    assert_int_equal(t.none, 0);
    assert_int_equal(t.wrong_cores, 0);
    assert_int_equal(t.compiled, 0);
}

static void every_convolution_has_its_engine(void **state)
{
    static const int64_t all[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
                         some[] = {1, 64, 1024};
    const bool every = getenv("SINGA_ALL_BATCHES");

    for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++)
        for (int p = SW_PRECISION_FP32; p <= SW_PRECISION_FP16; p++)
            if (has(&gpus[g], (enum sw_precision)p))
                judge_gpu(&gpus[g], (enum sw_precision)p, every ? all : some, every ? 11 : 3);
}

/* ---- Sharing ---- */

static void equal_convolutions_share_a_graph(void **state)
{
    struct sw_cuda_conv_gpu gpu;
    struct sw_conv_shape shape = {.outputs = 16,
                                  .groups = 1,
                                  .kernel_h = 3,
                                  .kernel_w = 3,
                                  .stride_h = 1,
                                  .stride_w = 1,
                                  .pad_h = 1,
                                  .pad_w = 1,
                                  .dilation_h = 1,
                                  .dilation_w = 1,
                                  .out_h = 9,
                                  .out_w = 9};
    const struct sw_cuda_conv_layouts l =
        sw_cuda_conv_lay_out(false, (const int64_t[]){2, 8, 9, 9}, &shape);
    struct sw_cuda_conv_question q = {.gpu = &gpu,
                                      .shape = &shape,
                                      .src = &l.src,
                                      .weight = &l.weight,
                                      .dst = &l.dst,
                                      .wanted = ""};

    assert_true(describe(&gpus[0], SW_PRECISION_FP32, &gpu));
    struct sw_cuda_conv_graph *one = sw_cuda_conv_graph_get(&q),
                              *again = sw_cuda_conv_graph_get(&q);
    q.pass = SW_TUNE_DATA;
    struct sw_cuda_conv_graph *other = sw_cuda_conv_graph_get(&q);

    assert_non_null(one);
    assert_ptr_equal(one, again);
    assert_non_null(other);
    assert_ptr_not_equal(one, other);

    sw_cuda_conv_graph_put(one);
    assert_non_null(again->plan);
    sw_cuda_conv_graph_put(again);
    sw_cuda_conv_graph_put(other);
    assert_null(gpu.graphs);
    sw_cuda_conv_gpu_fini(&gpu);
}

int main(void)
{
    struct sw_cuda_conv_gpu gpu;
    bool described = describe(&gpus[0], SW_PRECISION_FP32, &gpu);

    sw_cuda_conv_gpu_fini(&gpu);
    if (!described) {
        print_message("skipped: cuDNN %zu does not know described GPUs, 9.8 does\n",
                      cudnnGetVersion());
        return SKIPPED;
    }

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_convolution_has_its_engine),
        cmocka_unit_test(equal_convolutions_share_a_graph),
    };
    return cmocka_run_group_tests_name("engines of convolutions", tests, note_recipes, home_end);
}

#endif
