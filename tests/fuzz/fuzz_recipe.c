/* Untrusted recipes: reading, expanding, binding, resolving and printing must end in a recipe or in
 * messages, never in a crash. Input: --set texts, one per line, up to a line `--`, then the recipe;
 * without such a line all of it is the recipe. No file exists but /data/a. */
#include "../unit/recipe/recipe_support.h"
#include <glob.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A short recipe finds the same errors in less time. */
enum { MAX_BYTES = 1024 };

/* Replaces the function of the C library: patterns match nothing, and no folder is listed. */
int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
    return GLOB_NOMATCH;
}

/* Does what a net does with the sections: queries their positions, adds errors. */
static void use(struct sw_recipe *r)
{
    struct sw_err err;
    const struct sw_job_conf *job;
    struct sw_bytes out = {0};
    for (const struct sw_section *s = sw_recipe_first(r, NULL); s; s = s->next) {
        struct sw_place at = sw_section_where(s, "type");
        const char *src = sw_section_text(s, "src");
        if (at.span < 1 && at.line > 0)
            abort();
        if (src)
            sw_recipe_error_item(r, s, "src", (int)(strlen(src) % 3), "there is no such layer");
    }
    if (sw_job_apply_rules(r, &job, &err) == SW_OK && sw_recipe_hash(r)[0] == '\0')
        abort();
    sw_recipe_announce_fallback(r, &out);
    sw_diags_print(sw_recipe_diags(r), &out);
    sw_bytes_fini(&out);
}

/* A valid recipe must be the same when it is rebuilt from the text that a run stores. */
static void rebuild(const struct sw_recipe *r)
{
    struct sw_err err;
    struct sw_recipe *again;
    struct sw_recipe_source s = {.path = "x.ini",
                                 .text = sw_recipe_text(r),
                                 .text_bytes = strlen(sw_recipe_text(r)),
                                 .overrides = sw_recipe_overrides(r),
                                 .fallback = sw_recipe_fallback(r),
                                 .env = toy_env};
    if (sw_recipe_load(&s, &toy_schema, &again, &err) != SW_OK ||
        strcmp(sw_recipe_hash(r), sw_recipe_hash(again)) != 0 ||
        strcmp(sw_recipe_fallback(r), sw_recipe_fallback(again)) != 0)
        abort();
    sw_recipe_free(again);
}

/* The bytes before a line `--`, or 0. */
static size_t head_bytes(const char *text, size_t bytes)
{
    const char *line = memmem(text, bytes, "\n--\n", 4);
    return line ? (size_t)(line - text) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_err err;
    struct sw_recipe *r;
    const char *text = (const char *)data;
    bytes = bytes < MAX_BYTES ? bytes : MAX_BYTES;
    size_t head = head_bytes(text, bytes);
    char *overrides = malloc(head + 1);
    if (!overrides)
        return 0;
    memcpy(overrides, text, head);
    overrides[head] = '\0';
    size_t skip = head ? head + 4 : 0;
    struct sw_recipe_source s = {.path = "x.ini",
                                 .text = text + skip,
                                 .text_bytes = bytes - skip,
                                 .overrides = overrides,
                                 .env = toy_env};
    toy_use_files("/data/a");
    int rc = sw_recipe_load(&s, &toy_schema, &r, &err);
    if (rc == SW_OK)
        rebuild(r);
    if (r)
        use(r);
    sw_recipe_free(r);
    sw_os_set(NULL);
    free(overrides);
    return 0;
}
