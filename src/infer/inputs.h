/* Files that a trained net predicts, opened as a data source: images and folders of images, tables,
 * or arrays, all of one kind. They go through the format and transform code of training, with the
 * keys of the section on which the net is evaluated and the data spec of its checkpoint: images are
 * resized, cropped in the center, and scaled like those of that section. Arrays of floats are used
 * as they are; all other numbers are transformed. What input layers do (run/standardize.h) is done
 * to all of them, by the caller.
 *
 * One owner: the job's main thread. */
#pragma once

#include "data/source.h"

struct sw_job;

/* Zero-initialize; free with sw_inputs_close. */
struct sw_inputs {
    struct sw_source *source; /* owned; `unreadable` records are replaced by others */
    struct sw_data_conf conf;
    void *format_conf; /* owned */
    const char **path; /* owned; elements borrowed */
    int count;
    int64_t *begin; /* owned [count + 1]: first record of each file; NULL: images */
    double resize[2];
    char shape[64];
};

/* Opens the files, which the layer reads as its only field. report is called by any thread for
 * each image that cannot be read. Errors: SW_ERR_INVALID (the net reads something else; the message
 * says what), those of sw_source_open, SW_ERR_FORMAT for rows of another shape than the net reads.
 */
struct sw_inputs_args {
    const char *layer; /* NULL: it reads several fields, of which the files are one */
    bool arrays;       /* the files are arrays, whatever their names */
    const char *const *files;
    int count;
    void (*report)(void *user, const char *text);
    void *user;
};
int sw_inputs_open(struct sw_inputs *in, struct sw_job *job, const struct sw_inputs_args *args,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_inputs_close(struct sw_inputs *in);

/* Whether the record could not be read, once its row was fetched. */
bool sw_inputs_unreadable(const struct sw_inputs *in, int64_t record);
/* Appends the name of a record: its file, or "rows.csv[3]", counted from 0. */
void sw_inputs_name(const struct sw_inputs *in, int64_t record, struct sw_bytes *out);
