/* Random hyperplanes through the mean of the rows (Charikar 2002; search/encoder.h): the method
 * that learns nothing else. */
#include "search/code_method.h"

static int fit(const struct sw_code_fit *f, struct sw_encoder *view, struct sw_err *err)
{
    struct sw_encoder *e = &view[0];

    e->dims = f->view[0].dims;
    e->bits = f->bits;

    float *center = sw_encoder_room(e, SW_ENCODER_CENTER, err);
    if (!center)
        return SW_ERR_NOMEM;
    float *planes = sw_encoder_room(e, SW_ENCODER_PLANES, err);
    if (!planes)
        return SW_ERR_NOMEM;

    sw_encoder_random(&f->view[0], f->bits, f->seed, center, planes);
    return SW_OK;
}

const struct sw_code_method sw_code_hyperplanes = {
    .name = "hyperplanes",
    .help = "random hyperplanes through the mean (Charikar 2002)",
    .views = 1,
    .takes = SW_CODE_SEED,
    .any_scale = true,
    .fit = fit,
};
