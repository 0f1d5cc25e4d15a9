/* The data section to which a trained net is applied, and what it says about its records. One
 * owner: the job's main thread. */
#pragma once

#include "run/job.h"

/* Opens the section that `split` names; NULL: val if it exists, else test. Afterwards it is
 * job->data.source[SW_SPLIT_EVAL]. The job must be opened with `predict`, and the data spec of the
 * weights be read. Errors: SW_ERR_NOTFOUND without a section, those of sw_job_open_split. */
int sw_job_open_section(struct sw_job *job, const char *split, struct sw_err *err) SW_MUST_CHECK;

/* The labels of all records, in the order of the data; a layer that reads them is not needed. */
struct sw_section_labels {
    int64_t rows, columns; /* columns: 1, a class; more: 0 or 1 for each class */
    int32_t *values;       /* owned [rows, columns] */
    int classes;           /* 0: unknown */
};

/* Opens the section and reads its field `label`. The job must be opened with `predict` and be used
 * for nothing else. Free with sw_section_labels_fini, also after an error. Errors: those above,
 * SW_ERR_NOTFOUND without such a field, SW_ERR_FORMAT for labels that are no integers, those of
 * sw_source_fetch, SW_ERR_NOMEM. */
int sw_job_read_labels(struct sw_job *job, const char *weights, const char *split,
                       struct sw_section_labels *out, struct sw_err *err) SW_MUST_CHECK;
void sw_section_labels_fini(struct sw_section_labels *l); /* a zeroed one is accepted */
