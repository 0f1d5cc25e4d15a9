/* A few ranks that exchange gradients without nets or jobs: a table of small parameters, a device
 * and an exchange for every rank, and servers with threads or run by the ranks. Values, gradients
 * and factors are small integers and the learning rate is 1, so that every sum is exact in every
 * order and the values of each version are known. */
#pragma once

#include "unit/device/sim_support.h"
#include "unit/exchange/table_support.h"

#include "device/cpu/cpu.h"
#include "exchange/route.h"
#include <math.h>

enum {
    RANKS = 4,
    STEPS = 6,
    ROWS = 2,
    INPUTS = 5,
    OUTPUTS = 6,
    MOST = 64,
    BAD_STEP = 3,
    MEET_STEP = 3
};

/* Parameters: a fully-connected layer, a frozen one, one of all, one that rank 0 alone has. */
enum { WEIGHT, BIAS, FROZEN, FREE, OWNED, PARAMS };

/* What a case has beside, as bits. */
enum extra {
    LATE = 1,      /* pushes come behind the last backward: overlap = no */
    SHARED = 2,    /* two layers read FREE */
    MEETS = 4,     /* behind step MEET_STEP all ranks read the same values */
    MOVES = 8,     /* and then a row of the first rank goes to the last one */
    CAPTURED = 16, /* what a push queues on the device becomes a graph */
};

struct setup {
    const char *name;
    int ranks;
    bool sim;                         /* each rank has a simulated GPU; else the host's memory */
    enum sw_copy_mode copy;           /* ASYNC, SYNC or NONE */
    bool reduces;                     /* with NONE: devices add up what all have */
    int factors;                      /* 1 + enum sw_factor_home of the layer; 0: none */
    const struct sw_table_rule *rule; /* NULL: bsp */
    int64_t staleness;
    int leaves;         /* of the tree; 0: one a rank */
    bool hosted;        /* ranks run the servers; else threads of their own */
    double clip_norm;   /* so large that nothing is clipped: for the two phases */
    int64_t from;       /* the version of the values at first: a run that is resumed */
    int extras;         /* enum extra */
    bool drops, vetoes; /* step BAD_STEP is dropped: a gradient, or a loss, is NaN */
    int absent_from; /* the last rank pushes nothing from that step on, and the rest cannot go on;
                        0: it does */
    const char *route[PARAMS]; /* what FREE, WEIGHT ... have to take at rank 0; NULL: any */
};

struct rank {
    struct crowd *crowd;
    int rank;
    struct sw_device *dev;
    struct sw_stream *stream;
    struct sw_exchange *x;
    struct sw_graph *graph;
    int params[PARAMS + 1], count, pushes[PARAMS], push_count;
    int served[RANKS], served_count;
    struct sw_thread thread;
    int rc;
    struct sw_err err;
    int64_t step, most_lag;
    int charges, waits;
    float host[STEPS][PARAMS][RANKS * 4][MOST]; /* what is copied to the device */
};

struct crowd {
    const struct setup *s;
    struct stand stand;
    struct sw_fault fault;
    struct sw_sums sums;
    struct sw_bucket bucket[2];
    int64_t elements[2], at_of[PARAMS];
    int order[2], bucket_of[PARAMS];
    struct sw_factors *factors;
    struct rank *rank; /* [ranks] */
    struct sw_thread server[RANKS];
    int servers;
    struct sw_mutex lock;
    struct sw_cond changed;
    int met, round;
    double sum[PARAMS * 3];
    bool over; /* of a wait that cannot end */
};

static const int64_t sizes[PARAMS] = {OUTPUTS * INPUTS, OUTPUTS, 4, 33, 7};

/* ---- Numbers ---- */

static inline float gradient_at(int64_t t, int rank, int p, int k, int64_t i)
{
    return (float)((t * 11 + rank * 7 + p * 5 + k * 3 + i) % 9 - 4);
}
static inline float x_of(int64_t t, int64_t row, int64_t i)
{
    return (float)((t * 5 + row * 3 + i) % 5 - 2);
}
static inline float dy_of(int64_t t, int64_t row, int64_t o)
{
    return (float)((t * 7 + row + o * 2) % 7 - 3);
}
static inline bool is_async(const struct setup *s)
{
    return s->rule && s->rule->is_async;
}
static inline bool has(const struct setup *s, enum extra extra)
{
    return s->extras & extra;
}
/* Where a batch has more leaves than ranks no net is split, so that nobody has a parameter alone.
 */
static inline bool is_owned(const struct setup *s, int p)
{
    return p == OWNED && s->leaves == 0;
}
/* Rank 0 of its group has it; asynchronous groups have one rank each. */
static inline bool lacks(const struct setup *s, int rank, int p)
{
    return is_owned(s, p) && rank > 0 && !is_async(s);
}
static inline bool has_factors(const struct setup *s, int p)
{
    return s->factors > 0 && p <= BIAS;
}

/* Rows of the batch of step t that the rank has, from *first on. */
static inline int64_t rows_of(const struct setup *s, int rank, int64_t t, int64_t *first)
{
    const bool moved = has(s, MOVES) && t > s->from + MEET_STEP;
    *first = (int64_t)rank * ROWS - (moved && rank > 0);
    return ROWS + (moved && rank == s->ranks - 1) - (moved && rank == 0);
}

/* Asynchronous groups have one rank each, which has the whole batch. */
static inline int64_t batch_rows(const struct setup *s)
{
    return is_async(s) ? ROWS : (int64_t)ROWS * s->ranks;
}
static inline int64_t row_in_batch(const struct setup *s, int64_t row)
{
    return is_async(s) ? 0 : row;
}

/* Element i of the gradient that the rank adds in step t. */
static inline double share_of(const struct crowd *c, int64_t t, int rank, int p, int64_t i)
{
    double sum = 0;
    if (p == FROZEN || lacks(c->s, rank, p))
        return 0;
    if (has_factors(c->s, p)) {
        int64_t first, rows = rows_of(c->s, rank, t, &first);
        for (int64_t r = first; r < first + rows; r++)
            sum += p == WEIGHT ? (double)dy_of(t, r, i / INPUTS) * (double)x_of(t, r, i % INPUTS)
                               : (double)dy_of(t, r, i);
        return sum;
    }
    for (int k = 0; k < sw_table_partials(c->stand.table, rank); k++)
        sum += (double)gradient_at(t, rank, p, k, i);
    return sum;
}

static inline bool is_dropped(const struct setup *s, int64_t t)
{
    return (s->drops || s->vetoes) && t == s->from + BAD_STEP;
}

/* Element i of the parameter at that version: all values begin with 0 at version `from`. */
static inline float value_at(const struct crowd *c, int64_t version, int p, int64_t i)
{
    double value = 0;
    for (int64_t t = c->s->from + 1; t <= version; t++)
        for (int r = 0; r < c->s->ranks && !is_dropped(c->s, t); r++)
            value -= share_of(c, t, r, p, i);
    return (float)value;
}

/* ---- What the ranks lend ---- */

static inline int serve_inboxes(void *user, struct sw_err *err)
{
    struct rank *r = user;
    struct sw_message m;
    for (int i = 0; i < r->served_count; i++) {
        struct sw_table *t = r->crowd->stand.table;
        int rc;
        while ((rc = sw_queue_try_pop(sw_table_inbox(t, r->served[i]), &m)) == SW_OK) {
            rc = sw_table_serve(t, r->served[i], &m, err);
            if (rc != SW_OK)
                return rc;
        }
        if (rc != SW_ERR_BUSY)
            return sw_err_set(err, rc, "the job is ending");
    }
    return SW_OK;
}

static inline void charge_time(void *user, enum sw_exchange_time part)
{
    struct rank *r = user;
    r->charges++;
}

static inline void note_waiting(void *user, int param, uint64_t version, const char *text)
{
    struct rank *r = user;
    if (!text)
        return;

    sw_mutex_lock(&r->crowd->lock);
    r->waits++;
    sw_cond_broadcast(&r->crowd->changed);
    sw_mutex_unlock(&r->crowd->lock);
}

static inline int finish_device(void *user, bool loss, struct sw_err *err)
{
    struct rank *r = user;
    int rc = sw_exchange_queue_report(r->x, err);
    return rc == SW_OK ? sw_stream_wait(r->stream, err) : rc;
}

static inline int say_finite(void *user, bool *finite, struct sw_err *err)
{
    const struct rank *r = user;
    *finite = !(r->crowd->s->vetoes && r->rank == 0 && is_dropped(r->crowd->s, r->step));
    return SW_OK;
}

/* All ranks come, and the last one lets all go; serves meanwhile. */
static inline int meet_all(struct rank *r, double *values, int count, struct sw_err *err)
{
    struct crowd *c = r->crowd;
    int rc = SW_OK;
    sw_mutex_lock(&c->lock);
    int round = c->round;
    for (int i = 0; i < count; i++)
        c->sum[i] = (c->met == 0 ? 0 : c->sum[i]) + values[i];
    if (++c->met == c->s->ranks) {
        c->met = 0;
        c->round++;
        sw_cond_broadcast(&c->changed);
    }
    while (c->round == round && rc == SW_OK && !sw_fault_is_set(&c->fault)) {
        sw_cond_wait_ms(&c->changed, &c->lock, 1);
        sw_mutex_unlock(&c->lock);
        rc = serve_inboxes(r, err);
        sw_mutex_lock(&c->lock);
    }
    for (int i = 0; i < count; i++)
        values[i] = c->sum[i];
    sw_mutex_unlock(&c->lock);
    return rc;
}

static inline int sum_votes(void *user, double *values, int count, struct sw_err *err)
{
    struct rank *r = user;
    int rc = meet_all(r, values, count, err);
    double nothing = 0; /* nobody adds to the next sum before all have read this one */
    return rc == SW_OK ? meet_all(r, &nothing, 0, err) : rc;
}
