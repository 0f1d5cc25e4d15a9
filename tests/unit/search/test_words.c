/* ctest-labels: threads
 * Vectors of words: near words, and analogies beside comparing every word by hand. */
#include "search/words.h"
#include "search_support.h"
#include <math.h>

static void rows_get_length_one_and_zeros_stay(void **state)
{
    float v[] = {3, 4, 0, 0, -1e-20f, 0, 1e20f, 1e20f};

    sw_words_unit(v, 4, 2);
    assert_float_equal(v[0], 0.6, 1e-7);
    assert_float_equal(v[1], 0.8, 1e-7);
    assert_true(v[2] == 0 && v[3] == 0 && v[4] == -1 && v[5] == 0);
    assert_float_equal(v[6], sqrt(0.5), 1e-7);
}

/* man, woman, king, queen, a synonym of king that is twice as long, and two words that are not
 * about persons. */
enum { MAN, WOMAN, KING, QUEEN, RULER, APPLE, NOTHING, FEW };
static const float few[FEW][3] = {
    [MAN] = {2, 0, 0},   [WOMAN] = {0, 5, 0},  [KING] = {1, 0, 2},    [QUEEN] = {0, 1, 2},
    [RULER] = {2, 0, 4}, [APPLE] = {0, 0, -1}, [NOTHING] = {0, 0, 0},
};

static struct sw_vectors few_units(float copy[FEW * 3])
{
    memcpy(copy, few, sizeof few);
    sw_words_unit(copy, FEW, 3);
    return (struct sw_vectors){copy, FEW, 3};
}

static void near_words_are_ordered_by_cosine_without_the_word(void **state)
{
    float copy[FEW * 3];
    const struct sw_vectors unit = few_units(copy);
    const int32_t words[] = {KING, APPLE};
    struct sw_neighbor found[2 * 3];
    struct sw_err err;

    for (int threads = 1; threads < 4; threads++) {
        ASSERT_OK(sw_words_nearest(&unit, words, 2, 3, threads, found, &err));
        assert_int_equal(found[0].id, RULER); /* the same direction */
        assert_float_equal(found[0].distance, -1, 1e-6);
        assert_int_equal(found[1].id, QUEEN); /* 4 / 5 */
        assert_float_equal(found[1].distance, -0.8, 1e-6);
        assert_int_equal(found[2].id, MAN); /* 1 / sqrt 5 */
        assert_float_equal(found[2].distance, -1 / sqrt(5), 1e-6);
        /* Of equal cosine, 0, the first rows. */
        assert_int_equal(found[3].id, MAN);
        assert_int_equal(found[4].id, WOMAN);
        assert_int_equal(found[5].id, NOTHING);
    }
}

static void man_is_to_king_as_woman_is_to_queen(void **state)
{
    float copy[FEW * 3];
    const struct sw_vectors unit = few_units(copy);
    const struct sw_analogy q[] = {{MAN, KING, WOMAN}, {WOMAN, QUEEN, MAN}};
    struct sw_neighbor found[2];
    struct sw_err err;

    ASSERT_OK(sw_words_analogies(&unit, q, 2, 1, 1, found, &err));
    assert_int_equal(found[0].id, QUEEN);
    assert_int_equal(found[1].id, KING); /* as near as RULER, which comes later */
}

/* The definition, with nothing of the code under test: cosines with b/|b| - a/|a| + c/|c|. */
static int32_t by_hand(const struct sw_vectors *v, struct sw_analogy q, double *best)
{
    const float *at[] = {sw_vector(v, q.a), sw_vector(v, q.b), sw_vector(v, q.c)};
    double length[3] = {0}, target[64] = {0};
    int32_t found = -1;

    for (int i = 0; i < 3; i++)
        for (int d = 0; d < v->dims; d++)
            length[i] += (double)at[i][d] * at[i][d];
    for (int d = 0; d < v->dims; d++)
        target[d] =
            at[1][d] / sqrt(length[1]) - at[0][d] / sqrt(length[0]) + at[2][d] / sqrt(length[2]);

    for (int32_t w = 0; w < v->count; w++) {
        double product = 0, own = 0, other = 0;

        if (w == q.a || w == q.b || w == q.c)
            continue;
        for (int d = 0; d < v->dims; d++) {
            const double x = sw_vector(v, w)[d];

            product += x * target[d];
            own += x * x;
            other += target[d] * target[d];
        }
        const double cosine = product / sqrt(own * other);
        if (found < 0 || cosine > *best) {
            *best = cosine;
            found = w;
        }
    }

    return found;
}

static void analogies_are_those_of_comparing_every_word(void **state)
{
    enum { WORDS = 500, QUESTIONS = 300, DIMS = 13 };

    const struct sw_vectors raw = random_vectors(UNIFORM, 5, WORDS, DIMS);
    const struct sw_vectors unit = random_vectors(UNIFORM, 5, WORDS, DIMS);
    struct sw_analogy q[QUESTIONS];
    struct sw_neighbor found[QUESTIONS];
    struct sw_err err;

    sw_words_unit((float *)(uintptr_t)unit.at, WORDS, DIMS);
    for (int i = 0; i < QUESTIONS; i++)
        q[i] = (struct sw_analogy){(int32_t)(random_bits(6, (uint64_t)i) % WORDS),
                                   (int32_t)(random_bits(7, (uint64_t)i) % WORDS),
                                   (int32_t)(random_bits(8, (uint64_t)i) % WORDS)};
    q[1].b = q[1].a; /* a is to a as c is to the nearest of c */
    q[2].c = q[2].a;

    for (int threads = 1; threads < 4; threads++) {
        ASSERT_OK(sw_words_analogies(&unit, q, QUESTIONS, 1, threads, found, &err));
        for (int i = 0; i < QUESTIONS; i++) {
            double cosine;

            assert_int_equal(found[i].id, by_hand(&raw, q[i], &cosine));
            assert_float_equal(-found[i].distance, cosine, 1e-6);
        }
    }

    free((void *)(uintptr_t)raw.at);
    free((void *)(uintptr_t)unit.at);
}

static void more_neighbors_than_other_words_are_refused(void **state)
{
    float copy[FEW * 3];
    const struct sw_vectors unit = few_units(copy);
    const int32_t word = KING;
    const struct sw_analogy q = {MAN, KING, WOMAN};
    struct sw_neighbor found[FEW];
    struct sw_err err;

    ASSERT_OK(sw_words_nearest(&unit, &word, 1, FEW - 1, 1, found, &err));
    assert_int_equal(sw_words_nearest(&unit, &word, 1, FEW, 1, found, &err), SW_ERR_INVALID);
    ASSERT_OK(sw_words_analogies(&unit, &q, 1, FEW - 3, 1, found, &err));
    assert_int_equal(sw_words_analogies(&unit, &q, 1, FEW - 2, 1, found, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "5 neighbors, expected 1 to 4: there are 7 words, and the 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_get_length_one_and_zeros_stay),
        cmocka_unit_test(near_words_are_ordered_by_cosine_without_the_word),
        cmocka_unit_test(man_is_to_king_as_woman_is_to_queen),
        cmocka_unit_test(analogies_are_those_of_comparing_every_word),
        cmocka_unit_test(more_neighbors_than_other_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
