/* Files that all hosts read. Host 0 lists them with their sums; another host compares, and asks for
 * those that it lacks. The contract is in cli/hosts/files.h. */
#include "cli/hosts/files.h"

#include "base/os.h"
#include "checkpoint/init_from.h"
#include "cli/cli.h"
#include "recipe/job.h"
#include <stdio.h>
#include <unistd.h>

/* ---- Host 0 ---- */

static bool is_listed(const struct sw_hosts_files *f, const char *path)
{
    for (int i = 0; i < f->count; i++)
        if (sw_str_eq(f->file[i].path, path))
            return true;
    return false;
}

static int add(struct sw_hosts_files *f, const char *path, struct sw_err *err)
{
    struct sw_host_file file = {.path = NULL};

    if (is_listed(f, path))
        return SW_OK;

    int rc = sw_host_file_read(path, &file, err);
    if (rc == SW_ERR_NOTFOUND)
        return SW_OK;
    if (rc == SW_OK && f->count == SW_HOST_FILES)
        rc = sw_err_set(err, SW_ERR_INVALID, "init_from: %s: hosts can have %d files in common",
                        path, SW_HOST_FILES);
    if (rc != SW_OK)
        return rc;

    file.path = sw_strdup(path);
    if (!file.path)
        return sw_err_nomem(err, "list of files", 0);
    f->file[f->count++] = file;
    return SW_OK;
}

static int add_list(struct sw_hosts_files *f, const struct sw_job_conf *conf, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < conf->init_from.count && rc == SW_OK; i++)
        if (sw_init_from_is_file(conf->init_from.items[i]))
            rc = add(f, conf->init_from.items[i], err);
    return rc;
}

/* The files of a stage; NULL: of the recipe as it is. */
static int add_stage(struct sw_hosts_files *f, const struct sw_job_options *job, const char *stage,
                     struct sw_err *err)
{
    struct sw_job_options o = *job;
    const struct sw_job_conf *conf;
    struct sw_recipe *recipe = NULL;
    struct sw_err ignored; /* opening the job reports the errors of the recipe */

    o.stage = stage;
    int rc = sw_job_read_recipe(&o, &recipe, &conf, &ignored);
    rc = rc == SW_OK ? add_list(f, conf, err) : SW_OK;
    sw_recipe_free(recipe);
    return rc;
}

int sw_hosts_files_list(struct sw_hosts_files *f, const struct sw_job_options *job,
                        const struct sw_recipe *recipe, struct sw_err *err)
{
    const int stages = sw_recipe_stage_count(recipe);
    int rc = SW_OK;

    if (job->resume_checkpoint)
        rc = add(f, job->resume_checkpoint, err);
    if (job->init_from && rc == SW_OK)
        rc = add(f, job->init_from, err);
    if (stages == 0 && !job->resume && !job->init_from && rc == SW_OK)
        rc = add_stage(f, job, NULL, err);
    for (int i = 0; i < stages && rc == SW_OK; i++)
        rc = add_stage(f, job, sw_recipe_stage_name(recipe, i), err);
    return rc;
}

void sw_hosts_files_fini(struct sw_hosts_files *f)
{
    for (int i = 0; i < f->count; i++)
        sw_free((void *)(uintptr_t)f->file[i].path);
    *f = (struct sw_hosts_files){0};
}

/* ---- Another host ---- */

/* Hosts may share their state folder, so each has a folder of its own in it. What an earlier
 * process left there is removed. */
static int make_folder(struct sw_hosts_copies *c, const struct sw_join *j, struct sw_err *err)
{
    char name[32];

    if (c->folder)
        return SW_OK;

    snprintf(name, sizeof name, "%s.%d", j->uid, (int)j->own);
    int rc = sw_host_files_folder(name, &c->folder, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "host %s", j->names[j->own]);

    sw_host_files_remove(c->folder);
    return sw_os_mkdirs(c->folder, 0700, err);
}

static void ask_for(int number)
{
    char line[64];
    const int n = snprintf(line, sizeof line, SW_JOIN_SEND "%d\n", number);

    (void)sw_cli_write(line, (size_t)n); /* if host 0 is gone, reading tells so */
}

static int fetch(struct sw_hosts_copies *c, const struct sw_join *j, int number, struct sw_err *err)
{
    const struct sw_host_file *f = &j->files[number];

    int rc = make_folder(c, j, err);
    if (rc != SW_OK)
        return rc;

    char *path = sw_format("%s/%d.safetensors", c->folder, number);
    if (!path)
        return sw_err_nomem(err, "the path of a copy", 0);

    ask_for(number);
    rc = sw_host_file_receive(f, STDIN_FILENO, path, err);
    if (rc != SW_OK) {
        sw_free(path);
        return sw_err_prefix(err, rc, "host %s cannot keep a copy of %s of host %s in %s",
                             j->names[j->own], f->path, j->names[0], c->folder);
    }

    c->copy[c->count++] = (struct sw_job_copy){.of = f->path, .path = path};
    return SW_OK;
}

int sw_hosts_copies_fetch(struct sw_hosts_copies *c, const struct sw_join *j, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < j->file_count && rc == SW_OK; i++)
        if (!sw_host_file_is_here(&j->files[i]))
            rc = fetch(c, j, i, err);
    return rc;
}

const char *sw_hosts_copies_find(const struct sw_hosts_copies *c, const char *path)
{
    for (int i = 0; i < c->count; i++)
        if (sw_str_eq(c->copy[i].of, path))
            return c->copy[i].path;
    return path;
}

void sw_hosts_copies_fini(struct sw_hosts_copies *c)
{
    for (int i = 0; i < c->count; i++)
        sw_free((void *)(uintptr_t)c->copy[i].path);
    sw_host_files_remove(c->folder);
    sw_free(c->folder);
    *c = (struct sw_hosts_copies){0};
}
