/* Sums over hosts. Shares are cut into pieces of one chunk, which are numbered over all items; the
 * number is in the tag. The owner of a piece has room for that piece of every other host. Who
 * brings the last term, the owner's own give or a message, adds all of them and sends the sum.
 *
 * What may arrive follows from what was sent: nobody sends the next version of a piece before it
 * has the sum of this one, so the owner's room is free then; and a sum comes only for terms that
 * were given, so its place is in the item's array. Anything else is an error of the sender and
 * loses it.
 *
 * An item is summed when all its sums have arrived and nothing of its array is on the way any more,
 * which `left` counts. A channel of small sums has room for two calls, since no host can give more
 * than once before it has taken. */
#include "exchange/hosts/hosts_sum.h"

#include "base/os.h"
#include "base/tree.h"
#include "thread/thread.h"
#include <string.h>

enum { PIECE = SW_FABRIC_CHUNK / (int)sizeof(float), BLOCK = 1024 };

struct piece {
    int item, owner;
    int64_t from, count;
    uint64_t have;    /* atomic: bits of hosts. Of an own piece: whose term is here; of another one
                         the owner's bit: the sum is here */
    uint64_t version; /* atomic, of an own piece: the version that is being summed */
    float *room;      /* of an own piece: [hosts][count]; the own row is not there */
};

struct item {
    struct sw_hosts_sum *sum;
    int index;
    struct sw_hosts_sum_item conf;
    int first_piece, piece_count;
    float *x;         /* borrowed while it is summed */
    uint64_t given;   /* atomic: the version given last */
    uint64_t version; /* the version summed last; changed by the thread that completes it, before
                         `summed` is called */
    int events;       /* what must happen until it is summed */
    int left;         /* atomic: how much of that has not happened */
};

/* A small sum; `have`, `count` and `sending` are under the lock. */
struct small {
    struct sw_hosts_sum *sum;
    double *value;            /* [hosts][small_most] */
    int count[SW_MOST_HOSTS]; /* of values */
    uint64_t have;            /* bits of hosts */
    int sending;              /* messages whose data is still needed */
};

/* All under the lock, except that the one thread of the channel reads `given` without it. */
struct channel {
    struct small call[2];          /* odd and even calls */
    uint64_t given, taken;         /* calls */
    uint64_t heard[SW_MOST_HOSTS]; /* calls of which the host's values are here */
};

struct sw_hosts_sum {
    struct sw_hosts_sum_args args;
    struct sw_fabric *fabric; /* borrowed */
    struct item *items;       /* owned [count] */
    struct piece *pieces;     /* owned [piece_count] */
    int piece_count;
    float *memory;            /* owned: the room of all own pieces */
    struct channel *channels; /* owned [SW_HOSTS_CHANNELS] */
    double *values;           /* owned: of all small sums */
    uint64_t all;             /* bits of all hosts */
    struct sw_mutex lock;     /* guards small sums and all below */
    struct sw_cond changed;
    struct sw_err lost; /* the first loss */
    bool closed;
};

/* ---- Life ---- */

/* Cuts the share of a host into pieces; with pieces NULL only counts. */
static int cut_share(const struct sw_hosts_sum *s, int item, int owner, struct piece *pieces)
{
    int64_t from, count;
    int n = 0;

    sw_part(s->args.items[item].elements, s->args.hosts, owner, &from, &count);

    for (int64_t at = 0; at < count; at += PIECE, n++)
        if (pieces)
            pieces[n] = (struct piece){.item = item,
                                       .owner = owner,
                                       .from = from + at,
                                       .count = count - at < PIECE ? count - at : PIECE,
                                       .version = 1};
    return n;
}

static void cut_items(struct sw_hosts_sum *s)
{
    int others = s->args.hosts - 1, n = 0;

    for (int i = 0; i < s->args.count; i++) {
        struct item *item = &s->items[i];

        *item = (struct item){.sum = s, .index = i, .conf = s->args.items[i], .first_piece = n};
        for (int owner = 0; owner < s->args.hosts; owner++) {
            int pieces = cut_share(s, i, owner, &s->pieces[n]);

            /* An own piece is added, and sent to the others; another one is sent, and comes back.
             */
            item->events += pieces * (owner == s->args.own ? 1 + others : 2);
            n += pieces;
        }

        item->piece_count = n - item->first_piece;
        item->left = item->events;
    }
}

static int place_pieces(struct sw_hosts_sum *s, struct sw_err *err)
{
    int64_t floats = 0;

    for (int i = 0; i < s->piece_count; i++)
        if (s->pieces[i].owner == s->args.own)
            floats += s->pieces[i].count * (s->args.hosts - 1);

    s->memory = sw_calloc((size_t)floats + 1, sizeof *s->memory);
    if (!s->memory)
        return sw_err_nomem(err, "sums over hosts", (size_t)floats * sizeof *s->memory);

    float *at = s->memory;
    for (int i = 0; i < s->piece_count; i++)
        if (s->pieces[i].owner == s->args.own) {
            s->pieces[i].room = at;
            at += s->pieces[i].count * (s->args.hosts - 1);
        }

    return SW_OK;
}

static int make(struct sw_hosts_sum *s, struct sw_err *err)
{
    size_t count = (size_t)s->args.count;

    for (int i = 0; i < s->args.count; i++)
        for (int owner = 0; owner < s->args.hosts; owner++)
            s->piece_count += cut_share(s, i, owner, NULL);

    s->items = sw_calloc(count + 1, sizeof *s->items);
    s->pieces = sw_calloc((size_t)s->piece_count + 1, sizeof *s->pieces);
    s->channels = sw_calloc(SW_HOSTS_CHANNELS, sizeof *s->channels);
    if (!s->items || !s->pieces || !s->channels)
        return sw_err_nomem(err, "sums over hosts",
                            count * sizeof *s->items + SW_HOSTS_CHANNELS * sizeof *s->channels);

    size_t values = (size_t)s->args.hosts * (size_t)s->args.small_most;
    s->values = sw_calloc(2 * SW_HOSTS_CHANNELS * values + 1, sizeof *s->values);
    if (!s->values)
        return sw_err_nomem(err, "sums over hosts", values * sizeof *s->values);

    for (int i = 0; i < 2 * SW_HOSTS_CHANNELS; i++) {
        struct small *b = &s->channels[i / 2].call[i % 2];

        b->sum = s;
        b->value = s->values + values * (size_t)i;
    }

    cut_items(s);
    s->args.items = NULL; /* the caller's */
    return place_pieces(s, err);
}

int sw_hosts_sum_new(const struct sw_hosts_sum_args *args, struct sw_hosts_sum **out,
                     struct sw_err *err)
{
    if (args->hosts < 2 || args->hosts > SW_MOST_HOSTS || args->own < 0 || args->own >= args->hosts)
        return sw_err_set(err, SW_ERR_INVALID, "host %d of %d; 2 to %d hosts are possible",
                          args->own, args->hosts, SW_MOST_HOSTS);

    struct sw_hosts_sum *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "sums over hosts", sizeof *s);

    s->args = *args;
    s->all = UINT64_MAX >> (64 - args->hosts);
    sw_mutex_init(&s->lock);
    sw_cond_init(&s->changed);

    int rc = make(s, err);
    if (rc != SW_OK) {
        sw_hosts_sum_free(s);
        return rc;
    }

    *out = s;
    return SW_OK;
}

void sw_hosts_sum_free(struct sw_hosts_sum *s)
{
    if (!s)
        return;

    sw_free(s->items);
    sw_free(s->pieces);
    sw_free(s->memory);
    sw_free(s->channels);
    sw_free(s->values);
    sw_cond_fini(&s->changed);
    sw_mutex_fini(&s->lock);
    sw_free(s);
}

int sw_hosts_sum_room(const struct sw_hosts_sum *s)
{
    /* Each piece goes to a host once at most, and so do two small sums of each channel. */
    return s->piece_count + 2 * SW_HOSTS_CHANNELS;
}

void sw_hosts_sum_start(struct sw_hosts_sum *s, struct sw_fabric *f)
{
    s->fabric = f;
}

void sw_hosts_sum_close_v(void *sum)
{
    struct sw_hosts_sum *s = sum;

    sw_mutex_lock(&s->lock);
    s->closed = true;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
}

/* ---- Items ---- */

/* The row of a host in the room of an own piece. */
static float *row_of(const struct sw_hosts_sum *s, const struct piece *p, int host)
{
    return p->room + p->count * (host < s->args.own ? host : host - 1);
}

/* Something that the item waits for has happened. The thread for which it was the last thing
 * acquires what all others wrote. */
static void happen(struct item *item)
{
    struct sw_hosts_sum *s = item->sum;

    if (__atomic_sub_fetch(&item->left, 1, __ATOMIC_ACQ_REL) > 0)
        return;

    uint64_t version = ++item->version;
    item->x = NULL;
    __atomic_store_n(&item->left, item->events, __ATOMIC_RELAXED);
    s->args.summed(s->args.user, item->index, version);
}

/* sw_fabric_send's done. What is cancelled never happens. */
static void sent(void *user, int rc)
{
    if (rc == SW_OK)
        happen(user);
}

static int send_piece(struct sw_hosts_sum *s, const struct piece *p, int to, uint16_t kind,
                      uint64_t version, struct sw_err *err)
{
    struct item *item = &s->items[p->item];
    const struct sw_fabric_tag tag = {.kind = kind,
                                      .urgency = item->conf.urgency,
                                      .item = (uint32_t)(p - s->pieces),
                                      .version = version};

    return sw_fabric_send(s->fabric, to, &tag, item->x + p->from, (size_t)p->count * sizeof(float),
                          sent, item, err);
}

static void add(float *restrict sum, const float *restrict term, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += term[i];
}

/* Adds the terms of all hosts, as leaves of the reduction tree, into the own array. Partial sums
 * are on a stack. */
static void add_terms(const struct sw_hosts_sum *s, const struct piece *p, float *own)
{
    enum { DEPTH = 8 }; /* for SW_MOST_HOSTS */

    float stack[DEPTH][BLOCK];

    for (int64_t from = 0; from < p->count; from += BLOCK) {
        int64_t n = p->count - from < BLOCK ? p->count - from : BLOCK;
        int depth = 0;

        for (int host = 0; host < s->args.hosts; host++) {
            const float *term = (host == s->args.own ? own : row_of(s, p, host)) + from;
            int adds = sw_tree_adds(s->args.hosts, host, host + 1);

            if (adds == 0) {
                memcpy(stack[depth++], term, (size_t)n * sizeof *term);
                continue;
            }

            add(stack[depth - 1], term, n);
            for (; adds > 1; adds--, depth--)
                add(stack[depth - 2], stack[depth - 1], n);
        }

        memcpy(own + from, stack[0], (size_t)n * sizeof *own);
    }
}

/* A term of an own piece is here. Whose term is the last adds them, and sends the sum to all. */
static int bring_term(struct sw_hosts_sum *s, struct piece *p, int host, struct sw_err *err)
{
    uint64_t bit = (uint64_t)1 << host;
    struct item *item = &s->items[p->item];

    /* Acquires the terms that other threads brought. */
    if ((__atomic_fetch_or(&p->have, bit, __ATOMIC_ACQ_REL) | bit) != s->all)
        return SW_OK;

    uint64_t version = __atomic_load_n(&p->version, __ATOMIC_RELAXED);
    add_terms(s, p, item->x + p->from);

    /* From here on terms of the next version may come, but only after this sum was sent. */
    __atomic_store_n(&p->have, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->version, version + 1, __ATOMIC_RELEASE);

    int rc = SW_OK;
    for (int i = 1; i < s->args.hosts && rc == SW_OK; i++)
        rc = send_piece(s, p, (s->args.own + i) % s->args.hosts, SW_HOSTS_TOTAL, version, err);
    if (rc == SW_OK)
        happen(item);

    return rc;
}

int sw_hosts_sum_give(struct sw_hosts_sum *s, int index, uint64_t version, float *x,
                      struct sw_err *err)
{
    struct item *item = &s->items[index];
    struct piece *first = &s->pieces[item->first_piece];
    int hosts = s->args.hosts, own = s->args.own;

    if (version != item->version + 1 || item->x)
        return sw_err_set(err, SW_ERR_INVALID,
                          "sum %llu of item %d over hosts, but sum %llu is the last one",
                          (unsigned long long)version, index, (unsigned long long)item->version);

    item->x = x;
    for (int i = 0; i < item->piece_count; i++)
        if (first[i].owner != own)
            __atomic_store_n(&first[i].have, 0, __ATOMIC_RELAXED);
    /* Releases the above to the threads that receive sums. */
    __atomic_store_n(&item->given, version, __ATOMIC_RELEASE);

    if (item->piece_count == 0) {
        item->version = version;
        item->x = NULL;
        s->args.summed(s->args.user, index, version);
        return SW_OK;
    }

    /* In turns, so that not all hosts begin with the same one. The own pieces come last, because
     * only then may the item be complete before this function is. */
    for (int turn = 1; turn <= hosts; turn++)
        for (int i = 0; i < item->piece_count; i++) {
            struct piece *p = &first[i];
            int rc = SW_OK;

            if (p->owner != (own + turn) % hosts)
                continue;

            rc = p->owner == own ? bring_term(s, p, own, err)
                                 : send_piece(s, p, p->owner, SW_HOSTS_SHARE, version, err);
            if (rc != SW_OK)
                return rc;
        }

    return SW_OK;
}

/* ---- Small sums ---- */

static void sent_small(void *user, int rc)
{
    struct small *b = user;

    sw_mutex_lock(&b->sum->lock);
    b->sending--;
    sw_cond_broadcast(&b->sum->changed);
    sw_mutex_unlock(&b->sum->lock);
}

static double *values_of(const struct sw_hosts_sum *s, const struct small *b, int host)
{
    return b->value + (size_t)host * (size_t)s->args.small_most;
}

/* With the lock. */
static bool goes_on(const struct sw_hosts_sum *s)
{
    return !s->closed && s->lost.code == SW_OK;
}

static int ended(const struct sw_hosts_sum *s, struct sw_err *err)
{
    if (s->lost.code != SW_OK)
        return sw_err_set(err, SW_ERR_LOST, "%s", s->lost.text);
    return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

/* Puts the own values where they are sent from. */
static int put_own(struct sw_hosts_sum *s, struct small *b, const double *values, int count,
                   struct sw_err *err)
{
    int own = s->args.own, rc = SW_OK;

    sw_mutex_lock(&s->lock);

    /* The call before the last one may still be on the way to a host that needs it no more. */
    while (b->sending > 0 && goes_on(s))
        sw_cond_wait(&s->changed, &s->lock);

    if (!goes_on(s)) {
        rc = ended(s, err);
    } else {
        memcpy(values_of(s, b, own), values, (size_t)count * sizeof *values);
        b->count[own] = count;
        b->have |= (uint64_t)1 << own;
        b->sending = s->args.hosts - 1;
    }

    sw_mutex_unlock(&s->lock);
    return rc;
}

/* With the lock: adds the values of all hosts. */
static int add_small(const struct sw_hosts_sum *s, const struct small *b, double *values, int count,
                     struct sw_err *err)
{
    for (int host = 0; host < s->args.hosts; host++)
        if (b->count[host] != count)
            return sw_err_set(err, SW_ERR_INVALID, "host %d sums %d values where host %d sums %d",
                              host, b->count[host], s->args.own, count);

    if (count > 0)
        sw_tree_sum(b->value, s->args.hosts, s->args.small_most, count, values);
    return SW_OK;
}

int sw_hosts_small_give(struct sw_hosts_sum *s, enum sw_hosts_channel channel, const double *values,
                        int count, struct sw_err *err)
{
    struct channel *c = &s->channels[channel];
    const struct sw_fabric_tag tag = {
        .kind = SW_HOSTS_SMALL, .item = (uint32_t)channel, .version = c->given + 1};
    struct small *b = &c->call[tag.version & 1];

    if (count < 0 || count > s->args.small_most)
        return sw_err_set(err, SW_ERR_INVALID, "a sum of %d values over hosts; %d are possible",
                          count, s->args.small_most);

    int rc = put_own(s, b, values, count, err);
    for (int i = 1; i < s->args.hosts && rc == SW_OK; i++)
        rc = sw_fabric_send(s->fabric, (s->args.own + i) % s->args.hosts, &tag,
                            values_of(s, b, s->args.own), (size_t)count * sizeof *values,
                            sent_small, b, err);

    c->given = tag.version;
    return rc;
}

int sw_hosts_small_take(struct sw_hosts_sum *s, enum sw_hosts_channel channel, double *values,
                        int count, struct sw_err *err)
{
    struct channel *c = &s->channels[channel];
    struct small *b = &c->call[c->given & 1];
    int rc;

    sw_fabric_await(s->fabric, 1);
    sw_mutex_lock(&s->lock);

    while (b->have != s->all && goes_on(s))
        sw_cond_wait(&s->changed, &s->lock);

    if (b->have == s->all) {
        rc = add_small(s, b, values, count, err);
        b->have = 0;
        c->taken++;
    } else {
        rc = ended(s, err);
    }

    sw_mutex_unlock(&s->lock);
    sw_fabric_await(s->fabric, -1);
    return rc;
}

int sw_hosts_sum_small(struct sw_hosts_sum *s, enum sw_hosts_channel channel, double *values,
                       int count, struct sw_err *err)
{
    int rc = sw_hosts_small_give(s, channel, values, count, err);
    return rc == SW_OK ? sw_hosts_small_take(s, channel, values, count, err) : rc;
}

/* ---- The sink ---- */

static int refuse(const struct sw_fabric_tag *tag, size_t bytes, struct sw_err *err)
{
    return sw_err_set(
        err, SW_ERR_INVALID,
        "it sent %zu bytes of kind %d, item %lu, version %llu, which nobody waits for", bytes,
        tag->kind, (unsigned long)tag->item, (unsigned long long)tag->version);
}

static int place_piece(struct sw_hosts_sum *s, int from, const struct sw_fabric_tag *tag,
                       size_t bytes, void **to, struct sw_err *err)
{
    if (tag->item >= (uint32_t)s->piece_count)
        return refuse(tag, bytes, err);

    const struct piece *p = &s->pieces[tag->item];
    const struct item *item = &s->items[p->item];
    uint64_t have = __atomic_load_n(&p->have, __ATOMIC_RELAXED);
    bool total = tag->kind == SW_HOSTS_TOTAL;

    /* Acquires the array of the item, or that its last version was added. */
    uint64_t version = total ? __atomic_load_n(&item->given, __ATOMIC_ACQUIRE)
                             : __atomic_load_n(&p->version, __ATOMIC_ACQUIRE);
    if (bytes != (size_t)p->count * sizeof(float) || tag->urgency != item->conf.urgency ||
        p->owner != (total ? from : s->args.own) || (have >> from & 1) || tag->version != version)
        return refuse(tag, bytes, err);

    *to = total ? item->x + p->from : row_of(s, p, from);
    return SW_OK;
}

static int place_small(struct sw_hosts_sum *s, int from, const struct sw_fabric_tag *tag,
                       size_t bytes, void **to, struct sw_err *err)
{
    if (tag->item >= SW_HOSTS_CHANNELS)
        return refuse(tag, bytes, err);

    struct channel *c = &s->channels[tag->item];

    sw_mutex_lock(&s->lock);
    bool next = tag->version == c->heard[from] + 1 && tag->version <= c->taken + 2;
    sw_mutex_unlock(&s->lock);

    if (!next || tag->urgency != 0 || bytes % sizeof(double) != 0 ||
        bytes > (size_t)s->args.small_most * sizeof(double))
        return refuse(tag, bytes, err);

    *to = values_of(s, &c->call[tag->version & 1], from);
    return SW_OK;
}

static int place(void *sum, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_hosts_sum *s = sum;

    if (tag->kind == SW_HOSTS_SMALL)
        return place_small(s, from, tag, bytes, to, err);
    if (tag->kind == SW_HOSTS_SHARE || tag->kind == SW_HOSTS_TOTAL)
        return place_piece(s, from, tag, bytes, to, err);
    return refuse(tag, bytes, err);
}

static void hear_small(struct sw_hosts_sum *s, int from, const struct sw_fabric_tag *tag,
                       size_t bytes)
{
    struct channel *c = &s->channels[tag->item];
    struct small *b = &c->call[tag->version & 1];

    sw_mutex_lock(&s->lock);
    c->heard[from] = tag->version;
    b->count[from] = (int)(bytes / sizeof(double));
    b->have |= (uint64_t)1 << from;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
}

static int arrived(void *sum, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_hosts_sum *s = sum;

    if (tag->kind == SW_HOSTS_SMALL) {
        hear_small(s, from, tag, bytes);
        return SW_OK;
    }

    struct piece *p = &s->pieces[tag->item];
    if (tag->kind == SW_HOSTS_SHARE) {
        /* The loss of a third host is told elsewhere, and no fault of the sender. */
        int rc = bring_term(s, p, from, err);
        return rc == SW_ERR_LOST || rc == SW_ERR_CANCELLED ? SW_OK : rc;
    }

    __atomic_fetch_or(&p->have, (uint64_t)1 << from, __ATOMIC_RELAXED);
    happen(&s->items[p->item]);
    return SW_OK;
}

static void lost(void *sum, int host, const struct sw_err *why)
{
    struct sw_hosts_sum *s = sum;

    /* First, so that who wakes up finds that it is known. */
    if (s->args.lost)
        s->args.lost(s->args.user, host, why);

    sw_mutex_lock(&s->lock);
    if (s->lost.code == SW_OK)
        s->lost = *why;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
}

struct sw_fabric_sink sw_hosts_sum_sink(struct sw_hosts_sum *s)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = s};
}
