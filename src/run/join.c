/* Writes and reads the message for `singa-ws join`. One table has all fields but hosts and files,
 * of which there are several, and serves both directions. */
#include "run/join.h"

#include "base/os.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char host_field[] = "host", file_field[] = "file";

enum kind { TEXT, NUMBER, FLAG, KEY };

static const struct field {
    const char *name;
    enum kind kind;
    size_t offset;
    int64_t most; /* of numbers and flags */
    bool required;
} fields_of_join[] = {
#define FIELD(kind_, member, most_, required_)                                                     \
    {                                                                                              \
        .name = #member, .kind = kind_, .offset = offsetof(struct sw_join, member), .most = most_, \
        .required = required_                                                                      \
    }
    FIELD(NUMBER, task, SW_JOIN_CHECK, true),
    FIELD(NUMBER, own, SW_LAUNCH_MOST_TCP - 1, true),
    FIELD(TEXT, address, 0, false),
    FIELD(NUMBER, port, UINT16_MAX, true),
    FIELD(KEY, key, 0, false),
    FIELD(FLAG, share_machine, 1, true),
    FIELD(TEXT, folder, 0, true),
    FIELD(TEXT, recipe_path, 0, true),
    FIELD(TEXT, recipe, 0, true),
    FIELD(TEXT, overrides, 0, true),
    FIELD(TEXT, fallback, 0, true),
    FIELD(TEXT, name, 0, false),
    FIELD(TEXT, init_from, 0, false),
    FIELD(NUMBER, steps, INT64_MAX, true),
    FIELD(FLAG, steps_at_most, 1, true),
    FIELD(FLAG, oversubscribe, 1, true),
    FIELD(FLAG, verbose, 1, true),
    FIELD(TEXT, uid, 0, true),
    FIELD(TEXT, checkpoint, 0, false),
    FIELD(TEXT, device, 0, false),
};
enum { FIELDS = sizeof fields_of_join / sizeof *fields_of_join };

/* ---- Writing ---- */

static void write_value(struct sw_bytes *out, const char *name, const void *value, size_t bytes)
{
    sw_bytes_printf(out, "%s %zu\n", name, bytes);
    sw_bytes_append(out, value, bytes);
    sw_bytes_add(out, "\n");
}

static void write_field(const struct sw_join *j, const struct field *f, struct sw_bytes *out)
{
    const void *at = (const char *)j + f->offset;
    char number[32];

    if (f->kind == TEXT && *(const char *const *)at) {
        write_value(out, f->name, *(const char *const *)at, strlen(*(const char *const *)at));
    } else if (f->kind == KEY && *(const unsigned char *const *)at) {
        write_value(out, f->name, *(const unsigned char *const *)at, SW_FABRIC_KEY_BYTES);
    } else if (f->kind == NUMBER || f->kind == FLAG) {
        snprintf(number, sizeof number, "%" PRId64,
                 f->kind == FLAG ? (int64_t) * (const bool *)at : *(const int64_t *)at);
        write_value(out, f->name, number, strlen(number));
    }
}

/* "BYTES SUM PATH" */
static void write_file(const struct sw_host_file *f, struct sw_bytes *out)
{
    struct sw_bytes value = {0};

    sw_bytes_printf(&value, "%" PRId64 " %s %s", f->bytes, f->sum, f->path);
    write_value(out, file_field, sw_bytes_text(&value), value.length);
    out->failed = out->failed || value.failed;
    sw_bytes_fini(&value);
}

void sw_join_write(const struct sw_join *j, struct sw_bytes *out)
{
    struct sw_bytes fields = {0};

    for (int i = 0; i < j->count; i++)
        write_value(&fields, host_field, j->names[i], strlen(j->names[i]));
    for (int i = 0; i < j->file_count; i++)
        write_file(&j->files[i], &fields);
    for (int i = 0; i < FIELDS; i++)
        write_field(j, &fields_of_join[i], &fields);

    sw_bytes_printf(out, "singa-ws join %d %zu\n", SW_JOIN_VERSION, fields.length);
    sw_bytes_append(out, fields.text, fields.length);
    out->failed = out->failed || fields.failed;
    if (fields.text)
        explicit_bzero(fields.text, fields.length);
    sw_bytes_fini(&fields);
}

/* ---- Reading ---- */

/* Digits without a sign or leading zeros, at most 18 of them. */
static bool read_number(const char *text, size_t bytes, int64_t *number)
{
    *number = 0;
    if (bytes == 0 || bytes > 18 || (bytes > 1 && text[0] == '0'))
        return false;

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (text[i] - '0');
    }

    return true;
}

static int damaged(struct sw_err *err, const char *field)
{
    return sw_err_set(err, SW_ERR_FORMAT, "the message of host 0 is damaged at field '%.40s'",
                      field);
}

/* One field of the message: its name and its value, both ended with a zero. */
struct item {
    const char *name;
    char *value;
    size_t bytes;
};

/* Takes the next field off *at, up to `end`. */
static int next_item(char **at, const char *end, struct item *item, struct sw_err *err)
{
    char *name = *at, *newline = memchr(name, '\n', (size_t)(end - name));
    char *blank = newline ? memchr(name, ' ', (size_t)(newline - name)) : NULL;
    int64_t bytes;

    if (!blank || !read_number(blank + 1, (size_t)(newline - blank - 1), &bytes) ||
        bytes >= end - newline - 1 || newline[1 + bytes] != '\n')
        return damaged(err, "");

    *blank = newline[1 + bytes] = '\0';
    *item = (struct item){name, newline + 1, (size_t)bytes};
    *at = newline + 2 + bytes;
    return SW_OK;
}

static int store_host(struct sw_join *j, const struct item *item, struct sw_err *err)
{
    if (j->count == SW_LAUNCH_MOST_TCP || item->bytes == 0 || item->bytes >= SW_LAUNCH_NAME ||
        strlen(item->value) != item->bytes)
        return damaged(err, host_field);

    for (int i = 0; i < j->count; i++)
        if (sw_str_eq(j->names[i], item->value))
            return damaged(err, host_field);

    j->names[j->count++] = item->value;
    return SW_OK;
}

/* Lower-case hex digits, `count` of them, and then `end`. */
static bool is_hex(const char *text, size_t count, char end)
{
    return strspn(text, "0123456789abcdef") == count && text[count] == end;
}

static int store_file(struct sw_join *j, const struct item *item, struct sw_err *err)
{
    enum { DIGITS = SW_HOST_FILE_SUM - 1 };

    const char *blank = strchr(item->value, ' ');
    struct sw_host_file f = {.path = NULL};

    if (j->file_count == SW_HOST_FILES || strlen(item->value) != item->bytes || !blank ||
        !read_number(item->value, (size_t)(blank - item->value), &f.bytes) ||
        !is_hex(blank + 1, DIGITS, ' ') || !blank[DIGITS + 2])
        return damaged(err, file_field);

    memcpy(f.sum, blank + 1, DIGITS);
    f.path = blank + DIGITS + 2;
    j->files[j->file_count++] = f;
    return SW_OK;
}

static int store(struct sw_join *j, const struct field *f, const struct item *item,
                 struct sw_err *err)
{
    void *at = (char *)j + f->offset;
    int64_t number;

    if (f->kind == KEY) {
        if (item->bytes != SW_FABRIC_KEY_BYTES)
            return damaged(err, f->name);
        *(const unsigned char **)at = (const unsigned char *)item->value;
        return SW_OK;
    }

    if (f->kind == TEXT) {
        if (strlen(item->value) != item->bytes)
            return damaged(err, f->name);
        *(const char **)at = item->value;
        return SW_OK;
    }

    if (!read_number(item->value, item->bytes, &number) || number > f->most)
        return damaged(err, f->name);
    if (f->kind == FLAG)
        *(bool *)at = number != 0;
    else
        *(int64_t *)at = number;
    return SW_OK;
}

/* A field that comes twice, or that this program does not know, is an error. */
static int store_item(struct sw_join *j, const struct item *item, bool seen[FIELDS],
                      struct sw_err *err)
{
    if (sw_str_eq(item->name, host_field))
        return store_host(j, item, err);
    if (sw_str_eq(item->name, file_field))
        return store_file(j, item, err);

    for (int i = 0; i < FIELDS; i++)
        if (sw_str_eq(item->name, fields_of_join[i].name)) {
            if (seen[i])
                return damaged(err, item->name);
            seen[i] = true;
            return store(j, &fields_of_join[i], item, err);
        }

    return damaged(err, item->name);
}

const struct sw_host_file *sw_join_file(const struct sw_join *j, const char *path)
{
    for (int i = 0; i < j->file_count; i++)
        if (sw_str_eq(j->files[i].path, path))
            return &j->files[i];
    return NULL;
}

static int check(const struct sw_join *j, const bool seen[FIELDS], struct sw_err *err)
{
    for (int i = 0; i < FIELDS; i++)
        if (!seen[i] && fields_of_join[i].required)
            return damaged(err, fields_of_join[i].name);

    if (j->count < 2 || j->own < 1 || j->own >= j->count)
        return damaged(err, "own");
    if (j->port == 0)
        return damaged(err, "port");
    if (j->folder[0] != '/')
        return damaged(err, "folder");
    if (!is_hex(j->uid, 16, '\0'))
        return damaged(err, "uid");
    if (j->checkpoint && !sw_join_file(j, j->checkpoint))
        return damaged(err, "checkpoint");
    return SW_OK;
}

int sw_join_parse(char *fields, size_t bytes, struct sw_join *out, struct sw_err *err)
{
    struct sw_join j = {0};
    bool seen[FIELDS] = {false};
    const char *end = fields + bytes;

    for (char *at = fields; at < end;) {
        struct item item = {0};

        int rc = next_item(&at, end, &item, err);
        if (rc == SW_OK)
            rc = store_item(&j, &item, seen, err);
        if (rc != SW_OK)
            return rc;
    }

    int rc = check(&j, seen, err);
    if (rc == SW_OK)
        *out = j;
    return rc;
}

int sw_join_parse_head(const char *line, size_t line_bytes, size_t *bytes, struct sw_err *err)
{
    static const char begins[] = "singa-ws join ";
    const size_t length = sizeof begins - 1;
    const char *blank = NULL;
    int64_t version, number;

    if (line_bytes > length && line[line_bytes - 1] == '\n' && memcmp(line, begins, length) == 0)
        blank = memchr(line + length, ' ', line_bytes - length);
    if (!blank || !read_number(line + length, (size_t)(blank - line) - length, &version) ||
        !read_number(blank + 1, (size_t)(line + line_bytes - blank) - 2, &number))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "standard input has no message of another host: join is started by `run "
                          "--hosts`");
    if (version != SW_JOIN_VERSION)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "host 0 has another version of singa-ws: its message has version %d, and "
                          "this program knows version %d: install the same version on all hosts",
                          (int)version, SW_JOIN_VERSION);
    if (number > SW_JOIN_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "the message of host 0 has %lld bytes; %d are the limit",
                          (long long)number, SW_JOIN_BYTES);

    *bytes = (size_t)number;
    return SW_OK;
}

static int read_all(int fd, char *to, size_t bytes, struct sw_err *err)
{
    while (bytes > 0) {
        ssize_t n = sw_os()->read(fd, to, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sw_err_errno(err, errno, "standard input");
        if (n == 0)
            return sw_err_set(err, SW_ERR_NOTFOUND, "host 0 ended before its message was complete");

        to += n;
        bytes -= (size_t)n;
    }

    return SW_OK;
}

/* Reads the first line byte by byte, since what follows it is not for this function. */
static int read_head(int fd, size_t *bytes, struct sw_err *err)
{
    char line[SW_JOIN_HEAD];
    size_t n = 0;

    do {
        int rc = read_all(fd, &line[n], 1, err);
        if (rc != SW_OK)
            return rc;
    } while (line[n++] != '\n' && n < sizeof line);

    return sw_join_parse_head(line, n, bytes, err);
}

int sw_join_read(int fd, struct sw_join *out, char **fields, struct sw_err *err)
{
    size_t bytes;

    int rc = read_head(fd, &bytes, err);
    if (rc != SW_OK)
        return rc;

    char *text = sw_calloc(bytes + 1, 1);
    if (!text)
        return sw_err_nomem(err, "message of host 0", bytes + 1);

    rc = read_all(fd, text, bytes, err);
    if (rc == SW_OK)
        rc = sw_join_parse(text, bytes, out, err);
    if (rc == SW_OK)
        *fields = text;
    else
        sw_free(text);
    return rc;
}
