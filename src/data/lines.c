/* Reads a text file into memory and calls a visitor for each line. */
#include "data/lines.h"
#include "base/stop.h"
#include <string.h>

int sw_lines_visit_blob(struct sw_blob *b, sw_line_visit *visit, void *user, struct sw_err *err)
{
    char *at = (char *)b->memory, *const end = at + b->bytes;
    int rc = SW_OK;

    for (int64_t number = 1; !rc && at < end; number++) {
        rc = sw_stop_check(err);
        if (rc)
            return rc;

        char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (memchr(at, 0, (size_t)(stop - at)))
            return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: contains a zero byte; expected text",
                              b->path, (long long)number);

        *stop = '\0';
        if (stop > at && stop[-1] == '\r')
            stop[-1] = '\0';
        rc = visit(user, b->path, number, at, err);
        at = stop + 1;
    }

    return rc;
}

int sw_lines_visit(const char *path, uint64_t max_bytes, sw_line_visit *visit, void *user,
                   struct sw_err *err)
{
    struct sw_blob b;

    int rc = sw_blob_open_whole(&b, path, max_bytes, err);
    if (rc)
        return rc;

    rc = sw_lines_visit_blob(&b, visit, user, err);
    sw_blob_close(&b);
    return rc;
}
