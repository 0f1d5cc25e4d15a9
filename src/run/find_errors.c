/* All errors of a recipe at once. Opening a job stops at the first phase that fails, so that the
 * user would see the errors of one phase per attempt. Here the later phases run as far as they can
 * be trusted: a data section without errors of its own is opened; if the training data could be
 * opened and no layer is wrong, the nets are built on the host, for one worker, and thrown away.
 * Errors that follow from others are not searched for. The contract is in run/find_errors.h. */
#include "run/find_errors.h"
#include "device/driver.h"
#include "run/job_private.h"
#include "worker/worker_setup.h"

static void find_data_errors(struct sw_job *job)
{
    for (int split = 0; split < SW_SPLITS; split++) {
        const struct sw_section *s = sw_job_find_split(job, split);
        struct sw_err ignored; /* the recipe has it */

        if (!s || s->errors || job->data.section[split])
            continue;

        int rc = sw_job_open_split(job, split, s, &ignored);
        if (rc == SW_ERR_NOMEM || rc == SW_ERR_CANCELLED)
            return;
    }
}

static bool layers_are_sound(const struct sw_recipe *recipe)
{
    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s))
        if (s->errors)
            return false;
    return true;
}

static int build_net(struct sw_job *job, int split, struct sw_stream *stream,
                     const struct sw_net *sharing, struct sw_net **out, struct sw_err *err)
{
    struct sw_net_field fields[SW_MAX_FIELDS];
    const bool training = split == SW_SPLIT_TRAIN;
    const int64_t rows = training ? job->conf->batch : job->conf->eval_batch;
    const struct sw_net_args args = {
        .recipe = job->recipe,
        .stream = stream,
        .seed = (uint64_t)job->conf->seed,
        .algorithm = (enum sw_algorithm)job->conf->algorithm,
        .training = training,
        .rows = rows > 0 ? rows : 1,
        .freeze = &job->conf->freeze,
        .fields = fields,
        .field_count = sw_worker_fields(job->data.source[split], rows > 0 ? rows : 1, fields),
        .source = job->data.section[split]->name,
        .sharing = sharing,
    };

    return sw_net_new(&args, out, err);
}

static void find_shape_errors(struct sw_job *job)
{
    const struct sw_device_args host = {.precision = (enum sw_precision)job->conf->precision};
    struct sw_device *device = NULL;
    struct sw_stream *stream = NULL;
    struct sw_net *nets[SW_SPLITS] = {NULL};
    struct sw_err ignored; /* the recipe has those that concern it */

    int rc = sw_driver_host()->open(&host, &device, &ignored);
    if (rc == SW_OK)
        rc = sw_stream_new(device, 1, &stream, &ignored);

    for (int split = 0; split < SW_SPLITS && rc == SW_OK; split++)
        if (job->data.source[split])
            rc = build_net(job, split, stream, split == SW_SPLIT_TRAIN ? NULL : nets[0],
                           &nets[split], &ignored);

    for (int split = SW_SPLITS - 1; split >= 0; split--)
        sw_net_free(nets[split]);
    if (stream)
        sw_stream_free(stream);
    if (device)
        sw_device_close(device);
}

void sw_job_find_errors(struct sw_job *job)
{
    if (!job->recipe || !job->conf || sw_recipe_diags(job->recipe)->count == 0)
        return;

    find_data_errors(job);
    if (!job->data.source[SW_SPLIT_TRAIN] || !layers_are_sound(job->recipe))
        return;

    struct sw_diags had = sw_recipe_set_aside(job->recipe);
    find_shape_errors(job);
    sw_recipe_take_back(job->recipe, &had);
}
