/* A model of codes: the encoders that a method fitted, and a file of them, which is an index file
 * (search/index_file.h) of a kind of its own: verified like an index, and written whole or not at
 * all. An open model is frozen; any thread may encode with it.
 *
 * In the header dims is that of the first view and parts that of the second (0: there is none), and
 * count is the number of rows that were learned from. */
#pragma once

#include "search/code_method.h"
#include "search/index_file.h"

struct sw_code_model {
    const struct sw_code_method *method;
    int bits, views;
    int64_t rows;                          /* that were learned from */
    struct sw_encoder view[SW_CODE_VIEWS]; /* in the file's mapping, or owned */
    struct sw_index_file file;             /* path NULL: it was fitted here */
};

/* Fits a model. Errors: those of sw_code_method_fit. */
int sw_code_model_fit(struct sw_code_model *m, const struct sw_code_method *method,
                      const struct sw_code_fit *f, struct sw_err *err) SW_MUST_CHECK;
/* Writes PATH. Errors: those of sw_index_file_write. */
int sw_code_model_write(const struct sw_code_model *m, const char *path,
                        struct sw_err *err) SW_MUST_CHECK;

/* Opens a file and checks all it says. Errors: those of sw_index_file_open, SW_ERR_FORMAT saying
 * what was expected, SW_ERR_UNSUPPORTED (method). */
int sw_code_model_open(struct sw_code_model *m, const char *path, struct sw_err *err) SW_MUST_CHECK;
/* The same for the bytes of a file in memory (sw_index_file_parse). */
int sw_code_model_parse(struct sw_code_model *m, const char *name, const void *bytes,
                        uint64_t count, struct sw_err *err) SW_MUST_CHECK;
void sw_code_model_close(struct sw_code_model *m); /* a zeroed struct is accepted */

/* The encoder of view 0 or 1; that of a model of one view is the same for both. */
static inline const struct sw_encoder *sw_code_model_view(const struct sw_code_model *m, int view)
{
    return &m->view[m->views == 1 ? 0 : view];
}
