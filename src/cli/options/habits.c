/* Advice for words from other programs: a table of verbs, a table of options, and for all other
 * options the devices and the keys of [job], [updater] and [cluster], by their own names or by
 * those of other systems (recipe/alias.h). The contract is in cli/options/habits.h. */
#include "cli/options/habits.h"

#include "device/driver.h"
#include "recipe/alias.h"
#include "recipe/lookup.h"
#include "run/schema.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *word, *verb;
} verbs[] = {
    {"train", "run"},       {"fit", "run"},           {"start", "run"},
    {"finetune", "run"},    {"fine-tune", "run"},     {"test", "eval"},
    {"evaluate", "eval"},   {"validate", "eval"},     {"score", "eval"},
    {"infer", "predict"},   {"inference", "predict"}, {"classify", "predict"},
    {"generate", "sample"}, {"continue", "resume"},   {"restart", "resume"},
    {"runs", "history"},    {"log", "history"},       {"logs", "history"},
    {"list", "history"},    {"tensorboard", "top"},   {"dashboard", "top"},
    {"devices", "topo"},    {"device_query", "topo"}, {"summary", "check"},
};

static const struct {
    const char *name, *needs; /* the option that the advice uses */
    const char *advice;
} options[] = {
    {"gpu", "device", "--device cuda"},
    {"gpus", "device", "--device cuda, or --device cuda:0,1 for some of them"},
    {"gpu-ids", "device", "--device cuda:0,1"},
    {"amp", "set", "--set job.precision=fp16"},
    {"fp16", "set", "--set job.precision=fp16"},
    {"bf16", "set", "--set job.precision=bf16"},
    {"optimizer", "set", "--set updater.type=NAME"},
    {"solver", "set", "--set updater.type=NAME"},
    {"data", "set", "--set data.train.paths=FILES"},
    {"data-dir", "set", "--set data.train.paths=FILES"},
    {"dataset", "set", "--set data.train.paths=FILES"},
    {"weights", "init-from", "--init-from FILE|RUN"},
    {"checkpoint", "init-from", "--init-from FILE|RUN"},
    {"checkpoint", "weights", "--weights FILE|RUN"},
    {"model", "weights", "--weights FILE|RUN"},
    {"pretrained", "init-from", "--init-from FILE|RUN"},
    {"output-dir", "out", "--out DIR"},
    {"save-dir", "out", "--out DIR"},
    {"resume", "init-from", "'singa-ws resume RUN' to continue a run"},
};

const char *sw_habit_verb(const char *word)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (sw_str_eq(verbs[i].word, word))
            return verbs[i].verb;
    return NULL;
}

/* The section and key of the recipe that the name means; false if there is none. */
static bool find_key(const char *name, const char **section, const char **key)
{
    static const char *const sections[] = {"job", "updater", "cluster"};
    const struct sw_schema *schema = sw_train_schema();

    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const struct sw_schema_kind *k =
            sw_schema_find(schema, sections[i], strlen(sections[i]), SW_SECTION_ONE);
        if (k && sw_kind_has_key(k, name)) {
            *section = sections[i];
            *key = name;
            return true;
        }
    }

    const struct sw_alias *a = NULL;
    while ((a = sw_alias_next(a, SW_ALIAS_KEY, name))) {
        if (!sw_str_eq(a->section, "layer")) {
            *section = sw_str_eq(a->section, "data") ? "data.train" : a->section;
            *key = a->key;
            return true;
        }
    }

    return false;
}

bool sw_habit_option(const char *name, bool (*takes)(const void *user, const char *option),
                     const void *user, struct sw_bytes *out)
{
    char key_name[64];
    const char *section, *key;

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (sw_str_eq(options[i].name, name) && takes(user, options[i].needs)) {
            sw_bytes_add(out, options[i].advice);
            return true;
        }

    const struct sw_driver *driver = takes(user, "device") ? sw_driver_find(name) : NULL;
    if (driver) {
        sw_bytes_printf(out, "--device %s", driver->name);
        return true;
    }

    snprintf(key_name, sizeof key_name, "%s", name);
    for (char *p = key_name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    if (!takes(user, "set") || !find_key(key_name, &section, &key))
        return false;

    sw_bytes_printf(out, "--set %s.%s=VALUE", section, key);
    return true;
}
