/* What `run` and `resume` print while a job trains. One observer, four styles: LIVE keeps one line
 * of a terminal up to date, PLAIN writes one key=value line per display, evaluation, checkpoint and
 * alert, JSON one object for each, QUIET nothing. First lines and closing table are the same text
 * for LIVE and PLAIN. A reader of stdout that goes away ends the output, never the training. One
 * owner: the thread that runs the job. */
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
    bool closed;                    /* stdout was closed */
    bool line_shown;                /* LIVE: the cursor stands in the status line */
    struct sw_buf text;             /* working memory */
    bool run_began;                 /* the history knows the run, and its folder is claimed */
    int64_t run_id, step;
    int split_count;
    struct sw_report_split split[SW_REPORT_SPLITS];
    char checkpoint[1024];                                     /* the newest, "" none */
    void (*begun)(void *beside, const struct sw_job_event *e); /* at the run's begin; or NULL */
    void *beside;
};

/* The style that options and the terminal ask for. Free with sw_report_fini. */
void sw_report_init(struct sw_report *r, bool json, bool quiet, bool verbose);
void sw_report_fini(struct sw_report *r);
/* How often a style needs display events. */
struct sw_display_policy sw_report_policy(const struct sw_report *r);
sw_job_observer sw_report_observe; /* user is the struct sw_report */

/* Ends the status line, so that a message on stderr starts on a line of its own. */
void sw_report_end_line(struct sw_report *r);

/* --- Private to the styles --- */

/* Writes r->text, which may be foreign (base/text.h), between escapes of our own, and empties it.
 */
void sw_report_flush(struct sw_report *r, const char *before, const char *after);
/* Remembers the event's metrics as the newest of their split. */
void sw_report_keep(struct sw_report *r, const struct sw_job_event *e);
/* The newest value of a metric, or NaN. split NULL: any but train. */
double sw_report_value(const struct sw_report *r, const char *split, const char *metric);

void sw_report_text(struct sw_report *r, const struct sw_job_event *e); /* LIVE and PLAIN */
void sw_report_json(struct sw_report *r, const struct sw_job_event *e);
void sw_report_data(struct sw_buf *out, const struct sw_job_plan *plan); /* also of `check` */
void sw_report_data_json(struct sw_json_writer *w, const struct sw_job_plan *plan);
/* What memory = fit:SIZE chose and what it costs; nothing without a budget (null in JSON). */
void sw_report_fit(struct sw_buf *out, const struct sw_job_plan *plan);
void sw_report_fit_json(struct sw_json_writer *w, const struct sw_job_plan *plan);
/* What products round their factors to, and the loss scale; nothing with fp32. */
void sw_report_precision(struct sw_buf *out, const struct sw_job_plan *plan);
/* How gradients and parameters are copied between devices, and which back end reduces them: ""
 * without devices. */
void sw_report_copy(struct sw_buf *out, const struct sw_job_plan *plan);
/* What every worker of a group has of a net that is partitioned other than by rows, and the traffic
 * between them; nothing if there is no traffic. every_layer: also layer by layer. */
void sw_report_split(struct sw_buf *out, const struct sw_job_plan *plan, bool every_layer);
void sw_report_split_json(struct sw_json_writer *w, const struct sw_job_plan *plan,
                          const struct sw_job_layer *l); /* inside the layer's object */
/* How gradients of several workers are reduced, layer by layer, and the traffic of that: all layers
 * for `check`; for `run` only what `auto` chose and what was impossible. */
void sw_report_comm(struct sw_buf *out, const struct sw_job_plan *plan);
void sw_report_comm_brief(struct sw_buf *out, const struct sw_job_plan *plan);
void sw_report_comm_json(struct sw_json_writer *w, const struct sw_job_layer *l); /* likewise */
/* The net as a graph in Graphviz's language. */
void sw_report_dot(struct sw_buf *out, const struct sw_job_plan *plan);
/* The first lines of a run; verbose: with the reasons of the placement. */
void sw_report_start(struct sw_buf *out, const struct sw_job_plan *plan,
                     const struct sw_job_event *e, bool verbose);
void sw_report_summary(struct sw_buf *out, const struct sw_report *r, const struct sw_job_event *e);
/* "placement": [...] of both `run` and `check`. */
void sw_json_placement(struct sw_json_writer *w, const struct sw_placement *p);
/* "worker0.0  cpu, node 0, cores 0-1", one line per row, each but the first after indent. reasons:
 * each line also has the number of threads and the reason. */
void sw_print_placement(struct sw_buf *out, const struct sw_placement *p, const char *indent,
                        bool reasons);
/* Lines of text, each but the first after indent; ends with a newline. */
void sw_print_lines(struct sw_buf *out, const char *text, const char *indent);
