/* Plans for this machine before a job is opened, and adds the settings of the plan to it. They are
 * stored with the run like any --set, so that a resume has the same plan. The contract is in
 * cli/plan/follow.h. */
#include "cli/plan/follow.h"

#include "base/json.h"
#include "base/os.h"
#include "recipe/job.h"

bool sw_plan_is_asked(const struct sw_job_options *job)
{
    struct sw_recipe *recipe = NULL;
    const struct sw_job_conf *conf;
    struct sw_err ignored;
    bool asked = false;

    if (sw_job_read_recipe(job, &recipe, &conf, &ignored) == SW_OK) {
        const struct sw_section *cluster = sw_recipe_find(recipe, "cluster", NULL);
        const struct sw_cluster_conf *c = cluster->common;

        asked = conf->auto_partition ||
                (sw_section_is_set(cluster, "framework") && c->framework == SW_FRAMEWORK_AUTO) ||
                (sw_section_is_set(cluster, "workers_per_group") && c->workers_per_group == 0);
    }

    sw_recipe_free(recipe);
    return asked;
}

void sw_plan_keep_exact(struct sw_plan_model *m)
{
    const struct sw_recipe *recipe = sw_job_recipe(m->trainer.job);
    const struct sw_job_conf *conf = sw_recipe_find(recipe, "job", NULL)->common;
    struct sw_search_limits *l = &m->constraints.limits;

    if (!conf->repeat_exact)
        return;

    for (int i = 0; i < m->net->count; i++)
        if (m->constraints.keys.partition[i] < 0)
            m->constraints.keys.partition[i] = SW_PARTITION_ROWS;
    if (l->net_comm == SW_EXCHANGE_AUTO)
        l->net_comm = SW_EXCHANGE_PS;
    if (l->most_workers == 0 || l->most_workers > (int)conf->virtual_workers)
        l->most_workers = (int)conf->virtual_workers;
}

static int add_sets(struct sw_plan_follow *f, struct sw_job_options *job, struct sw_err *err)
{
    const int count = job->set_count + f->texts.count;

    f->sets = sw_calloc((size_t)count + 1, sizeof *f->sets);
    if (!f->sets)
        return sw_err_nomem(err, "the settings of a plan", ((size_t)count + 1) * sizeof *f->sets);

    for (int i = 0; i < count; i++)
        f->sets[i] = i < job->set_count ? job->sets[i] : f->texts.sets[i - job->set_count];
    job->sets = f->sets;
    job->set_count = count;
    return SW_OK;
}

static void write_plan(struct sw_plan_follow *f, const struct sw_planned *p,
                       const struct sw_planned_about *about)
{
    struct sw_json_writer w;

    sw_planned_print_brief(&f->text, p);

    sw_json_begin(&w, &f->json);
    sw_json_open_object(&w, NULL);
    sw_planned_json(&w, p, about);
    sw_json_close_object(&w);
}

static int make(struct sw_plan_follow *f, struct sw_plan_model *m, struct sw_job_options *job,
                struct sw_err *err)
{
    struct sw_planned planned = {0};

    int rc = sw_plan_model_plan(m, &planned, err);
    if (rc == SW_OK)
        rc = sw_plan_model_texts(m, &planned, &f->texts, err);
    if (rc == SW_OK)
        rc = add_sets(f, job, err);

    if (rc == SW_OK) {
        const struct sw_planned_about about = sw_plan_model_about(m, &f->texts, false);

        write_plan(f, &planned, &about);
        if (f->json.failed || f->text.failed)
            rc = sw_err_nomem(err, "the text of a plan", 0);
    }

    sw_planned_fini(&planned);
    return rc;
}

int sw_plan_follow(struct sw_plan_follow *f, const struct sw_cli_common *common,
                   struct sw_job_options *job)
{
    const struct sw_plan_target target = {.hosts = f->hosts};
    struct sw_plan_model m = {0};
    struct sw_err err;

    int rc = sw_plan_model_open(&m, common, job, &target, &err);
    if (rc == SW_OK) {
        sw_plan_keep_exact(&m);
        rc = make(f, &m, job, &err);
    }

    const int code = rc == SW_OK ? SW_EXIT_DONE : sw_trainer_refuse(&m.trainer, rc, &err);
    sw_plan_model_fini(&m);
    return code;
}

void sw_plan_follow_fini(struct sw_plan_follow *f)
{
    sw_planning_texts_fini(&f->texts);
    sw_free((void *)f->sets);
    sw_bytes_fini(&f->text);
    sw_bytes_fini(&f->json);
    *f = (struct sw_plan_follow){0};
}
