/* The INI parser: one pass over the lines of a file. Each line becomes a section header, an entry
 * or an include; a mistake becomes a diagnostic with line and column, and parsing goes on. Start at
 * sw_ini_parse at the end of the file; the syntax is in recipe/ini.h. */
#include "recipe/ini.h"
#include "base/os.h"
#include "recipe/seen.h"
#include <string.h>

/* The state of the parser. */
struct reader {
    struct sw_ini *ini;
    struct sw_ini_line at; /* the current line */
    size_t length;         /* without its end */
    struct sw_pool *pool;
    struct sw_diags *diags;
    struct sw_seen sections, keys;
    struct sw_ini_section *section; /* receives entries; NULL: entries are dropped */
    bool top;                       /* before the first section */
    bool orphans;                   /* no entry before the first section was reported yet */
    struct sw_ini_include *include; /* of the current line, or NULL */
    int section_count, key_count;
    bool nomem;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct sw_span sw_span_trim(const char *from, const char *to)
{
    while (from < to && is_blank(*from))
        from++;
    while (to > from && is_blank(to[-1]))
        to--;

    return (struct sw_span){from, (size_t)(to - from)};
}

struct sw_span sw_span_next(const char **at)
{
    const char *item = *at, *comma = strchr(item, ',');

    *at = comma ? comma + 1 : NULL;
    return sw_span_trim(item, comma ? comma : item + strlen(item));
}

int sw_count_characters(const char *s, size_t bytes)
{
    int n = 0;

    for (size_t i = 0; i < bytes; n++) {
        size_t step = (unsigned char)s[i] < 0x80 ? 1 : sw_utf8_length(s + i, bytes - i);
        i += step ? step : 1;
    }

    return n;
}

static int column_of(const struct reader *r, const char *at)
{
    return sw_count_characters(r->at.source, (size_t)(at - r->at.source)) + 1;
}

static struct sw_place place_of(const struct reader *r, const char *at, size_t bytes)
{
    int span = sw_count_characters(at, bytes);

    return (struct sw_place){
        .origin = r->at.file->path,
        .rank = r->at.file->rank,
        .line = r->at.line,
        .column = column_of(r, at),
        .span = span ? span : 1,
        .source = r->at.source,
        .source_bytes = r->length,
    };
}

/* The number of bytes of a name that a message prints; names may be megabytes long. */
static int shown(size_t bytes)
{
    return bytes < 60 ? (int)bytes : 60;
}

static const char *keep(struct reader *r, struct sw_span p)
{
    const char *copy = sw_pool_copy(r->pool, p.at, p.bytes);
    r->nomem |= !copy;
    return copy;
}

/* ---- Section headers ---- */

/* Splits "kind name" at the first run of blanks. */
static void split_words(struct sw_span both, struct sw_span *kind, struct sw_span *name)
{
    const char *end = both.at + both.bytes, *p = both.at;

    while (p < end && !is_blank(*p))
        p++;
    *kind = (struct sw_span){both.at, (size_t)(p - both.at)};
    *name = sw_span_trim(p, end);
}

static bool has_blank(struct sw_span p)
{
    return memchr(p.at, ' ', p.bytes) || memchr(p.at, '\t', p.bytes);
}

bool sw_ini_is_name(const char *s, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (strchr(" \t,=[]", s[i]))
            return false;
    return bytes > 0;
}

static void link_section(struct reader *r, struct sw_ini_section *s, const char *title)
{
    if (!sw_seen_add(&r->sections, NULL, title, s)) {
        r->nomem = true;
        return;
    }

    *(r->ini->last ? &r->ini->last->next : &r->ini->first) = s;
    r->ini->last = s;
    r->section = s;
    r->key_count = 0;
}

/* Adds the section; a duplicate is an error. */
static void open_section(struct reader *r, struct sw_span kind, struct sw_span name)
{
    size_t bytes = name.bytes ? (size_t)(name.at + name.bytes - kind.at) : kind.bytes;
    struct sw_ini_section *s = sw_pool_alloc(r->pool, 1, sizeof(*s));
    char *joined = sw_pool_format(r->pool, "%.*s%s%.*s", (int)kind.bytes, kind.at,
                                  name.bytes ? " " : "", (int)name.bytes, name.at);
    if (!s || !joined) {
        r->nomem = true;
        return;
    }

    const struct sw_ini_section *first = sw_seen_find(&r->sections, NULL, joined, strlen(joined));
    if (first) {
        sw_diags_add(r->diags, place_of(r, kind.at, bytes), "duplicate section [%.*s]",
                     shown(strlen(joined)), joined);
        sw_diags_hint(r->diags, "first defined in line %d; put all keys there", first->at.line);
        return;
    }

    s->at = r->at;
    s->kind = keep(r, kind);
    s->name = name.bytes ? keep(r, name) : NULL;
    s->kind_column = column_of(r, kind.at);
    link_section(r, s, joined);
}

static void read_header(struct reader *r, struct sw_span body)
{
    const char *end = body.at + body.bytes;
    const char *close = memchr(body.at, ']', body.bytes);
    struct sw_span kind, name;

    split_words(sw_span_trim(body.at + 1, close ? close : end), &kind, &name);

    /* Entries after a broken header belong to it, not to the section before. */
    r->section = NULL;
    r->top = r->orphans = false;
    if (!kind.bytes) {
        sw_diags_add(r->diags, place_of(r, body.at, body.bytes), "section header without a kind");
        sw_diags_hint(r->diags, "write [kind] or [kind name], as in [job] or [layer conv1]");
        return;
    }

    if (has_blank(name)) {
        sw_diags_add(r->diags, place_of(r, name.at, name.bytes),
                     "section name '%.*s' contains a blank", shown(name.bytes), name.at);
        return;
    }

    if (name.bytes && !sw_ini_is_name(name.at, name.bytes)) {
        sw_diags_add(r->diags, place_of(r, name.at, name.bytes),
                     "section name '%.*s' contains one of , = [ ]", shown(name.bytes), name.at);
        return;
    }

    if (!close) {
        sw_diags_add(r->diags, place_of(r, end, 0), "missing ']' after '%.*s'", shown(body.bytes),
                     body.at);
    } else if (close + 1 < end) {
        struct sw_span rest = sw_span_trim(close + 1, end);
        sw_diags_add(r->diags, place_of(r, rest.at, rest.bytes), "unexpected text after ']'");
        sw_diags_hint(r->diags, "put key = value on a separate line");
    }

    if (++r->section_count > SW_INI_MAX_SECTIONS) {
        if (r->section_count == SW_INI_MAX_SECTIONS + 1)
            sw_diags_add(r->diags, place_of(r, body.at, body.bytes), "more than %d sections",
                         SW_INI_MAX_SECTIONS);
        return;
    }

    open_section(r, kind, name);
}

/* ---- Entries ---- */

static bool check_key(struct reader *r, struct sw_span line, struct sw_span key, const char *equals)
{
    if (equals && key.bytes && !has_blank(key) && !r->orphans)
        return r->section != NULL;

    struct sw_place at = place_of(r, key.at, key.bytes);
    if (!equals) {
        struct sw_span first, rest;

        split_words(line, &first, &rest);
        at = place_of(r, line.at, line.bytes);
        sw_diags_add(r->diags, at, "missing '=' in '%.*s'", shown(line.bytes), line.at);

        if (rest.bytes)
            sw_diags_hint(r->diags, "%.*s = %.*s", shown(first.bytes), first.at, shown(rest.bytes),
                          rest.at);
        else
            sw_diags_hint(r->diags, "expected [section], key = value or a comment");
    } else if (!key.bytes) {
        at = place_of(r, equals, 1);
        sw_diags_add(r->diags, at, "missing key before '='");
    } else if (has_blank(key)) {
        sw_diags_add(r->diags, at, "key '%.*s' contains a blank", shown(key.bytes), key.at);
    } else {
        /* Report only the first of several entries outside a section. */
        r->orphans = false;
        sw_diags_add(r->diags, at, "'%.*s' is outside a section", shown(key.bytes), key.at);
        sw_diags_hint(r->diags, "start the recipe with a section header such as [job]");
    }

    return false;
}

static bool check_new(struct reader *r, struct sw_span key)
{
    const struct sw_ini_entry *first = sw_seen_find(&r->keys, r->section, key.at, key.bytes);
    if (!first && r->key_count < SW_INI_MAX_KEYS) {
        r->key_count++;
        return true;
    }

    struct sw_place at = place_of(r, key.at, key.bytes);
    if (first) {
        sw_diags_add(r->diags, at, "duplicate key '%.*s'", shown(key.bytes), key.at);
        sw_diags_hint(r->diags, "first defined in line %d", first->at.line);
    } else if (r->key_count++ == SW_INI_MAX_KEYS) {
        sw_diags_add(r->diags, at, "more than %d keys in one section", SW_INI_MAX_KEYS);
    }

    return false;
}

static void fill_entry(struct reader *r, struct sw_ini_entry *e, struct sw_span key,
                       struct sw_span value, const char *equals)
{
    e->at = r->at;
    e->key = keep(r, key);
    e->value = keep(r, value);
    e->key_column = column_of(r, key.at);
    e->value_column = value.bytes ? column_of(r, value.at) : column_of(r, equals) + 1;
}

static void read_include(struct reader *r, struct sw_span key, struct sw_span value,
                         const char *equals)
{
    struct sw_ini_include *i = sw_pool_alloc(r->pool, 1, sizeof(*i));

    if (!value.bytes) {
        sw_diags_add(r->diags, place_of(r, key.at, key.bytes), "include: missing file name");
        return;
    }
    if (!i) {
        r->nomem = true;
        return;
    }

    fill_entry(r, &i->entry, key, value, equals);
    *(r->ini->last_include ? &r->ini->last_include->next : &r->ini->includes) = i;
    r->ini->last_include = r->include = i;
}

static bool is_word(struct sw_span p, const char *word)
{
    return p.bytes == strlen(word) && memcmp(p.at, word, p.bytes) == 0;
}

static void read_entry(struct reader *r, struct sw_span line)
{
    const char *end = line.at + line.bytes;
    const char *equals = memchr(line.at, '=', line.bytes);
    struct sw_span key = sw_span_trim(line.at, equals ? equals : end);
    if (r->top && equals && is_word(key, "include")) {
        read_include(r, key, sw_span_trim(equals + 1, end), equals);
        return;
    }
    if (!check_key(r, line, key, equals) || !check_new(r, key))
        return;

    struct sw_ini_entry *e = sw_pool_alloc(r->pool, 1, sizeof(*e));
    if (!e) {
        r->nomem = true;
        return;
    }

    fill_entry(r, e, key, sw_span_trim(equals + 1, end), equals);
    if (r->nomem || !sw_seen_add(&r->keys, r->section, e->key, e)) {
        r->nomem = true;
        return;
    }

    *(r->section->last ? &r->section->last->next : &r->section->first) = e;
    r->section->last = e;
}

/* ---- Lines ---- */

/* The line without its comment: `;` or `#` first in the line or after a blank. */
static struct sw_span without_comment(const char *start, size_t length)
{
    size_t end = length;

    for (size_t i = 0; i < length; i++)
        if ((start[i] == ';' || start[i] == '#') && (i == 0 || is_blank(start[i - 1]))) {
            end = i;
            break;
        }

    return sw_span_trim(start, start + end);
}

/* Reports bytes that are not text, at most one per line. */
static bool check_text(struct reader *r)
{
    for (size_t i = 0; i < r->length;) {
        unsigned char c = (unsigned char)r->at.source[i];
        if (c >= 0x20 && c < 0x7f) {
            i++;
            continue;
        }

        size_t n = sw_utf8_length(r->at.source + i, r->length - i);
        if (!n) {
            sw_diags_add(r->diags, place_of(r, r->at.source + i, 1), "byte 0x%02x is not UTF-8", c);
            sw_diags_hint(r->diags, "save the recipe as UTF-8 text");
            return false;
        }

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            sw_diags_add(r->diags, place_of(r, r->at.source + i, 1), "control character 0x%02x", c);
            return false;
        }

        i += n;
    }

    return true;
}

static void read_line(struct reader *r)
{
    if (!check_text(r))
        return;

    struct sw_span line = without_comment(r->at.source, r->length);
    if (!line.bytes)
        return;

    if (*line.at == '[')
        read_header(r, line);
    else
        read_entry(r, line);
}

static const char *next_line(const char *p, const char *end)
{
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    return newline ? newline + 1 : end;
}

static bool begins_with(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0;
}

/* Skips the embedded text of an included file after its include line. Returns the end of that text,
 * p if there is none, or NULL after an error. The embedded lines do not count as lines of this
 * file. */
static const char *skip_embedded(struct reader *r, const char *p, const char *end)
{
    const char *digits = p + strlen(SW_INI_HELD), *from = next_line(p, end), *to = from;
    long lines = 0;

    r->include->line_end = r->include->end = (size_t)(p - r->at.file->text);
    if (!begins_with(p, end, SW_INI_HELD))
        return p;

    for (; digits < end && *digits >= '0' && *digits <= '9' && lines < SW_INI_MAX_BYTES; digits++)
        lines = 10 * lines + (*digits - '0');
    for (; lines > 0 && to < end; lines--)
        to = next_line(to, end);
    if (lines > 0 || !begins_with(to, end, SW_INI_HELD_END)) {
        r->at.line++;
        r->at.source = p;
        r->length = (size_t)(from - p) - (from > p && from[-1] == '\n');
        sw_diags_add(r->diags, place_of(r, r->at.source, r->length),
                     "the embedded text of %s does not have the stated number of lines",
                     r->include->entry.value);
        sw_diags_hint(r->diags, "a line '%s %s' must follow the text", SW_INI_HELD_END,
                      r->include->entry.value);
        return NULL;
    }

    r->include->embedded = from;
    r->include->embedded_bytes = (size_t)(to - from);
    to = next_line(to, end);
    r->include->end = (size_t)(to - r->at.file->text);

    return to;
}

static void read_lines(struct reader *r, const char *p, const char *end)
{
    while (p && p < end && !r->nomem) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;

        r->include = NULL;
        r->at.source = p;
        r->length = (size_t)(stop - p);
        if (r->length && stop[-1] == '\r')
            r->length--;
        r->at.line++;
        read_line(r);
        p = newline ? newline + 1 : end;
        if (r->include)
            p = skip_embedded(r, p, end);
    }
}

/* A zero byte indicates a binary file, which gets one message instead of one per line. */
static bool check_is_text(struct reader *r, const char *text, size_t bytes)
{
    const char *zero = memchr(text, '\0', bytes);
    if (!zero)
        return true;

    struct sw_place at = {.origin = r->at.file->path, .rank = r->at.file->rank};
    sw_diags_add(r->diags, at, "not a text file: byte %zu is zero", (size_t)(zero - text));

    if (bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        sw_diags_hint(r->diags, "the file looks like UTF-16; save it as UTF-8");
    else
        sw_diags_hint(r->diags,
                      "a recipe is a text file of sections and key = value lines; see recipes/");

    return false;
}

int sw_ini_parse(const struct sw_ini_file *from, struct sw_pool *pool, struct sw_diags *diags,
                 struct sw_ini *ini, struct sw_err *err)
{
    const char *path = from->path;
    const size_t bytes = from->bytes;

    if (bytes > SW_INI_MAX_BYTES)
        return sw_err_set(err, SW_ERR_INVALID, "%s: %zu bytes; a recipe has at most %d", path,
                          bytes, SW_INI_MAX_BYTES);

    struct sw_ini_file *file = sw_pool_alloc(pool, 1, sizeof(*file));
    if (!file)
        return sw_err_nomem(err, path, bytes);

    *file = *from;
    file->path = sw_pool_copy(pool, path, strlen(path));
    file->text = sw_pool_copy(pool, from->text, bytes);
    if (!file->path || !file->text)
        return sw_err_nomem(err, path, bytes);

    struct sw_ini out = {.file = file};
    struct reader r = {
        .ini = &out, .at.file = file, .pool = pool, .diags = diags, .top = true, .orphans = true};
    if (check_is_text(&r, file->text, bytes)) {
        bool mark = bytes >= 3 && memcmp(file->text, "\xef\xbb\xbf", 3) == 0;
        read_lines(&r, file->text + (mark ? 3 : 0), file->text + bytes);
    }

    sw_seen_fini(&r.sections);
    sw_seen_fini(&r.keys);
    if (r.nomem)
        return sw_err_nomem(err, path, bytes);

    *ini = out;
    return SW_OK;
}

struct sw_place sw_ini_place(const struct sw_ini_line *line, int column, int span)
{
    const struct sw_ini_file *file = line->file;
    const char *source = line->source;
    struct sw_place at = {.origin = file->path,
                          .rank = file->rank,
                          .line = line->line,
                          .column = column,
                          .span = span};

    if (!source)
        return at;

    const char *end = file->text + file->bytes;
    const char *newline = memchr(source, '\n', (size_t)(end - source));
    at.source = source;
    at.source_bytes = (size_t)((newline ? newline : end) - source);
    if (at.source_bytes && source[at.source_bytes - 1] == '\r')
        at.source_bytes--;

    return at;
}
