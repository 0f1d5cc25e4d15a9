/* What principal components leave of MNIST: fitted to the training pictures, with pixels from 0 to
 * 1, the mean over test pictures of the squared distance between a picture and its projection on
 * the first K components (and the mean). It is the measure of reconstruction_error, and what an
 * auto-encoder whose code has K values is compared with (Hinton and Salakhutdinov, "Reducing the
 * dimensionality of data with neural networks", Science 313, 2006). A program of the C compiler
 * alone with zlib: cc -O2 -fopenmp pca.c -lz -lm -o pca && ./pca TRAIN-IMAGES TEST-IMAGES K...
 *
 * The components span the subspace that orthogonal iteration on the covariance finds (Golub and Van
 * Loan, "Matrix Computations", 7.3); the distance needs no more than the subspace. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PIXELS = 784, ITERATIONS = 120, SPARE = 16 };

struct pictures {
    int count;
    unsigned char *pixel;
};

static void die(const char *what, const char *name)
{
    fprintf(stderr, "pca: %s: %s\n", name, what);
    exit(2);
}

static struct pictures read_pictures(const char *path)
{
    unsigned char head[16];
    gzFile f = gzopen(path, "rb");
    if (!f || gzread(f, head, sizeof head) != sizeof head || head[3] != 3)
        die("not a file of pictures", path);
    struct pictures p = {.count = head[4] << 24 | head[5] << 16 | head[6] << 8 | head[7]};
    size_t bytes = (size_t)p.count * PIXELS;
    p.pixel = malloc(bytes);
    if (!p.pixel || gzread(f, p.pixel, (unsigned)bytes) != (int)bytes)
        die("ends before its last picture", path);
    gzclose(f);
    return p;
}

/* mean and covariance; most pixels are 0, so products are summed where both are not. */
static void find_moments(const struct pictures *p, double *mean, double *covariance)
{
    static double products[PIXELS][PIXELS];
    for (int n = 0; n < p->count; n++) {
        const unsigned char *x = p->pixel + (size_t)n * PIXELS;
        int at[PIXELS], lit = 0;
        for (int i = 0; i < PIXELS; i++)
            if (x[i])
                at[lit++] = i;
        for (int a = 0; a < lit; a++) {
            mean[at[a]] += x[at[a]];
            for (int b = 0; b <= a; b++)
                products[at[a]][at[b]] += (double)x[at[a]] * x[at[b]];
        }
    }
    for (int i = 0; i < PIXELS; i++)
        mean[i] /= 255.0 * p->count;
    for (int i = 0; i < PIXELS; i++)
        for (int j = 0; j <= i; j++)
            covariance[i * PIXELS + j] = covariance[j * PIXELS + i] =
                products[i][j] / (255.0 * 255 * p->count) - mean[i] * mean[j];
}

/* Makes the k rows of q, PIXELS long, orthonormal (modified Gram and Schmidt). */
static void orthonormalise(double *q, int k)
{
    for (int r = 0; r < k; r++) {
        double *v = q + r * PIXELS, length = 0;
        for (int s = 0; s < r; s++) {
            const double *u = q + s * PIXELS;
            double along = 0;
            for (int i = 0; i < PIXELS; i++)
                along += u[i] * v[i];
            for (int i = 0; i < PIXELS; i++)
                v[i] -= along * u[i];
        }
        for (int i = 0; i < PIXELS; i++)
            length += v[i] * v[i];
        for (int i = 0; i < PIXELS; i++)
            v[i] /= sqrt(length);
    }
}

static void multiply(const double *covariance, const double *q, int k, double *out)
{
#pragma omp parallel for
    for (int r = 0; r < k; r++)
        for (int i = 0; i < PIXELS; i++) {
            double sum = 0;
            for (int j = 0; j < PIXELS; j++)
                sum += covariance[i * PIXELS + j] * q[r * PIXELS + j];
            out[r * PIXELS + i] = sum;
        }
}

/* The first components, k rows; iterated with a few more, which makes the last ones converge. */
static void find_components(const double *covariance, int k, double *q)
{
    int wide = k + SPARE < PIXELS ? k + SPARE : PIXELS;
    double *next = malloc((size_t)wide * PIXELS * sizeof *next);
    double *now = malloc((size_t)wide * PIXELS * sizeof *now);
    if (!next || !now)
        die("out of memory", "components");
    srand(1);
    for (int i = 0; i < wide * PIXELS; i++)
        now[i] = rand() / (double)RAND_MAX - 0.5;
    for (int t = 0; t < ITERATIONS; t++) {
        orthonormalise(now, wide);
        multiply(covariance, now, wide, next);
        double *swap = now;
        now = next;
        next = swap;
    }
    orthonormalise(now, wide);
    memcpy(q, now, (size_t)k * PIXELS * sizeof *q);
    free(next);
    free(now);
}

static double mean_error(const struct pictures *p, const double *mean, const double *q, int k)
{
    double total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int n = 0; n < p->count; n++) {
        double x[PIXELS], error = 0;
        for (int i = 0; i < PIXELS; i++) {
            x[i] = p->pixel[(size_t)n * PIXELS + (size_t)i] / 255.0 - mean[i];
            error += x[i] * x[i];
        }
        for (int r = 0; r < k; r++) {
            double along = 0;
            for (int i = 0; i < PIXELS; i++)
                along += q[r * PIXELS + i] * x[i];
            error -= along * along;
        }
        total += error;
    }
    return total / p->count;
}

int main(int argc, char **argv)
{
    static double mean[PIXELS], covariance[PIXELS * PIXELS], q[PIXELS * PIXELS];
    if (argc < 4)
        die("TRAIN-IMAGES TEST-IMAGES K...", "usage");
    struct pictures train = read_pictures(argv[1]), test = read_pictures(argv[2]);
    find_moments(&train, mean, covariance);
    for (int a = 3; a < argc; a++) {
        int k = atoi(argv[a]);
        if (k < 1 || k > PIXELS)
            die("not a number of components", argv[a]);
        find_components(covariance, k, q);
        printf("%d %.4f\n", k, mean_error(&test, mean, q, k));
    }
    free(train.pixel);
    free(test.pixel);
    return 0;
}
