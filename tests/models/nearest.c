/* How well codes keep classes apart: the share of test pictures whose nearest neighbour among the
 * training pictures, by the distance of their codes, has the same label (T. Cover and P. Hart,
 * "Nearest neighbor pattern classification", 1967). Codes are arrays [pictures, values] of 32-bit
 * floats as `singa-ws predict --output` writes them; labels are MNIST's files. A program of the C
 * compiler alone with zlib:
 * cc -O3 -fopenmp nearest.c -lz -o nearest
 * ./nearest TRAIN.npy TRAIN-LABELS TEST.npy TEST-LABELS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct codes {
    long count, values;
    float *code;          /* [count][values] */
    unsigned char *label; /* [count] */
};

static void die(const char *what, const char *name)
{
    fprintf(stderr, "nearest: %s: %s\n", name, what);
    exit(2);
}

/* Version 1.0 of the format (numpy.lib.format): ten bytes, a header that is a Python dictionary,
 * the values. */
static void read_codes(const char *path, struct codes *c)
{
    unsigned char head[10];
    char text[65536];
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, sizeof head, f) != sizeof head || memcmp(head, "\x93NUMPY", 6) != 0)
        die("not an array", path);
    size_t length = (size_t)head[8] | (size_t)head[9] << 8;
    if (fread(text, 1, length, f) != length)
        die("ends in its header", path);
    text[length < sizeof text ? length : sizeof text - 1] = '\0';
    const char *shape = strstr(text, "'shape': (");
    if (!strstr(text, "'<f4'") || strstr(text, "'fortran_order': True") || !shape ||
        sscanf(shape, "'shape': (%ld, %ld)", &c->count, &c->values) != 2)
        die("not rows of 32-bit floats", path);
    size_t n = (size_t)c->count * (size_t)c->values;
    c->code = malloc(n * sizeof *c->code);
    if (!c->code || fread(c->code, sizeof *c->code, n, f) != n)
        die("ends before its last row", path);
    fclose(f);
}

static void read_labels(const char *path, struct codes *c)
{
    unsigned char head[8];
    gzFile f = gzopen(path, "rb");
    if (!f || gzread(f, head, sizeof head) != sizeof head || head[3] != 1)
        die("not a file of labels", path);
    if (((long)head[4] << 24 | (long)head[5] << 16 | head[6] << 8 | head[7]) != c->count)
        die("another number of labels than of codes", path);
    c->label = malloc((size_t)c->count);
    if (!c->label || gzread(f, c->label, (unsigned)c->count) != c->count)
        die("ends before its last label", path);
    gzclose(f);
}

static float distance(const float *a, const float *b, long values)
{
    float sum = 0;
    for (long i = 0; i < values; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static int label_near(const struct codes *c, const float *code)
{
    long best = 0;
    float least = distance(c->code, code, c->values);
    for (long i = 1; i < c->count; i++) {
        float d = distance(c->code + i * c->values, code, c->values);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return c->label[best];
}

int main(int argc, char **argv)
{
    struct codes train = {0}, test = {0};
    long right = 0;
    if (argc != 5)
        die("TRAIN.npy TRAIN-LABELS TEST.npy TEST-LABELS are expected", "arguments");
    read_codes(argv[1], &train);
    read_labels(argv[2], &train);
    read_codes(argv[3], &test);
    read_labels(argv[4], &test);
    if (train.values != test.values || train.count < 1 || test.count < 1)
        die("codes of another size", argv[3]);
#pragma omp parallel for schedule(static) reduction(+ : right)
    for (long i = 0; i < test.count; i++)
        right += label_near(&train, test.code + i * test.values) == test.label[i];
    printf("%.4f\n", (double)right / (double)test.count);
    return 0;
}
