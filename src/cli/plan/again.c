/* Plans a run again that is resumed on another machine. The settings of its old plan are removed
 * from its overrides, where the plan in the history says which they are. The contract is in
 * cli/plan/again.h. */
#include "cli/plan/again.h"

#include "base/json.h"
#include "base/os.h"
#include "cli/history/runs.h"
#include <string.h>
#include <unistd.h>

static bool is_elsewhere(const struct sw_run *run)
{
    char host[256] = "";

    return run && run->id && run->host && gethostname(host, sizeof host - 1) == 0 &&
           strcmp(run->host, host) != 0;
}

/* Keeps the plan of the only row. */
static int take_plan(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct sw_json **plan = user;
    struct sw_err ignored; /* a plan that cannot be read is none */

    if (row >= 0 && columns == 1 && cells[0].text && !*plan &&
        sw_json_parse(cells[0].text, strlen(cells[0].text), plan, &ignored) != SW_OK)
        *plan = NULL;
    return 0;
}

/* The plan that the run followed; NULL: none. Freed by the caller. */
static struct sw_json *read_plan(const char *db, const struct sw_run *run)
{
    struct sw_history_reader *reader = NULL;
    struct sw_json *plan = NULL;
    struct sw_err ignored;
    char sql[80];

    snprintf(sql, sizeof sql, "SELECT json FROM plans WHERE run_id = %lld", (long long)run->id);
    if (sw_history_reader_open(&reader, db, &ignored) == SW_OK &&
        sw_history_sql(reader, sql, take_plan, &plan, &ignored) != SW_OK) {
        sw_json_free(plan);
        plan = NULL;
    }

    sw_history_reader_close(reader);
    return plan;
}

static bool is_of_plan(const struct sw_json *plan, const char *line, size_t bytes)
{
    const struct sw_json *sets = sw_json_get(plan, "sets");

    for (const struct sw_json *s = sets ? sets->first : NULL; s; s = s->next)
        if (s->string && strlen(s->string) == bytes && memcmp(s->string, line, bytes) == 0)
            return true;
    return false;
}

/* The lines of `overrides` that are not settings of the plan; NULL: out of memory. */
static char *without_plan(const struct sw_json *plan, const char *overrides)
{
    struct sw_bytes out = {0};

    for (const char *p = overrides ? overrides : ""; *p;) {
        const size_t n = strcspn(p, "\n");

        if (n && !is_of_plan(plan, p, n)) {
            sw_bytes_add(&out, out.length ? "\n" : "");
            sw_bytes_append(&out, p, n);
        }
        p += n + (p[n] == '\n');
    }

    char *text = out.failed ? NULL : sw_strdup(sw_bytes_text(&out));
    sw_bytes_fini(&out);
    return text;
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

int sw_plan_again(struct sw_plan_again *a, const struct sw_cli_common *common, const char *db,
                  struct sw_job_options *job)
{
    const struct sw_run *run = job->resume;
    struct sw_json *plan = db && is_elsewhere(run) ? read_plan(db, run) : NULL;
    char title[128];

    if (!plan)
        return SW_EXIT_DONE;

    a->run = *run;
    a->run.overrides = without_plan(plan, run->overrides);
    sw_json_free(plan);
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

void sw_plan_again_fini(struct sw_plan_again *a)
{
    sw_plan_follow_fini(&a->follow);
    sw_free(a->run.overrides);
    *a = (struct sw_plan_again){0};
}
