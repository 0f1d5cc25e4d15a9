#include "device/op.h"
#include "train/replica_private.h"

#include "base/os.h"
#include "kernels/ops/clock.h"
#include <stdio.h>

static size_t array_bytes(const struct sw_param *p)
{
    return (sw_desc_bytes(&p->layout) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Does the device update the parameter? */
static bool updates(const struct sw_replica *r, int param)
{
    return r->args.mode == SW_COPY_NONE || sw_table_is_elsewhere(r->args.table, param);
}

static bool updates_any(const struct sw_table *t, enum sw_copy_mode mode)
{
    bool any = mode == SW_COPY_NONE;
    for (int i = 0; i < sw_table_factor_count(t) && !any; i++)
        any = sw_table_factors_at(t, i)->home == SW_FACTORS_ELSEWHERE;
    return any;
}

bool sw_replica_updates(const struct sw_replica *r)
{
    return updates_any(r->args.table, r->args.mode);
}

bool sw_replica_waits(const struct sw_replica *r, int param)
{
    return !updates(r, param) || sw_table_is_served(r->args.table, param);
}

/* Arrays of gradients. What is made out of factors is one, where it is made or its sum comes to. */
static int gradients_of(const struct sw_table *t, int worker, int param, enum sw_copy_mode mode)
{
    if (sw_table_is_reduced(t, param))
        return 0;
    if (sw_table_factors_of(t, param))
        return mode == SW_COPY_NONE || sw_table_is_elsewhere(t, param);
    return sw_table_terms(t, worker);
}

/* Value and gradient, and state where the device updates; what is frozen has a value only. */
size_t sw_replica_item_bytes(const struct sw_table *t, int worker, int param,
                             enum sw_copy_mode mode)
{
    const struct sw_param *p = sw_table_param(t, param);
    bool there = mode == SW_COPY_NONE || sw_table_is_elsewhere(t, param);
    int slots = there ? sw_table_param_slots(t, param) : 0;
    int terms = gradients_of(t, worker, param, mode);
    return (size_t)(p->frozen ? 1 : 1 + terms + slots) * array_bytes(p);
}

/* The bucket that has the parameter's gradient; -1: none, it is the replica's own. */
static int bucket_of(const struct sw_replica *r, int param)
{
    return r->args.reduction->count ? r->args.reduction->bucket_of[param] : -1;
}

static size_t bad_room(int count)
{
    return ((size_t)count * sizeof(bool) + 7) / 8 * 8;
}

size_t sw_replica_flag_bytes(const struct sw_table *t, int count, enum sw_copy_mode mode)
{
    size_t marks = SW_MARKS * sizeof(int64_t), numbers = sizeof(struct sw_update_numbers);
    bool decides = mode == SW_COPY_NONE && sw_table_is_decided_elsewhere(t);
    size_t decision = decides ? sizeof(struct sw_decided) + sizeof(struct sw_deciding) : 0;
    return updates_any(t, mode) ? marks + decision + bad_room(count) + (size_t)count * numbers
                                : marks;
}

/* What messages of the device call it: "conv1.weight (value)". */
static void name_item(const struct sw_replica *r, const struct sw_replica_item *item)
{
    const char *name = sw_table_param(r->args.table, item->param)->name;
    char text[128];
    snprintf(text, sizeof text, "%s (value)", name);
    sw_device_name(r->args.device, item->at.value, item->bytes, text);
    snprintf(text, sizeof text, "%s (gradient)", name);
    for (int k = 0; k < r->terms; k++)
        sw_device_name(r->args.device, sw_replica_gradient(r, item->param, k), item->bytes, text);
    for (int s = 0; s < SW_UPDATER_SLOTS; s++) {
        snprintf(text, sizeof text, "%s (updater's state)", name);
        sw_device_name(r->args.device, item->at.slot[s], item->bytes, text);
    }
}

static struct sw_param_place place_of(const struct sw_replica *r, int i, char *at)
{
    int param = r->items[i].param;
    const struct sw_param *p = sw_table_param(r->args.table, param);
    size_t room = array_bytes(p);
    struct sw_param_place place = {.value = (float *)(void *)at};
    if (p->frozen)
        return place;
    const struct sw_reduction *sums = r->args.reduction;
    int b = bucket_of(r, param);
    int terms = gradients_of(r->args.table, r->args.worker, param, r->args.mode);
    if (b >= 0)
        place.gradient = sw_allreduce_bucket(sums->sums, r->args.rank, b) + sums->at_of[param];
    else if (terms > 0)
        place.gradient = (float *)(void *)(at + room);
    if (!updates(r, param))
        return place;
    for (int s = 0; s < sw_table_param_slots(r->args.table, param); s++)
        place.slot[s] = (float *)(void *)(at + (size_t)(1 + terms + s) * room);
    place.bad = r->bad + i;
    place.numbers = r->numbers + i;
    place.decided = r->norms.decided;
    return place;
}

static struct sw_replica_item *find(const struct sw_replica *r, int param)
{
    return r->item_of[param] == NEVER ? NULL : &r->items[r->item_of[param]];
}

static int make_items(struct sw_replica *r, struct sw_err *err)
{
    int rc = SW_OK;
    size_t at = 0;
    for (int i = 0; i < r->count && rc == SW_OK; i++) {
        struct sw_replica_item *item = &r->items[i];
        const struct sw_param *p = sw_table_param(r->args.table, item->param);
        *item = (struct sw_replica_item){.owner = r,
                                         .param = item->param,
                                         .at = place_of(r, i, (char *)r->memory + at),
                                         .bytes = sw_desc_bytes(&p->layout),
                                         .asked = NEVER,
                                         .has = NEVER,
                                         .numbered = NEVER};
        at += sw_replica_item_bytes(r->args.table, r->args.worker, item->param, r->args.mode);
        rc = sw_event_new(r->args.device, &item->here, err);
        if (rc == SW_OK)
            rc = sw_event_new(r->args.device, &item->made, err);
        if (rc == SW_OK)
            rc = sw_event_new(r->args.device, &item->given, err);
        name_item(r, item);
    }
    return rc;
}

static int take_memory(struct sw_replica *r, struct sw_err *err)
{
    int params = sw_table_count(r->args.table);
    r->items = sw_calloc((size_t)r->args.count + 1, sizeof *r->items);
    r->item_of = sw_calloc((size_t)params + 1, sizeof *r->item_of);
    if (!r->items || !r->item_of)
        return sw_err_nomem(err, "a replica", (size_t)params * sizeof *r->items);
    for (int i = 0; i < params; i++)
        r->item_of[i] = NEVER;
    for (int i = 0; i < r->args.count; i++) {
        int param = r->args.params[i];
        if (r->item_of[param] != NEVER)
            continue; /* several layers share it */
        r->item_of[param] = r->count;
        r->items[r->count++].param = param;
        r->bytes += sw_replica_item_bytes(r->args.table, r->args.worker, param, r->args.mode);
    }
    return r->bytes ? sw_device_alloc(r->args.device, r->bytes, "parameters and gradients",
                                      &r->memory, err)
                    : SW_OK;
}

static int take_flags(struct sw_replica *r, struct sw_err *err)
{
    size_t bytes = sw_replica_flag_bytes(r->args.table, r->count, r->args.mode);
    void *there;
    int rc = sw_device_host_alloc(r->args.device, 2 * bytes, "a replica", &r->mail, err);
    if (rc != SW_OK)
        return rc;
    r->told = r->mail;
    r->sent = (struct sw_update_numbers *)(void *)((char *)r->mail + bytes);
    r->norms.sent = (struct sw_deciding *)(void *)(r->sent + r->count);
    rc = sw_device_alloc(r->args.device, bytes, "marks and numbers of updates", &there, err);
    if (rc != SW_OK)
        return rc;
    r->marks = there;
    if (sw_replica_updates(r)) {
        struct sw_decided *decided = (struct sw_decided *)(void *)(r->marks + SW_MARKS);
        char *at = (char *)(decided + r->norms.decides);
        r->bad = (bool *)at;
        r->numbers = (struct sw_update_numbers *)(void *)(at + bad_room(r->count));
        r->norms.decided = r->norms.decides ? decided : NULL;
        r->norms.told = (const struct sw_decided *)(const void *)(r->told + SW_MARKS);
        r->norms.known = (struct sw_deciding *)(void *)(r->numbers + r->count);
    }
    return SW_OK;
}

int sw_replica_new(const struct sw_replica_args *args, struct sw_replica **out, struct sw_err *err)
{
    struct sw_replica *r = sw_calloc(1, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "a replica", sizeof *r);
    r->args = *args;
    r->terms = sw_table_terms(args->table, args->worker);
    r->base = NEVER;
    r->buckets = sw_calloc((size_t)args->reduction->count + 1, sizeof *r->buckets);
    int rc = r->buckets ? take_memory(r, err) : sw_err_nomem(err, "a replica", sizeof *r->buckets);
    if (rc == SW_OK)
        rc = sw_replica_make_norms(r, err);
    if (rc == SW_OK)
        rc = take_flags(r, err);
    if (rc == SW_OK)
        rc = make_items(r, err);
    /* At most one copy each way of every parameter is under way, of every term to the host. */
    if (rc == SW_OK)
        rc = sw_replica_make_factors(r, err);
    if (rc == SW_OK)
        rc = sw_copy_queue_new(args->device,
                               (1 + r->terms) * args->count + 2 + sw_replica_factor_copies(r),
                               &r->queue, err);
    if (rc != SW_OK) {
        sw_replica_free(r);
        return rc;
    }
    sw_table_pin(args->table, args->device, true);
    *out = r;
    return SW_OK;
}

void sw_replica_free(struct sw_replica *r)
{
    if (!r)
        return;
    sw_copy_queue_free(r->queue);
    sw_table_pin(r->args.table, r->args.device, false);
    for (int i = 0; r->items && i < r->count; i++) {
        sw_event_free(r->args.device, r->items[i].here);
        sw_event_free(r->args.device, r->items[i].made);
        sw_event_free(r->args.device, r->items[i].given);
    }
    sw_replica_free_factors(r);
    sw_replica_free_norms(r);
    sw_device_free(r->args.device, r->memory, r->bytes);
    size_t flags = sw_replica_flag_bytes(r->args.table, r->count, r->args.mode);
    sw_device_free(r->args.device, r->marks, flags);
    sw_device_host_free(r->args.device, r->mail, 2 * flags);
    sw_free(r->buckets);
    sw_free(r->items);
    sw_free(r->item_of);
    sw_free(r);
}

float *sw_replica_value(const struct sw_replica *r, int param)
{
    const struct sw_replica_item *item = find(r, param);
    return item ? item->at.value : NULL;
}

float *sw_replica_gradient(const struct sw_replica *r, int param, int term)
{
    const struct sw_replica_item *item = find(r, param);
    size_t room = array_bytes(sw_table_param(r->args.table, param)) / sizeof(float);
    if (sw_table_factors_of(r->args.table, param))
        return NULL; /* no worker's term */
    return item && item->at.gradient ? item->at.gradient + (size_t)term * room : NULL;
}

/* The copy of a version of the table's; where the device updates, of the sum of gradients, in place
 * of the own one, which is on the host by then. */
static struct sw_copy_event copy_of(const struct sw_replica *r, int i)
{
    const struct sw_replica_item *item = &r->items[i];
    bool sums = updates(r, item->param);
    struct sw_event *after = sums ? item->given : item->made;
    if (sw_table_factors_of(r->args.table, item->param))
        after = sw_replica_factors_made(r, item->param);
    return (struct sw_copy_event){
        .direction = SW_COPY_TO_DEVICE,
        .dst = sums ? item->at.gradient : item->at.value,
        .src = sums ? sw_table_param(r->args.table, item->param)->sum
                    : sw_table_value(r->args.table, r->args.worker, item->param),
        .bytes = item->bytes,
        .priority = i,
        .after = after,
        .then = item->here};
}

/* Starts the copy of a version that the table has and the device has not been sent. */
static int ask(struct sw_replica *r, int i, uint64_t version, struct sw_err *err)
{
    struct sw_replica_item *item = &r->items[i];
    bool settled = item->asked >= 0 && sw_table_param(r->args.table, item->param)->frozen;
    if (settled || item->asked >= (int64_t)version ||
        !sw_table_ready(r->args.table, sw_table_party(r->args.table, r->args.worker), item->param,
                        version))
        return SW_OK;
    struct sw_copy_event e = copy_of(r, i);
    int rc = sw_copy_queue_push(r->queue, &e, err);
    if (rc == SW_OK)
        item->asked = (int64_t)version;
    return rc;
}

/* ---- The device updates ---- */

enum move { TO_DEVICE, TO_TABLE };

static int move_array(struct sw_replica *r, enum move way, float *here, float *home, size_t bytes,
                      struct sw_err *err)
{
    return way == TO_DEVICE ? sw_copy(r->args.stream, here, home, bytes, err)
                            : sw_copy(r->args.stream, home, here, bytes, err);
}

/* Value and state, on the compute stream: whatever is queued there is ordered with it. */
static int move_item(struct sw_replica *r, const struct sw_replica_item *item, enum move way,
                     struct sw_err *err)
{
    const struct sw_param *p = sw_table_param(r->args.table, item->param);
    int rc = move_array(r, way, item->at.value, p->value, item->bytes, err);
    for (int s = 0; s < SW_UPDATER_SLOTS && item->at.slot[s] && rc == SW_OK; s++)
        rc = move_array(r, way, item->at.slot[s], p->slot[s], item->bytes, err);
    return rc;
}

/* What the table has at first is moved once. */
static int move_in(struct sw_replica *r, struct sw_replica_item *item, uint64_t version,
                   struct sw_err *err)
{
    if (item->has != NEVER)
        return SW_OK;
    item->asked = item->has = (int64_t)version;
    /* What is frozen is asked for as version 0, wherever the run begins. */
    if (r->base == NEVER && !sw_table_param(r->args.table, item->param)->frozen)
        r->base = (int64_t)version;
    return move_item(r, item, TO_DEVICE, err);
}

/* Works out what the item's update is. */
static void number(struct sw_replica *r, struct sw_replica_item *item, uint64_t version)
{
    struct sw_update_numbers *sent = &r->sent[item - r->items];
    item->formula = sw_table_update_numbers(r->args.table, item->param, version, sent);
    item->numbered = (int64_t)version;
}

static int send_numbers(struct sw_replica *r, int first, int count, struct sw_err *err)
{
    return sw_copy(r->args.stream, r->numbers + first, r->sent + first,
                   (size_t)count * sizeof *r->sent, err);
}

bool sw_replica_is_own(const struct sw_replica *r, int param)
{
    return !sw_replica_waits(r, param) && bucket_of(r, param) < 0 &&
           !sw_table_is_elsewhere(r->args.table, param);
}

void sw_replica_gave(struct sw_replica *r, int param, uint64_t version)
{
    if (!r->norms.decides)
        find(r, param)->has = (int64_t)version;
}

/* What is updated by sums is one version behind, unless all is updated together. */
int sw_replica_begin(struct sw_replica *r, uint64_t version, struct sw_err *err)
{
    if (!sw_replica_updates(r))
        return SW_OK;
    for (int i = 0; i < r->count; i++) {
        struct sw_replica_item *item = &r->items[i];
        bool now = r->norms.decides || sw_replica_is_own(r, item->param);
        uint64_t next = now ? version : version - 1;
        if (!sw_table_param(r->args.table, item->param)->frozen && updates(r, item->param) &&
            next > 0)
            number(r, item, next);
    }
    int rc = send_numbers(r, 0, r->count, err);
    return rc == SW_OK && r->norms.decides ? sw_replica_begin_norms(r, err) : rc;
}

/* Where a version is asked for in between its numbers are sent alone. */
int sw_replica_update_there(struct sw_replica *r, struct sw_replica_item *item, uint64_t version,
                            struct sw_err *err)
{
    int rc = SW_OK;
    item->has = (int64_t)version;
    if (item->numbered != (int64_t)version) {
        number(r, item, version);
        rc = send_numbers(r, (int)(item - r->items), 1, err);
    }
    return rc == SW_OK ? sw_table_update_there(r->args.table, item->param, item->formula, &item->at,
                                               r->args.stream, err)
                       : rc;
}

/* The gradient of an item is queued; with the last one of its bucket, that is given. */
static int give_to_bucket(struct sw_replica *r, const struct sw_replica_item *item,
                          uint64_t version, struct sw_err *err)
{
    int b = bucket_of(r, item->param);
    if (++r->buckets[b].given < r->args.reduction->buckets[b].count)
        return SW_OK;
    r->buckets[b].given = 0;
    return sw_allreduce_give(r->args.reduction->sums, r->args.rank, b, version - (uint64_t)r->base,
                             r->args.stream, err);
}

/* What is queued from here on finds the bucket's sums. */
static int take_bucket(struct sw_replica *r, int b, uint64_t version, struct sw_err *err)
{
    uint64_t round = version - (uint64_t)r->base;
    if (r->buckets[b].taken >= round)
        return SW_OK;
    r->buckets[b].taken = round;
    return sw_allreduce_take(r->args.reduction->sums, r->args.rank, b, r->args.stream, err);
}

int sw_replica_wait_sum(const struct sw_replica *r, int param, uint64_t version, int timeout_ms)
{
    int b = bucket_of(r, param);
    bool remade = sw_table_is_elsewhere(r->args.table, param);
    if ((b < 0 && !remade) || r->base == NEVER || (int64_t)version <= r->base)
        return SW_OK;
    if (remade)
        return sw_replica_wait_factors(r, param, version, timeout_ms);
    return sw_allreduce_wait(r->args.reduction->sums, b, version - (uint64_t)r->base, timeout_ms);
}

/* Is it this worker that says what the parameter is? Its owner in the first group or, without one,
 * who does so for `all`. */
static bool changes_at_home(const struct sw_replica *r, const struct sw_replica_item *item,
                            bool all)
{
    const struct sw_param *p = sw_table_param(r->args.table, item->param);
    bool says = p->owner < 0 ? all : p->owner == r->args.worker;
    return !p->frozen && item->has != NEVER && says;
}

int sw_replica_bring_home(struct sw_replica *r, uint64_t version, bool all, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < r->count && rc == SW_OK; i++)
        if (changes_at_home(r, &r->items[i], all))
            rc = move_item(r, &r->items[i], TO_TABLE, err);
    if (rc == SW_OK)
        rc = sw_replica_ask(r, err);
    if (rc == SW_OK)
        rc = sw_stream_wait(r->args.stream, err);
    if (rc == SW_OK)
        rc = sw_replica_check_finite(r, err);
    for (int i = 0; i < r->count && rc == SW_OK; i++)
        if (!sw_replica_waits(r, r->items[i].param) &&
            (sw_replica_is_own(r, r->items[i].param) || all))
            sw_table_put_param(r->args.table, r->items[i].param, version);
    return rc;
}

int sw_replica_mark(struct sw_replica *r, enum sw_mark mark, struct sw_err *err)
{
    return sw_op_run(r->args.stream, &sw_op_clock,
                     &(const struct sw_clock_args){.ns = &r->marks[mark]}, err);
}

int sw_replica_ask(struct sw_replica *r, struct sw_err *err)
{
    size_t bytes = SW_MARKS * sizeof *r->marks;
    if (r->norms.decides)
        bytes += sizeof *r->norms.decided;
    if (r->bad)
        bytes += (size_t)r->count * sizeof *r->bad;
    return sw_copy(r->args.stream, r->told, r->marks, bytes, err);
}

const int64_t *sw_replica_marks(const struct sw_replica *r)
{
    return r->told;
}

int sw_replica_check_finite(const struct sw_replica *r, struct sw_err *err)
{
    const struct sw_decided *told = (const struct sw_decided *)(const void *)(r->told + SW_MARKS);
    const bool *bad = (const bool *)(told + r->norms.decides);
    for (int i = 0; i < r->count && r->bad; i++)
        if (bad[i])
            return sw_table_say_bad(r->args.table, r->items[i].param, (uint64_t)r->items[i].has,
                                    err);
    return SW_OK;
}

/* ---- Values and gradients that travel ---- */

int sw_replica_settle(struct sw_replica *r, struct sw_err *err)
{
    return r->args.mode == SW_COPY_SYNC ? sw_copy_queue_wait(r->queue, err) : SW_OK;
}

/* Starts the copies of all that the table has by now, when `item` is asked for. What is frozen is
 * asked for as version 0, of which the others are none any more: it comes alone. */
static int ask_all(struct sw_replica *r, const struct sw_replica_item *item, uint64_t version,
                   struct sw_err *err)
{
    bool alone = sw_table_param(r->args.table, item->param)->frozen;
    int rc = alone ? ask(r, (int)(item - r->items), version, err) : SW_OK;
    for (int i = 0; i < r->count && rc == SW_OK && !alone; i++)
        if (!updates(r, r->items[i].param) ||
            (r->items[i].has != NEVER && r->items[i].has < (int64_t)version &&
             sw_replica_waits(r, r->items[i].param)))
            rc = ask(r, i, version, err);
    if (rc == SW_OK)
        rc = sw_copy_queue_drain(r->queue, err);
    return rc == SW_OK ? sw_replica_settle(r, err) : rc;
}

int sw_replica_need(struct sw_replica *r, int param, uint64_t version, struct sw_err *err)
{
    struct sw_replica_item *item = find(r, param);
    bool there = updates(r, param), decides = r->norms.decides;
    int rc = there ? move_in(r, item, version, err) : SW_OK;
    if (rc != SW_OK || (there && item->has >= (int64_t)version))
        return rc;
    if (decides && sw_replica_is_own(r, param))
        return SW_OK; /* the gradient is there */
    if (sw_table_is_elsewhere(r->args.table, param)) {
        rc = sw_replica_remake(r, item, version, err);
        return rc == SW_OK ? sw_replica_update_there(r, item, version, err) : rc;
    }
    int b = bucket_of(r, param);
    if (b >= 0) {
        rc = take_bucket(r, b, version, err);
        return rc == SW_OK && !decides ? sw_replica_update_there(r, item, version, err) : rc;
    }
    if (item->asked < (int64_t)version)
        rc = ask_all(r, item, version, err);
    /* What is queued now will also write the gradient anew. */
    if (rc == SW_OK)
        rc = sw_event_wait(r->args.stream, item->here, err);
    if (rc == SW_OK)
        rc = sw_event_wait(r->args.stream, item->given, err);
    if (rc == SW_OK)
        rc = sw_replica_wait_sent(r, param, err);
    return rc == SW_OK && there && !decides ? sw_replica_update_there(r, item, version, err) : rc;
}

int sw_replica_check(struct sw_replica *r, struct sw_err *err)
{
    return sw_copy_queue_check(r->queue, err);
}

int64_t sw_replica_copied_ns(const struct sw_replica *r, enum sw_copy_direction d)
{
    return sw_copy_queue_busy_ns(r->queue, d);
}

int sw_replica_under_way(const struct sw_replica *r)
{
    return sw_copy_queue_under_way(r->queue, SW_COPY_TO_HOST);
}

/* On a thread of the device: a term is on the host, and with the last one the gradient. Else the
 * worker is told why, by the call that met the error. */
static void on_given(void *user, int rc)
{
    struct sw_replica_item *item = user;
    struct sw_replica *r = item->owner;
    struct sw_err err;
    /* The terms' bytes were written by this thread, or are acquired from those who did. */
    if (rc != SW_OK || __atomic_sub_fetch(&item->missing, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    rc = sw_table_update(r->args.table, r->args.worker, item->param, item->gives, &err);
    if (rc == SW_OK || rc == SW_ERR_CANCELLED)
        return;
    sw_fault_set(r->args.fault, r->args.unit, &err);
}

int sw_replica_give(struct sw_replica *r, int param, uint64_t version, struct sw_err *err)
{
    struct sw_replica_item *item = find(r, param);
    if (sw_table_factors_of(r->args.table, param))
        return sw_replica_give_factors(r, item, version, err);
    if (bucket_of(r, param) >= 0)
        return give_to_bucket(r, item, version, err);
    if (!sw_replica_waits(r, param))
        return r->norms.decides ? SW_OK : sw_replica_update_there(r, item, version, err);
    int rc = sw_event_record(r->args.stream, item->made, err);
    if (rc != SW_OK)
        return rc;
    item->gives = version;
    __atomic_store_n(&item->missing, r->terms, __ATOMIC_RELAXED);
    for (int k = 0; k < r->terms && rc == SW_OK; k++) {
        struct sw_copy_event e = {
            .direction = SW_COPY_TO_HOST,
            .dst = sw_table_term(r->args.table, r->args.worker, param, k).gradient,
            .src = sw_replica_gradient(r, param, k),
            .bytes = item->bytes,
            .priority = r->item_of[param],
            .after = item->made,
            .then = item->given,
            .done = on_given,
            .user = item};
        rc = sw_copy_queue_push(r->queue, &e, err);
    }
    if (rc == SW_OK)
        rc = sw_copy_queue_drain(r->queue, err);
    return rc == SW_OK ? sw_replica_settle(r, err) : rc;
}
