/* Recipes with stages, in the whole recipe language: reading one for each of its stages, resolving
 * and checking it must end in a recipe or in messages, and a valid one must be the same recipe when
 * it is read again from the text that a run stores. Input: a byte that selects the stage, then
 * lines as in fuzz_recipe: --set texts up to a line `--`, then the recipe. No file exists. */
#include "base/os.h"
#include "net/net.h"
#include "recipe/job.h"
#include "run/job.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A short recipe finds the same errors in less time. */
enum { MAX_BYTES = 4096 };

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static int no_file(const char *path, int flags, mode_t mode)
{
    errno = ENOENT;
    return -1;
}

static int no_stat(const char *path, struct stat *st)
{
    errno = ENOENT;
    return -1;
}

/* Checks the values that only a stage can change. */
static void look(const struct sw_recipe *r, const struct sw_job_conf *conf)
{
    for (int i = 0; i < conf->freeze.count; i++)
        sw_net_pattern_fits(conf->freeze.items[i], "fc", "weight");
    for (const struct sw_section *s = sw_recipe_first(r, NULL); s; s = s->next)
        demand(!sw_section_by_stage(s, "type") || sw_section_is_set(s, "type"));
}

/* Reads the recipe of `run` for a stage (NULL: the first); a pair for sw_recipe_free. */
static struct sw_recipe *read_for(const struct sw_run *run, const char *stage, bool *sound)
{
    struct sw_job_options o = {.resume = run, .stage = stage};
    const struct sw_job_conf *conf = NULL;
    struct sw_recipe *r = NULL;
    struct sw_err err = {0};
    struct sw_bytes out = {0};
    int rc = sw_job_read_recipe(&o, &r, &conf, &err);
    demand(rc == SW_OK || err.text[0]);
    demand(rc != SW_OK || r);
    *sound = rc == SW_OK;
    if (r && conf)
        look(r, conf);
    if (r)
        sw_diags_print(sw_recipe_diags(r), &out);
    sw_bytes_fini(&out);
    return r;
}

static bool is_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* The text that a run stores must give the same recipe for the same stage. */
static void read_kept(const struct sw_recipe *r, const char *stage)
{
    struct sw_run run = {.recipe = (char *)(uintptr_t) "x.ini",
                         .recipe_text = (char *)(uintptr_t)sw_recipe_text(r),
                         .overrides = (char *)(uintptr_t)sw_recipe_overrides(r),
                         .fallback = (char *)(uintptr_t)sw_recipe_fallback(r)};
    bool sound;
    struct sw_recipe *again = read_for(&run, stage, &sound);
    demand(sound && is_same(sw_recipe_hash(r), sw_recipe_hash(again)));
    demand(sw_recipe_stage(r) == sw_recipe_stage(again));
    sw_recipe_free(again);
}

static void use(const struct sw_run *run, int which)
{
    bool sound, of_stage_sound;
    struct sw_recipe *first = read_for(run, NULL, &sound);
    int count = first ? sw_recipe_stage_count(first) : 0;
    if (count > 0) {
        const char *stage = sw_recipe_stage_name(first, which % count);
        struct sw_recipe *r = read_for(run, stage, &of_stage_sound);
        demand(!r || sw_recipe_stage(r) == which % count);
        /* The identity is that of the file, whatever stage it is read for. */
        if (sound && of_stage_sound)
            demand(is_same(sw_recipe_hash(first), sw_recipe_hash(r)));
        if (of_stage_sound)
            read_kept(r, stage);
        sw_recipe_free(r);
    } else if (sound) {
        read_kept(first, NULL);
    }
    sw_recipe_free(first);
}

/* Copies text and sets, which in a run end with a zero byte. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const fallback = "";
    struct sw_os os = sw_os_posix;
    if (bytes < 1 || memchr(data + 1, '\0', bytes - 1))
        return 0;
    bytes = bytes < MAX_BYTES ? bytes : MAX_BYTES;
    os.open = no_file;
    os.stat = no_stat;
    sw_os_set(&os);
    const char *text = (const char *)data + 1;
    const char *line = memmem(text, bytes - 1, "\n--\n", 4);
    size_t head = line ? (size_t)(line - text) : 0, skip = head ? head + 4 : 0;
    char *sets = sw_format("%.*s", (int)head, text);
    char *recipe = sw_format("%.*s", (int)(bytes - 1 - skip), text + skip);
    struct sw_run run = {.recipe = (char *)(uintptr_t) "x.ini",
                         .recipe_text = recipe,
                         .overrides = sets,
                         .fallback = (char *)(uintptr_t)fallback};
    if (sets && recipe)
        use(&run, data[0]);
    sw_free(sets);
    sw_free(recipe);
    sw_os_set(NULL);
    return 0;
}
