/* split: its source under another name. An output may have several readers without it; split gives
 * a point of a net its own name, to be read, placed or partitioned. It takes no time and no memory:
 * the output shares the source's memory, and gradients pass through. */
#include "layers/layer.h"

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    l->dst.desc = l->src[0]->desc;
    sw_layer_use_view(l);
    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{4, {2, 5, 3, 4}, 0}}, .dst = {2, 5, 3, 4}},
    {.recipe = "", .src = {{2, {3, 37}, 0}}, .dst = {3, 37}},
    {0},
};

const struct sw_layer_type sw_layer_split = {
    .base = {.name = "split", .help = "its source under another name"},
    .split = SW_SPLIT_ELEMENTWISE,
    SW_LAYER_FEATURES(1, 1, 0),
    SW_LAYER_CALLS(setup, sw_layer_view_forward, sw_layer_view_backward),
    .examples = examples,
};
