/* The vocabulary of a text model in checkpoints: the map from tokens to numbers. With another
 * vocabulary the same numbers mean other words, which no other check detects. Metadata "vocabulary"
 * is its hash as 16 hex digits, followed by the number of tokens; models of other data have none.
 */
#include "checkpoint/tokens.h"
#include "data/source.h"
#include "data/vocabulary.h"
#include "layers/layer.h"
#include "plan/topology.h"
#include "recipe/recipe.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 64, IDENTITY = 16 };

static void write_identity(const struct sw_source *s, char text[TEXT_BYTES])
{
    snprintf(text, TEXT_BYTES, "%016" PRIx64 " %lld", s->naming,
             (long long)sw_vocabulary_count(s->vocabulary));
}

int sw_tokens_write(const struct sw_source *source, struct sw_st_writer *w, struct sw_err *err)
{
    char text[TEXT_BYTES];

    if (!source || !source->vocabulary)
        return SW_OK;

    write_identity(source, text);
    return sw_st_writer_metadata(w, "vocabulary", text, err);
}

int sw_tokens_check(struct sw_source *const *source, const struct sw_st_file *f, struct sw_err *err)
{
    const char *theirs = sw_st_metadata(f, "vocabulary");

    for (int split = 0; split < SW_SPLITS && theirs; split++) {
        const struct sw_source *s = source[split];
        char ours[TEXT_BYTES];

        if (!s || !s->vocabulary)
            continue;

        write_identity(s, ours);
        if (strncmp(ours, theirs, IDENTITY) == 0)
            continue;

        const char *count = strchr(theirs, ' ');
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: the model was trained with another vocabulary, of%s tokens; that of "
                          "data %s has %lld, in this order: the texts that it is built from have "
                          "changed (keys vocabulary, vocabulary_from, max_tokens, unknown)",
                          sw_st_path(f), count ? count : " other", s->name,
                          (long long)sw_vocabulary_count(s->vocabulary));
    }

    return SW_OK;
}

/* ---- Tables ---- */

static bool gives_tokens(const struct sw_section *s)
{
    if (!s || !s->type[0] || !sw_str_eq(s->type[0]->name, "input"))
        return false;

    const struct sw_layer input = {.conf = s->conf[0]};
    return sw_str_eq(sw_layer_input_field(&input), "tokens");
}

/* Does the layer read the tokens of the data? */
static bool reads_tokens(const struct sw_recipe *recipe, const struct sw_section *s)
{
    const struct sw_strings *src = &((const struct sw_layer_conf *)s->common)->src;
    bool reads = false;

    for (int i = 0; s->type[0] && i < src->count; i++)
        reads = reads || gives_tokens(sw_recipe_find(recipe, "layer", src->items[i]));
    return reads;
}

static void check_table(struct sw_recipe *recipe, const struct sw_section *s,
                        const struct sw_source *source)
{
    const int64_t tokens = sw_vocabulary_count(source->vocabulary);

    for (const struct sw_opt *o = s->type[0]->opts; o && o->key; o++) {
        if (!sw_str_eq(o->key, "vocabulary") && !sw_str_eq(o->key, "classes"))
            continue;

        const int64_t has = *(const int64_t *)(const void *)((const char *)s->conf[0] + o->offset);
        if (has < tokens)
            sw_recipe_error(
                recipe, s, o->key,
                "data %s has %lld tokens: use at least as many, or set max_tokens there",
                source->name, (long long)tokens);
    }
}

int sw_tokens_fit(struct sw_recipe *recipe, const struct sw_source *source, struct sw_err *err)
{
    if (!source || !source->vocabulary)
        return SW_OK;

    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s))
        if (reads_tokens(recipe, s))
            check_table(recipe, s, source);

    return sw_recipe_status(recipe, err);
}
