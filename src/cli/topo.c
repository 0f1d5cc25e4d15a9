/* singa-ws topo: shows the machine as placement sees it, and where the workers and servers of a
 * recipe would be placed, on this machine or on a described one. Opens no data, writes nothing. */
#include "base/json.h"
#include "cli/machine/machine.h"
#include "cli/machine/peer_links.h"
#include "cli/plot/picture.h"
#include "cli/training/trainer.h"
#include "plan/conf.h"

struct options {
    struct sw_cli_common common;
    const char *from, *plot;
    bool measure;
};

static const struct sw_cli_option own[] = {
    SW_CLI_TEXT_OPTION(
        struct options, from, "from", "FILE|SYNTHETIC",
        "another machine: an hwloc XML file, or a description such as \"numa:4 core:6 pu:2\""),
    SW_CLI_FLAG_OPTION(
        struct options, measure, "measure",
        "test the peer links between GPUs again: verify copied bytes and measure bandwidth"),
    SW_CLI_TEXT_OPTION(
        struct options, plot, "plot", "FILE",
        "also draw the machine with its workers and servers to FILE.png or FILE.svg"),
    {0},
};

/* What is shown; all borrowed. */
struct view {
    const struct sw_machine *machine;
    const struct sw_placement *placement;
    const char *framework, *framework_reason;
    const struct sw_job_plan *plan;         /* NULL without a recipe */
    const struct sw_peer_links *peer_links; /* between GPUs; NULL: there are none */
    bool verbose;
};

static void print_text(struct sw_bytes *out, const struct view *v)
{
    sw_print_machine(out, v->machine);
    if (v->peer_links)
        sw_print_peer_links(out, v->peer_links, "copies", 13);

    if (v->plan)
        sw_bytes_printf(out, "\nrecipe       %s (%s), device %s\n", v->plan->name, v->plan->recipe,
                        v->plan->device);
    else
        sw_bytes_add(out, "\nrecipe       none: the defaults of a recipe without [cluster]\n");

    if (v->plan)
        sw_report_device(out, v->plan);
    sw_bytes_printf(out, "framework    %s (%s)\n", v->framework, v->framework_reason);
    if (v->plan)
        sw_report_copy(out, v->plan);
    sw_bytes_add(out, "placement    ");
    sw_print_placement(out, v->placement, "             ", v->verbose);
    if (v->plan)
        sw_report_warnings(out, v->plan);
}

static void print_json(struct sw_bytes *out, const struct view *v)
{
    struct sw_json_writer w;

    sw_cli_json_begin(&w, out);
    sw_json_machine(&w, v->machine);
    sw_json_open_array(&w, "copies");
    if (v->peer_links)
        sw_json_peer_links(&w, v->peer_links);
    sw_json_close_array(&w);
    sw_json_string(&w, "name", v->plan ? v->plan->name : NULL);
    sw_json_string(&w, "recipe", v->plan ? v->plan->recipe : NULL);
    sw_json_string(&w, "device", v->plan ? v->plan->device : sw_driver_host()->name);
    sw_json_string(&w, "device_reason", v->plan ? v->plan->device_why : "");
    sw_json_string(&w, "framework", v->framework);
    sw_json_string(&w, "framework_reason", v->framework_reason);
    sw_json_string(&w, "copy", v->plan ? v->plan->copy : "");
    sw_json_string(&w, "copy_reason", v->plan ? v->plan->copy_why : "");
    sw_json_placement(&w, v->placement);
    sw_cli_json_end(&w);
}

static int show(const struct options *o, struct view v)
{
    struct sw_bytes out = {0};
    struct sw_peer_links *peer_links = NULL;
    struct sw_err err;

    int rc = o->plot ? sw_draw_placement(o->plot, v.machine, v.placement, &err) : SW_OK;
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);
    rc =
        sw_cli_peer_links(v.plan ? v.plan->device : NULL, v.machine, o->measure, &peer_links, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    v.peer_links = peer_links;
    v.verbose = o->common.verbose > 0;

    if (o->common.json)
        print_json(&out, &v);
    else
        print_text(&out, &v);

    int code = sw_cli_print(&out);
    sw_peer_links_free(peer_links);
    sw_bytes_fini(&out);

    return code;
}

static int show_recipe(const struct options *o)
{
    struct sw_trainer t = {0};
    struct sw_err err;
    struct sw_job_options job = sw_trainer_job_of(&o->common);

    job.only_placement = true;
    job.machine = o->from;

    int code, rc = sw_trainer_init(&t, &o->common, &err);
    if (rc == SW_OK)
        rc = sw_trainer_open(&t, &job, &err);

    if (rc != SW_OK) {
        code = sw_trainer_refuse(&t, rc, &err);
    } else {
        const struct sw_job_plan *p = sw_job_plan(t.job);

        code = show(o, (struct view){.machine = p->machine,
                                     .placement = p->placement,
                                     .framework = p->framework,
                                     .framework_reason = p->framework_reason,
                                     .plan = p});
    }

    sw_trainer_fini(&t);
    return code;
}

static int show_machine(const struct options *o)
{
    struct sw_machine *m = NULL;
    struct sw_placement *p = NULL;
    struct sw_cluster_shape shape;
    struct sw_framework_choice framework;
    struct sw_err err;
    const char *key;

    int code, rc = o->from ? sw_machine_from(o->from, &m, &err) : sw_machine_here(&m, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);
    rc = sw_cluster_shape(&(struct sw_cluster_conf){0}, m, &shape, &framework, &key, &err);
    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
        goto out;
    }
    rc = sw_placement_new(m, &shape, false, &p, &err);
    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
        goto out;
    }

    code = show(o, (struct view){.machine = m,
                                 .placement = p,
                                 .framework = framework.name,
                                 .framework_reason = framework.reason});

out:
    sw_placement_free(p);
    sw_machine_free(m);

    return code;
}

static int topo(void *options)
{
    const struct options *o = options;
    const struct sw_cli_common *c = &o->common;

    if (o->plot && !sw_picture_is_named("topo", o->plot))
        return SW_EXIT_USAGE;
    if (c->arg_count > 0)
        return show_recipe(o);

    const char *unused = c->sets.count      ? "set"
                         : c->device        ? "device"
                         : c->framework     ? "framework"
                         : c->oversubscribe ? "oversubscribe"
                                            : NULL;
    if (unused)
        return sw_cli_usage("topo", "--%s needs a RECIPE", unused);

    return show_machine(o);
}

const struct sw_verb sw_verb_topo = {
    .name = "topo",
    .help = "show the machine and where workers and servers would run",
    .usage = "[OPTION]... [RECIPE]",
    .about =
        "Shows this machine: packages, NUMA nodes, caches, cores, GPUs and network cards with\n"
        "their PCIe position, the links between GPUs; and on which cores the workers and servers\n"
        "of RECIPE would run (with -v also why). Without RECIPE, the default [cluster] is placed.\n"
        "What a cpuset, taskset or CUDA_VISIBLE_DEVICES hides is not shown.",
    .more = "`lstopo machine.xml` writes the description of a machine. --device cuda and cuda:0,2\n"
            "place workers on the machine's GPUs even if this program cannot use them.",
    .takes = SW_CLI_SET | SW_CLI_DEVICE | SW_CLI_JSON | SW_CLI_VERBOSE | SW_CLI_FRAMEWORK |
             SW_CLI_OVERSUBSCRIBE | SW_CLI_STAGE,
    SW_CLI_OPTIONS(struct options, own),
    .max_args = 1,
    .run = topo,
};
