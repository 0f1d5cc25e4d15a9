/* The hosts of a job for the verbs that train: finds who they are (run/launch.h), and starts the
 * others where this process is the one to do it. One owner: the main thread. */
#pragma once

#include "cli/hosts/remote.h"
#include "cli/report/report.h"
#include "cli/training/piped.h"

struct sw_hosts_options {
    const char *hosts; /* --hosts, or NULL */
    bool share_machine;
};
/* Rows of a verb's option table for them; `member` is their place in its struct. */
#define SW_HOSTS_ROWS(of, member)                                                                  \
    SW_CLI_TEXT_OPTION(of, member.hosts, "hosts", "HOST,...",                                      \
                       "train on these hosts, of which the first is this machine; the others are " \
                       "started by ssh; default: the recipe's cluster.hosts"),                     \
        SW_CLI_FLAG_OPTION(of, member.share_machine, "share-machine",                              \
                           "allow several hosts of a job to be the same machine")

struct sw_job_on_hosts {
    struct sw_launch *launch; /* owned; NULL: this machine alone */
    struct sw_job_hosts job;  /* for the options of the job */
    struct sw_remote *remote; /* owned; NULL: this process started no others */
    enum sw_join_task task;   /* what the others do */
    sw_remote_line *line;     /* of struct sw_remote_args */
    void *line_user;
    struct sw_piped_recipe piped;
    bool began;     /* atomic: the job trains */
    int64_t run_id; /* of the run that has begun; 0: none */
    char *db;       /* owned: its history; NULL: none */
    /* The report, and the functions that this one calls in its place. */
    struct sw_report *report;
    void (*on_begin)(void *user, const struct sw_job_event *e);
    void (*on_wait)(void *user, const char *text);
    void *begin_user;
};

/* Finds the hosts of the job that the options describe, sets job->hosts, and starts the others.
 * Prints who the hosts are, as the first line of the run; a host other than 0
 * has a silent report, and a folder of its own. Does nothing if the recipe has errors, which
 * opening the job reports. `h` begins as zeros, or with task and line; free with
 * sw_job_on_hosts_end, also after an error. Errors: those of sw_launch_find, sw_launch_lead and
 * sw_remote_start. */
int sw_job_on_hosts_begin(struct sw_job_on_hosts *h, const struct sw_hosts_options *o,
                          struct sw_job_options *job, struct sw_report *report,
                          struct sw_err *err) SW_MUST_CHECK;
/* The same with the recipe, which has no errors. */
int sw_job_on_hosts_start(struct sw_job_on_hosts *h, const struct sw_hosts_options *o,
                          struct sw_job_options *job, const struct sw_recipe *recipe,
                          struct sw_report *report, struct sw_err *err) SW_MUST_CHECK;
/* Ends the processes on the other hosts, after the job was closed; code is the exit code of the job
 * on this one, lost has the bits of the hosts that it lost. Returns the exit code of the whole job.
 */
int sw_job_on_hosts_end(struct sw_job_on_hosts *h, uint64_t lost, int code);
