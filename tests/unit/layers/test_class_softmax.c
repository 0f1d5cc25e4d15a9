/* class_softmax_loss and class_softmax: the classes of a vocabulary, the loss and its gradients
 * against a flat softmax and against their definition, probabilities of all words, and a large
 * vocabulary. */
#include "layer_support.h"

#include "kernels/ops/class_softmax.h"

/* ---- Classes ---- */

static void classes_are_ranges_that_are_never_empty(void **state)
{
    const int64_t words[] = {2, 3, 10, 61, 3720, 100000, SW_MAX_WORDS};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int64_t classes = 1; classes <= words[i] && classes <= SW_MAX_WORD_CLASSES;
             classes += 1 + classes * 2)
            for (int bins = 0; bins < 2; bins++) {
                const struct sw_word_classes k = {words[i], classes, (enum sw_word_bins)bins};
                int64_t widest = 0;
                assert_int_equal(sw_class_first(&k, 0), 0);
                assert_int_equal(sw_class_first(&k, classes), words[i]);
                for (int64_t c = 0; c < classes; c++) {
                    const int64_t first = sw_class_first(&k, c), n = sw_class_words(&k, c);
                    assert_true(n > 0);
                    assert_int_equal(sw_class_of(&k, first), c);
                    assert_int_equal(sw_class_of(&k, first + n - 1), c);
                    widest = n > widest ? n : widest;
                }
                assert_int_equal(sw_class_widest(&k), widest);
            }
}

/* With Zipf's law the roots of the frequencies 1 / r of the words of each class have about the same
 * sum. */
static void frequency_bins_divide_the_roots_of_zipf_frequencies(void **state)
{
    const struct sw_word_classes k = {10000, 20, SW_BINS_FREQUENCY};
    double whole = 0;
    for (int64_t w = 0; w < k.words; w++)
        whole += 1 / sqrt((double)w + 1);
    for (int64_t c = 0; c < k.classes; c++) {
        double sum = 0;
        for (int64_t w = sw_class_first(&k, c); w < sw_class_first(&k, c + 1); w++)
            sum += 1 / sqrt((double)w + 1);
        assert_true(fabs(sum / whole * 20 - 1) < 0.15);
    }
}

/* ---- The definition ---- */

/* log p of every word for features x: scores of classes and of words within their class. */
static void log_probabilities(const struct sw_word_classes *k, const struct values *v,
                              const float *x, int64_t width, double *out)
{
    double *class_score = get_doubles(k->classes), all = 0;
    for (int64_t c = 0; c < k->classes; c++) {
        class_score[c] = (double)v->param[1][c];
        for (int64_t d = 0; d < width; d++)
            class_score[c] += (double)v->param[0][c * width + d] * (double)x[d];
        all += exp(class_score[c]);
    }
    for (int64_t c = 0; c < k->classes; c++) {
        double sum = 0;
        for (int64_t w = sw_class_first(k, c); w < sw_class_first(k, c + 1); w++) {
            out[w] = (double)v->param[3][w];
            for (int64_t d = 0; d < width; d++)
                out[w] += (double)v->param[2][w * width + d] * (double)x[d];
            sum += exp(out[w]);
        }
        for (int64_t w = sw_class_first(k, c); w < sw_class_first(k, c + 1); w++)
            out[w] += class_score[c] - log(all) - log(sum);
    }
    free(class_score);
}

static struct sw_layer_example example(char *text, size_t bytes, int64_t rows, int64_t width,
                                       const struct sw_word_classes *k)
{
    snprintf(text, bytes, "vocabulary = %d\nclasses = %d\nbins = %s\n", (int)k->words,
             (int)k->classes, k->bins == SW_BINS_EQUAL ? "equal" : "frequency");
    return (struct sw_layer_example){.recipe = text,
                                     .src = {{2, {rows, width}, 0}, {1, {rows}, (int)k->words}}};
}

static void the_loss_is_that_of_the_probabilities_of_class_and_word(void **state)
{
    enum { ROWS = 9, WIDTH = 6 };
    const struct sw_word_classes kinds[] = {{23, 5, SW_BINS_FREQUENCY},
                                            {23, 4, SW_BINS_EQUAL},
                                            {23, 1, SW_BINS_EQUAL},
                                            {23, 23, SW_BINS_FREQUENCY},
                                            {600, 2, SW_BINS_FREQUENCY}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int reference = 0; reference < 2; reference++) {
            char text[128];
            const struct sw_word_classes *k = &kinds[i];
            const struct sw_layer_example ex = example(text, sizeof text, ROWS, WIDTH, k);
            struct fixture f = open_cpu(reference, 2);
            struct rig g;
            double *log_p = get_doubles(k->words), loss = 0;
            rig_setup(&g, sw_layer_type_find("class_softmax_loss"), &ex,
                      &(struct how){.stream = f.stream});
            struct values v = values_new(&g, &ex, 3);
            for (int64_t r = 0; r < ROWS; r++) {
                log_probabilities(k, &v, v.src[0] + r * WIDTH, WIDTH, log_p);
                loss -= log_p[v.label[1][r]];
            }
            rig_pass(&g, &v);
            assert_true(fabs(v.result.sum - loss) < 1e-5 * loss && v.result.weight == ROWS);
            free(log_p);
            values_free(&v);
            rig_close(&g);
            close_cpu(&f);
        }
}

/* With one class the weights of the words are those of a flat softmax, whose gradients are known.
 */
static void one_class_is_a_flat_softmax(void **state)
{
    enum { ROWS = 7, WIDTH = 5, WORDS = 300 };
    const struct sw_word_classes one = {WORDS, 1, SW_BINS_EQUAL};
    char text[128];
    const struct sw_layer_example ex = example(text, sizeof text, ROWS, WIDTH, &one);
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    double *log_p = get_doubles(WORDS), *dx = get_doubles(ROWS * WIDTH),
           *dw = get_doubles(WORDS * WIDTH), *db = get_doubles(WORDS);
    rig_setup(&g, sw_layer_type_find("class_softmax_loss"), &ex, &(struct how){.stream = f.stream});
    struct values v = values_new(&g, &ex, 4);
    memset(dx, 0, ROWS * WIDTH * sizeof *dx);
    memset(dw, 0, WORDS * WIDTH * sizeof *dw);
    memset(db, 0, WORDS * sizeof *db);
    for (int64_t r = 0; r < ROWS; r++) {
        const float *x = v.src[0] + r * WIDTH;
        log_probabilities(&one, &v, x, WIDTH, log_p);
        for (int64_t w = 0; w < WORDS; w++) {
            const double d = (double)g.step.backward_scale * (exp(log_p[w]) - (w == v.label[1][r]));
            db[w] += d;
            for (int64_t c = 0; c < WIDTH; c++) {
                dw[w * WIDTH + c] += d * (double)x[c];
                dx[r * WIDTH + c] += d * (double)v.param[2][w * WIDTH + c];
            }
        }
    }
    rig_pass(&g, &v);
    assert_near("source gradient", v.src_grad[0], dx, ROWS * WIDTH, 1e-5);
    assert_near("weight gradient", v.param_grad[2], dw, WORDS * WIDTH, 1e-5);
    assert_near("bias gradient", v.param_grad[3], db, WORDS, 1e-5);
    for (int64_t i = 0; i < WIDTH; i++)
        assert_true(v.param_grad[0][i] == 0);
    free(log_p);
    free(dx);
    free(dw);
    free(db);
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

static void the_probabilities_of_all_words_sum_to_one(void **state)
{
    enum { ROWS = 4, WIDTH = 6, WORDS = 50, CLASSES = 7 };
    const struct sw_word_classes kind = {WORDS, CLASSES, SW_BINS_FREQUENCY};
    const struct sw_layer_example ex = {.recipe = "vocabulary = 50\n",
                                        .src = {{2, {ROWS, WIDTH}, 0}, {2, {ROWS, CLASSES}, 0}}};
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    double log_p[WORDS];
    rig_setup(&g, sw_layer_type_find("class_softmax"), &ex,
              &(struct how){.stream = f.stream, .evaluation = true});
    struct values v = values_new(&g, &ex, 5);
    rig_forward(&g, &v);
    for (int64_t r = 0; r < ROWS; r++) {
        double sum = 0;
        log_probabilities(&kind, &v, v.src[0] + r * WIDTH, WIDTH, log_p);
        for (int64_t w = 0; w < WORDS; w++) {
            sum += exp((double)v.dst[r * WORDS + w]);
            assert_true(fabs((double)v.dst[r * WORDS + w] - log_p[w]) < 1e-4);
        }
        assert_true(fabs(sum - 1) < 1e-5);
    }
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

/* Gradients outside the classes of the labels are zero. */
static void a_large_vocabulary_touches_the_classes_of_its_labels(void **state)
{
    enum { ROWS = 16, WIDTH = 8, WORDS = 100000 };
    const struct sw_word_classes kind = {WORDS, 316, SW_BINS_FREQUENCY};
    char text[128];
    const struct sw_layer_example ex = example(text, sizeof text, ROWS, WIDTH, &kind);
    struct fixture f = open_cpu(false, 2);
    struct rig g;
    bool has_rows[316] = {0};
    rig_setup(&g, sw_layer_type_find("class_softmax_loss"), &ex, &(struct how){.stream = f.stream});
    struct values v = values_new(&g, &ex, 6);
    rig_pass(&g, &v);
    assert_true(v.result.sum > 0 && isfinite(v.result.sum));
    for (int64_t r = 0; r < ROWS; r++)
        has_rows[sw_class_of(&kind, v.label[1][r])] = true;
    for (int64_t w = 0; w < WORDS; w++) {
        const bool touched = has_rows[sw_class_of(&kind, w)];
        assert_true((v.param_grad[3][w] != 0) == touched);
        assert_true(touched || v.param_grad[2][w * WIDTH] == 0);
    }
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_ranges_that_are_never_empty),
        cmocka_unit_test(frequency_bins_divide_the_roots_of_zipf_frequencies),
        cmocka_unit_test(the_loss_is_that_of_the_probabilities_of_class_and_word),
        cmocka_unit_test(one_class_is_a_flat_softmax),
        cmocka_unit_test(the_probabilities_of_all_words_sum_to_one),
        cmocka_unit_test(a_large_vocabulary_touches_the_classes_of_its_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
