/* Rates that are taken for those of devices, memories and links where nobody has given or measured
 * them: the only place for them, so that comm = auto, memory = fit, the order of buckets, `check`
 * and `plan` mean the same machine. They depend on the kind of device alone, so that defaults
 * are the same on every machine. Pure functions; any thread. */
#pragma once

#include "device/driver.h"
#include "plan/exchange_cost.h"

/* A core with AVX2, and memory as one core uses it. */
#define SW_USUAL_CORE_FLOPS_PER_S 4e10
#define SW_USUAL_MEMORY_BYTES_PER_S 1e10
/* A GPU of some years ago, on a PCIe 3.0 slot with 16 lanes. */
#define SW_USUAL_GPU_FLOPS_PER_S 1e13
#define SW_USUAL_GPU_MEMORY_BYTES_PER_S 5e11
#define SW_USUAL_PCIE_BYTES_PER_S 1.2e10
#define SW_USUAL_COPY_S 10e-6  /* a copy's latency */
#define SW_USUAL_LAUNCH_S 5e-6 /* until an operation begins */
#define SW_USUAL_WAKE_S 10e-6  /* until a thread goes on that another one wakes */
/* Two sockets with two links between them; a network of 1 Gbit/s; a host of a few cores. */
#define SW_USUAL_SOCKET_BYTES_PER_S 3e10
#define SW_USUAL_NET_BYTES_PER_S 118e6
#define SW_USUAL_MESSAGE_S 100e-6
#define SW_USUAL_HOST_FLOPS_PER_S 1e11

/* Of a worker on such a device with `threads` math threads (a GPU has one for its host code, a
 * simulated one computes with them), whose link moves that many bytes per second (0: unknown). A
 * worker on cores has no link. */
struct sw_throughputs sw_usual_throughputs(const struct sw_device_caps *caps, int threads,
                                           double link_bytes_per_s);
