/* The history of a job on several hosts. Host 0 stores the run; every other host has a history that
 * is a part of it: it has no database, no run and no claim of its own. Its writer thread turns rows
 * into the lines of a spool (row.h) and hands them, in chunks, to whoever sends them to host 0,
 * which queues them for its own writer. What cannot be sent goes to OUT/hosts/HOST/metrics.jsonl,
 * which is merged like any other spool.
 *
 * Roles, devices, sources of events and tags of a part begin with the name of its host, as in
 * "b/worker0.1"; its workers are numbered after those of the hosts before it. Times are those of
 * host 0's clock and do not go backwards. Curves and stages are the same on all hosts, and host 0
 * records them; rows of checkpoints, which another host writes only when a host was lost, go to the
 * spool. */
#pragma once

#include "history/history.h"

enum {
    SW_HISTORY_CHUNK = 64 << 10,         /* bytes of lines that are sent at once, at most */
    SW_HISTORY_PART_WAITING = 8 << 20,   /* bytes of lines that wait to be sent, at most */
    SW_HISTORY_TAKEN_WAITING = 32 << 20, /* bytes of rows of other hosts that wait for host 0's
                                            writer, at most; further ones are lost */
    SW_HISTORY_HOST_NAME = 16,           /* with its zero */
};

struct sw_history_part {
    const char *uid;  /* of the run: 16 hex digits; copied */
    const char *host; /* the name of this host, shorter than SW_HISTORY_HOST_NAME; copied */
    int number;       /* of this host, at least 1 */
    int first_worker; /* workers of the hosts before it */
    /* Sends whole lines, which stay as they are until sw_history_part_sent is called (perhaps
     * before this returns) or host 0 is gone. Never waits. SW_ERR_BUSY: not now; any other error:
     * never again. Called by the writer thread. */
    int (*send)(void *user, const char *lines, size_t bytes, struct sw_err *err);
    /* This host's wall clock less host 0's; false: not known yet. */
    bool (*clock_offset)(void *user, int64_t *offset_ns);
    void *user;
};

/* In place of sw_history_begin_run. With info->out_dir NULL the folder is STATE/runs/UID. Errors:
 * SW_ERR_IO (the folder), SW_ERR_INVALID (uid), SW_ERR_NOMEM. */
int sw_history_begin_part(struct sw_history *h, const struct sw_run_info *info,
                          const struct sw_history_part *part, struct sw_err *err) SW_MUST_CHECK;
/* Host 0 has taken the lines that were handed to `send`; rc other than SW_OK: they were not sent.
 * Any thread. */
void sw_history_part_sent(struct sw_history *h, int rc);
/* Host 0 is gone: nothing more is sent. Any thread. */
void sw_history_part_gone(struct sw_history *h);

/* Another host, from which host 0 takes lines. */
struct sw_history_source {
    const char *host; /* its name */
    int number;
    int first_worker, workers;
    int64_t last_step; /* of the run: rows of later steps are refused */
    /* Called for its warnings and errors, by the thread that takes; source has the host's name. */
    void (*event)(void *user, enum sw_log_level level, const char *source, const char *text);
    void *user;
};
/* Checks lines of another host and queues their rows for the writer. Never waits. Rows for which
 * there is no memory are counted as lost. Errors: SW_ERR_FORMAT (not whole lines of rows that this
 * host may send); some of the lines may have been queued. Any thread. */
int sw_history_take(struct sw_history *h, const struct sw_history_source *from, const char *lines,
                    size_t bytes, struct sw_err *err) SW_MUST_CHECK;

/* A host of the run. NULL and NaN keep the stored value; a time at which the host joined replaces
 * all values. Queued like the rows of history.h. */
struct sw_history_host {
    int number;
    const char *name, *address, *cpu, *gpus; /* gpus: models, separated by commas */
    const char *fabric;                      /* how it is connected: "tcp, TLS 1.3" */
    double clock_offset_ms, clock_error_ms;  /* its clock less host 0's, and how far that may be
                                                wrong */
    double joined_at, left_at;               /* Unix seconds */
    const char *why;                         /* it was lost; NULL: it left in order */
};
void sw_history_host(struct sw_history *h, const struct sw_history_host *host);
/* Records what went from a host to another one during the last `ms` milliseconds (link_traffic of
 * kind net). */
void sw_history_net(struct sw_history *h, const char *from, const char *to, int64_t step,
                    int64_t bytes, double ms);
/* Records the measured rate of that link, as what it carries in a second (kind net_test). */
void sw_history_net_rate(struct sw_history *h, const char *from, const char *to, int64_t step,
                         double bytes_per_s);
