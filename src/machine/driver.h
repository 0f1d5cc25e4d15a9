/* Makes the GPUs of the machine map agree with those that the driver lets this process use. In a
 * container they may differ in both directions: PCI shows GPUs that the container may not use, or
 * does not show those that it may. Called once, before any other thread reads the map. */
#pragma once

#include "device/driver.h"
#include "machine/machine.h"

/* Matches the map with the devices that the driver lists. Errors: those of the driver's enumerate,
 * SW_ERR_NOMEM. */
int sw_machine_ask_driver(struct sw_machine *m, const struct sw_driver *driver,
                          struct sw_err *err) SW_MUST_CHECK;

/* Hides the GPUs of the map that are not in the list and renumbers the others; appends GPUs of the
 * list that the map lacks, without a NUMA node. */
int sw_machine_match_gpus(struct sw_machine *m, const struct sw_device_info *list, int count,
                          struct sw_err *err) SW_MUST_CHECK;
