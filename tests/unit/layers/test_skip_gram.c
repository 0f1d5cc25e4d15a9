/* Skip-gram: the pairs that are drawn, their losses and gradients against sums in double, Huffman
 * trees, the probabilities of a hierarchical softmax, and the lists of rows of gradients. */
#include "layer_support.h"

#include "data/lexicon.h"
#include "layers/share/huffman.h"
#include "layers/share/skip_gram.h"

/* ---- a layer whose words have counts ---- */

static struct sw_lexicon words_with(const int64_t *times, int count)
{
    struct sw_lexicon l = {0};
    for (int i = 0; i < count; i++) {
        char word[16];
        struct sw_err err;
        int32_t id;
        snprintf(word, sizeof word, "w%d", i);
        ASSERT_OK(sw_lexicon_add(&l, word, strlen(word), times[i], &id, &err));
    }
    return l;
}

static void set_up(struct rig *g, const char *type, const struct sw_layer_example *ex,
                   const struct sw_lexicon *words, struct sw_stream *stream)
{
    struct sw_err err;
    rig_open(g, sw_layer_type_find(type), ex, &(struct how){.stream = stream});
    g->src[1].tokens = words;
    ASSERT_OK(rig_try_setup(g, &err));
    rig_allocate(g);
}

/* ---- drawing ---- */

enum { WORDS = 5, LENGTH = 400, ROWS = 40 };
static const int64_t counts[WORDS] = {5000, 3000, 1500, 400, 100};

static const int32_t *center_of(const struct sw_skip_gram *st, const int32_t *row, int64_t k)
{
    return row + 1 + k * (3 + st->shape.outputs);
}

static const int32_t *row_of(const struct rig *g, int64_t r)
{
    const struct sw_skip_gram *st = g->layer.state;
    const int32_t *picks = sw_layer_at(g->layer.saved, st->picks_at);
    return picks + r * (1 + st->shape.length * (3 + st->shape.outputs));
}

/* Fails if a share of n trials is more than five standard deviations from p. */
static void assert_share(const char *what, int64_t times, int64_t n, double p)
{
    const double sigma = sqrt((double)n * p * (1 - p));
    if (!(fabs((double)times - (double)n * p) <= 5 * sigma + 1))
        fail_msg("%s: %lld of %lld, expected a share of %g", what, (long long)times, (long long)n,
                 p);
}

static void draws_have_their_distributions(void **state)
{
    const struct sw_layer_example ex = {
        .recipe = "vocabulary = 5\nsubsample = 0.05\n",
        .src = {{3, {ROWS, LENGTH, 2}, 0}, {2, {ROWS, LENGTH}, WORDS}}};
    struct fixture f = open_cpu(false, 1);
    struct sw_lexicon words = words_with(counts, WORDS);
    struct rig g;
    set_up(&g, "negative_sampling", &ex, &words, f.stream);
    struct values v = values_new(&g, &ex, 3);
    rig_forward(&g, &v);

    int64_t met[WORDS] = {0}, kept[WORDS] = {0}, reach[6] = {0}, drawn[WORDS] = {0};
    double power = 0, total = 0;
    for (int w = 0; w < WORDS; w++) {
        power += pow((double)counts[w], 0.75);
        total += (double)counts[w];
    }
    for (int64_t r = 0; r < ROWS; r++)
        for (int t = 0; t < LENGTH; t++)
            met[v.label[1][r * LENGTH + t]]++;

    int64_t of_last = 0, centers = 0, draws_of_last = 0;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t k = 0; k < row_of(&g, r)[0]; k++) {
            const int32_t *center = center_of(g.layer.state, row_of(&g, r), k);
            const int32_t word = v.label[1][r * LENGTH + center[0]];
            centers++;
            kept[word]++;
            reach[center[1]]++;
            assert_int_equal(center[3], word * 2 + 1);
            for (int o = 1; o < center[2]; o++) {
                assert_int_equal(center[3 + o] & 1, 0);
                assert_int_not_equal(center[3 + o] >> 1, word);
                drawn[center[3 + o] >> 1] += word != center[3 + o] >> 1;
            }
            of_last += word == WORDS - 1;
            for (int o = 1; o < center[2] && word == WORDS - 1; o++)
                draws_of_last += center[3 + o] >> 1 == 0;
        }

    for (int w = 0; w < WORDS; w++) {
        const double share = (double)counts[w] / total;
        const double keep = fmin(1, (sqrt(share / 0.05) + 1) * 0.05 / share);
        assert_share("kept", kept[w], met[w], keep);
        /* Five draws for each center of another word. */
        assert_share("drawn", drawn[w], 5 * (centers - kept[w]),
                     pow((double)counts[w], 0.75) / power);
    }
    assert_share("word 0 for the rarest", draws_of_last, 5 * of_last,
                 pow((double)counts[0], 0.75) / power);
    for (int i = 1; i <= 5; i++)
        assert_share("reach", reach[i], centers, 0.2);

    values_free(&v);
    rig_close(&g);
    sw_lexicon_fini(&words);
    close_cpu(&f);
}

/* The same row of the batch gets the same words at another place and among other rows. */
static void draws_depend_on_the_global_row(void **state)
{
    struct sw_layer_example ex = {.recipe = "vocabulary = 5\nsubsample = 0.05\n",
                                  .src = {{3, {4, 50, 2}, 0}, {2, {4, 50}, WORDS}}};
    struct fixture f = open_cpu(false, 1);
    struct rig whole, part;
    set_up(&whole, "negative_sampling", &ex, NULL, f.stream);
    struct values v = values_new(&whole, &ex, 3);
    rig_forward(&whole, &v);

    ex.src[0].dim[0] = ex.src[1].dim[0] = 2;
    set_up(&part, "negative_sampling", &ex, NULL, f.stream);
    struct values w = values_new(&part, &ex, 3);
    memcpy(w.label[1], v.label[1] + 2 * 50, 2 * 50 * sizeof(int32_t));
    part.step.first_row = 2;
    rig_forward(&part, &w);
    for (int64_t r = 0; r < 2; r++) {
        const int32_t *a = row_of(&whole, 2 + r), *b = row_of(&part, r);
        assert_int_equal(a[0], b[0]);
        assert_in_range(a[0], 1, 49);
        for (int64_t k = 0; k < a[0]; k++) {
            const int32_t *x = center_of(whole.layer.state, a, k),
                          *y = center_of(part.layer.state, b, k);
            assert_memory_equal(x, y, (size_t)(3 + x[2]) * sizeof *x);
        }
    }

    part.step.step++;
    rig_forward(&part, &w);
    assert_memory_not_equal(row_of(&whole, 2), row_of(&part, 0), 100 * sizeof(int32_t));
    values_free(&v);
    values_free(&w);
    rig_close(&whole);
    rig_close(&part);
    close_cpu(&f);
}

/* ---- losses and gradients ---- */

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* From the picks: every word within reach of a center is a pair with each of its outputs. */
static double sum_pairs(const struct rig *g, const struct values *v, double *dx, double *doutput)
{
    const struct sw_skip_gram *st = g->layer.state;
    const int64_t width = st->shape.width, length = st->shape.length;
    double loss = 0;
    for (int64_t r = 0; r < st->shape.rows; r++) {
        const int32_t *row = row_of(g, r);
        for (int64_t k = 0; k < row[0]; k++)
            for (int64_t c = 0; c < row[0]; c++) {
                const int32_t *center = center_of(st, row, k);
                if (c == k || llabs(c - k) > center[1])
                    continue;
                const int64_t at = (r * length + center_of(st, row, c)[0]) * width;
                for (int o = 0; o < center[2]; o++) {
                    const int64_t to = (center[3 + o] >> 1) * width, label = center[3 + o] & 1;
                    const double s = dot(v->src[0] + at, v->param[0] + to, width);
                    const double slope = 1 / (1 + exp(-s)) - (double)label;
                    loss += log1p(exp(label ? -s : s));
                    for (int64_t i = 0; i < width; i++) {
                        dx[at + i] += slope * (double)v->param[0][to + i];
                        doutput[to + i] += slope * (double)v->src[0][at + i];
                    }
                }
            }
    }
    return loss;
}

static void check_sums(const char *type, const char *recipe, int threads)
{
    const struct sw_layer_example ex = {.recipe = recipe,
                                        .src = {{3, {3, 90, 100}, 0}, {2, {3, 90}, 40}}};
    struct fixture f = open_cpu(false, threads);
    struct rig g;
    set_up(&g, type, &ex, NULL, f.stream);
    struct values v = values_new(&g, &ex, 5);
    for (int64_t i = 0; i < v.src_n[0]; i++)
        v.src[0][i] *= 0.2f;
    rig_pass(&g, &v);

    double *dx = get_doubles(v.src_n[0]), *doutput = get_doubles(v.param_n[0]);
    memset(dx, 0, (size_t)v.src_n[0] * sizeof *dx);
    memset(doutput, 0, (size_t)v.param_n[0] * sizeof *doutput);
    const double loss = sum_pairs(&g, &v, dx, doutput), scale = 0.375; /* of the rig */
    assert_true(loss > 100);
    assert_true(fabs(v.result.sum - loss) < 1e-4 * loss);
    assert_true(v.result.weight == 3);
    for (int64_t i = 0; i < v.src_n[0]; i++)
        dx[i] *= scale;
    for (int64_t i = 0; i < v.param_n[0]; i++)
        doutput[i] *= scale;
    assert_near("dx", v.src_grad[0], dx, v.src_n[0], 1e-4);
    assert_near("doutput", v.param_grad[0], doutput, v.param_n[0], 1e-4);
    free(dx);
    free(doutput);
    values_free(&v);
    rig_close(&g);
    close_cpu(&f);
}

static void losses_and_gradients_are_sums_over_pairs(void **state)
{
    for (int threads = 1; threads <= 2; threads++) {
        check_sums("negative_sampling", "vocabulary = 40\nsubsample = 0.01\n", threads);
        check_sums("negative_sampling",
                   "vocabulary = 40\nsubsample = 0\nwindow = 9\nnegatives = 9\n", threads);
        check_sums("hierarchical_softmax", "vocabulary = 40\nsubsample = 0\nwindow = 7\n", threads);
    }
}

/* ---- hierarchical softmax ---- */

static void frequent_words_have_short_paths(void **state)
{
    static const int64_t times[] = {1, 5, 1, 2}, length[] = {3, 1, 3, 2};
    struct sw_huffman h;
    struct sw_err err;
    ASSERT_OK(sw_huffman_make(&h, times, 4, &err));
    assert_int_equal(h.longest, 3);
    for (int w = 0; w < 4; w++) {
        const int64_t from = w ? h.end[w - 1] : 0;
        assert_int_equal(h.end[w] - from, length[w]);
        assert_int_equal(h.path[from] >> 1, 2); /* the root is the last of three nodes */
    }
    sw_huffman_fini(&h);

    static const int64_t one[] = {7};
    ASSERT_OK(sw_huffman_make(&h, one, 1, &err));
    assert_int_equal(h.longest, 0);
    assert_int_equal(h.end[0], 0);
    sw_huffman_fini(&h);
}

/* Two words are one pair each way; where the other word's vector is zero, the loss of its pair is
 * that of branches of one half. So the loss tells the probability of every word. */
static void probabilities_of_all_words_sum_to_one(void **state)
{
    enum { V = 37, D = 8 };
    const struct sw_layer_example ex = {.recipe = "vocabulary = 37\nsubsample = 0\nwindow = 1\n",
                                        .src = {{3, {1, 2, D}, 0}, {2, {1, 2}, V}}};
    struct fixture f = open_cpu(false, 1);
    int64_t times[V];
    for (int i = 0; i < V; i++)
        times[i] = 1 + 1000 / (1 + i * i);
    struct sw_lexicon words = words_with(times, V);
    struct rig g;
    set_up(&g, "hierarchical_softmax", &ex, &words, f.stream);
    const struct sw_skip_gram *st = g.layer.state;
    struct values v = values_new(&g, &ex, 5);
    double sum = 0, least = 1;
    for (int w = 0; w < V; w++) {
        v.label[1][0] = 0;
        v.label[1][1] = w;
        for (int i = 0; i < D; i++)
            v.src[0][D + i] = 0;
        rig_forward(&g, &v);
        const double p = exp(-(v.result.sum - (double)st->words.path_end[0] * log(2)));
        sum += p;
        least = p < least ? p : least;
    }
    assert_true(least < 0.5 / V);
    assert_true(fabs(sum - 1) < 1e-4);
    values_free(&v);
    rig_close(&g);
    sw_lexicon_fini(&words);
    close_cpu(&f);
}

/* ---- lists of rows ---- */

static void check_list(const char *type, const struct sw_layer_example *ex)
{
    struct fixture f = open_cpu(false, 1);
    struct rig g, plain;
    set_up(&g, type, ex, NULL, f.stream);
    set_up(&plain, type, ex, NULL, f.stream);
    assert_true(g.layer.param[0].lists_rows);
    const int64_t rows = g.layer.param[0].layout.dim[0], width = g.layer.param[0].layout.dim[1];
    struct sw_row_list list = {.count = SW_ROW_LIST_ALL,
                               .row = get_bytes((size_t)rows * sizeof(int32_t)),
                               .place = get_bytes((size_t)rows * sizeof(int32_t)),
                               .rows = rows};
    memset(list.place, 0, (size_t)rows * sizeof *list.place);
    g.layer.param[0].listed = &list;
    struct values v = values_new(&g, ex, 5), w = values_new(&plain, ex, 5);
    for (uint64_t step = 0; step < 4; step++) {
        struct sw_err err;
        g.step.step = plain.step.step = step;
        struct sw_pass pass = {.stream = f.stream, .step = &g.step, .training = true};
        int token = ex->src[1].ndim ? 1 : 0;
        for (int64_t i = 0; i < v.src_n[token]; i++)
            v.label[token][i] = w.label[token][i] =
                (int32_t)((uint64_t)w.label[token][i] + step) % ex->src[token].labels;
        rig_pass(&plain, &w);
        set_inputs(&g, &v);
        memcpy(g.layer.dst.grad, plain.layer.dst.grad, sw_desc_bytes(&g.layer.dst.desc));
        poison(g.layer.param[0].grad, (size_t)(rows * width) * sizeof(float));
        ASSERT_OK(g.layer.type->forward(&g.layer, &pass, &err));
        ASSERT_OK(g.layer.type->backward(&g.layer, &pass, &err));
        assert_in_range(list.count, 1, rows - 1);
        for (int32_t r = 0; r < rows; r++) {
            const float *want = w.param_grad[0] + r * width;
            const int64_t at = sw_row_list_find(&list, r);
            if (at >= 0) {
                assert_int_equal(list.row[at], r);
                assert_memory_equal(g.layer.param[0].grad + at * width, want,
                                    (size_t)width * sizeof *want);
            }
            for (int64_t i = 0; i < width && at < 0; i++)
                assert_true(want[i] == 0);
        }
    }
    values_free(&v);
    values_free(&w);
    free(list.row);
    free(list.place);
    rig_close(&g);
    rig_close(&plain);
    close_cpu(&f);
}

static void listed_rows_are_those_that_are_not_zero(void **state)
{
    const struct sw_layer_example text = {.recipe =
                                              "vocabulary = 90\nsubsample = 0\nnegatives = 2\n",
                                          .src = {{3, {1, 9, 20}, 0}, {2, {1, 9}, 90}}};
    const struct sw_layer_example tree = {.recipe = "vocabulary = 90\nsubsample = 0\n",
                                          .src = {{3, {1, 9, 20}, 0}, {2, {1, 9}, 90}}};
    const struct sw_layer_example tokens = {.recipe = "vocabulary = 90\noutputs = 20\n",
                                            .src = {{2, {3, 7}, 90}}};
    check_list("negative_sampling", &text);
    check_list("hierarchical_softmax", &tree);
    check_list("embedding", &tokens);
    check_list("embedding_mean", &tokens);
}

/* ---- what setup refuses ---- */

static void refuses(const char *recipe, int64_t tokens, const struct sw_lexicon *words,
                    const char *says)
{
    const struct sw_layer_example ex = {.recipe = recipe,
                                        .src = {{3, {2, 9, 4}, 0}, {2, {2, tokens}, 5}}};
    struct fixture f = open_cpu(false, 1);
    struct rig g;
    struct sw_err err;
    rig_open(&g, sw_layer_type_find("negative_sampling"), &ex, &(struct how){.stream = f.stream});
    g.src[1].tokens = words;
    assert_int_equal(rig_try_setup(&g, &err), SW_ERR_INVALID);
    if (!strstr(err.text, says))
        fail_msg("%s", err.text);
    rig_teardown(&g);
    sw_recipe_free(g.recipe);
    close_cpu(&f);
}

static void sources_and_vocabulary_must_fit(void **state)
{
    struct sw_lexicon words = words_with(counts, WORDS);
    refuses("vocabulary = 5\n", 8, NULL, "a vector for every token");
    refuses("vocabulary = 4\n", 9, &words, "the text has 5 different tokens");
    sw_lexicon_fini(&words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_have_their_distributions),
        cmocka_unit_test(draws_depend_on_the_global_row),
        cmocka_unit_test(losses_and_gradients_are_sums_over_pairs),
        cmocka_unit_test(frequent_words_have_short_paths),
        cmocka_unit_test(probabilities_of_all_words_sum_to_one),
        cmocka_unit_test(listed_rows_are_those_that_are_not_zero),
        cmocka_unit_test(sources_and_vocabulary_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
