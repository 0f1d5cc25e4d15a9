/* Collects and prints diagnostics about a recipe. Each one is formatted when it is added, with
 * control characters replaced so that a hostile recipe cannot act on the terminal, and is inserted
 * in the order of position. When the list is full the last one is dropped and counted. The contract
 * is in recipe/diag.h. */
#include "recipe/diag.h"
#include "base/os.h"
#include <limits.h>
#include <stdint.h>
#include <string.h>

enum {
    LINE_SHOWN = 96,    /* characters of a long source line around the caret */
    ORIGIN_SHOWN = 200, /* bytes of a file name or a --set text */
};

static void free_diag(struct sw_diag *d)
{
    sw_free(d->where);
    sw_free(d->text);
    sw_free(d->line);
    sw_free(d->hint);
    *d = (struct sw_diag){0};
}

void sw_diags_fini(struct sw_diags *d)
{
    for (int i = 0; i < d->count; i++)
        free_diag(&d->items[i]);
    sw_free(d->items);
    *d = (struct sw_diags){0};
}

static bool is_ascii(char c)
{
    return c >= 0x20 && c < 0x7f;
}

/* Appends at most `limit` bytes of s, cut between characters, with control characters replaced. */
static void add_printable(struct sw_bytes *out, const char *s, size_t bytes, size_t limit)
{
    size_t i = 0, shown = 0; /* everything before `shown` has been appended */

    while (i < bytes && i < limit) {
        if (is_ascii(s[i])) {
            i++;
            continue;
        }

        size_t n = sw_utf8_length(s + i, bytes - i);
        bool plain = n > 1;

        /* U+0080..U+009F are control characters, too. */
        if (n == 2 && (unsigned char)s[i] == 0xc2 && (unsigned char)s[i + 1] < 0xa0)
            plain = false;
        n = n ? n : 1;

        if (!plain) {
            sw_bytes_append(out, s + shown, i - shown);
            sw_bytes_add(out, s[i] == '\t' ? " " : "?");
            shown = i + n;
        }

        i += n;
    }

    sw_bytes_append(out, s + shown, i - shown);
    if (i < bytes)
        sw_bytes_add(out, "...");
}

/* The printable form of the text of the buffer, which becomes empty; NULL when memory is exhausted.
 * Most texts are short and plain ASCII, and are handed over as they are. */
static char *take_printable(struct sw_bytes *text)
{
    struct sw_bytes out = {0};
    size_t plain = 0;

    while (plain < text->length && is_ascii(text->text[plain]))
        plain++;
    if (text->failed || (plain == text->length && plain <= SW_DIAG_TEXT))
        return sw_bytes_take(text);

    add_printable(&out, text->text, text->length, SW_DIAG_TEXT);
    sw_bytes_fini(text);

    return sw_bytes_take(&out);
}

/* Bytes of the first `characters` characters of s; a broken byte counts as one. */
static size_t skip_characters(const char *s, size_t bytes, int characters)
{
    size_t i = 0;

    for (; characters > 0 && i < bytes; characters--) {
        size_t n = sw_utf8_length(s + i, bytes - i);
        i += n ? n : 1;
    }

    return i;
}

/* Copies the part of the source line around the caret into d->line. */
static void keep_line(struct sw_diag *d, const struct sw_place *at)
{
    int from = at->column > LINE_SHOWN * 2 / 3 ? at->column - LINE_SHOWN / 2 : 1;
    size_t start = skip_characters(at->source, at->source_bytes, from - 1);
    size_t rest = at->source_bytes - start;
    size_t shown = skip_characters(at->source + start, rest, LINE_SHOWN);
    struct sw_bytes out = {0};

    if (start)
        sw_bytes_add(&out, "...");
    add_printable(&out, at->source + start, shown, SIZE_MAX);
    if (shown < rest)
        sw_bytes_add(&out, "...");
    d->caret = at->column - from + (start ? 3 : 0);

    int room = LINE_SHOWN + 1 - (at->column - from);
    d->span = at->span < room ? at->span : room;
    if (d->span < 1)
        d->span = 1;
    d->line = sw_bytes_take(&out);
}

/* Messages about a file as a whole come after those about its lines. */
static int order_of(const struct sw_place *at)
{
    return at->line > 0 ? at->line : INT_MAX;
}

static bool is_before(const struct sw_diag *a, const struct sw_place *at)
{
    if (a->rank != at->rank)
        return a->rank < at->rank;
    if (a->order != order_of(at))
        return a->order < order_of(at);

    return a->column <= at->column;
}

static char *format_where(const struct sw_place *at)
{
    struct sw_bytes out = {0};

    add_printable(&out, at->origin, strlen(at->origin), ORIGIN_SHOWN);
    if (at->line > 0)
        sw_bytes_printf(&out, ":%d:%d", at->line, at->column);

    return sw_bytes_take(&out);
}

static bool fill(struct sw_diag *d, const struct sw_place *at, const char *fmt, va_list ap)
{
    struct sw_bytes text = {0};

    sw_bytes_vprintf(&text, fmt, ap);
    d->text = take_printable(&text);
    d->where = format_where(at);
    d->rank = at->rank;
    d->order = order_of(at);
    d->column = at->column;
    if (at->source)
        keep_line(d, at);

    return d->text && d->where && (d->line || !at->source);
}

/* Makes room at index i; drops the last message when the list is full. */
static bool open_gap(struct sw_diags *d, int i)
{
    if (d->count == SW_DIAG_KEPT) {
        free_diag(&d->items[SW_DIAG_KEPT - 1]);
        d->beyond++;
    } else if (!sw_array_add(&d->items, &d->count, sizeof(*d->items))) {
        return false;
    }

    memmove(d->items + i + 1, d->items + i, (size_t)(d->count - 1 - i) * sizeof(*d->items));
    return true;
}

/* Two checks may find the same error. */
static bool is_known(const struct sw_diags *d, const struct sw_diag *item)
{
    for (int i = 0; i < d->count; i++)
        if (sw_str_eq(d->items[i].where, item->where) && sw_str_eq(d->items[i].text, item->text))
            return true;
    return false;
}

int sw_diags_add(struct sw_diags *d, struct sw_place at, const char *fmt, ...)
{
    int i = d->count;

    while (i > 0 && !is_before(&d->items[i - 1], &at))
        i--;
    d->latest = -1;
    if (i == SW_DIAG_KEPT) {
        d->beyond++;
        return SW_ERR_INVALID;
    }

    struct sw_diag item = {0};
    va_list ap;
    va_start(ap, fmt);

    bool ok = fill(&item, &at, fmt, ap);
    va_end(ap);
    if (ok && is_known(d, &item)) {
        free_diag(&item);
        return SW_ERR_INVALID;
    }
    if (!ok || !open_gap(d, i)) {
        free_diag(&item);
        d->nomem = true;
        return SW_ERR_INVALID;
    }

    d->items[i] = item;
    d->latest = i;
    return SW_ERR_INVALID;
}

/* Whether a is in front of b in the list. */
static bool is_ahead(const struct sw_diag *a, const struct sw_diag *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank;
    return a->order != b->order ? a->order < b->order : a->column <= b->column;
}

void sw_diags_move(struct sw_diags *to, struct sw_diags *from)
{
    for (int k = 0; k < from->count; k++) {
        struct sw_diag *item = &from->items[k];
        int i = to->count;

        while (i > 0 && !is_ahead(&to->items[i - 1], item))
            i--;

        if (is_known(to, item)) {
            free_diag(item);
        } else if (i < SW_DIAG_KEPT && open_gap(to, i)) {
            to->items[i] = *item;
        } else {
            to->beyond++;
            free_diag(item);
        }
    }

    to->beyond += from->beyond;
    to->nomem |= from->nomem;
    to->latest = -1;
    from->count = 0;
    sw_diags_fini(from);
}

bool sw_diags_needs_hint(const struct sw_diags *d)
{
    return d->count > 0 && d->latest >= 0 && !d->items[d->latest].hint;
}

void sw_diags_vhint(struct sw_diags *d, const char *fmt, va_list ap)
{
    struct sw_bytes text = {0};

    if (!sw_diags_needs_hint(d))
        return;

    sw_bytes_vprintf(&text, fmt, ap);

    /* A hint is optional: without memory for it the message is shown alone. */
    d->items[d->latest].hint = take_printable(&text);
}

void sw_diags_hint(struct sw_diags *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    sw_diags_vhint(d, fmt, ap);
    va_end(ap);
}

int sw_diags_status(const struct sw_diags *d, struct sw_err *err)
{
    if (d->nomem)
        return sw_err_nomem(err, "messages about the recipe", sizeof(struct sw_diag));
    if (!d->count)
        return SW_OK;

    int more = d->count + d->beyond - 1;
    if (!more)
        return sw_err_set(err, SW_ERR_INVALID, "%s: %s", d->items[0].where, d->items[0].text);

    return sw_err_set(err, SW_ERR_INVALID, "%s: %s (and %d more)", d->items[0].where,
                      d->items[0].text, more);
}

static void print_one(const struct sw_diag *d, struct sw_bytes *out)
{
    sw_bytes_add(out, d->where);
    sw_bytes_add(out, ": ");
    sw_bytes_add(out, d->text);
    sw_bytes_add(out, "\n");

    if (d->line && *d->line) {
        sw_bytes_add(out, "    ");
        sw_bytes_add(out, d->line);
        sw_bytes_printf(out, "\n    %*s^", d->caret, "");
        for (int i = 1; i < d->span; i++)
            sw_bytes_append(out, "~", 1);
        sw_bytes_add(out, "\n");
    }

    if (d->hint) {
        sw_bytes_add(out, "    hint: ");
        sw_bytes_add(out, d->hint);
        sw_bytes_add(out, "\n");
    }
}

void sw_diags_print(const struct sw_diags *d, struct sw_bytes *out)
{
    for (int i = 0; i < d->count; i++)
        print_one(&d->items[i], out);
    if (d->beyond)
        sw_bytes_printf(out, "%d more error%s\n", d->beyond, d->beyond == 1 ? "" : "s");
}
