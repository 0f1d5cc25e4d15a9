/* Connects a table's slices with the items of sums over hosts: numbers are the same, versions count
 * from the one at which the sums begin. */
#include "exchange/hosts/table_sums.h"

#include "base/os.h"

static int give(void *user, int slice, uint64_t version, float *x, struct sw_err *err)
{
    struct sw_table_sums *s = user;

    return sw_hosts_sum_give(s->sum, slice, version - s->before, x, err);
}

static void summed(void *user, int item, uint64_t version)
{
    struct sw_table_sums *s = user;

    sw_table_put_sum(s->table, item, version + s->before);
}

static void lost(void *user, int host, const struct sw_err *why)
{
    struct sw_table_sums *s = user;

    sw_fault_set(s->fault, "hosts", why);
}

struct sw_table_outer sw_table_sums_outer(struct sw_table_sums *s)
{
    return (struct sw_table_outer){.give = give, .user = s};
}

int sw_table_sums_init(struct sw_table_sums *s, struct sw_table *t, const struct sw_hosts *hosts,
                       uint64_t before, struct sw_fault *fault, struct sw_err *err)
{
    int count = sw_table_slices(t);
    struct sw_hosts_sum_item *items = sw_calloc((size_t)count + 1, sizeof *items);
    if (!items)
        return sw_err_nomem(err, "sums over hosts", (size_t)count * sizeof *items);

    *s = (struct sw_table_sums){.table = t, .before = before, .fault = fault};

    for (int i = 0; i < count; i++) {
        const struct sw_slice *slice = sw_table_slice(t, i);

        items[i].elements = slice->count;
        items[i].urgency = (uint16_t)(slice->param < UINT16_MAX ? slice->param : UINT16_MAX);
    }

    const struct sw_hosts_sum_args args = {.hosts = hosts->count,
                                           .own = hosts->own,
                                           .items = items,
                                           .count = count,
                                           .summed = summed,
                                           .lost = lost,
                                           .user = s};
    int rc = sw_hosts_sum_new(&args, &s->sum, err);
    sw_free(items);
    return rc;
}

void sw_table_sums_fini(struct sw_table_sums *s)
{
    sw_hosts_sum_free(s->sum);
    s->sum = NULL;
}
