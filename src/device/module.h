/* Modules: parts of this program that are loaded on demand, since the libraries that they need are
 * not installed on every machine. Each is a shared object that exports one table and nothing else;
 * the first two members of the table identify its interface. A module is in the folder singa-ws
 * next to libsinga, or in the folder of libsinga (a build tree); an environment variable names
 * another file. It is never unloaded. Any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of every table. */
struct sw_module_head {
    uint32_t abi, table_bytes;
};

struct sw_module_kind {
    const char *file, *variable; /* "singa_cuda.so", "SINGA_CUDA_MODULE" */
    const char *table;           /* "sw_cuda_module" */
    uint32_t abi, table_bytes;   /* that the caller requires */
    const char *what;            /* "CUDA device" */
    const char *without;         /* advice for a build without the module */
    bool optional; /* a library that it needs may be missing: then SW_ERR_UNSUPPORTED */
    bool global;   /* plug-ins of its libraries take these libraries' symbols from the process */
};

/* Finds a file that is installed with libsinga, as described above, and writes its path. Errors:
 * SW_ERR_NOTFOUND (the variable names no file), SW_ERR_UNSUPPORTED (this build has none). */
int sw_module_find(const char *file, const char *variable, char *path, size_t bytes,
                   struct sw_err *err) SW_MUST_CHECK;

/* Whether sw_module_load would find the file; loads nothing. Errors: SW_ERR_UNSUPPORTED (there is
 * none, with the advice of the kind), SW_ERR_NOTFOUND (the variable names no file). */
int sw_module_installed(const struct sw_module_kind *kind, struct sw_err *err) SW_MUST_CHECK;

/* Loads the module and stores its table in *out. Errors: SW_ERR_UNSUPPORTED (there is none, or it
 * was built from different sources), SW_ERR_NOTFOUND (the variable names no file), SW_ERR_LIBRARY
 * (it cannot be loaded: a library that it needs is missing). */
int sw_module_load(const struct sw_module_kind *kind, const void **out,
                   struct sw_err *err) SW_MUST_CHECK;
