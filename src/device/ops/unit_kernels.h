/* Arguments of operations on Boltzmann machines' units (device/ops/units.h) as kernels have them,
 * for those of the CPU and of GPUs. Step and first row are not set: where the step lies in device
 * memory only kernels can read it. */
#ifndef SW_DEVICE_OPS_UNIT_KERNELS_H
#define SW_DEVICE_OPS_UNIT_KERNELS_H

#include "device/ops/units.h"
#include "kernels/cpu/kernels.h"

static inline struct sw_kernel_units sw_units_kernel(const struct sw_units_args *a)
{
    return (struct sw_kernel_units){.units = a->units,
                                    .rows = a->rows,
                                    .columns = a->columns,
                                    .first_column = a->first_column,
                                    .x = a->x,
                                    .bias = a->bias,
                                    .total = a->total,
                                    .mean = a->mean,
                                    .sample = a->sample,
                                    .share = a->share,
                                    .key = a->key};
}

static inline struct sw_kernel_unit_energy
sw_unit_energy_kernel(const struct sw_unit_energy_args *a)
{
    return (struct sw_kernel_unit_energy){.units = a->units,
                                          .free = a->free,
                                          .add = a->add,
                                          .rows = a->rows,
                                          .columns = a->columns,
                                          .x = a->x,
                                          .bias = a->bias,
                                          .total = a->total,
                                          .energy = a->energy};
}

static inline struct sw_kernel_flip sw_flip_kernel(const struct sw_flip_args *a)
{
    return (struct sw_kernel_flip){.hidden_units = a->hidden_units,
                                   .rows = a->rows,
                                   .visible = a->visible,
                                   .hidden = a->hidden,
                                   .v = a->v,
                                   .x = a->x,
                                   .weight = a->weight,
                                   .bias = a->bias,
                                   .visible_bias = a->visible_bias,
                                   .rise = a->rise,
                                   .key = a->key};
}

#endif
