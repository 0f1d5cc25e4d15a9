/* Memory for what the device reports about a step, in one copy: when it reached which mark, the
 * result of update control, and whether updates were finite; and for what the host uploads before
 * the step. */
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

    int rc = sw_device_host_alloc(x->args.device, 2 * r->bytes, "marks and numbers of updates",
                                  &r->host, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_device_alloc(x->args.device, r->bytes, "marks and numbers of updates", &memory, err);
    if (rc != SW_OK)
        return rc;

    r->marks = memory;
    r->host_marks = r->host;

    char *at = (char *)(r->marks + SW_MARKS);
    const char *host_at = (const char *)(r->host_marks + SW_MARKS);
    if (controls) {
        r->control = (struct sw_update_control_result *)(void *)at;
        r->control_on_host = (const struct sw_update_control_result *)(const void *)host_at;
        at += sizeof *r->control;
        host_at += sizeof *r->control;
    }

    r->ask_bytes = (size_t)(at - (char *)memory) + flags;
    if (!updates)
        return SW_OK;

    r->bad = (bool *)at;
    r->host_bad = (const bool *)host_at;
    r->numbers = (struct sw_update_numbers *)(void *)(at + aligned(flags));
    r->known = (struct sw_update_control_input *)(void *)(r->numbers + x->count);
    r->sent = (struct sw_update_numbers *)(void *)((char *)r->host + r->bytes);
    r->sent_known = (struct sw_update_control_input *)(void *)(r->sent + x->count);

    return SW_OK;
}

void sw_device_report_free(struct sw_exchange *x)
{
    sw_device_free(x->args.device, x->report.marks, x->report.bytes);
    sw_device_host_free(x->args.device, x->report.host, 2 * x->report.bytes);
}
