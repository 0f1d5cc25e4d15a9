/* All-gather of rows. An item's version is complete when the own rows were given and sent to all,
 * and those of all others are here; who brings the last of these copies the others' rows into the
 * arrays. What may arrive is what is not here yet, of the next two versions. */
#include "exchange/hosts/hosts_rows.h"

#include "base/os.h"
#include "base/tree.h"
#include "thread/thread.h"
#include <string.h>

enum { ARRAYS = 2 }; /* x and dy */

/* Rows of others of one version. */
struct landing {
    float *array[ARRAYS];    /* owned [rows, inputs] and [rows, outputs] */
    uint64_t placed[ARRAYS]; /* bits of hosts whose rows are on the way or here */
    int arrived;             /* messages */
};

struct item {
    struct sw_hosts_rows *rows;
    int index;
    struct sw_hosts_rows_item conf;
    float *array[ARRAYS];   /* borrowed while version `given` is gathered */
    struct sw_mutex lock;   /* guards all below */
    uint64_t given, done;   /* versions */
    int sending;            /* messages whose rows are still needed */
    struct landing land[2]; /* of even and of odd versions */
};

struct sw_hosts_rows {
    struct sw_hosts_rows_args args;
    struct sw_fabric *fabric; /* borrowed */
    struct item *items;       /* owned [count] */
};

/* ---- Life ---- */

static int64_t width(const struct item *item, int array)
{
    return array == 0 ? item->conf.inputs : item->conf.outputs;
}

/* The rows of a host. */
static void rows_of(const struct item *item, int host, int64_t *first, int64_t *count)
{
    const struct sw_hosts_rows_item *c = &item->conf;

    sw_part(c->rows / c->together, item->rows->args.hosts, host, first, count);
    *first *= c->together;
    *count *= c->together;
}

static int make_item(struct item *item, struct sw_err *err)
{
    for (int i = 0; i < 2 * ARRAYS; i++) {
        size_t floats = (size_t)(item->conf.rows * width(item, i % ARRAYS));
        float *array = sw_calloc(floats + 1, sizeof *array);
        if (!array)
            return sw_err_nomem(err, "rows of other hosts", floats * sizeof *array);

        item->land[i / ARRAYS].array[i % ARRAYS] = array;
    }

    return SW_OK;
}

int sw_hosts_rows_new(const struct sw_hosts_rows_args *args, struct sw_hosts_rows **out,
                      struct sw_err *err)
{
    struct sw_hosts_rows *r = sw_calloc(1, sizeof *r);
    int rc = SW_OK;

    if (!r)
        return sw_err_nomem(err, "rows of other hosts", sizeof *r);

    r->args = *args;
    r->args.items = NULL;
    r->items = sw_calloc((size_t)args->count + 1, sizeof *r->items);
    if (!r->items)
        rc = sw_err_nomem(err, "rows of other hosts", (size_t)args->count * sizeof *r->items);

    for (int i = 0; i < args->count && r->items; i++) {
        r->items[i] = (struct item){.rows = r, .index = i, .conf = args->items[i]};
        sw_mutex_init(&r->items[i].lock);
        if (rc == SW_OK)
            rc = make_item(&r->items[i], err);
    }

    if (rc != SW_OK) {
        sw_hosts_rows_free(r);
        return rc;
    }

    *out = r;
    return SW_OK;
}

void sw_hosts_rows_free(struct sw_hosts_rows *r)
{
    if (!r)
        return;

    for (int i = 0; i < r->args.count && r->items; i++) {
        for (int k = 0; k < 2 * ARRAYS; k++)
            sw_free(r->items[i].land[k / ARRAYS].array[k % ARRAYS]);
        sw_mutex_fini(&r->items[i].lock);
    }

    sw_free(r->items);
    sw_free(r);
}

int sw_hosts_rows_room(const struct sw_hosts_rows *r)
{
    return ARRAYS * r->args.count;
}

void sw_hosts_rows_start(struct sw_hosts_rows *r, struct sw_fabric *f)
{
    r->fabric = f;
}

/* ---- A version ---- */

/* With the lock: is everything of the version that was given here and sent? */
static bool is_complete(const struct item *item)
{
    const int others = item->rows->args.hosts - 1;

    return item->given == item->done + 1 && item->sending == 0 &&
           item->land[item->given & 1].arrived == ARRAYS * others;
}

static void copy_rows(const struct item *item, const struct landing *l)
{
    for (int host = 0; host < item->rows->args.hosts; host++) {
        int64_t first, count;

        if (host == item->rows->args.own)
            continue;

        rows_of(item, host, &first, &count);
        for (int i = 0; i < ARRAYS; i++)
            memcpy(item->array[i] + first * width(item, i), l->array[i] + first * width(item, i),
                   (size_t)(count * width(item, i)) * sizeof(float));
    }
}

/* With the lock, which is released: something has happened. */
static void advance(struct item *item)
{
    const struct sw_hosts_rows_args *a = &item->rows->args;
    uint64_t version = item->given;
    struct landing *l = &item->land[version & 1];

    if (!is_complete(item)) {
        sw_mutex_unlock(&item->lock);
        return;
    }

    /* Only once; and what arrives meanwhile is of the next version. */
    l->arrived = 0;
    sw_mutex_unlock(&item->lock);

    copy_rows(item, l);

    sw_mutex_lock(&item->lock);
    l->placed[0] = l->placed[1] = 0;
    item->done = version;
    sw_mutex_unlock(&item->lock);

    a->gathered(a->user, item->index, version);
}

/* sw_fabric_send's done. What is cancelled is never complete. */
static void sent(void *user, int rc)
{
    struct item *item = user;

    if (rc != SW_OK)
        return;

    sw_mutex_lock(&item->lock);
    item->sending--;
    advance(item);
}

static int send_rows(struct item *item, int to, uint64_t version, struct sw_err *err)
{
    struct sw_hosts_rows *r = item->rows;
    int64_t first, count;
    int rc = SW_OK;

    rows_of(item, r->args.own, &first, &count);

    for (int i = 0; i < ARRAYS && rc == SW_OK; i++) {
        const struct sw_fabric_tag tag = {.kind = (uint16_t)(i == 0 ? SW_HOSTS_X : SW_HOSTS_DY),
                                          .urgency = item->conf.urgency,
                                          .item = (uint32_t)item->index,
                                          .version = version};

        rc = sw_fabric_send(r->fabric, to, &tag, item->array[i] + first * width(item, i),
                            (size_t)(count * width(item, i)) * sizeof(float), sent, item, err);
    }

    return rc;
}

int sw_hosts_rows_give(struct sw_hosts_rows *r, int index, uint64_t version, float *x, float *dy,
                       struct sw_err *err)
{
    struct item *item = &r->items[index];
    const int others = r->args.hosts - 1;
    int rc = SW_OK;

    sw_mutex_lock(&item->lock);
    if (version != item->done + 1 || item->given != item->done)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "rows %llu of item %d over hosts, but rows %llu are the last ones",
                        (unsigned long long)version, index, (unsigned long long)item->given);
    if (rc == SW_OK) {
        item->array[0] = x;
        item->array[1] = dy;
        item->given = version;
        item->sending = ARRAYS * others + 1; /* one for this function */
    }
    sw_mutex_unlock(&item->lock);

    for (int i = 1; i <= others && rc == SW_OK; i++)
        rc = send_rows(item, (r->args.own + i) % r->args.hosts, version, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&item->lock);
    item->sending--;
    advance(item);
    return SW_OK;
}

/* ---- The sink ---- */

static int place(void *rows, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_hosts_rows *r = rows;
    const int array = tag->kind - SW_HOSTS_X;
    const uint64_t bit = (uint64_t)1 << from;
    struct item *item = tag->item < (uint32_t)r->args.count ? &r->items[tag->item] : NULL;
    int64_t first, count;
    bool fits = false;

    if (item && tag->urgency == item->conf.urgency) {
        struct landing *l = &item->land[tag->version & 1];

        rows_of(item, from, &first, &count);
        sw_mutex_lock(&item->lock);
        fits = bytes == (size_t)(count * width(item, array)) * sizeof(float) &&
               (tag->version == item->done + 1 || tag->version == item->done + 2) &&
               !(l->placed[array] & bit);
        if (fits) {
            l->placed[array] |= bit;
            *to = l->array[array] + first * width(item, array);
        }
        sw_mutex_unlock(&item->lock);
    }

    return fits ? SW_OK
                : sw_err_set(err, SW_ERR_INVALID,
                             "it sent %zu bytes of rows, item %lu, version %llu, which nobody "
                             "waits for",
                             bytes, (unsigned long)tag->item, (unsigned long long)tag->version);
}

static int arrived(void *rows, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_hosts_rows *r = rows;
    struct item *item = &r->items[tag->item];

    sw_mutex_lock(&item->lock);
    item->land[tag->version & 1].arrived++;
    advance(item);
    return SW_OK;
}

struct sw_fabric_sink sw_hosts_rows_sink(struct sw_hosts_rows *r)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .user = r};
}
