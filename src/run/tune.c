/* Choices by measuring (device/tune.h), `tune = yes`. A resumed job uses those of its checkpoint,
 * whatever else is known or requested, since they determine its bits; the others come from
 * tune.json of the state directory, with earlier measurements of this machine, or are measured when
 * plans are made. Keys contain device, library and threads, so nothing has to be invalidated. */
#include "run/tune.h"
#include "base/json.h"
#include "base/os.h"
#include "device/tune.h"
#include "run/job_roles.h"
#include "run/throughput.h"
#include "worker/events.h"
#include "worker/worker.h"
#include <string.h>

enum { GAINS = 3 }; /* gains in the log message */

static int read_cache(struct sw_tune *t, const char *host, struct sw_err *err)
{
    struct sw_json *root = sw_state_file_read(host, "tune.json");
    int rc = sw_tune_read(t, sw_json_get(root, "choices"), SW_TUNE_CACHED, err);
    sw_json_free(root);
    return rc;
}

int sw_job_tune_prepare(struct sw_tune **out, const struct sw_json *kept, struct sw_worker *workers,
                        struct sw_err *err)
{
    const struct sw_job_place *place = workers->shared.place;
    const bool requested = workers->shared.conf->tune;
    if (!requested && !(kept && kept->first))
        return SW_OK;

    struct sw_tune *t = *out = sw_calloc(1, sizeof *t);
    if (!t)
        return sw_err_nomem(err, "measured choices", sizeof *t);

    sw_tune_init(t, requested);

    int rc = sw_tune_read(t, kept, SW_TUNE_KEPT, err);
    if (rc == SW_OK && requested)
        rc = read_cache(t, place->machine->host, err);
    place->host->tune = t;
    for (int i = 0; i < workers->topology->workers; i++)
        workers[i].device->tune = t;

    return rc;
}

void sw_job_tune_close(struct sw_tune *t)
{
    if (t)
        sw_tune_fini(t);
    sw_free(t);
}

/* ---- Storing and logging ---- */

static void write_cache(struct sw_tune *t, const char *host, struct sw_bytes *out)
{
    struct sw_json_writer w;

    sw_json_begin(&w, out);
    sw_json_open_object(&w, NULL);
    sw_json_string(&w, "host", host);
    sw_json_open_array(&w, "choices");
    sw_tune_write(t, false, &w);
    sw_json_close_array(&w);
    sw_json_close_object(&w);
    sw_bytes_add(out, "\n");
}

static int64_t gain_of(const struct sw_tune_item *i)
{
    return i->origin == SW_TUNE_MEASURED ? i->rule_ns - i->ns : 0;
}

/* The largest gain below that of `above`, or the next one of the same size. */
static const struct sw_tune_item *next_gain(const struct sw_tune *t,
                                            const struct sw_tune_item *above)
{
    const struct sw_tune_item *best = NULL;

    for (const struct sw_tune_item *i = t->items; i < t->items + t->count; i++) {
        bool below =
            !above || gain_of(i) < gain_of(above) || (gain_of(i) == gain_of(above) && i > above);
        if (below && gain_of(i) > 0 && (!best || gain_of(i) > gain_of(best)))
            best = i;
    }

    return best;
}

/* Length of a key without its details: "forward convolution of 8x3x9x9 f32 to 4x7x7 by 3x3". */
static int label_length(const char *key)
{
    static const char *const details[] = {" stride ", " bias", " relu", " with factors "};
    size_t length = strlen(key);

    for (size_t i = 0; i < sizeof details / sizeof *details; i++) {
        const char *at = strstr(key, details[i]);
        length = at && (size_t)(at - key) < length ? (size_t)(at - key) : length;
    }

    return (int)length;
}

static void log_choices(struct sw_events *events, const struct sw_tune *t)
{
    struct sw_bytes text = {0};
    const struct sw_tune_item *gain = NULL;
    int used = 0;

    for (int i = 0; i < t->count; i++)
        used += t->items[i].used && t->items[i].origin != SW_TUNE_MEASURED;
    sw_bytes_printf(&text, "%d choices measured in %.1f s, %d known before", t->measured,
                    (double)t->spent_ns * 1e-9, used);

    for (int i = 0; i < GAINS && (gain = next_gain(t, gain)) != NULL; i++) {
        sw_bytes_printf(&text, "%s %.*s: %s %.3f ms, by rule %s %.3f ms", i ? ";" : ":",
                        label_length(gain->key), gain->key, gain->name, (double)gain->ns * 1e-6,
                        gain->rule, (double)gain->rule_ns * 1e-6);
    }

    sw_events_report(events, SW_LOG_INFO, "tune", "%s", sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

void sw_job_tune_save(struct sw_tune *t, const struct sw_worker *leader)
{
    struct sw_bytes text = {0};

    if (!t)
        return;

    sw_mutex_lock(&t->lock);

    bool more = t->measured > t->kept;
    t->kept = t->measured;
    sw_mutex_unlock(&t->lock);
    if (!more)
        return;

    write_cache(t, leader->shared.place->machine->host, &text);
    sw_state_file_write(leader->shared.events, "tune.json", &text);
    sw_bytes_fini(&text);
}

void sw_job_tune_report(struct sw_tune *t, const struct sw_worker *leader)
{
    if (!leader->shared.conf->tune)
        return;

    sw_mutex_lock(&t->lock);
    log_choices(leader->shared.events, t);
    sw_mutex_unlock(&t->lock);
}
