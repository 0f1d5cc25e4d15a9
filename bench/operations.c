/* Every operation of a net on one device, as a share of what that device can do:
 *
 *     operations [--device TEXT] [--threads N] [--count | --trial] RECIPE [SECTION.KEY=VALUE ...]
 *
 * Builds the training net of the recipe for one batch, without a parameter table, and runs it layer
 * by layer. For each pass of each layer it prints the median time of a call, the bytes that the
 * pass must at least read and write with the rate that follows, and its flops with theirs. The
 * shares are of the bandwidth of a copy within the device and of a large product, both measured in
 * this run. A pass needs the larger of its two shares: one that is far from 1 in both has a slow
 * operation. Calls are repeated before the host waits: small arrays then stay in a cache, which
 * gives shares above 1, and the time of a tiny operation is that of its launch.
 *
 * --count computes nothing and touches no memory: it prints `LAYER TYPE PASS LEAST MOVED FLOPS
 * LAUNCHES` for each pass that queues anything, after it `- OPERATION MOVED LAUNCHES` for each kind
 * of operation, and a last line `updates`. MOVED sums the arrays of the operations and plans, and
 * LAUNCHES is their number; on a GPU a plan may be more than one kernel. It counts what is queued
 * on the CPU, in the CPU's layouts, which may be padded.
 * --trial measures shortly, on small arrays, to try the program. */
#include "base/os.h"
#include "data/source.h"
#include "device/driver.h"
#include "device/op.h"
#include "device/throughput.h"
#include "net/net.h"
#include "optim/updater.h"
#include "recipe/job.h"
#include "run/job.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FORWARD,
    BACKWARD,
    PASSES,
    MOST_SETS = 32,
    WINDOWS = 5,
    WINDOW_NS = 2000000,
    MOST_CALLS = 20
};
static const char *const pass_name[PASSES] = {"forward", "backward"};

struct options {
    const char *recipe, *device, *sets[MOST_SETS];
    int set_count, threads;
    bool count, trial;
};

struct cost {
    double ns;    /* of a call; 0: not measured */
    double least; /* bytes */
    double flops;
};

struct bench {
    struct sw_recipe *recipe; /* owned, with conf */
    const struct sw_job_conf *conf;
    const struct sw_driver *driver;
    struct sw_device *device; /* owned, as the next three */
    struct sw_stream *stream;
    struct sw_source *source;
    struct sw_net *net;
    void *rows[SW_MAX_FIELDS];         /* owned; the batch */
    void *backup;                      /* device memory: of the largest activation */
    double bytes_per_ns, flops_per_ns; /* of a copy, and of a product */
    int64_t window_ns;                 /* calls are repeated for about as long */
    struct cost (*cost)[PASSES];       /* of each layer */
};

static void die(const char *what)
{
    fprintf(stderr, "operations: %s\n", what);
    exit(1);
}

static struct sw_err err;

static void check(int rc)
{
    if (rc != SW_OK)
        die(err.text);
}

static void *device_memory(struct bench *b, size_t bytes, const char *what)
{
    void *p = NULL;
    if (bytes)
        check(sw_device_alloc(b->device, bytes, what, &p, &err));
    return p;
}

static void *host_memory(size_t count, size_t bytes)
{
    void *p = sw_calloc(count ? count : 1, bytes);
    if (!p)
        die("out of memory");
    return p;
}

/* ---- The net, and its memory ---- */

static void open_device(struct bench *b, const struct options *o)
{
    struct sw_device_request request = {0};
    check(sw_device_request_parse(o->device, &request, &err));
    b->driver = request.driver;
    if (b->driver->start_team)
        check(b->driver->start_team(o->threads, &err));

    struct sw_device_args args = {.options = request.options,
                                  .index = request.count > 0 ? request.index[0] : 0,
                                  .precision = (enum sw_precision)b->conf->precision};
    check(b->driver->open(&args, &b->device, &err));
    b->device->avoid_winograd = !b->conf->winograd;
    check(sw_stream_new(b->device, o->threads, &b->stream, &err));
}

static void read_recipe(struct bench *b, const struct options *o)
{
    struct sw_job_options job = {
        .recipe_path = o->recipe, .sets = o->sets, .set_count = o->set_count};
    int rc = sw_job_read_recipe(&job, &b->recipe, &b->conf, &err);
    if (rc == SW_ERR_INVALID && b->recipe) {
        struct sw_bytes text = {0};
        sw_diags_print(sw_recipe_diags(b->recipe), &text);
        die(sw_bytes_text(&text));
    }
    check(rc);
}

static void open_source(struct bench *b)
{
    const struct sw_section *s = sw_recipe_find(b->recipe, "data", "train");
    if (!s)
        die("the recipe has no [data train]");

    const char *fell_from = sw_section_fell_from(s);
    struct sw_source_args args = {.name = s->name,
                                  .conf = s->common,
                                  .format = (const struct sw_format *)(const void *)s->type[0],
                                  .format_conf = s->conf[0],
                                  .replaced = fell_from ? sw_format_find(fell_from) : NULL,
                                  .seed = (uint64_t)b->conf->seed,
                                  .training = true};
    check(sw_source_open(&args, &b->source, &err));
}

static void build(struct bench *b)
{
    struct sw_net_field fields[SW_MAX_FIELDS];
    for (int f = 0; f < b->source->field_count; f++) {
        const struct sw_field *field = &b->source->field[f];
        int64_t dim[SW_MAX_DIMS] = {b->conf->batch};
        memcpy(dim + 1, field->dim, (size_t)field->ndim * sizeof *dim);
        fields[f] = (struct sw_net_field){
            .name = field->name, .desc = sw_desc_plain(field->dtype, field->ndim + 1, dim)};
    }

    struct sw_net_args args = {.recipe = b->recipe,
                               .stream = b->stream,
                               .seed = (uint64_t)b->conf->seed,
                               .algorithm = (enum sw_algorithm)b->conf->algorithm,
                               .training = true,
                               .rows = b->conf->batch,
                               .freeze = &b->conf->freeze,
                               .fields = fields,
                               .field_count = b->source->field_count,
                               .source = "train"};
    check(sw_net_new(&args, &b->net, &err));
}

/* Values such that activations keep a size of about 1. */
static void write_values(struct bench *b, const struct sw_desc *layout, double natural,
                         int64_t fan_in, void *out)
{
    static uint32_t seed = 1;
    double size = fan_in ? 2 / sqrt((double)fan_in) : 0;
    float *plain = host_memory((size_t)sw_desc_count(layout), sizeof *plain);
    float *stored = host_memory(sw_desc_bytes(layout), 1);

    for (int64_t i = 0; i < sw_desc_count(layout); i++) {
        seed = seed * 1664525u + 1013904223u;
        plain[i] = (float)(fan_in ? size * ((double)(seed >> 8) / (1 << 23) - 1) : natural);
    }
    sw_desc_from_plain(layout, plain, stored);

    check(sw_copy(b->stream, out, stored, sw_desc_bytes(layout), &err));
    check(sw_stream_wait(b->stream, &err));
    sw_free(plain);
    sw_free(stored);
}

static void bind_params(struct bench *b, bool values)
{
    int count = sw_net_param_count(b->net);
    float **value = host_memory((size_t)count, sizeof *value),
          **grad = host_memory((size_t)count, sizeof *grad);

    for (int p = 0; p < count; p++) {
        const struct sw_net_param *np = sw_net_param(b->net, p);
        const struct sw_layer_param *lp = &sw_net_layer(b->net, np->layer)->param[np->index];
        size_t bytes = sw_desc_bytes(&lp->layout);

        value[p] = np->root >= 0 ? value[np->root] : device_memory(b, bytes, np->name);
        if (np->root >= 0)
            grad[p] = grad[np->root];
        else if (!np->frozen)
            grad[p] = device_memory(b, bytes, np->name);
        if (values && np->root < 0)
            write_values(b, &lp->layout, lp->natural, lp->fan_in, value[p]);
        sw_net_bind_param(b->net, p, value[p], grad[p]);
    }

    sw_free(value);
    sw_free(grad);
}

static void bind_buffers(struct bench *b, bool values)
{
    for (int s = 0; s < sw_net_buffer_count(b->net); s++) {
        const struct sw_net_buffer *nb = sw_net_buffer(b->net, s);
        const struct sw_layer_buffer *lb = &sw_net_layer(b->net, nb->layer)->keeps[nb->index];
        float *memory = device_memory(b, sw_desc_bytes(&lb->layout), nb->name);

        if (values)
            write_values(b, &lb->layout, lb->natural, 0, memory);
        sw_net_bind_buffer(b->net, s, memory, memory);
    }
}

/* The first batch of the recipe's data; zeros where nothing is computed. */
static void set_batch(struct bench *b, bool values)
{
    struct sw_source *s = b->source;
    struct sw_reader reader = {0};

    for (int f = 0; f < s->field_count; f++)
        b->rows[f] = host_memory((size_t)b->conf->batch, sw_field_bytes(&s->field[f]));
    if (values) {
        check(sw_reader_init(&reader, s, &err));
        check(sw_source_fetch(&reader, 0, b->conf->batch, b->rows, &err));
        sw_reader_fini(&reader);
    }

    const char *read[SW_MAX_FIELDS];
    int count;
    check(sw_net_fields(b->recipe, true, NULL, read, SW_MAX_FIELDS, &count, &err));
    for (int i = 0; i < count; i++)
        check(sw_net_set_field(b->net, read[i], b->rows[sw_source_find(s, read[i])], &err));

    struct sw_step step = {.valid_rows = b->conf->batch,
                           .batch_valid_rows = b->conf->batch,
                           .sequences_begin = true,
                           .pass_begins = true,
                           .backward_scale = 1.0f / (float)b->conf->batch};
    check(sw_net_set_step(b->net, &step, &err));
}

static void bind(struct bench *b, bool values)
{
    size_t largest = 0;
    for (int i = 0; i < sw_net_layer_count(b->net); i++) {
        size_t bytes = sw_desc_bytes(&sw_net_layer(b->net, i)->dst.desc);
        largest = bytes > largest ? bytes : largest;
    }
    b->backup = device_memory(b, largest, "a copy of an activation");

    sw_net_bind(b->net, device_memory(b, sw_net_arena_bytes(b->net), "activations"), NULL);
    sw_net_bind_recurrent_state(
        b->net, device_memory(b, sw_net_recurrent_state_bytes(b->net), "recurrent state"));
    bind_params(b, values);
    bind_buffers(b, values);
    set_batch(b, values);
}

/* ---- What a pass costs at least ---- */

/* What forward must read and write: sources, parameters, output, and what it keeps. */
static double least_of_forward(const struct sw_layer *l)
{
    size_t bytes = sw_desc_bytes(&l->dst.desc) + l->saved_bytes;
    for (int i = 0; i < l->src_count; i++)
        bytes += sw_desc_bytes(&l->src[i]->desc);
    for (int p = 0; p < l->param_count; p++)
        bytes += sw_desc_bytes(&l->param[p].layout);
    return (double)bytes;
}

/* What backward must read and write: the gradient of the output, what forward kept, the activations
 * that it asks for, gradients of sources and parameters, and the weights for the former. */
static double least_of_backward(const struct sw_layer *l)
{
    size_t bytes = l->saved_bytes;
    bool to_sources = false;

    if (l->dst.grad)
        bytes += sw_desc_bytes(&l->dst.desc);
    if (l->backward_reads_dst)
        bytes += sw_desc_bytes(&l->dst.desc);
    for (int i = 0; i < l->src_count; i++) {
        size_t one = sw_desc_bytes(&l->src[i]->desc);
        bytes += l->backward_reads_src >> i & 1 ? one : 0;
        bytes += !l->src_grad[i] ? 0 : l->adds.src >> i & 1 ? 2 * one : one;
        to_sources = to_sources || l->src_grad[i];
    }
    for (int p = 0; p < l->param_count; p++) {
        size_t one = sw_desc_bytes(&l->param[p].layout);
        bytes += l->param[p].grad ? one : 0;
        bytes += to_sources && l->param[p].layout.ndim > 1 ? one : 0;
    }
    return (double)bytes;
}

/* Does the layer compute anything? Input layers only receive the batch. Of a fused relu the source
 * computes forward, and backward only if it can. */
static bool computes(const struct bench *b, int i, int pass)
{
    const struct sw_layer *l = sw_net_layer(b->net, i);
    if (l->type->role == SW_ROLE_INPUT || l->view)
        return false;
    if (sw_net_info(b->net, i).fused &&
        (pass == FORWARD || sw_net_layer(b->net, sw_net_source(b->net, i, 0))->masks_relu))
        return false;
    return pass == FORWARD || sw_net_has_backward(b->net, i);
}

static void count_least(struct bench *b)
{
    for (int i = 0; i < sw_net_layer_count(b->net); i++) {
        const struct sw_layer *l = sw_net_layer(b->net, i);
        if (computes(b, i, FORWARD))
            b->cost[i][FORWARD] =
                (struct cost){.least = least_of_forward(l), .flops = l->flops_forward};
        if (computes(b, i, BACKWARD))
            b->cost[i][BACKWARD] =
                (struct cost){.least = least_of_backward(l), .flops = l->flops_backward};
    }
}

/* ---- Counting what is queued ---- */

enum { MOST_KINDS = 64 };

/* What the current pass has queued, by the name of the operation; "plan" for plans. */
static struct {
    const char *name;
    double bytes;
    int64_t launches;
} queued[MOST_KINDS];
static int queued_kinds;

static int count(const char *name, double bytes)
{
    int k = 0;
    while (k < queued_kinds && strcmp(queued[k].name, name) != 0)
        k++;
    if (k == MOST_KINDS)
        die("a layer queues too many kinds of operations");

    queued_kinds = k < queued_kinds ? queued_kinds : k + 1;
    queued[k].name = name;
    queued[k].bytes += bytes;
    queued[k].launches++;
    return SW_OK;
}

static int count_run(struct sw_stream *s, const struct sw_op *op, const void *args,
                     struct sw_err *e)
{
    struct sw_op_arrays list;
    double bytes = 0;

    sw_op_list(op, args, &list);
    for (int i = 0; i < list.count; i++)
        bytes += (double)list.array[i].bytes;
    return count(op->name, bytes);
}

static int count_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes,
                      struct sw_err *e)
{
    return count("copy", 2 * (double)bytes);
}

static int count_copy_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *e)
{
    return count("copy", 2 * (double)c->width * (double)c->rows);
}

static int count_fill(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *e)
{
    return count("fill", (double)bytes);
}

static int count_plan(const struct sw_plan *p, uint32_t arrays)
{
    size_t bytes[SW_PLAN_ARRAYS];
    double sum = 0;

    sw_plan_bytes(p, bytes);
    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        sum += arrays >> i & 1 ? (double)bytes[i] : 0;
    return count("plan", sum);
}

static int count_plan_forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *e)
{
    return count_plan(p, 1u << SW_PLAN_SRC | 1u << SW_PLAN_WEIGHT | 1u << SW_PLAN_BIAS |
                             1u << SW_PLAN_DST | 1u << SW_PLAN_SAVED);
}

/* Plans with weights read the source for the gradient of the weights alone. */
static int count_plan_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *e)
{
    bool src = p->backward_reads_src && !p->weight.ndim;
    return count_plan(p, 1u << SW_PLAN_WEIGHT | 1u << SW_PLAN_DIFF_DST | 1u << SW_PLAN_DIFF_SRC |
                             1u << SW_PLAN_SAVED | (uint32_t)src << SW_PLAN_SRC |
                             (uint32_t)p->backward_reads_dst << SW_PLAN_DST);
}

static int count_plan_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *e)
{
    return count_plan(p, 1u << SW_PLAN_SRC | 1u << SW_PLAN_DIFF_DST | 1u << SW_PLAN_DIFF_WEIGHT |
                             1u << SW_PLAN_DIFF_BIAS);
}

static const struct sw_plan_ops counted_plan = {count_plan_forward, count_plan_data,
                                                count_plan_weights, NULL};

static void count_layer(struct bench *b, int i, int pass)
{
    struct cost *c = &b->cost[i][pass];
    const struct sw_layer *l = sw_net_layer(b->net, i);

    queued_kinds = 0;
    memset(queued, 0, sizeof queued);
    check(pass == FORWARD ? sw_net_forward(b->net, i, &err) : sw_net_backward(b->net, i, &err));
    if (queued_kinds == 0)
        return;

    double bytes = 0;
    int64_t launches = 0;
    for (int k = 0; k < queued_kinds; k++) {
        bytes += queued[k].bytes;
        launches += queued[k].launches;
    }
    printf("%s %s %s %.0f %.0f %.0f %" PRId64 "\n", l->name, l->type->base.name, pass_name[pass],
           c->least, bytes, c->flops, launches);
    for (int k = 0; k < queued_kinds; k++)
        printf("- %s %.0f %" PRId64 "\n", queued[k].name, queued[k].bytes, queued[k].launches);
}

/* From here on operations and plans are counted instead of run, until the process ends. */
static void count_all(struct bench *b)
{
    static struct sw_device_ops ops;
    ops = *b->device->ops;
    ops.run = count_run;
    ops.copy = count_copy;
    ops.copy_2d = count_copy_2d;
    ops.fill_zero = count_fill;
    b->device->ops = &ops;

    int layers = sw_net_layer_count(b->net);
    for (int i = 0; i < layers; i++)
        for (struct sw_plan *p = sw_net_layer(b->net, i)->plans; p; p = p->next)
            p->ops = &counted_plan;

    for (int i = 0; i < layers; i++)
        count_layer(b, i, FORWARD);
    for (int i = layers - 1; i >= 0; i--)
        if (sw_net_has_backward(b->net, i))
            count_layer(b, i, BACKWARD);
}

/* One operation updates all parameters: it reads values, gradients and state, and writes values and
 * state. */
static void print_updates(const struct bench *b)
{
    const struct sw_section *u = sw_recipe_find(b->recipe, "updater", NULL);
    int slots = sw_updater_slots((const struct sw_updater *)(const void *)u->type[0], u->conf[0]);
    double bytes = 0;

    for (int p = 0; p < sw_net_param_count(b->net); p++) {
        const struct sw_net_param *np = sw_net_param(b->net, p);
        if (np->frozen || np->root >= 0)
            continue;
        bytes += (double)sw_desc_bytes(&sw_net_layer(b->net, np->layer)->param[np->index].layout);
    }
    bytes *= 3 + 2 * slots;
    printf("updates - update %.0f %.0f 0 1\n", bytes, bytes);
}

/* ---- Measuring ---- */

struct copy_args {
    void *dst, *src;
    size_t bytes;
};

static int copy_once(struct sw_stream *s, void *args, struct sw_err *e)
{
    const struct copy_args *c = args;
    return sw_copy(s, c->dst, c->src, c->bytes, e);
}

static void measure_device(struct bench *b, bool trial)
{
    size_t bytes = (size_t)(trial ? 4 : 256) << 20;
    int side = trial ? 128 : b->driver->gemm_side, budget_ms = trial ? 1 : 300;
    struct copy_args c = {.bytes = bytes};
    struct sw_throughput t;
    float *abc[3];

    c.src = device_memory(b, bytes, "a copy");
    c.dst = device_memory(b, bytes, "a copy");
    check(sw_throughput_fill(b->stream, c.src, (int64_t)(bytes / sizeof(float)), &err));
    check(sw_throughput_of(b->stream, 2.0 * (double)bytes, copy_once, &c, budget_ms, &t, &err));
    b->bytes_per_ns = t.median;
    sw_device_free(b->device, c.src, bytes);
    sw_device_free(b->device, c.dst, bytes);

    bytes = (size_t)side * (size_t)side * sizeof(float);
    for (int i = 0; i < 3; i++)
        abc[i] = device_memory(b, bytes, "a product");
    check(sw_throughput_product(b->stream, abc, side, budget_ms, &t, &err));
    b->flops_per_ns = t.median;
    for (int i = 0; i < 3; i++)
        sw_device_free(b->device, abc[i], bytes);

    printf(
        "%s, %s: a copy of %d MiB reads and writes %.1f GB/s; a product of side %d %.1f Gflop/s\n",
        b->device->name, sw_precision_name((enum sw_precision)b->conf->precision), trial ? 4 : 256,
        b->bytes_per_ns, side, b->flops_per_ns);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double calls_ns(struct bench *b, int i, int pass, int calls)
{
    int64_t began_ns = sw_os()->monotonic_ns();
    for (int n = 0; n < calls; n++)
        check(pass == FORWARD ? sw_net_forward(b->net, i, &err) : sw_net_backward(b->net, i, &err));
    check(sw_stream_wait(b->stream, &err));
    return (double)(sw_os()->monotonic_ns() - began_ns) / calls;
}

/* The values that a layer in place overwrites with its own. */
static void *overwritten(const struct bench *b, int i, int pass)
{
    const struct sw_layer *l = sw_net_layer(b->net, i);
    return !sw_net_info(b->net, i).in_place ? NULL
           : pass == FORWARD                ? l->src[0]->data
                                            : l->dst.grad;
}

/* Times one pass of a layer at its place in the step, and leaves what a single call leaves. */
static void time_pass(struct bench *b, int i, int pass)
{
    size_t bytes = sw_desc_bytes(&sw_net_layer(b->net, i)->dst.desc);
    void *values = overwritten(b, i, pass);
    double ns[WINDOWS];

    if (!computes(b, i, pass)) {
        calls_ns(b, i, pass, 1);
        return;
    }
    if (values)
        check(sw_copy(b->stream, b->backup, values, bytes, &err));

    calls_ns(b, i, pass, 1);
    double once_ns = calls_ns(b, i, pass, 1);
    int calls = 1 + (int)((double)b->window_ns / (once_ns + 1));
    calls = calls < MOST_CALLS ? calls : MOST_CALLS;
    for (int w = 0; w < WINDOWS; w++)
        ns[w] = calls_ns(b, i, pass, calls);
    qsort(ns, WINDOWS, sizeof *ns, compare);
    b->cost[i][pass].ns = ns[WINDOWS / 2];

    if (values)
        check(sw_copy(b->stream, values, b->backup, bytes, &err));
    calls_ns(b, i, pass, 1);
}

static void time_all(struct bench *b)
{
    int layers = sw_net_layer_count(b->net);
    for (int i = 0; i < layers; i++)
        time_pass(b, i, FORWARD);
    for (int i = layers - 1; i >= 0; i--)
        if (sw_net_has_backward(b->net, i))
            time_pass(b, i, BACKWARD);
}

static void print_cost(const struct bench *b, const char *name, const char *type, const char *pass,
                       const struct cost *c)
{
    double rate = c->least / c->ns, flops = c->flops / c->ns;
    printf("%-28s %-16s %-8s %9.4f %9.3f %8.1f %5.2f %9.3f %9.1f %5.2f\n", name, type, pass,
           c->ns * 1e-6, c->least * 1e-6, rate, rate / b->bytes_per_ns, c->flops * 1e-9, flops,
           flops / b->flops_per_ns);
}

static void add(struct cost *sum, const struct cost *c)
{
    sum->ns += c->ns;
    sum->least += c->least;
    sum->flops += c->flops;
}

/* A row per pass of a layer, one per pass of each type, and one for everything. */
static void print_table(const struct bench *b)
{
    int layers = sw_net_layer_count(b->net);
    struct cost all = {0};

    printf("%-28s %-16s %-8s %9s %9s %8s %5s %9s %9s %5s\n", "layer", "type", "pass", "ms", "MB",
           "GB/s", "share", "Gflop", "Gflop/s", "share");
    for (int i = 0; i < layers; i++)
        for (int pass = 0; pass < PASSES; pass++) {
            const struct sw_layer *l = sw_net_layer(b->net, i);
            if (b->cost[i][pass].ns > 0)
                print_cost(b, l->name, l->type->base.name, pass_name[pass], &b->cost[i][pass]);
            add(&all, &b->cost[i][pass]);
        }

    for (int t = 0; sw_layer_types[t]; t++)
        for (int pass = 0; pass < PASSES; pass++) {
            struct cost sum = {0};
            for (int i = 0; i < layers; i++)
                if (sw_net_layer(b->net, i)->type == sw_layer_types[t])
                    add(&sum, &b->cost[i][pass]);
            if (sum.ns > 0)
                print_cost(b, "(type)", sw_layer_types[t]->base.name, pass_name[pass], &sum);
        }
    print_cost(b, "(all)", "-", "both", &all);
}

static struct options read_options(int argc, char **argv)
{
    struct options o = {.device = "cpu", .threads = sw_math_team()};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            o.device = argv[++i];
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            o.threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--count") == 0)
            o.count = true;
        else if (strcmp(argv[i], "--trial") == 0)
            o.trial = true;
        else if (!o.recipe && argv[i][0] != '-')
            o.recipe = argv[i];
        else if (o.recipe && strchr(argv[i], '=') && o.set_count < MOST_SETS)
            o.sets[o.set_count++] = argv[i];
        else
            o.threads = 0;
    }
    if (!o.recipe || o.threads < 1 || (o.count && strcmp(o.device, "cpu") != 0))
        die("usage: operations [--device TEXT] [--threads N] [--count | --trial] RECIPE "
            "[SECTION.KEY=VALUE ...]; --count needs the device cpu");
    return o;
}

int main(int argc, char **argv)
{
    struct options o = read_options(argc, argv);
    static struct bench b; /* its memory stays until the process ends */

    b.window_ns = o.trial ? 1 : WINDOW_NS;
    read_recipe(&b, &o);
    open_source(&b);
    open_device(&b, &o);
    build(&b);
    bind(&b, !o.count);
    b.cost = host_memory((size_t)sw_net_layer_count(b.net), sizeof *b.cost);
    count_least(&b);

    if (o.count) {
        count_all(&b);
        print_updates(&b);
    } else {
        measure_device(&b, o.trial);
        time_all(&b);
        print_table(&b);
    }
    return 0; /* without freeing: a net that was counted has lost its plans' functions */
}
