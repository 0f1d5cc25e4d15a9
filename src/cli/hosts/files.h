/* The files that all hosts of a job read, for the message to them: the checkpoint that a run is
 * resumed from, and the files of init_from. One owner. */
#pragma once

#include "run/job.h"
#include "run/join.h"

struct sw_recipe;

/* Zero-initialise; free with sw_hosts_files_fini. */
struct sw_hosts_files {
    struct sw_host_file file[SW_HOST_FILES]; /* paths are owned */
    int count;
};

/* Lists the files of a job and reads them for their sums. A file that does not exist is left out,
 * since opening the job reports it. Errors: SW_ERR_INVALID (too many), SW_ERR_IO, SW_ERR_NOMEM,
 * SW_ERR_CANCELLED. */
int sw_hosts_files_list(struct sw_hosts_files *f, const struct sw_job_options *job,
                        const struct sw_recipe *recipe, struct sw_err *err) SW_MUST_CHECK;
void sw_hosts_files_fini(struct sw_hosts_files *f);

/* What another host has of them: for each file its own path, or a copy. Zero-initialise; free with
 * sw_hosts_copies_fini, which removes the copies. */
struct sw_hosts_copies {
    char *folder;                           /* owned; NULL: there are no copies */
    struct sw_job_copy copy[SW_HOST_FILES]; /* paths are owned */
    int count;
};

/* Asks host 0 on standard output for the files that this host does not have, and reads them from
 * standard input. Errors: SW_ERR_IO (disk full; names host and folder), SW_ERR_NOTFOUND (host 0 has
 * ended), SW_ERR_FORMAT (damaged), SW_ERR_NOMEM. */
int sw_hosts_copies_fetch(struct sw_hosts_copies *c, const struct sw_join *j,
                          struct sw_err *err) SW_MUST_CHECK;
/* The path of a file of host 0 on this one. */
const char *sw_hosts_copies_find(const struct sw_hosts_copies *c, const char *path);
void sw_hosts_copies_fini(struct sw_hosts_copies *c);
