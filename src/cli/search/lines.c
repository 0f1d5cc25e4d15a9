/* Lists of texts. The contract is in cli/search/lines.h. */
#include "cli/search/lines.h"

#include "base/os.h"
#include "data/lines.h"
#include <string.h>

int sw_search_lines_add(struct sw_search_lines *l, const char *text, size_t n, struct sw_err *err)
{
    size_t *begin = sw_array_add(&l->begin, &l->count, sizeof *begin);

    if (begin) {
        *begin = l->text.length;
        sw_bytes_append(&l->text, text, n);
        sw_bytes_append(&l->text, "", 1);
    }
    return begin && !l->text.failed ? SW_OK : sw_err_nomem(err, "a list of texts", n);
}

static int add_line(void *user, const char *path, int64_t number, char *text, struct sw_err *err)
{
    return sw_search_lines_add(user, text, strlen(text), err);
}

int sw_search_lines_read(struct sw_search_lines *l, const char *path, struct sw_err *err)
{
    enum { MOST_BYTES = 1 << 30 };

    return sw_lines_visit(path, MOST_BYTES, add_line, l, err);
}

const char *sw_search_line(const struct sw_search_lines *l, int64_t i)
{
    return i < l->count ? sw_bytes_text(&l->text) + l->begin[i] : NULL;
}

void sw_search_lines_fini(struct sw_search_lines *l)
{
    sw_bytes_fini(&l->text);
    sw_free(l->begin);
    *l = (struct sw_search_lines){0};
}
