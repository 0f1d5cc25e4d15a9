/* Logistic regression by tensors: the thesis' Algorithm 4.2, one sample at a time. */
#include <tensor/math.h>

#include "samples.h"

enum { X, Y, W, B, P, Q, G, TENSORS };

static const float rate = 0.5f;

struct model {
    struct sw_device *device;
    struct sw_stream *stream;
    struct sw_tensor *t[TENSORS];
};

static int make(struct model *m, struct sw_err *err)
{
    static const int64_t shape[TENSORS][2] = {
        [X] = {1, INPUTS},  [Y] = {1, OUTPUTS}, [W] = {INPUTS, OUTPUTS}, [B] = {1, OUTPUTS},
        [P] = {1, OUTPUTS}, [Q] = {1, OUTPUTS}, [G] = {1, OUTPUTS}};
    int rc = sw_cpu_open(false, &m->device, err);
    if (rc == SW_OK)
        rc = sw_stream_new(m->device, 1, &m->stream, err);
    for (int i = 0; i < TENSORS && rc == SW_OK; i++)
        rc = sw_tensor_zeros(m->device, 2, shape[i], "a tensor", &m->t[i], err);
    return rc == SW_OK ? sw_tensor_gaussian(m->stream, m->t[W], 1, "W", 0, 0.01, err) : rc;
}

static void release(struct model *m)
{
    for (int i = 0; i < TENSORS; i++)
        sw_tensor_free(m->t[i]);
    sw_stream_free(m->stream);
    sw_device_close(m->device);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != SW_OK)                                                                          \
            return rc_;                                                                            \
    } while (0)

/* p = sigmoid(x W + b) */
static int predict(struct model *m, struct sw_err *err)
{
    TRY(sw_tensor_combine(m->stream, 1, m->t[B], 0, m->t[P], err));
    TRY(sw_tensor_gemm(m->stream, (struct sw_gemm_form){.alpha = 1, .beta = 1}, m->t[X], m->t[W],
                       m->t[P], err));
    return sw_tensor_activation(m->stream, SW_ACT_SIGMOID, 0, m->t[P], m->t[P], err);
}

/* l = 0.5 sum (y - p)^2, g = p (1 - p) (p - y), W = W - rate x^T g, b = b - rate g */
static int learn(struct model *m, double *loss, struct sw_err *err)
{
    TRY(predict(m, err));
    TRY(sw_tensor_combine(m->stream, 1, m->t[P], 0, m->t[G], err));
    TRY(sw_tensor_combine(m->stream, -1, m->t[Y], 1, m->t[G], err)); /* p - y */
    TRY(sw_tensor_multiply(m->stream, m->t[G], m->t[G], m->t[Q], err));
    TRY(sw_tensor_sum(m->stream, m->t[Q], loss, err));
    *loss *= 0.5;
    TRY(sw_tensor_multiply(m->stream, m->t[P], m->t[P], m->t[Q], err));
    TRY(sw_tensor_combine(m->stream, 1, m->t[P], -1, m->t[Q], err)); /* p - p p */
    TRY(sw_tensor_multiply(m->stream, m->t[G], m->t[Q], m->t[G], err));
    TRY(sw_tensor_gemm(m->stream, (struct sw_gemm_form){-rate, 1, .trans_a = true}, m->t[X],
                       m->t[G], m->t[W], err));
    return sw_tensor_combine(m->stream, -rate, m->t[G], 1, m->t[B], err);
}

static int train(struct model *m, const float *x, const float *y, struct sw_err *err)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double sum = 0;
        for (int s = 0; s < SAMPLES; s++) {
            double loss;
            TRY(sw_tensor_write(m->t[X], m->stream, x + s * INPUTS, err));
            TRY(sw_tensor_write(m->t[Y], m->stream, y + s * OUTPUTS, err));
            TRY(learn(m, &loss, err));
            sum += loss;
        }
        printf("loss[%d] %.7f\n", epoch, sum / SAMPLES);
    }
    return SW_OK;
}

static int print(struct model *m, struct sw_err *err)
{
    float w[INPUTS * OUTPUTS], b[OUTPUTS];
    TRY(sw_tensor_read(m->t[W], m->stream, w, err));
    TRY(sw_tensor_read(m->t[B], m->stream, b, err));
    print_numbers("W", w, INPUTS * OUTPUTS);
    print_numbers("b", b, OUTPUTS);
    return SW_OK;
}

int main(void)
{
    static float x[SAMPLES * INPUTS], y[SAMPLES * OUTPUTS];
    struct model m = {0};
    struct sw_err err = {0};
    make_samples(x, y);
    int rc = make(&m, &err);
    if (rc == SW_OK)
        rc = train(&m, x, y, &err);
    if (rc == SW_OK)
        rc = print(&m, &err);
    if (rc != SW_OK)
        fprintf(stderr, "logistic_tensors: %s\n", err.text);
    release(&m);
    return rc != SW_OK;
}
