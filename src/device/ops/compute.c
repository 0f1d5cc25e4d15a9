/* Computes operations on the CPU, those on 16-bit activations with floats (device/op.h). */
#include "base/os.h"
#include "device/op.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum { ALIGN_FLOATS = 16 };

/* An activation of 16 bits and its floats. Pointers to the same memory share their floats. */
struct activation {
    const struct sw_op_array *array;
    enum sw_dtype type;
    uint16_t *halves;
    float *floats;
    int64_t n;
};
struct activations {
    int count;
    struct activation item[SW_OP_ARRAYS];
};

static void *pointer_of(const void *args, const struct sw_op_array *a)
{
    void *p;
    memcpy(&p, (const char *)args + a->offset, sizeof p);
    return p;
}

static bool is_half(const struct sw_op_array *a)
{
    return a->type && sw_dtype_is_half(*a->type) && a->bytes > 0;
}

static void find(const void *args, const struct sw_op_arrays *list, struct activations *out)
{
    for (int i = 0; i < list->count; i++)
        if (is_half(&list->array[i])) {
            const struct sw_op_array *a = &list->array[i];
            out->item[out->count++] = (struct activation){
                .array = a,
                .type = *a->type,
                .halves = pointer_of(args, a),
                .n = (int64_t)(a->bytes / sizeof(uint16_t)),
            };
        }
}

/* Returns an earlier activation of the same memory, or NULL. */
static struct activation *same_memory(struct activations *all, int i)
{
    for (int k = 0; k < i; k++)
        if (all->item[k].halves == all->item[i].halves)
            return &all->item[k];
    return NULL;
}

static int64_t rounded_up(int64_t n)
{
    return (n + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

static int get_floats(struct activations *all, float **memory, struct sw_err *err)
{
    int64_t n = 0;

    for (int i = 0; i < all->count; i++)
        n += same_memory(all, i) ? 0 : rounded_up(all->item[i].n);

    float *at = *memory = sw_realloc_array(NULL, (size_t)n, sizeof *at);
    if (!at)
        return sw_err_nomem(err, "floats of 16-bit activations", (size_t)n * sizeof *at);

    for (int i = 0; i < all->count; i++) {
        const struct activation *same = same_memory(all, i);
        all->item[i].floats = same ? same->floats : at;
        at += same ? 0 : rounded_up(all->item[i].n);
    }

    return SW_OK;
}

/* Lets the arguments point to floats. */
static void replace(void *args, const struct activations *all)
{
    const enum sw_dtype f32 = SW_F32;

    for (int i = 0; i < all->count; i++) {
        const struct activation *a = &all->item[i];
        size_t type_at = (size_t)((const char *)a->array->type - (const char *)args);
        memcpy((char *)args + a->array->offset, &a->floats, sizeof a->floats);
        memcpy((char *)args + type_at, &f32, sizeof f32);
    }
}

static int compute_halves(const struct sw_op *op, const struct sw_host_launch *l, void *args,
                          struct activations *all)
{
    float *memory;
    int rc = get_floats(all, &memory, l->err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < all->count; i++) {
        const struct activation *a = &all->item[i];
        if (!same_memory(all, i))
            sw_kernel_from_halves(l->threads, a->type, a->halves, a->floats, a->n);
    }

    replace(args, all);
    rc = op->cpu(l, args);

    for (int i = 0; i < all->count && rc == SW_OK; i++) {
        const struct activation *a = &all->item[i];
        if (a->array->written)
            sw_kernel_to_halves(l->threads, a->type, a->floats, a->halves, a->n);
    }

    sw_free(memory);
    return rc;
}

int sw_op_compute(const struct sw_op *op, int threads, enum sw_precision precision,
                  const void *args, struct sw_err *err)
{
    const struct sw_host_launch l = {.threads = threads, .precision = precision, .err = err};
    _Alignas(max_align_t) char copy[SW_OP_ARGS_BYTES];
    struct sw_op_arrays list;
    struct activations halves = {0};

    memcpy(copy, args, op->args_bytes);
    sw_op_list(op, copy, &list);
    find(copy, &list, &halves);

    return halves.count > 0 ? compute_halves(op, &l, copy, &halves) : op->cpu(&l, args);
}
