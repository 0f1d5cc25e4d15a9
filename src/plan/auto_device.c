/* Decides what `device = auto` stands for. The contract is in plan/auto_device.h. */
#include "plan/auto_device.h"

#include "base/str.h"
#include "plan/peer_links.h"
#include <stdio.h>

/* Tests one GPU. *sound is false where there is no result, too; `why` gets the reason. */
static int test_gpu(const struct sw_auto_device_args *a, int gpu, bool *sound, struct sw_bytes *why,
                    struct sw_err *err)
{
    const struct sw_peer_links_args args = {.driver = a->driver,
                                            .options = "",
                                            .machine = a->machine,
                                            .indices = &gpu,
                                            .count = 1,
                                            .self = true,
                                            .saved_only = a->saved_only,
                                            .timeout_ms = a->timeout_ms};
    struct sw_peer_links *found;
    struct sw_err reason;

    int rc = sw_peer_links_find(&args, &found, &reason);
    if (rc == SW_ERR_NOMEM && err)
        *err = reason;
    if (rc == SW_ERR_NOMEM)
        return rc;

    *sound = rc == SW_OK && found->self.state == SW_PEER_LINK_SOUND;

    if (!*sound) {
        const char *text = rc != SW_OK          ? reason.text
                           : found->self.why[0] ? found->self.why
                                                : "it has not been tested yet, which a run does";
        sw_bytes_printf(why, "%s%s:%d (%s) is not used: %s", why->length ? "; " : "",
                        a->driver->name, gpu, sw_machine_gpu(a->machine, gpu)->name, text);
    }

    if (rc == SW_OK)
        sw_peer_links_free(found);
    return SW_OK;
}

int sw_auto_device(const struct sw_auto_device_args *args, char *text, size_t text_bytes, char *why,
                   size_t why_bytes, struct sw_err *err)
{
    const int count = args->machine->gpu_count;
    struct sw_bytes list = {0}, reasons = {0};
    int sound = 0, rc = SW_OK;

    if (args->workers > count)
        sw_bytes_printf(&reasons, "%d workers need a %s each, and there are %d", args->workers,
                        args->driver->label, count);

    for (int i = 0; i < count && args->workers <= count && rc == SW_OK; i++) {
        bool good = false;

        rc = test_gpu(args, i, &good, &reasons, err);
        if (good)
            sw_bytes_printf(&list, "%s%d", sound++ ? "," : "", i);
    }

    if (sound < args->workers)
        snprintf(text, text_bytes, "%s", sw_driver_host()->name);
    else if (sound == count)
        snprintf(text, text_bytes, "%s", args->driver->name);
    else
        snprintf(text, text_bytes, "%s:%s", args->driver->name, sw_bytes_text(&list));
    snprintf(why, why_bytes, "%s", sw_bytes_text(&reasons));

    sw_bytes_fini(&list);
    sw_bytes_fini(&reasons);
    return rc;
}
