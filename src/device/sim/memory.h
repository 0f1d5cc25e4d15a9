/* Memory of the sim device: allocations, what a pointer is, what places are called, and how long
 * copies take. Functions without a word are rows of the device's table: device/device.h. */
#pragma once

#include "device/sim/sim_private.h"

/* memory.c */
int sw_sim_memory_init(struct sw_sim_device *d, struct sw_err *err) SW_MUST_CHECK;
void sw_sim_memory_fini(struct sw_sim_device *d);
int sw_sim_alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err);
void sw_sim_place(struct sw_device *dev, void *p, size_t bytes, uint64_t nodes);
/* d->lock is held. Gives an allocation back, SW_ERR_INVALID when somebody may still use it: *lane
 * is that one's. */
int sw_sim_give_back(struct sw_sim_device *d, const void *p, const struct sw_sim_lane **lane,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_sim_pin(struct sw_device *dev, void *p, size_t bytes, bool pinned);
int sw_sim_host_alloc(struct sw_device *dev, size_t bytes, const char *what, void **out,
                      struct sw_err *err);
void sw_sim_host_free(struct sw_device *dev, void *p, size_t bytes);
struct sw_device_bytes sw_sim_bytes(struct sw_device *dev);
void sw_sim_memory_name(struct sw_device *dev, const void *p, size_t bytes, const char *what);
/* Is it an address that this device might have handed out? */
bool sw_sim_is_mine(const struct sw_sim_device *d, const void *p);
/* Where `bytes` bytes at a device address really are; argument names it in the error. NULL with no
 * bytes stays NULL. *block is the number of their allocation: 0 is filled in, another one must be
 * the same. Errors: SW_ERR_INVALID when they do not lie in one live allocation, or in another one
 * than before. */
int sw_sim_reach(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                 uint64_t *block, void **out, struct sw_err *err) SW_MUST_CHECK;
/* The same for host memory, which is at its address. Errors: SW_ERR_INVALID when it cannot be read.
 */
int sw_sim_reach_host(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                      struct sw_err *err) SW_MUST_CHECK;

/* name.c. Places are offsets from the device's start, or addresses of the host; `out` has
 * SW_SIM_WHAT bytes and becomes "" where nothing has a name. */
void sw_sim_names_init(struct sw_sim_names *n);
void sw_sim_names_fini(struct sw_sim_names *n);
void sw_sim_name_add(struct sw_sim_names *n, size_t from, size_t bytes, const char *what);
void sw_sim_name_free(struct sw_sim_names *n, size_t from, size_t to);
void sw_sim_name_of(struct sw_sim_names *n, size_t from, size_t bytes, char *out);
void sw_sim_name_of_freed(struct sw_sim_names *n, size_t from, size_t bytes, char *out);

/* link.c. Does a copy by one of the two go directly? NULL: that side is the host. */
bool sw_sim_link_direct(struct sw_sim_device *by, const struct sw_sim_device *dst,
                        const struct sw_sim_device *src);
/* When a copy of a stream of `by` ends that is asked for at now_ns. The links are taken by it;
 * sw_sim_link_pass is the arithmetic, without locks. */
int64_t sw_sim_link_take(struct sw_sim_device *by, struct sw_sim_device *dst,
                         struct sw_sim_device *src, size_t bytes, int64_t now_ns);
int64_t sw_sim_link_pass(struct sw_sim_link *out, struct sw_sim_link *in, int64_t now_ns,
                         size_t bytes, bool direct, const struct sw_sim_conf *conf);
bool sw_sim_peer_reaches(struct sw_device *dev, struct sw_device *peer);
int sw_sim_peer_reach(struct sw_device *dev, struct sw_device *peer, struct sw_err *err);
