/* singa-ws data inspect: shows what a data source contains: fields, shapes, counts, and single
 * records. */
#include "base/json.h"
#include "base/stop.h"
#include "cli/data/input.h"
#include "data/picture.h"

static const char verb[] = "data inspect";

enum { FIRST_RECORDS = 3, FEW_VALUES = 8, BAD_SHOWN = 10 };

struct options {
    struct sw_data_options data;
    int64_t record; /* -1: the first ones */
    bool verify;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_INT_OPTION(struct options, record, "record", "N", 0,
                      "show record N (from 0) with all its values"),
    SW_CLI_FLAG_OPTION(struct options, verify, "verify",
                       "read all records, verify checksums and labels, decode images"),
    SW_DATA_OPTIONS,
    {0},
};

/* The data source, and the buffers for one record. */
struct view {
    const struct options *o;
    struct sw_records r;
    struct sw_subset subset;
    struct sw_room scratch, pixels;
    struct sw_decoder *decoder;
    struct sw_bytes out;
    struct sw_json_writer json;
    int64_t bad;
    uint64_t bytes; /* of the records read by --verify */
};

/* One field of one record. */
struct value {
    const struct sw_field *field;
    bool is_picture;
    const void *data;
    size_t bytes;
    struct sw_picture_head head; /* of a picture */
};

static bool is_picture(const struct view *v, int f)
{
    return v->r.has_pictures && f == v->r.picture_field;
}

static int fetch_elements(struct view *v, int64_t record, int f, struct value *out,
                          struct sw_err *err)
{
    out->bytes = sw_field_bytes(out->field);

    int rc = sw_room_need(&v->scratch, out->bytes, "a raw record", err);
    if (rc)
        return rc;

    return v->r.format->fetch(&v->r, record, f, v->scratch.memory, &out->data, err);
}

static int fetch_image(struct view *v, int64_t record, bool decode, struct value *out,
                       struct sw_err *err)
{
    struct sw_picture p, decoded;

    int rc = v->r.format->fetch_picture(&v->r, record, &v->scratch, &p, err);
    if (rc)
        return rc;
    rc = sw_decoder_open(v->decoder, &p, &out->head, err);
    if (rc)
        return rc;

    if (decode)
        rc = sw_picture_decode(v->decoder, &p, 0, &v->pixels, &decoded, err);
    if (rc)
        return rc;

    out->data = p.data;
    out->bytes = p.bytes;
    return SW_OK;
}

/* Reads a field of a record; errors begin with the place of the record. */
static int fetch(struct view *v, int64_t record, int f, bool decode, struct value *out,
                 struct sw_err *err)
{
    const struct sw_records *r = &v->r;
    int rc;

    *out = (struct value){.field = &r->field[f], .is_picture = is_picture(v, f)};
    rc = out->is_picture ? fetch_image(v, record, decode, out, err)
                         : fetch_elements(v, record, f, out, err);
    if (!rc)
        rc = sw_records_check(r, err);
    if (!rc)
        return SW_OK;

    struct sw_bytes place = {0};
    sw_records_locate(r, record, &place);
    rc = sw_err_prefix(err, rc, "%s", sw_bytes_text(&place));
    sw_bytes_fini(&place);

    return rc;
}

/* ---- Values -----------------------------------------------------------------------------------
 */

static double number(const struct value *x, int64_t i)
{
    switch (x->field->dtype) {
    case SW_F32:
        return (double)((const float *)x->data)[i];
    case SW_I32:
        return ((const int32_t *)x->data)[i];
    case SW_U8:
        return ((const uint8_t *)x->data)[i];
    case SW_BF16:
    case SW_F16:
        break; /* no field has them */
    }

    return 0;
}

static void add_shape(struct sw_bytes *out, const struct sw_field *f)
{
    if (f->ndim == 0)
        sw_bytes_add(out, "scalar");

    for (int i = 0; i < f->ndim; i++) {
        sw_bytes_add(out, i ? "x" : "");

        if (f->dim[i])
            sw_bytes_printf(out, "%lld", (long long)f->dim[i]);
        else
            sw_bytes_add(out, "any");
    }
}

static void add_values(struct sw_bytes *out, const struct value *x, bool all)
{
    const int64_t count = sw_field_count(x->field);
    const int64_t shown = all || count <= FEW_VALUES ? count : FEW_VALUES;
    double least = number(x, 0), most = least, sum = 0;

    for (int64_t i = 0; i < count; i++) {
        const double n = number(x, i);
        least = n < least ? n : least;
        most = n > most ? n : most;
        sum += n;
    }

    if (count > FEW_VALUES)
        sw_bytes_printf(out, "%.6g to %.6g, mean %.6g: ", least, most, sum / (double)count);
    for (int64_t i = 0; i < shown; i++)
        sw_bytes_printf(out, "%s%.6g", i ? " " : "", number(x, i));
    sw_bytes_add(out, shown < count ? " ..." : "");
}

static void add_value(struct sw_bytes *out, const struct value *x, bool all)
{
    if (x->is_picture)
        sw_bytes_printf(out, "%s, %lldx%lldx%lld, %zu bytes", x->head.kind,
                        (long long)x->head.channels, (long long)x->head.height,
                        (long long)x->head.width, x->bytes);
    else
        add_values(out, x, all);
}

static void json_value(struct sw_json_writer *w, const struct value *x)
{
    if (x->is_picture) {
        sw_json_open_object(w, x->field->name);
        sw_json_string(w, "kind", x->head.kind);
        sw_json_int(w, "channels", x->head.channels);
        sw_json_int(w, "height", x->head.height);
        sw_json_int(w, "width", x->head.width);
        sw_json_int(w, "bytes", (int64_t)x->bytes);
        sw_json_close_object(w);
        return;
    }

    const int64_t count = sw_field_count(x->field);
    const bool real = x->field->dtype == SW_F32;
    if (x->field->ndim)
        sw_json_open_array(w, x->field->name);

    const char *key = x->field->ndim ? NULL : x->field->name;
    for (int64_t i = 0; i < count; i++) {
        if (real)
            sw_json_real(w, key, number(x, i));
        else
            sw_json_int(w, key, (int64_t)number(x, i));
    }

    if (x->field->ndim)
        sw_json_close_array(w);
}

/* ---- Records ----------------------------------------------------------------------------------
 */

/* place: index among the records that the section takes. */
static int show_record(struct view *v, int64_t place, struct sw_err *err)
{
    const int64_t record = sw_subset_record(&v->subset, place);
    const bool json = v->o->data.common.json, all = v->o->record >= 0;

    if (json) {
        sw_json_open_object(&v->json, NULL);
        sw_json_int(&v->json, "record", place);
    } else {
        sw_bytes_printf(&v->out, "\nrecord %lld\n", (long long)place);
    }

    for (int f = 0; f < v->r.field_count; f++) {
        struct value x;
        int rc = fetch(v, record, f, false, &x, err);
        if (rc)
            return rc;
        if (json) {
            json_value(&v->json, &x);
            continue;
        }

        sw_bytes_printf(&v->out, "  %-11s", x.field->name);
        add_value(&v->out, &x, all);
        sw_bytes_add(&v->out, "\n");
    }

    if (json)
        sw_json_close_object(&v->json);
    return SW_OK;
}

static int show_records(struct view *v, struct sw_err *err)
{
    const int64_t asked = v->o->record, records = v->subset.count;
    const int64_t first = asked < 0 ? 0 : asked;
    int64_t end = asked < 0 ? FIRST_RECORDS : asked + 1;
    int rc = SW_OK;

    if (asked >= records)
        return sw_err_set(err, SW_ERR_INVALID, "--record=%lld: must be from 0 to %lld",
                          (long long)asked, (long long)records - 1);

    end = end < records ? end : records;
    for (int64_t i = first; !rc && i < end; i++)
        rc = show_record(v, i, err);

    return rc;
}

static void report_bad(struct view *v, const struct sw_err *err)
{
    if (++v->bad <= BAD_SHOWN)
        sw_cli_message("%s", err->text);
    if (v->bad == BAD_SHOWN)
        sw_cli_message("more bad records are only counted");
}

static bool is_about_record(int rc)
{
    return rc == SW_ERR_FORMAT || rc == SW_ERR_UNSUPPORTED || rc == SW_ERR_NOTFOUND;
}

static int verify(struct view *v, struct sw_err *err)
{
    for (int64_t i = 0; i < v->subset.count; i++) {
        int rc = sw_stop_check(err);

        for (int f = 0; !rc && f < v->r.field_count; f++) {
            struct value x;
            rc = fetch(v, sw_subset_record(&v->subset, i), f, true, &x, err);
            v->bytes += rc ? 0 : x.bytes;
        }

        if (rc && !is_about_record(rc))
            return rc;

        if (rc)
            report_bad(v, err);
    }

    return SW_OK;
}

/* ---- The source
 * --------------------------------------------------------------------------------------
 */

/* Bytes of a record in raw values; 0 if images have varying sizes. */
static size_t record_bytes(const struct sw_records *r)
{
    size_t bytes = 0;
    for (int f = 0; f < r->field_count; f++)
        bytes += sw_field_bytes(&r->field[f]);
    return r->has_pictures ? 0 : bytes;
}

static void print_head(struct view *v)
{
    const struct sw_records *r = &v->r;
    struct sw_bytes *out = &v->out;

    sw_bytes_printf(out, "format       %s\n", r->format->base.name);
    sw_bytes_printf(out, "where        %s\n", r->where);
    if (r->origin && *r->origin)
        sw_bytes_printf(out, "origin       %s\n", r->origin);
    sw_bytes_printf(out, "records      %lld", (long long)v->subset.count);
    if (v->subset.count != r->count)
        sw_bytes_printf(out, " of %lld", (long long)r->count);
    if (record_bytes(r))
        sw_bytes_printf(out, " of %zu bytes", record_bytes(r));
    sw_bytes_printf(out, "\nclasses      %lld\n", (long long)r->classes);

    for (int f = 0; f < r->field_count; f++) {
        sw_bytes_printf(out, "%-13s%s, %s", f ? "" : "fields", r->field[f].name,
                        sw_dtype_name(r->field[f].dtype));
        sw_bytes_add(out, r->field[f].ndim ? " " : ", ");
        add_shape(out, &r->field[f]);
        sw_bytes_add(out, is_picture(v, f) ? ", an image\n" : "\n");
    }
}

static void json_head(struct view *v)
{
    const struct sw_records *r = &v->r;
    struct sw_json_writer *w = &v->json;

    sw_json_open_object(w, NULL);
    sw_json_string(w, "format", r->format->base.name);
    sw_json_string(w, "where", r->where);
    sw_json_string(w, "origin", r->origin);
    sw_json_int(w, "records", v->subset.count);
    sw_json_int(w, "classes", r->classes);
    sw_json_int(w, "files", r->files);
    sw_json_int(w, "record_bytes", (int64_t)record_bytes(r));
    sw_json_open_array(w, "fields");

    for (int f = 0; f < r->field_count; f++) {
        sw_json_open_object(w, NULL);
        sw_json_string(w, "name", r->field[f].name);
        sw_json_string(w, "type", sw_dtype_name(r->field[f].dtype));
        sw_json_bool(w, "picture", is_picture(v, f));
        sw_json_open_array(w, "shape");
        for (int i = 0; i < r->field[f].ndim; i++)
            sw_json_int(w, NULL, r->field[f].dim[i]);
        sw_json_close_array(w);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
    sw_json_open_array(w, "first");
}

static void end_text(struct view *v)
{
    char bytes[32];

    if (!v->o->verify)
        return;

    sw_bytes_printf(&v->out, "\nverified     %lld records, %s: ", (long long)v->subset.count,
                    sw_human_bytes(bytes, (double)v->bytes));

    if (v->bad)
        sw_bytes_printf(&v->out, "%lld are bad\n", (long long)v->bad);
    else
        sw_bytes_add(&v->out, "all are good\n");
}

static void end_json(struct view *v)
{
    sw_json_close_array(&v->json);

    if (v->o->verify) {
        sw_json_int(&v->json, "verified", v->subset.count);
        sw_json_int(&v->json, "bad", v->bad);
        sw_json_int(&v->json, "bytes", (int64_t)v->bytes);
    }

    sw_cli_json_end(&v->json);
}

/* Shows one record; with --verify a record that cannot be read is reported and does not end the
 * loop. */
static int inspect_source(struct view *v, struct sw_err *err)
{
    const bool json = v->o->data.common.json;

    int rc = sw_decoder_new(&v->decoder, err);
    if (rc)
        return rc;

    sw_decoder_limit(v->decoder, v->r.max_pixels);
    sw_json_begin(&v->json, &v->out);

    if (json)
        json_head(v);
    else
        print_head(v);

    if (!v->o->verify || v->o->record >= 0)
        rc = show_records(v, err);
    if (!rc && v->o->verify)
        rc = verify(v, err);

    if (json)
        end_json(v);
    else
        end_text(v);

    return rc;
}

static int inspect(const struct options *o, const struct sw_data_input *in)
{
    struct view v = {.o = o};
    struct sw_err err;
    int rc = sw_data_input_records(in, &v.r, &v.subset, &err);

    if (rc == SW_OK)
        rc = inspect_source(&v, &err);

    int code = rc == SW_OK ? sw_cli_print(&v.out) : sw_cli_fail(rc, &err);
    if (code == SW_EXIT_DONE && v.bad > 0)
        code = SW_EXIT_MISSING;
    sw_decoder_free(v.decoder);
    sw_room_fini(&v.scratch);
    sw_room_fini(&v.pixels);
    sw_bytes_fini(&v.out);
    sw_records_close(&v.r);

    return code;
}

static int run(void *options)
{
    const struct options *o = options;
    struct sw_data_input in;

    int code = sw_data_input_open(&in, verb, &o->data);
    if (code != SW_EXIT_DONE)
        return code;

    code = inspect(o, &in);
    sw_data_input_close(&in);
    return code;
}

static const struct options defaults = {.record = -1};

const struct sw_verb sw_data_inspect = {
    .name = "inspect",
    .help = "describe a data source; show and verify records",
    .typed = verb,
    .usage = "[OPTION]... RECIPE\n[OPTION]... FILE...",
    .about =
        "Describes a data source: format, records, classes, fields with their types and shapes,\n"
        "and the first records, before any transform of the section.\n\n" SW_DATA_ABOUT,
    .more = "With --verify the exit code is 3 if a record is bad. Each bad record is named.",
    .takes = SW_CLI_SET | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .defaults = &defaults,
    .max_args = -1,
    .arg_name = "RECIPE",
    .run = run,
};
