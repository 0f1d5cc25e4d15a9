/* A channel is at one sum at a time: no host has the result of a sum before host 0 has the values
 * of all others, and none sends values of the next sum before it has the result. */
#include "exchange/hosts/hosts_lead.h"

#include "base/os.h"
#include "thread/thread.h"
#include <string.h>

/* All under the lock, but for what is on the way. */
struct channel {
    struct sw_hosts_lead *lead;
    double *value;            /* [hosts][small_most]: on host 0 of all hosts, else the own row */
    double *result;           /* [1 + small_most]: bits of the hosts, then the sums */
    int count[SW_MOST_HOSTS]; /* of values */
    int results;              /* not on host 0: values that the result must have */
    uint64_t done;            /* sums that host 0 has added, or of which the result is here */
    uint64_t have;            /* on host 0: bits of hosts whose values are here */
    bool waits;               /* not on host 0: for the result */
    int sending;              /* messages whose data is still needed */
    uint64_t counted;
};

struct sw_hosts_lead {
    struct sw_hosts_lead_args args;
    struct sw_fabric *fabric; /* borrowed */
    double *memory;           /* owned: of all channels */
    struct channel channels[SW_HOSTS_CHANNELS];
    struct sw_mutex lock; /* guards the channels and all below */
    struct sw_cond changed;
    uint64_t living;
    struct sw_err lost; /* host 0 */
    bool closed;
};

/* ---- Life ---- */

int sw_hosts_lead_new(const struct sw_hosts_lead_args *args, struct sw_hosts_lead **out,
                      struct sw_err *err)
{
    if (args->hosts < 2 || args->hosts > SW_MOST_HOSTS || args->own < 0 || args->own >= args->hosts)
        return sw_err_set(err, SW_ERR_INVALID, "host %d of %d; 2 to %d hosts are possible",
                          args->own, args->hosts, SW_MOST_HOSTS);

    struct sw_hosts_lead *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "sums through host 0", sizeof *s);

    s->args = *args;
    s->living = UINT64_MAX >> (64 - args->hosts);
    sw_mutex_init(&s->lock);
    sw_cond_init(&s->changed);

    size_t most = (size_t)args->small_most, each = ((size_t)args->hosts + 1) * most + 1;
    s->memory = sw_calloc(SW_HOSTS_CHANNELS * each, sizeof *s->memory);
    if (!s->memory) {
        sw_hosts_lead_free(s);
        return sw_err_nomem(err, "sums through host 0", SW_HOSTS_CHANNELS * each * sizeof(double));
    }

    for (int i = 0; i < SW_HOSTS_CHANNELS; i++) {
        s->channels[i].lead = s;
        s->channels[i].value = s->memory + each * (size_t)i;
        s->channels[i].result = s->channels[i].value + (size_t)args->hosts * most;
    }

    *out = s;
    return SW_OK;
}

void sw_hosts_lead_free(struct sw_hosts_lead *s)
{
    if (!s)
        return;

    sw_free(s->memory);
    sw_cond_fini(&s->changed);
    sw_mutex_fini(&s->lock);
    sw_free(s);
}

int sw_hosts_lead_room(const struct sw_hosts_lead *s)
{
    (void)s;
    return SW_HOSTS_CHANNELS;
}

void sw_hosts_lead_start(struct sw_hosts_lead *s, struct sw_fabric *f)
{
    s->fabric = f;
}

void sw_hosts_lead_close_v(void *lead)
{
    struct sw_hosts_lead *s = lead;

    sw_mutex_lock(&s->lock);
    s->closed = true;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
}

/* ---- Sums ---- */

static double *row_of(const struct channel *c, int host)
{
    return c->value + (size_t)host * (size_t)c->lead->args.small_most;
}

static void sent(void *user, int rc)
{
    struct channel *c = user;

    sw_mutex_lock(&c->lead->lock);
    c->sending--;
    sw_cond_broadcast(&c->lead->changed);
    sw_mutex_unlock(&c->lead->lock);
}

static bool has_sent(const struct channel *c)
{
    return c->sending == 0;
}

/* On host 0. */
static bool has_all(const struct channel *c)
{
    return (c->lead->living & ~c->have) == 0;
}

static bool has_result(const struct channel *c)
{
    return !c->waits;
}

/* Under the lock. */
static int wait_until(struct channel *c, bool (*holds)(const struct channel *c), struct sw_err *err)
{
    struct sw_hosts_lead *s = c->lead;

    while (!holds(c) && !s->closed && s->lost.code == SW_OK)
        sw_cond_wait(&s->changed, &s->lock);
    if (holds(c))
        return SW_OK;

    return s->lost.code != SW_OK ? sw_err_set(err, SW_ERR_LOST, "%s", s->lost.text)
                                 : sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

/* Sends values of the sum `version`, or its result. A lost host is no error. */
static int send(struct sw_hosts_lead *s, int channel, int to, uint64_t version,
                const double *values, int count, struct sw_err *err)
{
    struct channel *c = &s->channels[channel];
    const struct sw_fabric_tag tag = {
        .kind = SW_HOSTS_LEAD, .item = (uint32_t)channel, .version = version};

    int rc =
        sw_fabric_send(s->fabric, to, &tag, values, (size_t)count * sizeof *values, sent, c, err);
    if (rc != SW_OK)
        sent(c, rc);
    return rc == SW_ERR_LOST ? SW_OK : rc;
}

/* Under the lock: adds the values of the living hosts whose values are here. */
static int add(struct channel *c, double *values, int count, struct sw_err *err)
{
    c->counted = c->have & c->lead->living;

    for (int host = 1; host < c->lead->args.hosts; host++) {
        if (!(c->counted >> host & 1))
            continue;
        if (c->count[host] != count)
            return sw_err_set(err, SW_ERR_INVALID, "host %d sums %d values where host 0 sums %d",
                              host, c->count[host], count);

        for (int i = 0; i < count; i++)
            values[i] += row_of(c, host)[i];
    }

    memcpy(c->result, &c->counted, sizeof c->counted);
    memcpy(c->result + 1, values, (size_t)count * sizeof *values);
    return SW_OK;
}

static int lead(struct sw_hosts_lead *s, int channel, double *values, int count, struct sw_err *err)
{
    struct channel *c = &s->channels[channel];

    sw_mutex_lock(&s->lock);

    c->have |= 1;
    int rc = wait_until(c, has_sent, err);
    if (rc == SW_OK)
        rc = wait_until(c, has_all, err);
    if (rc == SW_OK)
        rc = add(c, values, count, err);
    if (rc == SW_OK) {
        c->have = 0;
        c->done++;
        c->sending = __builtin_popcountll(c->counted) - 1;
    }

    uint64_t to = c->counted, version = c->done;
    sw_mutex_unlock(&s->lock);

    for (int host = 1; host < s->args.hosts && rc == SW_OK; host++)
        if (to >> host & 1)
            rc = send(s, channel, host, version, c->result, count + 1, err);
    return rc;
}

static int follow(struct sw_hosts_lead *s, int channel, double *values, int count,
                  struct sw_err *err)
{
    struct channel *c = &s->channels[channel];

    sw_mutex_lock(&s->lock);

    int rc = wait_until(c, has_sent, err);
    if (rc == SW_OK) {
        memcpy(row_of(c, s->args.own), values, (size_t)count * sizeof *values);
        c->results = count;
        c->waits = true;
        c->sending = 1;
    }

    uint64_t version = c->done + 1;
    sw_mutex_unlock(&s->lock);
    if (rc == SW_OK)
        rc = send(s, channel, 0, version, row_of(c, s->args.own), count, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&s->lock);

    rc = wait_until(c, has_result, err);
    if (rc == SW_OK) {
        memcpy(&c->counted, c->result, sizeof c->counted);
        memcpy(values, c->result + 1, (size_t)count * sizeof *values);
    }

    sw_mutex_unlock(&s->lock);
    return rc;
}

int sw_hosts_lead_sum(struct sw_hosts_lead *s, enum sw_hosts_channel channel, double *values,
                      int count, struct sw_err *err)
{
    if (count < 0 || count > s->args.small_most)
        return sw_err_set(err, SW_ERR_INVALID, "a sum of %d values over hosts; %d are possible",
                          count, s->args.small_most);

    sw_fabric_await(s->fabric, 1);
    int rc = s->args.own == 0 ? lead(s, (int)channel, values, count, err)
                              : follow(s, (int)channel, values, count, err);
    sw_fabric_await(s->fabric, -1);

    return rc;
}

uint64_t sw_hosts_lead_counted(const struct sw_hosts_lead *s, enum sw_hosts_channel channel)
{
    return s->channels[channel].counted;
}

/* ---- The sink ---- */

/* Under the lock: where do the values of the next sum, or its result, go? NULL: nowhere. */
static double *room_for(struct channel *c, int from, size_t bytes)
{
    const struct sw_hosts_lead_args *a = &c->lead->args;

    if (a->own == 0)
        return bytes <= (size_t)a->small_most * sizeof(double) && !(c->have >> from & 1)
                   ? row_of(c, from)
                   : NULL;

    return from == 0 && c->waits && bytes == ((size_t)c->results + 1) * sizeof(double) ? c->result
                                                                                       : NULL;
}

static int place(void *lead, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_hosts_lead *s = lead;
    double *room = NULL;

    sw_mutex_lock(&s->lock);
    if (tag->kind == SW_HOSTS_LEAD && tag->item < SW_HOSTS_CHANNELS && tag->urgency == 0 &&
        tag->version == s->channels[tag->item].done + 1 && bytes % sizeof(double) == 0)
        room = room_for(&s->channels[tag->item], from, bytes);
    sw_mutex_unlock(&s->lock);

    if (!room)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "it sent %zu bytes of kind %d, item %lu, version %llu, which nobody waits for", bytes,
            tag->kind, (unsigned long)tag->item, (unsigned long long)tag->version);

    *to = room;
    return SW_OK;
}

static int arrived(void *lead, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_hosts_lead *s = lead;
    struct channel *c = &s->channels[tag->item];

    sw_mutex_lock(&s->lock);

    if (s->args.own == 0) {
        c->have |= (uint64_t)1 << from;
        c->count[from] = (int)(bytes / sizeof(double));
    } else {
        c->waits = false;
        c->done++;
    }
    sw_cond_broadcast(&s->changed);

    sw_mutex_unlock(&s->lock);
    return SW_OK;
}

static void lost(void *lead, int host, const struct sw_err *why)
{
    struct sw_hosts_lead *s = lead;

    sw_mutex_lock(&s->lock);
    s->living &= ~((uint64_t)1 << host);
    if (host == 0)
        s->lost = *why;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
}

struct sw_fabric_sink sw_hosts_lead_sink(struct sw_hosts_lead *s)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = s};
}
