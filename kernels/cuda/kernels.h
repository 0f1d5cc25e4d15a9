/* The light operations of the cuda device: launchers of the kernels in this folder, for C. All
 * pointers are device memory; nothing is waited for. A launcher answers an enum cudaError of the
 * launch, 0 for none. The arguments that several arrays need are the structs of
 * kernels/cpu/kernels.h, whose meaning holds here too; formulas stand with the CPU's kernels and
 * are repeated where the arithmetic differs.
 *
 * No kernel adds floats atomically but for whole numbers that are exact, and what a sum is cut into
 * depends on its shape alone: the same input gives the same bits. */
#ifndef SW_KERNELS_CUDA_KERNELS_H
#define SW_KERNELS_CUDA_KERNELS_H

#include "base/step.h"
#include "kernels/cpu/kernels.h"
#include "kernels/updaters/decide.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Bad data that a kernel met: the first one that was noticed. In host memory that kernels see. */
enum sw_cuda_found { SW_FOUND_NOTHING, SW_FOUND_LABEL, SW_FOUND_TARGET, SW_FOUND_TOKEN };
struct sw_cuda_trouble {
    int found;    /* enum sw_cuda_found, written last */
    int owner;    /* taken by the first */
    uint64_t who; /* address of a static text of the host's */
    int64_t row, column, limit;
    double value;
};

enum { SW_CUDA_PARTIALS = 4096 }; /* doubles that every stream has for sums */

/* How and where a kernel is started. */
struct sw_cuda_launch {
    struct CUstream_st *stream;
    int processors;
    double *partials; /* [SW_CUDA_PARTIALS], the stream's own */
    struct sw_cuda_trouble *trouble;
};

/* ---- elementwise.cu ---- */

int sw_cuda_add(float *y, const float *x, int64_t n, const struct sw_cuda_launch *l); /* y += x */
int sw_cuda_combine(float alpha, const float *x, float beta, float *y, int64_t n,
                    const struct sw_cuda_launch *l);
int sw_cuda_multiply(const float *a, const float *b, float *y, int64_t n,
                     const struct sw_cuda_launch *l);
int sw_cuda_floats(float *y, const int32_t *x, int64_t n, const struct sw_cuda_launch *l);
/* y[r, c] += row[c] (NULL: nothing), then max(0, .) if relu. */
int sw_cuda_add_row(int64_t rows, int64_t columns, const float *row, bool relu, float *y,
                    const struct sw_cuda_launch *l);
/* *answer, which is 1, becomes 0 when something is not finite. */
int sw_cuda_find_non_finite(const float *x, int64_t n, int *answer, const struct sw_cuda_launch *l);

/* ---- activation.cu ---- */

enum sw_cuda_function {
    SW_CUDA_RELU,
    SW_CUDA_LEAKY_RELU,
    SW_CUDA_SIGMOID,
    SW_CUDA_SCALED_TANH,
    SW_CUDA_SOFTPLUS,
    SW_CUDA_GELU,
};
/* a, b: slope, or the factors of a tanh(b x). */
int sw_cuda_activation(enum sw_cuda_function f, float a, float b, const float *x, float *y,
                       int64_t n, const struct sw_cuda_launch *l);
/* v is y, of gelu x. */
int sw_cuda_activation_backward(enum sw_cuda_function f, float a, float b, const float *v,
                                const float *dy, float *dx, int64_t n,
                                const struct sw_cuda_launch *l);

/* ---- eltwise.cu; factors by value ---- */

struct sw_cuda_eltwise {
    enum sw_kernel_eltwise_kind kind;
    int count, of;
    bool relu;
    uint32_t adds;
    int64_t n;
    float factor[SW_KERNEL_ELTWISE_SRCS];
    const float *x[SW_KERNEL_ELTWISE_SRCS];
    float *y; /* forward writes it, the ways back read it or get NULL */
    const float *dy;
    float *dx[SW_KERNEL_ELTWISE_SRCS];
};
int sw_cuda_eltwise(const struct sw_cuda_eltwise *e, const struct sw_cuda_launch *l);
int sw_cuda_eltwise_sum_backward(const struct sw_cuda_eltwise *e, const struct sw_cuda_launch *l);
int sw_cuda_eltwise_one_backward(const struct sw_cuda_eltwise *e, const struct sw_cuda_launch *l);

/* ---- fold.cu ---- */

enum { SW_CUDA_FOLD_TERMS = 16 };
/* y = the sum of the terms, in the order of a stack: adds[t] additions follow when term t was
 * pushed. y may be x[0]. */
struct sw_cuda_fold {
    int count;
    int adds[SW_CUDA_FOLD_TERMS];
    int64_t n;
    const float *x[SW_CUDA_FOLD_TERMS];
    float *y;
};
int sw_cuda_fold(const struct sw_cuda_fold *f, const struct sw_cuda_launch *l);

/* ---- sums.cu ---- */

int sw_cuda_sum_rows(int64_t rows, int64_t columns, const float *x, float *sum,
                     const struct sw_cuda_launch *l);
int sw_cuda_total(const float *x, int64_t n, double *total, const struct sw_cuda_launch *l);
int sw_cuda_count_labels(const int32_t *label, int64_t rows, int64_t per_sample, int64_t ignore,
                         const struct sw_step *step, double *count, const struct sw_cuda_launch *l);

/* ---- softmax.cu, softmax_loss.cu, row_loss.cu; rows beyond the step's valid ones do not count ---
 */

int sw_cuda_softmax(int64_t rows, int64_t classes, int64_t places, const float *x, float *y,
                    const struct sw_cuda_launch *l);
int sw_cuda_softmax_backward(int64_t rows, int64_t classes, int64_t places, const float *y,
                             const float *dy, float *dx, const struct sw_cuda_launch *l);

struct sw_cuda_loss {
    enum sw_kernel_loss kind;
    const char *who; /* static */
    int64_t rows, columns;
    int64_t per_sample; /* rows of a sample; 0: one */
    float weight, margin;
    bool squared;
    const float *x, *target;
    const int32_t *label;
    int64_t ignore;
    const struct sw_step *step;
    float *y;
    struct sw_result *result;
};
int sw_cuda_softmax_loss(const struct sw_cuda_loss *a, const struct sw_cuda_launch *l);
int sw_cuda_row_loss(const struct sw_cuda_loss *a, const struct sw_cuda_launch *l);

struct sw_cuda_loss_gradient {
    enum sw_kernel_loss kind;
    int64_t rows, columns, batch_rows, per_sample;
    float weight;
    const float *y, *target;
    const int32_t *label;
    int64_t ignore;
    const struct sw_step *step;
    const double *counted;
    float *dx;
};
int sw_cuda_softmax_loss_backward(const struct sw_cuda_loss_gradient *a,
                                  const struct sw_cuda_launch *l);
int sw_cuda_row_loss_backward(const struct sw_cuda_loss_gradient *a,
                              const struct sw_cuda_launch *l);

struct sw_cuda_triplets {
    int64_t rows, columns;
    float weight, margin;
    bool squared;
    const float *anchor, *match, *other;
    const struct sw_step *step;
    float *slope;
    struct sw_result *result;
    const float *plus, *minus; /* backward */
    float *dx;
};
int sw_cuda_triplets(const struct sw_cuda_triplets *a, const struct sw_cuda_launch *l);
int sw_cuda_triplets_backward(const struct sw_cuda_triplets *a, const struct sw_cuda_launch *l);

/* ---- layer_norm.cu ---- */

int sw_cuda_layer_norm(const struct sw_kernel_layer_norm *k, const struct sw_cuda_launch *l);
int sw_cuda_layer_norm_backward(const struct sw_kernel_layer_norm *k,
                                const struct sw_cuda_launch *l);

/* ---- channels.cu: batch normalisation and sparsity, where elements lie as k says ---- */

/* sums [2 C + 1] of x and x^2 over the rows that count (step NULL: all), and the elements of each;
 * parts: room for 2 * SW_KERNEL_CHANNEL_PARTS * C. The first also as floats [C], unless NULL. */
int sw_cuda_channel_sums(const struct sw_kernel_channels *k, const float *x,
                         const struct sw_step *step, double *parts, double *sums, float *rounded,
                         const struct sw_cuda_launch *l);

struct sw_cuda_batch_norm {
    struct sw_kernel_channels k;
    float eps, momentum;
    bool relu;
    const double *sums; /* [2 C + 1] */
    double *parts, *sums_out;
    float *factor; /* [C]: scratch, of y = factor (x - mean) + bias */
    const float *scale, *bias, *running_mean, *running_variance;
    float *mean, *inv_std;
    float *update_mean, *update_variance; /* or NULL */
    const float *x, *dy;
    float *y, *dx, *dscale, *dbias;
};
int sw_cuda_batch_norm(const struct sw_cuda_batch_norm *b, const struct sw_cuda_launch *l);
int sw_cuda_batch_norm_running(const struct sw_cuda_batch_norm *b, const struct sw_cuda_launch *l);
int sw_cuda_batch_norm_sums_backward(const struct sw_cuda_batch_norm *b,
                                     const struct sw_cuda_launch *l);
int sw_cuda_batch_norm_backward(const struct sw_cuda_batch_norm *b, const struct sw_cuda_launch *l);

/* y = x + bias[channel], then max(0, .) if relu; y may be x, bias NULL. */
int sw_cuda_channel_bias(const struct sw_kernel_channels *k, const float *x, const float *bias,
                         bool relu, float *y, const struct sw_cuda_launch *l);

struct sw_cuda_sparsity {
    struct sw_kernel_channels k;
    float rho, beta;
    const struct sw_step *step;
    const double *sums;
    float *slope; /* [3 C] */
    struct sw_result *result;
    const float *dy; /* NULL: zero */
    float *dx;
};
int sw_cuda_sparsity(const struct sw_cuda_sparsity *a, const struct sw_cuda_launch *l);
int sw_cuda_sparsity_backward(const struct sw_cuda_sparsity *a, const struct sw_cuda_launch *l);

/* ---- dropout.cu ---- */

struct sw_cuda_dropout {
    struct sw_kernel_channels k;
    struct sw_kernel_dropout d;      /* without step and first_row */
    int64_t first_channel, channels; /* the part's place in the whole */
    const struct sw_step *step;
    const float *x;
    float *y;
};
int sw_cuda_dropout(const struct sw_cuda_dropout *a, const struct sw_cuda_launch *l);

/* ---- units.cu: of Boltzmann machines; the structs without step and first_row ---- */

/* carried (or NULL): the sample, but where chains begin. */
int sw_cuda_units(const struct sw_kernel_units *u, const float *carried, const struct sw_step *step,
                  const struct sw_cuda_launch *l);
/* result (or NULL) gets factor times the sum over rows that count, added where `more`. */
int sw_cuda_unit_energy(const struct sw_kernel_unit_energy *e, double factor, bool more, bool part,
                        const struct sw_step *step, struct sw_result *result,
                        const struct sw_cuda_launch *l);
int sw_cuda_flip(const struct sw_kernel_flip *f, const struct sw_step *step,
                 struct sw_result *result, const struct sw_cuda_launch *l);
/* Annealed importance sampling (device/ops/ais.h): log Z of the machine without weights for every
 * row; a step of all rows; and the pairs of the chains, of global rows below `chains`. */
int sw_cuda_ais_begin(bool gaussian_visible, int64_t visible, const float *visible_bias,
                      int64_t hidden, const float *bias, int64_t rows, double *log_weight,
                      const struct sw_cuda_launch *l);
int sw_cuda_anneal(const struct sw_kernel_anneal *a, const struct sw_cuda_launch *l);
int sw_cuda_ais_result(int64_t rows, int64_t chains, const double *log_weight, bool runs,
                       const struct sw_step *step, struct sw_result *result,
                       const struct sw_cuda_launch *l);
int sw_cuda_row_sums(int64_t rows, int64_t columns, const float *x, float *sum,
                     const struct sw_cuda_launch *l);
int sw_cuda_two_sums(int64_t rows, int64_t first_rows, int64_t columns, float first_factor,
                     float shift, const float *x, float *sum, const struct sw_cuda_launch *l);

/* ---- classes.cu ---- */

/* A place in a row, and what is there. */
struct sw_cuda_place {
    float value;
    int32_t place; /* -1: nothing */
};

struct sw_cuda_classes {
    const char *who; /* static */
    int64_t rows, classes, top_k, per_sample;
    float threshold;
    const float *x, *target;
    const int32_t *label;
    int64_t ignore;
    const struct sw_step *step;
    struct sw_result *result;   /* [2 classes] for counts */
    struct sw_cuda_place *last; /* of counts with top_k: room for what each row names last */
};
int sw_cuda_top_k(const struct sw_cuda_classes *a, const struct sw_cuda_launch *l);
int sw_cuda_count_classes(const struct sw_cuda_classes *a, const struct sw_cuda_launch *l);
int sw_cuda_argsort(int64_t rows, int64_t columns, int64_t top_k, const float *x, int32_t *place,
                    const struct sw_cuda_launch *l);

/* ---- embedding.cu ---- */

struct sw_cuda_lists {
    int64_t rows, per_row, length, vocabulary, width;
    int32_t skip;
    const int32_t *token;
    const float *weight, *dy;
    const struct sw_step *step;
    float *y;              /* or dweight */
    int32_t *next, *first; /* of the gradient: room for a number per token each */
};
int sw_cuda_embedding(const struct sw_cuda_lists *a, const struct sw_cuda_launch *l);
int sw_cuda_embedding_backward(const struct sw_cuda_lists *a, const struct sw_cuda_launch *l);
int sw_cuda_onehot(const struct sw_cuda_lists *a, const struct sw_cuda_launch *l);

/* ---- recurrent.cu ---- */

/* One step: gates hold the products, and then the gates, in blocks of `hidden`. */
struct sw_cuda_cell {
    enum sw_kernel_cell_kind kind;
    int64_t rows, hidden, gates_pitch, before_pitch, y_pitch;
    const float *bias;
    float *gates;
    const float *before;
    float *c;     /* lstm [rows, hidden]: c', and then c; else NULL */
    float *next;  /* h' of the next step, pitch before_pitch; this and the two below may be NULL */
    float *y, *h; /* h: [rows, hidden] */
};
/* h' of the first step; and lstm's c, unless the run goes on. h0, c0 NULL: zeros. */
int sw_cuda_cell_begin(const struct sw_cuda_cell *k, const float *h, const float *h0,
                       const float *c0, bool carried, const struct sw_step *step, float *first,
                       const struct sw_cuda_launch *l);
int sw_cuda_cell(const struct sw_cuda_cell *k, const struct sw_cuda_launch *l);

/* dh and dc [rows, hidden] as in struct sw_kernel_cell_back. */
struct sw_cuda_cell_back {
    enum sw_kernel_cell_kind kind;
    int64_t rows, hidden, gates_pitch, before_pitch, dy_pitch, dgates_pitch;
    const float *gates, *before, *dy; /* dy NULL: zero */
    float *dh, *dc, *dgates;
};
int sw_cuda_cell_back(const struct sw_cuda_cell_back *k, const struct sw_cuda_launch *l);

/* ---- layout.cu: any layout against any other ---- */

enum { SW_CUDA_DIMS = 6, SW_CUDA_FACTORS = 5 };

/* Where the elements of a tensor lie: per dimension the extents and strides of its factors,
 * innermost first; the last one takes what remains of an index (kernels/axis.h). */
struct sw_cuda_layout {
    int ndim;
    struct {
        int count;
        int64_t extent[SW_CUDA_FACTORS], stride[SW_CUDA_FACTORS];
    } axis[SW_CUDA_DIMS];
};

/* A box of both tensors: size elements per dimension, from these indices on. */
struct sw_cuda_box {
    struct sw_cuda_layout from, to;
    int64_t size[SW_CUDA_DIMS], from_at[SW_CUDA_DIMS], to_at[SW_CUDA_DIMS];
    bool add;          /* of floats: dst += src */
    int element_bytes; /* 4 or 1 */
};
int sw_cuda_copy_box(const struct sw_cuda_box *b, const void *src, void *dst,
                     const struct sw_cuda_launch *l);
/* half.cu: floats become 16 bits, 16 bits floats, or floats what 16 bits could hold
 * (kernels/half.h). For arrays of n elements, and for boxes (add and element_bytes are not read).
 */
enum sw_cuda_conversion {
    SW_CUDA_TO_BF16,
    SW_CUDA_TO_FP16,
    SW_CUDA_FROM_BF16,
    SW_CUDA_FROM_FP16,
    SW_CUDA_ROUND_BF16,
    SW_CUDA_ROUND_FP16,
};
int sw_cuda_convert(enum sw_cuda_conversion c, int64_t n, const void *src, void *dst,
                    const struct sw_cuda_launch *l);
int sw_cuda_convert_box(enum sw_cuda_conversion c, const struct sw_cuda_box *b, const void *src,
                        void *dst, const struct sw_cuda_launch *l);
/* Sets what lies outside of dim and inside of padded to zero. */
int sw_cuda_zero_padding(const struct sw_cuda_layout *at, const int64_t *dim, const int64_t *padded,
                         float *x, const struct sw_cuda_launch *l);

/* ---- pooling.cu, lrn.cu: plain planes (lanes 1), or channels last ---- */

struct sw_cuda_pool {
    struct sw_kernel_windows w;
    struct sw_kernel_channels in, out;
    enum sw_kernel_divisor by;
    const float *x, *dy;
    float *y, *dx;
    int32_t *index; /* pixel of each maximum, plain [rows, channels, out pixels]; or NULL */
};
int sw_cuda_max_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);
int sw_cuda_max_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);
int sw_cuda_avg_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);
int sw_cuda_avg_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);

struct sw_cuda_lrn {
    struct sw_kernel_channels k;
    int64_t height, width, size;
    bool within_channel;
    float alpha, beta, bias; /* alpha as it is multiplied with the sum of squares */
    const float *x, *dy;
    float *y, *dx;
    float *scale; /* of every element; NULL: not kept */
    float *ratio; /* room for as many, backward */
};
int sw_cuda_lrn(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l);
int sw_cuda_lrn_backward(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l);

/* ---- clock.cu ---- */

int sw_cuda_clock(int64_t *ns, const struct sw_cuda_launch *l);

/* ---- decide.cu ---- */

/* kernels/updaters/decide.h says what they are; clip times the loss scale is the limit. */
int sw_cuda_measure(const float *x, int64_t count, float clip, const struct sw_deciding *known,
                    double *squares, const struct sw_cuda_launch *l);
int sw_cuda_norm_totals(const double *squares, const int64_t *ends, int arrays, double *total,
                        const struct sw_cuda_launch *l);
int sw_cuda_decide(const double *squares, int params, double clip_norm,
                   const struct sw_deciding *known, struct sw_decided *decided,
                   const struct sw_cuda_launch *l);

struct sw_sgd;
/* *k is adapted as sw_lars_adapt says (kernels/updaters/lars.h). */
int sw_cuda_rate(struct sw_sgd *k, const double *trust, const double *value_squares,
                 const double *gradient_squares, const struct sw_decided *decided,
                 const struct sw_cuda_launch *l);

/* ---- updaters.cu ---- */

/* One update of a whole parameter by the formula of that name (kernels/updaters). */
struct sw_cuda_update {
    const char *formula;
    const void *constants; /* device memory, as the next one: read when it runs */
    const float *gradient_scale;
    size_t constants_bytes;
    float *value, *slot[2];
    const float *gradient;
    int64_t count;
    float clip_value;
    const struct sw_decided *decided; /* or NULL; it has the scale then, and multiplies the limit */
    bool *non_finite;
};
/* Is there a formula of that name with constants of that size? */
bool sw_cuda_has_formula(const char *name, size_t constants_bytes);
int sw_cuda_update(const struct sw_cuda_update *u, const struct sw_cuda_launch *l);

#ifdef __cplusplus
}
#endif

#endif
