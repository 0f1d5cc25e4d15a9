/* A group has one lock and a generation counter: the last worker to reach a barrier begins the next
 * generation and wakes the others. Sums of a step are deposited in a slot of a ring without the
 * lock, each worker's in its own rows; the atomic count of deposits identifies the last one. A
 * waiting worker runs the servers that it hosts in between. */
#include "worker/group.h"

#include "base/os.h"
#include "base/tree.h"
#include <string.h>

enum { SERVE_EVERY_MS = 1 };

void sw_group_init(struct sw_group *g, int workers, int leaves)
{
    *g = (struct sw_group){.workers = workers, .leaves = leaves, .warmup_workers = workers};
    sw_mutex_init(&g->lock);
    sw_cond_init(&g->changed);

    for (int i = 0; i <= SW_GROUP_RING; i++) {
        g->ring[i].decided = INT64_MIN;
        sw_mutex_init(&g->ring[i].lock);
    }

    g->ready = true;
}

void sw_group_fini(struct sw_group *g)
{
    if (!g->ready)
        return;

    for (int i = 0; i <= SW_GROUP_RING; i++)
        sw_mutex_fini(&g->ring[i].lock);
    sw_cond_fini(&g->changed);
    sw_mutex_fini(&g->lock);
    sw_free(g->memory);
    sw_free(g->layer_sums);
    sw_free(g->turns);
    sw_free(g->steps);
    g->ready = false;
}

void sw_group_close_v(void *group)
{
    struct sw_group *g = group;

    sw_mutex_lock(&g->lock);
    g->closed = true;
    sw_cond_broadcast(&g->changed);
    sw_mutex_unlock(&g->lock);
}

/* Waits once for a change, or serves and waits a little. `over` tells whether the wait is over. The
 * lock is held. */
static int wait_once(struct sw_group *g, int worker, bool (*over)(struct sw_group *g, int64_t what),
                     int64_t what)
{

    if (!g->serve) {
        sw_cond_wait(&g->changed, &g->lock);
        return SW_OK;
    }

    sw_mutex_unlock(&g->lock);

    int rc = g->serve(g->serve_user, worker);
    sw_mutex_lock(&g->lock);
    if (rc != SW_OK)
        return rc;

    if (!over(g, what) && !g->closed)
        sw_cond_wait_ms(&g->changed, &g->lock, SERVE_EVERY_MS);
    return SW_OK;
}

static bool has_met(struct sw_group *g, int64_t generation)
{
    return g->generation != (unsigned)generation;
}

/* Waits for the next generation, and serves meanwhile. The lock is held. */
static int wait_for_generation(struct sw_group *g, int worker, unsigned generation)
{
    int rc = SW_OK;
    while (rc == SW_OK && !has_met(g, generation) && !g->closed)
        rc = wait_once(g, worker, has_met, generation);
    return rc;
}

struct condition {
    bool (*over)(const void *what);
    const void *what;
};

static bool holds(struct sw_group *g, int64_t what)
{
    const struct condition *c = (const struct condition *)(intptr_t)what;
    return c->over(c->what);
}

int sw_group_wait(struct sw_group *g, int worker, bool (*over)(const void *what), const void *what)
{
    struct condition c = {over, what};
    int rc = SW_OK;

    sw_mutex_lock(&g->lock);
    while (rc == SW_OK && !over(what) && !g->closed)
        rc = wait_once(g, worker, holds, (int64_t)(intptr_t)&c);
    if (rc == SW_OK && g->closed && !over(what))
        rc = SW_ERR_CANCELLED;
    sw_mutex_unlock(&g->lock);

    return rc;
}

void sw_group_notify(struct sw_group *g)
{
    sw_mutex_lock(&g->lock);
    sw_cond_broadcast(&g->changed);
    sw_mutex_unlock(&g->lock);
}

int sw_group_barrier(struct sw_group *g, int worker)
{
    int rc = SW_OK;

    sw_mutex_lock(&g->lock);

    unsigned generation = g->generation;
    if (++g->arrived == g->workers) {
        g->arrived = 0;
        g->generation++;
        sw_cond_broadcast(&g->changed);
    } else {
        rc = wait_for_generation(g, worker, generation);
    }

    if (rc == SW_OK && g->closed && g->generation == generation)
        rc = SW_ERR_CANCELLED;
    sw_mutex_unlock(&g->lock);

    return rc;
}

int sw_group_make_asynchronous(struct sw_group *g, int64_t first, struct sw_err *err)
{
    g->steps = sw_calloc((size_t)g->workers, sizeof *g->steps);
    if (!g->steps)
        return sw_err_nomem(err, "the steps of workers", (size_t)g->workers * sizeof *g->steps);

    for (int w = 0; w < g->workers; w++)
        g->steps[w] = w < g->warmup_workers || first > g->warmup_steps ? first : g->warmup_steps;
    return SW_OK;
}

void sw_group_set_warmup(struct sw_group *g, int workers, int64_t steps)
{
    g->warmup_workers = workers;
    g->warmup_steps = steps;
}

void sw_group_wake(struct sw_group *g, int64_t step)
{
    sw_mutex_lock(&g->lock);

    const bool first = g->woken_step < step;
    if (first) {
        g->woken_step = step;
        sw_cond_broadcast(&g->changed);
    }

    sw_mutex_unlock(&g->lock);

    if (first && g->outer.wake)
        g->outer.wake(g->outer.user, step);
}

int sw_group_sleep(struct sw_group *g, int64_t *step)
{
    sw_mutex_lock(&g->lock);
    while (g->woken_step <= *step && !g->closed)
        sw_cond_wait(&g->changed, &g->lock);

    int rc = g->woken_step > *step ? SW_OK : SW_ERR_CANCELLED;
    if (rc == SW_OK)
        *step = g->woken_step;
    sw_mutex_unlock(&g->lock);

    return rc;
}

/* Number of workers that deposit after step t, or after an evaluation. */
static int depositors(const struct sw_group *g, int64_t t)
{
    return t != SW_GROUP_EVALUATION && t <= g->warmup_steps ? g->warmup_workers : g->workers;
}

static bool all_at(struct sw_group *g, int64_t step)
{
    for (int w = 0; w < g->workers; w++)
        if (__atomic_load_n(&g->steps[w], __ATOMIC_SEQ_CST) < step)
            return false;
    return true;
}

bool sw_group_keeps_pace(struct sw_group *g, int worker, int64_t step, int64_t most)
{
    /* Sequentially consistent with the load of pacing, as in sw_table_wake: one of the two sees the
     * other. */
    __atomic_store_n(&g->steps[worker], step, __ATOMIC_SEQ_CST);

    if (__atomic_load_n(&g->pacing, __ATOMIC_SEQ_CST) > 0) {
        sw_mutex_lock(&g->lock);
        sw_cond_broadcast(&g->changed);
        sw_mutex_unlock(&g->lock);
    }

    return all_at(g, step - most);
}

int sw_group_keep_pace(struct sw_group *g, int worker, int64_t step, int64_t most)
{
    int rc = SW_OK;

    if (sw_group_keeps_pace(g, worker, step, most))
        return SW_OK;

    sw_mutex_lock(&g->lock);
    __atomic_add_fetch(&g->pacing, 1, __ATOMIC_SEQ_CST);
    while (rc == SW_OK && !all_at(g, step - most) && !g->closed)
        rc = wait_once(g, worker, all_at, step - most);
    __atomic_sub_fetch(&g->pacing, 1, __ATOMIC_SEQ_CST);
    if (rc == SW_OK && !all_at(g, step - most))
        rc = SW_ERR_CANCELLED;
    sw_mutex_unlock(&g->lock);

    return rc;
}

/* Number of reduction leaves of these workers, which are the first ones. */
static int deposited_leaves(const struct sw_group *g, int64_t t)
{
    int64_t first, count;
    sw_part(g->leaves, g->workers, depositors(g, t) - 1, &first, &count);
    return (int)(first + count);
}

static struct sw_group_slot *slot_of(struct sw_group *g, int64_t t)
{
    return &g->ring[t == SW_GROUP_EVALUATION ? SW_GROUP_RING : t % SW_GROUP_RING];
}

int sw_group_reserve_pairs(struct sw_group *g, int count, struct sw_err *err)
{
    size_t row = (size_t)g->leaves * (size_t)count, n = row * (SW_GROUP_RING + 1);

    if (count <= g->pair_room)
        return SW_OK;

    struct sw_result *memory = sw_calloc(n, sizeof *memory);
    if (!memory)
        return sw_err_nomem(err, "losses and metrics of a group", n * sizeof *memory);

    sw_free(g->memory);
    g->memory = memory;
    g->pair_room = count;
    for (int i = 0; i <= SW_GROUP_RING; i++)
        g->ring[i].sums = memory + row * (size_t)i;

    return SW_OK;
}

/* Copies the rows of a worker's leaves, `bytes` each, to their rows of a table. */
static void copy_leaves(const struct sw_group *g, int worker, void *table, size_t row_bytes,
                        const void *own, size_t bytes)
{
    int64_t first, count;

    sw_part(g->leaves, g->workers, worker, &first, &count);

    for (int64_t i = 0; i < count; i++)
        memcpy((char *)table + (size_t)(first + i) * row_bytes,
               (const char *)own + (size_t)i * bytes, bytes);
}

bool sw_group_deposit(struct sw_group *g, int worker, int64_t t, const struct sw_result *sums,
                      int count)
{
    struct sw_group_slot *s = slot_of(g, t);

    copy_leaves(g, worker, s->sums, (size_t)g->pair_room * sizeof *sums, sums,
                (size_t)count * sizeof *sums);
    /* Releases what was written; the last worker acquires what all wrote. */
    if (__atomic_add_fetch(&s->done, 1, __ATOMIC_ACQ_REL) < depositors(g, t))
        return false;

    __atomic_store_n(&s->done, 0, __ATOMIC_RELAXED);
    return true;
}

int sw_group_total(struct sw_group *g, int64_t t, struct sw_result *totals, int count,
                   struct sw_err *err)
{
    enum { DOUBLES = sizeof *totals / sizeof totals->sum };

    const struct sw_group_slot *s = slot_of(g, t);
    if (count > 0)
        sw_tree_sum(&s->sums->sum, deposited_leaves(g, t), DOUBLES * g->pair_room, DOUBLES * count,
                    &totals->sum);

    const enum sw_group_channel channel =
        t == SW_GROUP_EVALUATION ? SW_GROUP_EVALUATIONS : SW_GROUP_RESULTS;
    return g->outer.sum ? g->outer.sum(g->outer.user, channel, &totals->sum, DOUBLES * count, err)
                        : SW_OK;
}

int sw_group_reserve_sums(struct sw_group *g, int count, struct sw_err *err)
{
    enum { LINE = 8 };

    size_t room = ((size_t)count + LINE - 1) / LINE * LINE, leaves = (size_t)g->leaves;

    if (count == 0)
        return SW_OK;

    g->sum_room = (int)room;
    g->layer_sums = sw_calloc(2 * leaves * room, sizeof *g->layer_sums);

    g->turns = sw_calloc((size_t)g->workers, sizeof *g->turns);
    if (!g->layer_sums || !g->turns)
        return sw_err_nomem(err, "the sums of a group", 2 * leaves * room * sizeof(double));

    return SW_OK;
}

/* The first worker sums over all leaves and goes on beyond the group; the others read its result
 * in the first row of the buffer. */
static int sum_outside(struct sw_group *g, int worker, double *buffer, double *values, int count)
{
    struct sw_err ignored; /* the job has the error of a lost host already */
    int rc = SW_OK;

    if (worker == 0) {
        sw_tree_sum(buffer, g->leaves, g->sum_room, count, values);
        rc = g->outer.sum(g->outer.user, SW_GROUP_PASSES, values, count, &ignored);
        memcpy(buffer, values, (size_t)count * sizeof *values);
    }

    if (rc == SW_OK)
        rc = sw_group_barrier(g, worker);
    if (rc == SW_OK)
        memcpy(values, buffer, (size_t)count * sizeof *values);
    return rc;
}

/* Two buffers take turns, so one barrier is enough: a worker that deposits into a buffer again has
 * passed a barrier with all others in between, so all have read its contents. */
int sw_group_sum(struct sw_group *g, int worker, double *values, int count)
{
    size_t room = (size_t)g->sum_room;
    double *buffer = g->layer_sums + (size_t)g->turns[worker] * (size_t)g->leaves * room;

    g->turns[worker] ^= 1;
    copy_leaves(g, worker, buffer, room * sizeof *values, values, (size_t)count * sizeof *values);

    int rc = sw_group_barrier(g, worker);
    if (rc != SW_OK)
        return rc;

    if (g->outer.sum)
        return sum_outside(g, worker, buffer, values, count);

    sw_tree_sum(buffer, g->leaves, (int)room, count, values);
    return SW_OK;
}

struct sw_group_decision sw_group_decide(struct sw_group *g, int64_t t,
                                         struct sw_group_decision (*decide)(void *user, int64_t t),
                                         void *user)
{
    struct sw_group_slot *s = slot_of(g, t);

    sw_mutex_lock(&s->lock);

    if (s->decided != t) {
        s->decision = decide(user, t);
        s->decided = t;
    }

    struct sw_group_decision d = s->decision;
    sw_mutex_unlock(&s->lock);
    return d;
}
