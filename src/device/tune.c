/* Measures the implementations of a pass; the contract is in device/tune.h. An implementation is
 * timed on zeros in its own memory: one run touches the pages, then the fastest of several rounds
 * counts. On a device that queues work a round has several runs, so that the cost of queueing and
 * waiting does not hide the differences. */
#include "device/tune.h"
#include "base/os.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 5,
    LIMIT_MS = 50, /* per implementation: then no further round starts */
    MAX_RUNS =
        16, /* maximum runs per round on a device that queues work; fewer if they take BATCH_MS */
    BATCH_MS = 2,
    ABANDON_FACTOR =
        4, /* a first run that is so many times slower than the best so far ends the measurement */
    MIN_GAIN_DIVISOR = 50, /* a candidate must save at least 1/50 of the time, since the clock is no
                              more accurate */
};

static const char *const pass_names[SW_TUNE_PASSES] = {"forward", "backward_data",
                                                       "backward_weights"};

/* ---- The table ---- */

void sw_tune_init(struct sw_tune *t, bool measures)
{
    *t = (struct sw_tune){.measures = measures};
    sw_mutex_init(&t->lock);
}

void sw_tune_fini(struct sw_tune *t)
{
    for (int i = 0; i < t->count; i++)
        sw_free(t->items[i].key);
    sw_free(t->items);
    sw_mutex_fini(&t->lock);
}

/* The position of the key, or where to insert it: keys ascend. */
static int find_position(const struct sw_tune *t, const char *key, bool *exists)
{
    int low = 0, high = t->count;

    *exists = false;
    while (low < high && !*exists) {
        int middle = low + (high - low) / 2, order = strcmp(key, t->items[middle].key);
        *exists = order == 0;
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }

    return high;
}

static int insert(struct sw_tune *t, const char *key, const struct sw_tune_item *item,
                  struct sw_err *err)
{
    bool exists;
    int at = find_position(t, key, &exists);

    if (exists)
        return SW_OK;

    size_t room = (size_t)t->count + 1;
    struct sw_tune_item *more = sw_realloc_array(t->items, room, sizeof *more);
    t->items = more ? more : t->items;

    char *copy = more ? sw_strdup(key) : NULL;
    if (!copy)
        return sw_err_nomem(err, "table of measured algorithms", room * sizeof *more);

    memmove(&more[at + 1], &more[at], (size_t)(t->count - at) * sizeof *more);
    more[at] = *item;
    more[at].key = copy;
    t->count++;

    return SW_OK;
}

int sw_tune_put(struct sw_tune *t, const char *key, const char *name, enum sw_tune_origin origin,
                struct sw_err *err)
{
    struct sw_tune_item item = {.origin = origin, .used = origin == SW_TUNE_KEPT};

    snprintf(item.name, sizeof item.name, "%s", name);
    sw_mutex_lock(&t->lock);

    int rc = insert(t, key, &item, err);
    sw_mutex_unlock(&t->lock);
    return rc;
}

void sw_tune_write(struct sw_tune *t, bool used, struct sw_json_writer *w)
{
    sw_mutex_lock(&t->lock);

    for (int i = 0; i < t->count; i++) {
        if (used && !t->items[i].used)
            continue;

        sw_json_open_object(w, NULL);
        sw_json_string(w, "key", t->items[i].key);
        sw_json_string(w, "way", t->items[i].name);
        sw_json_close_object(w);
    }

    sw_mutex_unlock(&t->lock);
}

int sw_tune_read(struct sw_tune *t, const struct sw_json *list, enum sw_tune_origin origin,
                 struct sw_err *err)
{
    for (const struct sw_json *c = list ? list->first : NULL; c; c = c->next) {
        const struct sw_json *key = sw_json_get(c, "key"), *name = sw_json_get(c, "way");
        if (!key || !name || key->type != SW_JSON_STRING || name->type != SW_JSON_STRING)
            continue;

        int rc = sw_tune_put(t, key->string, name->string, origin, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

void sw_tune_add_candidate(struct sw_tune_candidates *candidates, const char *name)
{
    for (int i = 0; i < candidates->count; i++)
        if (sw_str_eq(candidates->name[i], name))
            return;

    if (candidates->count < SW_TUNE_CANDIDATES)
        snprintf(candidates->name[candidates->count++], SW_TUNE_NAME, "%s", name);
}

/* ---- Measuring ---- */

void *sw_tune_allocate(struct sw_device *dev, size_t bytes)
{
    struct sw_err ignored;
    void *m = NULL;

    if (dev->host_memory)
        return sw_calloc(1, bytes);

    return sw_device_alloc(dev, bytes, "memory to measure with", &m, &ignored) == SW_OK ? m : NULL;
}

void sw_tune_free_memory(struct sw_device *dev, void *memory, size_t bytes)
{
    if (dev->host_memory)
        sw_free(memory);
    else
        sw_device_free(dev, memory, bytes);
}

enum { LINE_BYTES = 64 };

/* Lays out all arguments in one block: stores the offset of each and returns the size of the block.
 */
static size_t lay_out(const struct sw_plan *p, size_t at[SW_PLAN_ARRAYS])
{
    size_t bytes[SW_PLAN_ARRAYS], end = LINE_BYTES; /* host memory may start at any address */

    sw_plan_bytes(p, bytes);

    for (int i = 0; i < SW_PLAN_ARRAYS; i++) {
        at[i] = end;
        end += sw_aligned(bytes[i], LINE_BYTES);
    }

    return end;
}

static struct sw_plan_args args_in(void *block, const size_t at[SW_PLAN_ARRAYS])
{
    char *base = (char *)block - (uintptr_t)block % LINE_BYTES; /* aligns to a cache line */
    void *p[SW_PLAN_ARRAYS];

    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        p[i] = base + at[i];
    return sw_plan_args_of(p);
}

static int run_pass(struct sw_plan *p, enum sw_tune_pass pass, const struct sw_plan_args *a,
                    int64_t times, struct sw_err *err)
{
    for (int64_t i = 0; i < times; i++) {
        int rc = pass == SW_TUNE_FORWARD ? sw_plan_forward(p, a, err)
                 : pass == SW_TUNE_DATA  ? sw_plan_backward_data(p, a, err)
                                         : sw_plan_backward_weights(p, a, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_stream_wait(p->stream, err);
}

/* The number of runs between two waits if one run takes ns. */
static int64_t runs_per_batch(const struct sw_device *dev, int64_t ns)
{
    int64_t times = BATCH_MS * INT64_C(1000000) / ns;
    return dev->host_memory || times < 1 ? 1 : times < MAX_RUNS ? times : MAX_RUNS;
}

/* Returns the nanoseconds per run of the fastest round; 0 if the pass cannot be run or is much
 * slower than best_so_far (0: none). */
static int64_t measure(struct sw_plan *p, enum sw_tune_pass pass, int64_t best_so_far)
{
    struct sw_err ignored;
    size_t at[SW_PLAN_ARRAYS], bytes = lay_out(p, at);
    void *block = sw_tune_allocate(p->stream->dev, bytes);
    if (!block)
        return 0;

    struct sw_plan_args a = args_in(block, at);
    int64_t best = 0, began = 0, times = 1;
    int rc = sw_fill_zero(p->stream, block, bytes, &ignored);
    if (rc == SW_OK && pass != SW_TUNE_FORWARD)
        rc = run_pass(p, SW_TUNE_FORWARD, &a, 1, &ignored); /* writes p->saved for backward */
    if (rc == SW_OK && !p->stream->dev->host_memory)
        rc = run_pass(p, pass, &a, 1, &ignored); /* libraries load a kernel at its first run */

    for (int i = 0; i <= ROUNDS && rc == SW_OK; i++) {
        int64_t from = sw_os()->monotonic_ns();

        rc = run_pass(p, pass, &a, times, &ignored);

        int64_t now = sw_os()->monotonic_ns();
        int64_t ns = now - from > times ? (now - from) / times : 1;
        began = i == 0 ? now : began;
        best = rc == SW_OK && i > 0 && (best == 0 || ns < best) ? ns : best;

        bool too_slow = i == 0 && best_so_far > 0 && ns / ABANDON_FACTOR > best_so_far;
        if (too_slow || (i > 0 && now - began > LIMIT_MS * INT64_C(1000000)))
            break;

        times = runs_per_batch(p->stream->dev, ns);
    }

    sw_tune_free_memory(p->stream->dev, block, bytes);
    return rc == SW_OK ? best : 0;
}

/* The passes of a plan that measures one pass. */
static struct sw_plan_passes passes_for(enum sw_tune_pass pass, struct sw_plan_passes passes)
{
    return (struct sw_plan_passes){.backward_data = pass == SW_TUNE_DATA,
                                   .backward_weights = pass == SW_TUNE_WEIGHTS,
                                   .training = passes.training};
}

/* Stores the fastest implementation in *out, which already has the name of the default, and the
 * times. Returns 0 if nothing could be measured. */
static int64_t find_fastest(const struct sw_tune_maker *m, const struct sw_tune_choice *chosen,
                            enum sw_tune_pass pass, struct sw_plan_passes passes,
                            const struct sw_tune_candidates *candidates, struct sw_tune_item *out)
{
    struct sw_desc baseline_dst = {0};

    for (int i = 0; i < candidates->count; i++) {
        struct sw_tune_choice tried = *chosen;
        struct sw_plan *p = NULL;
        struct sw_err ignored;

        memcpy(tried.name[pass], candidates->name[i], SW_TUNE_NAME);
        if (m->make(m->user, &tried, passes_for(pass, passes), &p, &ignored) != SW_OK) {
            if (i == 0)
                return 0; /* without the default there is no baseline */
            continue;
        }

        if (i == 0)
            baseline_dst = p->dst;

        int64_t ns = sw_desc_equal(&p->dst, &baseline_dst) ? measure(p, pass, out->ns) : 0;
        sw_plan_free(p);
        if (i == 0)
            out->rule_ns = ns;
        if (ns == 0 || (out->ns && ns >= out->ns - out->ns / MIN_GAIN_DIVISOR))
            continue;

        out->ns = ns;
        memcpy(out->name, candidates->name[i], SW_TUNE_NAME);
    }

    return out->rule_ns ? out->ns : 0;
}

/* ---- Choosing ---- */

/* t->lock is held. Stores the implementation of the pass in `chosen`; the name stays "" if there is
 * only one or none is known. */
static int choose_pass(struct sw_tune *t, const struct sw_tune_maker *m, enum sw_tune_pass pass,
                       struct sw_plan_passes passes, struct sw_tune_choice *chosen,
                       struct sw_err *err)
{
    char key[SW_TUNE_KEY];
    bool exists;
    int length = snprintf(key, sizeof key, "%s %s", pass_names[pass], m->key);
    if (length < 0 || (size_t)length >= sizeof key)
        return SW_OK;

    int at = find_position(t, key, &exists);
    if (exists) {
        t->items[at].used = true;
        memcpy(chosen->name[pass], t->items[at].name, SW_TUNE_NAME);
        return SW_OK;
    }

    if (!t->measures)
        return SW_OK;

    struct sw_tune_candidates candidates = {0};
    m->list(m->user, chosen, pass, &candidates);
    if (candidates.count < 2)
        return SW_OK;

    struct sw_tune_item item = {.origin = SW_TUNE_MEASURED, .used = true};
    int64_t began = sw_os()->monotonic_ns();
    memcpy(item.rule, candidates.name[0], SW_TUNE_NAME);

    bool found = find_fastest(m, chosen, pass, passes, &candidates, &item) > 0;
    t->spent_ns += sw_os()->monotonic_ns() - began;
    if (!found)
        return SW_OK;

    memcpy(chosen->name[pass], item.name, SW_TUNE_NAME);

    int rc = insert(t, key, &item, err);
    t->measured += rc == SW_OK;
    return rc;
}

static int choose(struct sw_tune *t, const struct sw_tune_maker *m, struct sw_plan_passes passes,
                  struct sw_tune_choice *out, struct sw_err *err)
{
    const bool requested[SW_TUNE_PASSES] = {true, passes.backward_data, passes.backward_weights};
    int rc = SW_OK;

    sw_mutex_lock(&t->lock);

    for (int pass = 0; pass < SW_TUNE_PASSES && rc == SW_OK; pass++)
        if (requested[pass])
            rc = choose_pass(t, m, (enum sw_tune_pass)pass, passes, out, err);

    sw_mutex_unlock(&t->lock);
    return rc;
}

int sw_tune_plan(struct sw_stream *s, struct sw_plan_passes passes, const struct sw_tune_maker *m,
                 struct sw_plan **out, struct sw_err *err)
{
    const struct sw_tune_choice rule = {0};
    struct sw_tune_choice choice = {0};
    struct sw_err ignored;
    struct sw_tune *t = s->dev->tune;

    if (t) {
        int rc = choose(t, m, passes, &choice, err);
        if (rc != SW_OK)
            return rc;
        /* A choice from another version of the library may not exist any more. */
        if (memcmp(&choice, &rule, sizeof rule) != 0 &&
            m->make(m->user, &choice, passes, out, &ignored) == SW_OK)
            return SW_OK;
    }

    return m->make(m->user, &rule, passes, out, err);
}

void sw_tune_key_conv(struct sw_bytes *key, const struct sw_conv_shape *c)
{
    sw_bytes_printf(key,
                    "%lldx%lldx%lld by %lldx%lld stride %lldx%lld pad %lldx%lld dilation "
                    "%lldx%lld groups %lld%s%s",
                    (long long)c->outputs, (long long)c->out_h, (long long)c->out_w,
                    (long long)c->kernel_h, (long long)c->kernel_w, (long long)c->stride_h,
                    (long long)c->stride_w, (long long)c->pad_h, (long long)c->pad_w,
                    (long long)c->dilation_h, (long long)c->dilation_w, (long long)c->groups,
                    c->bias ? " bias" : "", c->fuse_relu ? " relu" : "");
}
