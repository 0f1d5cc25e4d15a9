/* PCIe links: their current speed against the possible one, and the bridges between devices. */
#include "cli/doctor/doctor.h"
#include <string.h>

static void report_link(struct sw_doctor *d, const struct sw_link_state *l)
{
    if (l->width < 0 || l->max_width < 0)
        return;

    if (l->width < l->max_width)
        sw_doctor_find(
            d, SW_FINDING_WARN, "pcie",
            "copies over it are slower in proportion; the card is not fully in its slot, or "
            "the slot has fewer lanes or shares them",
            "put the card into a slot with all lanes (see the board's manual), clean its "
            "contacts, or try another riser",
            "%s %s uses %d of %d lanes", l->kind, l->bus, l->width, l->max_width);
    else if (l->speed_gt_per_s < l->max_gt_per_s && strcmp(l->kind, "GPU") == 0)
        sw_doctor_find(
            d, SW_FINDING_NOTE, "pcie",
            "an idle GPU lowers the speed of its link; it should rise under load",
            "check again during a run; if it stays low, set the slot's PCIe generation in the "
            "firmware setup",
            "%s %s: x%d at %.3g of %.3g GT/s", l->kind, l->bus, l->width, l->speed_gt_per_s,
            l->max_gt_per_s);
    else if (l->speed_gt_per_s < l->max_gt_per_s)
        sw_doctor_find(d, SW_FINDING_NOTE, "pcie", "the slot has an older PCIe generation",
                       "use another slot if runs wait for data", "%s %s: x%d at %.3g of %.3g GT/s",
                       l->kind, l->bus, l->width, l->speed_gt_per_s, l->max_gt_per_s);
    else
        sw_doctor_ok(d, "pcie", "%s %s: x%d at %.3g GT/s", l->kind, l->bus, l->width,
                     l->speed_gt_per_s);
}

static void json_link(struct sw_json_writer *w, const struct sw_link_state *l)
{
    sw_json_open_object(w, NULL);
    sw_json_string(w, "kind", l->kind);
    sw_json_string(w, "bus", l->bus);
    sw_json_real(w, "gt_per_s", l->speed_gt_per_s);
    sw_json_real(w, "max_gt_per_s", l->max_gt_per_s);
    sw_json_int(w, "lanes", l->width);
    sw_json_int(w, "max_lanes", l->max_width);
    sw_json_close_object(w);
}

int sw_doctor_links(struct sw_doctor *d, struct sw_err *err)
{
    const struct sw_survey *s = &d->survey;

    sw_json_open_array(&d->json, "links");

    for (int i = 0; i < s->link_count; i++) {
        report_link(d, &s->links[i]);
        json_link(&d->json, &s->links[i]);
    }

    sw_json_close_array(&d->json);

    if (d->machine->gpu_count > 1 && s->acs_bridges > 0)
        sw_doctor_find(
            d, SW_FINDING_WARN, "pcie",
            "copies between GPUs are routed through the processor; on some machines they hang "
            "or arrive damaged",
            "disable ACS in the firmware setup, or boot with pci=noacs, unless a virtual "
            "machine needs it",
            "%d PCIe bridges redirect peer-to-peer traffic (ACS)", s->acs_bridges);

    if (d->machine->gpu_count > 1 && s->iommu)
        sw_doctor_find(d, SW_FINDING_NOTE, "pcie",
                       "copies between GPUs may be slow or arrive damaged when it translates "
                       "addresses",
                       "boot with iommu=pt if the copies tested below are slow or damaged",
                       "an IOMMU is enabled");

    return SW_OK;
}
