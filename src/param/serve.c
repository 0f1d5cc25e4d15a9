/* The table in motion: what workers say and how servers answer. The rule of the tech report's
 * Algorithms 3 and 4 as meant: a slice has one threshold of contributions, those of all workers
 * under BSP and of one group otherwise; an update that comes early waits and is never lost, and so
 * does an answer that would be staler than allowed. */
#include "param/table_private.h"

#include "base/os.h"
#include <string.h>

enum { SPINS = 200 };

void sw_table_wake(struct sw_table *t)
{
    if (__atomic_load_n(&t->waiters, __ATOMIC_SEQ_CST) == 0)
        return;
    sw_mutex_lock(&t->lock);
    sw_cond_broadcast(&t->changed);
    sw_mutex_unlock(&t->lock);
}

/* ---- the worker's side ---- */

static int ending(int rc, struct sw_err *err)
{
    return rc == SW_OK ? rc : sw_err_set(err, rc, "the job is ending");
}

static int tell_servers(struct sw_table *t, int worker, int param, uint64_t version)
{
    struct sw_message m = {
        .kind = SW_MSG_UPDATE, .from = worker, .param = param, .version = version};
    for (int s = 0; s < t->args.servers; s++) {
        const struct sw_server_state *server = &t->servers[s];
        int from = server->first[param], to = server->first[param + 1];
        if (from == to)
            continue;
        int rc = sw_queue_push(&t->servers[s].inbox, &m);
        if (rc != SW_OK)
            return rc;
    }
    sw_table_wake(t);
    return SW_OK;
}

int sw_table_update(struct sw_table *t, int worker, int param, uint64_t version, struct sw_err *err)
{
    if (!t->args.rule->update)
        return sw_table_race(t, worker, param, version, err);
    return ending(tell_servers(t, worker, param, version), err);
}

/* Has the party, or each of them, so many updates of the parameter? */
static bool has(const struct sw_table *t, int party, int param, uint64_t version)
{
    const struct sw_param *p = &t->params[param];
    int from = party == SW_TABLE_ALL ? 0 : party,
        to = party == SW_TABLE_ALL ? t->parties : from + 1;
    for (int r = from; r < to; r++)
        /* The values written before the counter moved are seen; and sequentially consistent with
         * wake, so that a waiter that says so and then looks here is not missed. */
        if (__atomic_load_n(&p->view[r].ready, __ATOMIC_SEQ_CST) <
            version * (uint64_t)p->slice_count)
            return false;
    return true;
}

bool sw_table_ready(const struct sw_table *t, int party, int param, uint64_t version)
{
    /* Who reads in place, apart from others, looks at the bound itself: nobody answers. */
    bool bounded = t->args.rule->apart && t->args.rule->in_place && t->args.staleness >= 0;
    uint64_t bound = (uint64_t)t->args.staleness;
    if (!has(t, party, param, version))
        return false;
    return party == SW_TABLE_ALL || !bounded || version <= bound ||
           has(t, SW_TABLE_ALL, param, version - bound);
}

/* In place: the party has its own updates up to `version`; of others there may be fewer, also of
 * other server groups'. */
static int64_t lag_in_place(const struct sw_table *t, int param, uint64_t version)
{
    const struct sw_param *p = &t->params[param];
    uint64_t least = version;
    for (int r = 0; r < t->parties && p->slice_count > 0; r++) {
        uint64_t ready = __atomic_load_n(&p->view[r].ready, __ATOMIC_SEQ_CST);
        uint64_t done = ready / (uint64_t)p->slice_count;
        least = done < least ? done : least;
    }
    for (int s = 0; s < t->args.servers && t->sync; s++) {
        uint64_t heard = sw_sync_heard(t, s, param);
        if (sw_table_has_slices(t, s, param) && heard < least)
            least = heard;
    }
    return (int64_t)(version - least);
}

int64_t sw_table_staleness(const struct sw_table *t, int party, int param, uint64_t version)
{
    int64_t most = 0;
    if (!t->args.rule->apart)
        return 0;
    if (t->args.rule->in_place)
        return lag_in_place(t, param, version);
    for (int s = 0; s < t->args.servers; s++) {
        int64_t stale = t->servers[s].turns[param * t->parties + party].staleness;
        most = stale > most ? stale : most;
    }
    return most;
}

/* Sleeps until something changes, with the lock held: most wakings are for other parameters, so the
 * time is counted from the start. SW_ERR_BUSY when it is over. */
static int sleep_until(struct sw_table *t, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - sw_os()->monotonic_ns();
    int left_ms = left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0;
    return left_ms > 0 && sw_cond_wait_ms(&t->changed, &t->lock, left_ms) ? SW_OK : SW_ERR_BUSY;
}

static bool has_mail(const struct sw_table *t, const int *served, int count)
{
    for (int i = 0; i < count; i++)
        if (sw_queue_pending(&t->servers[served[i]].inbox))
            return true;
    return false;
}

/* A short look before sleeping: what is waited for is mostly microseconds away. */
static int look(const struct sw_table *t, int party, int param, uint64_t version, const int *served,
                int count)
{
    for (int i = 0; i < SPINS; i++) {
        if (sw_table_ready(t, party, param, version))
            return SW_OK;
        if (has_mail(t, served, count))
            return SW_ERR_BUSY;
    }
    return SW_ERR_CANCELLED;
}

int sw_table_wait(struct sw_table *t, int party, int param, uint64_t version, const int *served,
                  int count, int timeout_ms)
{
    int rc = look(t, party, param, version, served, count);
    if (rc != SW_ERR_CANCELLED)
        return rc;
    int64_t deadline_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;
    sw_mutex_lock(&t->lock);
    /* Sequentially consistent with the reading in wake: one of the two sees the other. */
    __atomic_add_fetch(&t->waiters, 1, __ATOMIC_SEQ_CST);
    for (rc = SW_OK; rc == SW_OK && !t->closed && !sw_table_ready(t, party, param, version) &&
                     !has_mail(t, served, count);)
        rc = sleep_until(t, deadline_ns);
    __atomic_sub_fetch(&t->waiters, 1, __ATOMIC_SEQ_CST);
    bool ready = sw_table_ready(t, party, param, version);
    rc = ready ? SW_OK : t->closed ? SW_ERR_CANCELLED : SW_ERR_BUSY;
    sw_mutex_unlock(&t->lock);
    return rc;
}

/* ---- about servers ---- */

struct sw_queue *sw_table_inbox(struct sw_table *t, int server)
{
    return &t->servers[server].inbox;
}

bool sw_table_has_slices(const struct sw_table *t, int server, int param)
{
    return t->servers[server].first[param] < t->servers[server].first[param + 1];
}

int64_t sw_table_link_bytes(const struct sw_table *t, int worker, int server)
{
    int64_t bytes = 0;
    for (int i = 0; i < t->servers[server].slice_count; i++) {
        const struct sw_slice *s = &t->slices[t->servers[server].slices[i]];
        if (sw_table_gives(t, s->param, worker) && sw_table_is_served(t, s->param))
            bytes += s->count * (int64_t)sizeof(float);
    }
    return bytes;
}

int64_t sw_table_served_ns(const struct sw_table *t, int server)
{
    return __atomic_load_n(&t->servers[server].served_ns, __ATOMIC_RELAXED);
}

void sw_table_close_v(void *table)
{
    struct sw_table *t = table;
    sw_mutex_lock(&t->lock);
    t->closed = true;
    sw_cond_broadcast(&t->changed);
    sw_mutex_unlock(&t->lock);
    for (int i = 0; i < t->args.servers; i++)
        if (t->servers[i].inbox_open)
            sw_queue_close(&t->servers[i].inbox);
}

/* ---- one update of one slice ---- */

/* The terms of every worker that gives; where that is one of each group, each has one. */
float *sw_table_sum(const struct sw_table *t, int param, int party, int64_t from,
                    const float *in[SW_TREE_LEAVES], struct sw_terms *sum)
{
    const struct sw_param *p = &t->params[param];
    int first = party * t->party_workers, base = -1;
    *sum = (struct sw_terms){.in = in, .ends = p->owner < 0 ? t->term_end : NULL};
    if (p->factors >= 0) {
        in[sum->count++] = sw_factor_gradient(t, param, party) + from;
        sum->ends = NULL;
        return sw_factor_gradient(t, param, party) + from;
    }
    for (int w = first; w < first + t->party_workers; w++)
        for (int i = t->first_term[w]; i < t->first_term[w + 1] && sw_table_gives(t, param, w);
             i++) {
            base = base < 0 ? i : base;
            in[sum->count++] = p->gradient[i] + from;
        }
    return p->gradient[base] + from;
}

void sw_table_update_terms(const struct sw_table *t, int param, uint64_t version,
                           struct sw_update_args *a)
{
    const struct sw_param *p = &t->params[param];
    a->lr = (float)(sw_table_rate(t, version - 1) * (double)p->lr_mult);
    a->weight_decay = (float)(t->args.common->weight_decay * (double)p->decay_mult);
    a->clip_value = (float)t->args.clip_value;
    a->gradient_scale = 1;
    a->step = version - 1 - t->before - sw_table_dropped(t);
}

/* What is summed already, in two phases, is in the first gradient alone. */
static struct sw_update_args update_of(const struct sw_table *t, const struct sw_slice *s,
                                       int party, uint64_t version,
                                       const struct sw_table_decision *d,
                                       const float *in[SW_TREE_LEAVES])
{
    const struct sw_param *p = &t->params[s->param];
    struct sw_update_args a = {
        .value = p->value + s->from,
        .count = s->count,
    };
    sw_table_update_terms(t, s->param, version, &a);
    a.step = s->version - s->dropped; /* of all parties */
    if (d) {
        a.clip_value = 0;
        a.gradient_scale = d->scale;
    }
    if (d && t->phases[party].norms) {
        a.value_norm = t->phases[party].norms[s->param].value;
        a.gradient_norm = t->phases[party].norms[s->param].gradient;
    }
    a.gradient = sw_table_sum(t, s->param, party, s->from, in, &a.sum);
    if (d)
        a.sum.count = 0;
    for (int i = 0; i < t->slots; i++)
        a.slot[i] = p->slot[i] + s->from;
    return a;
}

int sw_table_update_slice(struct sw_table *t, const struct sw_slice *s, int party, uint64_t version,
                          const struct sw_table_decision *d, struct sw_err *err)
{
    const float *in[SW_TREE_LEAVES];
    bool non_finite = false;
    if (!d && t->params[s->param].factors >= 0)
        sw_factor_rebuild(t, s, party, sw_factor_gradient(t, s->param, party) + s->from);
    struct sw_update_args a = update_of(t, s, party, version, d, in);
    a.non_finite = &non_finite;
    a.shared = !t->args.rule->update;
    sw_updater_apply(t->args.updater, t->args.updater_conf, &a);
    return non_finite ? sw_table_bad_value(t, s->param, version, err) : SW_OK;
}

/* ---- the server's side ---- */

static struct sw_turn *turn_of(const struct sw_table *t, const struct sw_server_state *s, int param,
                               int party)
{
    return &s->turns[param * t->parties + party];
}

/* Workers that update for themselves get what they are to update with. */
static void sum_slice(const struct sw_table *t, const struct sw_slice *s, int party)
{
    const float *in[SW_TREE_LEAVES];
    float *out = t->params[s->param].sum + s->from;
    struct sw_terms sum;
    if (t->params[s->param].factors >= 0) {
        sw_factor_rebuild(t, s, party, out);
        return;
    }
    sw_table_sum(t, s->param, party, s->from, in, &sum);
    sw_gather_sum(&sum, out, s->count);
}

/* Moves a complete slice to its next version, with the update or without. */
static int apply_slice(struct sw_table *t, int server, struct sw_slice *s, int party,
                       uint64_t version, const struct sw_table_decision *d, struct sw_err *err)
{
    bool dropped = d && d->dropped;
    int64_t begin_ns = sw_os()->monotonic_ns();
    if (t->args.updates_elsewhere) {
        sum_slice(t, s, party);
        s->version++;
        return SW_OK;
    }
    int rc = dropped ? SW_OK : sw_table_update_slice(t, s, party, version, d, err);
    if (rc != SW_OK)
        return rc;
    s->version++;
    s->dropped += dropped;
    if (t->watch && !dropped)
        t->watch(t->watch_user, server, s->param, s->version, begin_ns, sw_os()->monotonic_ns());
    return SW_OK;
}

static uint64_t slowest(const struct sw_table *t, const struct sw_server_state *s, int param)
{
    uint64_t least = turn_of(t, s, param, 0)->done;
    for (int r = 1; r < t->parties; r++) {
        uint64_t done = turn_of(t, s, param, r)->done;
        least = done < least ? done : least;
    }
    return least;
}

/* Gives the party the values as they are. */
static void answer(struct sw_table *t, const struct sw_server_state *s, int param, int party,
                   uint64_t least)
{
    struct sw_param *p = &t->params[param];
    struct sw_param_view *r = &p->view[party];
    struct sw_turn *turn = turn_of(t, s, param, party);
    for (int i = s->first[param]; i < s->first[param + 1] && r->value != p->value; i++) {
        const struct sw_slice *slice = &t->slices[s->slices[i]];
        memcpy(r->value + slice->from, p->value + slice->from,
               (size_t)slice->count * sizeof(float));
    }
    uint64_t slices = (uint64_t)(s->first[param + 1] - s->first[param]);
    uint64_t heard = sw_sync_heard(t, (int)(s - t->servers), param);
    least = heard < least ? heard : least;
    turn->staleness = (int)(turn->done - least);
    uint64_t more = (turn->done - turn->answered) * slices;
    turn->answered = turn->done;
    __atomic_add_fetch(&r->ready, more, __ATOMIC_SEQ_CST);
}

/* Every party that waits for an answer gets it, unless it would be too stale. */
static void answer_all(struct sw_table *t, const struct sw_server_state *s, int param)
{
    uint64_t least = slowest(t, s, param);
    int64_t bound = t->args.staleness;
    for (int r = 0; r < t->parties; r++) {
        const struct sw_turn *turn = turn_of(t, s, param, r);
        bool stale = t->args.rule->apart && bound >= 0 && turn->done - least > (uint64_t)bound;
        if (turn->answered < turn->done && !stale)
            answer(t, s, param, r, least);
    }
    sw_table_wake(t);
}

/* A party's update of all slices that the server owns of a parameter. */
static int apply(struct sw_table *t, int server, int param, int party,
                 const struct sw_table_decision *d, struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    struct sw_turn *turn = turn_of(t, s, param, party);
    int rc = SW_OK;
    for (int i = s->first[param]; i < s->first[param + 1] && rc == SW_OK; i++)
        rc = apply_slice(t, server, &t->slices[s->slices[i]], party, turn->done + 1, d, err);
    if (rc != SW_OK)
        return rc;
    turn->done++;
    turn->contributions = 0;
    memset(&s->heard[param * t->args.workers + party * t->party_workers], 0,
           (size_t)t->party_workers);
    /* Who has the answers may look whether deltas are under way: they are sent before. */
    rc = sw_sync_after(t, server, param, slowest(t, s, param));
    answer_all(t, s, param);
    return ending(rc, err);
}

/* The first of two phases. */
static int gather(struct sw_table *t, const struct sw_server_state *s, int param, int party,
                  struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = s->first[param]; i < s->first[param + 1] && rc == SW_OK; i++)
        rc = sw_table_gather(t, party, &t->slices[s->slices[i]], err);
    return rc == SW_OK ? sw_table_gathered(t, party, s->first[param + 1] - s->first[param], err)
                       : rc;
}

/* One worker's contribution to every slice that the server owns of the parameter. */
static int contribute(struct sw_table *t, int server, const struct sw_message *m,
                      struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    int party = sw_table_party(t, m->from);
    bool *heard = &s->heard[m->param * t->args.workers + m->from];
    if (*heard)
        return sw_err_set(err, SW_ERR_INVALID,
                          "worker %d sent its gradient of %s for step %llu twice", m->from,
                          t->params[m->param].name, (unsigned long long)m->version);
    *heard = true;
    if (++turn_of(t, s, m->param, party)->contributions < sw_table_threshold(t, m->param))
        return SW_OK;
    bool gathers = t->two_phases && !t->args.updates_elsewhere;
    return gathers ? gather(t, s, m->param, party, err)
                   : apply(t, server, m->param, party, NULL, err);
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
    return turn_of(t, s, m->param, sw_table_party(t, m->from))->done;
}

/* Takes up early updates whose turn has come, until none is left that can be. */
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
        return sw_err_set(err, SW_ERR_INVALID,
                          "worker %d sent its gradient of %s for step %llu, which is applied",
                          m->from, t->params[m->param].name, (unsigned long long)m->version);
    if (m->version > done + 1)
        return keep_early(s, m, err);
    int rc = contribute(t, server, m, err);
    if (rc == SW_OK && s->early_count > 0)
        rc = take_up_early(t, server, err);
    return rc;
}

/* The second phase: all slices of the server, the lowest layers first, which the next forward pass
 * needs first. */
static int apply_decision(struct sw_table *t, int server, const struct sw_message *m,
                          struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    struct sw_table_decision d;
    int party = m->param;
    if (!sw_table_decision(t, party, m->version, &d))
        return sw_err_set(err, SW_ERR_INVALID, "update %llu is not decided upon",
                          (unsigned long long)m->version);
    int rc = SW_OK;
    for (int p = 0; p < t->param_count && rc == SW_OK; p++) {
        if (s->first[p] == s->first[p + 1])
            continue;
        uint64_t done = turn_of(t, s, p, party)->done;
        if (done + 1 != m->version)
            return sw_err_set(err, SW_ERR_INVALID, "update %llu of %s at version %llu",
                              (unsigned long long)m->version, t->params[p].name,
                              (unsigned long long)done);
        rc = apply(t, server, p, party, &d, err);
    }
    return rc == SW_OK && s->early_count > 0 ? take_up_early(t, server, err) : rc;
}

static const char *name_of(enum sw_message_kind kind)
{
    static const char *const names[] = {"update", "apply", "sync", "delta"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

static bool is_sync(const struct sw_message *m)
{
    return m->kind == SW_MSG_SYNC || m->kind == SW_MSG_DELTA;
}

static bool can_handle(const struct sw_table *t, int server, const struct sw_message *m)
{
    const struct sw_server_state *s = &t->servers[server];
    if (m->kind == SW_MSG_APPLY)
        return t->two_phases && !t->args.updates_elsewhere && m->param >= 0 &&
               m->param < t->parties;
    if (is_sync(m))
        return sw_sync_can_handle(t, server, m);
    return m->kind == SW_MSG_UPDATE && t->args.rule->update && m->param >= 0 &&
           m->param < t->param_count && s->first[m->param] < s->first[m->param + 1] &&
           m->from >= 0 && m->from < t->args.workers && sw_table_gives(t, m->param, m->from);
}

int sw_table_serve(struct sw_table *t, int server, const struct sw_message *m, struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    if (!can_handle(t, server, m))
        return sw_err_set(err, SW_ERR_INVALID,
                          "server %d cannot handle message %s of worker %d for parameter %d",
                          server, name_of(m->kind), m->from, m->param);
    int64_t begin_ns = sw_os()->monotonic_ns();
    int rc;
    if (is_sync(m))
        rc = ending(sw_sync_handle(t, server, m), err);
    else
        rc = m->kind == SW_MSG_APPLY ? apply_decision(t, server, m, err)
                                     : t->args.rule->update(t, server, m, err);
    __atomic_fetch_add(&s->served_ns, sw_os()->monotonic_ns() - begin_ns, __ATOMIC_RELAXED);
    return rc;
}

const struct sw_table_rule sw_table_bsp = {
    .name = "bsp", .in_place = true, .update = counted_update};
const struct sw_table_rule sw_table_async = {
    .name = "async", .apart = true, .update = counted_update};
const struct sw_table_rule sw_table_hogwild = {.name = "hogwild", .apart = true, .in_place = true};
