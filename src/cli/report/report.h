/* The output of `run` and `resume` while a job trains. One observer, four styles: LIVE updates one
 * line of a terminal, PLAIN writes one key=value line per display, evaluation, checkpoint and
 * alert, JSON one object for each, QUIET nothing. LIVE and PLAIN have the same first lines and
 * closing table. If stdout is closed, the output ends but the training continues. One owner: the
 * thread that runs the job. */
#pragma once

#include "run/job.h"

struct sw_json_writer;

enum sw_report_style { SW_REPORT_LIVE, SW_REPORT_PLAIN, SW_REPORT_JSON, SW_REPORT_QUIET };

enum { SW_REPORT_SPLITS = 8 };

/* The newest metrics of a split. */
struct sw_report_split {
    char name[64];
    int64_t step; /* the step of these metrics */
    int metric_count;
    struct sw_job_metric metric[SW_JOB_METRICS];
};

struct sw_report {
    enum sw_report_style style;
    bool colour, verbose;
    const struct sw_job_plan *plan; /* borrowed; set before the job runs */
    double predicted_ms;            /* of a step, by the plan of the run; 0: there is none */
    bool writes_text;               /* `sample` can use the net; set with plan */
    bool closed;                    /* stdout was closed */
    bool line_shown;                /* LIVE: the cursor is in the status line */
    struct sw_bytes text;           /* output not yet written */
    bool run_began;                 /* the run is in the history, and its folder is claimed */
    int64_t run_id, step;
    int split_count;
    struct sw_report_split split[SW_REPORT_SPLITS];
    char checkpoint[1024];                                      /* path of the newest; "": none */
    void (*on_begin)(void *user, const struct sw_job_event *e); /* when the run begins; or NULL */
    void (*on_wait)(void *user, const char *text);              /* the run waits; NULL: print it */
    void *begin_user;
};

/* Chooses the style from options and terminal. verbose: see sw_report_start. Free with
 * sw_report_fini. */
void sw_report_init(struct sw_report *r, bool json, bool quiet, bool verbose);
void sw_report_fini(struct sw_report *r);
/* How often the style needs display events. */
struct sw_display_policy sw_report_policy(const struct sw_report *r);
sw_job_observer sw_report_observe; /* user is the struct sw_report */

/* Ends the status line, so that a message on stderr starts on a new line. */
void sw_report_end_line(struct sw_report *r);

/* --- Private to the styles --- */

/* Writes r->text, escaped as foreign text (base/text.h), between the control sequences before and
 * after, and clears it. */
void sw_report_flush(struct sw_report *r, const char *before, const char *after);
/* Stores the event's metrics as the newest of their split. */
void sw_report_store_metrics(struct sw_report *r, const struct sw_job_event *e);
/* The newest value of a metric, or NaN. split NULL: any but train. */
double sw_report_value(const struct sw_report *r, const char *split, const char *metric);

void sw_report_text(struct sw_report *r, const struct sw_job_event *e); /* LIVE and PLAIN */
void sw_report_json(struct sw_report *r, const struct sw_job_event *e);
void sw_report_data(struct sw_bytes *out, const struct sw_job_plan *plan); /* also of `check` */
/* What the user should know before the training. */
void sw_report_warnings(struct sw_bytes *out, const struct sw_job_plan *plan);
/* Where partitions and exchange modes of layers deviate from those of the net. */
void sw_report_notes(struct sw_bytes *out, const struct sw_job_plan *plan);
void sw_report_data_json(struct sw_json_writer *w, const struct sw_job_plan *plan);
/* The activations that memory = fit:SIZE recomputes or offloads, and the cost; nothing (null in
 * JSON) without a budget. */
void sw_report_fit(struct sw_bytes *out, const struct sw_job_plan *plan);
void sw_report_fit_json(struct sw_json_writer *w, const struct sw_job_plan *plan);
/* The precision of matrix products and the loss scale; nothing with fp32. */
void sw_report_precision(struct sw_bytes *out, const struct sw_job_plan *plan);
/* How gradients and parameters are copied between devices, and which backend reduces them; nothing
 * without devices. */
void sw_report_device(struct sw_bytes *out, const struct sw_job_plan *plan); /* if auto chose it */
void sw_report_copy(struct sw_bytes *out, const struct sw_job_plan *plan);
/* The part of every worker of a group in a net that is partitioned other than by rows, and the
 * traffic between them; nothing if there is no traffic. every_layer: also layer by layer. */
void sw_report_partition(struct sw_bytes *out, const struct sw_job_plan *plan, bool every_layer);
void sw_report_split_json(struct sw_json_writer *w, const struct sw_job_plan *plan,
                          const struct sw_job_layer *l); /* inside the layer's object */
/* The exchange mode of each layer with several workers, and its traffic: all layers for `check`,
 * for `run` only those that `auto` chose, and modes that are not possible. */
void sw_report_exchange(struct sw_bytes *out, const struct sw_job_plan *plan);
void sw_report_exchange_brief(struct sw_bytes *out, const struct sw_job_plan *plan);
void sw_report_exchange_json(struct sw_json_writer *w,
                             const struct sw_job_layer *l); /* the same as a JSON object */
/* The net as a Graphviz graph. */
void sw_report_dot(struct sw_bytes *out, const struct sw_job_plan *plan);
/* The first lines of a run: at most 8 of at most 80 columns; verbose: everything, with the reasons
 * of the placement. `out` is empty. */
void sw_report_start(struct sw_bytes *out, const struct sw_job_plan *plan,
                     const struct sw_job_event *e, bool verbose);
void sw_report_summary(struct sw_bytes *out, const struct sw_report *r,
                       const struct sw_job_event *e);
/* "placement": [...] of both `run` and `check`. */
void sw_json_placement(struct sw_json_writer *w, const struct sw_placement *p);
/* "worker0.0  cpu, node 0, cores 0-1", one line per row, each but the first after indent. reasons:
 * each line also has the number of threads and the reason. */
void sw_print_placement(struct sw_bytes *out, const struct sw_placement *p, const char *indent,
                        bool reasons);
/* "2 workers and 1 server on cpu, cores 0-1 (1 thread each)" */
void sw_print_placement_brief(struct sw_bytes *out, const struct sw_placement *p);
/* Lines of text, each but the first after indent; ends with a newline. */
void sw_print_lines(struct sw_bytes *out, const char *text, const char *indent);
