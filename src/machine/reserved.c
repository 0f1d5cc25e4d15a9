/* What one run uses, as text for people and as the JSON object of its registry file. */
#include "machine/reserved.h"

#include "base/json.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const states[] = {"used", "queued", "released"};
enum { STATES = sizeof states / sizeof *states };

const char *sw_reserved_state_name(enum sw_reserved_state s)
{
    return states[s];
}

bool sw_reserved_has_gpu(const struct sw_reserved *r, const char *bus)
{
    for (int i = 0; i < r->gpu_count; i++)
        if (sw_str_eq(r->gpus[i], bus))
            return true;
    return false;
}

const char *sw_reserved_title(const struct sw_reserved *r, char *out, size_t bytes)
{
    struct sw_bytes title = {0};

    sw_bytes_add(&title, "run");
    if (r->run_id > 0)
        sw_bytes_printf(&title, " %lld", (long long)r->run_id);

    sw_bytes_add(&title, " \"");
    sw_text_add(&title, r->name);
    sw_bytes_printf(&title, "\" (pid %lld)", (long long)r->pid);

    sw_utf8_copy(out, bytes, sw_bytes_text(&title));
    sw_bytes_fini(&title);
    return out;
}

/* ---- Writing ---- */

void sw_reserved_write(const struct sw_reserved *r, struct sw_bytes *out)
{
    char cores[SW_RESERVED_FILE_BYTES / 4];
    struct sw_json_writer w;

    sw_json_begin(&w, out);
    sw_json_open_object(&w, NULL);
    sw_json_string(&w, "state", states[r->state]);
    sw_json_int(&w, "ticket", r->ticket);
    sw_json_int(&w, "pid", r->pid);
    sw_json_real(&w, "since", r->since);
    sw_json_int(&w, "run", r->run_id);
    sw_json_string(&w, "uid", r->run_uid);
    sw_json_string(&w, "name", r->name);
    sw_json_string(&w, "history", r->history);
    sw_json_string(&w, "waits_for", r->waits_for);
    sw_json_int(&w, "wants_cores", r->wants_cores);
    sw_json_int(&w, "wants_gpus", r->wants_gpus);
    sw_json_string(&w, "cores", sw_core_set_text(&r->cores, cores, sizeof cores));
    sw_json_open_array(&w, "gpus");
    for (int i = 0; i < r->gpu_count; i++)
        sw_json_string(&w, NULL, r->gpus[i]);
    sw_json_close_array(&w);
    sw_json_close_object(&w);
    sw_bytes_add(out, "\n");
}

/* ---- Reading ---- */

static void read_text(const struct sw_json *object, const char *key, char *out, size_t bytes)
{
    const struct sw_json *v = sw_json_get(object, key);
    sw_utf8_copy(out, bytes, v && v->type == SW_JSON_STRING ? v->string : "");
}

static int64_t read_number(const struct sw_json *object, const char *key)
{
    uint64_t value;
    return sw_json_as_size(sw_json_get(object, key), &value) ? (int64_t)value : 0;
}

/* A number of cores or GPUs, which others will add up. */
static int read_count(const struct sw_json *object, const char *key)
{
    int64_t value = read_number(object, key);
    return value < SW_MAX_CORES ? (int)value : SW_MAX_CORES;
}

static void read_gpus(const struct sw_json *list, struct sw_reserved *r)
{
    const struct sw_json *v = list && list->type == SW_JSON_ARRAY ? list->first : NULL;

    for (; v && r->gpu_count < SW_RESERVED_GPUS; v = v->next)
        if (v->type == SW_JSON_STRING)
            sw_utf8_copy(r->gpus[r->gpu_count++], sizeof r->gpus[0], v->string);
}

int sw_reserved_parse(const char *text, size_t bytes, struct sw_reserved *r, struct sw_err *err)
{
    struct sw_json *root = NULL;
    char state[16];

    int rc = sw_json_parse(text, bytes, &root, err);
    if (rc != SW_OK)
        return rc;

    *r = (struct sw_reserved){.ticket = read_number(root, "ticket"),
                              .pid = read_number(root, "pid"),
                              .run_id = read_number(root, "run"),
                              .wants_cores = read_count(root, "wants_cores"),
                              .wants_gpus = read_count(root, "wants_gpus")};
    read_text(root, "state", state, sizeof state);
    for (int i = 0; i < STATES; i++)
        if (sw_str_eq(state, states[i]))
            r->state = (enum sw_reserved_state)i;

    const struct sw_json *since = sw_json_get(root, "since"), *cores = sw_json_get(root, "cores");
    r->since = since && since->type == SW_JSON_NUMBER ? since->number : 0;
    read_text(root, "uid", r->run_uid, sizeof r->run_uid);
    read_text(root, "name", r->name, sizeof r->name);
    read_text(root, "history", r->history, sizeof r->history);
    read_text(root, "waits_for", r->waits_for, sizeof r->waits_for);
    read_gpus(sw_json_get(root, "gpus"), r);

    if (!cores || cores->type != SW_JSON_STRING || !sw_core_set_parse(cores->string, &r->cores))
        rc = sw_err_set(err, SW_ERR_FORMAT, "cores is not a list such as \"0-3,8\"");
    sw_json_free(root);

    return rc;
}
