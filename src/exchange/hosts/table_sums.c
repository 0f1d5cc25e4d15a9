/* Connects a table's slices with the items of sums over hosts: numbers are the same, versions count
 * from the one at which the sums begin. */
#include "exchange/hosts/table_sums.h"

#include "base/os.h"

static int give(void *user, int group, int slice, uint64_t version, float *x, struct sw_err *err)
{
    struct sw_table_sums *s = user;

    return sw_hosts_sum_give(s->sum, slice, version - s->before, x, err);
}

static void summed(void *user, int item, uint64_t version)
{
    struct sw_table_sums *s = user;

    sw_table_put_sum(s->table, item, version + s->before);
}

static int give_rows(void *user, int factors, uint64_t version, struct sw_err *err)
{
    struct sw_table_sums *s = user;
    const struct sw_table_factors *f = sw_table_factors_at(s->table, factors);

    return sw_hosts_rows_give(s->rows, factors, version - s->before,
                              sw_table_factor_x(s->table, f, 0, 0),
                              sw_table_factor_dy(s->table, f, 0, 0), err);
}

static void gathered(void *user, int item, uint64_t version)
{
    struct sw_table_sums *s = user;

    sw_table_put_rows(s->table, item, version + s->before);
}

static void lost(void *user, int host, const struct sw_err *why)
{
    struct sw_table_sums *s = user;

    sw_fault_set(s->fault, "hosts", why);
}

struct sw_table_outer sw_table_sums_outer(struct sw_table_sums *s)
{
    return (struct sw_table_outer){.give = give, .give_rows = give_rows, .user = s};
}

static uint16_t urgency_of(int param)
{
    return (uint16_t)(param < UINT16_MAX ? param : UINT16_MAX);
}

static int make_sums(struct sw_table_sums *s, const struct sw_hosts *hosts, int small_most,
                     struct sw_err *err)
{
    int count = sw_table_slices(s->table);
    struct sw_hosts_sum_item *items = sw_calloc((size_t)count + 1, sizeof *items);
    if (!items)
        return sw_err_nomem(err, "sums over hosts", (size_t)count * sizeof *items);

    /* Slices of parameters with factors are never given. */
    for (int i = 0; i < count; i++) {
        const struct sw_slice *slice = sw_table_slice(s->table, i);

        items[i].elements = sw_table_factors_of(s->table, slice->param) ? 0 : slice->count;
        items[i].urgency = urgency_of(slice->param);
    }

    const struct sw_hosts_sum_args args = {.hosts = hosts->count,
                                           .own = hosts->own,
                                           .items = items,
                                           .count = count,
                                           .small_most = small_most,
                                           .summed = summed,
                                           .lost = lost,
                                           .user = s};
    int rc = sw_hosts_sum_new(&args, &s->sum, err);
    sw_free(items);
    return rc;
}

static int make_rows(struct sw_table_sums *s, const struct sw_hosts *hosts, struct sw_err *err)
{
    int count = sw_table_factor_count(s->table);
    struct sw_hosts_rows_item *items = sw_calloc((size_t)count + 1, sizeof *items);
    if (!items)
        return sw_err_nomem(err, "rows of other hosts", (size_t)count * sizeof *items);

    for (int i = 0; i < count; i++) {
        const struct sw_table_factors *f = sw_table_factors_at(s->table, i);

        items[i] = (struct sw_hosts_rows_item){
            .inputs = f->inputs,
            .outputs = f->outputs,
            .rows = f->rows,
            .together = f->steps,
            .urgency = urgency_of(f->weight >= 0 ? f->weight : f->bias)};
    }

    const struct sw_hosts_rows_args args = {.hosts = hosts->count,
                                            .own = hosts->own,
                                            .items = items,
                                            .count = count,
                                            .gathered = gathered,
                                            .user = s};
    int rc = sw_hosts_rows_new(&args, &s->rows, err);
    sw_free(items);
    return rc;
}

int sw_table_sums_init(struct sw_table_sums *s, const struct sw_table_sums_args *args,
                       struct sw_err *err)
{
    *s = (struct sw_table_sums){.table = args->table, .before = args->before, .fault = args->fault};

    int rc = make_sums(s, args->hosts, args->small_most, err);
    if (rc == SW_OK)
        rc = make_rows(s, args->hosts, err);
    if (rc != SW_OK)
        sw_table_sums_fini(s);
    return rc;
}

void sw_table_sums_receive(const struct sw_table_sums *s, struct sw_fabric_router *router)
{
    sw_fabric_router_add(router, SW_HOSTS_SHARE, SW_HOSTS_SMALL - SW_HOSTS_SHARE + 1,
                         sw_hosts_sum_sink(s->sum));
    sw_fabric_router_add(router, SW_HOSTS_X, SW_HOSTS_DY - SW_HOSTS_X + 1,
                         sw_hosts_rows_sink(s->rows));
}

int sw_table_sums_room(const struct sw_table_sums *s)
{
    return sw_hosts_sum_room(s->sum) + sw_hosts_rows_room(s->rows);
}

void sw_table_sums_start(struct sw_table_sums *s, struct sw_fabric *f)
{
    sw_hosts_sum_start(s->sum, f);
    sw_hosts_rows_start(s->rows, f);
}

void sw_table_sums_fini(struct sw_table_sums *s)
{
    sw_hosts_sum_free(s->sum);
    sw_hosts_rows_free(s->rows);
    s->sum = NULL;
    s->rows = NULL;
}
