/* The plan of a run that is resumed: the same one, or a new one on another machine. There the
 * settings of its old plan are removed from its overrides, where the plan in the history says which
 * they are. The contract is in cli/plan/again.h. */
#include "cli/plan/again.h"

#include "base/json.h"
#include "base/os.h"
#include "cli/history/runs.h"
#include "cli/plan/followed.h"
#include <string.h>
#include <unistd.h>

static bool is_elsewhere(const struct sw_run *run)
{
    char host[256] = "";

    return run && run->id && run->host && gethostname(host, sizeof host - 1) == 0 &&
           strcmp(run->host, host) != 0;
}

/* Plans the recipe of the run as if it were new. */
static int follow(struct sw_plan_again *a, const struct sw_cli_common *common,
                  struct sw_job_options *job)
{
    const struct sw_run *run = &a->run;
    struct sw_job_options model = *job;

    a->told = (struct sw_job_told){run->recipe, run->recipe_text, run->overrides,
                                   run->fallback ? run->fallback : ""};
    model.told = &a->told;
    model.resume = NULL;

    const int code = sw_plan_follow(&a->follow, common, &model);
    job->sets = model.sets;
    job->set_count = model.set_count;
    job->resume = run;
    return code;
}

/* The run goes on under its plan. */
static int keep(struct sw_plan_follow *f, const struct sw_json *plan)
{
    struct sw_json_writer w;

    sw_json_begin(&w, &f->json);
    sw_plan_followed_copy(&w, NULL, plan);
    f->is_recorded = true;
    if (!f->json.failed)
        return SW_EXIT_DONE;

    sw_cli_message("out of memory");
    return SW_EXIT_MISSING;
}

static int plan_again(struct sw_plan_again *a, const struct sw_cli_common *common,
                      const struct sw_json *plan, struct sw_job_options *job)
{
    const struct sw_run *run = job->resume;
    char title[128];

    a->run = *run;
    a->run.overrides = sw_plan_followed_without(plan, run->overrides);
    if (!a->run.overrides) {
        sw_cli_message("out of memory");
        return SW_EXIT_MISSING;
    }

    const int code = follow(a, common, job);
    if (code == SW_EXIT_DONE)
        sw_cli_message("%s followed a plan for %s; it follows a new one for this machine",
                       sw_run_title(run, title, sizeof title), run->host);
    if (code == SW_EXIT_DONE && !common->quiet && !common->json)
        return sw_cli_print(&a->follow.text);
    return code;
}

int sw_plan_again(struct sw_plan_again *a, const struct sw_cli_common *common, const char *db,
                  struct sw_job_options *job)
{
    const struct sw_run *run = job->resume;
    struct sw_json *plan = db && run->id ? sw_plan_followed_read(db, run) : NULL;
    if (!plan)
        return SW_EXIT_DONE;

    const int code = is_elsewhere(run) ? plan_again(a, common, plan, job) : keep(&a->follow, plan);
    sw_json_free(plan);
    return code;
}

void sw_plan_again_fini(struct sw_plan_again *a)
{
    sw_plan_follow_fini(&a->follow);
    sw_free(a->run.overrides);
    *a = (struct sw_plan_again){0};
}
