/* The GPUs of the machine map against those that their driver lets this process use. Containers
 * hide the one from the other in both directions: PCI shows GPUs that were not handed in, or shows
 * none of those that were. Called once, before anybody else reads the map. */
#pragma once

#include "device/driver.h"
#include "machine/machine.h"

/* Lets the driver list its devices, and matches the map with them. Errors: those of the driver's
 * enumerate, SW_ERR_NOMEM. */
int sw_machine_ask_driver(struct sw_machine *m, const struct sw_driver *driver,
                          struct sw_err *err) SW_MUST_CHECK;

/* GPUs of the map that are not in the list are hidden, and numbers close up; those of the list that
 * the map lacks follow, near to no node. */
int sw_machine_match_gpus(struct sw_machine *m, const struct sw_device_info *list, int count,
                          struct sw_err *err) SW_MUST_CHECK;
