/* Statistics of a data source over one pass: mean, standard deviation, minimum and maximum of every
 * field (of `image` per channel), the number of records of each class, the mean image, and the data
 * for ZCA whitening (data/statistics.h describes the files). Rows are the finished rows of the
 * source, read by its prefetch threads.
 *
 * Sums are doubles in the order of the records, so a result depends only on the data. Thread rule:
 * one thread. */
#pragma once

#include "data/source.h"

struct sw_stats_range {
    double mean, std, least, most;
};

struct sw_stats_field {
    const char *name;            /* of the source */
    int64_t parts;               /* channels of an image, else 1 */
    struct sw_stats_range *part; /* owned */
};

struct sw_stats {
    int64_t records;
    int field_count;
    struct sw_stats_field field[SW_MAX_FIELDS];
    int64_t classes;
    int64_t *class_count; /* owned; [classes]; NULL without labels */
    int64_t shape[3];     /* of the mean image: channels, height, width */
    float *mean;          /* owned; NULL if there is no 3-d image */
};

/* Called after each batch; returns true to continue. NULL: not called. */
struct sw_stats_watch {
    bool (*progress)(void *user, int64_t done, int64_t records);
    void *user;
};

/* Measures a source opened for evaluation. Errors: those of the source, SW_ERR_NOMEM,
 * SW_ERR_CANCELLED after progress returned false or on a stop request (base/stop.h). *out must be
 * freed in any case. */
int sw_stats_measure(const struct sw_source *s, const struct sw_stats_watch *watch,
                     struct sw_stats *out, struct sw_err *err) SW_MUST_CHECK;
void sw_stats_fini(struct sw_stats *s);

/* Computes the mean of the rows of `image` [count] and (covariance + epsilon)^(-1/2) [count, count]
 * in new memory (free with sw_free). Two passes over the records. Errors: as above; SW_ERR_INVALID
 * without an image, or for rows of more than 16384 values. */
int sw_stats_whiten(const struct sw_source *s, double epsilon, const struct sw_stats_watch *watch,
                    float **mean, float **matrix, struct sw_err *err) SW_MUST_CHECK;

/* Writes a mean image as .npy, or mean image and whitening (each if not NULL) as .safetensors, with
 * the tensor names of data/statistics.h. Errors: SW_ERR_INVALID for another suffix, or whitening in
 * .npy; SW_ERR_IO, SW_ERR_NOMEM. */
struct sw_stats_file {
    int64_t mean_shape[3];
    const float *mean; /* NULL: none */
    int64_t row_shape[3];
    const float *whiten_mean, *whiten_matrix; /* NULL: none */
};
int sw_stats_check_name(const char *path, bool whitening, struct sw_err *err) SW_MUST_CHECK;
int sw_stats_write(const struct sw_stats_file *f, const char *path,
                   struct sw_err *err) SW_MUST_CHECK;
