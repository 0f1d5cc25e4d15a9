/* Measures the rates between hosts, and takes the slowest. */
#include "run/host_rates.h"

#include "base/os.h"
#include "base/str.h"
#include "run/job_private.h"
#include "run/launch.h"
#include "run/link_test.h"
#include "run/throughput.h"
#include "worker/worker.h"

/* Of the measurement, without the time until all hosts are there. */
#define MOST_S 0.2

enum { FLOPS, MEMORY };

static double least(double a, double b)
{
    return a > 0 && a < b ? a : b;
}

/* Takes the rates of the slowest host and of the slowest link. */
static void take(const struct sw_hosts *hosts, const struct sw_link *links,
                 double (*figures)[SW_LINK_FIGURES], struct sw_host_links *out)
{
    const int count = hosts->count;
    int slowest = 1; /* the link from host 0 to host 1 */

    out->rates.flops_per_s = figures[0][FLOPS];
    out->rates.memory_bytes_per_s = figures[0][MEMORY];
    for (int i = 1; i < count; i++) {
        out->rates.flops_per_s = least(out->rates.flops_per_s, figures[i][FLOPS]);
        out->rates.memory_bytes_per_s = least(out->rates.memory_bytes_per_s, figures[i][MEMORY]);
    }

    for (int i = 0; i < count * count; i++) {
        out->bytes_per_s[i / count][i % count] = links[i].bytes_per_s;
        if (i / count != i % count && links[i].bytes_per_s < links[slowest].bytes_per_s)
            slowest = i;
    }

    out->rates.link_bytes_per_s = links[slowest].bytes_per_s;
    snprintf(out->rates.source, sizeof out->rates.source,
             "measured, the slowest link from %s to %s", hosts->host[slowest / count].name,
             hosts->host[slowest % count].name);
}

static int measure(struct sw_job *job, const char *hello, struct sw_host_links *out,
                   struct sw_err *err)
{
    const struct sw_job_hosts *h = job->options.hosts;
    const struct sw_throughputs *own = sw_throughputs_of(&job->speed.throughputs, job->workers);
    const struct sw_cluster_conf *cluster = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    double figures[SW_MOST_HOSTS][SW_LINK_FIGURES] = {{0}};
    const size_t count = (size_t)(h->list->count * h->list->count);
    struct sw_link *links = sw_calloc(count, sizeof *links);

    if (!links)
        return sw_err_nomem(err, "rates of links", count * sizeof *links);

    figures[h->list->own][FLOPS] = own->worker_flops_per_s * job->topology->workers;
    figures[h->list->own][MEMORY] = own->memory_bytes_per_s;

    struct sw_link_test_args args = {.hosts = h->list,
                                     .engine = h->engine,
                                     .conf = h->conf,
                                     .key = h->key,
                                     .clock = h->clock,
                                     .bytes = SW_LINK_TEST_BYTES,
                                     .seconds = MOST_S,
                                     .bytes_per_s = cluster->bandwidth,
                                     .hello = hello,
                                     .figures = figures};
    int rc = sw_job_hosts_meet(job, &args.connect_ms, &args.log, err);
    if (rc == SW_OK)
        rc = sw_link_test(&args, links, NULL, NULL, err);
    sw_log_free(args.log);
    sw_launch_reopen(h->launch);

    if (rc == SW_OK)
        take(h->list, links, figures, out);
    sw_free(links);
    return rc;
}

int sw_host_rates_measure(struct sw_job *job, struct sw_host_rates *out, struct sw_err *err)
{
    struct sw_host_links *links = job->options.hosts->launch->links;
    struct sw_bytes hello = {0};
    int rc = SW_OK;

    if (!links->known) {
        sw_job_hosts_say_settings(job, &hello);
        rc = hello.failed ? sw_err_nomem(err, "what hosts must agree on", hello.length)
                          : measure(job, sw_bytes_text(&hello), links, err);
        links->known = rc == SW_OK;
    }

    sw_bytes_fini(&hello);
    if (rc == SW_OK)
        *out = links->rates;
    return rc;
}

double sw_host_rates_of(const struct sw_job *job, int from, int to)
{
    const struct sw_launch *l = job->options.hosts ? job->options.hosts->launch : NULL;

    return l && l->links->known ? l->links->bytes_per_s[from][to] : 0;
}
