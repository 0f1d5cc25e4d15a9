/* Rates that nobody has given or measured. The contract is in plan/usual_rates.h. */
#include "plan/usual_rates.h"

const struct sw_host_rates sw_usual_host_rates = {.link_bytes_per_s = SW_USUAL_NET_BYTES_PER_S,
                                                  .flops_per_s = SW_USUAL_HOST_FLOPS_PER_S,
                                                  .memory_bytes_per_s = SW_USUAL_MEMORY_BYTES_PER_S,
                                                  .source = "assumed, not measured"};

struct sw_throughputs sw_usual_throughputs(const struct sw_device_caps *caps, int threads,
                                           double link_bytes_per_s)
{
    const double cores = SW_USUAL_CORE_FLOPS_PER_S * (threads > 1 ? threads : 1);
    struct sw_throughputs t = {.known = true,
                               .worker_flops_per_s = cores,
                               .server_flops_per_s = cores,
                               .memory_bytes_per_s = SW_USUAL_MEMORY_BYTES_PER_S,
                               .device_memory_bytes_per_s = SW_USUAL_MEMORY_BYTES_PER_S,
                               .link_bytes_per_s = SW_USUAL_MEMORY_BYTES_PER_S};

    if (caps->own_processor) {
        t.worker_flops_per_s = SW_USUAL_GPU_FLOPS_PER_S;
        t.server_flops_per_s = SW_USUAL_HOST_FLOPS_PER_S;
        t.device_memory_bytes_per_s = SW_USUAL_GPU_MEMORY_BYTES_PER_S;
        t.link_bytes_per_s = SW_USUAL_PCIE_BYTES_PER_S;
    }

    if (link_bytes_per_s > 0)
        t.link_bytes_per_s = link_bytes_per_s;
    if (caps->host_memory)
        t.link_bytes_per_s = 0;
    return t;
}
