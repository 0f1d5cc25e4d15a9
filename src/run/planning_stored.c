/* Measured times of layers in calibration.json of the state directory:
 * {"host": .., "entries": [{"net": HASH, "batch": .., "device": .., "workers": .., "threads": ..,
 * "kind": "rows", "date": "2026-11-28", "step_ms": .., "layers": [{"name": .., "forward_ms": ..,
 * "backward_ms": .., "update_ms": ..}]}]}, the newest first. The kind is "factors"
 * where all layers that can exchange factors did so, "columns" where all that can be were split by
 * columns. */
#include "base/hash.h"
#include "run/job_private.h"
#include "run/planning_private.h"
#include "run/throughput.h"
#include <math.h>

static const char file[] = "calibration.json";

enum { ENTRIES = 32 }; /* older ones are dropped */

void sw_planning_hash(const struct sw_net_model *m, char out[33])
{
    struct sw_bytes text = {0};

    for (int i = 0; i < m->count; i++) {
        const struct sw_layer_model *l = &m->layer[i];
        sw_bytes_printf(&text, "%s %s %.17g %.17g %lld\n", l->name, l->type, l->forward_flops,
                        l->columns, (long long)l->params);
    }

    sw_hash_hex(sw_hash_bytes(sw_bytes_text(&text), text.length), out);
    sw_bytes_fini(&text);
}

static bool says(const struct sw_json *object, const char *key, const char *text)
{
    const struct sw_json *v = sw_json_get(object, key);
    return v && v->type == SW_JSON_STRING && sw_str_eq(v->string, text);
}

static bool counts(const struct sw_json *object, const char *key, int64_t count)
{
    uint64_t value;
    const struct sw_json *v = sw_json_get(object, key);
    return v && sw_json_as_size(v, &value) && value == (uint64_t)count;
}

static const char *kind_of(const struct sw_planning_setup *s)
{
    static const char *const names[SW_STEP_KINDS] = {
        [SW_STEP_GRADIENTS] = "rows", [SW_STEP_FACTORS] = "factors", [SW_STEP_MOVES] = "columns"};
    return names[s->kind];
}

/* Entries of earlier versions have no kind. */
static bool is_kind(const struct sw_json *entry, const struct sw_planning_setup *s)
{
    return sw_json_get(entry, "kind") ? says(entry, "kind", kind_of(s))
                                      : s->kind == SW_STEP_GRADIENTS;
}

static bool fits(const struct sw_json *entry, const struct sw_planning_setup *s)
{
    return entry->type == SW_JSON_OBJECT && says(entry, "net", s->net) &&
           counts(entry, "batch", s->batch) && says(entry, "device", s->device) &&
           counts(entry, "workers", s->workers) && counts(entry, "threads", s->threads) &&
           is_kind(entry, s);
}

static const struct sw_json *first_entry(const struct sw_json *root)
{
    const struct sw_json *list = root ? sw_json_get(root, "entries") : NULL;
    return list && list->type == SW_JSON_ARRAY ? list->first : NULL;
}

/* ---- Reading ---- */

static double ms_of(const struct sw_json *layer, const char *key)
{
    const struct sw_json *v = sw_json_get(layer, key);
    return v && v->type == SW_JSON_NUMBER && v->number >= 0 ? v->number : (double)NAN;
}

/* Takes the times of an entry; false, perhaps after some of them, if one is missing or no time. */
static bool take(const struct sw_json *entry, struct sw_planning_times *t)
{
    const struct sw_json *list = sw_json_get(entry, "layers"), *date = sw_json_get(entry, "date");
    int count = 0;

    if (!list || list->type != SW_JSON_ARRAY || !date || date->type != SW_JSON_STRING ||
        isnan(ms_of(entry, "step_ms")))
        return false;
    t->step_ms = ms_of(entry, "step_ms");

    for (const struct sw_json *l = list->first; l; l = l->next, count++) {
        const struct sw_net_model *m = &t->of->model;
        if (l->type != SW_JSON_OBJECT || count == m->count ||
            !says(l, "name", m->layer[count].name) || isnan(ms_of(l, "forward_ms")) ||
            isnan(ms_of(l, "backward_ms")) || isnan(ms_of(l, "update_ms")))
            return false;

        t->forward_ms[count] = ms_of(l, "forward_ms");
        t->backward_ms[count] = ms_of(l, "backward_ms");
        t->update_ms[count] = ms_of(l, "update_ms");
    }

    return count == t->of->model.count;
}

bool sw_planning_stored_find(const struct sw_planning_setup *s, struct sw_planning_times *t,
                             char date[16], struct sw_log *log)
{
    struct sw_json *root = NULL;
    struct sw_err err;
    bool found = false;

    if (sw_state_file_load(s->host, file, &root, &err) != SW_OK) {
        sw_log_write(log, SW_LOG_WARN, "planner", "stored times are ignored: %s", err.text);
        return false;
    }

    const struct sw_json *entry = first_entry(root);
    while (entry && !fits(entry, s))
        entry = entry->next;

    if (entry) {
        found = take(entry, t);
        if (found) {
            snprintf(date, 16, "%.15s", sw_json_get(entry, "date")->string);
        } else {
            sw_planning_times_clear(t);
            sw_log_write(log, SW_LOG_WARN, "planner",
                         "stored times are ignored: an entry of %s is damaged", file);
        }
    }

    sw_json_free(root);
    return found;
}

/* ---- Writing ---- */

/* Copies a value as it is. */
static void copy_value(struct sw_json_writer *w, const struct sw_json *v)
{
    switch (v->type) {
    case SW_JSON_OBJECT:
        sw_json_open_object(w, v->key);
        for (const struct sw_json *each = v->first; each; each = each->next)
            copy_value(w, each);
        sw_json_close_object(w);
        break;
    case SW_JSON_ARRAY:
        sw_json_open_array(w, v->key);
        for (const struct sw_json *each = v->first; each; each = each->next)
            copy_value(w, each);
        sw_json_close_array(w);
        break;
    case SW_JSON_STRING:
        sw_json_string(w, v->key, v->string);
        break;
    case SW_JSON_NUMBER:
        sw_json_real(w, v->key, v->number);
        break;
    default:
        break;
    }
}

static void write_entry(struct sw_json_writer *w, const struct sw_planning_setup *s,
                        const struct sw_planning_times *t, const char *date)
{
    const struct sw_net_model *m = &t->of->model;

    sw_json_open_object(w, NULL);
    sw_json_string(w, "net", s->net);
    sw_json_int(w, "batch", s->batch);
    sw_json_string(w, "device", s->device);
    sw_json_int(w, "workers", s->workers);
    sw_json_int(w, "threads", s->threads);
    sw_json_string(w, "kind", kind_of(s));
    sw_json_string(w, "date", date);
    sw_json_real(w, "step_ms", t->step_ms);

    sw_json_open_array(w, "layers");
    for (int i = 0; i < m->count; i++) {
        sw_json_open_object(w, NULL);
        sw_json_string(w, "name", m->layer[i].name);
        sw_json_real(w, "forward_ms", t->forward_ms[i]);
        sw_json_real(w, "backward_ms", t->backward_ms[i]);
        sw_json_real(w, "update_ms", t->update_ms[i]);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);

    sw_json_close_object(w);
}

void sw_planning_stored_add(const struct sw_planning_setup *s, const struct sw_planning_times *t,
                            const char *date, struct sw_log *log)
{
    struct sw_json *root = NULL;
    struct sw_bytes text = {0};
    struct sw_json_writer w;
    struct sw_err err;
    int count = 1;

    if (sw_state_file_load(s->host, file, &root, &err) != SW_OK)
        root = NULL; /* it is replaced */

    sw_json_begin(&w, &text);
    sw_json_open_object(&w, NULL);
    sw_json_string(&w, "host", s->host);
    sw_json_open_array(&w, "entries");
    write_entry(&w, s, t, date);
    for (const struct sw_json *e = first_entry(root); e && count < ENTRIES; e = e->next)
        if (!fits(e, s)) {
            copy_value(&w, e);
            count++;
        }
    sw_json_close_array(&w);
    sw_json_close_object(&w);
    sw_bytes_add(&text, "\n");

    if (sw_state_file_store(file, &text, &err) != SW_OK)
        sw_log_write(log, SW_LOG_WARN, "planner", "cannot store measured times: %s", err.text);
    sw_bytes_fini(&text);
    sw_json_free(root);
}
