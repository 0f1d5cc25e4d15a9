/* How the workers of a group share a batch: in parts, which are leaves of the tree over the batch
 * (base/tree.h). Usually every worker has one part. With repeat_exact there are always as many as
 * virtual workers, with rows of their own, and workers share the parts: what a part computes does
 * not depend on whose it is, and all sums over parts are made in the order of the tree, so that
 * the bits of a run do not depend on how many workers, servers and threads there are. */
#include "base/os.h"
#include "train/job_private.h"

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

/* Where part `leaf` of so many rows begins, of all parts of a group. The larger ones of several
 * virtual workers are spread evenly over those who share them. */
static int64_t leaf_row(const struct sw_job *job, int64_t rows, int leaf)
{
    int64_t first = rows, count;
    if (job->conf->repeat_exact)
        return rows * leaf / job->leaves;
    if (leaf < job->leaves)
        sw_part(rows, job->leaves, leaf, &first, &count);
    return first;
}

int sw_leaves_take(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    const int64_t batch[SW_SPLITS] = {job->conf->batch, job->conf->eval_batch};
    int64_t first, leaves;
    sw_part(job->leaves, job->group_size, w->place, &first, &leaves);
    w->first_leaf = (int)first;
    w->leaves = (int)leaves;
    for (int s = 0; s < SW_SPLITS; s++) {
        int64_t end = leaf_row(job, batch[s], w->first_leaf);
        w->first_row[s] = end;
        w->part_rows[s] = sw_calloc((size_t)leaves, sizeof *w->part_rows[s]);
        if (!w->part_rows[s])
            return sw_err_nomem(err, "a worker", (size_t)leaves * sizeof *w->part_rows[s]);
        for (int i = 0; i < w->leaves; i++) {
            int64_t begin = end;
            end = leaf_row(job, batch[s], w->first_leaf + i + 1);
            w->part_rows[s][i] = end - begin;
        }
        w->rows[s] = end - w->first_row[s];
    }
    return SW_OK;
}

/* ---- what repeat_exact does not go together with ---- */

/* A layer that is split otherwise than by rows is cut into as many parts as there are workers. */
static void check_partitions(struct sw_job *job)
{
    const struct sw_section *s = sw_recipe_first(job->recipe, "layer");
    for (; s; s = sw_section_next(s)) {
        const struct sw_layer_conf *c = s->common;
        if (sw_section_is_set(s, "partition") && c->partition != SW_PARTITION_ROWS)
            sw_recipe_error(job->recipe, s, "partition",
                            "with repeat_exact all layers are split by rows, so that the number "
                            "of workers makes no difference: say 0, or leave it out");
    }
    if (job->conf->partition != SW_PARTITION_ROWS)
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "partition",
                        "with repeat_exact all layers are split by rows, so that the number of "
                        "workers makes no difference: say 0, or leave it out");
}

int sw_leaves_check(struct sw_job *job, const struct sw_section *cluster, struct sw_err *err)
{
    int workers = job->shape.worker_groups * job->shape.workers_per_group;
    if (!job->conf->repeat_exact)
        return SW_OK;
    check_partitions(job);
    if (job->terms.consistency != SW_CONSISTENCY_BSP || job->shape.server_groups > 1)
        sw_recipe_error(job->recipe, cluster, "framework",
                        "with %s updates depend on which group comes first, so that "
                        "repeat_exact cannot hold: use sandblaster or allreduce",
                        job->framework);
    else if (workers > sw_leaves_of(job, workers))
        sw_recipe_error(job->recipe, cluster, "workers_per_group",
                        "%d workers cannot share the %d parts that repeat_exact makes of a batch: "
                        "at most %d, or raise job.virtual_workers",
                        workers, sw_leaves_of(job, workers), sw_leaves_of(job, workers));
    return sw_recipe_verdict(job->recipe, err);
}
