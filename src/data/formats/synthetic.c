/* Synthetic images: deterministic, learnable, of any size, and cheap enough (a fraction of a
 * nanosecond per element) not to dominate a benchmark.
 *
 * An image of class k is, per channel, the sum of two plane waves whose length, slope and phase are
 * drawn from k, shifted sideways by a few pixels drawn from the record, plus noise: x[c, y, x] =
 * wave(a)[phase(a) + slope(a) y + x + shift] + wave(b)[...] + noise[hash(row) + x] in raw units
 * 0..255, as unsigned bytes: 0..100 for each wave and 0..55 for the noise, so that a byte cannot
 * overflow. Waves are tables of one period and one width, noise is a table read at a hashed
 * position per row: a row is the sum of three byte strings. The tables take about 70 KiB whatever
 * the number of classes. Classes are the same in every split with the same `seed`; the records of
 * two splits differ.
 *
 * `kind = sequences` generates running text in the form of the format text: windows of one long
 * chain of tokens (data/synthetic_words.h). `kind = pairs` adds word counts (text) and tags to
 * images, all drawn from the same class. With `label_sets` every second record has another class,
 * too: wave b, words and tags of both, and the label is a row with 1 for each of them.
 * `kind = series` generates motion in the form of the format series, with the style as the label
 * (data/synthetic_motion.h). */
#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "data/format.h"
#include "data/synthetic_motion.h"
#include "data/synthetic_words.h"
#include <math.h>

enum {
    WAVES = 8,
    NOISE_BYTES = 1 << 16,
    WAVE_TOP = 100,
    NOISE_TOP = 55,
    MIN_PERIOD = 4,
    BLOCK = 16
};

enum kind { KIND_AUTO, KIND_IMAGES, KIND_SEQUENCES, KIND_PAIRS, KIND_SERIES };

static const char *const kinds[] = {"auto", "pictures", "sequences", "pairs", "series", NULL};

struct synthetic_conf {
    int64_t classes, records, height, width, seed;
    int kind; /* enum kind */
    int64_t length, words, tags, frames, order;
    bool label_sets;
};

struct wave {
    uint32_t period;      /* pixels */
    unsigned char *table; /* part of tables; period + width bytes */
};

/* Fields of images and of pairs, those of sequences, and those of series. */
enum { IMAGE, LABEL, TEXT, TAGS };
enum { TOKENS, TARGET, NEXT };
enum { PAST, LAST, FRAME, STYLE };

struct synthetic_state {
    enum kind kind;
    struct sw_synthetic_words words;
    struct sw_synthetic_motion motion;
    uint64_t class_key;
    struct sw_philox record_key;
    struct wave wave[WAVES];
    unsigned char *noise;  /* part of tables; NOISE_BYTES + width */
    unsigned char *tables; /* owned */
    bool label_sets;
};

static int64_t choose(int64_t written, int64_t implied, int64_t otherwise)
{
    return written ? written : implied ? implied : otherwise;
}

static void fill_wave(struct wave *w, int64_t width)
{
    const double turn = 6.283185307179586 / w->period;
    for (int64_t x = 0; x < w->period + width; x++)
        w->table[x] = (unsigned char)lrint(WAVE_TOP / 2.0 * (1 + sin(turn * (double)x)));
}

static int make_tables(struct synthetic_state *s, int64_t width, struct sw_err *err)
{
    static const double cycles[WAVES] = {1,   1.25, 1.5, 2,
                                         2.5, 3,    3.5, 4}; /* periods across the image */
    size_t bytes = NOISE_BYTES + (size_t)width;

    for (int i = 0; i < WAVES; i++) {
        s->wave[i].period = (uint32_t)lrint((double)width / cycles[i]);
        if (s->wave[i].period < MIN_PERIOD)
            s->wave[i].period = MIN_PERIOD;
        bytes += s->wave[i].period + (size_t)width;
    }

    s->tables = sw_os()->alloc(bytes);
    if (!s->tables)
        return sw_err_nomem(err, "tables of synthetic images", bytes);

    s->noise = s->tables;

    unsigned char *at = s->tables + NOISE_BYTES + width;
    for (int i = 0; i < WAVES; i++) {
        s->wave[i].table = at;
        at += s->wave[i].period + width;
        fill_wave(&s->wave[i], width);
    }

    for (int64_t i = 0; i < NOISE_BYTES + width; i++) {
        const uint64_t word = sw_mix64(s->class_key + (uint64_t)i) >> 32;
        s->noise[i] = (unsigned char)(word * (NOISE_TOP + 1) >> 32);
    }

    return SW_OK;
}

static int open_images(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct synthetic_conf *conf = args->conf;
    const struct sw_geometry *like = &args->implied;
    const int64_t c = choose(args->channels, like->channels, 3);
    const int64_t y = choose(conf->height, like->height, 32);
    const int64_t x = choose(conf->width, like->width, 32);
    if (c * y * x > INT32_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "channels x height x width = %lldx%lldx%lld exceeds 2 GiB per image",
                          (long long)c, (long long)y, (long long)x);

    r->field[IMAGE] = (struct sw_field){"image", SW_U8, 3, {c, y, x}};
    r->field[LABEL] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 2;

    return make_tables(r->state, x, err);
}

static void add_words(struct sw_records *r, const struct sw_format_args *args)
{
    const struct synthetic_conf *conf = args->conf;
    const int64_t words = choose(conf->words, args->implied.words, 100);

    r->field[TEXT] = (struct sw_field){"text", SW_F32, 1, {words}};
    r->field[TAGS] = (struct sw_field){"tags", SW_I32, 1, {conf->tags}};
    r->field_count = 4;
    if (conf->label_sets)
        r->field[LABEL] = (struct sw_field){"label", SW_F32, 1, {r->classes}};
    ((struct synthetic_state *)r->state)->label_sets = conf->label_sets;
    ((struct synthetic_state *)r->state)->words.tokens = words;
}

static void open_sequences(struct sw_records *r, const struct sw_format_args *args)
{
    const struct synthetic_conf *conf = args->conf;
    const int64_t length = choose(conf->length, args->implied.length, 50);

    r->field[TOKENS] = (struct sw_field){"tokens", SW_I32, 1, {length}};
    r->field[TARGET] = (struct sw_field){"target", SW_I32, 1, {length}};
    r->field[NEXT] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 3;
    ((struct synthetic_state *)r->state)->words.tokens = r->classes;
}

/* style_key and split_key are set. */
static int open_series(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct synthetic_conf *conf = args->conf;
    struct sw_synthetic_motion *m = &((struct synthetic_state *)r->state)->motion;

    m->width = choose(conf->width, args->implied.width, 12);
    m->frames = choose(conf->frames, args->implied.frames, 100);
    m->order = conf->order;
    if (m->frames <= m->order)
        return sw_err_set(err, SW_ERR_INVALID, "frames = %lld: order = %lld requires at least %lld",
                          (long long)m->frames, (long long)m->order, (long long)m->order + 1);

    r->classes = SW_MOTION_STYLES;
    r->field[PAST] = (struct sw_field){"past", SW_F32, 2, {m->order, m->width}};
    r->field[LAST] = (struct sw_field){"last", SW_F32, 1, {m->width}};
    r->field[FRAME] = (struct sw_field){"frame", SW_F32, 1, {m->width}};
    r->field[STYLE] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 4;
    return SW_OK;
}

static int synthetic_open(struct sw_records *r, const struct sw_format_args *args,
                          struct sw_err *err)
{
    const struct synthetic_conf *conf = args->conf;
    const struct sw_geometry *like = &args->implied;
    struct synthetic_state *s = r->state;
    const uint64_t seed = (uint64_t)conf->seed, split = sw_hash_name(args->split);

    r->count = choose(conf->records, like->records, 10000);
    r->classes = choose(conf->classes, like->classes, 10);
    s->kind = conf->kind     ? (enum kind)conf->kind
              : like->length ? KIND_SEQUENCES
              : like->frames ? KIND_SERIES
              : like->words  ? KIND_PAIRS
                             : KIND_IMAGES;
    s->class_key = sw_mix64(seed ^ SW_PURPOSE_SYNTHETIC);
    s->record_key = sw_philox_stream(seed, SW_PURPOSE_SYNTHETIC, split);
    s->words.class_key = sw_mix64(s->class_key);
    s->words.split_key = sw_mix64(s->words.class_key ^ split);
    s->motion.style_key = s->words.class_key;
    s->motion.split_key = s->words.split_key;

    r->where = sw_strdup("generated data");
    if (!r->where)
        return sw_err_nomem(err, "a description of synthetic data", 0);
    if (s->kind == KIND_SEQUENCES) {
        open_sequences(r, args);
        return SW_OK;
    }
    if (s->kind == KIND_SERIES)
        return open_series(r, args, err);

    int rc = open_images(r, args, err);
    if (rc)
        return rc;

    if (s->kind == KIND_PAIRS)
        add_words(r, args);
    return rc;
}

static void synthetic_close(struct sw_records *r)
{
    struct synthetic_state *s = r->state;
    sw_free(s->tables);
}

/* out = a + b + noise; no byte overflows, by construction of the tables. */
static void add_row(unsigned char *restrict out, const unsigned char *restrict a,
                    const unsigned char *restrict b, const unsigned char *restrict noise, int64_t n)
{
    int64_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK) {
        for (int k = 0; k < BLOCK; k++)
            out[i + k] = (unsigned char)(a[i + k] + b[i + k] + noise[i + k]);
    }

    for (; i < n; i++)
        out[i] = (unsigned char)(a[i] + b[i] + noise[i]);
}

/* A plane wave of a class in one channel. */
struct plane_wave {
    const struct wave *wave;
    uint32_t phase; /* pixels */
    uint32_t
        slope; /* sixteenths of a pixel per row, -24 .. 24, plus a whole period to be positive */
};

static struct plane_wave draw_wave(const struct synthetic_state *s, int64_t label, int64_t channel,
                                   int which, uint32_t shift)
{
    const uint64_t h = sw_mix64(
        s->class_key ^ sw_mix64((uint64_t)label << 24 | (uint64_t)channel << 1 | (uint64_t)which));
    const struct wave *w = &s->wave[h % WAVES];
    const uint32_t slope = (uint32_t)(h >> 8) % 49;

    return (struct plane_wave){w, (uint32_t)(h >> 32) % w->period + shift,
                               slope + 16 * w->period - 24};
}

static const unsigned char *wave_row(const struct plane_wave *p, int64_t y)
{
    const uint64_t travelled = (uint64_t)y * p->slope >> 4;
    return p->wave->table + (p->phase + travelled) % p->wave->period;
}

static void paint(const struct sw_records *r, struct sw_philox4 word,
                  struct sw_synthetic_labels labels, unsigned char *out)
{
    const struct synthetic_state *s = r->state;
    const int64_t height = r->field[0].dim[1], width = r->field[0].dim[2];
    const uint32_t shift = (uint32_t)((uint64_t)word.v[1] * (uint64_t)(width / 16 + 1) >> 32);
    uint64_t h = (uint64_t)word.v[2] << 32 | word.v[3];

    for (int64_t c = 0; c < r->field[0].dim[0]; c++) {
        const struct plane_wave a = draw_wave(s, labels.of[0], c, 0, shift),
                                b = draw_wave(s, labels.of[1], c, 1, shift);

        for (int64_t y = 0; y < height; y++, out += width) {
            /* Knuth's MMIX generator: one step per row; its 16 upper bits select the noise
             * position. */
            h = h * 6364136223846793005ull + 1442695040888963407ull;
            add_row(out, wave_row(&a, y), wave_row(&b, y), s->noise + (h >> 48), width);
        }
    }
}

static void fetch_sequence(const struct sw_records *r, int64_t record, int f, int32_t *out)
{
    const struct synthetic_state *s = r->state;
    const int64_t length = r->field[TOKENS].dim[0], first = record * length;

    if (f == NEXT)
        sw_synthetic_text(&s->words, first + length, 1, out);
    else
        sw_synthetic_text(&s->words, first + (f == TARGET), length, out);
}

/* 0 .. classes-1, from 32 bits. */
static int64_t draw_class(const struct sw_records *r, uint64_t bits)
{
    return (int64_t)(bits * (uint64_t)r->classes >> 32);
}

static struct sw_synthetic_labels draw_labels(const struct sw_records *r, struct sw_philox4 word)
{
    const struct synthetic_state *s = r->state;
    const int64_t first = draw_class(r, word.v[0]);
    const uint64_t h = sw_mix64((uint64_t)word.v[1] << 32 | word.v[0]);
    const bool both = s->label_sets && h & 1;

    return (struct sw_synthetic_labels){{first, both ? draw_class(r, h >> 32) : first}};
}

static void fill_label(const struct sw_records *r, struct sw_synthetic_labels labels, void *out)
{
    const struct synthetic_state *s = r->state;
    float *row = out;

    if (!s->label_sets) {
        *(int32_t *)out = (int32_t)labels.of[0];
        return;
    }

    for (int64_t c = 0; c < r->classes; c++)
        row[c] = c == labels.of[0] || c == labels.of[1];
}

static void fetch_frames(const struct sw_records *r, int64_t record, int f, void *out)
{
    const struct sw_synthetic_motion *m = &((const struct synthetic_state *)r->state)->motion;
    const int64_t windows = m->frames - m->order, sequence = record / windows,
                  first = record % windows;

    if (f == STYLE)
        *(int32_t *)out = sw_synthetic_style(m, sequence);
    else if (f == PAST)
        sw_synthetic_frames(m, sequence, first, m->order, out);
    else
        sw_synthetic_frames(m, sequence, first + m->order - (f == LAST), 1, out);
}

static int synthetic_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                           const void **out, struct sw_err *err)
{
    const struct synthetic_state *s = r->state;

    *out = scratch;
    if (s->kind == KIND_SEQUENCES) {
        fetch_sequence(r, record, f, scratch);
        return SW_OK;
    }
    if (s->kind == KIND_SERIES) {
        fetch_frames(r, record, f, scratch);
        return SW_OK;
    }

    const struct sw_philox4 word = sw_philox_at(s->record_key, (uint64_t)record, 0, 0);
    const struct sw_synthetic_labels labels = draw_labels(r, word);
    const uint64_t draw = (uint64_t)word.v[2] << 32 | word.v[3];
    if (f == LABEL)
        fill_label(r, labels, scratch);
    else if (f == TEXT)
        sw_synthetic_counts(&s->words, draw, labels, r->field[f].dim[0], scratch);
    else if (f == TAGS)
        sw_synthetic_tags(&s->words, draw, labels, r->field[f].dim[0], scratch);
    else
        paint(r, word, labels, scratch);

    return SW_OK;
}

#define OPT(kind, member, ...) SW_OPT(kind, struct synthetic_conf, member, __VA_ARGS__)

static const struct sw_opt synthetic_opts[] = {
    OPT(ENUM, kind,
        "pictures (images), sequences of tokens, pairs of images with words, or series of frames; "
        "auto: like the files that it replaces",
        .def = "auto", .choices = kinds),
    OPT(INT, classes,
        "number of classes, or of distinct tokens; 0: 10, or that of the files it replaces",
        .def = "0", .min = 0, .max = 1e6),
    OPT(INT, records, "number of records; 0: 10000", .def = "0", .min = 0, .max = 1e12),
    OPT(INT, height, "rows of an image; 0: 32, or that of the files it replaces", .def = "0",
        .min = 0, .max = 65535),
    OPT(INT, width,
        "columns of an image, or values of a frame of a series; 0: 32, for series 12, or that of "
        "the files it replaces",
        .def = "0", .min = 0, .max = 65535),
    OPT(INT, length, "for sequences: tokens of a record; 0: 50, or that of the texts it replaces",
        .def = "0", .min = 0, .max = 1 << 20),
    OPT(INT, words, "for pairs: distinct words, counted in the field text and used as tags; 0: 100",
        .def = "0", .min = 0, .max = 1e6),
    OPT(INT, frames, "for series: frames of a sequence; 0: 100", .def = "0", .min = 0,
        .max = 1 << 20),
    OPT(INT, order, "for series: past frames of a record", .def = "3", .min = 1, .max = 1 << 16),
    OPT(INT, tags, "for pairs: limit for the tags of a record", .def = "8", .min = 1, .max = 1e4),
    OPT(BOOL, label_sets,
        "for pairs: labels are sets of one or two classes, a row with one value per class",
        .def = "no"),
    OPT(INT, seed, "seed of classes and images, which do not depend on job.seed", .def = "1",
        .min = 0, .max = 1e15),
    {0},
};

const struct sw_format sw_format_synthetic = {
    .base =
        SW_TYPE("synthetic",
                "synthetic images, sequences and pairs of any size, deterministic and learnable",
                struct synthetic_conf, synthetic_opts),
    .generated = true,
    .state_bytes = sizeof(struct synthetic_state),
    SW_FORMAT_CALLS(synthetic_open, synthetic_close, synthetic_fetch),
};
