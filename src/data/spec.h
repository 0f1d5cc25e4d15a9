/* What a trained net expects of its data, beyond the recipe: names of classes and columns, the
 * vocabulary, the shapes of fields, and the files that transforms read. It is saved in checkpoints,
 * so that a net can be used where its data is missing, and classes keep their numbers with any
 * data.
 *
 * In a checkpoint it is text in __metadata__ (keys `data.*`; lists have one item per line, with
 * the escapes of vocabulary files) and the tensors `data.mean_image`, `data.whiten.mean` and
 * `data.whiten.matrix`. One owner; frozen after reading. */
#pragma once

#include "data/format.h"
#include "data/lexicon.h"
#include "tensor/safetensors.h"

struct sw_source;

/* Zero-initialize; free with fini. Members are zero or NULL where the checkpoint has no such thing,
 * as those of earlier versions. */
struct sw_data_spec {
    char *section, *format; /* owned: of the data that the spec describes */
    int field_count;
    struct sw_field field[SW_MAX_FIELDS]; /* finished; names are owned */
    int64_t raw[3]; /* channels, height and width of images before transforms; 0: they vary */
    struct sw_lexicon classes; /* names in the order of their numbers; empty: only numbers */
    struct sw_lexicon columns; /* names of the columns that make up the image */
    char *tokens;              /* owned: vocabulary as a list, for sw_vocabulary_parse */
    char *token_counts;        /* owned: their counts in the text, one per line; NULL: unknown */
    char *tags;                /* owned: that of the field `tags`, as a list */
    int unit;                  /* with tokens: enum sw_text_unit */
    float *mean_image;         /* owned; [channels, mean_height, mean_width] */
    int64_t mean_height, mean_width;
    float *whiten_mean, *whiten; /* owned; [D] and [D, D], D = whitened */
    int64_t whitened;
};

void sw_data_spec_fini(struct sw_data_spec *spec);
const struct sw_field *sw_data_spec_field(const struct sw_data_spec *spec, const char *name);

/* Adds the spec of a source to a checkpoint; the source is borrowed until the file is written.
 * Errors: those of the writer, SW_ERR_NOMEM. */
int sw_data_spec_write(const struct sw_source *s, struct sw_st_writer *w,
                       struct sw_err *err) SW_MUST_CHECK;
/* Reads what the file has of it. Errors: SW_ERR_FORMAT naming the key, those of reading,
 * SW_ERR_NOMEM; free the spec also after an error. */
int sw_data_spec_read(struct sw_data_spec *spec, const struct sw_st_file *f,
                      struct sw_err *err) SW_MUST_CHECK;
/* Whether a tensor of a checkpoint belongs to the spec rather than to the net. */
bool sw_data_spec_owns(const char *tensor);
