/* Names of classes for data that have only numbers: by a list, a file, a file beside the data, or a
 * trained net; and lists that do not fit. */
#include "data_support.h"

#include "data/spec.h"

enum { RECORD = 3073, RECORDS = 12 };

static struct sw_err err;

/* Records of CIFAR-10 with the labels 0, 1 ... 9, 0, 1. */
static void use_cifar(struct support_conf *c)
{
    static unsigned char b[RECORDS * RECORD];

    for (int i = 0; i < RECORDS; i++)
        b[i * RECORD] = (unsigned char)(i % 10);
    support_init(c, "cifar10");
    support_strings(c, "paths", 0, support_write("batch.bin", b, sizeof b), NULL);
}

/* MNIST with the labels 0 to `classes` - 1. */
static void use_idx(struct support_conf *c, int classes)
{
    unsigned char images[16 + RECORDS] = {0, 0, 8, 3, 0, 0, 0, RECORDS, 0, 0, 0, 1, 0, 0, 0, 1};
    unsigned char labels[8 + RECORDS] = {0, 0, 8, 1, 0, 0, 0, RECORDS};

    for (int i = 0; i < RECORDS; i++)
        labels[8 + i] = (unsigned char)(i % classes);
    support_init(c, "idx");
    support_strings(c, "paths", 0, support_write("images", images, sizeof images), NULL);
    support_strings(c, "labels", 1, support_write("labels", labels, sizeof labels), NULL);
}

static int open_with(const struct support_conf *c, const char *file,
                     const struct sw_data_spec *spec, struct sw_source **out)
{
    struct sw_data_conf conf = support_plain();
    conf.class_names = file;
    const struct sw_source_args args = {
        .name = "train", .conf = &conf, .format = c->format, .format_conf = c->bytes, .spec = spec};
    return sw_source_open(&args, out, &err);
}

/* names: with a blank between them; NULL: none. */
static void assert_names(const struct support_conf *c, const char *file,
                         const struct sw_data_spec *spec, const char *names)
{
    struct sw_source *s = NULL;
    char has[256] = "";

    ASSERT_OK(open_with(c, file, spec, &s));
    for (int32_t i = 0; i < s->class_names->count; i++) {
        strcat(has, i ? " " : "");
        strcat(has, sw_lexicon_word(s->class_names, i, NULL));
    }
    assert_string_equal(has, names ? names : "");
    assert_int_equal(s->naming != 0, names != NULL);
    if (names) {
        assert_int_equal(s->classes, s->class_names->count);
        assert_true(s->classes_fixed);
    }
    sw_source_close(s);
}

static void assert_refused(const struct support_conf *c, const char *file, int code,
                           const char *text)
{
    struct sw_source *s = NULL;
    assert_int_equal(open_with(c, file, NULL, &s), code);
    ASSERT_CONTAINS(err.text, text);
}

static void a_list_or_a_file_names_the_classes(void **state)
{
    struct support_conf c;
    const char *file = support_write("names", "zero\r\n\none\n", 11);

    use_idx(&c, 2);
    assert_names(&c, NULL, NULL, NULL);
    assert_names(&c, file, NULL, "zero one");
    support_strings(&c, "classes", 2, "no", "yes");
    assert_names(&c, NULL, NULL, "no yes");
    assert_refused(&c, file, SW_ERR_INVALID, "classes and class_names are mutually exclusive");

    /* Classes that no record has may have names, as long as the format does not fix their number.
     */
    use_idx(&c, 1);
    assert_names(&c, file, NULL, "zero one");
}

static void lists_that_do_not_fit_are_refused(void **state)
{
    struct support_conf c;

    use_idx(&c, 3);
    support_strings(&c, "classes", 2, "a", "b");
    assert_refused(&c, NULL, SW_ERR_INVALID, "2 names of classes, but the data have 3 classes");
    support_strings(&c, "classes", 2, "a", "a");
    assert_refused(&c, NULL, SW_ERR_INVALID, "classes: a is listed twice");
    use_idx(&c, 3);
    assert_refused(&c, support_path("nothing"), SW_ERR_NOTFOUND, "nothing");
    assert_refused(&c, support_write("empty", "\n\n", 2), SW_ERR_FORMAT,
                   "empty: has no class names");
    assert_refused(&c, support_write("twice", "a\nb\na\n", 6), SW_ERR_FORMAT,
                   "twice: duplicate class a");
    use_cifar(&c);
    assert_refused(&c, support_write("names", "a\nb\n", 4), SW_ERR_INVALID,
                   "2 names of classes, but the data have 10 classes");

    /* Words of a table are its classes. */
    support_init(&c, "csv");
    support_strings(&c, "paths", 0, support_write("t.csv", "1,b\n2,a\n", 8), NULL);
    assert_names(&c, NULL, NULL, "a b");
    assert_names(&c, support_write("same", "a\nb\n", 4), NULL, "a b");
    assert_refused(&c, support_write("other", "b\na\n", 4), SW_ERR_INVALID, "class_names: ");
    ASSERT_CONTAINS(err.text, "the data name their classes themselves");
}

static void cifar_is_named_by_the_file_beside_it(void **state)
{
    static const char names[] =
        "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
    struct support_conf c;

    use_cifar(&c);
    assert_names(&c, NULL, NULL, NULL);
    const char *file = support_write("batches.meta.txt", names, sizeof names - 1);
    assert_names(&c, NULL, NULL, "airplane automobile bird cat deer dog frog horse ship truck");
    /* The recipe's own names come first. */
    assert_names(&c, support_write("own", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", 20), NULL,
                 "a b c d e f g h i j");
    support_write("batches.meta.txt", names, 20);
    assert_refused(&c, NULL, SW_ERR_INVALID, "2 names of classes, but the data have 10 classes");
    unlink(file);
}

/* Its files may be missing where the net is used. */
static void the_names_of_a_trained_net_come_first(void **state)
{
    struct sw_data_spec spec = {0};
    struct support_conf c;
    int32_t id;

    ASSERT_OK(sw_lexicon_add(&spec.classes, "no", 2, 0, &id, &err));
    ASSERT_OK(sw_lexicon_add(&spec.classes, "yes", 3, 0, &id, &err));
    use_idx(&c, 2);
    assert_names(&c, support_path("nothing"), &spec, "no yes");
    use_idx(&c, 1);
    assert_names(&c, NULL, &spec, "no yes");
    use_idx(&c, 3); /* more than the net knows: the check of labels reports them */
    assert_names(&c, NULL, &spec, NULL);
    sw_data_spec_fini(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_or_a_file_names_the_classes),
        cmocka_unit_test(lists_that_do_not_fit_are_refused),
        cmocka_unit_test(cifar_is_named_by_the_file_beside_it),
        cmocka_unit_test(the_names_of_a_trained_net_come_first),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
