/* Collects predictions and prints them. The contract is in cli/report/predictions.h. */
#include "cli/report/predictions.h"
#include "base/json.h"
#include "base/os.h"
#include "cli/cli.h"
#include "data/vocabulary.h"
#include <stdio.h>
#include <string.h>

enum { VALUES_SHOWN = 8 };

void sw_predictions_fini(struct sw_predictions *p)
{
    sw_columns_fini(&p->table);
    sw_bytes_fini(&p->lines);
    sw_free(p->row);
    sw_free(p->order);
    *p = (struct sw_predictions){0};
}

/* A single probability is that of the second of two classes. */
static bool is_pair(const struct sw_predict_info *info, int64_t count)
{
    return count == 1 && info->scores == SW_SCORES_SIGMOID;
}

static int prepare(struct sw_predictions *p, int64_t count, struct sw_err *err)
{
    const bool pair = p->info.classes && is_pair(&p->info, count);

    p->count = count;
    p->width = pair ? 2 : count;
    p->row = sw_calloc((size_t)p->width + 1, sizeof *p->row);
    p->order = sw_calloc((size_t)p->width + 1, sizeof *p->order);
    if (!p->row || !p->order)
        return sw_err_nomem(err, "a prediction", (size_t)p->width * sizeof *p->row);

    sw_columns_begin(&p->table, !p->info.classes                     ? "input|values"
                                : p->info.scores == SW_SCORES_MARGIN ? "input|class|>score|next"
                                                                     : "input|class|>probability|"
                                                                       "next");
    return SW_OK;
}

int sw_predictions_begin(struct sw_predictions *p, const struct sw_predict_info *info,
                         struct sw_err *err)
{
    int64_t count = 1;

    p->info = *info;
    if (info->rows != info->files->source->records)
        return sw_err_set(err, SW_ERR_INVALID,
                          "layer %s has %lld rows for %lld inputs: write them with --output Y.npy",
                          info->layer, (long long)info->rows,
                          (long long)info->files->source->records);

    for (int i = 0; i < info->ndim; i++)
        count *= info->dim[i];
    return prepare(p, count, err);
}

/* ---- one input ---- */

/* The best classes come first in p->order; equal ones in the order of their numbers. */
static int64_t rank(struct sw_predictions *p)
{
    const int64_t most = p->top < p->width ? p->top : p->width;

    for (int64_t i = 0; i < p->width; i++)
        p->order[i] = (int)i;

    for (int64_t k = 0; k < most; k++) {
        int64_t best = k;

        for (int64_t i = k + 1; i < p->width; i++) {
            const float x = p->row[p->order[i]], y = p->row[p->order[best]];
            if (x > y || (x == y && p->order[i] < p->order[best]))
                best = i;
        }

        const int swap = p->order[k];
        p->order[k] = p->order[best];
        p->order[best] = swap;
    }

    return most;
}

static const char *class_name(const struct sw_lexicon *names, int number, char text[24])
{
    if (number < names->count)
        return sw_lexicon_word(names, number, NULL);
    snprintf(text, 24, "%d", number);
    return text;
}

static void add_json(struct sw_predictions *p, const char *input, const struct sw_lexicon *names)
{
    const int64_t most = p->info.classes ? rank(p) : 0;
    const bool margin = p->info.scores == SW_SCORES_MARGIN;
    struct sw_json_writer j;
    char text[24];

    sw_cli_json_begin(&j, &p->lines);
    sw_json_string(&j, "input", input);
    sw_json_open_array(&j, p->info.classes ? "top" : "values");

    for (int64_t i = 0; !p->info.classes && i < p->width; i++)
        sw_json_real(&j, NULL, (double)p->row[i]);

    for (int64_t k = 0; k < most; k++) {
        sw_json_open_object(&j, NULL);
        sw_json_string(&j, "class", class_name(names, p->order[k], text));
        sw_json_real(&j, margin ? "score" : "probability", (double)p->row[p->order[k]]);
        sw_json_close_object(&j);
    }

    sw_json_close_array(&j);
    sw_cli_json_end(&j);
}

static void add_values(struct sw_predictions *p)
{
    struct sw_bytes text = {0};

    for (int64_t i = 0; i < p->width && i < VALUES_SHOWN; i++)
        sw_bytes_printf(&text, "%s%.6g", i ? " " : "", (double)p->row[i]);
    if (p->width > VALUES_SHOWN)
        sw_bytes_printf(&text, " ... (%lld values)", (long long)p->width);

    sw_columns_cell(&p->table, "%s", sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

static void add_classes(struct sw_predictions *p, const struct sw_lexicon *names)
{
    const int64_t most = rank(p);
    struct sw_bytes next = {0};
    char text[24];

    for (int64_t k = 1; k < most; k++)
        sw_bytes_printf(&next, "%s%s %.3f", k > 1 ? ", " : "", class_name(names, p->order[k], text),
                        (double)p->row[p->order[k]]);

    sw_columns_cell(&p->table, "%s", class_name(names, p->order[0], text));
    sw_columns_cell(&p->table, "%.3f", (double)p->row[p->order[0]]);
    sw_columns_cell(&p->table, "%s", sw_bytes_text(&next));
    sw_bytes_fini(&next);
}

/* p->row holds the scores. */
static void add_prediction(struct sw_predictions *p, const char *input,
                           const struct sw_lexicon *names)
{
    sw_predict_probabilities(p->info.scores, p->row, p->count);
    if (p->width > p->count) {
        p->row[1] = p->row[0];
        p->row[0] = 1 - p->row[1];
    }

    if (p->json) {
        add_json(p, input, names);
        return;
    }

    sw_columns_cell(&p->table, "%s", input);
    if (p->info.classes)
        add_classes(p, names);
    else
        add_values(p);
}

void sw_predictions_rows(struct sw_predictions *p, int64_t count, const float *values)
{
    const int64_t width = p->count;

    for (int64_t i = 0; i < count; i++) {
        const int64_t record = p->rows++;
        struct sw_bytes name = {0};
        if (sw_inputs_unreadable(p->info.files, record)) {
            p->unreadable++;
            continue;
        }

        memcpy(p->row, values + i * width, (size_t)width * sizeof *p->row);
        sw_inputs_name(p->info.files, record, &name);
        add_prediction(p, sw_bytes_text(&name), p->info.class_names);
        sw_bytes_fini(&name);
    }
}

int sw_predictions_next(void *predictions, const char *text, const float *scores, int64_t count,
                        const struct sw_vocabulary *vocabulary, struct sw_err *err)
{
    struct sw_predictions *p = predictions;

    if (!p->row) {
        p->info = (struct sw_predict_info){.scores = SW_SCORES_SOFTMAX, .classes = true};
        int rc = prepare(p, count, err);
        if (rc != SW_OK)
            return rc;
    }

    memcpy(p->row, scores, (size_t)count * sizeof *scores);
    add_prediction(p, text, &vocabulary->tokens);
    return SW_OK;
}

void sw_predictions_print(const struct sw_predictions *p, struct sw_bytes *out)
{
    sw_bytes_append(out, sw_bytes_text(&p->lines), p->lines.length);
    if (!p->json)
        sw_columns_print(&p->table, out);
    out->failed |= p->lines.failed || p->table.failed;
}
