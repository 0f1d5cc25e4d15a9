/* Assigns class numbers by the order of a list, by the byte order of the words, or by their numeric
 * values. */
#include "data/classes.h"
#include "base/os.h"
#include "base/str.h"
#include <string.h>

enum { NAMES_BYTES_MOST = 16 << 20 };

int sw_classes_list(struct sw_lexicon *words, const struct sw_strings *names, const char *key,
                    struct sw_err *err)
{
    for (int i = 0; i < names->count; i++) {
        int32_t id = -1;
        int rc = sw_lexicon_add(words, names->items[i], strlen(names->items[i]), 0, &id, err);
        if (rc)
            return rc;
        if (id < i)
            return sw_err_set(err, SW_ERR_INVALID, "%s: %s is listed twice", key, names->items[i]);
    }

    return SW_OK;
}

int sw_classes_read(struct sw_lexicon *words, const char *path, struct sw_err *err)
{
    char *text = NULL;
    size_t bytes;
    int rc = sw_os_read_file(path, NAMES_BYTES_MOST, &text, &bytes, err);

    for (char *at = text; !rc && at && *at;) {
        const size_t line = strcspn(at, "\n");
        size_t n = line;
        int32_t id, before = words->count;

        if (n && at[n - 1] == '\r')
            n--;
        if (n)
            rc = sw_lexicon_add(words, at, n, 1, &id, err);
        if (!rc && n && id < before)
            rc = sw_err_set(err, SW_ERR_FORMAT, "%s: duplicate class %.*s", path, (int)n, at);
        at += line + (at[line] == '\n');
    }

    sw_free(text);
    if (!rc && words->count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has no class names", path);

    return rc;
}

int sw_classes_of(struct sw_lexicon *words, const struct sw_lexicon *names, struct sw_err *err)
{
    int rc = SW_OK;

    for (int32_t i = 0; !rc && i < names->count; i++) {
        size_t n = 0;
        const char *name = sw_lexicon_word(names, i, &n);
        int32_t id;
        rc = sw_lexicon_add(words, name, n, 0, &id, err);
    }

    return rc;
}

static bool are_numbers(const struct sw_lexicon *words, int32_t *number, int64_t *classes)
{
    *classes = 0;
    for (int32_t i = 0; i < words->count; i++) {
        int64_t value = 0;
        if (!sw_parse_int(sw_lexicon_word(words, i, NULL), &value) || value < 0 ||
            value >= SW_MAX_CLASS_NUMBERS)
            return false;

        number[i] = (int32_t)value;
        *classes = value >= *classes ? value + 1 : *classes;
    }

    return true;
}

int sw_classes_number(const struct sw_lexicon *words, enum sw_class_order how, int32_t **number,
                      int64_t *classes, uint64_t *naming, struct sw_err *err)
{
    const size_t count = (size_t)words->count;
    int32_t *n = sw_calloc(2 * count + 1, sizeof *n);
    if (!n)
        return sw_err_nomem(err, "the names of classes", 2 * count * sizeof *n);

    int32_t *order = n + count;
    *number = n;
    *naming = 0;
    if (how == SW_CLASSES_NUMBERED && are_numbers(words, n, classes))
        return SW_OK;

    if (how == SW_CLASSES_LISTED) {
        for (int32_t i = 0; i < words->count; i++)
            order[i] = i;
    } else {
        sw_lexicon_rank(words, SW_LEXICON_BY_BYTES, order);
    }

    for (int32_t k = 0; k < words->count; k++)
        n[order[k]] = k;
    *classes = words->count;
    *naming = sw_lexicon_identity(words, order);

    return SW_OK;
}

int sw_classes_name(struct sw_lexicon *names, const struct sw_lexicon *words, const int32_t *number,
                    struct sw_err *err)
{
    int32_t *order = sw_calloc((size_t)words->count + 1, sizeof *order);
    int rc = order ? SW_OK : sw_err_nomem(err, "the names of classes", (size_t)words->count);

    for (int32_t i = 0; !rc && i < words->count; i++)
        order[number[i]] = i;

    for (int32_t k = 0; !rc && k < words->count; k++) {
        size_t n = 0;
        const char *word = sw_lexicon_word(words, order[k], &n);
        int32_t id;
        rc = sw_lexicon_add(names, word, n, 1, &id, err);
    }

    sw_free(order);
    return rc;
}
