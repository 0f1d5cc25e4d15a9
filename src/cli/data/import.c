/* singa-ws data import: writes records of any format to shards. */
#include "data/import.h"
#include "base/json.h"
#include "base/os.h"
#include "cli/data/input.h"
#include "cli/data/progress.h"
#include <string.h>

static const char verb[] = "data import";

enum {
    MIN_SHARD_BYTES = 4096,
    BAD_SHOWN = 10,
    MOST_SIDE = 65535,
    MOST_QUALITY = 100,
    USUAL_QUALITY = 90,
};

struct options {
    struct sw_data_options data;
    const char *out, *shard_size, *resize, *encode;
    bool skip_bad;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, out, "out", "FILE",
                       "shard to write, for example train.shard"),
    SW_CLI_TEXT_OPTION(struct options, shard_size, "shard-size", "SIZE",
                       "write several shards of at most SIZE (512MB): train-00000.shard, ..."),
    SW_CLI_TEXT_OPTION(struct options, resize, "resize", "SIDES",
                       "resize images: 256 for the shorter side, 256x256 for height x width"),
    SW_CLI_TEXT_OPTION(struct options, encode, "encode", "FORM",
                       "encode images as jpeg, jpeg:QUALITY (1 to 100; 90), png or pixels"),
    SW_CLI_FLAG_OPTION(struct options, skip_bad, "skip-bad",
                       "skip and count records that cannot be read"),
    SW_DATA_OPTIONS,
    {0},
};

/* ---- Progress ------------------------------------------------------------------------
 */

struct watch {
    struct sw_data_progress progress;
    bool quiet;
    int bad;
};

static bool on_progress(void *user, const struct sw_import_progress *now)
{
    struct watch *w = user;
    char bytes[32];

    sw_data_progress_show(&w->progress, now->done, now->records,
                          sw_human_bytes(bytes, (double)now->bytes));
    return true;
}

static void on_bad(void *user, const char *why)
{
    struct watch *w = user;
    if (w->quiet || ++w->bad > BAD_SHOWN)
        return;

    sw_data_progress_wipe(&w->progress);
    sw_cli_message("skipped: %s", why);
    if (w->bad == BAD_SHOWN)
        sw_cli_message("more skipped records are only counted");
}

/* ---- The summary ------------------------------------------------------------------------------
 */

static void print_text(struct sw_bytes *out, const struct sw_import_result *r, double seconds)
{
    char bytes[32], time[32], rate[32];

    sw_bytes_printf(out, "records      %lld\n", (long long)r->records);
    if (r->skipped)
        sw_bytes_printf(out, "skipped      %lld that cannot be read\n", (long long)r->skipped);
    sw_bytes_printf(out, "classes      %lld\n", (long long)r->classes);
    sw_bytes_printf(out, "bytes        %llu (%s)\n", (unsigned long long)r->bytes,
                    sw_human_bytes(bytes, (double)r->bytes));

    if (r->files == 1)
        sw_bytes_printf(out, "file         %s\n", r->first);
    else
        sw_bytes_printf(out, "files        %d, %s to %s\n", r->files, r->first, r->last);

    sw_bytes_printf(out, "time         %s, %s\n", sw_human_seconds(time, seconds),
                    sw_human_unit(rate, (double)r->bytes / (seconds > 0 ? seconds : 1), "B/s"));
}

static void print_json(struct sw_bytes *out, const struct sw_import_result *r, double seconds)
{
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_int(&w, "records", r->records);
    sw_json_int(&w, "skipped", r->skipped);
    sw_json_int(&w, "classes", r->classes);
    sw_json_int(&w, "bytes", (int64_t)r->bytes);
    sw_json_int(&w, "files", r->files);
    sw_json_string(&w, "first", r->first);
    sw_json_string(&w, "last", r->last);
    sw_json_real(&w, "seconds", seconds);
    sw_cli_json_end(&w);
}

/* ---- The sub-verb -----------------------------------------------------------------------------
 */

static int import(const struct options *o, struct sw_import_args *args,
                  struct sw_import_result *result)
{
    const struct sw_cli_common *common = &o->data.common;
    struct watch watch = {.quiet = common->quiet};
    struct sw_bytes out = {0};
    struct sw_err err;

    args->progress = on_progress;
    args->bad = on_bad;
    args->user = &watch;
    sw_data_progress_begin(&watch.progress, common->quiet);

    int rc = sw_import(args, result, &err);
    const double seconds = sw_data_progress_seconds(&watch.progress);
    sw_data_progress_wipe(&watch.progress);
    if (rc != SW_OK) {
        if (result->files > 0)
            sw_cli_message("%d complete file%s kept, %s to %s", result->files,
                           result->files == 1 ? "" : "s", result->first, result->last);
        return sw_cli_fail(rc, &err);
    }

    if (common->json)
        print_json(&out, result, seconds);
    else if (!common->quiet)
        print_text(&out, result, seconds);

    int code = sw_cli_print(&out);
    sw_bytes_fini(&out);
    return code;
}

static bool is_side(int64_t side)
{
    return side >= 1 && side <= MOST_SIDE;
}

/* "256" or "256x224" */
static bool parse_sides(const char *text, struct sw_recode_args *a)
{
    char first[16];
    const size_t n = strcspn(text, "x");
    if (n >= sizeof first)
        return false;

    memcpy(first, text, n);
    first[n] = '\0';
    if (!text[n])
        return sw_parse_int(first, &a->shorter) && is_side(a->shorter);

    return sw_parse_int(first, &a->height) && sw_parse_int(text + n + 1, &a->width) &&
           is_side(a->height) && is_side(a->width);
}

/* "jpeg", "jpeg:90", "png" or "pixels" */
static bool parse_form(const char *text, struct sw_recode_args *a)
{
    int64_t quality = USUAL_QUALITY;

    if (sw_str_eq(text, "png") || sw_str_eq(text, "pixels")) {
        a->form = sw_str_eq(text, "png") ? SW_RECODE_PNG : SW_RECODE_PIXELS;
        return true;
    }
    if (!sw_str_eq(text, "jpeg") &&
        (!sw_str_starts(text, "jpeg:") || !sw_parse_int(text + 5, &quality)))
        return false;

    a->form = SW_RECODE_JPEG;
    a->quality = (int)quality;
    return quality >= 1 && quality <= MOST_QUALITY;
}

static int parse_options(const struct options *o, uint64_t *shard_bytes, struct sw_recode_args *a)
{
    int64_t bytes = 0;

    *a = (struct sw_recode_args){.quality = USUAL_QUALITY};
    if (!o->out)
        return sw_cli_usage(verb, "--out=FILE is missing");
    if (o->shard_size && (!sw_parse_bytes(o->shard_size, &bytes) || bytes < MIN_SHARD_BYTES))
        return sw_cli_usage(verb, "--shard-size=%s: SIZE must be %d bytes or more, such as 512MB",
                            o->shard_size, MIN_SHARD_BYTES);

    if (o->resize && !parse_sides(o->resize, a))
        return sw_cli_usage(
            verb,
            "--resize=%s: must be a side or HEIGHTxWIDTH of 1 to %d, such as 256 or "
            "256x256",
            o->resize, MOST_SIDE);

    if (o->encode && !parse_form(o->encode, a))
        return sw_cli_usage(verb, "--encode=%s: must be jpeg, jpeg:1 to jpeg:%d, png or pixels",
                            o->encode, MOST_QUALITY);

    *shard_bytes = (uint64_t)bytes;
    return SW_EXIT_DONE;
}

static int open_and_import(const struct options *o, const struct sw_data_input *in,
                           uint64_t shard_bytes, struct sw_recode_args recode)
{
    const struct sw_data_conf *conf = in->section->common;
    struct sw_records records;
    struct sw_subset subset;
    struct sw_import_result result = {0};
    struct sw_err err;
    int rc = sw_data_input_records(in, &records, &subset, &err), code;
    char *origin =
        rc == SW_OK ? sw_format("%s: %s", records.format->base.name, records.where) : NULL;

    if (rc == SW_OK && !origin)
        rc = sw_err_nomem(&err, "origin of the records", 0);
    recode.channels = sw_recode_is_needed(&recode) ? conf->channels : 0;

    struct sw_import_args args = {.from = &records,
                                  .subset = &subset,
                                  .recode = recode,
                                  .origin = origin,
                                  .out = o->out,
                                  .file_bytes = shard_bytes,
                                  .skip_bad = o->skip_bad};
    code = rc == SW_OK ? import(o, &args, &result) : sw_cli_fail(rc, &err);
    sw_import_result_fini(&result);
    sw_records_close(&records);
    sw_free(origin);

    return code;
}

static int run(void *options)
{
    const struct options *o = options;
    struct sw_data_input in;
    struct sw_recode_args recode = {0};
    uint64_t shard_bytes = 0;

    int code = parse_options(o, &shard_bytes, &recode);

    if (code == SW_EXIT_DONE)
        code = sw_data_input_open(&in, verb, &o->data);
    if (code != SW_EXIT_DONE)
        return code;

    code = open_and_import(o, &in, shard_bytes, recode);
    sw_data_input_close(&in);
    return code;
}

const struct sw_verb sw_data_import = {
    .name = "import",
    .help = "write records of any format to shards",
    .typed = verb,
    .usage = "[OPTION]... --out=FILE RECIPE\n[OPTION]... --out=FILE FILE...",
    .about =
        "Writes records of any format to shards, the record files of singa-ws: memory-mapped,\n"
        "indexed, with a checksum for each record. Images, also JPEG and PNG files, are copied\n"
        "unchanged without --resize and --encode. The part and channels of the section apply,\n"
        "its transforms (crop, mean, scale, ...) do not. Each file appears only when it is\n"
        "complete; after Ctrl-C the complete files remain.\n\n" SW_DATA_ABOUT,
    .more = "A recipe reads the result with format = shard and paths = train.shard, or\n"
            "paths = train-*.shard.",
    .takes = SW_CLI_SET | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .max_args = -1,
    .arg_name = "RECIPE",
    .run = run,
};
