/* Collects the facts of all hosts, measures the links, and prints both. The lines with facts come
 * by the thread that relays the output of the hosts. The contract is in cli/hosts/preflight.h. */
#include "cli/hosts/preflight.h"

#include "base/json.h"
#include "base/os.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/hosts/facts.h"
#include "cli/terminal/columns.h"
#include "run/link_test.h"
#include "thread/thread.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST = SW_LAUNCH_MOST_TCP, LOOK_MS = 100 };

struct sw_preflight {
    struct sw_job_on_hosts hosts;
    int count;
    bool share_machine;
    int64_t parameters;
    char why[256];
    char name[MOST][SW_LAUNCH_NAME];
    struct sw_link link[MOST * MOST]; /* [count * count] */
    int64_t offset_ns[MOST], error_ns[MOST];
    struct sw_mutex lock; /* guards facts while hosts run */
    struct sw_facts facts[MOST];
};

/* ---- Facts ---- */

static bool take_line(void *user, int host, const char *line)
{
    struct sw_preflight *p = user;

    sw_mutex_lock(&p->lock);
    const bool used = sw_facts_read(&p->facts[host], line);
    sw_mutex_unlock(&p->lock);

    return used;
}

static bool has_all_facts(struct sw_preflight *p)
{
    int complete = 0;

    sw_mutex_lock(&p->lock);
    for (int i = 0; i < p->count; i++)
        complete += p->facts[i].complete;
    sw_mutex_unlock(&p->lock);

    return complete == p->count;
}

/* Opening the job can take long on a host with slow disks, so there is no limit but the user's
 * patience; a host that fails stops this process. */
static int wait_for_facts(struct sw_preflight *p, struct sw_err *err)
{
    while (!has_all_facts(p)) {
        int rc = sw_stop_check(err);
        if (rc != SW_OK)
            return rc;
        sw_thread_nap(LOOK_MS * 1000000);
    }

    return SW_OK;
}

/* ---- Running ---- */

static int test_links(const struct sw_launch *l, struct sw_link *links, int64_t *offset_ns,
                      int64_t *error_ns, struct sw_err *err)
{
    const struct sw_link_test_args args = {.hosts = &l->hosts,
                                           .engine = l->engine,
                                           .conf = l->conf,
                                           .key = l->key,
                                           .bytes = SW_LINK_TEST_BYTES};
    return sw_link_test(&args, links, offset_ns, error_ns, err);
}

static int measure(struct sw_preflight *p, const struct sw_job *open, struct sw_err *err)
{
    const struct sw_launch *l = p->hosts.launch;

    sw_mutex_lock(&p->lock);
    sw_facts_of(open, &p->facts[0]);
    sw_mutex_unlock(&p->lock);
    p->parameters = sw_job_plan(open)->params;
    p->share_machine = l->share_machine;
    memcpy(p->why, l->why, sizeof p->why);

    int rc = wait_for_facts(p, err);
    return rc == SW_OK ? test_links(l, p->link, p->offset_ns, p->error_ns, err) : rc;
}

static int begin(struct sw_preflight *p, const struct sw_hosts_options *o,
                 const struct sw_job_options *job, const struct sw_job *open,
                 struct sw_report *report, struct sw_err *err)
{
    struct sw_job_options options = *job;

    p->hosts.task = SW_JOIN_CHECK;
    p->hosts.line = take_line;
    p->hosts.line_user = p;
    int rc = sw_job_on_hosts_start(&p->hosts, o, &options, sw_job_recipe(open), report, err);
    if (rc != SW_OK || !p->hosts.launch)
        return rc;

    if (!p->hosts.launch->by_ssh)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "hosts can be checked and planned for only if --hosts starts them: run this without "
            "mpirun, srun or torchrun");
    return SW_OK;
}

static void set_names(struct sw_preflight *p)
{
    const struct sw_hosts *hosts = &p->hosts.launch->hosts;

    p->count = hosts->count;
    for (int i = 0; i < p->count; i++)
        memcpy(p->name[i], hosts->host[i].name, strlen(hosts->host[i].name) + 1);
}

int sw_preflight_run(const struct sw_hosts_options *o, const struct sw_job_options *job,
                     const struct sw_job *open, struct sw_report *report, struct sw_preflight **out,
                     struct sw_err *err)
{
    struct sw_preflight *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "check of the hosts", sizeof *p);

    sw_mutex_init(&p->lock);
    int rc = begin(p, o, job, open, report, err);
    const bool several = rc == SW_OK && p->hosts.launch;
    if (several) {
        set_names(p);
        rc = measure(p, open, err);
    }

    const int code = sw_cli_exit_code(rc);
    if (sw_job_on_hosts_end(&p->hosts, 0, code) != code)
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "a host cannot take part");
    if (rc == SW_OK && several) {
        *out = p;
        return SW_OK;
    }

    sw_preflight_free(p);
    return rc;
}

void sw_preflight_free(struct sw_preflight *p)
{
    if (!p)
        return;

    sw_mutex_fini(&p->lock);
    sw_free(p);
}

int sw_preflight_join(const struct sw_job *open, const struct sw_launch *launch, struct sw_err *err)
{
    struct sw_link links[MOST * MOST];
    struct sw_facts facts;
    struct sw_bytes lines = {0};

    sw_facts_of(open, &facts);
    sw_facts_write(&facts, &lines);
    (void)sw_cli_write(sw_bytes_text(&lines), lines.length); /* host 0 may be gone */
    sw_bytes_fini(&lines);

    return test_links(launch, links, NULL, NULL, err);
}

/* ---- Results ---- */

/* The first host that differs from host 0 in a fact that must be the same, from `from` on; count:
 * none. */
static int next_difference(const struct sw_preflight *p, enum sw_fact fact, int from)
{
    while (from < p->count && sw_str_eq(p->facts[from].text[fact], p->facts[0].text[fact]))
        from++;
    return from;
}

/* An earlier host that is the same machine, which was not allowed; -1: none. */
static int same_machine(const struct sw_preflight *p, int host)
{
    const char *id = p->facts[host].text[SW_FACT_MACHINE];

    for (int i = 0; i < host && *id && !p->share_machine; i++)
        if (sw_str_eq(id, p->facts[i].text[SW_FACT_MACHINE]))
            return i;
    return -1;
}

bool sw_preflight_differs(const struct sw_preflight *p)
{
    for (int i = 1; i < p->count; i++)
        if (same_machine(p, i) >= 0)
            return true;

    for (int fact = 0; fact < SW_FACTS; fact++)
        if (sw_fact_must_agree(fact) && next_difference(p, fact, 1) < p->count)
            return true;
    return false;
}

/* How host i differs from host 0, as far as a plan would need to know. */
static void describe_unlike(const struct sw_preflight *p, int i, char *out, size_t bytes)
{
    static const struct {
        enum sw_fact fact;
        const char *unit;
    } rows[] = {{SW_FACT_CORES, " cores"}, {SW_FACT_GPUS, ""}};

    for (size_t r = 0; r < sizeof rows / sizeof *rows && !*out; r++) {
        const char *own = p->facts[0].text[rows[r].fact], *other = p->facts[i].text[rows[r].fact];

        if (!sw_str_eq(own, other))
            snprintf(out, bytes, "%s has %.64s%s, and %s has %.64s%s", p->name[i],
                     *other ? other : "no GPU", rows[r].unit, p->name[0], *own ? own : "no GPU",
                     rows[r].unit);
    }
}

void sw_preflight_figures(const struct sw_preflight *p, struct sw_preflight_figures *out)
{
    int slowest = 1; /* the link from host 0 to host 1 */
    int64_t cores;

    *out = (struct sw_preflight_figures){.hosts = p->count};
    for (int i = 0; i < p->count * p->count; i++) {
        if (i / p->count == i % p->count)
            continue;
        out->latency_s = fmax(out->latency_s, p->link[i].round_trip_s / 2);
        slowest = p->link[i].bytes_per_s < p->link[slowest].bytes_per_s ? i : slowest;
    }

    out->bytes_per_s = p->link[slowest].bytes_per_s;
    snprintf(out->source, sizeof out->source, "measured, slowest link: %.17s to %.17s",
             p->name[slowest / p->count], p->name[slowest % p->count]);

    for (int i = 0; i < p->count; i++) {
        if (sw_parse_int(p->facts[i].text[SW_FACT_CORES], &cores) && cores > 0 &&
            (out->least_cores == 0 || cores < out->least_cores))
            out->least_cores = (int)cores;
        if (i > 0 && !*out->unlike)
            describe_unlike(p, i, out->unlike, sizeof out->unlike);
    }
}

static double exchange_s(const struct sw_preflight *p)
{
    return sw_link_exchange_s(p->link, p->count, p->parameters);
}

static void clock_cell(const struct sw_preflight *p, int host, struct sw_columns *t)
{
    if (host == 0 || p->error_ns[host] < 0)
        sw_columns_cell(t, "%s", host == 0 ? "" : "--");
    else
        sw_columns_cell(t, "%+.1f ms (+-%.1f)", (double)p->offset_ns[host] / 1e6,
                        (double)p->error_ns[host] / 1e6);
}

static void print_hosts(const struct sw_preflight *p, struct sw_bytes *out)
{
    struct sw_columns t = {0};

    sw_columns_begin(&t, "host|version|>cores|memory|cpu|GPUs|device|clock");
    for (int i = 0; i < p->count; i++) {
        const struct sw_facts *f = &p->facts[i];
        int64_t bytes;
        char memory[32] = "--";

        if (sw_parse_int(f->text[SW_FACT_MEMORY], &bytes))
            sw_human_bytes(memory, (double)bytes);
        sw_columns_cell(&t, "%s", p->name[i]);
        sw_columns_cell(&t, "%s", f->text[SW_FACT_VERSION]);
        sw_columns_cell(&t, "%s", f->text[SW_FACT_CORES]);
        sw_columns_cell(&t, "%s", memory);
        sw_columns_cell(&t, "%s", f->text[SW_FACT_CPU]);
        sw_columns_cell(&t, "%s", f->text[SW_FACT_GPUS][0] ? f->text[SW_FACT_GPUS] : "none");
        sw_columns_cell(&t, "%s", f->text[SW_FACT_DEVICE]);
        clock_cell(p, i, &t);
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_links(const struct sw_preflight *p, struct sw_bytes *out)
{
    struct sw_columns t = {0};

    sw_columns_begin(&t, "from|to|>throughput|>round trip");
    for (int i = 0; i < p->count * p->count; i++) {
        const int from = i / p->count, to = i % p->count;
        char rate[32], time[32];

        if (from == to)
            continue;
        sw_columns_cell(&t, "%s", p->name[from]);
        sw_columns_cell(&t, "%s", p->name[to]);
        sw_columns_cell(&t, "%s", sw_human_unit(rate, p->link[i].bytes_per_s, "B/s"));
        sw_columns_cell(&t, "%s", sw_human_seconds(time, p->link[i].round_trip_s));
    }

    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_differences(const struct sw_preflight *p, struct sw_bytes *out)
{
    for (int i = 1; i < p->count; i++)
        if (same_machine(p, i) >= 0)
            sw_bytes_printf(out, "problem      %s and %s are the same machine\n",
                            p->name[same_machine(p, i)], p->name[i]);

    for (int fact = 0; fact < SW_FACTS; fact++)
        for (int i = next_difference(p, fact, 1); i < p->count && sw_fact_must_agree(fact);
             i = next_difference(p, fact, i + 1))
            sw_bytes_printf(out, "problem      %s: %s has \"%s\", %s has \"%s\"\n",
                            sw_fact_name(fact), p->name[0], p->facts[0].text[fact], p->name[i],
                            p->facts[i].text[fact]);
}

void sw_preflight_print(const struct sw_preflight *p, struct sw_bytes *out)
{
    char count[32], time[32];

    sw_bytes_printf(out, "\nhosts        %s\n\n", p->why);
    print_hosts(p, out);
    sw_bytes_add(out, "\n");
    print_links(p, out);
    sw_bytes_printf(out,
                    "\nexchange     %s per step for the gradients of %s parameters, if nothing "
                    "hides it\n",
                    sw_human_seconds(time, exchange_s(p)),
                    sw_human_count(count, (double)p->parameters));
    print_differences(p, out);
}

static void json_fact(const struct sw_facts *f, enum sw_fact fact, struct sw_json_writer *w)
{
    const char *text = f->text[fact];
    int64_t number;

    if (sw_fact_is_number(fact) && sw_parse_int(text, &number))
        sw_json_int(w, sw_fact_name(fact), number);
    else
        sw_json_string(w, sw_fact_name(fact), *text ? text : NULL);
}

static void json_host(const struct sw_preflight *p, int host, struct sw_json_writer *w)
{
    const bool known = host > 0 && p->error_ns[host] >= 0;

    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", p->name[host]);
    for (int fact = 0; fact < SW_FACTS; fact++)
        json_fact(&p->facts[host], fact, w);
    sw_json_real(w, "clock_offset_s", known ? (double)p->offset_ns[host] / 1e9 : host ? NAN : 0);
    sw_json_real(w, "clock_error_s", known ? (double)p->error_ns[host] / 1e9 : host ? NAN : 0);
    sw_json_close_object(w);
}

void sw_preflight_json(const struct sw_preflight *p, struct sw_json_writer *w)
{
    sw_json_open_array(w, "hosts");
    for (int i = 0; i < p->count; i++)
        json_host(p, i, w);
    sw_json_close_array(w);

    sw_json_open_array(w, "links");
    for (int i = 0; i < p->count * p->count; i++) {
        if (i / p->count == i % p->count)
            continue;
        sw_json_open_object(w, NULL);
        sw_json_string(w, "from", p->name[i / p->count]);
        sw_json_string(w, "to", p->name[i % p->count]);
        sw_json_real(w, "bytes_per_s", p->link[i].bytes_per_s);
        sw_json_real(w, "round_trip_s", p->link[i].round_trip_s);
        sw_json_close_object(w);
    }
    sw_json_close_array(w);

    sw_json_real(w, "exchange_s", exchange_s(p));
    sw_json_bool(w, "hosts_agree", !sw_preflight_differs(p));
}
