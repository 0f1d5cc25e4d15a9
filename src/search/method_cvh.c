/* Cross-view hashing (Kumar and Udupa, "Learning hash functions for cross-view similarity search",
 * IJCAI 2011, Section 3): planes that minimize the distances of the views of the same row, where
 * products with different planes are not correlated. For two views with one partner each that is
 * canonical correlation analysis (search/cca.h); bit j is the sign of the j-th canonical variable.
 * The paper has no ridge. Without one, vectors of many numbers and few rows correlate by chance: on
 * Wikipedia's 1000 word counts the usual ridge doubles MAP from text to text. */
#include "search/cca.h"
#include "search/code_method.h"

static int fit(const struct sw_code_fit *f, struct sw_encoder *view, struct sw_err *err)
{
    struct sw_cca c = {.view = {&f->view[0], &f->view[1]}, .count = f->bits, .ridge = f->ridge};

    for (int v = 0; v < SW_CODE_VIEWS; v++) {
        view[v].dims = f->view[v].dims;
        view[v].bits = f->bits;

        c.center[v] = sw_encoder_room(&view[v], SW_ENCODER_CENTER, err);
        if (!c.center[v])
            return SW_ERR_NOMEM;
        c.direction[v] = sw_encoder_room(&view[v], SW_ENCODER_PLANES, err);
        if (!c.direction[v])
            return SW_ERR_NOMEM;
    }

    return sw_cca_fit(&c, err);
}

const struct sw_code_method sw_code_cvh = {
    .name = "cvh",
    .help = "cross-view hashing, by canonical correlations (Kumar and Udupa 2011)",
    .views = 2,
    .takes = SW_CODE_RIDGE,
    .usual_ridge = 10,
    .fit = fit,
};
