/* The predictions of `predict RUN FILE...`: for each input its best classes with probabilities, or
 * its values, as a table or as one JSON object per line. One owner. */
#pragma once

#include "cli/terminal/columns.h"
#include "infer/predict.h"

struct sw_vocabulary;

/* Set json and top; free with sw_predictions_fini. */
struct sw_predictions {
    bool json;
    int64_t top;
    struct sw_predict_info info;
    struct sw_columns table;
    struct sw_bytes lines;    /* of JSON */
    float *row;               /* owned [width] */
    int *order;               /* owned [width] */
    int64_t count, width;     /* values of a row, and of a prediction */
    int64_t rows, unreadable; /* so far */
};

/* Rows of files, in their order. Errors: SW_ERR_INVALID if a file has several rows, SW_ERR_NOMEM.
 */
int sw_predictions_begin(struct sw_predictions *p, const struct sw_predict_info *info,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_predictions_rows(struct sw_predictions *p, int64_t count, const float *values);
/* The token after a text; a sw_next_sink for a struct sw_predictions. */
int sw_predictions_next(void *predictions, const char *text, const float *scores, int64_t count,
                        const struct sw_vocabulary *vocabulary, struct sw_err *err);
/* Appends what is printed. */
void sw_predictions_print(const struct sw_predictions *p, struct sw_bytes *out);
void sw_predictions_fini(struct sw_predictions *p);
