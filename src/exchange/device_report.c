/* Memory for what the device reports about a step, in one copy: when it reached which mark, the
 * result of update control, and whether updates were finite; and for what the host uploads before
 * the step. The device has one block, which its stream reads and writes in order. The host has two,
 * so that it can prepare a step while the device has not yet read or reported the one before. */
#include "base/os.h"
#include "exchange/exchange_private.h"

static size_t aligned(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

size_t sw_device_report_bytes(int ports, bool updates, bool controls)
{
    size_t bytes = SW_MARKS * sizeof(int64_t);

    if (updates)
        bytes += aligned((size_t)ports * sizeof(bool)) +
                 (size_t)ports * sizeof(struct sw_update_numbers);

    if (controls)
        bytes += sizeof(struct sw_update_control_result) + sizeof(struct sw_update_control_input);
    return bytes;
}

int sw_device_report_make(struct sw_exchange *x, struct sw_err *err)
{
    struct sw_device_report *r = &x->report;
    bool updates = sw_exchange_updates(&x->args), controls = x->control_state != NULL;
    size_t flags = updates ? (size_t)x->count * sizeof(bool) : 0;
    void *memory;

    r->bytes = sw_device_report_bytes(x->count, updates, controls);
    r->versions = sw_calloc(2 * (size_t)x->count + 1, sizeof *r->versions);
    if (!r->versions)
        return sw_err_nomem(err, "versions of updates", 2 * (size_t)x->count * sizeof(int64_t));

    int rc = sw_device_host_alloc(x->args.device, 2 * r->bytes, "marks and numbers of updates",
                                  &r->host, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_device_alloc(x->args.device, r->bytes, "marks and numbers of updates", &memory, err);
    if (rc != SW_OK)
        return rc;

    r->marks = memory;

    char *at = (char *)(r->marks + SW_MARKS);
    if (controls) {
        r->control = (struct sw_update_control_result *)(void *)at;
        at += sizeof *r->control;
    }

    r->ask_bytes = (size_t)(at - (char *)memory) + flags;
    if (!updates)
        return SW_OK;

    r->bad = (bool *)at;
    r->numbers = (struct sw_update_numbers *)(void *)(at + aligned(flags));
    r->known = (struct sw_update_control_input *)(void *)(r->numbers + x->count);

    return SW_OK;
}

void *sw_device_report_on_host(const struct sw_device_report *r, const void *on_device, int behind)
{
    size_t block = (size_t)(r->turn ^ behind) * r->bytes;

    return (char *)r->host + block + ((const char *)on_device - (const char *)r->marks);
}

void sw_device_report_free(struct sw_exchange *x)
{
    sw_device_free(x->args.device, x->report.marks, x->report.bytes);
    sw_device_host_free(x->args.device, x->report.host, 2 * x->report.bytes);
    sw_free(x->report.versions);
}
