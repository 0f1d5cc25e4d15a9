/* A job's fault: keeps the first error and closes everything that was attached. Closers run under
 * the fault's lock, so once detach has returned, no closer is using the object. The lock order is
 * therefore fault before queue or table, and a closer never calls the fault. The contract is in
 * thread/fault.h. */
#include "thread/fault.h"

#include "base/os.h"
#include <stdio.h>
#include <string.h>

void sw_fault_init(struct sw_fault *f)
{
    memset(f, 0, sizeof *f);
    atomic_init(&f->code, 0);
    sw_mutex_init(&f->lock);
}

void sw_fault_fini(struct sw_fault *f)
{
    sw_mutex_fini(&f->lock);
    sw_free(f->closers);
}

int sw_fault_attach(struct sw_fault *f, void (*close)(void *object), void *object,
                    struct sw_err *err)
{
    struct sw_fault_closer *added;
    int rc = SW_OK;

    sw_mutex_lock(&f->lock);

    if (sw_fault_is_set(f))
        close(object);
    else if ((added = sw_array_add(&f->closers, &f->closer_count, sizeof *added)))
        *added = (struct sw_fault_closer){close, object};
    else
        rc = sw_err_nomem(err, "list of objects that a fault closes", sizeof *added);

    sw_mutex_unlock(&f->lock);
    return rc;
}

void sw_fault_detach(struct sw_fault *f, void *object)
{
    sw_mutex_lock(&f->lock);

    int kept = 0;
    for (int i = 0; i < f->closer_count; i++)
        if (f->closers[i].object != object)
            f->closers[kept++] = f->closers[i];

    f->closer_count = kept;
    sw_mutex_unlock(&f->lock);
}

void sw_fault_set(struct sw_fault *f, const char *source, const struct sw_err *e)
{
    if (e->code != SW_ERR_CANCELLED)
        sw_fault_stop(f, source, e);
}

void sw_fault_stop(struct sw_fault *f, const char *source, const struct sw_err *e)
{
    sw_mutex_lock(&f->lock);

    if (!sw_fault_is_set(f)) {
        f->first = *e;
        if (f->first.code == SW_OK)
            f->first.code = SW_ERR_LIBRARY;
        snprintf(f->source, sizeof f->source, "%s", source);

        /* Release pairs with the acquire of sw_fault_is_set; the code is set before anything
         * closes, so that a thread that wakes up finds the reason. */
        atomic_store_explicit(&f->code, f->first.code, memory_order_release);
        for (int i = 0; i < f->closer_count; i++)
            f->closers[i].close(f->closers[i].object);
    }

    sw_mutex_unlock(&f->lock);
}

int sw_fault_get(struct sw_fault *f, struct sw_err *err)
{
    sw_mutex_lock(&f->lock);

    int code = atomic_load_explicit(&f->code, memory_order_relaxed);
    if (code != SW_OK)
        sw_err_set(err, code, "%s: %s", f->source, f->first.text);
    sw_mutex_unlock(&f->lock);

    return code;
}
