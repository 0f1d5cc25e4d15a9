/* The spool in both directions: appends lines to metrics.jsonl and announces the file beside the
 * database; merges an announced file into the database from the offset that the database remembers.
 * Truncated lines are skipped. */
#include "history/spool.h"
#include "base/json.h"
#include "base/os.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
    CHUNK_BYTES = 1 << 20,
    LINE_BYTES_MAX = 64 << 20,
    HEAD_BYTES_MAX = 256,
    PATH_BYTES_MAX = 8192
};

/* Takes the path, which may be NULL. */
static int init(struct sw_spool *s, const char *db_path, char *path, struct sw_err *err)
{
    s->path = path;
    s->db_path = sw_strdup(db_path);
    if (s->path && s->db_path)
        return SW_OK;

    sw_spool_fini(s);
    return sw_err_nomem(err, "path of a spool", 0);
}

int sw_spool_init(struct sw_spool *s, const char *db_path, const char *out_dir, const char *uid,
                  struct sw_err *err)
{
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", uid);
    return init(s, db_path, sw_format("%s/metrics.jsonl", out_dir), err);
}

int sw_spool_init_part(struct sw_spool *s, const char *db_path, const char *out_dir,
                       const char *uid, int number, const char *host, struct sw_err *err)
{
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s.%d", uid, number);
    return init(s, db_path, sw_format("%s/hosts/%s/metrics.jsonl", out_dir, host), err);
}

void sw_spool_fini(struct sw_spool *s)
{
    sw_free(s->path);
    sw_free(s->db_path);
    memset(s, 0, sizeof *s);
}

/* Writes as much as the file system takes; *done counts the bytes. */
static int write_some(int fd, const char *text, size_t bytes, size_t *done, const char *path,
                      struct sw_err *err)
{
    for (*done = 0; *done < bytes;) {
        ssize_t n = sw_os()->write(fd, text + *done, bytes - *done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return sw_err_set(err, SW_ERR_IO, "%s: %s", path, strerror(n < 0 ? errno : ENOSPC));

        *done += (size_t)n;
    }

    return SW_OK;
}

/* Makes the text to write before the first new line: the head of a new file, or the newline that
 * ends a truncated line. */
static int lead_of(int fd, const char *path, char lead[HEAD_BYTES_MAX], struct sw_err *err)
{
    struct stat st;
    char last = '\n';
    uint64_t id;

    lead[0] = 0;
    if (sw_os()->fstat(fd, &st) != 0)
        return sw_err_errno(err, errno, "%s", path);

    if (st.st_size > 0) {
        if (sw_os()->pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
            strcpy(lead, "\n");
        return SW_OK;
    }

    if (sw_os()->random_bytes(&id, sizeof id) != 0)
        return sw_err_errno(err, errno, "%s: random bytes", path);

    snprintf(lead, HEAD_BYTES_MAX, "{\"row\":\"spool\",\"id\":\"%016llx\",\"version\":1}\n",
             (unsigned long long)id);
    return SW_OK;
}

static int append(const char *path, const char *lines, size_t bytes, size_t *taken,
                  struct sw_err *err)
{
    char lead[HEAD_BYTES_MAX];
    size_t done;
    int fd = sw_os()->open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return sw_err_set(err, SW_ERR_IO, "%s: %s", path, strerror(errno));

    int code = lead_of(fd, path, lead, err);
    if (!code)
        code = write_some(fd, lead, strlen(lead), &done, path, err);

    /* A file with a truncated head could never be merged, so the head is removed again. */
    if (code && lead[0] == '{' && sw_os()->ftruncate(fd, 0) != 0)
        sw_os()->unlink(path);

    if (!code) {
        code = write_some(fd, lines, bytes, &done, path, err);
        while (done && lines[done - 1] != '\n')
            done--;
        *taken = done;
    }

    sw_os()->close(fd);
    return code;
}

static char *announcement_path(const char *db_path, const char *name)
{
    return sw_format("%s-spool/%s", db_path, name);
}

/* Announces the spool. Called after the append, so that a removal of the announcement by a
 * concurrent merge is noticed here. If the disk is full, the next append tries again; a resume
 * finds the spool without the announcement. */
static void announce(const struct sw_spool *s)
{
    struct stat st;
    char *path = announcement_path(s->db_path, s->name), *dir = announcement_path(s->db_path, "");

    if (path && dir && sw_os()->stat(path, &st) != 0 && sw_os_mkdirs(dir, 0700, NULL) == SW_OK)
        if (sw_os_replace_file(path, s->path, strlen(s->path), 0600, NULL) != SW_OK)
            sw_os()->unlink(path);

    sw_free(path);
    sw_free(dir);
}

int sw_spool_append(struct sw_spool *s, const char *lines, size_t bytes, size_t *taken,
                    struct sw_err *err)
{
    *taken = 0;

    int code = append(s->path, lines, bytes, taken, err);
    if (*taken) {
        s->waiting = true;
        announce(s);
    }

    return code;
}

int64_t sw_spool_bytes(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* A file opened for merging: its id and the chunk that was read. */
struct chunk {
    int fd;
    char id[64];
    int64_t offset; /* offset of text in the file */
    char *text;     /* owned */
    size_t bytes, capacity;
    bool at_end;
};

/* Reads the head, the first line: {"row":"spool","id":"...","version":1}. False: the file is not a
 * spool, or is still empty. */
static bool read_head(struct chunk *p, size_t *head_bytes)
{
    char head[HEAD_BYTES_MAX];
    struct sw_json *root = NULL;
    ssize_t n = sw_os()->pread(p->fd, head, sizeof head, 0);
    char *end = n > 0 ? memchr(head, '\n', (size_t)n) : NULL;
    if (!end || sw_json_parse(head, (size_t)(end - head), &root, NULL) != SW_OK)
        return false;

    const struct sw_json *row = sw_json_get(root, "row"), *id = sw_json_get(root, "id");
    bool ok = row && row->type == SW_JSON_STRING && sw_str_eq(row->string, "spool") && id &&
              id->type == SW_JSON_STRING && strlen(id->string) < sizeof p->id;
    if (ok)
        strcpy(p->id, id->string);
    *head_bytes = (size_t)(end - head) + 1;
    sw_json_free(root);

    return ok;
}

/* Fills the buffer from the offset; doubles it until it contains a complete line. */
static int read_chunk(struct chunk *p, const char *path, struct sw_err *err)
{
    for (size_t want = CHUNK_BYTES;; want *= 2) {
        char *more = sw_realloc_array(p->text, want, 1);
        if (!more)
            return sw_err_nomem(err, "chunk of a spool", want);

        p->text = more;
        while (p->bytes < want) {
            ssize_t n = sw_os()->pread(p->fd, p->text + p->bytes, want - p->bytes,
                                       (off_t)(p->offset + (int64_t)p->bytes));
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return sw_err_errno(err, errno, "%s", path);
            if (n == 0) {
                p->at_end = true;
                return SW_OK;
            }

            p->bytes += (size_t)n;
        }

        if (memchr(p->text, '\n', p->bytes) || want >= LINE_BYTES_MAX)
            return SW_OK;
    }
}

static int merge_line(struct sw_store *store, const char *line, size_t bytes, struct sw_merge *m,
                      struct sw_err *err)
{
    struct sw_row *row = NULL;
    char uid[SW_UID_TEXT];
    int code = sw_row_parse(line, bytes, &row, uid, err);
    if (code == SW_ERR_FORMAT) {
        m->damaged += bytes > 0;
        return SW_OK;
    }

    if (!code)
        code = sw_store_apply(store, uid, row, err);
    sw_row_free(row);
    if (code == SW_ERR_INVALID) {
        m->refused++;
        return SW_OK;
    }

    m->rows += code == SW_OK;
    return code;
}

/* Applies every complete line of the buffer; *used counts their bytes. */
static int merge_lines(struct sw_store *store, const struct chunk *p, size_t *used,
                       struct sw_merge *m, struct sw_err *err)
{
    int code = SW_OK;

    for (*used = 0; !code && *used < p->bytes;) {
        const char *line = p->text + *used, *end = memchr(line, '\n', p->bytes - *used);
        if (!end)
            break;

        code = merge_line(store, line, (size_t)(end - line), m, err);
        *used += (size_t)(end - line) + 1;
    }

    return code;
}

static int merge_open_file(struct sw_store *store, struct chunk *p, const char *path,
                           struct sw_merge *m, struct sw_err *err)
{
    size_t head_bytes, used = 0;
    if (!read_head(p, &head_bytes))
        return SW_OK;

    int code = sw_store_spool_offset(store, p->id, &p->offset, err);
    if (code)
        return code;

    if (p->offset < (int64_t)head_bytes)
        p->offset = (int64_t)head_bytes;
    code = read_chunk(p, path, err);
    if (!code)
        code = merge_lines(store, p, &used, m, err);
    if (!code && used)
        code = sw_store_set_spool_offset(store, p->id, path, p->offset + (int64_t)used, err);
    m->offset = p->offset + (int64_t)used;
    m->more = !code && !p->at_end && used;

    return code;
}

int sw_spool_merge_chunk(struct sw_store *store, const char *path, struct sw_merge *m,
                         struct sw_err *err)
{
    m->more = false;

    struct chunk p = {.fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0)};
    if (p.fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? SW_OK
                   : sw_err_set(err, SW_ERR_IO, "%s: %s", path, strerror(errno));

    int code = merge_open_file(store, &p, path, m, err);
    sw_os()->close(p.fd);
    sw_free(p.text);

    return code;
}

/* UID, or UID.NUMBER. */
static bool is_announcement(const char *name)
{
    if (strspn(name, "0123456789abcdef") != SW_UID_TEXT - 1)
        return false;

    const char *number = name + SW_UID_TEXT - 1;
    return !*number ||
           (*number == '.' && number[1] && !number[1 + strspn(number + 1, "0123456789")]);
}

static int add_announced(struct sw_spool_list *list, const char *db_path, const char *name,
                         struct sw_err *err)
{
    struct sw_announced a = {.announcement = announcement_path(db_path, name)};
    struct sw_announced *more = sw_realloc_array(list->items, list->count + 1, sizeof a);

    if (more)
        list->items = more;
    if (!more || !a.announcement) {
        sw_free(a.announcement);
        return sw_err_nomem(err, "list of spools", 0);
    }

    size_t bytes;

    /* An announcement that cannot be read now is retried by the next job. */
    if (sw_os_read_file(a.announcement, PATH_BYTES_MAX, &a.spool, &bytes, err) != SW_OK)
        sw_free(a.announcement);
    else
        list->items[list->count++] = a;

    return SW_OK;
}

int sw_spool_list(const char *db_path, struct sw_spool_list *list, struct sw_err *err)
{
    memset(list, 0, sizeof *list);

    char *dir = announcement_path(db_path, "");
    if (!dir)
        return sw_err_nomem(err, "path of the spools", 0);

    DIR *d = opendir(dir);
    sw_free(dir);

    int code = SW_OK;
    for (struct dirent *e; !code && d && (e = readdir(d));)
        if (is_announcement(e->d_name))
            code = add_announced(list, db_path, e->d_name, err);

    if (d)
        closedir(d);
    if (code)
        sw_spool_list_fini(list);

    return code;
}

void sw_spool_list_fini(struct sw_spool_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        sw_free(list->items[i].announcement);
        sw_free(list->items[i].spool);
    }

    sw_free(list->items);
    memset(list, 0, sizeof *list);
}

void sw_spool_withdraw(const struct sw_announced *a, int64_t bytes_before)
{
    sw_os()->unlink(a->announcement);
    if (sw_spool_bytes(a->spool) != bytes_before &&
        sw_os_replace_file(a->announcement, a->spool, strlen(a->spool), 0600, NULL) != SW_OK)
        sw_os()->unlink(a->announcement);
}
