/* Factors between devices: the copies that bring every rank all rows, and the order of updates.
 * Events order what devices do:
 *
 *     made[r]     on r's compute stream: its rows are complete, and it reads no rows of its group's
 *                 previous round any more
 *     arrived[r]  on r's copy stream, for each of its arrays: it has all rows of an update
 *     used[r]     on r's compute stream, for each array of another group: it was read
 *
 * A rank that takes an update of its own group waits for `arrived` of all ranks, because it may
 * then overwrite rows that others have read. Copies into another group's array first wait for
 * `used` of the update that was there before.
 *
 * Copies are queued, and waits for them, in the order of the updates, so that no device waits for
 * something that comes later. */
#include "exchange/reduce/factors_private.h"

#include "device/send_limit.h"

static int group_of(const struct sw_factors *f, int rank)
{
    return rank / f->group_size;
}

/* The place of an update's rows among a layer's arrays of a rank. */
static int array_of(const struct sw_factors *f, int rank, int group, uint64_t round)
{
    int own = group_of(f, rank);

    if (group == own)
        return 0;
    return 1 + (group - (group > own)) * f->depth + (int)(round % (uint64_t)f->depth);
}

static struct sw_factors_events *events_of(const struct sw_factors *f, int rank, int layer,
                                           int array)
{
    return &f->rank[rank].at[layer * f->arrays + array];
}

static struct sw_factors_progress *reader_of(const struct sw_factors *f, int rank, int layer,
                                             enum sw_factors_reader reader)
{
    return &f->rank[rank].reader[layer * SW_FACTORS_READERS + (int)reader];
}

/* Elements from the start of a rank's memory. */
static int64_t start_of(const struct sw_factors_layer_state *l, int array)
{
    return l->at + array * l->elements;
}

void sw_factors_set_rows(struct sw_factors *f, int rank, int64_t first, int64_t rows)
{
    f->rank[rank].first = first;
    f->rank[rank].rows = rows;
}

float *sw_factors_x(const struct sw_factors *f, int rank, int layer)
{
    return f->rank[rank].memory + start_of(&f->layer[layer], 0);
}

float *sw_factors_dy(const struct sw_factors *f, int rank, int layer)
{
    return sw_factors_x(f, rank, layer) + f->layer[layer].dy_at;
}

/* ---- Queueing a layer of a group, by one rank at a time ---- */

/* Copies rank q's rows from its own array, which begins at at[0], to one of rank r at at[1];
 * `columns` are those of a row of the batch. */
static int fetch(struct sw_factors *f, int r, int q, const int64_t at[2], int64_t columns,
                 struct sw_err *err)
{
    const struct sw_factors_rank *from = &f->rank[q], *to = &f->rank[r];
    int64_t first = from->first * columns;
    return sw_send_peer(to->stream, to->device, to->memory + at[1] + first, from->device,
                        from->memory + at[0] + first,
                        (size_t)(from->rows * columns) * sizeof(float), err);
}

static int fetch_both(struct sw_factors *f, int r, int q, const struct sw_factors_layer_state *l,
                      int array, struct sw_err *err)
{
    const int64_t x[2] = {start_of(l, 0), start_of(l, array)},
                  dy[2] = {x[0] + l->dy_at, x[1] + l->dy_at};

    int rc = fetch(f, r, q, x, l->shape.steps * l->shape.inputs, err);
    if (rc != SW_OK)
        return rc;
    return fetch(f, r, q, dy, l->shape.steps * l->shape.outputs, err);
}

/* Brings rank r the rows of a group's update. */
static int gather(struct sw_factors *f, int r, int i, int group, uint64_t round, struct sw_err *err)
{
    const int array = array_of(f, r, group, round);
    struct sw_factors_rank *own = &f->rank[r];
    struct sw_factors_events *at = events_of(f, r, i, array);

    int rc = sw_event_wait(own->stream, array == 0 ? own->made[i] : at->used, err);
    if (rc != SW_OK)
        return rc;

    /* In ring order, so that at any time each rank sends to one other. */
    for (int k = 1; k <= f->group_size; k++) {
        const int q = group * f->group_size + (r + k) % f->group_size;
        if (q == r || f->rank[q].rows == 0)
            continue;

        rc = sw_event_wait(own->stream, f->rank[q].made[i], err);
        if (rc != SW_OK)
            return rc;
        rc = fetch_both(f, r, q, &f->layer[i], array, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_event_record(own->stream, at->arrived, err);
}

static void append(struct sw_factors *f, struct sw_factors_layer_state *l, int group)
{
    sw_mutex_lock(&f->lock);
    l->log[l->updates++ % (uint64_t)f->log_entries] =
        (struct sw_factors_entry){group, l->rounds[group]};
    sw_mutex_unlock(&f->lock);
}

static int gather_all(void *factors, int item, struct sw_err *err)
{
    struct sw_factors *f = factors;
    const int i = item / f->groups, group = item % f->groups;
    const uint64_t round = ++f->layer[i].rounds[group];

    for (int r = 0; r < f->ranks; r++) {
        int rc = gather(f, r, i, group, round, err);
        if (rc != SW_OK)
            return rc;
    }

    append(f, &f->layer[i], group);
    sw_rounds_next(&f->rounds, item);
    return SW_OK;
}

/* ---- What ranks do ---- */

int sw_factors_push(struct sw_factors *f, int rank, int layer, uint64_t round,
                    struct sw_stream *compute, struct sw_err *err)
{
    int rc = sw_event_record(compute, f->rank[rank].made[layer], err);
    if (rc != SW_OK)
        return rc;
    return sw_rounds_arrive(&f->rounds, layer * f->groups + group_of(f, rank), round, gather_all, f,
                            err);
}

/* Waits for a round of one group, and an earlier one of all others. */
static int wait_for(struct sw_factors *f, int layer, int group, uint64_t round, uint64_t others,
                    int timeout_ms)
{
    int rc = SW_OK;

    for (int g = 0; g < f->groups && rc == SW_OK; g++)
        rc = sw_rounds_wait(&f->rounds, layer * f->groups + g, g == group ? round : others,
                            timeout_ms);
    return rc;
}

static uint64_t round_of_others(const struct sw_factors *f, uint64_t round)
{
    uint64_t staleness = (uint64_t)f->staleness;

    return round > staleness ? round - staleness : 0;
}

int sw_factors_wait(struct sw_factors *f, int rank, int layer, uint64_t round, int timeout_ms)
{
    return wait_for(f, layer, group_of(f, rank), round, round_of_others(f, round), timeout_ms);
}

int sw_factors_wait_all(struct sw_factors *f, int layer, uint64_t round, int timeout_ms)
{
    return wait_for(f, layer, 0, round, round, timeout_ms);
}

static bool has_round(const struct sw_factors *f, const struct sw_factors_progress *reader,
                      int group, uint64_t round)
{
    bool has = reader->rounds[group] >= round;

    for (int g = 0; g < f->groups && has; g++)
        has = g == group || reader->rounds[g] >= round_of_others(f, round);
    return has;
}

bool sw_factors_next(struct sw_factors *f, int rank, int layer, enum sw_factors_reader reader,
                     uint64_t round, bool all, struct sw_factors_update *out)
{
    struct sw_factors_progress *own = reader_of(f, rank, layer, reader);
    struct sw_factors_layer_state *l = &f->layer[layer];
    struct sw_factors_entry e = {0};

    if (!all && has_round(f, own, group_of(f, rank), round))
        return false;

    sw_mutex_lock(&f->lock);
    bool more = own->updates < l->updates;
    if (more)
        e = l->log[own->updates % (uint64_t)f->log_entries];
    sw_mutex_unlock(&f->lock);
    if (!more)
        return false;

    const float *x = f->rank[rank].memory + start_of(l, array_of(f, rank, e.group, e.round));
    *out = (struct sw_factors_update){
        .group = e.group, .round = e.round, .before = own->updates++, .x = x, .dy = x + l->dy_at};
    own->rounds[e.group] = e.round;

    return true;
}

bool sw_factors_is_behind(struct sw_factors *f, int rank, int layer, enum sw_factors_reader reader)
{
    sw_mutex_lock(&f->lock);
    bool behind = reader_of(f, rank, layer, reader)->updates < f->layer[layer].updates;
    sw_mutex_unlock(&f->lock);

    return behind;
}

int sw_factors_take(struct sw_factors *f, int rank, int layer, const struct sw_factors_update *u,
                    struct sw_stream *compute, struct sw_err *err)
{
    const bool own = u->group == group_of(f, rank);

    for (int r = 0; r < f->ranks; r++) {
        if (!own && r != rank)
            continue;

        int array = array_of(f, r, u->group, u->round);
        int rc = sw_event_wait(compute, events_of(f, r, layer, array)->arrived, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_factors_release(struct sw_factors *f, int rank, int layer, const struct sw_factors_update *u,
                       struct sw_stream *compute, struct sw_err *err)
{
    int array = array_of(f, rank, u->group, u->round);

    return array == 0 ? SW_OK
                      : sw_event_record(compute, events_of(f, rank, layer, array)->used, err);
}

int64_t sw_factors_lag(const struct sw_factors *f, int rank, int layer,
                       enum sw_factors_reader reader)
{
    const struct sw_factors_progress *own = reader_of(f, rank, layer, reader);
    const uint64_t round = own->rounds[group_of(f, rank)];
    uint64_t least = round;

    for (int g = 0; g < f->groups; g++)
        least = own->rounds[g] < least ? own->rounds[g] : least;
    return (int64_t)(round - least);
}

int64_t sw_factors_round_bytes(const struct sw_factors *f, int from, int to)
{
    int64_t columns = 0;

    for (int i = 0; i < f->count && from != to; i++) {
        const struct sw_factors_layer *l = &f->layer[i].shape;
        columns += l->steps * (l->inputs + l->outputs);
    }

    return f->rank[from].rows * columns * (int64_t)sizeof(float);
}

void sw_factors_close_v(void *factors)
{
    struct sw_factors *f = factors;
    sw_rounds_close(&f->rounds);
}
