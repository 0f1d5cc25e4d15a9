/* Splits texts into bytes, characters or words, and builds vocabularies from counts or from a list
 * of one token per line with escapes. One owner while a vocabulary is built; frozen afterwards. */
#include "data/vocabulary.h"
#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

static void next_word(struct sw_text *t, const char **token, size_t *n)
{
    const bool marks_lines = t->line_end && *t->line_end;

    while (t->at < t->end && is_blank(*t->at)) {
        if (*t->at++ == '\n' && marks_lines) {
            *token = t->line_end;
            *n = strlen(t->line_end);
            return;
        }
    }

    *token = t->at;
    while (t->at < t->end && !is_blank(*t->at))
        t->at++;
    *n = (size_t)(t->at - *token);
}

int sw_text_next(struct sw_text *t, const char **token, size_t *n, struct sw_err *err)
{
    int rc = sw_stop_check(err);
    if (rc)
        return rc;
    if (t->unit == SW_TEXT_WORDS) {
        next_word(t, token, n);
        return SW_OK;
    }

    *token = t->at;

    *n = t->at < t->end;
    if (t->unit == SW_TEXT_CHARACTERS && *n && (*t->at & 0x80)) { /* else ASCII */
        *n = sw_utf8_length(t->at, (size_t)(t->end - t->at));
        if (*n == 0)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: byte %lld (0x%02x) is not valid UTF-8; use unit = bytes for other text",
                t->what, (long long)(t->at - t->begin), (unsigned char)*t->at);
    }

    t->at += *n;
    return SW_OK;
}

/* ---- vocabularies ---- */

void sw_vocabulary_fini(struct sw_vocabulary *v)
{
    sw_lexicon_fini(&v->tokens);
    *v = (struct sw_vocabulary){.unknown = -1, .line_end = -1};
}

/* Adds `unknown`, which replaces `times` tokens of the texts, as the last token unless the
 * vocabulary contains it. */
static int add_unknown(struct sw_vocabulary *v, const char *unknown, int64_t times,
                       struct sw_err *err)
{
    if (!unknown || !*unknown)
        return SW_OK;
    return sw_lexicon_add(&v->tokens, unknown, strlen(unknown), times, &v->unknown, err);
}

/* Takes the first `keep` tokens of the order. With stand_in, the last place is reserved for it
 * unless it is among them. */
static int take_ranked(struct sw_vocabulary *v, const struct sw_lexicon *met, const int32_t *order,
                       int32_t keep, const char *stand_in, struct sw_err *err)
{
    const size_t stand_in_bytes = stand_in ? strlen(stand_in) : 0;
    bool missing = stand_in != NULL;
    int rc = SW_OK;

    for (int32_t k = 0; !rc && k < keep; k++) {
        size_t n = 0;
        const char *token = sw_lexicon_word(met, order[k], &n);
        int32_t id = 0;

        if (missing && n == stand_in_bytes && !memcmp(token, stand_in, n))
            missing = false;
        if (missing && k + 1 == keep)
            break;

        rc = sw_lexicon_add(&v->tokens, token, n, sw_lexicon_times(met, order[k]), &id, err);
    }

    return rc;
}

static int64_t total_times(const struct sw_lexicon *l)
{
    int64_t total = 0;
    for (int32_t i = 0; i < l->count; i++)
        total += sw_lexicon_times(l, i);
    return total;
}

static int32_t count_frequent(const struct sw_lexicon *l, int64_t min_count)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->count; i++)
        n += sw_lexicon_times(l, i) >= min_count;
    return n;
}

int sw_vocabulary_make(struct sw_vocabulary *v, const struct sw_lexicon *met, int64_t min_count,
                       int64_t max_tokens, const char *unknown, struct sw_err *err)
{
    *v = (struct sw_vocabulary){.unknown = -1, .line_end = -1};

    const int32_t frequent = count_frequent(met, min_count);
    if (frequent == 0 && met->count > 0)
        return sw_err_set(err, SW_ERR_INVALID, "min_count = %lld: no token occurs so often",
                          (long long)min_count);

    const bool cuts = max_tokens > 0 && max_tokens < frequent + (frequent < met->count);
    const int32_t keep = cuts && max_tokens < frequent ? (int32_t)max_tokens : frequent;
    const char *stand_in = cuts && unknown && *unknown ? unknown : NULL;
    int32_t *order = sw_calloc((size_t)met->count + 1, sizeof *order);
    if (!order)
        return sw_err_nomem(err, "a vocabulary", (size_t)met->count * sizeof *order);

    sw_lexicon_rank(met, SW_LEXICON_BY_TIMES, order);

    int rc = take_ranked(v, met, order, keep, stand_in, err);
    if (rc)
        goto out;

    rc = add_unknown(v, unknown, total_times(met) - total_times(&v->tokens), err);

out:
    sw_free(order);
    if (rc)
        sw_vocabulary_fini(v);

    return rc;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes the escapes of a line; -1 for an unknown escape. */
static ptrdiff_t unescape(const char *line, size_t bytes, char *out)
{
    char *to = out;

    for (size_t i = 0; i < bytes; i++) {
        if (line[i] != '\\') {
            *to++ = line[i];
            continue;
        }

        static const char names[] = "ntr\\", values[] = "\n\t\r\\";
        const char c = ++i < bytes ? line[i] : '\0';
        const char *name = c ? strchr(names, c) : NULL;
        if (name) {
            *to++ = values[name - names];
        } else if (c == 'x' && i + 2 < bytes && hex_digit(line[i + 1]) >= 0 &&
                   hex_digit(line[i + 2]) >= 0) {
            *to++ = (char)(hex_digit(line[i + 1]) * 16 + hex_digit(line[i + 2]));
            i += 2;
        } else {
            return -1;
        }
    }

    return to - out;
}

static int take_line(struct sw_vocabulary *v, const char *what, int64_t number, const char *line,
                     size_t bytes, struct sw_err *err)
{
    int32_t id = 0;
    const int32_t before = v->tokens.count;
    char *token = sw_os()->alloc(bytes + 1);
    if (!token)
        return sw_err_nomem(err, "a token", bytes + 1);

    const ptrdiff_t n = unescape(line, bytes, token);
    int rc = n > 0 ? sw_lexicon_add(&v->tokens, token, (size_t)n, 0, &id, err)
                   : sw_err_set(err, SW_ERR_FORMAT, "%s: line %lld: %s", what, (long long)number,
                                n ? "invalid escape, expected \\n, \\t, \\r, \\\\ or \\xHH"
                                  : "empty line; expected a token");
    if (rc)
        goto out;

    if (v->tokens.count == before)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: line %lld: duplicate of the token in line %d",
                        what, (long long)number, id + 1);

out:
    sw_free(token);
    return rc;
}

int sw_vocabulary_parse(struct sw_vocabulary *v, const char *what, const char *list, size_t bytes,
                        const char *unknown, struct sw_err *err)
{
    const char *at = list, *end = list + bytes;
    int rc = SW_OK;

    *v = (struct sw_vocabulary){.unknown = -1, .line_end = -1};
    for (int64_t number = 1; !rc && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        const size_t line_bytes = (size_t)(stop - at) - (stop > at && stop[-1] == '\r');
        rc = take_line(v, what, number, at, line_bytes, err);
        at = newline ? newline + 1 : end;
    }

    if (!rc && v->tokens.count == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has no tokens; expected one per line", what);
    if (!rc)
        rc = add_unknown(v, unknown, 0, err);
    if (rc)
        sw_vocabulary_fini(v);

    return rc;
}

int sw_vocabulary_read_counts(struct sw_vocabulary *v, const char *what, const char *list,
                              struct sw_err *err)
{
    const char *at = list;
    int64_t total = 0;

    for (int32_t i = 0; i < v->tokens.count; i++) {
        char *end = NULL;
        const long long times = strtoll(at, &end, 10);

        if (!*at && i > 0 && i == v->unknown && i == v->tokens.count - 1)
            break; /* `unknown` was added behind the tokens of the list */
        if (end == at || *end != '\n' || times < 0 || times > INT64_MAX - total)
            return sw_err_set(err, SW_ERR_FORMAT, "%s: line %d is not the count of a token", what,
                              i + 1);

        sw_lexicon_set_times(&v->tokens, i, times);
        total += times;
        at = end + 1;
    }

    return SW_OK;
}

int64_t sw_vocabulary_count(const struct sw_vocabulary *v)
{
    return v->tokens.count;
}

void sw_vocabulary_mark_lines(struct sw_vocabulary *v, const char *line_end)
{
    v->line_end = line_end && *line_end ? sw_vocabulary_find(v, line_end, strlen(line_end)) : -1;
}

uint64_t sw_vocabulary_identity(const struct sw_vocabulary *v)
{
    return sw_lexicon_identity(&v->tokens, NULL);
}

int32_t sw_vocabulary_find(const struct sw_vocabulary *v, const char *token, size_t n)
{
    const int32_t id = sw_lexicon_find(&v->tokens, token, n);
    return id >= 0 ? id : v->unknown;
}

const char *sw_vocabulary_token(const struct sw_vocabulary *v, int32_t id, size_t *n)
{
    return sw_lexicon_word(&v->tokens, id, n);
}

void sw_vocabulary_add_line(struct sw_bytes *out, const char *token, size_t bytes)
{
    static const char names[] = "ntr\\", values[] = "\n\t\r\\";

    for (size_t i = 0; i < bytes;) {
        const char *value = token[i] ? strchr(values, token[i]) : NULL;
        const size_t n = sw_utf8_length(token + i, bytes - i);

        if (value)
            sw_bytes_printf(out, "\\%c", names[value - values]);
        else if (n == 0 || (n == 1 && (unsigned char)token[i] < ' '))
            sw_bytes_printf(out, "\\x%02x", (unsigned char)token[i]);
        else
            sw_bytes_append(out, token + i, n);

        i += n && !value ? n : 1;
    }

    sw_bytes_add(out, "\n");
}
