/* How servers handle the messages of a table and answer them, after Algorithms 3 and 4 of the tech
 * report. The update of a slice needs the contributions of its update group: of all workers
 * under BSP, of one worker group otherwise. An early update is kept until its turn and never lost.
 * An answer that would be staler than allowed is withheld. */
#include "exchange/table/factors.h"
#include "exchange/table/table_private.h"

#include "base/os.h"
#include <string.h>

static struct sw_turn *turn_of(const struct sw_table *t, const struct sw_server_state *s, int param,
                               int group)
{
    return &s->turns[param * t->update_groups + group];
}

/* Senders of updates are workers, and remote update groups after them. */
static int group_of(const struct sw_table *t, int sender)
{
    return sender < t->args.workers ? sw_table_update_group(t, sender)
                                    : t->local_groups + sender - t->args.workers;
}

static bool contributes(const struct sw_table *t, int param, int sender)
{
    return sender < t->args.workers ? sw_table_contributes(t, param, sender)
                                    : !t->params[param].frozen;
}

/* How many senders contribute to an update of an update group. */
static int contributors(const struct sw_table *t, int param, int group)
{
    return sw_table_is_remote(t, group) ? 1 : t->params[param].contributors;
}

/* Begins to count the contributions to an update group's next update. */
static void reset_contributions(const struct sw_table *t, const struct sw_server_state *s,
                                int param, int group)
{
    bool remote = sw_table_is_remote(t, group);
    int first = remote ? t->args.workers + group - t->local_groups : group * t->update_group_size;

    turn_of(t, s, param, group)->contributions = 0;
    memset(&s->contributed[param * t->senders + first], 0,
           remote ? 1 : (size_t)t->update_group_size);
}

/* Where the sum of a slice's gradients goes: workers that make the update themselves have an array
 * of its own. */
static float *sum_of_slice(const struct sw_table *t, const struct sw_slice *s, int group)
{
    const struct sw_param *p = &t->params[s->param];

    return (t->args.updates_on_device ? p->sum : p->view[group].gradient) + s->from;
}

/* Sums the gradients of a slice for workers that make the update themselves, unless an outer sum
 * has left it there. */
static int sum_slice(const struct sw_table *t, const struct sw_slice *s, int group,
                     struct sw_err *err)
{
    return sw_table_sums_outside(t, s->param)
               ? SW_OK
               : sw_table_sum_slice(t, s, group, sum_of_slice(t, s, group), err);
}

/* Advances a complete slice to its next version, with the update or without. */
static int apply_slice(struct sw_table *t, int server, struct sw_slice *s, int group,
                       uint64_t version, const struct sw_table_control *d, struct sw_err *err)
{
    bool dropped = d && d->dropped;
    int64_t begin_ns = sw_os()->monotonic_ns();

    int rc = t->args.updates_on_device ? sum_slice(t, s, group, err)
             : dropped                 ? SW_OK
                                       : sw_table_update_slice(t, s, group, version, d, err);
    if (rc != SW_OK)
        return rc;

    s->version++;
    if (t->args.updates_on_device)
        return SW_OK;

    s->dropped += dropped;
    if (t->observer && !dropped)
        t->observer(t->observer_user, server, s->param, s->version, begin_ns,
                    sw_os()->monotonic_ns());

    return SW_OK;
}

static uint64_t slowest(const struct sw_table *t, const struct sw_server_state *s, int param)
{
    uint64_t least = UINT64_MAX;

    for (int r = 0; r < t->update_groups; r++) {
        uint64_t done = turn_of(t, s, param, r)->done;
        least = done < least && !sw_table_is_lost(t, r) ? done : least;
    }

    return least;
}

/* Publishes that the update group has the values of its last update. */
static void publish(struct sw_table *t, const struct sw_server_state *s, int param, int group)
{
    struct sw_turn *turn = turn_of(t, s, param, group);
    uint64_t slices = (uint64_t)(s->first[param + 1] - s->first[param]);
    uint64_t more = (turn->done - turn->answered) * slices;

    turn->answered = turn->done;
    __atomic_add_fetch(&t->params[param].view[group].ready, more, __ATOMIC_SEQ_CST);
}

/* Hands the values in the buffer of a remote update group over. */
static int send_values(struct sw_table *t, const struct sw_server_state *s, int param, int group,
                       struct sw_err *err)
{
    const struct sw_turn *turn = turn_of(t, s, param, group);
    int rc = SW_OK;

    for (int i = s->first[param]; i < s->first[param + 1] && rc == SW_OK; i++)
        rc = t->args.outer.answer(t->args.outer.user, group, s->slices[i], turn->done,
                                  turn->staleness, err);
    return rc;
}

/* Copies the current values to the update group's buffer, and publishes their version. */
static int answer(struct sw_table *t, const struct sw_server_state *s, int param, int group,
                  uint64_t least, struct sw_err *err)
{
    struct sw_param *p = &t->params[param];
    struct sw_param_view *r = &p->view[group];
    struct sw_turn *turn = turn_of(t, s, param, group);

    for (int i = s->first[param]; i < s->first[param + 1] && r->value != p->value; i++) {
        const struct sw_slice *slice = &t->slices[s->slices[i]];
        memcpy(r->value + slice->from, p->value + slice->from,
               (size_t)slice->count * sizeof(float));
    }

    uint64_t contributed = sw_sync_steps_of_others(t, (int)(s - t->servers), param);
    least = contributed < least ? contributed : least;
    turn->staleness = (int)(turn->done - least);

    /* Before the values are sent: the next gradient may be here at once. */
    publish(t, s, param, group);
    return sw_table_is_remote(t, group) ? send_values(t, s, param, group, err) : SW_OK;
}

/* Answers every update group that waits for it, unless the values would be too stale. */
static int answer_all(struct sw_table *t, const struct sw_server_state *s, int param,
                      struct sw_err *err)
{
    uint64_t least = slowest(t, s, param);
    int64_t bound = t->args.staleness;
    int rc = SW_OK;

    for (int r = 0; r < t->update_groups && rc == SW_OK; r++) {
        const struct sw_turn *turn = turn_of(t, s, param, r);
        bool stale = t->args.rule->is_async && bound >= 0 && turn->done > least &&
                     turn->done - least > (uint64_t)bound;
        if (turn->answered < turn->done && !stale && !sw_table_is_lost(t, r))
            rc = answer(t, s, param, r, least, err);
    }

    sw_table_wake(t);
    return rc;
}

/* Applies an update group's update to all slices of a parameter that the server owns. */
static int apply(struct sw_table *t, int server, int param, int group,
                 const struct sw_table_control *d, struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    struct sw_turn *turn = turn_of(t, s, param, group);
    int rc = SW_OK;

    for (int i = s->first[param]; i < s->first[param + 1]; i++) {
        rc = apply_slice(t, server, &t->slices[s->slices[i]], group, turn->done + 1, d, err);
        if (rc != SW_OK)
            return rc;
    }

    turn->done++;
    reset_contributions(t, s, param, group);

    /* Deltas are sent before the answers, because a worker that has its answers may check whether
     * deltas are in flight. */
    int sync_rc = sw_sync_after(t, server, param, slowest(t, s, param));
    rc = answer_all(t, s, param, err);
    return rc == SW_OK ? sw_table_ending(sync_rc, err) : rc;
}

/* The first of two phases. */
static int gather(struct sw_table *t, const struct sw_server_state *s, int param, int group,
                  struct sw_err *err)
{
    for (int i = s->first[param]; i < s->first[param + 1]; i++) {
        int rc = sw_table_gather(t, group, &t->slices[s->slices[i]], err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_table_complete(t, group, s->first[param + 1] - s->first[param], err);
}

/* All gradients of the parameter's slices on the server are summed. */
static int use_sums(struct sw_table *t, int server, int param, int group, struct sw_err *err)
{
    bool gathers = t->two_phases && !t->args.updates_on_device;

    return gathers ? gather(t, &t->servers[server], param, group, err)
                   : apply(t, server, param, group, NULL, err);
}

/* Sums this table's gradients of the parameter's slices on the server, for the sums over all
 * tables.
 */
static int give_sums(struct sw_table *t, const struct sw_server_state *s, int param, int group,
                     struct sw_err *err)
{
    uint64_t version = turn_of(t, s, param, group)->done + 1;

    for (int i = s->first[param]; i < s->first[param + 1]; i++) {
        const struct sw_slice *slice = &t->slices[s->slices[i]];
        float *x = sum_of_slice(t, slice, group);

        int rc = sw_table_sum_slice(t, slice, group, x, err);
        if (rc != SW_OK)
            return rc;
        rc = t->args.outer.give(t->args.outer.user, group, s->slices[i], version, x, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Makes the update of a parameter with factors once the rows of all tables are here, and no worker
 * of this one is still to come. */
static int use_rows(struct sw_table *t, int server, int param, struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    struct sw_turn *turn = turn_of(t, s, param, 0);

    if (turn->sums < s->first[param + 1] - s->first[param] ||
        turn->contributions < t->params[param].contributors)
        return SW_OK;

    turn->sums = 0;
    return use_sums(t, server, param, 0, err);
}

/* This table's rows of the parameter's factors are complete. The server with the first slice of a
 * layer hands them over; the bias has the same factors as its weight. */
static int give_rows(struct sw_table *t, int server, int param, struct sw_err *err)
{
    const struct sw_table_factors *f = sw_table_factors_of(t, param);
    const int first = f->weight >= 0 && !t->params[f->weight].frozen ? f->weight : f->bias;
    int rc = SW_OK;

    if (param == first && t->slices[t->params[param].first_slice].server == server)
        rc = t->args.outer.give_rows(t->args.outer.user, t->params[param].factors,
                                     turn_of(t, &t->servers[server], param, 0)->done + 1, err);

    return rc == SW_OK ? use_rows(t, server, param, err) : rc;
}

/* Counts one worker's contribution to all slices of the parameter that the server owns. */
static int contribute(struct sw_table *t, int server, const struct sw_message *m,
                      struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    int group = group_of(t, m->from);
    bool *contributed = &s->contributed[m->param * t->senders + m->from];
    if (*contributed)
        return sw_err_set(err, SW_ERR_INVALID,
                          "worker %d sent its gradient of %s for step %llu twice", m->from,
                          t->params[m->param].name, (unsigned long long)m->version);

    *contributed = true;
    if (++turn_of(t, s, m->param, group)->contributions < contributors(t, m->param, group))
        return SW_OK;

    if (sw_table_gathers_rows(t, m->param))
        return give_rows(t, server, m->param, err);

    return sw_table_has_outer(t) ? give_sums(t, s, m->param, group, err)
                                 : use_sums(t, server, m->param, group, err);
}

static int keep_early(struct sw_server_state *s, const struct sw_message *m, struct sw_err *err)
{
    if (s->early_count == s->early_capacity)
        return sw_err_set(err, SW_ERR_INVALID, "more than %d updates are ahead of their turn",
                          s->early_capacity);

    s->early[s->early_count++] = *m;
    return SW_OK;
}

static uint64_t done_of(const struct sw_table *t, const struct sw_server_state *s,
                        const struct sw_message *m)
{
    return turn_of(t, s, m->param, group_of(t, m->from))->done;
}

/* Handles early updates whose turn has come, until none is left. */
static int take_up_early(struct sw_table *t, int server, struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];

    for (int i = 0; i < s->early_count;) {
        struct sw_message m = s->early[i];
        if (m.version != done_of(t, s, &m) + 1) {
            i++;
            continue;
        }

        memmove(&s->early[i], &s->early[i + 1],
                (size_t)(s->early_count - i - 1) * sizeof *s->early);
        s->early_count--;

        int rc = contribute(t, server, &m, err);
        if (rc != SW_OK)
            return rc;

        i = 0;
    }

    return SW_OK;
}

static int counted_update(struct sw_table *t, int server, const struct sw_message *m,
                          struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    uint64_t done = done_of(t, s, m);
    if (m->version <= done)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "worker %d sent its gradient of %s for step %llu, which is already applied", m->from,
            t->params[m->param].name, (unsigned long long)m->version);

    if (m->version > done + 1)
        return keep_early(s, m, err);

    int rc = contribute(t, server, m, err);
    if (rc != SW_OK)
        return rc;

    if (s->early_count > 0)
        rc = take_up_early(t, server, err);
    return rc;
}

/* Counts a slice whose sum over all tables is here. */
static int take_sum(struct sw_table *t, int server, const struct sw_message *m, struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    int param = t->slices[m->param].param;
    struct sw_turn *turn = turn_of(t, s, param, 0);
    int rc = SW_OK;

    turn->sums++;
    if (sw_table_gathers_rows(t, param)) {
        rc = use_rows(t, server, param, err);
    } else if (turn->sums == s->first[param + 1] - s->first[param]) {
        turn->sums = 0;
        rc = use_sums(t, server, param, 0, err);
    }

    if (rc == SW_OK && s->early_count > 0)
        rc = take_up_early(t, server, err);
    return rc;
}

/* The values that contain an update group's update came from outside. */
static int take_values(struct sw_table *t, int server, const struct sw_message *m,
                       struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    struct sw_turn *turn = turn_of(t, s, m->param, m->from);

    for (int i = s->first[m->param]; i < s->first[m->param + 1]; i++)
        t->slices[s->slices[i]].version++;

    turn->done++;
    turn->staleness = m->staleness;
    reset_contributions(t, s, m->param, m->from);
    publish(t, s, m->param, m->from);
    sw_table_wake(t);

    return s->early_count > 0 ? take_up_early(t, server, err) : SW_OK;
}

/* Answers that were withheld because of a lost update group go out. */
static int answer_without(struct sw_table *t, const struct sw_server_state *s, struct sw_err *err)
{
    int rc = SW_OK;

    for (int p = 0; p < t->param_count && rc == SW_OK; p++)
        if (s->first[p] < s->first[p + 1])
            rc = answer_all(t, s, p, err);
    return rc;
}

static int lose_group(struct sw_table *t, int server, const struct sw_message *m,
                      struct sw_err *err)
{
    struct sw_lost_group *lost = &t->lost[m->param];
    int rc = m->version == 1 ? answer_without(t, &t->servers[server], err) : SW_OK;
    if (rc != SW_OK || __atomic_sub_fetch(&lost->left, 1, __ATOMIC_ACQ_REL) > 0)
        return rc;

    if (m->version == 1) {
        sw_table_post_loss(t, m->param, 2);
    } else {
        /* Releases the updates of all servers to threads that wait for all update groups. */
        __atomic_store_n(&lost->settled, 1, __ATOMIC_SEQ_CST);
        sw_table_wake(t);
    }

    return SW_OK;
}

/* The second phase: all slices of the server, the lowest layers first, which the next forward pass
 * needs first. */
static int apply_control(struct sw_table *t, int server, const struct sw_message *m,
                         struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    struct sw_table_control d;
    int group = m->param;
    if (!sw_table_control(t, group, m->version, &d))
        return sw_err_set(err, SW_ERR_INVALID, "update %llu has no result of update control",
                          (unsigned long long)m->version);

    for (int p = 0; p < t->param_count; p++) {
        if (s->first[p] == s->first[p + 1])
            continue;

        uint64_t done = turn_of(t, s, p, group)->done;
        if (done + 1 != m->version)
            return sw_err_set(err, SW_ERR_INVALID, "update %llu of %s arrived at version %llu",
                              (unsigned long long)m->version, t->params[p].name,
                              (unsigned long long)done);

        int rc = apply(t, server, p, group, &d, err);
        if (rc != SW_OK)
            return rc;
    }

    return s->early_count > 0 ? take_up_early(t, server, err) : SW_OK;
}

/* Applies a decided update to the parameters that the server has not updated yet. */
static int finish_server(struct sw_table *t, int server, const struct sw_table_control *d,
                         struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];

    for (int p = 0; p < t->param_count; p++) {
        if (s->first[p] == s->first[p + 1] || turn_of(t, s, p, 0)->done >= d->version)
            continue;

        int rc = apply(t, server, p, 0, d, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_table_finish(struct sw_table *t, uint64_t *version, struct sw_err *err)
{
    struct sw_table_control d;
    int rc = SW_OK;

    *version = __atomic_load_n(&t->phases[0].version, __ATOMIC_ACQUIRE) - 1;
    if (!sw_table_control(t, 0, *version, &d)) /* none was decided since the beginning */
        return SW_OK;

    for (int server = 0; server < t->args.servers && rc == SW_OK; server++)
        rc = finish_server(t, server, &d, err);
    return rc;
}

static const char *name_of(enum sw_message_kind kind)
{
    static const char *const names[] = {"update", "apply",  "sync", "delta",
                                        "sum",    "values", "lost"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

static bool is_sync(const struct sw_message *m)
{
    return m->kind == SW_MSG_SYNC || m->kind == SW_MSG_DELTA;
}

static bool can_take_sum(const struct sw_table *t, int server, const struct sw_message *m)
{
    if (!sw_table_has_outer(t) || t->args.updates_outside || m->param < 0 ||
        m->param >= t->slice_count)
        return false;

    const struct sw_slice *slice = &t->slices[m->param];
    const struct sw_turn *turn = turn_of(t, &t->servers[server], slice->param, 0);
    return slice->server == server && m->version == turn->done + 1 &&
           turn->sums < t->servers[server].first[slice->param + 1] -
                            t->servers[server].first[slice->param] &&
           (turn->contributions == t->params[slice->param].contributors ||
            sw_table_gathers_rows(t, slice->param));
}

static bool can_take_values(const struct sw_table *t, const struct sw_server_state *s,
                            const struct sw_message *m)
{
    if (!t->args.updates_outside || m->param < 0 || m->param >= t->param_count || m->from < 0 ||
        m->from >= t->update_groups)
        return false;

    const struct sw_turn *turn = turn_of(t, s, m->param, m->from);
    return s->first[m->param] < s->first[m->param + 1] && m->version == turn->done + 1 &&
           turn->contributions == t->params[m->param].contributors;
}

static bool can_handle(const struct sw_table *t, int server, const struct sw_message *m)
{
    const struct sw_server_state *s = &t->servers[server];

    if (m->kind == SW_MSG_APPLY)
        return t->two_phases && !t->args.updates_on_device && m->param >= 0 &&
               m->param < t->update_groups;
    if (is_sync(m))
        return sw_sync_can_handle(t, server, m);
    if (m->kind == SW_MSG_SUM)
        return can_take_sum(t, server, m);
    if (m->kind == SW_MSG_VALUES)
        return can_take_values(t, s, m);
    if (m->kind == SW_MSG_LOST)
        return m->param >= 0 && m->param < t->update_groups && sw_table_is_lost(t, m->param);

    return m->kind == SW_MSG_UPDATE && !t->args.rule->races && m->param >= 0 &&
           m->param < t->param_count && s->first[m->param] < s->first[m->param + 1] &&
           m->from >= 0 && m->from < t->senders && contributes(t, m->param, m->from);
}

static int handle(struct sw_table *t, int server, const struct sw_message *m, struct sw_err *err)
{
    switch (m->kind) {
    case SW_MSG_UPDATE:
        return counted_update(t, server, m, err);
    case SW_MSG_APPLY:
        return apply_control(t, server, m, err);
    case SW_MSG_SUM:
        return take_sum(t, server, m, err);
    case SW_MSG_VALUES:
        return take_values(t, server, m, err);
    case SW_MSG_LOST:
        return lose_group(t, server, m, err);
    default:
        return sw_table_ending(sw_sync_handle(t, server, m), err);
    }
}

int sw_table_serve(struct sw_table *t, int server, const struct sw_message *m, struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];

    if (!can_handle(t, server, m))
        return sw_err_set(err, SW_ERR_INVALID,
                          "server %d cannot handle message %s from worker %d for parameter %d",
                          server, name_of(m->kind), m->from, m->param);

    int64_t begin_ns = sw_os()->monotonic_ns();
    int rc = handle(t, server, m, err);

    __atomic_fetch_add(&s->served_ns, sw_os()->monotonic_ns() - begin_ns, __ATOMIC_RELAXED);
    return rc;
}
