/* Finds and loads modules, the shared objects that hold the parts with optional libraries (CUDA,
 * NCCL, MPI). A module is refused unless its interface number and the size of its table
 * are those of this build. The contract is in device/module.h. */
#include "device/module.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* ---- Where it is ---- */

/* The folder of libsinga, with its last slash; "" when the loader does not know. */
static void library_folder(char *out)
{
    static const char here;
    Dl_info info;

    out[0] = '\0';
    if (!dladdr(&here, &info) || !info.dli_fname)
        return;

    const char *slash = strrchr(info.dli_fname, '/');
    if (slash)
        snprintf(out, PATH_BYTES, "%.*s", (int)(slash + 1 - info.dli_fname), info.dli_fname);
}

static bool is_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    const bool opens = f != NULL;

    if (opens)
        fclose(f);
    return opens;
}

int sw_module_find(const char *file, const char *variable, char *path, size_t bytes,
                   struct sw_err *err)
{
    const char *override = getenv(variable);
    char folder[PATH_BYTES];

    if (override && *override) {
        snprintf(path, bytes, "%s", override);
        return is_file(path) ? SW_OK
                             : sw_err_set(err, SW_ERR_NOTFOUND, "%s names %s, which cannot be read",
                                          variable, override);
    }

    library_folder(folder);

    static const char *const subfolders[] = {"singa-ws/", ""};
    for (size_t i = 0; i < sizeof subfolders / sizeof *subfolders; i++) {
        int n = snprintf(path, bytes, "%s%s%s", folder, subfolders[i], file);
        if (n > 0 && (size_t)n < bytes && is_file(path))
            return SW_OK;
    }

    return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s not found in %ssinga-ws", file, folder);
}

static int find(const struct sw_module_kind *k, char *path, struct sw_err *err)
{
    struct sw_err why;

    int rc = sw_module_find(k->file, k->variable, path, PATH_BYTES, &why);
    if (rc == SW_ERR_UNSUPPORTED)
        return sw_err_set(err, rc, "this build has no %s: %s (%s)", k->what, why.text, k->without);

    if (rc != SW_OK && err)
        *err = why;
    return rc;
}

int sw_module_installed(const struct sw_module_kind *k, struct sw_err *err)
{
    char path[PATH_BYTES];
    return find(k, path, err);
}

/* ---- Loading ---- */

static int check(const struct sw_module_kind *k, const char *path, const struct sw_module_head *m,
                 struct sw_err *err)
{
    if (m->abi != k->abi)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s has interface %u, this program needs %u: install both from one build",
                          path, (unsigned)m->abi, (unsigned)k->abi);

    if (m->table_bytes != k->table_bytes)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s was built from different sources than this program (tables of %u "
                          "bytes, not %u): install both from one build",
                          path, (unsigned)m->table_bytes, (unsigned)k->table_bytes);
    return SW_OK;
}

int sw_module_load(const struct sw_module_kind *k, const void **out, struct sw_err *err)
{
    char path[PATH_BYTES];

    int rc = find(k, path, err);
    if (rc != SW_OK)
        return rc;

    /* RTLD_NODELETE, since threads that a driver starts at its first use must keep their code. */
    void *module = dlopen(path, RTLD_NOW | RTLD_NODELETE | (k->global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!module) {
        const char *why = dlerror();
        return sw_err_set(err, k->optional ? SW_ERR_UNSUPPORTED : SW_ERR_LIBRARY,
                          "the %s cannot be loaded: %s", k->what, why ? why : path);
    }

    const struct sw_module_head *m = dlsym(module, k->table);
    rc = m ? check(k, path, m, err)
           : sw_err_set(err, SW_ERR_UNSUPPORTED, "%s is not a %s of singa-ws: it has no symbol %s",
                        path, k->what, k->table);
    if (rc != SW_OK) {
        dlclose(module);
        return rc;
    }

    *out = m;
    return SW_OK;
}
