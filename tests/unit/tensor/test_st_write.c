#include "base/hash.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include "unit/tensor/st_sample.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

static char *read_all(const char *path, size_t *bytes)
{
    char *text = NULL;
    assert_int_equal(sw_os_read_file(path, 1 << 24, &text, bytes, NULL), SW_OK);
    return text;
}

static void the_file_follows_the_format(void **state)
{
    struct sw_err err = {0};
    uint64_t bytes = 0, length;
    size_t n;
    char hex[33], last[33];
    struct sw_st_writer *w = sample_writer(&err);
    assert_int_equal(sw_st_writer_write(w, scratch_path("a.safetensors"), 0600, &bytes, hex, &err),
                     SW_OK);
    sw_st_writer_free(w);
    char *file = read_all(scratch_path("a.safetensors"), &n);
    assert_int_equal(n, bytes);
    memcpy(&length, file, 8);
    assert_int_equal(length % 8, 0);
    assert_int_equal(n, 8 + length + 16 + 8 + 8 + 96 + 12000 + 5 + 16);
    const char *want =
        "{\"__metadata__\":{\"format\":\"pt\",\"recipe\":\"[job]\\n\\\"x\\\" = 1\\n\"},"
        "\"statistics\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[16,24]},"
        "\"seed\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[24,32]},"
        "\"conv1.weight\":{\"dtype\":\"F32\",\"shape\":[3,2,2,2],\"data_offsets\":[32,128]},"
        "\"fc "
        "\\\"6\\\".\xC3\xA9\":{\"dtype\":\"F32\",\"shape\":[3,1000],\"data_offsets\":[128,12128]},"
        "\"nothing\":{\"dtype\":\"I32\",\"shape\":[2,0,3],\"data_offsets\":[12128,12128]},"
        "\"labels\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[12128,12133]},"
        "\"sw.checksum\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[12133,12149]}}";
    assert_memory_equal(file + 8, want, strlen(want));
    for (size_t i = strlen(want); i < length; i++)
        assert_int_equal(file[8 + i], ' ');
    for (uint64_t i = 0; i < 12000; i++)
        assert_int_equal((unsigned char)file[8 + length + 128 + i], sample_byte(2, i));
    /* The last 16 bytes are the hash of all before, written as its hex text reads. */
    sw_hash_hex(sw_hash_bytes(file, n - 16), last);
    assert_string_equal(hex, last);
    for (int i = 0; i < 16; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", (unsigned char)file[n - 16 + (size_t)i]);
        assert_memory_equal(two, hex + 2 * i, 2);
    }
    sw_free(file);
}

static void other_programs_can_read_it(void **state)
{
    if (system("python3 -c pass 2>/dev/null") != 0) {
        print_message("skipped: python3 is not installed\n");
        skip();
    }
    assert_int_equal(sample_write(scratch_path("py.safetensors"), NULL), SW_OK);
    char command[2048];
    snprintf(
        command, sizeof command,
        "python3 - '%s' <<'END'\n"
        "import json, struct, sys\n"
        "raw = open(sys.argv[1], 'rb').read()\n"
        "n, = struct.unpack('<Q', raw[:8])\n"
        "head = json.loads(raw[8:8 + n].decode('utf-8'))\n"
        "data = raw[8 + n:]\n"
        "meta = head.pop('__metadata__')\n"
        "assert meta == {'format': 'pt', 'recipe': '[job]\\n\"x\" = 1\\n'}, meta\n"
        "size = {'F64': 8, 'I64': 8, 'U64': 8, 'F32': 4, 'I32': 4, 'U8': 1}\n"
        "at, last = 0, 8\n"
        "for name, t in head.items():\n"
        "    begin, end = t['data_offsets']\n"
        "    count = 1\n"
        "    for d in t['shape']: count *= d\n"
        "    assert begin == at and end - begin == count * size[t['dtype']], name\n"
        "    assert size[t['dtype']] <= last and begin %% size[t['dtype']] == 0, name\n"
        "    at, last = end, size[t['dtype']]\n"
        "assert at == len(data) and list(head)[-1] == 'sw.checksum' and len(head) == 8\n"
        "b, e = head['fc \"6\".\\u00e9']['data_offsets']\n"
        "assert data[b:e] == bytes(((i + 1) * 5 * 2654435761 >> 11) & 255 for i in range(12000))\n"
        "END\n",
        scratch_path("py.safetensors"));
    assert_int_equal(system(command), 0);
}

static void a_file_without_tensors_has_only_the_checksum(void **state)
{
    struct sw_st_file *f = NULL;
    struct sw_st_writer *w = sw_st_writer_new();
    assert_int_equal(sw_st_writer_write(w, scratch_path("empty"), 0600, NULL, NULL, NULL), SW_OK);
    sw_st_writer_free(w);
    assert_int_equal(sw_st_open(scratch_path("empty"), true, &f, NULL), SW_OK);
    assert_int_equal(sw_st_count(f), 0);
    sw_st_close(f);
}

static int never_called(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_LIBRARY, "called");
}

static void bad_names_and_shapes_are_rejected(void **state)
{
    struct sw_err err = {0};
    struct sw_st_writer *w = sw_st_writer_new();
    int64_t one[] = {1}, huge[] = {INT64_MAX, 3}, negative[] = {-1}, nine[9] = {0};
    int64_t wraps[] = {1ll << 31, 1ll << 31, 4};
    assert_int_equal(
        sw_st_writer_add(w, "a", (struct sw_st_shape){SW_ST_U8, 1, one}, never_called, NULL, &err),
        SW_OK);
    const char *const names[] = {"a", "", "sw.checksum", "__metadata__", "x\xFF"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(sw_st_writer_add(w, names[i], (struct sw_st_shape){SW_ST_U8, 1, one},
                                          never_called, NULL, &err),
                         SW_ERR_INVALID);
    assert_int_equal(
        sw_st_writer_add(w, "b", (struct sw_st_shape){SW_ST_U8, 2, huge}, never_called, NULL, &err),
        SW_ERR_INVALID);
    assert_int_equal(sw_st_writer_add(w, "b", (struct sw_st_shape){SW_ST_F32, 3, wraps},
                                      never_called, NULL, &err),
                     SW_ERR_INVALID);
    assert_int_equal(sw_st_writer_add(w, "b", (struct sw_st_shape){SW_ST_U8, 1, negative},
                                      never_called, NULL, &err),
                     SW_ERR_INVALID);
    assert_int_equal(
        sw_st_writer_add(w, "b", (struct sw_st_shape){SW_ST_U8, 9, nine}, never_called, NULL, &err),
        SW_ERR_INVALID);
    assert_int_equal(sw_st_writer_metadata(w, "k", "v", &err), SW_OK);
    assert_int_equal(sw_st_writer_metadata(w, "k", "v", &err), SW_ERR_INVALID);
    assert_int_equal(sw_st_writer_metadata(w, "l", "\xFF", &err), SW_ERR_INVALID);
    /* Each fits, their sum does not. */
    int64_t half[] = {3ll << 60};
    assert_int_equal(
        sw_st_writer_add(w, "c", (struct sw_st_shape){SW_ST_U8, 1, half}, never_called, NULL, &err),
        SW_OK);
    assert_int_equal(
        sw_st_writer_add(w, "d", (struct sw_st_shape){SW_ST_U8, 1, half}, never_called, NULL, &err),
        SW_OK);
    scratch_clear();
    assert_int_equal(sw_st_writer_write(w, scratch_path("x"), 0600, NULL, NULL, &err),
                     SW_ERR_INVALID);
    assert_int_equal(scratch_count(), 0);
    sw_st_writer_free(w);
}

struct wrong_source {
    size_t bytes;
    int rc;
};

static int emit_some(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct wrong_source *s = user;
    static const unsigned char zeros[100];
    int rc = sw_st_emit(sink, zeros, s->bytes, err);
    return rc == SW_OK && s->rc ? sw_err_set(err, s->rc, "device lost") : rc;
}

static void a_source_that_fails_keeps_the_old_file(void **state)
{
    const struct {
        struct wrong_source source;
        int rc;
        const char *says;
    } cases[] = {
        {{39, 0}, SW_ERR_INVALID, "tensor w: the source returned 39 of 40 bytes"},
        {{41, 0}, SW_ERR_INVALID, "tensor w: the source returned more bytes than its shape has"},
        {{20, SW_ERR_LIBRARY}, SW_ERR_LIBRARY, "tensor w: device lost"},
        {{40, SW_ERR_CANCELLED}, SW_ERR_CANCELLED, "tensor w: device lost"},
    };
    scratch_clear();
    const char *path = scratch_path("old");
    assert_int_equal(sw_os_replace_file(path, "old", 3, 0600, NULL), SW_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_err err = {0};
        struct sw_st_writer *w = sw_st_writer_new();
        struct wrong_source source = cases[i].source;
        assert_int_equal(sw_st_writer_add(w, "w",
                                          (struct sw_st_shape){SW_ST_F32, 1, (int64_t[]){10}},
                                          emit_some, &source, &err),
                         SW_OK);
        assert_int_equal(sw_st_writer_write(w, path, 0600, NULL, NULL, &err), cases[i].rc);
        assert_string_equal(err.text, cases[i].says);
        sw_st_writer_free(w);
        size_t n;
        char *text = read_all(path, &n);
        assert_string_equal(text, "old");
        sw_free(text);
        assert_int_equal(scratch_count(), 1);
    }
}

/* Writes the sample over an older one with some call failing, and judges what is left. */
static int write_with_fault(const char *path, struct faulty_plan plan)
{
    struct sw_err err = {0};
    struct sw_st_file *f = NULL;
    assert_int_equal(sw_os_replace_file(path, "old", 3, 0600, NULL), SW_OK);
    faulty_begin(plan);
    int rc = sample_write(path, &err);
    assert_int_equal(faulty.live_allocations, 0);
    faulty_end();
    assert_true(rc == SW_OK || (err.code == rc && err.text[0]));
    size_t n;
    char *text = read_all(path, &n);
    if (strcmp(text, "old") != 0) {
        assert_int_equal(sw_st_open(path, true, &f, NULL), SW_OK);
        assert_int_equal(sw_st_count(f), SAMPLES);
        sw_st_close(f);
    } else {
        assert_true(rc != SW_OK);
    }
    sw_free(text);
    assert_int_equal(scratch_count(), 1);
    return rc;
}

static void a_full_disk_at_any_write_keeps_the_old_file(void **state)
{
    scratch_clear();
    const char *path = scratch_path("full");
    struct faulty_plan plan = {.kinds = FAULTY_WRITE, .io_bytes = 300, .error = ENOSPC};
    assert_int_equal(write_with_fault(path, plan), SW_OK);
    int calls = faulty.calls;
    assert_true(calls > 40);
    for (plan.at = 1; plan.at <= calls; plan.at++)
        for (plan.forever = false;; plan.forever = true) {
            assert_int_equal(write_with_fault(path, plan), SW_ERR_IO);
            if (plan.forever)
                break;
        }
}

static void any_failing_call_leaves_the_old_or_the_new_file(void **state)
{
    scratch_clear();
    const char *path = scratch_path("any");
    struct faulty_plan plan = {.kinds = FAULTY_ALL, .io_bytes = 4000, .interrupts = true};
    assert_int_equal(write_with_fault(path, plan), SW_OK);
    int calls = faulty.calls, failed = 0;
    for (plan.at = 1; plan.at <= calls; plan.at++)
        for (int forever = 0; forever <= 1; forever++) {
            plan.forever = forever;
            failed += write_with_fault(path, plan) != SW_OK;
        }
    /* Only a failing close of the folder is without consequence. */
    assert_true(failed >= 2 * calls - 2);
}

static void a_crash_at_any_call_leaves_the_old_or_the_new_file(void **state)
{
    const char *path = scratch_path("dead");
    int deaths = 0;
    for (bool finished = false; !finished;) {
        int status;
        size_t n;
        struct sw_st_file *f = NULL;
        assert_int_equal(sw_os_replace_file(path, "old", 3, 0600, NULL), SW_OK);
        pid_t child = fork();
        if (child == 0) {
            faulty_begin((struct faulty_plan){
                .kinds = FAULTY_FILES, .at = deaths + 1, .dies = true, .io_bytes = 2000});
            _exit(sample_write(path, NULL) == SW_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        finished = WEXITSTATUS(status) == 0;
        assert_true(finished || WEXITSTATUS(status) == 9);
        char *text = read_all(path, &n);
        if (strcmp(text, "old") != 0) {
            assert_int_equal(sw_st_open(path, true, &f, NULL), SW_OK);
            sw_st_close(f);
        } else {
            assert_false(finished);
        }
        sw_free(text);
        deaths += !finished;
    }
    assert_true(deaths > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_follows_the_format),
        cmocka_unit_test(other_programs_can_read_it),
        cmocka_unit_test(a_file_without_tensors_has_only_the_checksum),
        cmocka_unit_test(bad_names_and_shapes_are_rejected),
        cmocka_unit_test(a_source_that_fails_keeps_the_old_file),
        cmocka_unit_test(a_full_disk_at_any_write_keeps_the_old_file),
        cmocka_unit_test(any_failing_call_leaves_the_old_or_the_new_file),
        cmocka_unit_test(a_crash_at_any_call_leaves_the_old_or_the_new_file),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
