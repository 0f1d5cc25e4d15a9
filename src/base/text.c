/* Makes text from recipes, files and databases safe for a terminal: unsafe characters become
 * escapes. The same tables give the width of a character in columns. No state; any thread may call.
 * The contract is in base/text.h. */
#include "base/text.h"

#include <string.h>

/* ---- Characters -------------------------------------------------------------------------------
 */

uint32_t sw_utf8_next(const char **text, size_t *left)
{
    static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const unsigned char *s = (const unsigned char *)*text;
    size_t n = sw_utf8_length(*text, *left);

    *text += n ? n : 1;
    *left -= n ? n : 1;
    if (n == 0)
        return SW_UTF8_BAD;

    uint32_t rune = s[0] & lead[n];
    for (size_t i = 1; i < n; i++)
        rune = rune << 6 | (s[i] & 0x3f);

    return rune;
}

size_t sw_utf8_whole(const char *text, size_t bytes)
{
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        unsigned char c = (unsigned char)text[bytes - back];
        size_t needs = c >= 0xf5 ? 0 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
        if (needs > back)
            return bytes - back;
        if (needs || c < 0x80)
            return bytes;
    }

    return bytes;
}

void sw_utf8_copy(char *out, size_t bytes, const char *text)
{
    size_t length = strlen(text);

    if (length >= bytes)
        length = sw_utf8_whole(text, bytes - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

struct span {
    uint32_t from, to;
};

static bool within(const struct span *spans, size_t count, uint32_t rune)
{
    for (size_t i = 0; i < count; i++)
        if (rune >= spans[i].from && rune <= spans[i].to)
            return true;
    return false;
}

bool sw_rune_is_unsafe(uint32_t rune)
{
    static const struct span unsafe[] = {{0x00, 0x1f},
                                         {0x7f, 0x9f},
                                         {0x61c, 0x61c},
                                         {0x180e, 0x180e},
                                         {0x200b, 0x200b},
                                         {0x200e, 0x200f},
                                         {0x2028, 0x202e},
                                         {0x2060, 0x206f},
                                         {0xfeff, 0xfeff},
                                         {0xfff9, 0xfffb},
                                         {0xfffe, 0xffff},
                                         {0xe0000, 0xe007f},
                                         {SW_UTF8_BAD, SW_UTF8_BAD}};
    return within(unsafe, sizeof unsafe / sizeof *unsafe, rune);
}

int sw_rune_columns(uint32_t rune)
{
    static const struct span none[] = {
        {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
        {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f},
        {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
    static const struct span two[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                                      {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                                      {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                                      {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

    if (within(none, sizeof none / sizeof *none, rune))
        return 0;

    return within(two, sizeof two / sizeof *two, rune) ? 2 : 1;
}

/* ---- Texts ------------------------------------------------------------------------------------
 */

/* `first` is the byte with which the character begins. */
static void add_escape(struct sw_bytes *out, uint32_t rune, unsigned char first)
{
    if (rune < 0x80 || rune == SW_UTF8_BAD)
        sw_bytes_printf(out, "\\x%02x", first);
    else
        sw_bytes_printf(out, rune > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)rune);
}

/* Appends safe characters run by run. */
static void add(struct sw_bytes *out, const char *text, size_t left, bool lines)
{
    const char *safe = text;

    while (left) {
        const char *at = text;
        uint32_t rune = sw_utf8_next(&text, &left);
        bool is_blank = rune == '\n' || rune == '\t';
        if ((is_blank && lines) || !sw_rune_is_unsafe(rune))
            continue;

        sw_bytes_append(out, safe, (size_t)(at - safe));

        if (is_blank)
            sw_bytes_add(out, " ");
        else
            add_escape(out, rune, (unsigned char)*at);

        safe = text;
    }

    sw_bytes_append(out, safe, (size_t)(text - safe));
}

void sw_text_add(struct sw_bytes *out, const char *text)
{
    add(out, text, strlen(text), false);
}

void sw_text_add_lines(struct sw_bytes *out, const char *text, size_t bytes)
{
    add(out, text, bytes, true);
}

int sw_text_columns(const char *text)
{
    size_t left = strlen(text);
    int columns = 0;

    while (left) {
        uint32_t rune = sw_utf8_next(&text, &left);

        if (rune == '\n' || rune == '\t')
            columns++;
        else if (rune < 0x80 || rune == SW_UTF8_BAD)
            columns += sw_rune_is_unsafe(rune) ? 4 : 1;
        else
            columns += !sw_rune_is_unsafe(rune) ? sw_rune_columns(rune) : rune > 0xffff ? 10 : 6;
    }

    return columns;
}
