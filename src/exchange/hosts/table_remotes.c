/* Remote update groups over a fabric. A slice of one update group goes back and forth: its gradient
 * to host 0, its new values from there. What may arrive follows from that: a gradient for the
 * update after the one of which host 0 has published all values, and values for a slice that was
 * given. Anything else is an error of the sender and loses it.
 *
 * A table is told when all slices of a parameter are here, so that what was lost on the way leaves
 * no parameter half updated. `left` counts what must happen until then: all slices arrive, and all
 * messages that went the other way before are out, since their memory is the table's again then. */
#include "exchange/hosts/table_remotes.h"

#include "base/os.h"
#include <limits.h>
#include <math.h>

/* A parameter of a remote update group. */
struct sw_remote_param {
    struct sw_table_remotes *remotes;
    int group, param; /* group: among those of messages */
    int left;         /* atomic */
    uint64_t version; /* atomic: of the update that is under way */
    int staleness;    /* of the values that have arrived; the receiving thread's until left is 0 */
};

struct sw_remote_slice {
    uint64_t given;   /* atomic, not on host 0: update whose gradient was given last */
    uint64_t arrived; /* update whose gradient, or values, arrived last; the receiving thread's */
};

/* ---- Numbers ---- */

static bool is_home(const struct sw_table_remotes *s)
{
    return s->own == 0;
}

/* The number of a group in the own table. */
static int table_group(const struct sw_table_remotes *s, int group)
{
    return is_home(s) ? s->first + group : group;
}

static int host_of(const struct sw_table_remotes *s, int group)
{
    return (s->first + group) / s->args.groups;
}

static struct sw_remote_param *param_of(const struct sw_table_remotes *s, int group, int param)
{
    return &s->params[(size_t)group * (size_t)sw_table_count(s->args.table) + (size_t)param];
}

static struct sw_remote_slice *slice_of(const struct sw_table_remotes *s, int group, int slice)
{
    return &s->slices[(size_t)group * (size_t)sw_table_slices(s->args.table) + (size_t)slice];
}

static uint16_t urgency_of(int param)
{
    return (uint16_t)(param < UINT16_MAX ? param : UINT16_MAX);
}

/* ---- Both ends ---- */

/* Something that the parameter waits for has happened. The thread for which it was the last thing
 * acquires what all others wrote. */
static void happen(struct sw_remote_param *p)
{
    struct sw_table *t = p->remotes->args.table;
    int group = table_group(p->remotes, p->group);

    if (__atomic_sub_fetch(&p->left, 1, __ATOMIC_ACQ_REL) > 0)
        return;

    uint64_t version = __atomic_load_n(&p->version, __ATOMIC_RELAXED);
    int staleness = p->staleness;
    p->staleness = 0;
    /* Nothing of the next update happens before the table is told of this one. */
    __atomic_store_n(&p->left, 2 * sw_table_param(t, p->param)->slice_count, __ATOMIC_RELAXED);

    if (is_home(p->remotes))
        sw_table_put_gradient(t, group, p->param, version);
    else
        sw_table_put_values(t, group, p->param, version, staleness);
}

/* sw_fabric_send's done. What is cancelled never happens. */
static void sent(void *user, int rc)
{
    if (rc == SW_OK)
        happen(user);
}

static int send_slice(struct sw_table_remotes *s, int group, int index,
                      const struct sw_fabric_tag *tag, const float *x, struct sw_err *err)
{
    const struct sw_slice *slice = sw_table_slice(s->args.table, index);
    struct sw_fabric_tag full = *tag;

    full.urgency = urgency_of(slice->param);
    full.item =
        (uint32_t)(s->first + group) * (uint32_t)sw_table_slices(s->args.table) + (uint32_t)index;

    return sw_fabric_send(s->fabric, is_home(s) ? host_of(s, group) : 0, &full, x,
                          (size_t)slice->count * sizeof *x, sent, param_of(s, group, slice->param),
                          err);
}

/* ---- From the table ---- */

float sw_relative_change(const float *gradient, const float *value, int64_t count)
{
    double changes = 0, values = 0;

    for (int64_t i = 0; i < count; i++) {
        changes += (double)fabsf(gradient[i]);
        values += (double)fabsf(value[i]);
    }

    double change = values > 0 ? changes / values : 0;
    return isfinite(change) ? (float)change : 0;
}

static float change_of_slice(const struct sw_table_remotes *s, int group, int index, const float *x)
{
    const struct sw_slice *slice = sw_table_slice(s->args.table, index);
    const float *value =
        sw_table_param(s->args.table, slice->param)->view[group].value + slice->from;

    return s->args.by_change ? sw_relative_change(x, value, slice->count) : 0;
}

static int give(void *user, int group, int slice, uint64_t version, float *x, struct sw_err *err)
{
    struct sw_table_remotes *s = user;
    int param = sw_table_slice(s->args.table, slice)->param;

    __atomic_store_n(&param_of(s, group, param)->version, version, __ATOMIC_RELAXED);
    /* Releases the above, and the readers' end, to the thread that receives the values. */
    __atomic_store_n(&slice_of(s, group, slice)->given, version, __ATOMIC_RELEASE);

    return send_slice(s, group, slice,
                      &(struct sw_fabric_tag){.kind = SW_HOSTS_GRADIENT,
                                              .version = version,
                                              .change = change_of_slice(s, group, slice, x)},
                      x, err);
}

static int answer(void *user, int group, int index, uint64_t version, int staleness,
                  struct sw_err *err)
{
    struct sw_table_remotes *s = user;
    const struct sw_slice *slice = sw_table_slice(s->args.table, index);
    const float *value =
        sw_table_param(s->args.table, slice->param)->view[group].value + slice->from;

    int rc = send_slice(
        s, group - s->first, index,
        &(struct sw_fabric_tag){.kind = SW_HOSTS_VALUES, .version = version - (uint64_t)staleness},
        value, err);

    /* Whoever is lost, or has left, needs no answer; the job goes on. */
    return rc == SW_ERR_LOST || rc == SW_ERR_CANCELLED ? SW_OK : rc;
}

struct sw_table_outer sw_table_remotes_outer(struct sw_table_remotes *s,
                                             const struct sw_hosts *hosts)
{
    return hosts->own == 0 ? (struct sw_table_outer){.answer = answer, .user = s}
                           : (struct sw_table_outer){.give = give, .user = s};
}

/* ---- From the fabric ---- */

static int refuse(const struct sw_fabric_tag *tag, size_t bytes, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID,
                      "it sent message %d of item %lu, version %llu, with %zu bytes, which is not "
                      "expected now",
                      tag->kind, (unsigned long)tag->item, (unsigned long long)tag->version, bytes);
}

/* The update whose gradient of the parameter host 0 takes next. */
static uint64_t next_version(const struct sw_table_remotes *s, int group, int param)
{
    const struct sw_param *p = sw_table_param(s->args.table, param);

    /* Acquires the end of the last update, which has read the gradient before it. */
    return __atomic_load_n(&p->view[table_group(s, group)].ready, __ATOMIC_ACQUIRE) /
               (uint64_t)p->slice_count +
           1;
}

static bool expects_gradient(const struct sw_table_remotes *s, int group, int index,
                             uint64_t version)
{
    return version == next_version(s, group, sw_table_slice(s->args.table, index)->param) &&
           version != slice_of(s, group, index)->arrived;
}

/* `least`: the fewest updates of any group that the values contain. */
static bool expects_values(const struct sw_table_remotes *s, int group, int index, uint64_t least)
{
    const struct sw_remote_slice *p = slice_of(s, group, index);
    uint64_t given = __atomic_load_n(&p->given, __ATOMIC_ACQUIRE);

    return given != p->arrived && least <= given && given - least <= INT_MAX;
}

/* Finds the group and the slice that a message is about. */
static bool find(const struct sw_table_remotes *s, int from, const struct sw_fabric_tag *tag,
                 int *group, int *slice)
{
    uint32_t slices = (uint32_t)sw_table_slices(s->args.table), first = (uint32_t)s->first;

    if (slices == 0 || tag->item / slices < first ||
        tag->item / slices >= first + (uint32_t)s->count)
        return false;

    *group = (int)(tag->item / slices - first);
    *slice = (int)(tag->item % slices);
    return from == (is_home(s) ? host_of(s, *group) : 0);
}

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_table_remotes *s = user;
    int group, index;

    if (tag->kind != (is_home(s) ? SW_HOSTS_GRADIENT : SW_HOSTS_VALUES) ||
        !find(s, from, tag, &group, &index))
        return refuse(tag, bytes, err);

    const struct sw_slice *slice = sw_table_slice(s->args.table, index);
    const struct sw_param_view *view =
        &sw_table_param(s->args.table, slice->param)->view[table_group(s, group)];
    bool expected = is_home(s) ? expects_gradient(s, group, index, tag->version)
                               : expects_values(s, group, index, tag->version);

    if (!expected || tag->urgency != urgency_of(slice->param) ||
        bytes != (size_t)slice->count * sizeof(float))
        return refuse(tag, bytes, err);

    *to = (is_home(s) ? view->gradient : view->value) + slice->from;
    return SW_OK;
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_table_remotes *s = user;
    uint32_t slices = (uint32_t)sw_table_slices(s->args.table);
    int group = (int)(tag->item / slices) - s->first, index = (int)(tag->item % slices);
    struct sw_remote_slice *slice = slice_of(s, group, index);
    struct sw_remote_param *p = param_of(s, group, sw_table_slice(s->args.table, index)->param);

    if (is_home(s)) {
        slice->arrived = tag->version;
        __atomic_store_n(&p->version, tag->version, __ATOMIC_RELAXED);
    } else {
        slice->arrived = __atomic_load_n(&slice->given, __ATOMIC_RELAXED);
        int staleness = (int)(slice->arrived - tag->version);
        p->staleness = staleness > p->staleness ? staleness : p->staleness;
    }

    happen(p);
    return SW_OK;
}

static void lost(void *user, int host, const struct sw_err *why)
{
    struct sw_table_remotes *s = user;

    for (int k = 0; is_home(s) && k < s->args.groups; k++)
        sw_table_lose_group(s->args.table, host * s->args.groups + k);
    if (host == 0)
        sw_fault_set(s->args.fault, "hosts", why);
    if (s->args.lost)
        s->args.lost(s->args.user, host, why);
}

/* ---- Life ---- */

static int check(const struct sw_table_remotes *s, struct sw_err *err)
{
    int groups = is_home(s) ? s->hosts * s->args.groups : s->args.groups;
    uint64_t items =
        (uint64_t)s->hosts * (uint64_t)s->args.groups * (uint64_t)sw_table_slices(s->args.table);

    if (sw_table_update_groups(s->args.table) != groups)
        return sw_err_set(err, SW_ERR_INVALID, "the table has %d update groups, but %d are needed",
                          sw_table_update_groups(s->args.table), groups);
    if (items > UINT32_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d slices of %d update groups on %d hosts are too many",
                          sw_table_slices(s->args.table), s->args.groups, s->hosts);

    return SW_OK;
}

int sw_table_remotes_init(struct sw_table_remotes *s, const struct sw_table_remotes_args *args,
                          struct sw_err *err)
{
    const struct sw_table *t = args->table;
    int own = args->hosts->own, hosts = args->hosts->count;

    *s = (struct sw_table_remotes){.args = *args,
                                   .own = own,
                                   .hosts = hosts,
                                   .first = own == 0 ? args->groups : own * args->groups,
                                   .count = own == 0 ? (hosts - 1) * args->groups : args->groups};
    s->args.hosts = NULL; /* the caller's */

    int rc = check(s, err);
    if (rc != SW_OK)
        return rc;

    size_t groups = (size_t)s->count, params = groups * (size_t)sw_table_count(t),
           slices = groups * (size_t)sw_table_slices(t);
    s->params = sw_calloc(params + 1, sizeof *s->params);
    s->slices = sw_calloc(slices + 1, sizeof *s->slices);
    if (!s->params || !s->slices) {
        sw_table_remotes_fini(s);
        return sw_err_nomem(err, "update groups of other hosts",
                            params * sizeof *s->params + slices * sizeof *s->slices);
    }

    /* No values have been sent before the first gradient. */
    for (int k = 0; k < s->count; k++)
        for (int p = 0; p < sw_table_count(t); p++)
            *param_of(s, k, p) = (struct sw_remote_param){
                .remotes = s,
                .group = k,
                .param = p,
                .left = sw_table_param(t, p)->slice_count * (is_home(s) ? 1 : 2)};

    return SW_OK;
}

void sw_table_remotes_receive(struct sw_table_remotes *s, struct sw_fabric_router *router)
{
    sw_fabric_router_add(
        router, SW_HOSTS_GRADIENT, SW_HOSTS_VALUES - SW_HOSTS_GRADIENT + 1,
        (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = s});
}

int sw_table_remotes_room(const struct sw_table_remotes *s)
{
    return s->args.groups * sw_table_slices(s->args.table);
}

void sw_table_remotes_start(struct sw_table_remotes *s, struct sw_fabric *f)
{
    s->fabric = f;
}

void sw_table_remotes_fini(struct sw_table_remotes *s)
{
    sw_free(s->params);
    sw_free(s->slices);
    s->params = NULL;
    s->slices = NULL;
}
