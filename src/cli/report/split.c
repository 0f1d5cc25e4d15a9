/* Prints what each worker has of a net that is partitioned over a group, and the traffic between
 * them. */
#include "base/json.h"
#include "cli/report/report.h"
#include "cli/terminal/columns.h"

static bool is_split(const struct sw_job_plan *p)
{
    for (int i = 0; i < p->layer_count; i++)
        if (p->layers[i].moves)
            return true;
    return false;
}

static void shard_cells(struct sw_columns *t, const struct sw_job_shard *s)
{
    char bytes[32], flops[32], sent[32];

    sw_columns_cell(t, "%lld", (long long)s->params);
    sw_columns_cell(t, "%s", sw_human_bytes(bytes, (double)s->bytes));
    sw_columns_cell(t, "%s", sw_human_count(flops, s->flops));
    sw_columns_cell(t, "%s", s->sent_bytes ? sw_human_bytes(sent, (double)s->sent_bytes) : "");
}

/* The sum over the layers of the training net. */
static struct sw_job_shard sum_of(const struct sw_job_plan *p, int worker)
{
    struct sw_job_shard sum = {.shape = ""};

    for (int i = 0; i < p->layer_count; i++) {
        const struct sw_job_shard *s = &p->layers[i].shards[worker];

        if (!p->layers[i].train)
            continue;

        sum.params += s->params;
        sum.bytes += s->bytes;
        sum.flops += s->flops;
        sum.sent_bytes += s->sent_bytes;
    }

    return sum;
}

static void print_workers(struct sw_bytes *out, const struct sw_job_plan *p)
{
    struct sw_columns t = {0};

    sw_columns_begin(&t, "worker|>parameters|>memory|>flop|>sends");

    for (int w = 0; w < p->group_size; w++) {
        struct sw_job_shard sum = sum_of(p, w);
        sw_columns_cell(&t, "%d", w);
        shard_cells(&t, &sum);
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_shards(struct sw_bytes *out, const struct sw_job_plan *p)
{
    struct sw_columns t = {0};

    sw_columns_begin(&t, "layer|worker|output|>parameters|>memory|>flop|>sends");

    for (int i = 0; i < p->layer_count; i++)
        for (int w = 0; w < p->group_size; w++) {
            const struct sw_job_shard *s = &p->layers[i].shards[w];
            sw_columns_cell(&t, "%s", w ? "" : p->layers[i].name);
            sw_columns_cell(&t, "%d", w);
            sw_columns_cell(&t, "%s", *s->shape ? s->shape : "--");
            shard_cells(&t, s);
        }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_movements(struct sw_bytes *out, const struct sw_job_plan *p)
{
    struct sw_columns t = {0};

    sw_columns_begin(&t, "connection|forward|>elements|backward|>elements|>as papers count");

    for (int i = 0; i < p->layer_count; i++) {
        const struct sw_job_movement *m = &p->layers[i].movement;

        if (!p->layers[i].moves || !p->layers[i].train)
            continue;

        sw_columns_cell(&t, "%s", p->layers[i].name);
        sw_columns_cell(&t, "%s", m->operation[0]);
        sw_columns_cell(&t, "%lld", (long long)m->moved[0]);
        sw_columns_cell(&t, "%s", m->operation[1] ? m->operation[1] : "--");
        sw_columns_cell(&t, "%lld", (long long)m->moved[1]);
        sw_columns_cell(&t, "%lld", (long long)(m->counted[0] + m->counted[1]));
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

void sw_report_partition(struct sw_bytes *out, const struct sw_job_plan *p, bool every_layer)
{
    if (p->group_size < 2 || !is_split(p))
        return;

    sw_bytes_add(out, "\nPer step, for each worker of a group:\n");
    print_workers(out, p);

    if (every_layer) {
        sw_bytes_add(out, "\n");
        print_shards(out, p);
    }

    sw_bytes_add(out, "\nTraffic between them per step:\n");
    print_movements(out, p);
}

static void json_movement(struct sw_json_writer *w, const struct sw_job_movement *m)
{
    static const char *const directions[] = {"forward", "backward"};

    sw_json_open_object(w, "moves");

    for (int back = 0; back < 2; back++) {
        sw_json_open_object(w, directions[back]);
        sw_json_string(w, "operation", m->operation[back]);
        sw_json_int(w, "values", m->moved[back]);
        sw_json_int(w, "values_as_papers_count", m->counted[back]);
        sw_json_close_object(w);
    }

    sw_json_close_object(w);
}

void sw_report_split_json(struct sw_json_writer *w, const struct sw_job_plan *p,
                          const struct sw_job_layer *l)
{
    if (l->moves)
        json_movement(w, &l->movement);
    if (!l->shards)
        return;

    sw_json_open_array(w, "workers");

    for (int i = 0; i < p->group_size; i++) {
        const struct sw_job_shard *s = &l->shards[i];

        sw_json_open_object(w, NULL);
        sw_json_string(w, "shape", *s->shape ? s->shape : NULL);
        sw_json_int(w, "parameters", s->params);
        sw_json_int(w, "bytes", (int64_t)s->bytes);
        sw_json_real(w, "flops", s->flops);
        sw_json_int(w, "sent_bytes", s->sent_bytes);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}
