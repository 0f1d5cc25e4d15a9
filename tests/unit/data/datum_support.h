/* Datum messages of Caffe, put together field by field, and LMDBs of them. */
#pragma once

#include "data_support.h"
#include <lmdb.h>

/* A message that grows. */
struct message {
    unsigned char bytes[4096];
    size_t count;
};

static inline void message_varint(struct message *m, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        m->bytes[m->count++] = (unsigned char)(v | 128);
    m->bytes[m->count++] = (unsigned char)v;
}

static inline void message_number(struct message *m, unsigned field, uint64_t v)
{
    message_varint(m, field << 3);
    message_varint(m, v);
}

static inline void message_bytes(struct message *m, unsigned field, const void *bytes, size_t n)
{
    message_varint(m, field << 3 | 2);
    message_varint(m, n);
    assert_true(m->count + n <= sizeof m->bytes);
    memcpy(m->bytes + m->count, bytes, n);
    m->count += n;
}

static inline void message_float(struct message *m, float v)
{
    message_varint(m, 6 << 3 | 5);
    memcpy(m->bytes + m->count, &v, 4);
    m->count += 4;
}

static inline void message_sides(struct message *m, int c, int h, int w)
{
    message_number(m, 1, (uint64_t)c);
    message_number(m, 2, (uint64_t)h);
    message_number(m, 3, (uint64_t)w);
}

/* Writes the messages under the keys 00000000, 00000001, ... into one file NAME. */
static inline const char *message_lmdb(const char *name, const struct message *m, int count)
{
    const char *path = support_path(name);
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_mapsize(env, 8 << 20), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    for (int i = 0; i < count; i++) {
        char text[16];
        snprintf(text, sizeof text, "%08d", i);
        MDB_val key = {8, text}, value = {m[i].count, (void *)(uintptr_t)m[i].bytes};
        assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    return path;
}
