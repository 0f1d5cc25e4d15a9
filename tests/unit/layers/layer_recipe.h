/* Recipes that only have layers, for tests of layers and nets. */
#pragma once

#include "unit/device/device_support.h"

#include "layers/layer.h"
#include "optim/init.h"
#include "recipe/recipe.h"

static const struct sw_schema_kind layer_kinds[] = {
    {.kind = "layer",
     .form = SW_SECTION_NAMED,
     .required = true,
     .opts = sw_layer_opts,
     .conf_bytes = sizeof(struct sw_layer_conf),
     .type_key = {"type"},
     .types = {(const struct sw_type *const *)(const void *)sw_layer_types},
     .param_opts = sw_param_opts,
     .param_bytes = sizeof(struct sw_init_conf)},
};
static const struct sw_schema layer_schema = {layer_kinds, 1};

/* Loads a text with possible errors, which are in the recipe's diags. */
static inline struct sw_recipe *load_layers_with_faults(const char *text)
{
    struct sw_recipe_source source = {
        .path = "test.ini", .text = text, .text_bytes = strlen(text), .fallback = ""};
    struct sw_recipe *recipe = NULL;
    struct sw_err err;
    int rc = sw_recipe_load(&source, &layer_schema, &recipe, &err);
    if (!recipe)
        fail_msg("the recipe cannot be loaded: %d: %s", rc, err.text);
    return recipe;
}

static inline struct sw_recipe *load_layers(const char *text)
{
    struct sw_recipe *recipe = load_layers_with_faults(text);
    struct sw_err err;
    ASSERT_OK(sw_recipe_status(recipe, &err));
    return recipe;
}
