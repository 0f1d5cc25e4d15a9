/* Logistic regression by layers: the thesis' Algorithm 4.3, one sample at a time. It starts from
 * the values that the program by tensors draws, so that both print the same numbers. */
#include <run/model.h>
#include <string.h>
#include <tensor/math.h>

#include "samples.h"

static const char recipe[] = "[updater]\n"
                             "type = sgd\n"
                             "lr = 0.5\n"
                             "[layer x]\n"
                             "type = input\n"
                             "field = x\n"
                             "[layer y]\n"
                             "type = input\n"
                             "field = y\n"
                             "[layer fc]\n"
                             "type = inner_product\n"
                             "src = x\n"
                             "outputs = 2\n"
                             "[layer p]\n"
                             "type = activation\n"
                             "src = fc\n"
                             "function = sigmoid\n"
                             "[layer loss]\n"
                             "type = euclidean_loss\n"
                             "src = p, y\n";

static void transpose(const float *from, int rows, int columns, float *to)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
}

static int make(struct sw_device *device, struct sw_model **m, struct sw_err *err)
{
    const struct sw_net_field fields[] = {
        {.name = "x", .desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){1, INPUTS})},
        {.name = "y", .desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){1, OUTPUTS})},
    };
    const struct sw_model_args args = {.recipe = recipe,
                                       .device = device,
                                       .threads = 1,
                                       .seed = 1,
                                       .fields = fields,
                                       .field_count = 2};
    struct sw_bytes messages = {0};
    int rc = sw_model_new(&args, m, &messages, err);
    fputs(sw_bytes_text(&messages), stderr);
    sw_bytes_fini(&messages);
    return rc;
}

/* W [INPUTS, OUTPUTS] as the other program draws it; ours is [OUTPUTS, INPUTS]. */
static int start_equal(struct sw_model *m, struct sw_err *err)
{
    struct sw_tensor ours, *w = NULL;
    float drawn[INPUTS * OUTPUTS], turned[INPUTS * OUTPUTS];
    int rc = sw_model_param(m, "fc.weight", &ours, err);
    if (rc == SW_OK)
        rc = sw_tensor_zeros(NULL, 2, (const int64_t[]){INPUTS, OUTPUTS}, "W", &w, err);
    if (rc == SW_OK)
        rc = sw_tensor_gaussian(NULL, w, 1, "W", 0, 0.01, err);
    if (rc == SW_OK)
        rc = sw_tensor_read(w, NULL, drawn, err);
    transpose(drawn, INPUTS, OUTPUTS, turned);
    if (rc == SW_OK)
        rc = sw_tensor_write(&ours, NULL, turned, err);
    sw_tensor_free(w);
    return rc;
}

static int train(struct sw_model *m, float *x, float *y, struct sw_err *err)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double sum = 0;
        for (int s = 0; s < SAMPLES; s++) {
            double loss;
            int rc = sw_model_train(m, (void *[]){x + s * INPUTS, y + s * OUTPUTS}, &loss, err);
            if (rc != SW_OK)
                return rc;
            sum += loss;
        }
        printf("loss[%d] %.7f\n", epoch, sum / SAMPLES);
    }
    return SW_OK;
}

static int print(struct sw_model *m, struct sw_err *err)
{
    struct sw_tensor w, b;
    float ours[INPUTS * OUTPUTS], turned[INPUTS * OUTPUTS], bias[OUTPUTS];
    int rc = sw_model_param(m, "fc.weight", &w, err);
    if (rc == SW_OK)
        rc = sw_model_param(m, "fc.bias", &b, err);
    if (rc == SW_OK)
        rc = sw_tensor_read(&w, NULL, ours, err);
    if (rc == SW_OK)
        rc = sw_tensor_read(&b, NULL, bias, err);
    if (rc != SW_OK)
        return rc;
    transpose(ours, OUTPUTS, INPUTS, turned);
    print_numbers("W", turned, INPUTS * OUTPUTS);
    print_numbers("b", bias, OUTPUTS);
    return SW_OK;
}

int main(void)
{
    static float x[SAMPLES * INPUTS], y[SAMPLES * OUTPUTS];
    struct sw_device *device = NULL;
    struct sw_model *m = NULL;
    struct sw_err err = {0};
    make_samples(x, y);
    int rc = sw_cpu_open(false, &device, &err);
    if (rc == SW_OK)
        rc = make(device, &m, &err);
    if (rc == SW_OK)
        rc = start_equal(m, &err);
    if (rc == SW_OK)
        rc = train(m, x, y, &err);
    if (rc == SW_OK)
        rc = print(m, &err);
    if (rc != SW_OK)
        fprintf(stderr, "logistic_layers: %s\n", err.text);
    sw_model_free(m);
    sw_device_close(device);
    return rc != SW_OK;
}
