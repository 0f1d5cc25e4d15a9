/* `include = FILE`: merges a recipe of several files into one list of sections, and into one
 * text.
 *
 * The list has the sections of an included file before those of the including file, so that a later
 * key replaces an earlier one in place (and keeps it as `below`), as `--set` does. The text is that
 * of the recipe with the text of each included file embedded after its include line (ini.h). A run
 * stores this text and no longer needs the files. Parsing it again yields the same list, the same
 * positions for messages, and the same text.
 *
 * Files are read depth first. A file that is already being read, identified by device and inode, is
 * a cycle. The number of files, the nesting depth and the total size (SW_INI_MAX_BYTES) are
 * limited. */
#include "base/os.h"
#include "recipe/build.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

/* A file that is being read, and the file that includes it. */
struct chain {
    const struct chain *up;
    const char *path;
    dev_t device;
    ino_t inode;
    bool on_disk; /* device and inode are known */
    bool absent, plain;
    int depth;
};

struct includes {
    struct sw_recipe *r;
    struct sw_seen sections, keys; /* of r->ini */
    size_t bytes;                  /* of all texts read so far */
    int files;                     /* read so far */
    int merged;                    /* merged so far */
};

static int read_text(struct includes *c, const struct chain *at, const char *text, size_t bytes,
                     struct sw_ini *ini, struct sw_bytes *whole, struct sw_err *err);

static int report(struct includes *c, const struct sw_ini_include *i, const char *why)
{
    const struct sw_ini_entry *e = &i->entry;

    sw_diags_add(
        &c->r->diags,
        sw_ini_place(&e->at, e->value_column, sw_count_characters(e->value, strlen(e->value))),
        "include = %s: %s", e->value, why);
    return SW_OK;
}

/* ---- Which file ---- */

/* FILE in the folder of the file that includes it. */
static const char *path_of(struct sw_recipe *r, const char *from, const char *file)
{
    const char *slash = strrchr(from, '/');
    int folder = slash && file[0] != '/' ? (int)(slash + 1 - from) : 0;
    return sw_pool_format(&r->pool, "%.*s%s", folder, from, file);
}

static void stat_file(struct chain *at)
{
    struct stat st;
    if (sw_os()->stat(at->path, &st) != 0) {
        at->absent = errno == ENOENT || errno == ENOTDIR;
        return;
    }

    at->on_disk = true;
    at->plain = S_ISREG(st.st_mode);
    at->device = st.st_dev;
    at->inode = st.st_ino;
}

static bool is_cycle(const struct chain *at)
{
    for (const struct chain *up = at->up; at->on_disk && up; up = up->up)
        if (up->on_disk && up->device == at->device && up->inode == at->inode)
            return true;
    return false;
}

/* "a.ini -> b.ini -> a.ini" */
static void hint_chain(struct includes *c, const struct chain *at)
{
    const struct chain *from_top[MAX_DEPTH + 2];
    int n = 0;
    struct sw_bytes text = {0};

    for (; at; at = at->up)
        from_top[n++] = at;
    while (n-- > 0)
        sw_bytes_printf(&text, "%s%s", from_top[n]->path, n ? " -> " : "");
    if (!text.failed)
        sw_diags_hint(&c->r->diags, "%s", sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

/* Whether the file may be read; if not, the reason has been reported. */
static bool may_read(struct includes *c, const struct sw_ini_include *i, const struct chain *at)
{
    char why[80] = "";

    if (at->depth > MAX_DEPTH)
        snprintf(why, sizeof why, "includes are nested more than %d deep", MAX_DEPTH);
    else if (c->files >= SW_INI_MAX_FILES)
        snprintf(why, sizeof why, "the recipe has more than %d files", SW_INI_MAX_FILES);
    else if (is_cycle(at))
        snprintf(why, sizeof why, "the file includes itself");
    else if (at->on_disk && !at->plain)
        snprintf(why, sizeof why, "not a regular file");

    if (!*why && !at->absent)
        return true;
    if (at->absent) {
        report(c, i, "no such file");
        return false;
    }

    report(c, i, why);
    hint_chain(c, at);
    return false;
}

/* ---- Merging ---- */

static bool put_entry(struct includes *c, struct sw_ini_section *s, struct sw_ini_entry *e)
{
    struct sw_ini_entry *old = sw_seen_find(&c->keys, s, e->key, strlen(e->key));
    if (old) {
        struct sw_ini_entry *below = sw_pool_alloc(&c->r->pool, 1, sizeof(*below));
        if (!below)
            return false;

        *below = *old;
        *old = *e;
        old->next = below->next;
        old->below = below;
        return true;
    }

    e->next = NULL;
    *(s->last ? &s->last->next : &s->first) = e;
    s->last = e;

    return sw_seen_add(&c->keys, s, e->key, e);
}

/* The number of keys is limited per section of a file; several files together may exceed it. */
static bool check_count(struct includes *c, const struct sw_ini_section *s)
{
    int count = 0;

    for (const struct sw_ini_entry *e = s->first; e; e = e->next)
        count++;
    if (count <= SW_INI_MAX_KEYS)
        return true;

    sw_diags_add(&c->r->diags, sw_ini_place(&s->at, s->kind_column, 1),
                 "more than %d keys in one section", SW_INI_MAX_KEYS);
    return false;
}

/* Returns the section with that title in the list, adding an empty one if there is none. */
static struct sw_ini_section *place_section(struct includes *c, struct sw_ini_section *from)
{
    struct sw_ini *all = &c->r->ini;
    const char *title = from->kind;

    if (from->name)
        title = sw_pool_format(&c->r->pool, "%s %s", from->kind, from->name);
    if (!title)
        return NULL;

    struct sw_ini_section *s = sw_seen_find(&c->sections, NULL, title, strlen(title));
    if (s) {
        struct sw_ini_section had = *s;

        *s = *from; /* messages about the section point to its last header */
        s->next = had.next;
        s->first = had.first;
        s->last = had.last;
        return s;
    }

    from->next = NULL;
    from->first = from->last = NULL;
    *(all->last ? &all->last->next : &all->first) = from;
    all->last = from;

    return sw_seen_add(&c->sections, NULL, title, from) ? from : NULL;
}

static int merge(struct includes *c, struct sw_ini *ini, struct sw_err *err)
{
    ini->file->order = ++c->merged;
    for (struct sw_ini_section *s = ini->first, *next; s; s = next) {
        struct sw_ini_entry *e = s->first, *after;

        next = s->next;

        struct sw_ini_section *into = place_section(c, s);
        bool ok = into != NULL;
        for (; ok && e; e = after) {
            after = e->next;
            ok = put_entry(c, into, e);
        }

        if (!ok)
            return sw_err_nomem(err, ini->file->path, ini->file->bytes);
        if (!check_count(c, into))
            break;
    }

    return SW_OK;
}

/* ---- Reading ---- */

/* The piece of the text between two includes, with a newline at its end. */
static void add_piece(struct sw_bytes *out, const struct sw_ini_file *f, size_t from, size_t to,
                      bool end_line)
{
    sw_bytes_append(out, f->text + from, to - from);
    if (end_line && to > from && f->text[to - 1] != '\n')
        sw_bytes_add(out, "\n");
}

static void add_embedded(struct sw_bytes *out, const char *name, const struct sw_bytes *embedded)
{
    const char *text = sw_bytes_text(embedded);
    size_t lines = 0;
    bool open_end = embedded->length && text[embedded->length - 1] != '\n';

    for (size_t i = 0; i < embedded->length; i++)
        lines += text[i] == '\n';
    sw_bytes_printf(out, "%s%zu lines are %s\n", SW_INI_HELD, lines + open_end, name);
    sw_bytes_append(out, text, embedded->length);
    sw_bytes_printf(out, "%s%s %s\n", open_end ? "\n" : "", SW_INI_HELD_END, name);
    out->failed |= embedded->failed;
}

static int read_embedded(struct includes *c, const struct sw_ini_include *i, const struct chain *at,
                         struct sw_bytes *whole, struct sw_err *err)
{
    struct sw_ini ini;
    return read_text(c, at, i->embedded, i->embedded_bytes, &ini, whole, err);
}

static int read_file(struct includes *c, const struct sw_ini_include *i, const struct chain *at,
                     struct sw_bytes *whole, struct sw_err *err)
{
    struct sw_ini ini;
    struct sw_err why;
    char *text = NULL;
    size_t bytes = 0;

    int rc = sw_os_read_file(at->path, SW_INI_MAX_BYTES, &text, &bytes, &why);
    if (rc == SW_ERR_NOMEM)
        return sw_err_nomem(err, at->path, SW_INI_MAX_BYTES);
    if (rc != SW_OK)
        return report(c, i, why.text);

    c->bytes += bytes;
    if (c->bytes > SW_INI_MAX_BYTES)
        report(c, i, "with this file the recipe is larger than 4 MiB");
    else
        rc = read_text(c, at, text, bytes, &ini, whole, err);

    sw_free(text);
    return rc;
}

/* One include line: the file's sections are merged, its text is added to *whole. */
static int follow(struct includes *c, const struct sw_ini_include *i, const struct chain *up,
                  struct sw_bytes *whole, struct sw_err *err)
{
    struct chain at = {.up = up, .depth = up->depth + 1};
    struct sw_bytes text = {0};

    at.path = path_of(c->r, i->entry.at.file->path, i->entry.value);
    if (!at.path)
        return sw_err_nomem(err, "the name of a file", strlen(i->entry.value));

    if (!i->embedded)
        stat_file(&at);
    if (!may_read(c, i, &at))
        return SW_OK;

    int rc = i->embedded ? read_embedded(c, i, &at, &text, err) : read_file(c, i, &at, &text, err);
    if (rc == SW_OK)
        add_embedded(whole, i->entry.value, &text);
    sw_bytes_fini(&text);

    return rc;
}

static int read_text(struct includes *c, const struct chain *at, const char *text, size_t bytes,
                     struct sw_ini *ini, struct sw_bytes *whole, struct sw_err *err)
{
    struct sw_recipe *r = c->r;
    const struct sw_ini_file from = {at->path, text, bytes, c->files++, 0};
    size_t done = 0;

    int rc = sw_ini_parse(&from, &r->pool, &r->diags, ini, err);
    if (rc != SW_OK)
        return rc;

    if (at->depth == 0)
        r->ini.file = ini->file;

    for (const struct sw_ini_include *i = ini->includes; i; i = i->next) {
        add_piece(whole, ini->file, done, i->line_end, true);
        done = i->end;

        rc = follow(c, i, at, whole, err);
        if (rc != SW_OK)
            return rc;
    }

    add_piece(whole, ini->file, done, ini->file->bytes, false);
    return merge(c, ini, err);
}

int sw_include_read(struct sw_recipe *r, const char *path, const char *text, size_t bytes,
                    struct sw_err *err)
{
    struct includes c = {.r = r, .bytes = bytes};
    struct chain at = {.path = path};
    struct sw_bytes whole = {0};
    struct sw_ini ini;

    stat_file(&at);

    int rc = read_text(&c, &at, text, bytes, &ini, &whole, err);
    if (rc != SW_OK)
        goto out;

    if (!whole.failed)
        r->text = sw_pool_copy(&r->pool, sw_bytes_text(&whole), whole.length);
    if (!r->text)
        rc = sw_err_nomem(err, path, bytes);

out:
    sw_bytes_fini(&whole);
    sw_seen_fini(&c.sections);
    sw_seen_fini(&c.keys);

    return rc;
}
