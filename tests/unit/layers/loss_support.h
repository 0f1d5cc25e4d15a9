/* A loss or metric with inputs chosen by the test, on one device, and checks of sources that it
 * must refuse. */
#pragma once

#include "layer_support.h"

struct scene {
    struct fixture f;
    struct rig g;
    struct values v;
};

static inline struct scene scene_new(const char *type, const struct sw_layer_example *ex,
                                     bool reference, int block)
{
    struct scene s = {.f = open_cpu(reference, 1)};
    rig_setup(&s.g, sw_layer_type_find(type), ex,
              &(struct how){.stream = s.f.stream, .block = block});
    s.v = values_new(&s.g, ex, 21);
    return s;
}

/* Corrects the pointers that the layer keeps into its scene, after the scene was copied. */
static inline void scene_fix_pointers(struct scene *s)
{
    for (int k = 0; k < s->g.layer.src_count; k++)
        s->g.layer.src[k] = &s->g.src[k];
    s->g.layer.result = s->g.result;
}

static inline void scene_free(struct scene *s)
{
    values_free(&s->v);
    rig_close(&s->g);
    close_cpu(&s->f);
}

static inline void assert_refused(const char *type, const struct sw_layer_example *ex, int block,
                                  const char *says)
{
    struct fixture f = open_cpu(true, 1);
    struct rig g;
    struct sw_err err;
    rig_open(&g, sw_layer_type_find(type), ex, &(struct how){.stream = f.stream, .block = block});
    int rc = rig_try_setup(&g, &err);
    if (rc != SW_ERR_INVALID || !strstr(err.text, says))
        fail_msg("%s: %d: %s", type, rc, rc ? err.text : "");
    rig_teardown(&g);
    sw_recipe_free(g.recipe);
    close_cpu(&f);
}
