/* Finds the hosts of a job and starts those that nobody else starts. The contract is in
 * cli/hosts/hosts.h. */
#include "cli/hosts/hosts.h"

#include "base/os.h"
#include "cli/cli.h"
#include "cli/hosts/files.h"
#include "history/reader.h"
#include "recipe/ini.h"
#include "recipe/job.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum {
    END_MS = 60000, /* for the last checkpoint of another host */
    FAIL_MS = 5000, /* for its messages */
};

static void note_begin(void *user, const struct sw_job_event *e)
{
    struct sw_job_on_hosts *h = user;

    if (!h->db && e->db_path)
        h->db = sw_strdup(e->db_path);
    h->run_id = e->run_id;
    __atomic_store_n(&h->began, true, __ATOMIC_RELAXED);
    if (h->on_begin)
        h->on_begin(h->begin_user, e);
}

static void pass_wait(void *user, const char *text)
{
    const struct sw_job_on_hosts *h = user;
    h->on_wait(h->begin_user, text);
}

/* Lets the report tell when the job trains. */
static void hook_report(struct sw_job_on_hosts *h, struct sw_report *report)
{
    h->report = report;
    h->on_begin = report->on_begin;
    h->on_wait = report->on_wait;
    h->begin_user = report->begin_user;
    report->on_begin = note_begin;
    report->on_wait = h->on_wait ? pass_wait : NULL;
    report->begin_user = h;
}

static void unhook_report(struct sw_job_on_hosts *h)
{
    if (!h->report)
        return;

    h->report->on_begin = h->on_begin;
    h->report->on_wait = h->on_wait;
    h->report->begin_user = h->begin_user;
}

/* The identity of a run that is resumed, or one that is drawn. */
static int find_uid(const struct sw_job_options *job, char out[17], struct sw_err *err)
{
    uint64_t drawn;

    if (job->resume && job->resume->uid) {
        snprintf(out, 17, "%.16s", job->resume->uid);
        return SW_OK;
    }

    if (sw_os()->random_bytes(&drawn, sizeof drawn) != 0)
        return sw_err_errno(err, errno, "cannot draw a number");
    snprintf(out, 17, "%016llx", (unsigned long long)drawn);
    return SW_OK;
}

static void describe_files(const struct sw_hosts_files *files, struct sw_join *message)
{
    memcpy(message->files, files->file, sizeof message->files);
    message->file_count = files->count;
}

/* Starts all other hosts with the recipe as this one reads it. */
static int start_others(struct sw_job_on_hosts *h, const struct sw_job_options *job,
                        const struct sw_recipe *recipe, struct sw_report *report,
                        struct sw_err *err)
{
    const struct sw_run *run = job->resume;
    struct sw_hosts_files files = {.count = 0};
    char folder[PATH_MAX], uid[17];
    uint16_t port = 0;

    if (!getcwd(folder, sizeof folder))
        return sw_err_errno(err, errno, "the working directory");

    int rc = sw_launch_lead(h->launch, &port, err);
    if (rc == SW_OK)
        rc = find_uid(job, uid, err);
    if (rc == SW_OK)
        rc = sw_hosts_files_list(&files, job, recipe, err);
    h->job.key = h->launch->key;

    struct sw_join message = {
        .task = h->task,
        .count = h->launch->hosts.count,
        .address = sw_launch_address(h->launch),
        .port = port,
        .key = h->launch->key,
        .share_machine = h->launch->share_machine,
        .folder = folder,
        .recipe_path = sw_recipe_path(recipe), /* may begin in that folder */
        .recipe = sw_recipe_text(recipe),
        .overrides = sw_recipe_overrides(recipe),
        .fallback = sw_recipe_fallback(recipe),
        .name = job->name ? job->name
                : run     ? run->name
                          : NULL,
        .init_from = job->init_from, /* so may this */
        .steps = job->steps,
        .steps_at_most = job->steps_at_most,
        .uid = uid,
        .checkpoint = job->resume_checkpoint,
        .device = run ? run->device : NULL,
        .oversubscribe = job->oversubscribe,
        .verbose = report->verbose,
    };
    for (int i = 0; i < message.count; i++)
        message.names[i] = h->launch->hosts.host[i].name;
    describe_files(&files, &message);

    const struct sw_remote_args args = {
        .launch = h->launch,
        .message = &message,
        .live = report->style == SW_REPORT_LIVE && isatty(STDERR_FILENO) == 1,
        .began = &h->began,
        .line = h->line,
        .user = h->line_user,
    };
    hook_report(h, report);
    if (rc == SW_OK)
        rc = sw_remote_start(&args, &h->remote, err);
    sw_hosts_files_fini(&files);
    return rc;
}

static void print_why(const struct sw_launch *l, const struct sw_report *report)
{
    struct sw_bytes line = {0};

    if (report->style != SW_REPORT_LIVE && report->style != SW_REPORT_PLAIN)
        return;

    sw_bytes_printf(&line, "hosts        %s\n", l->why);
    sw_cli_print(&line);
    sw_bytes_fini(&line);
}

int sw_job_on_hosts_start(struct sw_job_on_hosts *h, const struct sw_hosts_options *o,
                          struct sw_job_options *job, const struct sw_recipe *recipe,
                          struct sw_report *report, struct sw_err *err)
{
    const struct sw_launch_args args = {
        .cluster = sw_recipe_find(recipe, "cluster", NULL)->common,
        .hosts = o->hosts,
        .share_machine = o->share_machine,
        .engines = &sw_launch_engines,
    };

    int rc = sw_launch_find(&args, &h->launch, err);
    if (rc != SW_OK || !h->launch)
        return rc;

    const struct sw_launch *l = h->launch;
    h->job = (struct sw_job_hosts){.list = &l->hosts,
                                   .engine = l->engine,
                                   .conf = l->conf,
                                   .key = l->key,
                                   .share_machine = l->share_machine,
                                   .launch = h->launch};
    job->hosts = &h->job;
    if (l->hosts.own > 0)
        report->style = SW_REPORT_QUIET; /* host 0 prints what users see */

    if (h->task == SW_JOIN_TRAIN)
        print_why(l, report);
    return l->by_ssh ? start_others(h, job, recipe, report, err) : SW_OK;
}

int sw_job_on_hosts_begin(struct sw_job_on_hosts *h, const struct sw_hosts_options *o,
                          struct sw_job_options *job, struct sw_report *report, struct sw_err *err)
{
    const struct sw_job_conf *conf;
    struct sw_recipe *recipe = NULL;
    struct sw_err ignored;
    int rc = SW_OK;

    sw_piped_recipe_read(&h->piped, job);
    if (sw_job_read_recipe(job, &recipe, &conf, &ignored) == SW_OK)
        rc = sw_job_on_hosts_start(h, o, job, recipe, report, err);

    sw_recipe_free(recipe);
    return rc;
}

int sw_job_on_hosts_end(struct sw_job_on_hosts *h, uint64_t lost, int code)
{
    const bool well = code == SW_EXIT_DONE || code == SW_EXIT_STOPPED;
    const bool failed = sw_remote_end(h->remote, code, lost, well ? END_MS : FAIL_MS);

    unhook_report(h);
    sw_launch_free(h->launch);
    sw_piped_recipe_fini(&h->piped);
    sw_free(h->db);
    *h = (struct sw_job_on_hosts){0};
    return failed && code == SW_EXIT_STOPPED ? SW_EXIT_MISSING : code;
}
