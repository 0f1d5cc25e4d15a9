/* Given figures: a table with a row per key, and the parser of lists. */
#include "planner/figures.h"
#include "base/str.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 64 /* of a key or value */ };

/* ---- Values: each reader returns whether the text is one of its kind ---- */

static bool read_gflops(const char *text, double *value)
{
    char number[TEXT_BYTES];
    const size_t length = strlen(text);
    const char unit = length > 1 ? text[length - 1] : '\0';
    const bool has_unit = unit == 'G' || unit == 'T';
    if (length >= sizeof number)
        return false;

    snprintf(number, sizeof number, "%.*s", (int)(length - has_unit), text);
    if (!sw_parse_real(number, value))
        return false;

    *value *= unit == 'T' ? 1e12 : 1e9;
    return true;
}

static bool read_rate(const char *text, double *value)
{
    int64_t rate;
    if (!sw_parse_rate(text, &rate))
        return false;

    *value = (double)rate;
    return true;
}

static bool read_bytes(const char *text, double *value)
{
    int64_t bytes;
    if (!sw_parse_bytes(text, &bytes))
        return false;

    *value = (double)bytes;
    return true;
}

static bool read_count(const char *text, double *value)
{
    int64_t count;
    if (!sw_parse_int(text, &count))
        return false;

    *value = (double)count;
    return true;
}

/* ---- The table ---- */

static const char given_by[] = "given by "; /* begins the source of a figure */

_Static_assert(SW_MODEL_DEVICES == 1024, "the limits of counts below");

/* What a figure needs to mean something. */
enum need { ANY_MACHINE, NETWORK, GPUS, DEVICES };

static const struct row {
    const char *key;
    enum need need;
    size_t offset;
    bool (*read)(const char *text, double *value);
    double least, most;
    const char *expects;
} rows[] = {
    {"gflops", ANY_MACHINE, offsetof(struct sw_given_figures, flops_per_s), read_gflops, 1e6, 1e16,
     "a number of Gflop/s from 0.001 to 1e7, such as 9000 or 9T"},
    {"memory-rate", ANY_MACHINE, offsetof(struct sw_given_figures, memory_bytes_per_s), read_rate,
     1e6, 1e14, "a rate from 1MB/s to 100TB/s, such as 20GB/s"},
    {"gpu-memory", GPUS, offsetof(struct sw_given_figures, gpu_memory_bytes), read_bytes, 0x1p16,
     0x1p50, "bytes from 64KiB to 1024TiB, such as 16GiB"},
    {"pcie", GPUS, offsetof(struct sw_given_figures, pcie_bytes_per_s), read_rate, 1e3, 1e13,
     "a rate from 1kB/s to 10TB/s, such as 12GB/s"},
    {"net", NETWORK, offsetof(struct sw_given_figures, net_bytes_per_s), read_rate, 1e3, 1.25e12,
     "a rate from 1kB/s to 10Tbit/s, such as 1Gbit or 100MB/s"},
    {"net-latency", NETWORK, offsetof(struct sw_given_figures, net_latency_s), sw_parse_seconds,
     1e-9, 10, "a time from 1ns to 10s, such as 50us"},
    {"hosts", ANY_MACHINE, offsetof(struct sw_given_figures, hosts), read_count, 1,
     SW_MODEL_DEVICES, "a whole number from 1 to 1024"},
    {"gpus", DEVICES, offsetof(struct sw_given_figures, gpus), read_count, 1, SW_MODEL_DEVICES,
     "a whole number from 1 to 1024"},
    {"gpus-per-host", DEVICES, offsetof(struct sw_given_figures, gpus_per_host), read_count, 1,
     SW_MODEL_DEVICES, "a whole number from 1 to 1024"},
    {"server-hosts", ANY_MACHINE, offsetof(struct sw_given_figures, server_hosts), read_count, 1,
     SW_MODEL_DEVICES, "a whole number from 1 to 1024"},
};
enum { ROWS = SW_GIVEN_FIGURES };
_Static_assert(sizeof rows / sizeof *rows == ROWS, "a place for every row");

const char *sw_given_key(int row)
{
    return row >= 0 && row < ROWS ? rows[row].key : NULL;
}

const char *sw_given_expects(int row)
{
    return row >= 0 && row < ROWS ? rows[row].expects : NULL;
}

static const struct row *find_row(const char *key, struct sw_err *err)
{
    const char *keys[ROWS];

    for (int i = 0; i < ROWS; i++) {
        keys[i] = rows[i].key;
        if (strcmp(key, keys[i]) == 0)
            return &rows[i];
    }

    const char *nearest = sw_str_nearest(key, keys, ROWS);
    if (nearest) {
        sw_err_set(err, SW_ERR_INVALID, "unknown key '%s'; did you mean '%s'?", key, nearest);
        return NULL;
    }

    struct sw_bytes known = {0};
    for (int i = 0; i < ROWS; i++)
        sw_bytes_printf(&known, "%s%s", i ? ", " : "", keys[i]);
    sw_err_set(err, SW_ERR_INVALID, "unknown key '%s'; known keys are %s", key,
               sw_bytes_text(&known));
    sw_bytes_fini(&known);
    return NULL;
}

static struct sw_figure *figure_of(struct sw_given_figures *g, const struct row *row)
{
    return (struct sw_figure *)((char *)g + row->offset);
}

/* `name` is how messages call the figure. */
static int set_row(struct sw_given_figures *g, const struct row *row, const char *name,
                   const char *text, const char *by, struct sw_err *err)
{
    struct sw_figure *figure = figure_of(g, row);
    double value;

    if (!row->read(text, &value) || !(value >= row->least && value <= row->most))
        return sw_err_set(err, SW_ERR_INVALID, "%s is '%.*s%s'; it must be %s", name,
                          TEXT_BYTES - 1, text, strlen(text) >= TEXT_BYTES ? "..." : "",
                          row->expects);

    figure->value = value;
    g->place[row - rows] = (struct sw_given_place){0};
    snprintf(figure->source, sizeof figure->source, "%s%s", given_by, by);
    return SW_OK;
}

int sw_given_set(struct sw_given_figures *g, const char *key, const char *text, const char *by,
                 struct sw_err *err)
{
    const struct row *row = find_row(key, err);
    return row ? set_row(g, row, by, text, by, err) : SW_ERR_INVALID;
}

/* ---- Lists ---- */

struct list {
    struct sw_given_figures figures;
    bool named[ROWS];
    const char *by;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Copies text [begin, end) without blanks at its ends; false: it is empty or too long. */
static bool copy_trimmed(char out[TEXT_BYTES], const char *begin, const char *end)
{
    while (begin < end && is_blank(*begin))
        begin++;
    while (end > begin && is_blank(end[-1]))
        end--;

    const size_t length = (size_t)(end - begin);
    if (length == 0 || length >= TEXT_BYTES)
        return false;

    memcpy(out, begin, length);
    out[length] = '\0';
    return true;
}

static int read_item(struct list *l, const char *begin, const char *end, struct sw_given_place at,
                     struct sw_err *err)
{
    char key[TEXT_BYTES], value[TEXT_BYTES];
    const char *equals = memchr(begin, '=', (size_t)(end - begin));

    if (!equals || !copy_trimmed(key, begin, equals) || !copy_trimmed(value, equals + 1, end))
        return sw_err_set(err, SW_ERR_INVALID,
                          "expected KEY=VALUE of at most %d characters each, such as net=10Gbit",
                          TEXT_BYTES - 1);

    const struct row *row = find_row(key, err);
    if (!row)
        return SW_ERR_INVALID;
    if (l->named[row - rows])
        return sw_err_set(err, SW_ERR_INVALID, "%s is given twice", key);

    l->named[row - rows] = true;
    const int rc = set_row(&l->figures, row, key, value, l->by, err);
    l->figures.place[row - rows] = at;
    return rc;
}

int sw_given_parse(struct sw_given_figures *g, const char *list, const char *by, struct sw_err *err)
{
    struct list l = {.figures = *g, .by = by};
    const char *line_start = list, *item = list;
    int line = 1;

    for (;;) {
        const char *end = item + strcspn(item, ",\n");
        const char *begin = item;
        while (begin < end && is_blank(*begin))
            begin++;

        /* Empty lines are allowed, and so is a comma at the end of a line. */
        const bool empty =
            begin == end && (*end == '\n' || (!*end && line > 1 && item == line_start));
        const struct sw_given_place at = {line, (int)(begin - line_start) + 1};
        const int rc = empty ? SW_OK : read_item(&l, begin, end, at, err);
        if (rc != SW_OK)
            return sw_err_prefix(err, rc, "%s, line %d, column %d", by, at.line, at.column);

        if (!*end)
            break;
        item = end + 1;
        if (*end == '\n') {
            line_start = item;
            line++;
        }
    }

    *g = l.figures;
    return SW_OK;
}

/* ---- Figures that would change nothing ---- */

/* Why a figure means nothing in this scope, after its name; NULL: it applies. */
static const char *idle_reason(enum need need, const struct sw_given_scope *scope, bool in_list)
{
    if (need == NETWORK && !scope->network)
        return in_list ? "needs hosts: one host has no network"
                       : "needs --hosts: one host has no network";
    if (need == GPUS && !scope->gpus)
        return in_list ? "needs gpus or gpus-per-host: the workers compute on cores"
                       : "needs --gpus or --gpus-per-host: the workers compute on cores";
    if (need == DEVICES && scope->cores_only)
        return "contradicts --device, which asks for workers on cores";
    return NULL;
}

int sw_given_check(const struct sw_given_figures *g, const struct sw_given_scope *scope,
                   struct sw_err *err)
{
    for (int i = 0; i < ROWS; i++) {
        const struct sw_given_place *at = &g->place[i];
        const struct sw_figure *f = (const struct sw_figure *)((const char *)g + rows[i].offset);
        const char *why = f->value > 0 ? idle_reason(rows[i].need, scope, at->line > 0) : NULL;

        if (!why)
            continue;

        const char *by = f->source + sizeof given_by - 1;
        if (at->line > 0)
            return sw_err_set(err, SW_ERR_INVALID, "%s, line %d, column %d: %s %s", by, at->line,
                              at->column, rows[i].key, why);
        return sw_err_set(err, SW_ERR_INVALID, "%s %s", by, why);
    }

    return SW_OK;
}

/* ---- Counts ---- */

int sw_given_counts(const struct sw_given_figures *g, int *hosts, int *gpus_per_host,
                    struct sw_err *err)
{
    const int given_hosts = (int)g->hosts.value, gpus = (int)g->gpus.value;
    const int each = given_hosts > 0 ? given_hosts : 1;
    int per_host = (int)g->gpus_per_host.value;

    if (gpus % each != 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d GPUs cannot be shared equally by %d hosts; give gpus-per-host", gpus,
                          each);
    if (given_hosts == 0 && gpus > 0 && per_host > 0 && gpus > per_host && gpus % per_host == 0)
        return sw_err_set(err, SW_ERR_INVALID, "gpus=%d and gpus-per-host=%d need hosts=%d", gpus,
                          per_host, gpus / per_host);
    if (gpus > 0 && per_host > 0 && gpus != each * per_host)
        return sw_err_set(err, SW_ERR_INVALID, "gpus=%d contradicts gpus-per-host=%d on %d host%s",
                          gpus, per_host, each, each == 1 ? "" : "s");
    if ((int64_t)each * per_host > SW_MODEL_DEVICES)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d hosts with %d GPUs each have %" PRId64
                          " GPUs; the planner knows at most %d",
                          each, per_host, (int64_t)each * per_host, SW_MODEL_DEVICES);

    *hosts = given_hosts;
    *gpus_per_host = gpus > 0 ? gpus / each : per_host;
    return SW_OK;
}
