/* Shortens texts and paths to a number of columns. */
#include "cli/terminal/clip.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

#define DOTS "..."
enum { DOTS_COLUMNS = sizeof DOTS - 1 };

/* The columns of one character, which sw_text_add has made safe. */
static int columns_of(const char **text, size_t *left)
{
    return sw_rune_columns(sw_utf8_next(text, left));
}

/* The number of bytes of a safe text that fit. */
static size_t bytes_in(const char *text, size_t bytes, int columns)
{
    const char *at = text, *end = text;
    size_t left = bytes;

    while (left > 0) {
        columns -= columns_of(&at, &left);
        if (columns < 0)
            break;
        end = at;
    }

    return (size_t)(end - text);
}

void sw_clip_text(struct sw_bytes *out, const char *text, int columns)
{
    struct sw_bytes safe = {0};

    sw_text_add(&safe, text);
    if (bytes_in(sw_bytes_text(&safe), safe.length, columns) == safe.length) {
        sw_bytes_append(out, sw_bytes_text(&safe), safe.length);
    } else {
        size_t n = bytes_in(sw_bytes_text(&safe), safe.length, columns - DOTS_COLUMNS);
        sw_bytes_append(out, sw_bytes_text(&safe), n);
        sw_bytes_add(out, DOTS);
    }

    out->failed = out->failed || safe.failed;
    sw_bytes_fini(&safe);
}

/* The rest of the path below the user's home directory, beginning with '/', or NULL. */
static const char *below_home(const char *path)
{
    const char *home = getenv("HOME");
    const size_t n = home ? strlen(home) : 0;

    return n > 1 && strncmp(path, home, n) == 0 && path[n] == '/' ? path + n : NULL;
}

void sw_clip_path(struct sw_bytes *out, const char *path, int columns)
{
    const char *rest = below_home(path);
    const int lead = rest ? 1 : 0;

    rest = rest ? rest : path;
    if (sw_text_columns(rest) + lead <= columns) {
        sw_bytes_add(out, lead ? "~" : "");
        sw_text_add(out, rest);
        return;
    }

    const char *tail = strchr(rest + 1, '/');
    while (tail && sw_text_columns(tail) + DOTS_COLUMNS > columns)
        tail = strchr(tail + 1, '/');
    if (!tail) { /* a single name that is too long */
        sw_clip_text(out, strrchr(rest, '/') ? strrchr(rest, '/') + 1 : rest, columns);
        return;
    }

    sw_bytes_add(out, DOTS);
    sw_text_add(out, tail);
}

/* The bytes of the first row of a safe text, which ends at the last blank that fits. */
static size_t row_of(const char *text, size_t bytes, int columns)
{
    const size_t fits = bytes_in(text, bytes, columns);
    size_t blank = fits;

    if (fits == bytes)
        return bytes;
    while (blank > 0 && text[blank] != ' ')
        blank--;
    return blank ? blank : fits;
}

void sw_clip_wrap(struct sw_bytes *out, const char *text, const char *indent, int columns, int rows)
{
    struct sw_bytes safe = {0};

    sw_text_add(&safe, text);
    for (const char *at = sw_bytes_text(&safe); *at && rows > 0; rows--) {
        const size_t bytes = strlen(at), n = rows > 1 ? row_of(at, bytes, columns) : bytes;

        if (rows > 1)
            sw_bytes_append(out, at, n);
        else
            sw_clip_text(out, at, columns);
        at += n + strspn(at + n, " ");
        sw_bytes_add(out, "\n");
        sw_bytes_add(out, *at ? indent : "");
    }

    sw_bytes_fini(&safe);
}
