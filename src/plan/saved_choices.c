/* Reads the choices of a checkpoint: JSON, or the lines of older ones, which become JSON first. */
#include "plan/saved_choices.h"

#include "base/os.h"
#include "tensor/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1024 };

/* ---- Lines of text ---- */

enum kind { NUMBER, ROWS, COMM, TUNE, ALGORITHM };

struct line {
    enum kind kind;
    char text[LINE]; /* cut into words at their ends */
    char *first, *second;
};

static enum kind kind_of(struct line *l)
{
    static const char *const numbers[][2] = {{"virtual workers ", "microbatches"},
                                             {"workers ", "workers"},
                                             {"threads ", "threads"},
                                             {"groups ", "worker_groups"}};
    char *text = l->text, *at;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t value;
        size_t n = strlen(numbers[i][0]);

        l->first = (char *)numbers[i][1];
        l->second = text + n;
        if (sw_str_starts(text, numbers[i][0]) && sw_parse_int(l->second, &value))
            return NUMBER;
    }

    l->first = text + strlen("rows ");
    if (sw_str_starts(text, "rows ") && strspn(l->first, "0123456789 ") == strlen(l->first))
        return ROWS;
    l->first = text + strlen("tune ");
    if (sw_str_starts(text, "tune ") && (at = strstr(l->first, " = "))) {
        *at = '\0';
        l->second = at + strlen(" = ");
        return TUNE;
    }
    l->first = text + strlen("comm ");
    if (sw_str_starts(text, "comm ") && (at = strchr(l->first, ' '))) {
        *at = '\0';
        l->second = at + 1;
        return COMM;
    }

    l->first = text;
    at = strchr(text, ' ');
    l->second = at ? at + 1 : text + strlen(text);
    if (at)
        *at = '\0';

    return ALGORITHM;
}

/* The line at *text, which moves behind it; false behind the last one. */
static bool next_line(const char **text, struct line *l)
{
    size_t n = strcspn(*text, "\n");
    if (!**text)
        return false;

    snprintf(l->text, sizeof l->text, "%.*s", n < LINE ? (int)n : LINE - 1, *text);
    *text += n + ((*text)[n] == '\n');
    l->kind = kind_of(l);

    return true;
}

static void add_rows(struct sw_json_writer *w, const char *text)
{
    long long value;

    int n;
    sw_json_open_array(w, "rows");
    for (; sscanf(text, "%lld%n", &value, &n) == 1; text += n)
        sw_json_int(w, NULL, value);
    sw_json_close_array(w);
}

static void add_list(struct sw_json_writer *w, const char *text, enum kind kind,
                     const char *const names[3])
{
    struct line l;

    sw_json_open_array(w, names[0]);

    while (next_line(&text, &l)) {
        if (l.kind != kind)
            continue;

        sw_json_open_object(w, NULL);
        sw_json_string(w, names[1], l.first);
        sw_json_string(w, names[2], l.second);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

static void convert(const char *text, struct sw_bytes *out)
{
    struct sw_json_writer w;
    struct line l;

    sw_json_begin(&w, out);
    sw_json_open_object(&w, NULL);
    sw_json_int(&w, "version", SW_SAVED_CHOICES_VERSION);

    for (const char *at = text; next_line(&at, &l);) {
        if (l.kind == NUMBER)
            sw_json_int(&w, l.first, strtoll(l.second, NULL, 10));
        if (l.kind == ROWS)
            add_rows(&w, l.first);
    }

    add_list(&w, text, COMM, (const char *const[]){"exchange", "layer", "mode"});
    add_list(&w, text, TUNE, (const char *const[]){"tune", "key", "way"});
    add_list(&w, text, ALGORITHM, (const char *const[]){"algorithms", "layer", "algorithm"});
    sw_json_close_object(&w);
}

/* ---- JSON ---- */

static int check_version(const struct sw_json *kept, struct sw_err *err)
{
    const struct sw_json *v = sw_json_get(kept, "version");
    uint64_t version;
    if (!v || !sw_json_as_size(v, &version) || version < 1)
        return sw_err_set(err, SW_ERR_FORMAT, "choices: version is missing");

    if (version > SW_SAVED_CHOICES_VERSION)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "choices: version %llu was written by a newer version of the program, "
                          "this one reads version %d",
                          (unsigned long long)version, SW_SAVED_CHOICES_VERSION);

    return SW_OK;
}

int sw_saved_choices_parse(const char *text, struct sw_json **out, struct sw_err *err)
{
    struct sw_bytes converted = {0};
    struct sw_json *kept = NULL;

    if (text[0] != '{') {
        convert(text, &converted);
        text = sw_bytes_text(&converted);
    }

    int rc = converted.failed ? sw_err_nomem(err, "choices of a checkpoint", 0)
                              : sw_json_parse(text, strlen(text), &kept, err);
    sw_bytes_fini(&converted);
    if (rc == SW_OK)
        rc = check_version(kept, err);
    if (rc != SW_OK) {
        sw_json_free(kept);
        return rc;
    }

    *out = kept;
    return SW_OK;
}

int sw_saved_choices_read(const char *path, struct sw_json **out, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    struct sw_err ignored;

    *out = NULL;
    if (!path || sw_st_open(path, false, &f, &ignored) != SW_OK)
        return SW_OK;

    const char *text = sw_st_metadata(f, "choices");
    int rc = text ? sw_saved_choices_parse(text, out, err) : SW_OK;
    sw_st_close(f);

    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "%s", path);
}

bool sw_saved_choices_rows(const struct sw_json *kept, int count, int64_t sum, int64_t *rows)
{
    const struct sw_json *list = sw_json_get(kept, "rows");
    const struct sw_json *row = list && list->type == SW_JSON_ARRAY ? list->first : NULL;

    for (int i = 0; i < count; i++, row = row->next) {
        uint64_t value;
        if (!row || !sw_json_as_size(row, &value) || value < 1 || value > (uint64_t)sum)
            return false;

        rows[i] = (int64_t)value;
        sum -= rows[i];
    }

    return !row && sum == 0;
}

enum sw_exchange_mode sw_saved_choices_exchange_mode(const struct sw_json *kept, const char *layer)
{
    const struct sw_json *list = sw_json_get(kept, "exchange");

    for (const struct sw_json *e = list ? list->first : NULL; e; e = e->next) {
        const struct sw_json *name = sw_json_get(e, "layer"), *mode = sw_json_get(e, "mode");
        if (!name || !mode || !sw_str_eq(name->string, layer))
            continue;

        for (int mode_index = 0; mode_index < SW_EXCHANGE_MODES; mode_index++)
            if (sw_str_eq(mode->string, sw_exchange_mode_names[mode_index]))
                return (enum sw_exchange_mode)mode_index;
    }

    return SW_EXCHANGE_AUTO;
}
