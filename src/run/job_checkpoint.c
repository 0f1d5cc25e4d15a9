/* The view of a job that the checkpoint functions use. */
#include "run/job_checkpoint.h"
#include "base/str.h"
#include "checkpoint/init_from.h"
#include "run/job_private.h"

static void put_step(void *job, int server_group, int64_t step, uint64_t updates, uint64_t dropped)
{
    sw_job_put_step(job, server_group, step, updates, dropped);
}

static const char *find_file(void *user, const char *path)
{
    const struct sw_job *job = user;
    const struct sw_job_hosts *hosts = job->options.hosts;

    for (int i = 0; hosts && i < hosts->copy_count; i++)
        if (sw_str_eq(hosts->copies[i].of, path))
            return hosts->copies[i].path;
    return path;
}

struct sw_checkpoint_job sw_job_checkpoint(struct sw_job *job)
{
    const struct sw_job_stage *stage = &job->stage;

    return (struct sw_checkpoint_job){
        .name = job->options.name,
        .recipe = job->recipe,
        .conf = job->conf,
        .topology = job->topology,
        .workers = job->workers,
        .state = &job->state,
        .source = job->data.source,
        .sync = job->params.sync,
        .carried_over = &job->initial.carried_over,
        .takes = &job->initial.takes,
        .retention = &job->retention,
        .events = &job->events,
        .choices = job->report.choices,
        .resumed = job->options.resume_checkpoint,
        .stage = {stage->index, stage->name, job->span.stage_from, stage->begins, stage->over},
        .first_step = job->span.first_step,
        .steps = job->span.steps,
        .run_steps = job->span.run_steps,
        .put_step = put_step,
        .find_file = find_file,
        .user = job,
    };
}
