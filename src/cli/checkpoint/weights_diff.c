/* weights FILE diff OTHER: compares two files tensor by tensor. Exit codes are those of diff(1), 0
 * without and 1 with differences; errors have the codes of every other verb. */
#include "base/json.h"
#include "cli/checkpoint/values.h"
#include "cli/checkpoint/weights_verb.h"
#include "cli/terminal/columns.h"
#include <string.h>

enum verdict { SAME, DIFFERS, SHAPE, ONLY_A, ONLY_B };
static const char *const words[] = {"same", "differs", "shape", "only in the first",
                                    "only in the second"};
static const char *const json_words[] = {"same", "differs", "shape", "only_a", "only_b"};

struct row {
    const char *name;
    enum verdict verdict;
    struct sw_value_diff diff;
};

struct comparison {
    const struct sw_weights_options *o;
    struct sw_bytes *out;
    struct sw_json_writer w;
    struct sw_columns table;
    int tensors, differing;
};

static bool same_shape(const struct sw_st_entry *a, const struct sw_st_entry *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

static void number_cell(struct sw_columns *t, bool known, double value)
{
    if (known)
        sw_columns_cell(t, "%.4g", value);
    else
        sw_columns_cell(t, "%s", "");
}

static void add_row(struct comparison *c, const struct row *r, const struct sw_st_entry *e)
{
    bool compared = r->verdict == SAME || r->verdict == DIFFERS;
    struct sw_bytes shape = {0};

    c->tensors++;
    c->differing += r->verdict != SAME;
    sw_entry_shape(e, &shape);

    if (c->o->common.json) {
        sw_json_open_object(&c->w, NULL);
        sw_json_string(&c->w, "name", r->name);
        sw_json_string(&c->w, "status", json_words[r->verdict]);
        sw_json_string(&c->w, "shape", sw_bytes_text(&shape));

        if (compared) {
            sw_json_real(&c->w, "max_abs", r->diff.max_abs);
            sw_json_real(&c->w, "max_rel", r->diff.max_rel);
            sw_json_int(&c->w, "differing", (int64_t)r->diff.differing);
            sw_json_int(&c->w, "values", (int64_t)r->diff.count);
        }

        sw_json_close_object(&c->w);
    } else if (r->verdict != SAME || c->o->common.verbose) {
        sw_columns_cell(&c->table, "%s", r->name);
        sw_columns_cell(&c->table, "%s", sw_bytes_text(&shape));
        number_cell(&c->table, compared, r->diff.max_abs);
        number_cell(&c->table, compared, r->diff.max_rel);

        if (compared)
            sw_columns_cell(&c->table, "%llu of %llu", (unsigned long long)r->diff.differing,
                            (unsigned long long)r->diff.count);
        else
            sw_columns_cell(&c->table, "%s", "");

        sw_columns_cell(&c->table, "%s", words[r->verdict]);
    }

    c->out->failed |= shape.failed;
    sw_bytes_fini(&shape);
}

static int compare(struct comparison *c, const struct sw_st_file *fa, const struct sw_st_entry *a,
                   const struct sw_st_file *fb, struct sw_err *err)
{
    const struct sw_st_entry *b = sw_st_find(fb, a->name);
    struct row r = {.name = a->name};
    int rc = SW_OK;

    if (!b) {
        r.verdict = ONLY_A;
    } else if (!same_shape(a, b)) {
        r.verdict = SHAPE;
    } else {
        rc = sw_value_diff(fa, a, fb, b, &r.diff, err);
        bool equal = r.diff.differing == 0 || r.diff.max_abs <= c->o->relative * r.diff.scale;
        r.verdict = equal ? SAME : DIFFERS;
    }

    if (rc == SW_OK)
        add_row(c, &r, a);
    return rc;
}

static void print_text(struct comparison *c, const struct sw_weights_file *a,
                       const struct sw_weights_file *b)
{
    sw_columns_print(&c->table, c->out);
    sw_bytes_printf(c->out, "%s%d of %d tensors differ: %s, %s\n", c->table.count > 6 ? "\n" : "",
                    c->differing, c->tensors, a->path, b->path);
}

int sw_weights_diff(const struct sw_weights_options *o, const struct sw_weights_file *a,
                    const struct sw_weights_file *b, struct sw_bytes *out)
{
    struct comparison c = {.o = o, .out = out};
    struct sw_err err;
    int rc = SW_OK;

    sw_columns_begin(&c.table, "tensor|shape|>max abs|>max rel|>elements|verdict");
    sw_json_begin(&c.w, out);

    if (o->common.json) {
        sw_json_open_object(&c.w, NULL);
        sw_json_string(&c.w, "a", a->path);
        sw_json_string(&c.w, "b", b->path);
        sw_json_open_array(&c.w, "tensors");
    }

    for (size_t i = 0; i < sw_st_count(a->f) && rc == SW_OK; i++)
        rc = compare(&c, a->f, sw_st_entry_at(a->f, i), b->f, &err);

    for (size_t i = 0; i < sw_st_count(b->f) && rc == SW_OK; i++) {
        const struct sw_st_entry *e = sw_st_entry_at(b->f, i);
        if (!sw_st_find(a->f, e->name))
            add_row(&c, &(struct row){.name = e->name, .verdict = ONLY_B}, e);
    }

    if (o->common.json) {
        sw_json_close_array(&c.w);
        sw_json_bool(&c.w, "equal", c.differing == 0);
        sw_cli_json_end(&c.w);
    } else if (!o->common.quiet) {
        print_text(&c, a, b);
    }

    sw_columns_fini(&c.table);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    int code = sw_cli_print(out);
    return code != SW_EXIT_DONE ? code : c.differing ? SW_EXIT_FAILED : SW_EXIT_DONE;
}
