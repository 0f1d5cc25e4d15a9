/* Which engine of cuDNN computes a convolution. A graph keeps the execution plan and releases all
 * other descriptors once that is created. The contract is in device/cuda/conv_engine.h. */
#include "device/cuda/conv_engine.h"
#include "base/os.h"
#include "base/str.h"
#include "device/cuda/conv_operation.h"
#include <stdio.h>
#include <string.h>

enum {
    MAX_ENGINES = 32, /* maximum number of engines of one list */
    MODES = 2,        /* lists of engines: that of the heuristics, and the fallback */
};

/* ---- Engines ---- */

/* What the library says of an engine. */
struct notes {
    bool tensor_cores, winograd;
    bool refused;  /* not deterministic, or less precise than its operands */
    bool compiles; /* it is compiled at run time, which takes about a second */
};

struct engine {
    cudnnBackendDescriptor_t config;
    cudnnBackendHeurMode_t mode;
    int64_t index; /* in the list of the mode */
    struct notes notes;
    bool fails; /* no plan could be made, or its workspace is too large */
};

/* The engines that the library lists for a graph, best first. */
struct engines {
    cudnnBackendDescriptor_t config[MODES][MAX_ENGINES];
    int modes; /* lists that were read */
    struct engine engine[MODES * MAX_ENGINES];
    int count;
};

static void note_number(cudnnBackendNumericalNote_t note, struct notes *n)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        n->tensor_cores = true;
        break;
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        n->winograd = true;
        break;
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        n->refused = true;
        break;
    default:
        break;
    }
}

/* A newer library may return more notes than this build knows; such an engine is refused. */
static struct notes notes_of(cudnnBackendDescriptor_t config)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t number[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t one = 0, numbers = 0, behaviors = 0;
    struct notes n = {0};

    sw_dnn_create(&e, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    sw_dnn_get(&e, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one,
               &engine);
    sw_dnn_get(&e, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &numbers, number);
    sw_dnn_get(&e, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
               CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behaviors, behavior);
    sw_dnn_drop(engine);

    n.refused = e != CUDNN_STATUS_SUCCESS || numbers > CUDNN_NUMERICAL_NOTE_TYPE_COUNT ||
                behaviors > CUDNN_BEHAVIOR_NOTE_TYPE_COUNT;
    for (int64_t i = 0; i < numbers && !n.refused; i++)
        note_number(number[i], &n);
    for (int64_t i = 0; i < behaviors && !n.refused; i++)
        n.compiles = n.compiles || behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;

    return n;
}

/* fp32 computes with all bits: on tensor cores floats are rounded to tf32. */
static bool is_exact(const struct sw_cuda_conv_question *q)
{
    return !q->tf32 && !q->halves;
}

static bool is_suitable(const struct sw_cuda_conv_question *q, const struct notes *n)
{
    return !n->refused && !(is_exact(q) && n->tensor_cores) &&
           !(q->gpu->avoid_winograd && n->winograd);
}

static void set_gpu(cudnnStatus_t *e, const struct sw_cuda_conv_gpu *gpu,
                    cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t described)
{
    if (gpu->description)
        sw_dnn_set_descriptor(e, d, described, gpu->description);
}

/* The names of attributes that only newer libraries have. */
#if CUDNN_VERSION >= 90800
enum {
    HEURISTICS_GPU = CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
    PLAN_GPU = CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
};
#else
enum { HEURISTICS_GPU, PLAN_GPU };
#endif

/* Adds the suitable engines of a list. */
static void list_engines(const struct sw_cuda_conv_question *q, cudnnBackendDescriptor_t graph,
                         cudnnBackendHeurMode_t mode, struct engines *all)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t heuristics = NULL;
    cudnnBackendDescriptor_t *config = all->config[all->modes++];
    int64_t count = 0;

    sw_dnn_create(&e, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics);
    sw_dnn_set_descriptor(&e, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    sw_dnn_set(&e, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set_gpu(&e, q->gpu, heuristics, (cudnnBackendAttributeName_t)HEURISTICS_GPU);
    sw_dnn_finish(&e, heuristics);
    for (int i = 0; i < MAX_ENGINES; i++)
        sw_dnn_create(&e, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]);
    sw_dnn_get(&e, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               MAX_ENGINES, &count, config);
    sw_dnn_drop(heuristics);

    for (int64_t i = 0; i < count && i < MAX_ENGINES && e == CUDNN_STATUS_SUCCESS; i++) {
        struct engine one = {
            .config = config[i], .mode = mode, .index = i, .notes = notes_of(config[i])};
        if (is_suitable(q, &one.notes))
            all->engine[all->count++] = one;
    }
}

static void drop_engines(struct engines *all)
{
    for (int mode = 0; mode < MODES; mode++)
        for (int i = 0; i < MAX_ENGINES; i++)
            sw_dnn_drop(all->config[mode][i]);
}

/* Writes the name "a3/12": the mode, the index in its list, and the number of the engine. */
static void name_of(const struct engine *n, char name[SW_TUNE_NAME])
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t engine = NULL;
    int64_t count = 0, number = -1;

    sw_dnn_create(&e, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    sw_dnn_get(&e, n->config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
               &engine);
    sw_dnn_get(&e, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &number);

    snprintf(name, SW_TUNE_NAME, "%c%lld/%lld", n->mode == CUDNN_HEUR_MODE_A ? 'a' : 'f',
             (long long)n->index, (long long)(e == CUDNN_STATUS_SUCCESS ? number : -1));
    sw_dnn_drop(engine);
}

/* ---- Graphs ---- */

/* Makes an execution plan with that engine; false if that fails. */
static bool try_engine(const struct sw_cuda_conv_question *q, struct engine *n,
                       struct sw_cuda_conv_graph *g)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t count = 0, bytes = 0;

    if (n->fails)
        return false;

    sw_dnn_create(&e, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    if (q->gpu->handle)
        sw_dnn_set(&e, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                   &q->gpu->handle);
    set_gpu(&e, q->gpu, plan, (cudnnBackendAttributeName_t)PLAN_GPU);
    sw_dnn_set_descriptor(&e, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, n->config);
    sw_dnn_finish(&e, plan);
    sw_dnn_get(&e, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
               &bytes);

    n->fails = e != CUDNN_STATUS_SUCCESS || bytes > q->gpu->workspace_bytes;
    if (n->fails) {
        sw_dnn_drop(plan);
        return false;
    }

    g->plan = plan;
    g->workspace_bytes = bytes;
    g->tensor_cores = n->notes.tensor_cores;
    g->compiles = n->notes.compiles;
    return true;
}

/* What is asked of an engine, from the best to the last resort: tensor cores where the precision
 * allows them, and no compilation. */
static const struct wish {
    bool tensor_cores, compiled;
} wishes[] = {{true, true}, {true, false}, {false, true}, {false, false}};

enum { WISHES = sizeof wishes / sizeof *wishes };

static bool fulfills(const struct sw_cuda_conv_question *q, const struct engine *n,
                     const struct wish *w)
{
    return (n->notes.tensor_cores || !w->tensor_cores || is_exact(q)) &&
           (!n->notes.compiles || !w->compiled);
}

/* Chooses the first engine of the lists that fulfills one of the first wishes, the best one. */
static bool choose(const struct sw_cuda_conv_question *q, struct engines *all, int count,
                   struct sw_cuda_conv_graph *g)
{
    for (int w = 0; w < count; w++)
        for (int i = 0; i < all->count; i++)
            if (fulfills(q, &all->engine[i], &wishes[w]) && try_engine(q, &all->engine[i], g))
                return true;

    return false;
}

static bool choose_by_name(const struct sw_cuda_conv_question *q, struct engines *all,
                           struct sw_cuda_conv_graph *g)
{
    char name[SW_TUNE_NAME];

    for (int i = 0; i < all->count; i++) {
        name_of(&all->engine[i], name);
        if (sw_str_eq(name, q->wanted))
            return try_engine(q, &all->engine[i], g);
    }

    return false;
}

/* All that decides the engine; NULL: out of memory. */
static char *key_of(const struct sw_cuda_conv_question *q)
{
    struct sw_bytes key = {0};
    const struct sw_desc *all[] = {q->src, q->weight, q->dst};
    char text[128];

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sw_bytes_printf(&key, "%s step %lld, ", sw_desc_text(all[i], text),
                        (long long)all[i]->stride[1]);
    sw_tune_key_conv(&key, q->shape);
    sw_bytes_printf(&key, " %s %d %d %d %d %s", sw_cuda_conv_pass_name(q->pass), q->halves,
                    q->writes_halves, q->fused, q->tf32, q->wanted);

    return sw_bytes_take(&key);
}

/* The fallback list is read only if the first one has no engine that fulfills all wishes. */
static bool find(const struct sw_cuda_conv_question *q, struct engines *all,
                 struct sw_cuda_conv_graph *g)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t graph = sw_cuda_conv_operation(&e, q);
    bool found = false, named = q->wanted[0];

    if (e == CUDNN_STATUS_SUCCESS) {
        list_engines(q, graph, CUDNN_HEUR_MODE_A, all);
        found = named ? choose_by_name(q, all, g) : choose(q, all, 1, g);
    }
    if (e == CUDNN_STATUS_SUCCESS && !found) {
        list_engines(q, graph, CUDNN_HEUR_MODE_FALLBACK, all);
        found = named ? choose_by_name(q, all, g) : choose(q, all, q->fused ? 1 : WISHES, g);
    }

    sw_dnn_drop(graph);
    return found;
}

static struct sw_cuda_conv_graph *make_new(const struct sw_cuda_conv_question *q)
{
    struct sw_cuda_conv_graph *g = sw_calloc(1, sizeof *g);
    struct engines *all = sw_calloc(1, sizeof *all);
    bool found = g && all && find(q, all, g);

    if (all)
        drop_engines(all);
    sw_free(all);
    if (!found) {
        sw_free(g);
        return NULL;
    }

    g->halves = q->writes_halves;
    g->fused = q->fused;
    g->name = sw_cuda_conv_pass_name(q->pass);
    return g;
}

struct sw_cuda_conv_graph *sw_cuda_conv_graph_get(const struct sw_cuda_conv_question *q)
{
    char *key = key_of(q);
    if (!key)
        return NULL;

    for (struct sw_cuda_conv_graph *g = q->gpu->graphs; g; g = g->next) {
        if (sw_str_eq(g->key, key)) {
            sw_free(key);
            g->users++;
            return g;
        }
    }

    struct sw_cuda_conv_graph *g = make_new(q);
    if (!g) {
        sw_free(key);
        return NULL;
    }

    g->key = key;
    g->users = 1;
    g->gpu = q->gpu;
    g->next = q->gpu->graphs;
    q->gpu->graphs = g;
    return g;
}

void sw_cuda_conv_graph_put(struct sw_cuda_conv_graph *g)
{
    if (!g || --g->users > 0)
        return;

    struct sw_cuda_conv_graph **at = &g->gpu->graphs;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    sw_dnn_drop(g->plan);
    sw_free(g->key);
    sw_free(g);
}

/* Adds the names of engines from index `from` on. Those that have to be compiled are not measured:
 * that would take minutes. */
static void add_names(const struct sw_cuda_conv_question *q, struct engines *all, int from,
                      struct sw_tune_candidates *out)
{
    for (int i = from; i < all->count && out->count < SW_TUNE_CANDIDATES; i++) {
        struct engine *n = &all->engine[i];
        struct sw_cuda_conv_graph tried = {0};
        char name[SW_TUNE_NAME];

        if (n->notes.compiles || !try_engine(q, n, &tried))
            continue;

        name_of(n, name);
        sw_tune_add_candidate(out, name);
        sw_dnn_drop(tried.plan);
    }
}

void sw_cuda_conv_graph_list(const struct sw_cuda_conv_question *q, struct sw_tune_candidates *out)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t graph = NULL;
    struct engines *all = sw_calloc(1, sizeof *all);
    if (!all)
        return;

    graph = sw_cuda_conv_operation(&e, q);
    if (e == CUDNN_STATUS_SUCCESS) {
        list_engines(q, graph, CUDNN_HEUR_MODE_A, all);
        add_names(q, all, 0, out);
    }

    /* The first list is sufficient unless nothing of it can be used. */
    if (e == CUDNN_STATUS_SUCCESS && out->count == 0) {
        int first = all->count;
        list_engines(q, graph, CUDNN_HEUR_MODE_FALLBACK, all);
        add_names(q, all, first, out);
    }

    sw_dnn_drop(graph);
    drop_engines(all);
    sw_free(all);
}

/* ---- GPUs ---- */

/* Most passes need a few MB, but an engine that transposes its arrays needs as much as these have:
 * 1.6 GB for the second convolution of VGG-16 with 64 images. The plans of a worker share one
 * workspace, so an eighth of the memory is taken once. */
int64_t sw_cuda_conv_workspace(size_t memory_bytes)
{
    return (int64_t)(memory_bytes / 8);
}

bool sw_cuda_conv_gpu_describe(struct sw_cuda_conv_gpu *gpu, const char *json)
{
#if CUDNN_VERSION >= 90800
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;

    sw_dnn_create(&e, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu->description);
    sw_dnn_set(&e, gpu->description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               (int64_t)strlen(json), json);
    sw_dnn_finish(&e, gpu->description);
    return e == CUDNN_STATUS_SUCCESS;
#else
    (void)gpu, (void)json;
    return false;
#endif
}

void sw_cuda_conv_gpu_fini(struct sw_cuda_conv_gpu *gpu)
{
    sw_dnn_drop(gpu->description);
    gpu->description = NULL;
}
