/* How a net classifies the records of a split, class by class: the confusion matrix, precision,
 * recall and F1 of each class, and the records with the highest loss. Where a record has a set of
 * labels, each label is counted by itself, and there is no matrix. sw_job_evaluate_with fills it;
 * the functions below compute with its counts.
 *
 * One owner: the job's main thread. */
#pragma once

#include "base/str.h"
#include "layers/layer.h"

struct sw_source;

enum { SW_REPORT_CLASSES = 2000 };

/* The scores of one class, or of all. 0 / 0 is 0, as in precision_recall. */
struct sw_class_score {
    int64_t count, predicted, right; /* records of the class, predicted to be, and both */
    double precision, recall, f1;
};

/* A record with a high loss. */
struct sw_class_sample {
    int64_t record; /* of the data set, or sample of the section before that is known */
    int32_t label, predicted;
    double loss; /* -log of the probability of the label; infinite if a score is NaN */
    double of_label, of_predicted; /* probabilities */
    char *where;                   /* owned: the file, or what the format says; "": nothing */
};

/* Zero-initialize with worst_most set; free with sw_class_report_fini. */
struct sw_class_report {
    const char *layer; /* that compares scores with labels; borrowed from the net */
    int64_t classes;
    bool sets;       /* a record has any number of labels: those with a score above 0 */
    bool binary;     /* the only score is that of class 1 of 2, before a sigmoid */
    bool integers;   /* of a sigmoid's targets */
    int64_t *counts; /* owned [classes][classes]: of records, by true and predicted class */
    struct sw_class_score *of_set; /* owned [classes], in place of counts: only numbers */
    int64_t rows, ignored;         /* rows so far, and those of them whose label is ignored */
    int worst_most, worst_count;   /* how many are wanted and were found */
    struct sw_class_sample *worst; /* owned [worst_most], the highest loss first */
    char **names;                  /* owned [classes]: of classes; NULL: numbers */
    bool with_pictures;            /* wanted: the images of the worst records, */
    float *pictures;               /* owned [worst_count][C, H, W]; NULL: the data have no images */
    int64_t picture[3];            /* C, H, W */
    struct sw_layer_labels labels; /* what the layer reads */
    bool probabilities; /* scores are probabilities, not what a softmax makes them from */
};

struct sw_net;
/* The layer of an evaluation net that compares scores with labels: the last softmax_loss that reads
 * labels, else the last sigmoid_cross_entropy that does, else the last accuracy or perplexity of
 * scores or of a softmax; -1: none. */
int sw_class_report_layer(const struct sw_net *net);
/* Errors: SW_ERR_INVALID without such a layer, for too many classes, or for the worst records of
 * label sets; SW_ERR_NOMEM. */
int sw_class_report_begin(struct sw_class_report *r, const struct sw_net *net, int *layer,
                          struct sw_err *err) SW_MUST_CHECK;
/* Adds rows of the layer's sources, as an output layer gets them. */
void sw_class_report_add(struct sw_class_report *r, const void *const *src, int64_t count);
/* Adds rows of plain scores [count, classes] with one label each. */
void sw_class_report_rows(struct sw_class_report *r, const float *scores, const int32_t *label,
                          int64_t count);
/* Fetches names, places and images from the source of the split. Errors: those of the source,
 * SW_ERR_NOMEM. */
int sw_class_report_finish(struct sw_class_report *r, const struct sw_source *source,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_class_report_fini(struct sw_class_report *r);

struct sw_class_score sw_class_report_score(const struct sw_class_report *r, int64_t c);
/* The mean over the classes that occur as label or prediction; and the scores of the sums. */
struct sw_class_score sw_class_report_macro(const struct sw_class_report *r);
struct sw_class_score sw_class_report_micro(const struct sw_class_report *r);
/* The fraction of all records whose class is predicted; NaN without records. */
double sw_class_report_accuracy(const struct sw_class_report *r);

/* A cell beside the diagonal of the matrix. */
struct sw_confused {
    int32_t label, predicted;
    int64_t count;
};
/* Sets out to the most frequent ones, at most `most`, and returns their number. Ties: by class. */
int sw_class_report_confused(const struct sw_class_report *r, struct sw_confused *out, int most);

/* The name of a class, or its number in text. */
const char *sw_class_report_name(const struct sw_class_report *r, int64_t c, char text[24]);
