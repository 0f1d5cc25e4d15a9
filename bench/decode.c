/* Measures how fast JPEG files become rows: `ours` is a [data] section of format image_folder
 * (read, decode, crop, mirror, normalize to planar floats), `alone` is libjpeg-turbo with its
 * defaults (read, decode the whole image to RGB). Both use the same number of threads on the same
 * files, which are in the page cache after the first round.
 *
 *     decode ours|alone FOLDER THREADS SECONDS CROP RESIZE
 *
 * RESIZE is the shorter side, 0 for none; `alone` decodes at the largest of 1/1, 1/2, 1/4 and 1/8
 * whose shorter side is that or more, as ours does. Prints images per second. */
#include <stdio.h>

#include <jpeglib.h>

#include "base/os.h"
#include "data/source.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 256 };

static struct sw_source *source;
static double seconds, resize;
static int64_t began_ns;

static void die(const char *what)
{
    fprintf(stderr, "decode: %s\n", what);
    exit(1);
}

static double elapsed_s(void)
{
    return (double)(sw_os()->monotonic_ns() - began_ns) * 1e-9;
}

/* ---- ours ---- */

static void *ours(void *arg)
{
    struct sw_reader r;
    struct sw_err err = {0};
    int64_t *done = arg, sample = 0;
    int32_t label;
    void *out[SW_MAX_FIELDS] = {malloc(sw_field_bytes(&source->field[0])), &label};
    if (!out[0] || sw_reader_init(&r, source, &err))
        die(err.text);
    for (; elapsed_s() < seconds; ++*done) {
        if (sw_source_fetch(&r, sample++, 1, out, &err))
            die(err.text);
    }
    sw_reader_fini(&r);
    free(out[0]);
    return NULL;
}

static void open_source(const char *folder, long crop)
{
    const struct sw_format *format = sw_format_find("image_folder");
    unsigned char conf[256] = {0};
    const double mean[] = {123.7, 116.3, 103.5}, deviation[] = {58.4, 57.1, 57.4};
    struct sw_data_conf common = {.scale = 1,
                                  .mean = {mean, 3},
                                  .std = {deviation, 3},
                                  .resize = {&resize, resize > 0},
                                  .crop = crop,
                                  .mirror = true,
                                  .shuffle = true,
                                  .workers = 1,
                                  .prefetch = 2};
    const struct sw_strings paths = {&folder, 1};
    struct sw_err err = {0};
    for (const struct sw_opt *o = format->base.opts; o->key; o++) {
        if (!strcmp(o->key, "paths"))
            memcpy(conf + o->offset, &paths, sizeof paths);
    }
    const struct sw_source_args args = {.name = "train",
                                        .conf = &common,
                                        .format = format,
                                        .format_conf = conf,
                                        .seed = 1,
                                        .training = true};
    if (sw_source_open(&args, &source, &err))
        die(err.text);
}

/* ---- libjpeg-turbo alone ---- */

static void choose_scale(struct jpeg_decompress_struct *c)
{
    const JDIMENSION shorter = c->image_height < c->image_width ? c->image_height : c->image_width;
    c->scale_denom = 1;
    while (resize > 0 && c->scale_denom < 8 &&
           (shorter + 2 * c->scale_denom - 1) / (2 * c->scale_denom) >= (JDIMENSION)resize)
        c->scale_denom *= 2;
}

static void decode_alone(struct jpeg_decompress_struct *c, const struct sw_picture *p,
                         struct sw_room *row)
{
    struct sw_err err = {0};
    jpeg_mem_src(c, p->data, (unsigned long)p->bytes);
    jpeg_read_header(c, TRUE);
    choose_scale(c);
    c->out_color_space = JCS_RGB;
    jpeg_start_decompress(c);
    if (sw_room_need(row, 3 * (size_t)c->output_width * c->output_height, "pixels", &err))
        die(err.text);
    while (c->output_scanline < c->output_height) {
        JSAMPROW to = row->memory + 3 * (size_t)c->output_width * c->output_scanline;
        jpeg_read_scanlines(c, &to, 1);
    }
    jpeg_finish_decompress(c);
}

/* Goes through the files in the same order as `ours`, so that only the processing differs. */
static void *alone(void *arg)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct sw_room file = {0}, row = {0};
    struct sw_picture p;
    struct sw_err err = {0};
    int64_t *done = arg, sample = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    for (; elapsed_s() < seconds; ++*done) {
        const int64_t record = sample++ % source->raw.count;
        if (source->raw.format->fetch_picture(&source->raw, record, &file, &p, &err))
            die(err.text);
        decode_alone(&c, &p, &row);
    }
    jpeg_destroy_decompress(&c);
    sw_room_fini(&file);
    sw_room_fini(&row);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[MOST_THREADS];
    static int64_t done[MOST_THREADS][8]; /* one cache line per thread */
    if (argc != 7)
        die("ours|alone FOLDER THREADS SECONDS CROP RESIZE");
    const int threads = atoi(argv[3]);
    seconds = atof(argv[4]);
    resize = atof(argv[6]);
    if (threads < 1 || threads > MOST_THREADS)
        die("THREADS must be 1 to 256");
    open_source(argv[2], atol(argv[5]));
    began_ns = sw_os()->monotonic_ns();
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&thread[i], NULL, strcmp(argv[1], "ours") ? alone : ours, done[i]))
            die("cannot start a thread");
    }
    int64_t all = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        all += done[i][0];
    }
    printf("%.2f\n", (double)all / elapsed_s());
    sw_source_close(source);
    return 0;
}
