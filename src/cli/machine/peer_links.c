/* Finds and prints the paths between devices: direct (peer to peer) or through host memory, with
 * bandwidth and latency, and whether they were verified. The contract is in
 * cli/machine/peer_links.h. */
#include "cli/machine/peer_links.h"

#include "base/str.h"
#include "device/driver.h"

const struct sw_peer_link *sw_peer_links_saved(const struct sw_peer_links *w, int from, int to)
{
    const struct sw_peer_link *direct = sw_peer_links_direct(w, from, to);
    return direct->state == SW_PEER_LINK_SOUND ? direct : sw_peer_links_staged(w, from, to);
}

int sw_cli_peer_links(const char *device, const struct sw_machine *machine, bool measure,
                      struct sw_peer_links **out, struct sw_err *err)
{
    struct sw_peer_links_args args = {
        .machine = machine, .sums = true, .saved_only = !measure, .retest = measure};
    struct sw_device_request request;
    struct sw_err why;

    *out = NULL;

    int rc = sw_device_request_parse(device ? device : "auto", &request, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_device_caps *caps = &request.driver->caps;
    const bool simulated = !caps->host_memory && !caps->on_bus;
    args.driver = simulated ? request.driver : sw_driver_on_bus();
    args.options = request.options;
    args.count = simulated ? request.count : machine->here ? machine->gpu_count : 0;
    if (args.count > SW_PEER_LINKS_DEVICES)
        args.count = SW_PEER_LINKS_DEVICES;
    if (args.count < 2)
        return SW_OK;

    rc = sw_peer_links_find(&args, out, &why);
    if (rc == SW_ERR_NOMEM && err)
        *err = why;

    return rc == SW_ERR_NOMEM ? rc : SW_OK; /* without CUDA no path can be used */
}

static void print_link(struct sw_bytes *out, const struct sw_peer_links *w, int a, int b)
{
    const struct sw_peer_link *direct = sw_peer_links_direct(w, a, b),
                              *link = sw_peer_links_saved(w, a, b);
    char rate[32], time[32];

    sw_bytes_printf(out, "%s to %s: ", w->name[a], w->name[b]);

    if (direct->state == SW_PEER_LINK_UNKNOWN)
        sw_bytes_printf(out, "not verified%s%s", direct->why[0] ? ": " : "", direct->why);
    else if (link == direct)
        sw_bytes_printf(out, "directly, %s, %s, verified",
                        sw_human_unit(rate, link->gb_per_s * 1e9, "B/s"),
                        sw_human_seconds(time, link->latency_us * 1e-6));
    else if (link->state == SW_PEER_LINK_SOUND)
        sw_bytes_printf(out, "through the host, %s, %s, verified",
                        sw_human_unit(rate, link->gb_per_s * 1e9, "B/s"),
                        sw_human_seconds(time, link->latency_us * 1e-6));
    else
        sw_bytes_printf(out, "through the host: %s%s%s", sw_peer_link_state_name(link->state),
                        link->why[0] ? ": " : "", link->why);

    if (direct->state > SW_PEER_LINK_NONE)
        sw_bytes_printf(out, "; direct: %s: %s", sw_peer_link_state_name(direct->state),
                        direct->why);
    sw_bytes_add(out, "\n");
}

void sw_print_peer_links(struct sw_bytes *out, const struct sw_peer_links *w, const char *title,
                         int indent)
{
    char rate[32], time[32];
    bool first = true;

    for (int a = 0; a < w->count; a++)
        for (int b = 0; b < w->count; b++) {
            if (a == b)
                continue;

            sw_bytes_printf(out, "%-*s", indent, first ? title : "");
            print_link(out, w, a, b);
            first = false;
        }

    sw_bytes_printf(out, "%-*sall-reduce: ", indent, "");

    if (w->sum.state == SW_PEER_LINK_SOUND)
        sw_bytes_printf(out, "%s, %s, verified\n",
                        sw_human_unit(rate, w->sum.gb_per_s * 1e9, "B/s"),
                        sw_human_seconds(time, w->sum.latency_us * 1e-6));
    else
        sw_bytes_printf(out, "%s%s%s\n",
                        w->sum.state == SW_PEER_LINK_UNKNOWN
                            ? "not verified"
                            : sw_peer_link_state_name(w->sum.state),
                        w->sum.why[0] ? ": " : "", w->sum.why);
}

void sw_json_peer_links(struct sw_json_writer *w, const struct sw_peer_links *peer_links)
{
    for (int a = 0; a < peer_links->count; a++)
        for (int b = 0; b < peer_links->count; b++) {
            const struct sw_peer_link *link = sw_peer_links_saved(peer_links, a, b);
            if (a == b)
                continue;

            sw_json_open_object(w, NULL);
            sw_json_string(w, "from", peer_links->name[a]);
            sw_json_string(w, "to", peer_links->name[b]);
            sw_json_real(w, "gb_per_s", link->gb_per_s);
            sw_json_real(w, "latency_us", link->latency_us);
            sw_json_string(w, "direct",
                           sw_peer_link_state_name(sw_peer_links_direct(peer_links, a, b)->state));
            sw_json_bool(w, "verified", link->state == SW_PEER_LINK_SOUND);
            sw_json_close_object(w);
        }
}
