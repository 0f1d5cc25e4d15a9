/* Partitions parameters into slices, distributes these over the servers by size, and makes each
 * server's data about its own. */
#include "exchange/table/factors.h"
#include "exchange/table/table_private.h"

#include "base/os.h"

enum { EARLY_PER_PARAM = 4 };

static int count_slices(const struct sw_table *t, const struct sw_param *p)
{
    int64_t n = p->frozen ? 0 : sw_desc_storage(&p->layout);
    if (p->factors >= 0)
        return sw_factor_slices(t, p);
    return (int)((n + t->args.slice_elements - 1) / t->args.slice_elements);
}

/* Partitions a parameter into slices of nearly equal size, each except the last a multiple of 64
 * bytes, or of the blocks of a norm. */
static void split(struct sw_table *t, int index)
{
    struct sw_param *p = &t->params[index];
    int64_t n = sw_desc_storage(&p->layout), pieces = count_slices(t, p);

    if (p->factors >= 0) {
        sw_factor_make_slices(t, index);
        return;
    }

    p->first_slice = t->slice_count;
    if (p->frozen)
        return;

    /* The slices of tables that are connected are the same. */
    const bool blocks = t->whole_blocks || t->args.outer.give || t->args.outer.answer;
    int64_t grain = blocks ? SW_GATHER_BLOCK : SW_TABLE_ALIGN_BYTES / (int64_t)sizeof(float);
    int64_t size = ((n + pieces - 1) / pieces + grain - 1) / grain * grain;
    for (int64_t from = 0; from < n; from += size) {
        int64_t count = n - from < size ? n - from : size;
        t->slices[t->slice_count++] =
            (struct sw_slice){.param = index, .from = from, .count = count};
    }

    p->slice_count = t->slice_count - p->first_slice;
}

static int least_loaded(const int64_t *load, int servers)
{
    int least = 0;
    for (int s = 1; s < servers; s++)
        least = load[s] < load[least] ? s : least;
    return least;
}

/* Assigns the slices in order, each to the server with the fewest elements so far. */
static void deal(struct sw_table *t, int64_t *load)
{
    for (int i = 0; i < t->slice_count; i++) {
        int least = sw_factor_server(t, &t->slices[i]);
        least = least < 0 ? least_loaded(load, t->args.servers) : least;
        t->slices[i].server = least;
        load[least] += t->slices[i].count;
        t->servers[least].slice_count++;
    }
}

static int freeze_server(struct sw_table *t, int index, struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[index];
    size_t params = (size_t)t->param_count;

    s->early_capacity = EARLY_PER_PARAM * t->param_count * t->args.workers + 1;
    s->slices = sw_calloc((size_t)s->slice_count + 1, sizeof *s->slices);
    s->first = sw_calloc(params + 1, sizeof *s->first);
    s->contributed = sw_calloc(params * (size_t)t->senders + 1, sizeof *s->contributed);
    s->turns = sw_calloc(params * (size_t)t->update_groups + 1, sizeof *s->turns);

    s->early = sw_calloc((size_t)s->early_capacity, sizeof *s->early);
    if (!s->slices || !s->first || !s->contributed || !s->turns || !s->early)
        return sw_err_nomem(err, "a server's slices", params * sizeof *s->first);

    int n = 0;
    for (int p = 0; p < t->param_count; p++) {
        const struct sw_param *param = &t->params[p];

        s->first[p] = n;
        for (int i = param->first_slice; i < param->first_slice + param->slice_count; i++)
            if (t->slices[i].server == index)
                s->slices[n++] = i;
    }

    s->first[params] = n;

    /* A worker has at most one update per parameter outstanding, and may be a step ahead; decisions
     * come from any thread and need room for one more; so do outer sums of slices. A remote update
     * group has one update outstanding, and is lost once; values from outside are one per update
     * group and parameter. */
    size_t senders = (size_t)(t->senders + t->args.others);
    size_t capacity = 3 * (params + 1) * senders + 2;
    if (sw_table_has_outer(t))
        capacity += (size_t)s->slice_count;

    int rc = sw_queue_init(&s->inbox, sizeof(struct sw_message), capacity, err);
    s->inbox_open = rc == SW_OK;

    return rc;
}

int sw_table_freeze(struct sw_table *t, struct sw_err *err)
{
    int total = 0;

    for (int i = 0; i < t->param_count; i++)
        total += count_slices(t, &t->params[i]);
    t->slices = sw_calloc((size_t)total + 1, sizeof *t->slices);

    int64_t *load = sw_calloc((size_t)t->args.servers, sizeof *load);
    if (!t->slices || !load) {
        sw_free(load);
        return sw_err_nomem(err, "the parameter table", (size_t)total * sizeof *t->slices);
    }

    for (int i = 0; i < t->param_count; i++)
        split(t, i);
    deal(t, load);
    sw_free(load);

    int rc = sw_table_make_phases(t, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < t->args.servers; i++) {
        rc = freeze_server(t, i, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
