/* Loads OpenBLAS and runs it on one thread: parallel work is divided here, so that tiles depend on
 * shapes only. The OpenMP build of OpenBLAS starts a team of omp_get_max_threads() when it is
 * called outside a parallel region, and keeps its own thread count in a global that every change of
 * size rewrites.
 *
 * A call of OpenBLAS takes a buffer from a pool that grows and never shrinks. If the system refuses
 * memory for another buffer, OpenBLAS retries forever. So the buffers of all threads that may call
 * at once are allocated beforehand, each after a check for memory. */
#include "device/cpu/blas.h"
#include "base/os.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sizes of a buffer on 64-bit systems, and an upper bound for the libraries. */
enum { BUFFER_BYTES = 128 << 20, LIBRARY_BYTES = 64 << 20 };

/* ---- Loading ---- */

static const struct sw_module_kind kind = {
    .file = "singa_blas.so",
    .variable = "SINGA_BLAS_MODULE",
    .table = "sw_blas_module",
    .abi = SW_BLAS_ABI,
    .table_bytes = SW_BLAS_TABLE_BYTES,
    .what = "OpenBLAS",
    .without = "install the module next to the library",
    .optional = true, /* usually libopenblas is missing, as the text says */
};

/* These are global, as are OpenBLAS, its pool and its thread count: the table, which is set once
 * (atomic), the number of threads that hold it, and the number of buffers allocated. The last two
 * are accessed only in the critical sections sw_blas. */
static const struct sw_blas_module *table;
static int held, made;

/* Memory that OpenBLAS allocates when it is loaded: one buffer per core, and one more. */
static size_t load_bytes(void)
{
    const char *set = getenv("OPENBLAS_NUM_THREADS");
    const long cores = sysconf(_SC_NPROCESSORS_CONF), wanted = set ? atol(set) : 0;
    const long threads = wanted > 0 && wanted < cores ? wanted : cores;
    return LIBRARY_BYTES + (size_t)(threads + 1) * BUFFER_BYTES;
}

static int load(struct sw_err *err)
{
    const void *found = NULL;

    if (table)
        return SW_OK;

    int rc = sw_cpu_need_room(
        "OpenBLAS with a buffer for each core; OPENBLAS_NUM_THREADS=1 reduces this to one buffer",
        load_bytes(), err);
    if (rc != SW_OK)
        return rc;
    rc = sw_module_load(&kind, &found, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_blas_module *m = found;
    const int before = omp_get_max_threads();
    m->one_thread();
    omp_set_num_threads(before);
    __atomic_store_n(&table, m, __ATOMIC_RELEASE); /* last, since readers may compute immediately */

    return SW_OK;
}

const struct sw_blas_module *sw_blas(void)
{
    return __atomic_load_n(&table, __ATOMIC_ACQUIRE);
}

/* ---- Holding ---- */

/* Makes the pool allocate `count` buffers by taking them all and giving them back. */
static int fill_pool(int count, struct sw_err *err)
{
    if (count <= made)
        return SW_OK;

    void **buffer = sw_calloc((size_t)count, sizeof *buffer);
    if (!buffer)
        return sw_err_nomem(err, "the buffers of OpenBLAS", (size_t)count * sizeof *buffer);

    int rc = sw_cpu_need_room("a buffer of OpenBLAS for each thread",
                              (size_t)(count - made) * BUFFER_BYTES, err);
    for (int i = 0; i < count && rc == SW_OK; i++)
        buffer[i] = table->acquire_buffer();
    for (int i = 0; i < count && rc == SW_OK; i++)
        table->release_buffer(buffer[i]);
    sw_free(buffer);
    if (rc == SW_OK)
        made = count;

    return rc;
}

int sw_blas_hold(int threads, struct sw_err *err)
{
    int rc;

#pragma omp critical(sw_blas)
    {
        rc = load(err);
        if (rc == SW_OK)
            rc = fill_pool(held + threads, err);
        if (rc == SW_OK)
            held += threads;
    }

    return rc;
}

void sw_blas_release(int threads)
{
#pragma omp critical(sw_blas)
    held -= threads;
}

int sw_blas_hold_stream(struct sw_stream *stream, struct sw_err *err)
{
    struct sw_cpu_stream *s = sw_cpu_stream_of(stream);
    int rc = s->blas ? SW_OK : sw_blas_hold(s->threads, err);
    s->blas = rc == SW_OK;
    return rc;
}

/* ---- Products ---- */

#ifndef SW_HAVE_ONEDNN
const char *sw_cpu_dnnl_version(void)
{
    return "";
}
#endif

int sw_cpu_libraries(char *out, size_t bytes, struct sw_err *err)
{
    const char *dnnl = sw_cpu_dnnl_version();

    snprintf(out, bytes, "%s", dnnl);

    int rc = sw_blas_hold(0, err);
    if (rc != SW_OK)
        return rc;

    const char *blas = sw_blas()->config(); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." */
    int n = (int)strcspn(blas, " ");
    n += blas[n] ? 1 + (int)strcspn(blas + n + 1, " ") : 0;
    snprintf(out, bytes, "%s%s%.*s", dnnl, *dnnl ? ", " : "", n, blas);

    return SW_OK;
}

int sw_blas_use_one_thread(void)
{
    int team = omp_in_parallel() ? 1 : omp_get_max_threads();
    if (team > 1)
        omp_set_num_threads(1);
    return team;
}

void sw_blas_restore_team(int team)
{
    if (team > 1)
        omp_set_num_threads(team);
}

void sw_cpu_sgemm(struct sw_product p)
{
    int team = sw_blas_use_one_thread();
    sw_blas()->sgemm(&p);
    sw_blas_restore_team(team);
}

void sw_cpu_multiply(const struct sw_product *p)
{
    int team = sw_blas_use_one_thread();

#ifdef SW_HAVE_ONEDNN
    sw_cpu_dnnl_sgemm(p);

#else
    sw_blas()->sgemm(p);

#endif
    sw_blas_restore_team(team);
}
