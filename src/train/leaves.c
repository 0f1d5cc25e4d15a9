/* How the workers of a group share a batch: in parts, which are leaves of the tree over the batch
 * (base/tree.h). Usually every worker has one part. With repeat_exact there are always as many as
 * virtual workers, with rows of their own, and workers share the parts: what a part computes does
 * not depend on whose it is, and all sums over parts are made in the order of the tree, so that
 * the bits of a run do not depend on how many workers, servers and threads there are. With
 * rebalance every worker has one part, whose rows change (rebalance.c). */
#include "base/os.h"
#include "base/str.h"
#include "train/job_private.h"
#include "train/kept_choices.h"
#include "train/worker.h"
#include <string.h>

int64_t sw_leaves_most(const struct sw_job *job)
{
    const struct sw_job_conf *c = job->conf;
    return c->batch < c->eval_batch ? c->batch : c->eval_batch;
}

int sw_leaves_of(const struct sw_job *job, int workers)
{
    int64_t most = sw_leaves_most(job), wanted = job->conf->virtual_workers;
    return !job->conf->repeat_exact ? workers : (int)(wanted < most ? wanted : most);
}

/* Where part `leaf` of so many rows ends, of all parts of a group. The larger ones of several
 * virtual workers are spread evenly over those who share them. */
static int64_t even_end(const struct sw_job *job, int64_t rows, int leaf)
{
    int64_t first, count;
    if (job->conf->repeat_exact)
        return rows * (leaf + 1) / job->leaves;
    sw_part(rows, job->leaves, leaf, &first, &count);
    return first + count;
}

void sw_leaves_recut(struct sw_job *job, const int64_t *rows)
{
    double shares[SW_TREE_LEAVES];
    int64_t eval[SW_TREE_LEAVES], end[SW_SPLITS] = {0, 0};
    for (int i = 0; i < job->leaves; i++)
        shares[i] = (double)rows[i];
    sw_rebalance_share(job->conf->eval_batch, job->leaves, shares, eval);
    for (int i = 0; i < job->leaves; i++) {
        job->leaf_ends[SW_SPLIT_TRAIN][i] = end[SW_SPLIT_TRAIN] += rows[i];
        job->leaf_ends[SW_SPLIT_EVAL][i] = end[SW_SPLIT_EVAL] += eval[i];
    }
}

void sw_leaves_write(const struct sw_job *job, struct sw_buf *out)
{
    const int64_t *ends = job->leaf_ends[SW_SPLIT_TRAIN];
    for (int i = 0; i < job->leaves; i++)
        sw_buf_printf(out, "%s%lld", i ? " " : "", (long long)(ends[i] - (i ? ends[i - 1] : 0)));
}

/* A file that cannot be read is told by who reads all of it. */
static void take_up(struct sw_job *job)
{
    int64_t rows[SW_TREE_LEAVES];
    struct sw_json *kept;
    struct sw_err ignored;
    if (!job->rebalances || sw_kept_read(job->resume_checkpoint, &kept, &ignored) != SW_OK)
        return;
    if (sw_kept_rows(kept, job->leaves, job->conf->batch, rows))
        sw_leaves_recut(job, rows);
    sw_json_free(kept);
}

int sw_leaves_cut(struct sw_job *job, struct sw_err *err)
{
    const int64_t batch[SW_SPLITS] = {job->conf->batch, job->conf->eval_batch};
    for (int s = 0; s < SW_SPLITS; s++) {
        size_t bytes = (size_t)job->leaves * sizeof *job->leaf_ends[s];
        job->leaf_ends[s] = sw_calloc(1, bytes);
        if (!job->leaf_ends[s])
            return sw_err_nomem(err, "the parts of a batch", bytes);
        for (int i = 0; i < job->leaves; i++)
            job->leaf_ends[s][i] = even_end(job, batch[s], i);
    }
    take_up(job);
    return SW_OK;
}

void sw_job_group_rows(const struct sw_job *job, int group, int split, int64_t *first,
                       int64_t *rows)
{
    *first = 0;
    *rows = split == SW_SPLIT_TRAIN ? job->conf->batch : job->conf->eval_batch;
    if (job->hybrid && split == SW_SPLIT_TRAIN)
        sw_part(job->conf->batch, job->group_count, group, first, rows);
}

/* Where part `leaf` of the group's ends in the batch; -1: where the first one begins. */
static int64_t leaf_end(const struct sw_job *job, int group, int split, int leaf)
{
    int64_t first, rows;
    sw_job_group_rows(job, group, split, &first, &rows);
    if (leaf < 0)
        return first;
    return job->hybrid ? first + even_end(job, rows, leaf) : job->leaf_ends[split][leaf];
}

int sw_leaves_take(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_job *job = w->job;
    int64_t first, leaves;
    sw_part(job->leaves, job->group_size, w->place, &first, &leaves);
    w->first_leaf = (int)first;
    w->leaves = (int)leaves;
    for (int s = 0; s < SW_SPLITS; s++) {
        int64_t end = leaf_end(job, w->group_index, s, w->first_leaf - 1);
        if (!w->part_rows[s])
            w->part_rows[s] = sw_calloc((size_t)leaves, sizeof *w->part_rows[s]);
        if (!w->part_rows[s])
            return sw_err_nomem(err, "a worker", (size_t)leaves * sizeof *w->part_rows[s]);
        w->first_row[s] = end;
        for (int i = 0; i < w->leaves; i++) {
            int64_t begin = end;
            end = leaf_end(job, w->group_index, s, w->first_leaf + i);
            w->part_rows[s][i] = end - begin;
        }
        w->rows[s] = end - w->first_row[s];
    }
    return SW_OK;
}

/* ---- what goes together ---- */

static bool is_split(const struct sw_section *layer)
{
    const struct sw_layer_conf *c = layer->common;
    return sw_section_is_set(layer, "location") ||
           (sw_section_is_set(layer, "partition") && c->partition != SW_PARTITION_ROWS);
}

bool sw_job_splits_layers(const struct sw_job *job)
{
    bool splits = job->conf->partition != SW_PARTITION_ROWS;
    const struct sw_section *s = sw_recipe_first(job->recipe, "layer");
    for (; s && !splits; s = sw_section_next(s))
        splits = is_split(s);
    return splits;
}

/* A layer that is split otherwise than by rows is cut into as many parts as there are workers. */
static void check_partitions(struct sw_job *job, const char *key, const char *why)
{
    const struct sw_section *s = sw_recipe_first(job->recipe, "layer");
    for (; s; s = sw_section_next(s))
        if (sw_section_is_set(s, "location"))
            sw_recipe_error(job->recipe, s, "location",
                            "with %s all layers are split by rows, %s: leave it out", key, why);
        else if (is_split(s))
            sw_recipe_error(job->recipe, s, "partition",
                            "with %s all layers are split by rows, %s: say 0, or leave it out", key,
                            why);
    if (job->conf->partition != SW_PARTITION_ROWS)
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "partition",
                        "with %s all layers are split by rows, %s: say 0, or leave it out", key,
                        why);
}

static void check_exact(struct sw_job *job, const struct sw_section *cluster)
{
    int workers = job->shape.worker_groups * job->shape.workers_per_group;
    int leaves = sw_leaves_of(job, workers);
    check_partitions(job, "repeat_exact", "so that the number of workers makes no difference");
    if (job->conf->tune)
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "tune",
                        "with repeat_exact nothing depends on what is measured: leave one of "
                        "them out");
    if (job->terms.consistency != SW_CONSISTENCY_BSP || job->shape.server_groups > 1)
        sw_recipe_error(job->recipe, cluster, "framework",
                        "with %s updates depend on which group comes first, so that "
                        "repeat_exact cannot hold: use sandblaster or allreduce",
                        job->framework);
    else if (workers > leaves)
        sw_recipe_error(job->recipe, cluster, "workers_per_group",
                        "%d workers cannot share the %d parts that repeat_exact makes of a batch: "
                        "at most %d, or raise job.virtual_workers",
                        workers, leaves, leaves);
}

static void check_rebalance(struct sw_job *job, const struct sw_section *cluster)
{
    check_partitions(job, "rebalance", "which it moves between workers");
    if (job->conf->repeat_exact)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "with repeat_exact nothing depends on what is measured: leave one of "
                        "them out");
    if (job->terms.consistency != SW_CONSISTENCY_BSP)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "%s lets groups go their own pace, so that none waits for a slower one: "
                        "leave it out, or use sandblaster or allreduce",
                        job->framework);
    if (!sw_job_find_split(job, SW_SPLIT_EVAL) || job->conf->eval_every == 0)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "rows are given at evaluations during training, and there are none: set "
                        "job.eval_every, with a [data val] or [data test]");
}

int sw_leaves_check(struct sw_job *job, const struct sw_section *cluster, struct sw_err *err)
{
    if (job->conf->repeat_exact)
        check_exact(job, cluster);
    if (job->rebalances)
        check_rebalance(job, cluster);
    return sw_recipe_verdict(job->recipe, err);
}
