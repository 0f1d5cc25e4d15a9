/* Pictures made by code: deterministic, learnable, of any size, and cheap enough (a fraction of a
 * nanosecond per element) not to be what a benchmark measures.
 *
 * A picture of class k is, per channel, the sum of two plane waves whose length, slope and phase
 * are drawn from k, moved sideways by a few pixels that are drawn from the record, plus noise: x[c,
 * y, x] = wave(a)[phase(a) + slope(a) y + x + shift] + wave(b)[...] + noise[hash(row) + x] in raw
 * units 0..255, as unsigned bytes: 0..100 for each wave and 0..55 for the noise, so that a byte
 * cannot overflow. Waves are tables one period and one width long, noise is a table read at a
 * hashed place per row: a row is three byte strings added up. Tables are some 70 KiB whatever the
 * number of classes.
 * Classes are the same in every split with the same `seed`; the records of two splits differ. */
#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "base/str.h"
#include "data/format.h"
#include <math.h>

enum {
    WAVES = 8,
    NOISE_BYTES = 1 << 16,
    WAVE_TOP = 100,
    NOISE_TOP = 55,
    MIN_PERIOD = 4,
    BLOCK = 16
};

struct synthetic_conf {
    int64_t classes, records, height, width, seed;
};

struct wave {
    uint32_t period;      /* pixels */
    unsigned char *table; /* borrowed from tables; period + width bytes */
};

struct synthetic_state {
    uint64_t class_key;
    struct sw_philox record_key;
    struct wave wave[WAVES];
    unsigned char *noise;  /* borrowed from tables; NOISE_BYTES + width */
    unsigned char *tables; /* owned */
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
    static const double cycles[WAVES] = {1, 1.25, 1.5, 2, 2.5, 3, 3.5, 4}; /* across the picture */
    size_t bytes = NOISE_BYTES + (size_t)width;
    for (int i = 0; i < WAVES; i++) {
        s->wave[i].period = (uint32_t)lrint((double)width / cycles[i]);
        if (s->wave[i].period < MIN_PERIOD)
            s->wave[i].period = MIN_PERIOD;
        bytes += s->wave[i].period + (size_t)width;
    }
    s->tables = sw_os()->alloc(bytes);
    if (!s->tables)
        return sw_err_nomem(err, "tables of synthetic pictures", bytes);
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

static int synthetic_open(struct sw_records *r, const struct sw_format_args *args,
                          struct sw_err *err)
{
    const struct synthetic_conf *conf = args->conf;
    const struct sw_geometry *like = &args->implied;
    struct synthetic_state *s = r->state;
    const int64_t c = choose(args->channels, like->channels, 3);
    const int64_t y = choose(conf->height, like->height, 32);
    const int64_t x = choose(conf->width, like->width, 32);
    if (c * y * x > INT32_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "channels, height, width: %lldx%lldx%lld is above 2 GiB a picture",
                          (long long)c, (long long)y, (long long)x);
    r->count = choose(conf->records, like->records, 10000);
    r->classes = choose(conf->classes, like->classes, 10);
    r->field[0] = (struct sw_field){"image", SW_U8, 3, {c, y, x}};
    r->field[1] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 2;
    s->class_key = sw_mix64((uint64_t)conf->seed ^ SW_PURPOSE_SYNTHETIC);
    s->record_key =
        sw_philox_stream((uint64_t)conf->seed, SW_PURPOSE_SYNTHETIC, sw_hash_name(args->split));
    r->where = sw_strdup("made by code");
    if (!r->where)
        return sw_err_nomem(err, "a line of text", 0);
    return make_tables(s, x, err);
}

static void synthetic_close(struct sw_records *r)
{
    struct synthetic_state *s = r->state;
    sw_free(s->tables);
}

/* out = a + b + noise; the tables are made so that no byte overflows. */
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

/* One of a class's plane waves in one channel. */
struct plane_wave {
    const struct wave *wave;
    uint32_t phase; /* pixels */
    uint32_t slope; /* pixels per row in sixteenths, -24 .. 24, plus a whole period against signs */
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

static void paint(const struct sw_records *r, struct sw_philox4 word, int64_t label,
                  unsigned char *out)
{
    const struct synthetic_state *s = r->state;
    const int64_t height = r->field[0].dim[1], width = r->field[0].dim[2];
    const uint32_t shift = (uint32_t)((uint64_t)word.v[1] * (uint64_t)(width / 16 + 1) >> 32);
    uint64_t h = (uint64_t)word.v[2] << 32 | word.v[3];
    for (int64_t c = 0; c < r->field[0].dim[0]; c++) {
        const struct plane_wave a = draw_wave(s, label, c, 0, shift),
                                b = draw_wave(s, label, c, 1, shift);
        for (int64_t y = 0; y < height; y++, out += width) {
            /* Knuth's MMIX generator: one step per row, its best 16 bits say where the noise
             * begins. */
            h = h * 6364136223846793005ull + 1442695040888963407ull;
            add_row(out, wave_row(&a, y), wave_row(&b, y), s->noise + (h >> 48), width);
        }
    }
}

static int synthetic_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                           const void **out, struct sw_err *err)
{
    const struct synthetic_state *s = r->state;
    const struct sw_philox4 word = sw_philox_at(s->record_key, (uint64_t)record, 0, 0);
    const int64_t label = (int64_t)((uint64_t)word.v[0] * (uint64_t)r->classes >> 32);
    (void)err;
    if (f == 1)
        *(int32_t *)scratch = (int32_t)label;
    else
        paint(r, word, label, scratch);
    *out = scratch;
    return SW_OK;
}

#define AT(member) offsetof(struct synthetic_conf, member)

static const struct sw_opt synthetic_opts[] = {
    {.key = "classes",
     .help = "number of classes; 0: 10, or that of the files it stands in for",
     .offset = AT(classes),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 1e6},
    {.key = "records",
     .help = "number of records; 0: 10000",
     .offset = AT(records),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 1e12},
    {.key = "height",
     .help = "rows of a picture; 0: 32, or that of the files it stands in for",
     .offset = AT(height),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 65535},
    {.key = "width",
     .help = "columns of a picture; 0: 32, or that of the files it stands in for",
     .offset = AT(width),
     .type = SW_OPT_INT,
     .def = "0",
     .min = 0,
     .max = 65535},
    {.key = "seed",
     .help = "another seed gives other classes and pictures; job.seed does not change them",
     .offset = AT(seed),
     .type = SW_OPT_INT,
     .def = "1",
     .min = 0,
     .max = 1e15},
    {0},
};

const struct sw_format sw_format_synthetic = {
    .base = {.name = "synthetic",
             .help = "deterministic, learnable pictures of any size, made by code; no files",
             .opts = synthetic_opts,
             .conf_bytes = sizeof(struct synthetic_conf)},
    .state_bytes = sizeof(struct synthetic_state),
    .open = synthetic_open,
    .close = synthetic_close,
    .fetch = synthetic_fetch,
};
