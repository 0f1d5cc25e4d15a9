/* The rows of microbatches in checkpoints, and what goes together with the way a batch is cut.
 *
 * The workers of a group share a batch in microbatches, which are leaves of the reduction tree over
 * the batch (base/tree.h). Usually every worker has one. With repeat_exact there are as many as
 * virtual workers, each with rows of its own, and workers share them: what a microbatch computes
 * does not depend on whose it is, and all sums over microbatches are made in the order of the tree,
 * so that the bits of a run do not depend on how many workers, servers and threads there are. With
 * rebalance every worker has one microbatch, whose rows change (rebalance.c). */
#include "run/microbatches.h"
#include "base/str.h"
#include "plan/kept_choices.h"
#include "run/job_private.h"
#include <string.h>

void sw_microbatches_write(const struct sw_job *job, struct sw_buf *out)
{
    for (int i = 0; i < job->topology->microbatches; i++)
        sw_buf_printf(out, "%s%lld", i ? " " : "", (long long)job->rows.rows[SW_SPLIT_TRAIN][i]);
}

/* A file that cannot be read is told by who reads all of it. */
static void take_up(struct sw_job *job)
{
    int64_t rows[SW_TREE_LEAVES];
    struct sw_json *kept;
    struct sw_err ignored;

    if (!job->speed.rebalances ||
        sw_kept_read(job->options.resume_checkpoint, &kept, &ignored) != SW_OK)
        return;
    if (sw_kept_rows(kept, job->topology->microbatches, job->conf->batch, rows))
        sw_row_split_set(&job->rows, job->topology, rows);
    sw_json_free(kept);
}

int sw_microbatches_split(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_row_split_init(&job->rows, job->topology, err);
    if (rc == SW_OK)
        take_up(job);
    return rc;
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
    const struct sw_topology *t = job->topology;

    check_partitions(job, "repeat_exact", "so that the number of workers makes no difference");
    if (job->conf->tune)
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "tune",
                        "with repeat_exact nothing depends on what is measured: leave one of "
                        "them out");
    if (t->is_async)
        sw_recipe_error(job->recipe, cluster, "framework",
                        "with %s updates depend on which group comes first, so that "
                        "repeat_exact cannot hold: use sandblaster or allreduce",
                        job->report.framework);
    else if (t->workers > t->leaves)
        sw_recipe_error(job->recipe, cluster, "workers_per_group",
                        "%d workers cannot share the %d parts that repeat_exact makes of a batch: "
                        "at most %d, or raise job.virtual_workers",
                        t->workers, t->leaves, t->leaves);
}

static void check_rebalance(struct sw_job *job, const struct sw_section *cluster)
{
    check_partitions(job, "rebalance", "which it moves between workers");
    if (job->conf->repeat_exact)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "with repeat_exact nothing depends on what is measured: leave one of "
                        "them out");
    if (job->topology->is_async)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "%s lets groups go their own pace, so that none waits for a slower one: "
                        "leave it out, or use sandblaster or allreduce",
                        job->report.framework);
    if (!sw_job_find_split(job, SW_SPLIT_EVAL) || job->conf->eval_every == 0)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "rows are given at evaluations during training, and there are none: set "
                        "job.eval_every, with a [data val] or [data test]");
}

int sw_microbatches_check(struct sw_job *job, const struct sw_section *cluster, struct sw_err *err)
{
    if (job->conf->repeat_exact)
        check_exact(job, cluster);
    if (job->speed.rebalances)
        check_rebalance(job, cluster);
    return sw_recipe_verdict(job->recipe, err);
}
