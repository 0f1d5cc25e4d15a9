/* Describes the NCCL module to the module loader and loads it. A module that cannot be loaded
 * counts as unsupported, since libnccl is often not installed. The contract is in
 * device/cuda/nccl_module.h. */
#include "device/cuda/nccl_module.h"

static const struct sw_module_kind kind = {
    .file = "singa_nccl.so",
    .variable = "SINGA_NCCL_MODULE",
    .table = "sw_nccl_module",
    .abi = SW_NCCL_ABI,
    .table_bytes = SW_NCCL_TABLE_BYTES,
    .what = "NCCL",
    .without = "configure with -DSINGA_NCCL=ON where CUDA and nccl.h are",
    .optional = true, /* usually libnccl.so.2 is missing, as the text says */
};

int sw_nccl_load(const struct sw_nccl_module **out, struct sw_err *err)
{
    const void *table = NULL;
    int rc = sw_module_load(&kind, &table, err);
    if (rc == SW_OK)
        *out = table;
    return rc;
}
