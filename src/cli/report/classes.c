/* Prints the reports of an evaluation as text and as JSON. */
#include "cli/report/classes.h"
#include "base/os.h"
#include "cli/terminal/columns.h"
#include <stdio.h>

/* Up to MATRIX classes the whole matrix fits a terminal; more have a list of confusions. */
enum { MATRIX = 12, CONFUSIONS = 15, MOST_VALUES = 3 /* of a row, in a table */ };

/* ---- Text -------------------------------------------------------------------------------------
 */

static void score_cells(struct sw_columns *t, const char *name, const struct sw_class_score *s)
{
    sw_columns_cell(t, "%s", name);
    sw_columns_cell(t, "%lld", (long long)s->count);
    sw_columns_cell(t, "%.4f", s->precision);
    sw_columns_cell(t, "%.4f", s->recall);
    sw_columns_cell(t, "%.4f", s->f1);
}

static void print_scores(struct sw_bytes *out, const struct sw_class_report *r)
{
    struct sw_columns t = {0};
    char text[24];

    sw_columns_begin(&t, "class|>count|>precision|>recall|>f1");
    for (int64_t c = 0; c < r->classes; c++) {
        const struct sw_class_score s = sw_class_report_score(r, c);
        score_cells(&t, sw_class_report_name(r, c, text), &s);
    }

    const struct sw_class_score macro = sw_class_report_macro(r), micro = sw_class_report_micro(r);
    score_cells(&t, r->sets ? "macro average" : "mean over classes", &macro);

    if (r->sets) {
        score_cells(&t, "micro average", &micro);
    } else {
        sw_columns_cell(&t, "accuracy");
        sw_columns_cell(&t, "%lld", (long long)macro.count);
        sw_columns_cell(&t, "%s", "");
        sw_columns_cell(&t, "%s", "");
        sw_columns_cell(&t, "%.4f", sw_class_report_accuracy(r));
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_matrix(struct sw_bytes *out, const struct sw_class_report *r)
{
    struct sw_columns t = {0};
    char text[24];

    sw_columns_add(&t, "true \\ predicted");
    for (int64_t c = 0; c < r->classes; c++) {
        char *title = sw_format(">%s", sw_class_report_name(r, c, text));
        sw_columns_add(&t, title ? title : ">");
        sw_free(title);
    }

    for (int64_t i = 0; i < r->classes; i++) {
        sw_columns_cell(&t, "%s", sw_class_report_name(r, i, text));
        for (int64_t c = 0; c < r->classes; c++)
            sw_columns_cell(&t, "%lld", (long long)r->counts[i * r->classes + c]);
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_confused(struct sw_bytes *out, const struct sw_class_report *r)
{
    struct sw_confused pair[CONFUSIONS];
    const int count = sw_class_report_confused(r, pair, CONFUSIONS);
    struct sw_columns t = {0};
    char text[24];

    sw_columns_begin(&t, "most confused: true|predicted|>count|>of the class");
    for (int i = 0; i < count; i++) {
        const struct sw_class_score s = sw_class_report_score(r, pair[i].label);

        sw_columns_cell(&t, "%s", sw_class_report_name(r, pair[i].label, text));
        sw_columns_cell(&t, "%s", sw_class_report_name(r, pair[i].predicted, text));
        sw_columns_cell(&t, "%lld", (long long)pair[i].count);
        sw_columns_cell(&t, "%.1f %%", 100 * (double)pair[i].count / (double)s.count);
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

void sw_print_classes(struct sw_bytes *out, const struct sw_class_report *r)
{
    sw_bytes_add(out, "\n");
    print_scores(out, r);
    if (r->ignored)
        sw_bytes_printf(out, "not counted: %lld labels that layer %s ignores\n",
                        (long long)r->ignored, r->layer);

    sw_bytes_add(out, "\n");
    if (r->sets)
        sw_bytes_printf(out,
                        "%lld records; no confusion matrix, because a record can have several "
                        "labels\n",
                        (long long)r->rows);
    else if (r->classes <= MATRIX)
        print_matrix(out, r);
    else
        print_confused(out, r);
}

void sw_print_worst(struct sw_bytes *out, const struct sw_class_report *r)
{
    struct sw_columns t = {0};
    char text[24];

    sw_columns_begin(&t, ">worst record|>loss|true|>probability|predicted|>probability|file");
    for (int i = 0; i < r->worst_count; i++) {
        const struct sw_class_sample *w = &r->worst[i];

        sw_columns_cell(&t, "%lld", (long long)w->record);
        sw_columns_cell(&t, "%.4f", w->loss);
        sw_columns_cell(&t, "%s", sw_class_report_name(r, w->label, text));
        sw_columns_cell(&t, "%.4f", w->of_label);
        sw_columns_cell(&t, "%s", sw_class_report_name(r, w->predicted, text));
        sw_columns_cell(&t, "%.4f", w->of_predicted);
        sw_columns_cell(&t, "%s", w->where);
    }

    sw_bytes_add(out, "\n");
    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

void sw_print_worst_values(struct sw_bytes *out, const struct sw_value_report *r)
{
    const int64_t n = r->columns <= MOST_VALUES ? r->columns : 0; /* more do not fit */
    struct sw_columns t = {0};

    sw_columns_begin(&t, ">worst record|>error");
    for (int64_t c = 0; c < n; c++) {
        char title[2][40], number[24] = "";

        if (n > 1)
            snprintf(number, sizeof number, " %lld", (long long)c + 1);
        snprintf(title[0], sizeof title[0], ">target%s", number);
        snprintf(title[1], sizeof title[1], ">prediction%s", number);
        sw_columns_add(&t, title[0]);
        sw_columns_add(&t, title[1]);
    }
    sw_columns_add(&t, "file");

    for (int i = 0; i < r->worst_count; i++) {
        const struct sw_value_sample *s = &r->worst[i];

        sw_columns_cell(&t, "%lld", (long long)s->record);
        sw_columns_cell(&t, "%.6g", s->error);
        for (int64_t c = 0; c < n; c++) {
            sw_columns_cell(&t, "%.6g", (double)s->values[c]);
            sw_columns_cell(&t, "%.6g", (double)s->values[n + c]);
        }
        sw_columns_cell(&t, "%s", s->where);
    }

    sw_bytes_add(out, "\n");
    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void json_score(struct sw_json_writer *w, const struct sw_class_score *s)
{
    sw_json_int(w, "count", s->count);
    sw_json_int(w, "predicted", s->predicted);
    sw_json_int(w, "correct", s->right);
    sw_json_real(w, "precision", s->precision);
    sw_json_real(w, "recall", s->recall);
    sw_json_real(w, "f1", s->f1);
}

static void json_matrix(struct sw_json_writer *w, const struct sw_class_report *r)
{
    sw_json_open_array(w, "confusion");
    for (int64_t i = 0; i < r->classes; i++) {
        sw_json_open_array(w, NULL);
        for (int64_t c = 0; c < r->classes; c++)
            sw_json_int(w, NULL, r->counts[i * r->classes + c]);
        sw_json_close_array(w);
    }
    sw_json_close_array(w);
}

void sw_json_classes(struct sw_json_writer *w, const struct sw_class_report *r)
{
    const struct sw_class_score macro = sw_class_report_macro(r), micro = sw_class_report_micro(r);
    char text[24];

    sw_json_open_object(w, "report");
    sw_json_string(w, "layer", r->layer);
    if (!r->sets)
        sw_json_real(w, "accuracy", sw_class_report_accuracy(r));
    sw_json_int(w, "ignored", r->ignored);

    sw_json_open_object(w, "macro");
    json_score(w, &macro);
    sw_json_close_object(w);

    if (r->sets) {
        sw_json_open_object(w, "micro");
        json_score(w, &micro);
        sw_json_close_object(w);
    }

    sw_json_open_array(w, "classes");
    for (int64_t c = 0; c < r->classes; c++) {
        const struct sw_class_score s = sw_class_report_score(r, c);

        sw_json_open_object(w, NULL);
        sw_json_string(w, "class", sw_class_report_name(r, c, text));
        json_score(w, &s);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);

    if (!r->sets)
        json_matrix(w, r);
    sw_json_close_object(w);
}

void sw_json_worst(struct sw_json_writer *w, const struct sw_class_report *r)
{
    char text[24];

    sw_json_open_array(w, "worst");
    for (int i = 0; i < r->worst_count; i++) {
        const struct sw_class_sample *s = &r->worst[i];

        sw_json_open_object(w, NULL);
        sw_json_int(w, "record", s->record);
        sw_json_real(w, "loss", s->loss);
        sw_json_string(w, "true", sw_class_report_name(r, s->label, text));
        sw_json_real(w, "true_probability", s->of_label);
        sw_json_string(w, "predicted", sw_class_report_name(r, s->predicted, text));
        sw_json_real(w, "probability", s->of_predicted);
        sw_json_string(w, "file", *s->where ? s->where : NULL);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);
}

static void json_values(struct sw_json_writer *w, const char *name, const float *value,
                        int64_t count)
{
    if (count == 1) {
        sw_json_real(w, name, (double)*value);
        return;
    }

    sw_json_open_array(w, name);
    for (int64_t c = 0; c < count; c++)
        sw_json_real(w, NULL, (double)value[c]);
    sw_json_close_array(w);
}

void sw_json_worst_values(struct sw_json_writer *w, const struct sw_value_report *r)
{
    sw_json_open_array(w, "worst");
    for (int i = 0; i < r->worst_count; i++) {
        const struct sw_value_sample *s = &r->worst[i];

        sw_json_open_object(w, NULL);
        sw_json_int(w, "record", s->record);
        sw_json_real(w, "error", s->error);
        json_values(w, "target", s->values, r->columns);
        json_values(w, "prediction", s->values + r->columns, r->columns);
        sw_json_string(w, "file", *s->where ? s->where : NULL);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);
}
