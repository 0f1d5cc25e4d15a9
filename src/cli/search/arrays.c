/* Reads vectors, codes and labels from .npy files. The contract is in cli/search/arrays.h. */
#include "cli/search/arrays.h"

#include "base/os.h"
#include "base/str.h"
#include "machine/machine.h"
#include "search/parallel.h"
#include "tensor/npy.h"

/* Opens an array of rows: two dimensions, or also one where a row is a single number. */
static int open_rows(struct sw_npy_file *f, const char *path, bool one_is_enough,
                     struct sw_err *err)
{
    int rc = sw_npy_open(f, path, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_npy_header *h = &f->header;
    if ((h->ndim == 2 || (one_is_enough && h->ndim == 1)) && h->count > 0)
        return SW_OK;

    const bool has_shape = h->ndim > 0;
    char shape[128];
    sw_shape_text(h->ndim, h->shape, shape, sizeof shape);
    sw_npy_close(f);
    return sw_err_set(err, SW_ERR_FORMAT, "%s: an array of %s, expected one of ROWSx%s", path,
                      has_shape ? shape : "no dimensions",
                      one_is_enough ? "CLASSES, or ROWS" : "COLUMNS");
}

static int read_values(const struct sw_npy_file *f, enum sw_dtype as, size_t value_bytes,
                       void **out, struct sw_err *err)
{
    *out = sw_realloc_array(NULL, (size_t)f->header.count, value_bytes);
    if (!*out)
        return sw_err_nomem(err, f->path, (size_t)f->header.count * value_bytes);

    int rc = sw_npy_read_rows(f, 0, sw_npy_rows(&f->header), as, *out, err);
    if (rc != SW_OK) {
        sw_free(*out);
        *out = NULL;
    }

    return rc;
}

/* ---- Vectors and codes ------------------------------------------------------------------------
 */

static int read_codes(struct sw_search_array *a, const struct sw_npy_file *f, struct sw_err *err)
{
    const bool bools = f->header.dtype == SW_NPY_B1;
    const int64_t rows = f->header.shape[0], columns = f->header.shape[1];
    const int64_t bits = bools ? columns : 8 * columns;
    void *bytes;

    if (bits > SW_CODE_MOST_BITS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: codes of %lld bits, expected at most %d",
                          f->path, (long long)bits, SW_CODE_MOST_BITS);

    int rc = read_values(f, SW_U8, 1, &bytes, err);
    if (rc != SW_OK)
        return rc;

    const int words = sw_code_words((int)bits);
    a->owned = sw_calloc((size_t)rows, (size_t)words * sizeof(uint64_t));
    if (a->owned) {
        if (bools)
            sw_codes_from_bools(bytes, rows, (int)bits, a->owned);
        else
            sw_codes_from_bytes(bytes, rows, (int)bits, a->owned);
        a->set.codes = (struct sw_codes){a->owned, rows, (int)bits, words};
        rc = sw_codes_check(&a->set.codes, f->path, err);
    } else {
        rc = sw_err_nomem(err, f->path, (size_t)rows * (size_t)words * sizeof(uint64_t));
    }

    sw_free(bytes);
    return rc;
}

static int read_vectors(struct sw_search_array *a, const struct sw_npy_file *f, enum sw_metric m,
                        struct sw_err *err)
{
    const int64_t rows = f->header.shape[0], columns = f->header.shape[1];

    if (columns > SW_SEARCH_MOST_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: vectors of %lld numbers, expected at most %d",
                          f->path, (long long)columns, SW_SEARCH_MOST_DIMS);

    int rc = read_values(f, SW_F32, sizeof(float), &a->owned, err);
    if (rc != SW_OK)
        return rc;

    a->set.vectors = (struct sw_vectors){a->owned, rows, (int)columns};
    return sw_vectors_check(&a->set.vectors, m, f->path, err);
}

int sw_search_array_read(struct sw_search_array *a, const char *path, enum sw_metric m,
                         bool may_be_codes, struct sw_err *err)
{
    struct sw_npy_file f;

    *a = (struct sw_search_array){0};

    int rc = open_rows(&f, path, false, err);
    if (rc != SW_OK)
        return rc;

    const bool codes = may_be_codes && (f.header.dtype == SW_NPY_U1 || f.header.dtype == SW_NPY_B1);
    rc = codes ? read_codes(a, &f, err) : read_vectors(a, &f, m, err);

    sw_npy_close(&f);
    if (rc != SW_OK)
        sw_search_array_fini(a);
    return rc;
}

void sw_search_array_fini(struct sw_search_array *a)
{
    sw_free(a->owned);
    *a = (struct sw_search_array){0};
}

/* ---- Labels -----------------------------------------------------------------------------------
 */

/* Packs columns of 0 and 1 into sets; `values` is freed. */
static int pack_sets(struct sw_search_labels *l, const char *path, int32_t *values, int64_t rows,
                     int64_t columns, struct sw_err *err)
{
    const int words = sw_label_words((int)columns);
    uint64_t *sets = sw_calloc((size_t)rows, (size_t)words * sizeof *sets);
    int rc = sets ? SW_OK : sw_err_nomem(err, path, (size_t)rows * (size_t)words * sizeof *sets);

    for (int64_t i = 0; rc == SW_OK && i < rows * columns; i++) {
        const int64_t row = i / columns, class = i % columns;

        if (values[i] != 0 && values[i] != 1)
            rc = sw_err_set(err, SW_ERR_FORMAT,
                            "%s: row %lld has %d in column %lld, expected 0 or 1", path,
                            (long long)row, values[i], (long long)class);
        else
            sets[row * words + class / 64] |= (uint64_t)values[i] << (class % 64);
    }

    sw_free(values);
    l->owned = sets;
    l->labels = (struct sw_row_labels){.count = rows, .classes = (int)columns, .sets = sets};
    return rc;
}

int sw_search_labels_of(struct sw_search_labels *l, const char *what, int32_t *values, int64_t rows,
                        int64_t columns, struct sw_err *err)
{
    int rc = SW_OK;

    *l = (struct sw_search_labels){0};
    if (columns > 1) {
        rc = pack_sets(l, what, values, rows, columns, err);
    } else {
        int32_t most = 0;

        for (int64_t row = 0; row < rows; row++)
            most = values[row] > most ? values[row] : most;
        l->owned = values;
        l->labels = (struct sw_row_labels){
            .count = rows,
            .classes = most < SW_LABELS_MOST_CLASSES ? most + 1 : SW_LABELS_MOST_CLASSES,
            .single = values};
    }

    if (rc == SW_OK)
        rc = sw_row_labels_check(&l->labels, what, err);
    if (rc != SW_OK)
        sw_search_labels_fini(l);
    return rc;
}

int sw_search_labels_read(struct sw_search_labels *l, const char *path, struct sw_err *err)
{
    struct sw_npy_file f;
    void *values = NULL;

    *l = (struct sw_search_labels){0};

    int rc = open_rows(&f, path, true, err);
    if (rc != SW_OK)
        return rc;

    const int64_t rows = f.header.shape[0], columns = f.header.ndim == 2 ? f.header.shape[1] : 1;

    if (columns > SW_LABELS_MOST_CLASSES)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: %lld classes, expected at most %d", path,
                        (long long)columns, SW_LABELS_MOST_CLASSES);
    if (rc == SW_OK)
        rc = read_values(&f, SW_I32, sizeof(int32_t), &values, err);
    sw_npy_close(&f);
    if (rc != SW_OK)
        return rc;

    return sw_search_labels_of(l, path, values, rows, columns, err);
}

void sw_search_labels_fini(struct sw_search_labels *l)
{
    sw_free(l->owned);
    *l = (struct sw_search_labels){0};
}

/* ---- Threads ----------------------------------------------------------------------------------
 */

int sw_search_threads(int64_t option, int *threads, struct sw_err *err)
{
    struct sw_machine *m;

    if (option > SW_SEARCH_MOST_THREADS)
        return sw_err_set(err, SW_ERR_INVALID, "--threads=%lld: expected at most %d",
                          (long long)option, SW_SEARCH_MOST_THREADS);

    *threads = (int)option;
    if (option)
        return SW_OK;

    int rc = sw_machine_here(&m, err);
    if (rc != SW_OK)
        return rc;

    *threads = sw_machine_threads(m);
    if (*threads > SW_SEARCH_MOST_THREADS)
        *threads = SW_SEARCH_MOST_THREADS;
    sw_machine_free(m);
    return SW_OK;
}
