/* singa-ws doctor: checks whether this machine is fit for training, and advises how to improve
 * it. */
#include "cli/doctor/doctor.h"
#include "base/os.h"
#include "base/stop.h"
#include "history/history.h"

enum { FILE_BYTES = 1 << 20 };

struct options {
    struct sw_cli_common common;
    bool quick;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, quick, "quick", "only inspect settings, measure nothing"),
    {0},
};

static const char *const level_names[] = {[SW_FINDING_OK] = "ok",
                                          [SW_FINDING_NOTE] = "note",
                                          [SW_FINDING_WARN] = "warning",
                                          [SW_FINDING_BAD] = "bad"};

static bool is_fit(const struct sw_doctor *d)
{
    for (int i = 0; i < d->count; i++)
        if (d->findings[i].level == SW_FINDING_BAD)
            return false;
    return true;
}

/* ---- The report -----------------------------------------------------------------------------
 */

/* Prints the findings; --quiet omits those that are OK. */
static void print_text(const struct options *o, const struct sw_doctor *d, struct sw_bytes *out)
{
    int counts[4] = {0};

    for (int i = 0; i < d->count; i++) {
        const struct sw_finding *f = &d->findings[i];

        counts[f->level]++;
        if (f->level == SW_FINDING_OK && o->common.quiet)
            continue;

        sw_bytes_printf(out, "%-8s %-8s %s\n", f->part, level_names[f->level], f->what);
        if (f->why)
            sw_bytes_printf(out, "%18swhy:  %s\n", "", f->why);
        if (f->fix)
            sw_bytes_printf(out, "%18sfix:  %s\n", "", f->fix);
    }

    sw_bytes_printf(out, "%s: %d bad, %d warning%s, %d note%s\n", is_fit(d) ? "fit" : "not fit",
                    counts[SW_FINDING_BAD], counts[SW_FINDING_WARN],
                    counts[SW_FINDING_WARN] == 1 ? "" : "s", counts[SW_FINDING_NOTE],
                    counts[SW_FINDING_NOTE] == 1 ? "" : "s");
}

static void add_findings(struct sw_json_writer *w, const struct sw_doctor *d)
{
    sw_json_open_array(w, "findings");

    for (int i = 0; i < d->count; i++) {
        const struct sw_finding *f = &d->findings[i];

        sw_json_open_object(w, NULL);
        sw_json_string(w, "level", level_names[f->level]);
        sw_json_string(w, "part", f->part);
        sw_json_string(w, "what", f->what);
        sw_json_string(w, "why", f->why);
        sw_json_string(w, "fix", f->fix);
        sw_json_string(w, "mend", f->fix); /* the old key, kept for one release */
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

/* Whether doctor.json has figures of this machine that were measured while it was idle. */
static bool has_better(const struct sw_doctor *d, const char *path)
{
    struct sw_json *root = NULL;
    struct sw_err ignored;
    char *text = NULL;
    size_t bytes;
    bool better = false;

    if (sw_os_read_file(path, FILE_BYTES, &text, &bytes, &ignored) == SW_OK &&
        sw_json_parse(text, bytes, &root, &ignored) == SW_OK) {
        const struct sw_json *host = sw_json_get(root, "host"), *busy = sw_json_get(root, "busy");
        better = host && host->type == SW_JSON_STRING &&
                 sw_str_eq(host->string, d->machine->host) && busy && busy->type == SW_JSON_BOOL &&
                 !busy->boolean;
    }

    sw_json_free(root);
    sw_free(text);
    return better;
}

/* Stores the figures if they are complete and do not replace better ones. */
static void save_figures(const struct sw_doctor *d, const struct sw_bytes *json)
{
    struct sw_err err;
    char *state = NULL, *path = NULL;

    if (d->quick || (d->device && !sw_str_eq(d->device, "auto")))
        return;

    int code = sw_history_state_dir(&state, &err);
    if (!code && !(path = sw_format("%s/doctor.json", state)))
        code = sw_err_nomem(&err, "path of doctor.json", 0);

    if (!code && d->busy && has_better(d, path))
        sw_cli_message(
            "the machine was busy: its figures are not saved; doctor.json keeps the earlier ones");
    else if (!code)
        code = sw_os_replace_file(path, json->text, json->length, 0600, &err);

    if (code)
        sw_cli_message("the figures are not saved: %s", err.text);
    sw_free(path);
    sw_free(state);
}

/* ---- The parts --------------------------------------------------------------------------------
 */

typedef int doctor_part(struct sw_doctor *d, struct sw_err *err);
static const struct {
    const char *name;
    doctor_part *check;
    bool measures;
} parts[] = {
    {"settings", sw_doctor_settings, false},   {"PCIe links", sw_doctor_links, false},
    {"disk", sw_doctor_disk, false},           {"history", sw_doctor_history, false},
    {"processor", sw_doctor_throughput, true}, {"devices", sw_doctor_devices, false},
};

static int examine(struct sw_doctor *d, const struct options *o, struct sw_err *err)
{
    int code = sw_machine_here(&d->machine, err);
    if (code)
        return code;
    code = sw_survey_read(&d->survey, "/proc", "/sys", err);
    if (code)
        return code;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].measures && d->quick)
            continue;

        if (o->common.verbose)
            sw_cli_message("%s ...", parts[i].name);
        code = sw_stop_check(err);
        if (code)
            return code;
        code = parts[i].check(d, err);
        if (code)
            return code;
    }

    return d->failed ? sw_err_nomem(err, "findings", 0) : SW_OK;
}

static int doctor(void *options)
{
    const struct options *o = options;
    struct sw_doctor d = {.device = o->common.device, .db = o->common.db, .quick = o->quick};
    struct sw_bytes json = {0}, text = {0};
    struct sw_err err = {0};

    sw_cli_json_begin(&d.json, &json);
    sw_json_string(&d.json, "version", SW_VERSION);
    sw_json_real(&d.json, "time", sw_os()->unix_time());
    sw_json_open_object(&d.json, "measured");

    int exit_code, code = examine(&d, o, &err);
    if (code) {
        exit_code = sw_cli_fail(code, &err);
    } else {
        sw_json_close_object(&d.json);
        sw_json_string(&d.json, "host", d.machine->host);
        sw_json_bool(&d.json, "fit", is_fit(&d));
        sw_json_bool(&d.json, "busy", d.busy);
        add_findings(&d.json, &d);
        sw_cli_json_end(&d.json);
        save_figures(&d, &json);
        if (!o->common.json)
            print_text(o, &d, &text);
        exit_code = sw_cli_print(o->common.json ? &json : &text);
        if (exit_code == SW_EXIT_DONE && !is_fit(&d))
            exit_code = SW_EXIT_MISSING;
    }

    sw_bytes_fini(&json);
    sw_bytes_fini(&text);
    sw_doctor_fini(&d);

    return exit_code;
}

const struct sw_verb sw_verb_doctor = {
    .name = "doctor",
    .help = "check whether this machine is fit for training, and how to improve it",
    .usage = "[OPTION]...",
    .about =
        "Checks how this machine is set up and measures what training depends on: processor,\n"
        "memory, limits, PCIe links, disk and history. Copies between devices and the results\n"
        "of their computations are verified. Each finding says what was found, why it matters,\n"
        "and how to fix it.",
    .more =
        "The figures are saved in doctor.json of the state directory, for the planner. The exit\n"
        "code is 0 if the machine is fit and 3 if a finding is bad; a finding that only costs\n"
        "speed is a warning. --device sim:... tests simulated GPUs, which can simulate faults.",
    .takes = SW_CLI_DEVICE | SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET | SW_CLI_VERBOSE,
    SW_CLI_OPTIONS(struct options, rows),
    .run = doctor,
    .stops = true,
};
