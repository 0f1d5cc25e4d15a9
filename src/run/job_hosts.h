/* The other hosts of a job, from the run's side: what cannot be done over hosts, the fabric with
 * the sums of gradients, losses and requests, and the comparison of values. With one host all of
 * these functions do nothing. */
#pragma once

#include "exchange/hosts/table_sums.h"
#include <stdbool.h>

struct sw_job;

struct sw_job_fabric {
    struct sw_table_sums sums; /* sums.sum NULL: one host */
    struct sw_fabric *fabric;  /* owned; open while the job runs */
    bool asked;                /* requests were told once */
};

/* Does this host write the checkpoint of the leader's step? If another one does, notes that it
 * exists. By the leader. */
bool sw_job_hosts_write(struct sw_job *job);
/* Reports settings that cannot be used on several hosts as errors of the recipe; returns SW_OK or
 * SW_ERR_INVALID. Once the topology is known. */
int sw_job_hosts_check(struct sw_job *job) SW_MUST_CHECK;
/* The sums of the parameter table over hosts, for sw_table_args. */
struct sw_table_outer sw_job_hosts_outer(struct sw_job *job);
/* Once the groups are made: their sums go on over hosts. */
void sw_job_hosts_connect_groups(struct sw_job *job);
/* Once the nets and the table are built: checks what the nets need, and allocates. Errors:
 * SW_ERR_INVALID, SW_ERR_NOMEM. */
int sw_job_hosts_prepare(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* Connects with all hosts, before anything is written. Errors: those of sw_fabric_open;
 * SW_ERR_INVALID (two processes on one machine). */
int sw_job_hosts_open(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Compares the values of all hosts after an evaluation; a difference becomes the job's fault. By
 * the leader, between two steps. */
void sw_job_hosts_compare(struct sw_job *job, int64_t step);
/* Leaves the other hosts in order, or tells them the error with which the job ended (rc). When all
 * roles have ended. */
void sw_job_hosts_close(struct sw_job *job, int rc, const struct sw_err *err);
/* Before the table is freed. */
void sw_job_hosts_free(struct sw_job *job);
