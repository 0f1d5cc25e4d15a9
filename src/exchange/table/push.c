/* What the servers of a table are told: by its workers, and by those who bring gradients, values or
 * sums from outside. Each message goes to every server that it concerns; its inbox has room for all
 * that can be under way. Also what is known about the traffic. */
#include "exchange/table/table_private.h"

#include "base/os.h"

int sw_table_update(struct sw_table *t, int worker, int param, uint64_t version, struct sw_err *err)
{
    return t->args.rule->push(t, worker, param, version, err);
}

/* Notifies every server that owns a slice. */
static int send_update(struct sw_table *t, int worker, int param, uint64_t version,
                       struct sw_err *err)
{
    struct sw_message m = {
        .kind = SW_MSG_UPDATE, .from = worker, .param = param, .version = version};
    int rc = SW_OK;

    for (int s = 0; s < t->args.servers && rc == SW_OK; s++)
        if (sw_table_has_slices(t, s, param))
            rc = sw_queue_push(&t->servers[s].inbox, &m);

    sw_table_wake(t);
    return sw_table_ending(rc, err);
}

/* Tells the servers that update control is done: each applies or drops the update. */
static int send_control(struct sw_table *t, int group, const struct sw_table_control *d,
                        struct sw_err *err)
{
    struct sw_message m = {
        .kind = SW_MSG_APPLY, .from = t->args.workers, .param = group, .version = d->version};
    int rc = SW_OK;

    for (int s = 0; s < t->args.servers && rc == SW_OK; s++)
        if (t->servers[s].slice_count > 0)
            rc = sw_queue_push(&t->servers[s].inbox, &m);

    sw_table_wake(t);
    return sw_table_ending(rc, err);
}

void sw_table_put_sum(struct sw_table *t, int slice, uint64_t version)
{
    struct sw_message m = {
        .kind = SW_MSG_SUM, .from = t->args.workers, .param = slice, .version = version};

    /* The inbox has room for all slices, so this never waits; a closed one belongs to a job that
     * ends. */
    if (sw_queue_push(&t->servers[t->slices[slice].server].inbox, &m) == SW_OK)
        sw_table_wake(t);
}

/* Tells every server that owns a slice of the message's parameter. Each inbox has room for it, so
 * this never waits; a closed one belongs to a job that ends. */
static void post(struct sw_table *t, const struct sw_message *m)
{
    int rc = SW_OK;

    for (int s = 0; s < t->args.servers && rc == SW_OK; s++)
        if (m->kind == SW_MSG_LOST || sw_table_has_slices(t, s, m->param))
            rc = sw_queue_push(&t->servers[s].inbox, m);

    sw_table_wake(t);
}

void sw_table_put_gradient(struct sw_table *t, int group, int param, uint64_t version)
{
    post(t, &(struct sw_message){.kind = SW_MSG_UPDATE,
                                 .from = t->args.workers + group - t->local_groups,
                                 .param = param,
                                 .version = version});
}

void sw_table_put_values(struct sw_table *t, int group, int param, uint64_t version, int staleness)
{
    post(t, &(struct sw_message){.kind = SW_MSG_VALUES,
                                 .from = group,
                                 .param = param,
                                 .version = version,
                                 .staleness = staleness});
}

void sw_table_post_loss(struct sw_table *t, int group, uint64_t round)
{
    __atomic_store_n(&t->lost[group].left, t->args.servers, __ATOMIC_RELAXED);
    post(t, &(struct sw_message){
                .kind = SW_MSG_LOST, .from = t->args.workers, .param = group, .version = round});
}

void sw_table_lose_group(struct sw_table *t, int group)
{
    /* Before the servers are told, so that each of them sees it. */
    __atomic_store_n(&t->lost[group].lost, 1, __ATOMIC_SEQ_CST);
    sw_table_post_loss(t, group, 1);
}

void sw_table_put_rows(struct sw_table *t, int factors, uint64_t version)
{
    const int params[] = {t->factors[factors].weight, t->factors[factors].bias};

    for (int k = 0; k < 2; k++) {
        if (params[k] < 0)
            continue;

        const struct sw_param *p = &t->params[params[k]];
        for (int i = p->first_slice; i < p->first_slice + p->slice_count; i++)
            sw_table_put_sum(t, i, version);
    }
}

/* The staleness of values read in place: an update group sees its own updates up to `version`, but
 * perhaps fewer of other groups and server groups. */
static int64_t lag_in_place(const struct sw_table *t, int param, uint64_t version)
{
    uint64_t least = sw_table_slowest(t, param);

    least = version < least ? version : least;
    for (int s = 0; s < t->args.servers && t->sync; s++) {
        uint64_t contributed = sw_sync_steps_of_others(t, s, param);
        if (sw_table_has_slices(t, s, param) && contributed < least)
            least = contributed;
    }

    return (int64_t)(version - least);
}

int64_t sw_table_staleness(const struct sw_table *t, int group, int param, uint64_t version)
{
    int64_t most = 0;

    if (!t->args.rule->is_async)
        return 0;
    if (t->args.rule->in_place)
        return lag_in_place(t, param, version);

    for (int s = 0; s < t->args.servers; s++) {
        int64_t stale = t->servers[s].turns[param * t->update_groups + group].staleness;
        most = stale > most ? stale : most;
    }

    return most;
}

/* ---- statistics of servers ---- */

int64_t sw_table_link_bytes(const struct sw_table *t, int worker, int server)
{
    int64_t bytes = 0;

    for (int i = 0; i < t->servers[server].slice_count; i++) {
        const struct sw_slice *s = &t->slices[t->servers[server].slices[i]];
        if (sw_table_contributes(t, s->param, worker) &&
            sw_table_reduction(t, s->param) == SW_REDUCTION_SERVERS)
            bytes += s->count * (int64_t)sizeof(float);
    }

    return bytes;
}

/* Floats that a server gets of every row of the batch. */
static int64_t width_for(const struct sw_table *t, const struct sw_table_factors *f, int server)
{
    int64_t first, outputs;
    sw_table_factor_range(t, f, server, &first, &outputs);
    return outputs ? f->steps * (f->inputs + outputs) : 0;
}

int64_t sw_table_pushed_bytes(const struct sw_table *t, int worker, int64_t rows, int server)
{
    int64_t elements = 0;

    for (int i = 0; i < t->servers[server].slice_count; i++) {
        const struct sw_slice *s = &t->slices[t->servers[server].slices[i]];
        if (t->params[s->param].factors < 0 && sw_table_contributes(t, s->param, worker) &&
            sw_table_reduction(t, s->param) == SW_REDUCTION_SERVERS)
            elements += s->count * sw_table_partials(t, worker);
    }

    for (int i = 0; i < t->factor_count; i++)
        if (t->factors[i].home != SW_FACTORS_EXCHANGED)
            elements += rows * width_for(t, &t->factors[i], server);

    return elements * (int64_t)sizeof(float);
}

int64_t sw_table_served_ns(const struct sw_table *t, int server)
{
    return __atomic_load_n(&t->servers[server].served_ns, __ATOMIC_RELAXED);
}

const struct sw_table_rule sw_table_bsp = {
    .name = "bsp", .in_place = true, .push = send_update, .apply = send_control};
const struct sw_table_rule sw_table_async = {
    .name = "async", .is_async = true, .push = send_update, .apply = send_control};
