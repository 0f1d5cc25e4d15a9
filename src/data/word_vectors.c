/* Writes vectors of words as text. The contract is in data/word_vectors.h. */
#include "data/word_vectors.h"
#include "base/os.h"
#include "base/str.h"
#include <string.h>

enum { PIECE_BYTES = 1 << 20 };

void sw_word_vectors_fini(struct sw_word_vectors *v)
{
    sw_lexicon_fini(&v->words);
    sw_free(v->values);
    *v = (struct sw_word_vectors){0};
}

static int check_word(const struct sw_word_vectors *v, int32_t row, const char *path,
                      struct sw_err *err)
{
    size_t n;
    const char *word = sw_lexicon_word(&v->words, row, &n);

    if (n > 0 && strlen(word) == n && strcspn(word, " \t\r\n") == n)
        return SW_OK;
    return sw_err_set(
        err, SW_ERR_UNSUPPORTED,
        "%s: word %d contains blanks or line ends, which the format of word2vec cannot "
        "hold: use --npy",
        path, row + 1);
}

static int flush(struct sw_bytes *text, int fd, const char *path, struct sw_err *err)
{
    int rc = text->failed ? sw_err_nomem(err, path, PIECE_BYTES)
                          : sw_os_write_all(fd, text->text, text->length, path, err);

    sw_bytes_clear(text);
    return rc;
}

int sw_word_vectors_write(const struct sw_word_vectors *v, const char *path, struct sw_err *err)
{
    struct sw_new_file file = {.fd = -1};
    struct sw_bytes text = {0};

    int rc = sw_os_new_file_begin(&file, path, 0666, err);
    sw_bytes_printf(&text, "%d %d\n", v->words.count, v->dims);

    for (int32_t row = 0; rc == SW_OK && row < v->words.count; row++) {
        const float *values = v->values + (size_t)row * (size_t)v->dims;
        size_t n;

        rc = check_word(v, row, path, err);
        sw_bytes_add(&text, sw_lexicon_word(&v->words, row, &n));
        for (int d = 0; d < v->dims; d++)
            sw_bytes_printf(&text, " %.9g", (double)values[d]);
        sw_bytes_add(&text, "\n");
        if (rc == SW_OK && (text.failed || text.length > PIECE_BYTES))
            rc = flush(&text, file.fd, path, err);
    }

    if (rc == SW_OK)
        rc = flush(&text, file.fd, path, err);
    if (rc == SW_OK)
        rc = sw_os_new_file_commit(&file, err);
    sw_os_new_file_abandon(&file);
    sw_bytes_fini(&text);
    return rc;
}
