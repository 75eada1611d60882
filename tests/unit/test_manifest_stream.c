/* SPDX-License-Identifier: MIT */
/*
 * The manifest as a stream: what the writer puts, the reader gives back in order, by path, and over leaf
 * and continuation borders; damage and misuse are found. The catalogue beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/fdio.h"
#include "repo/catalogue.h"
#include "repo/manifest_reader.h"
#include "repo/manifest_writer.h"
#include "repo/repo_keys.h"

#define LABEL   "20261130T201500Z_F"
#define FILES   30000u
#define EXTENTS 40000u /* of the big file: three records */

struct world {
    char *dir;
    struct store *store;
};

static void ok(enum ph_rc rc, const struct ph_err *err)
{
    if (rc != PH_OK)
        fail_msg("%s: %s", ph_rc_name(rc), err->text);
}

static struct world world_new(void)
{
    struct world w = {.dir = xstrdup("./manifest-test-XXXXXX")};
    struct ph_err err = {0};
    char full[4096];

    assert_non_null(mkdtemp(w.dir));
    assert_non_null(realpath(w.dir, full));
    ok(store_open(&(struct store_opts){.url = full, .create = true}, &w.store, &err), &err);
    return w;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void world_free(struct world *w)
{
    store_close(w->store);
    nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(w->dir);
}

static struct manifest_attrs attrs_of(const char *path, enum manifest_type type, uint64_t size)
{
    return (struct manifest_attrs){
        .path = path, .path_len = strlen(path), .type = type, .mode = 0600, .size_bytes = size};
}

static struct manifest_writer *writer_new(struct world *w)
{
    struct manifest_writer *m = NULL;
    struct ph_err err = {0};

    ok(manifest_writer_open(w->store,
                            &(struct manifest_writer_params){.cluster = "main",
                                                             .label = LABEL,
                                                             .page_size = 8192,
                                                             .system_identifier = 42,
                                                             .method = CODEC_LZ4,
                                                             .level = 1},
                            &m, &err),
       &err);
    return m;
}

static struct manifest_summary write_sample(struct world *w)
{
    struct manifest_writer *m = writer_new(w);
    struct manifest_attrs a = attrs_of("", MANIFEST_DIR, 0);
    struct manifest_summary sum;
    struct ph_err err = {0};
    uint8_t sha[32] = {7};
    uint32_t place = 9;
    uint16_t owner = 9;
    char path[32];

    ok(manifest_writer_owner(m, "postgres:postgres", &owner, &err), &err);
    assert_int_equal(owner, 0);
    ok(manifest_writer_pack_begin(m, "20261130T201500Z-0a1b2c3d", 1, &place, &err), &err);
    assert_int_equal(place, 0);
    ok(manifest_writer_entry(m, &a, &err), &err);
    for (unsigned i = 0; i < FILES; i++) {
        struct manifest_bundle b = {.frame_offset = 64, .frame_len = 100, .xxh3 = i};
        snprintf(path, sizeof path, "f%06u", i);
        a = attrs_of(path, MANIFEST_FILE, i + 1);
        a.crc32c = i;
        ok(manifest_writer_bundle_file(m, &a, &b, &err), &err);
    }
    a = attrs_of("g", MANIFEST_FILE, 5);
    ok(manifest_writer_begin_file(m, &a, &err), &err);
    for (unsigned i = 0; i < EXTENTS; i++) {
        struct extent_entry e = {.xxh3 = i, .pages = 1, .deltas = i % 1000 == 7 ? 2 : 0};
        struct delta_entry d[2] = {{.extent = i, .frame_len = 1}, {.extent = i, .frame_len = 2}};
        ok(manifest_writer_add_extents(m, &e, 1, d, e.deltas, &err), &err);
    }
    ok(manifest_writer_end_file(m, (uint64_t)EXTENTS * 262144, 0xabcd, &err), &err);
    a = attrs_of("ga", MANIFEST_FILE, 77);
    ok(manifest_writer_begin_file(m, &a, &err), &err);
    ok(manifest_writer_add_extents(m, &(struct extent_entry){.xxh3 = 1, .pages = 1}, 1, NULL, 0,
                                   &err),
       &err);
    ok(manifest_writer_end_file_no_crc(m, 8192, &err), &err);
    a = attrs_of("h", MANIFEST_FILE, 77);
    ok(manifest_writer_begin_file(m, &a, &err), &err);
    ok(manifest_writer_end_file(m, 0, 0, &err), &err);
    ok(manifest_writer_late(m, &err), &err);
    a = attrs_of("global/pg_control", MANIFEST_FILE, 0);
    ok(manifest_writer_entry(m, &a, &err), &err);
    manifest_writer_pack_seal(m, place, 1000, sha);
    ok(manifest_writer_finish(m, &sum, &err), &err);
    return sum;
}

static struct manifest_reader *reader_new(struct world *w, struct ph_err *err)
{
    struct manifest_reader *r = NULL;

    if (manifest_reader_open(w->store,
                             &(struct manifest_reader_params){.cluster = "main", .label = LABEL},
                             &r, err) != PH_OK)
        return NULL;
    return r;
}

static void test_round_trip(void **state)
{
    struct world w = world_new();
    struct ph_err err = {0};
    struct manifest_summary sum = write_sample(&w);
    struct manifest_reader *r = reader_new(&w, &err);
    struct manifest_record rec;
    bool more = true;
    uint64_t records = 0;
    uint64_t extents = 0;
    uint64_t deltas = 0;
    uint64_t last_size = 0;
    unsigned without_crc = 0;

    assert_int_equal(sum.files, FILES + 4);
    assert_int_equal(sum.extents, EXTENTS + 1);
    assert_non_null(r);
    assert_true(manifest_reader_trailer(r)->leaves > 3);
    for (;;) {
        ok(manifest_reader_next(r, &rec, &more, &err), &err);
        if (!more)
            break;
        records += !(rec.attrs.flags & MANIFEST_CONTINUATION);
        if (rec.attrs.flags & MANIFEST_NO_CRC) {
            assert_memory_equal(rec.attrs.path, "ga", 2);
            assert_int_equal(rec.attrs.crc32c, 0);
            assert_int_equal(rec.attrs.size_bytes, 8192);
            without_crc++;
        } else if (rec.storage == MANIFEST_EXTENTS) {
            assert_int_equal(rec.first_extent, extents);
            for (uint32_t i = 0; i < rec.extent_count; i++)
                assert_int_equal(extent_entry_get(rec.extents, i).xxh3, extents + i);
            extents += rec.extent_count;
            deltas += rec.delta_count;
            last_size = rec.attrs.size_bytes;
        }
        assert_int_equal((rec.attrs.flags & MANIFEST_LATE) != 0, records == sum.records);
    }
    assert_int_equal(records, sum.records);
    assert_int_equal(extents, EXTENTS);
    assert_int_equal(without_crc, 1);
    assert_int_equal(deltas, 2 * (EXTENTS / 1000));
    assert_int_equal(last_size, (uint64_t)EXTENTS * 262144);
    const char *owner = NULL;
    ok(manifest_reader_owner(r, 0, &owner, &err), &err);
    assert_string_equal(owner, "postgres:postgres");
    assert_int_equal(manifest_reader_owner(r, 1, &owner, &err), PH_CORRUPT);
    assert_int_equal(manifest_reader_pack_count(r), 1);
    assert_int_equal(manifest_reader_pack(r, 0).size_bytes, 1000);
    assert_string_equal(manifest_reader_pack_run(r, 0), "20261130T201500Z-0a1b2c3d");
    manifest_reader_close(r);
    world_free(&w);
    (void)state;
}

static void test_find(void **state)
{
    struct world w = world_new();
    struct ph_err err = {0};
    struct manifest_record rec;
    char path[32];
    bool more = false;

    (void)write_sample(&w);
    struct manifest_reader *r = reader_new(&w, &err);
    assert_non_null(r);
    for (unsigned i = 0; i < FILES; i += 997) {
        snprintf(path, sizeof path, "f%06u", i);
        ok(manifest_reader_find(r, path, &rec, &err), &err);
        assert_int_equal(rec.attrs.crc32c, i);
    }
    ok(manifest_reader_find(r, "g", &rec, &err), &err);
    assert_int_equal(rec.first_extent, 0);
    ok(manifest_reader_next(r, &rec, &more, &err), &err);
    assert_true(more && rec.first_extent == 16384 && (rec.attrs.flags & MANIFEST_CONTINUATION));
    ok(manifest_reader_find(r, "h", &rec, &err), &err);
    assert_int_equal(rec.attrs.size_bytes, 0);
    ok(manifest_reader_find(r, "global/pg_control", &rec, &err), &err);
    ok(manifest_reader_find(r, "", &rec, &err), &err);
    assert_int_equal(manifest_reader_find(r, "f0000001", &rec, &err), PH_NOT_FOUND);
    assert_int_equal(manifest_reader_find(r, "zzz", &rec, &err), PH_NOT_FOUND);
    manifest_reader_rewind(r, true);
    ok(manifest_reader_next(r, &rec, &more, &err), &err);
    assert_true(more && rec.attrs.path_len == strlen("global/pg_control"));
    manifest_reader_close(r);
    world_free(&w);
    (void)state;
}

static void test_damage(void **state)
{
    struct world w = world_new();
    struct ph_err err = {0};
    struct manifest_summary sum = write_sample(&w);
    AUTO_FREE char *path = xasprintf("%s/main/backup/%s/manifest", w.dir, LABEL);
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    for (uint64_t at = 0; at < sum.manifest_bytes;
         at += at < 64 || at + 129 > sum.manifest_bytes ? 1 : sum.manifest_bytes / 40) {
        uint8_t byte = 0;
        ok(pread_full(fd, &byte, 1, at, &err), &err);
        byte ^= (uint8_t)(1u << (at % 8));
        ok(pwrite_full(fd, &byte, 1, at, &err), &err);
        struct manifest_reader *r = reader_new(&w, &err);
        if (r != NULL)
            fail_msg("flip at %llu was not found", (unsigned long long)at);
        assert_non_null(strstr(err.text, "manifest of backup " LABEL));
        byte ^= (uint8_t)(1u << (at % 8));
        ok(pwrite_full(fd, &byte, 1, at, &err), &err);
    }
    assert_int_equal(ftruncate(fd, (off_t)sum.manifest_bytes - 1), 0);
    assert_null(reader_new(&w, &err));
    close(fd);
    world_free(&w);
    (void)state;
}

static void test_order_and_abort(void **state)
{
    struct world w = world_new();
    struct manifest_writer *m = writer_new(&w);
    struct manifest_attrs a = attrs_of("b", MANIFEST_DIR, 0);
    struct ph_err err = {0};
    uint64_t size = 0;

    ok(manifest_writer_entry(m, &a, &err), &err);
    assert_int_equal(manifest_writer_entry(m, &a, &err), PH_BUG);
    a = attrs_of("a", MANIFEST_DIR, 0);
    assert_int_equal(manifest_writer_entry(m, &a, &err), PH_BUG);
    a = attrs_of("b/../c", MANIFEST_DIR, 0);
    assert_int_equal(manifest_writer_entry(m, &a, &err), PH_BUG);
    manifest_writer_abort(m);
    assert_int_equal(store_stat(w.store, repo_key_manifest("main", LABEL).text, &size, &err),
                     PH_NOT_FOUND);
    world_free(&w);
    (void)state;
}

static void test_catalogue(void **state)
{
    struct world w = world_new();
    struct manifest_summary sum = write_sample(&w);
    struct backup_info info = {.tool_version = xstrdup("t"), .system = 1, .page_size = 8192};
    struct backup_info again = {0};
    struct catalogue c = {0};
    struct ph_err err = {0};
    AUTO_FREE char *path = xasprintf("%s/main/backup/%s/backup.json", w.dir, LABEL);

    memcpy(info.label, LABEL, sizeof LABEL);
    info.manifest_bytes = sum.manifest_bytes + 1;
    assert_int_equal(catalogue_publish(w.store, "main", &info, &err), PH_BUG);
    ok(catalogue_load(w.store, "main", &c, &err), &err);
    assert_int_equal(c.backup_count, 0);
    catalogue_release(&c);
    info.manifest_bytes = sum.manifest_bytes;
    ok(catalogue_publish(w.store, "main", &info, &err), &err);
    assert_int_equal(catalogue_publish(w.store, "main", &info, &err), PH_EXISTS);
    ok(catalogue_load(w.store, "main", &c, &err), &err);
    assert_int_equal(c.backup_count, 1);
    assert_string_equal(c.backups[0].label, LABEL);
    catalogue_release(&c);
    assert_int_equal(catalogue_load_backup(w.store, "main", "20200101T000000Z_F", &again, &err),
                     PH_NOT_FOUND);
    assert_int_equal(truncate(path, 100), 0);
    ok(catalogue_load(w.store, "main", &c, &err), &err);
    assert_int_equal(c.backup_count, 0);
    assert_int_equal(c.damaged_count, 1);
    assert_string_equal(c.damaged[0].label, LABEL);
    catalogue_release(&c);
    backup_info_release(&info);
    world_free(&w);
    (void)state;
}

static void test_keys(void **state)
{
    assert_string_equal(repo_key_wal_file("m", 15, 1, "0000000A0000000B000000FE").text,
                        "m/wal/15-1/0000000A/0000000B/0000000A0000000B000000FE");
    assert_string_equal(repo_key_wal_file("m", 15, 2, "0000000A.history").text,
                        "m/wal/15-2/0000000A/0000000A.history");
    assert_string_equal(repo_key_pack("m", "20261130T201500Z-0a1b2c3d", 7).text,
                        "m/pack/20261130T201500Z-0a1b2c3d-000007");
    assert_true(repo_cluster_name_valid("a.b-c_1"));
    assert_false(repo_cluster_name_valid(".a"));
    assert_false(repo_cluster_name_valid("a/b"));
    assert_false(repo_cluster_name_valid(""));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_find),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_order_and_abort),
        cmocka_unit_test(test_catalogue),  cmocka_unit_test(test_keys),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
