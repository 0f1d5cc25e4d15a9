/* Lists of given figures. Input: the list. What is accepted is within limits, and a machine with it
 * can be built, unless its numbers of hosts and GPUs contradict each other. */
#include "planner/machine_build.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void try_machine(const struct sw_given_figures *given)
{
    static struct sw_machine *map;
    struct sw_machine_model *m = NULL;
    struct sw_err err;
    int hosts, gpus;
    if (!map && sw_machine_from("numa:2 core:2 pu:1", &map, &err) != SW_OK)
        abort();

    const struct sw_machine_args args = {.map = map, .given = given};
    const int rc = sw_machine_build(&args, &m, &err);
    if (sw_given_counts(given, &hosts, &gpus, &err) == SW_OK &&
        (gpus > 0 || hosts <= SW_MODEL_DEVICES / 2))
        demand(rc == SW_OK);
    if (rc != SW_OK)
        return;

    for (int link = 0; link < sw_machine_model_links(m); link++)
        demand(sw_machine_model_rate(m, link) >= 1e3);
    const struct sw_model_path p = sw_machine_model_path(m, 0, m->device_count - 1);
    demand(p.count <= SW_PATH_LINKS && p.bytes_per_s > 0 && p.latency_s >= 0);
    sw_machine_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_given_figures given = {.hosts.value = 0};
    struct sw_err err;
    char *list = malloc(bytes + 1);
    demand(list);

    memcpy(list, data, bytes);
    list[bytes] = '\0';

    if (sw_given_parse(&given, list, "--what-if", &err) == SW_OK) {
        demand(isfinite(given.flops_per_s.value) && given.net_bytes_per_s.value <= 1.25e12);
        try_machine(&given);
    } else {
        demand(strstr(err.text, "line ") != NULL);
    }

    free(list);
    return 0;
}
