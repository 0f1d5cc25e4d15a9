/* The reading side of the history: a read-only connection that creates nothing, never locks out a
 * writer and never blocks training. Used by the history verb, by resume and eval to find runs and
 * checkpoints, and by the dashboard. One owner per struct sw_history_reader. */
#pragma once

#include "base/str.h"
#include "history/history.h"

struct sw_history_reader;

/* Opens a history for reading only. An older schema is read without migration, as far as it has the
 * requested tables. Errors: SW_ERR_NOTFOUND (no file), SW_ERR_FORMAT (not a history, damaged),
 * SW_ERR_UNSUPPORTED (a newer schema), SW_ERR_IO. */
int sw_history_reader_open(struct sw_history_reader **out, const char *path,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_history_reader_close(struct sw_history_reader *r); /* NULL is accepted */

/* A run as stored. Texts are owned, NULL where unknown. Times are Unix seconds, 0 when unknown. */
enum { SW_RUN_TEXTS = 14 };
struct sw_run {
    /* Up to best_loss_step in the order of the query in reader.c. */
    union {
        struct {
            char *uid, *name, *recipe, *recipe_text, *recipe_hash, *overrides, *fallback, *command;
            char *host, *framework, *device, *version, *note, *out_dir;
        };
        char *texts[SW_RUN_TEXTS]; /* owned; NULL: unknown */
    };
    int64_t id, pid;
    double started_at;
    double ended_at; /* of a crashed run: last_sign_at */
    int64_t workers, seed, batch, steps, epoch_records, params;
    double flops_per_sample;
    int64_t segments;      /* number of segments: one begin, then resumes */
    double segment_at;     /* start of the last segment */
    int64_t last_step;     /* of any series; -1: none */
    double loss, accuracy; /* newest train loss, newest accuracy of any other split; NaN: none */
    double samples_per_s;  /* of the newest 100 steps; NaN: none */
    double last_sign_at;   /* time of the last record of a run that is stored as running; else 0 */
    int64_t checkpoint_step; /* of the newest checkpoint; -1: none */
    /* Over all splits but train: the highest accuracy and the lowest loss, and where each was first
     * reached; NaN and -1: none. */
    double best_accuracy;
    int64_t best_accuracy_step;
    double best_loss;
    int64_t best_loss_step;
    enum sw_run_status
        status; /* SW_RUN_CRASHED if the process of a running run on this host is dead */
};
void sw_run_fini(struct sw_run *run); /* frees the texts and zeroes */

/* Finds a run by `@last`, an id, a name (the newest run of that name), or an unambiguous prefix of
 * an id or a name. *run is zeroed before; free it with sw_run_fini. Errors: SW_ERR_NOTFOUND (no
 * match; suggests a similar name), SW_ERR_INVALID (the prefix is ambiguous). */
int sw_history_find(struct sw_history_reader *r, const char *text, struct sw_run *run,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_history_find_id(struct sw_history_reader *r, int64_t run_id, struct sw_run *run,
                       struct sw_err *err) SW_MUST_CHECK;
/* The newest run with this folder, an absolute path. Errors: SW_ERR_NOTFOUND. */
int sw_history_find_folder(struct sw_history_reader *r, const char *folder, struct sw_run *run,
                           struct sw_err *err) SW_MUST_CHECK;
/* The newest run with this recipe hash that has a checkpoint row. Errors: SW_ERR_NOTFOUND. */
int sw_history_find_recipe(struct sw_history_reader *r, const char *recipe_hash, struct sw_run *run,
                           struct sw_err *err) SW_MUST_CHECK;

/* The callbacks below return 0 to continue; any other value ends the iteration, which returns it.
 * Their arguments are borrowed during the call. */

/* All runs, newest first. */
int sw_history_each_run(struct sw_history_reader *r,
                        int (*each)(void *user, const struct sw_run *run), void *user,
                        struct sw_err *err) SW_MUST_CHECK;

/* The selection and order of a list of runs; a zeroed filter selects all, newest first. Texts may
 * be NULL. */
enum sw_run_order {
    SW_RUNS_BY_ID,   /* newest first */
    SW_RUNS_BY_LOSS, /* best loss; then runs without an evaluation, by their newest training loss;
                        runs without the value come last, also below */
    SW_RUNS_BY_ACCURACY, /* best accuracy */
    SW_RUNS_BY_SPEED,    /* fastest first */
    SW_RUNS_BY_METRIC,   /* best value of the filter's metric */
};
struct sw_run_filter {
    const char *name;            /* pattern with * and ? */
    const char *tag, *tag_value; /* the run has this tag, with this value */
    enum sw_run_order order;
    const char *metric; /* of evaluations; for SW_RUNS_BY_METRIC */
};
int sw_history_list(struct sw_history_reader *r, const struct sw_run_filter *filter,
                    int (*each)(void *user, const struct sw_run *run), void *user,
                    struct sw_err *err) SW_MUST_CHECK;

/* Appends the names of all metrics of evaluations to out, with ", " between them. */
int sw_history_metric_names(struct sw_history_reader *r, struct sw_bytes *out,
                            struct sw_err *err) SW_MUST_CHECK;
/* The best value of a metric of the run's evaluations and its step; *step = -1 if it has none. */
int sw_history_best(struct sw_history_reader *r, int64_t run_id, const char *metric, double *value,
                    int64_t *step, struct sw_err *err) SW_MUST_CHECK;
/* Whether a smaller value of the metric is better, by the name of its layer type: losses, errors,
 * entropies and energies. */
bool sw_metric_falls(const char *name);

/* A value in a row of a query. */
struct sw_history_cell {
    const char *text; /* NULL if the value is NULL */
    bool is_number;
};
/* Receives one row; row is -1 for the column names. */
typedef int sw_history_row(void *user, int64_t row, int columns,
                           const struct sw_history_cell *cells);
/* Runs one SELECT (or WITH, VALUES, EXPLAIN, or a reading PRAGMA). Calls each(-1, names) first.
 * Nothing can be written: the file is open read-only, query_only is on, and an authorizer refuses
 * ATTACH, all changes, and functions that access files or return addresses. Errors: SW_ERR_INVALID
 * (the SQL is invalid or not read-only), SW_ERR_IO. */
int sw_history_sql(struct sw_history_reader *r, const char *sql, sw_history_row *each, void *user,
                   struct sw_err *err) SW_MUST_CHECK;
