/* Finds the peer links between devices. Links with a saved result of the same devices, bus
 * addresses and driver are not tested again; the others are tested by a child process, which
 * reports one line per link. If it hangs or dies in a test, it is killed and another one continues
 * with the next link (run_tests).
 *
 * Reading order: the key of a result, the file of saved results, running tests, choosing which
 * links to test. By the main thread. */
#include "plan/peer_links.h"

#include "base/child.h"
#include "base/os.h"
#include "base/str.h"
#include "device/driver.h"
#include "device/module.h"
#include "history/history.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    START_MS = 120000, /* until all devices are open */
    TEST_MS = 30000,   /* NCCL takes up to 6 s for its first start on a machine */
    SELF_MS = 15000,   /* of a device itself, which a start waits for; opening it included */
    PATH_BYTES = 4096,
    FILE_BYTES = 4 << 20,
    SAVED_LINES = 8192, /* of the file; older ones are left out */
};

static const char *const state_names[] = {
    [SW_PEER_LINK_UNKNOWN] = "unknown", [SW_PEER_LINK_SOUND] = "sound",
    [SW_PEER_LINK_NONE] = "none",       [SW_PEER_LINK_DAMAGED] = "damaged",
    [SW_PEER_LINK_HANGS] = "hangs",     [SW_PEER_LINK_FAILS] = "fails"};
enum { STATES = sizeof state_names / sizeof *state_names };

const char *sw_peer_link_state_name(enum sw_peer_link_state s)
{
    return state_names[s];
}

/* A link to test. */
struct test {
    struct sw_peer_link *link;
    char name[32]; /* "direct:0:1" */
    char *key;     /* owned: the key of its saved result */
};

struct search {
    const struct sw_peer_links_args *args;
    struct sw_peer_links *peer_links;
    char *devices;                     /* owned: the device argument of the probe process */
    struct sw_probe_identity identity; /* owned, including its strings */
    char *common;                      /* owned: the part of the key that all links share */
    struct test *test;                 /* owned [count * count + 1] */
    int tests;
    char *path;  /* owned: path of the file, or NULL */
    char *saved; /* owned: contents of the file, or NULL */
    bool found;  /* there are new results to save */
};

/* ---- The key of a result ---- */

static int number_of(const struct search *s, int i)
{
    return s->args->indices ? s->args->indices[i] : i;
}

/* Bus address of device i; NULL: the devices are not on the bus. */
static const char *bus_of(const struct search *s, int i)
{
    return s->args->driver->caps.on_bus ? sw_machine_gpu(s->args->machine, number_of(s, i))->bus
                                        : NULL;
}

static int identify(struct search *s, struct sw_err *err)
{
    const struct sw_driver *driver = s->args->driver;
    const int count = s->args->count;
    const char **bus = sw_calloc((size_t)count, sizeof *bus);

    s->identity.device = sw_calloc((size_t)count, sizeof *s->identity.device);

    int rc = bus && s->identity.device ? SW_OK : sw_err_nomem(err, "links between devices", 0);
    for (int i = 0; i < count && rc == SW_OK; i++) {
        bus[i] = bus_of(s, i);
        snprintf(s->peer_links->name[i], sizeof s->peer_links->name[i], "%s:%d", driver->name,
                 number_of(s, i));
    }

    if (rc == SW_OK)
        rc = driver->identify(s->args->options, bus, count, &s->identity, err);
    sw_free(bus);
    if (rc != SW_OK)
        return rc;

    const struct sw_probe_identity *id = &s->identity;
    bool complete = id->options && id->common;
    for (int i = 0; i < count; i++)
        complete = complete && id->device[i];

    if (complete) {
        s->devices = sw_format("%s:%s", driver->name, id->options);
        s->common = sw_format("singa-ws %s%s%s", SW_VERSION, id->common[0] ? ", " : "", id->common);
    }

    return s->devices && s->common ? SW_OK : sw_err_nomem(err, "links between devices", 0);
}

/* The PCIe or NVLink path between the two, if the machine map has it. */
static const char *place_of(const struct search *s, int a, int b)
{
    if (!s->args->driver->caps.on_bus)
        return "";
    return sw_gpu_path_name(sw_gpu_path(s->args->machine, number_of(s, a), number_of(s, b)));
}

/* ---- The file: a line for each link ---- */

static void find_file(struct search *s)
{
    struct sw_err ignored;
    char *state = NULL;
    size_t bytes;

    if (sw_history_state_dir(&state, &ignored) == SW_OK)
        s->path = sw_format("%s/ways", state);
    sw_free(state);
    if (s->path && sw_os_read_file(s->path, FILE_BYTES, &s->saved, &bytes, &ignored) != SW_OK)
        s->saved = NULL;
}

static int timeout_ms_of(const struct search *s)
{
    return s->args->timeout_ms ? s->args->timeout_ms : s->args->self ? SELF_MS : TEST_MS;
}

/* "KEY\tsound\t23.4\t11\t1794000000\tWHY"; the last line of a key counts. */
static void read_line(const char *line, struct sw_peer_link *out)
{
    char state[16], why[sizeof out->why] = "";
    struct sw_peer_link w = {.state = SW_PEER_LINK_UNKNOWN};
    if (sscanf(line, "%15[a-z]\t%lf\t%lf\t%lf\t%159[^\n]", state, &w.gb_per_s, &w.latency_us,
               &w.tried_at, why) < 4)
        return;

    for (int i = 0; i < STATES; i++)
        if (strcmp(state, state_names[i]) == 0)
            w.state = (enum sw_peer_link_state)i;

    memcpy(w.why, why, sizeof w.why);
    *out = w;
}

/* Was the test given less time than it would be now? */
static bool is_short_of_time(const struct search *s, const struct sw_peer_link *w)
{
    double limit_s;

    return w->state == SW_PEER_LINK_HANGS &&
           sscanf(w->why, "not finished within %lf s", &limit_s) == 1 &&
           limit_s * 1e3 < timeout_ms_of(s);
}

static bool has_key(const char *line, const char *key)
{
    size_t n = strlen(key);
    return strncmp(line, key, n) == 0 && line[n] == '\t';
}

static void look_up(const struct search *s, struct test *t)
{
    for (const char *line = s->saved; line && *line;) {
        if (has_key(line, t->key))
            read_line(line + strlen(t->key) + 1, t->link);
        const char *end = strchr(line, '\n');
        line = end ? end + 1 : NULL;
    }

    /* An error of a device may have been temporary, such as memory in use by others. */
    if (is_short_of_time(s, t->link) || (s->args->self && t->link->state == SW_PEER_LINK_FAILS))
        *t->link = (struct sw_peer_link){.state = SW_PEER_LINK_UNKNOWN};
}

static void write_link(struct sw_bytes *out, const struct test *t)
{
    sw_bytes_printf(out, "%s\t%s\t%.6g\t%.6g\t%.0f\t%s\n", t->key, state_names[t->link->state],
                    t->link->gb_per_s, t->link->latency_us, t->link->tried_at, t->link->why);
}

/* Keeps the results of other devices, up to a limit. */
static void copy_others(const struct search *s, struct sw_bytes *out)
{
    int lines = 0;

    for (const char *line = s->saved; line && *line && lines < SAVED_LINES; lines++) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end + 1 - line) : strlen(line);
        bool replaced = false;

        for (int i = 0; i < s->tests && !replaced; i++)
            replaced = has_key(line, s->test[i].key);
        if (!replaced)
            sw_bytes_append(out, line, n);
        line = end ? end + 1 : NULL;
    }
}

/* Saves the results. Errors are ignored: the links are then tested again at the next start. */
static void save_results(const struct search *s)
{
    struct sw_bytes out = {0};
    struct sw_err ignored;

    if (!s->path || !s->found)
        return;

    for (int i = 0; i < s->tests; i++)
        if (s->test[i].link->state != SW_PEER_LINK_UNKNOWN)
            write_link(&out, &s->test[i]);

    copy_others(s, &out);

    char *folder = sw_strdup(s->path), *slash = folder ? strrchr(folder, '/') : NULL;
    int rc = slash ? SW_OK : SW_ERR_NOMEM;
    if (rc == SW_OK) {
        *slash = '\0';
        rc = sw_os_mkdirs(folder, 0700, &ignored);
    }

    if (rc == SW_OK && !out.failed)
        rc = sw_os_replace_file(s->path, out.text, out.length, 0600, &ignored);
    (void)rc;
    sw_free(folder);
    sw_bytes_fini(&out);
}

/* ---- Testing ---- */

static void set_result(struct search *s, struct sw_peer_link *w, enum sw_peer_link_state state,
                       const char *why)
{
    *w = (struct sw_peer_link){.state = state, .tried_at = sw_os()->unix_time()};
    const size_t line = strcspn(why, "\t\r\n"), room = sizeof w->why - 1;
    memcpy(w->why, why, line < room ? line : room);
    s->found |= state != SW_PEER_LINK_UNKNOWN;
}

static void read_answer(struct search *s, struct sw_peer_link *w, const char *line)
{
    double rate, latency;

    if (sscanf(line, "ok %lf %lf", &rate, &latency) == 2) {
        set_result(s, w, SW_PEER_LINK_SOUND, "");
        w->gb_per_s = rate;
        w->latency_us = latency;
    } else if (strcmp(line, "none") == 0) {
        set_result(s, w, SW_PEER_LINK_NONE, "not available");
    } else if (sw_str_starts(line, "damaged ")) {
        set_result(s, w, SW_PEER_LINK_DAMAGED, line + strlen("damaged "));
    } else {
        set_result(s, w, SW_PEER_LINK_FAILS,
                   sw_str_starts(line, "fails ") ? line + strlen("fails ") : line);
    }
}

static void set_hangs(struct search *s, struct sw_peer_link *w, int timeout_ms)
{
    char why[64];

    snprintf(why, sizeof why, "not finished within %g s", timeout_ms * 1e-3);
    set_result(s, w, SW_PEER_LINK_HANGS, why);
}

static int left_of(int limit_ms, int spent_ms)
{
    return spent_ms < limit_ms ? limit_ms - spent_ms : 0;
}

/* Reads results until one is missing; returns the number of tests that have a result. */
static int read_answers(struct search *s, struct sw_child *child, struct test *const *list,
                        int count)
{
    int timeout_ms = timeout_ms_of(s);
    char line[SW_CHILD_LINE];

    int64_t began_ns = sw_os()->monotonic_ns();
    int rc = sw_child_line(child, s->args->self ? timeout_ms : START_MS, line);
    if (rc == SW_ERR_BUSY && s->args->self) {
        set_hangs(s, list[0]->link, timeout_ms);
        return 1;
    }

    if (rc != SW_OK || strcmp(line, "ready") != 0) {
        for (int i = 0; i < count; i++)
            set_result(s, list[i]->link, SW_PEER_LINK_UNKNOWN,
                       rc == SW_OK && sw_str_starts(line, "fails ") ? line + strlen("fails ")
                                                                    : "the probe did not start");

        return count;
    }

    for (int i = 0; i < count; i++) {
        int spent_ms = (int)((sw_os()->monotonic_ns() - began_ns) / 1000000);
        rc = sw_child_line(child, s->args->self ? left_of(timeout_ms, spent_ms) : timeout_ms, line);
        if (rc == SW_OK) {
            read_answer(s, list[i]->link, line);
            continue;
        }

        if (rc == SW_ERR_BUSY)
            set_hangs(s, list[i]->link, timeout_ms);
        else
            set_result(s, list[i]->link, SW_PEER_LINK_FAILS, "the probe process died");
        return i + 1;
    }

    return count;
}

static int run_tests(struct search *s, struct test *const *list, int count, struct sw_err *err)
{
    char path[PATH_BYTES];
    struct sw_err why;
    struct sw_child child;
    const char **words = sw_calloc((size_t)count + 3, sizeof *words);
    if (!words)
        return sw_err_nomem(err, "links between devices", (size_t)count * sizeof *words);

    words[0] = path;
    words[1] = s->devices;

    int rc = sw_module_find("singa_probe", "SINGA_PROBE", path, sizeof path, &why);
    for (int i = 0; i < count; i++)
        words[2 + i] = list[i]->name;
    if (rc == SW_OK)
        rc = sw_child_start(&child, words, &why);
    if (rc != SW_OK) {
        for (int i = 0; i < count; i++)
            set_result(s, list[i]->link, SW_PEER_LINK_UNKNOWN, why.text);
        sw_free(words);
        return SW_OK;
    }

    int done = read_answers(s, &child, list, count);
    sw_child_end(&child);
    sw_free(words);

    return done < count ? run_tests(s, list + done, count - done, err) : SW_OK;
}

/* Tests all links from `first` on that have no saved result. */
static int run_unknown(struct search *s, int first, struct sw_err *err)
{
    int count = 0, rc = SW_OK;
    struct test **list = sw_calloc((size_t)s->tests + 1, sizeof *list);
    if (!list)
        return sw_err_nomem(err, "links between devices", (size_t)s->tests * sizeof *list);

    for (int i = first; i < s->tests; i++) {
        if (!s->args->retest)
            look_up(s, &s->test[i]);
        if (s->test[i].link->state == SW_PEER_LINK_UNKNOWN)
            list[count++] = &s->test[i];
    }

    if (count > 0 && !s->args->saved_only)
        rc = run_tests(s, list, count, err);
    sw_free(list);

    return rc;
}

/* ---- Choosing the tests ---- */

static int add(struct search *s, struct sw_peer_link *link, const char *kind, int a, int b,
               struct sw_err *err)
{
    struct test *t = &s->test[s->tests];

    snprintf(t->name, sizeof t->name, "%s:%d:%d", kind, a, b);
    t->key = sw_format("%s|%s|%s|%s|%s", kind, s->identity.device[a], s->identity.device[b],
                       place_of(s, a, b), s->common);

    t->link = link;
    if (!t->key)
        return sw_err_nomem(err, "links between devices", 0);

    s->tests++;
    return SW_OK;
}

static int add_sum(struct search *s, struct sw_err *err)
{
    struct test *t = &s->test[s->tests];
    struct sw_bytes key = {0};

    sw_bytes_add(&key, "sum");
    for (int i = 0; i < s->args->count; i++)
        sw_bytes_printf(&key, "|%s|%s", s->identity.device[i], place_of(s, 0, i));
    sw_bytes_printf(&key, "|%s", s->common);
    snprintf(t->name, sizeof t->name, "sum:%d", s->args->count);
    t->key = sw_bytes_take(&key);

    t->link = &s->peer_links->sum;
    if (!t->key)
        return sw_err_nomem(err, "links between devices", 0);

    s->tests++;
    return SW_OK;
}

/* A device itself. */
static int search_device(struct search *s, struct sw_err *err)
{
    struct test *t = &s->test[0];

    snprintf(t->name, sizeof t->name, "self:0");
    t->key = sw_format("self|%s|%s", s->identity.device[0], s->common);
    t->link = &s->peer_links->self;
    if (!t->key)
        return sw_err_nomem(err, "links between devices", 0);

    s->tests++;
    return run_unknown(s, 0, err);
}

/* Tests direct copies first; copies through the host if direct ones are not sound; the all-reduce
 * only if no direct copy, which a library would use, is faulty. */
static int search_links(struct search *s, struct sw_err *err)
{
    int n = s->args->count, rc = SW_OK, first = 0;
    bool harm = false;

    for (int a = 0; a < n && rc == SW_OK; a++)
        for (int b = 0; b < n && rc == SW_OK; b++)
            if (a != b)
                rc = add(s, &s->peer_links->direct[a * n + b], "direct", a, b, err);

    if (rc == SW_OK)
        rc = run_unknown(s, first, err);
    first = s->tests;

    for (int i = 0; i < n * n && rc == SW_OK; i++) {
        enum sw_peer_link_state state = s->peer_links->direct[i].state;
        if (i / n != i % n && state != SW_PEER_LINK_SOUND)
            rc = add(s, &s->peer_links->staged[i], "staged", i / n, i % n, err);
        harm |= state != SW_PEER_LINK_SOUND && state != SW_PEER_LINK_NONE && i / n != i % n;
    }

    if (rc == SW_OK && first < s->tests)
        rc = run_unknown(s, first, err);
    first = s->tests;
    if (rc != SW_OK || !s->args->sums)
        return rc;

    if (harm) {
        snprintf(s->peer_links->sum.why, sizeof s->peer_links->sum.why,
                 "not tested because direct copies are not sound");
        return SW_OK;
    }

    rc = add_sum(s, err);
    return rc == SW_OK ? run_unknown(s, first, err) : rc;
}

/* ---- Life ---- */

static int make(struct search *s, struct sw_err *err)
{
    size_t n = (size_t)s->args->count;
    struct sw_peer_links *w = s->peer_links = sw_calloc(1, sizeof *w);

    s->test = sw_calloc(2 * n * n + 1, sizeof *s->test);
    if (!w || !s->test)
        return sw_err_nomem(err, "links between devices", n * n * sizeof *s->test);

    w->count = s->args->count;
    w->name = sw_calloc(n, sizeof *w->name);
    w->direct = sw_calloc(n * n, sizeof *w->direct);
    w->staged = sw_calloc(n * n, sizeof *w->staged);

    return w->name && w->direct && w->staged
               ? SW_OK
               : sw_err_nomem(err, "links between devices", 2 * n * n * sizeof *w->direct);
}

static void free_search(struct search *s)
{
    for (int i = 0; s->identity.device && i < s->args->count; i++)
        sw_free(s->identity.device[i]);
    for (int i = 0; i < s->tests; i++)
        sw_free(s->test[i].key);
    sw_free(s->identity.device);
    sw_free(s->identity.options);
    sw_free(s->identity.common);
    sw_free(s->test);
    sw_free(s->devices);
    sw_free(s->common);
    sw_free(s->path);
    sw_free(s->saved);
}

int sw_peer_links_find(const struct sw_peer_links_args *args, struct sw_peer_links **out,
                       struct sw_err *err)
{
    struct search s = {.args = args};
    int rc = make(&s, err);

    if (rc == SW_OK)
        rc = identify(&s, err);

    if (rc == SW_OK) {
        find_file(&s);
        rc = args->self ? search_device(&s, err) : search_links(&s, err);
    }

    if (rc == SW_OK && !args->saved_only)
        save_results(&s);
    free_search(&s);
    if (rc != SW_OK) {
        sw_peer_links_free(s.peer_links);
        return rc;
    }

    *out = s.peer_links;
    return SW_OK;
}

void sw_peer_links_free(struct sw_peer_links *w)
{
    if (!w)
        return;

    sw_free(w->name);
    sw_free(w->direct);
    sw_free(w->staged);
    sw_free(w);
}

/* ---- Queries ---- */

bool sw_peer_links_reach(const struct sw_peer_links *w, int a, int b)
{
    return sw_peer_links_direct(w, a, b)->state == SW_PEER_LINK_SOUND &&
           sw_peer_links_direct(w, b, a)->state == SW_PEER_LINK_SOUND;
}

static bool is_bad(const struct sw_peer_link *w)
{
    return w->state == SW_PEER_LINK_DAMAGED || w->state == SW_PEER_LINK_HANGS ||
           w->state == SW_PEER_LINK_FAILS;
}

const struct sw_peer_link *sw_peer_links_worst(const struct sw_peer_links *w)
{
    for (int i = 0; i < w->count * w->count; i++)
        if (is_bad(&w->staged[i]))
            return &w->staged[i];

    for (int i = 0; i < w->count * w->count; i++)
        if (is_bad(&w->direct[i]))
            return &w->direct[i];

    return is_bad(&w->sum) ? &w->sum : NULL;
}
