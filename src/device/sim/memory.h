/* Memory of the sim device: allocations, pointer checks, names of memory, and the duration of
 * copies. Functions without a comment are entries of the device's table, described in
 * device/device.h. */
#pragma once

#include "device/sim/sim_private.h"

/* memory.c */
int sw_sim_memory_init(struct sw_sim_device *d, struct sw_err *err) SW_MUST_CHECK;
void sw_sim_memory_fini(struct sw_sim_device *d);
int sw_sim_alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err);
/* d->lock is held. Frees an allocation. Errors: SW_ERR_INVALID if an operation may still use it;
 * *lane is the lane of that operation. */
int sw_sim_free(struct sw_sim_device *d, const void *p, const struct sw_sim_lane **lane,
                struct sw_err *err) SW_MUST_CHECK;
int sw_sim_host_alloc(struct sw_device *dev, size_t bytes, const char *what, void **out,
                      struct sw_err *err);
void sw_sim_host_free(struct sw_device *dev, void *p, size_t bytes);
struct sw_device_bytes sw_sim_bytes(struct sw_device *dev);
void sw_sim_memory_name(struct sw_device *dev, const void *p, size_t bytes, const char *what);
/* Whether the address is in the address range of this device. */
bool sw_sim_is_mine(const struct sw_sim_device *d, const void *p);
/* Translates a device address of `bytes` bytes to the real address; `argument` names it in errors.
 * NULL with 0 bytes stays NULL. *block is the number of the allocation: 0 is replaced by it,
 * another value must be equal to it. Errors: SW_ERR_INVALID if the bytes are not inside one live
 * allocation, or in a different allocation than *block. */
int sw_sim_reach(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                 uint64_t *block, void **out, struct sw_err *err) SW_MUST_CHECK;
/* Checks that host memory is readable. Errors: SW_ERR_INVALID. */
int sw_sim_reach_host(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                      struct sw_err *err) SW_MUST_CHECK;

/* name.c. `from` is an offset from the device's start, or an address of the host. `out` has
 * SW_SIM_WHAT bytes and becomes "" if the memory has no name. */
void sw_sim_names_init(struct sw_sim_names *n);
void sw_sim_names_fini(struct sw_sim_names *n);
void sw_sim_name_add(struct sw_sim_names *n, size_t from, size_t bytes, const char *what);
void sw_sim_name_free(struct sw_sim_names *n, size_t from, size_t to);
void sw_sim_name_of(struct sw_sim_names *n, size_t from, size_t bytes, char *out);
void sw_sim_name_of_freed(struct sw_sim_names *n, size_t from, size_t bytes, char *out);

/* link.c. Whether a copy by device `by` is direct. NULL: that side is the host. */
bool sw_sim_link_direct(struct sw_sim_device *by, const struct sw_sim_device *dst,
                        const struct sw_sim_device *src);
/* Occupies the links for a copy by a stream of `by` that starts at now_ns, and returns when it
 * ends. sw_sim_link_pass does the arithmetic, without locks. */
int64_t sw_sim_link_take(struct sw_sim_device *by, struct sw_sim_device *dst,
                         struct sw_sim_device *src, size_t bytes, int64_t now_ns);
int64_t sw_sim_link_pass(struct sw_sim_link *out, struct sw_sim_link *in, int64_t now_ns,
                         size_t bytes, bool direct, const struct sw_sim_conf *conf);
bool sw_sim_peer_reaches(struct sw_device *dev, struct sw_device *peer);
int sw_sim_peer_reach(struct sw_device *dev, struct sw_device *peer, struct sw_err *err);
