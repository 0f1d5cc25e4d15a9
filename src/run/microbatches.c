/* The rows of microbatches in checkpoints, and checks of settings that partition a batch.
 *
 * The workers of a group share a batch in microbatches, which are leaves of the reduction tree over
 * the batch (base/tree.h). Usually every worker has one. With repeat_exact there are as many as
 * virtual workers, each with fixed rows, distributed over the workers: what a microbatch computes
 * does not depend on its worker, and all sums over microbatches follow the tree, so the bits of a
 * run do not depend on the number of workers, servers and threads. With rebalance every worker has
 * one microbatch, whose number of rows changes (rebalance.c). */
#include "run/microbatches.h"
#include "base/str.h"
#include "plan/saved_choices.h"
#include "run/job_private.h"
#include <string.h>

void sw_microbatches_write(const struct sw_job *job, struct sw_bytes *out)
{
    for (int i = 0; i < job->topology->microbatches; i++)
        sw_bytes_printf(out, "%s%lld", i ? " " : "", (long long)job->rows.rows[SW_SPLIT_TRAIN][i]);
}

/* Takes the rows from the resumed checkpoint. If the file cannot be read, the load reports it
 * later. */
static void restore_rows(struct sw_job *job)
{
    int64_t rows[SW_TREE_LEAVES];
    struct sw_json *kept;
    struct sw_err ignored;

    if (!job->speed.rebalances ||
        sw_saved_choices_read(job->options.resume_checkpoint, &kept, &ignored) != SW_OK)
        return;

    if (sw_saved_choices_rows(kept, job->topology->microbatches, job->conf->batch, rows))
        sw_row_split_set(&job->rows, job->topology, rows);
    sw_json_free(kept);
}

int sw_microbatches_split(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_row_split_init(&job->rows, job->topology, err);
    if (rc != SW_OK)
        return rc;

    restore_rows(job);
    return SW_OK;
}

/* ---- conflicting settings ---- */

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

/* Reports layers that are not split by rows: their shards depend on the number of workers. */
static void check_partitions(struct sw_job *job, const char *key, const char *why)
{
    const struct sw_section *s = sw_recipe_first(job->recipe, "layer");

    for (; s; s = sw_section_next(s))
        if (sw_section_is_set(s, "location"))
            sw_recipe_error(job->recipe, s, "location",
                            "with %s all layers are split by rows, %s: remove this key", key, why);
        else if (is_split(s))
            sw_recipe_error(
                job->recipe, s, "partition",
                "with %s all layers are split by rows, %s: set it to 0, or remove the key", key,
                why);

    if (job->conf->partition != SW_PARTITION_ROWS)
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "partition",
                        "with %s all layers are split by rows, %s: set it to 0, or remove the key",
                        key, why);
}

static void check_exact(struct sw_job *job, const struct sw_section *cluster)
{
    const struct sw_topology *t = job->topology;

    check_partitions(job, "repeat_exact", "so that the number of workers makes no difference");

    if (job->conf->tune)
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "tune",
                        "tune chooses by measuring, which repeat_exact excludes: remove one of "
                        "them");

    if (t->is_async)
        sw_recipe_error(job->recipe, cluster, "framework",
                        "with %s updates depend on which group comes first, so that "
                        "repeat_exact cannot hold: use sandblaster or allreduce",
                        job->report.framework.name);
    else if (t->workers > t->leaves)
        sw_recipe_error(job->recipe, cluster, "workers_per_group",
                        "%d workers cannot share the %d microbatches of repeat_exact: use at most "
                        "%d workers, or raise job.virtual_workers",
                        t->workers, t->leaves, t->leaves);
}

static void check_rebalance(struct sw_job *job, const struct sw_section *cluster)
{
    check_partitions(job, "rebalance", "which it moves between workers");

    if (job->conf->repeat_exact)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "rebalance chooses by measuring, which repeat_exact excludes: remove one "
                        "of them");

    if (job->topology->is_async)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "groups of %s are asynchronous and do not wait for slower ones: remove "
                        "rebalance, or use sandblaster or allreduce",
                        job->report.framework.name);

    if (!sw_job_find_split(job, SW_SPLIT_EVAL) || job->conf->eval_every == 0)
        sw_recipe_error(job->recipe, cluster, "rebalance",
                        "rows are rebalanced at evaluations during training, and there are none: "
                        "set job.eval_every, and add [data val] or [data test]");
}

int sw_microbatches_check(struct sw_job *job, const struct sw_section *cluster, struct sw_err *err)
{
    if (job->conf->repeat_exact)
        check_exact(job, cluster);
    if (job->speed.rebalances)
        check_rebalance(job, cluster);

    return sw_recipe_status(job->recipe, err);
}
