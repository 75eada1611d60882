/* SPDX-License-Identifier: MIT */
/*
 * Restoring what incremental backups left: extents with images and deltas in many packs, written with the
 * real packer and manifest writer. Content, checksums of backup_manifest, and in place: only pages that
 * differ are fetched and written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/restore/restore.h"
#include "io/fdio.h"
#include "repo_build.h"

#define PAGES_FILE     "base/1/17001"
#define RANDOM_FILE    "base/1/17002"
#define SPARSE_FILE    "base/1/17003"
#define EXTENTS        24u
#define PAGES_BYTES    ((EXTENTS - 1) * (size_t)RB_EXTENT + 5 * RB_PAGE + 700)
#define ROUNDS         4u
#define SPARSE_EXTENTS (MANIFEST_RECORD_EXTENTS_MAX + 3u)
#define SPARSE_BYTES   (SPARSE_EXTENTS * (uint64_t)RB_EXTENT)

/* What the files hold after the first image, and at the end. */
static uint8_t *first;
static uint8_t *last;
static uint8_t *random_bytes; /* one extent that nothing compresses */

static uint32_t seed = 12345;

static uint32_t next_random(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static void random_fill(uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)next_random();
}

static size_t extent_len(uint32_t i)
{
    return MIN_OF(PAGES_BYTES - i * (size_t)RB_EXTENT, (size_t)RB_EXTENT);
}

struct chain {
    struct extent_entry entry;
    struct delta_entry deltas[ROUNDS];
};

static void chain_add(struct repo_build *b, struct chain *x, const char *path, uint32_t number,
                      uint32_t pages, const uint8_t *extent, size_t len)
{
    struct frame_spec spec = {.kind = FRAME_DELTA,
                              .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
                              .owner = xxh3_64(path, strlen(path)),
                              .extent = number,
                              .pages = pages};
    struct frame_head head;
    struct packer_place place = rb_frame(b, spec, extent, len, &head);

    x->deltas[x->entry.deltas++] = (struct delta_entry){.extent = number,
                                                        .pack = place.pack,
                                                        .frame_offset = place.offset,
                                                        .frame_len = (uint32_t)frame_bytes(&head),
                                                        .pages = pages};
    x->entry.xxh3 = extent_sum_delta(x->entry.xxh3, pages, head.raw_xxh3);
}

static void file_write(struct repo_build *b, const char *path, uint64_t size,
                       const struct chain *chains, uint32_t count)
{
    struct manifest_attrs a = rb_attrs(path, MANIFEST_FILE, 0600, size);
    struct ph_err err = {0};

    rb_ok(manifest_writer_begin_file(b->writer, &a, &err), &err);
    for (uint32_t i = 0; i < count; i++)
        rb_ok(manifest_writer_add_extents(b->writer, &chains[i].entry, 1, chains[i].deltas,
                                          chains[i].entry.deltas, &err),
              &err);
    rb_ok(manifest_writer_end_file_no_crc(b->writer, size, &err), &err);
}

/* One round of changes: a few pages of about half of the extents, some become zero. */
static void round_write(struct repo_build *b, struct chain *chains, uint32_t round)
{
    for (uint32_t i = 0; i < EXTENTS; i++) {
        uint8_t *extent = last + i * (size_t)RB_EXTENT;
        size_t len = extent_len(i);
        uint32_t pages = 0;

        if (next_random() % 2 == 0)
            continue;
        for (unsigned k = 0; k < 3; k++) {
            uint32_t page = next_random() % ((uint32_t)(len + RB_PAGE - 1) / RB_PAGE);
            size_t part = MIN_OF(len - page * (size_t)RB_PAGE, (size_t)RB_PAGE);
            if (k == 2)
                memset(extent + page * RB_PAGE, 0, part);
            else
                rb_fill(extent + page * RB_PAGE, part, 1000 * round + 10 * i + k);
            pages |= UINT32_C(1) << page;
        }
        chain_add(b, &chains[i], PAGES_FILE, i, pages, extent, len);
    }
}

static void pages_file(struct repo_build *b)
{
    AUTO_FREE struct chain *chains = xcalloc(EXTENTS, sizeof *chains);

    first = xcalloc(PAGES_BYTES, 1);
    last = xmalloc(PAGES_BYTES);
    for (size_t page = 0; page * RB_PAGE < PAGES_BYTES; page++)
        if (page % 7 != 3 && (page < 3 * 32 || page >= 5 * 32)) /* two extents without an image */
            rb_fill(first + page * RB_PAGE, MIN_OF(PAGES_BYTES - page * RB_PAGE, (size_t)RB_PAGE),
                    (uint32_t)page);
    memcpy(last, first, PAGES_BYTES);
    for (uint32_t i = 0; i < EXTENTS; i++)
        chains[i].entry = rb_image(b, PAGES_FILE, i, first + i * (size_t)RB_EXTENT, extent_len(i));
    for (uint32_t round = 0; round < ROUNDS; round++)
        round_write(b, chains, round);
    file_write(b, PAGES_FILE, PAGES_BYTES, chains, EXTENTS);
}

/* An image and four deltas of all pages: more than one slab holds. */
static void random_file(struct repo_build *b)
{
    struct chain x = {0};

    random_bytes = xmalloc(RB_EXTENT);
    random_fill(random_bytes, RB_EXTENT);
    x.entry = rb_image(b, RANDOM_FILE, 0, random_bytes, RB_EXTENT);
    for (unsigned i = 0; i < ROUNDS; i++) {
        random_fill(random_bytes, RB_EXTENT);
        chain_add(b, &x, RANDOM_FILE, 0, UINT32_MAX, random_bytes, RB_EXTENT);
    }
    file_write(b, RANDOM_FILE, RB_EXTENT, &x, 1);
}

/* More extents than a record holds: one page at the end of the first and in the last one. */
static void sparse_file(struct repo_build *b)
{
    AUTO_FREE struct chain *chains = xcalloc(SPARSE_EXTENTS, sizeof *chains);
    AUTO_FREE uint8_t *extent = xcalloc(RB_EXTENT, 1);

    for (uint32_t i = 0; i < SPARSE_EXTENTS; i++)
        chains[i].entry.xxh3 = extent_sum_zeros(RB_EXTENT);
    rb_fill(extent + 31 * RB_PAGE, RB_PAGE, 5);
    chain_add(b, &chains[0], SPARSE_FILE, 0, UINT32_C(1) << 31, extent, RB_EXTENT);
    chains[SPARSE_EXTENTS - 1].entry =
        rb_image(b, SPARSE_FILE, SPARSE_EXTENTS - 1, extent, RB_EXTENT);
    file_write(b, SPARSE_FILE, SPARSE_BYTES, chains, SPARSE_EXTENTS);
}

static void all_files(struct repo_build *b)
{
    seed = 12345;
    pages_file(b);
    random_file(b);
}

static void all_files_and_a_sparse_one(struct repo_build *b)
{
    all_files(b);
    sparse_file(b);
}

struct world {
    char *dir;
    struct repo_build repo;
    char *old_ts;
    char *new_ts;
    char *target;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int world_with(void **state, void (*files)(struct repo_build *b))
{
    struct world *w = xcalloc(1, sizeof *w);
    char here[4096];

    assert_non_null(getcwd(here, sizeof here));
    w->dir = xasprintf("%s/chain-test-XXXXXX", here);
    assert_non_null(mkdtemp(w->dir));
    w->old_ts = xasprintf("%s/old", w->dir);
    w->new_ts = xasprintf("%s/new", w->dir);
    w->target = xasprintf("%s/target", w->dir);
    w->repo = rb_new_with(w->dir, w->old_ts, CODEC_LZ4, files);
    *state = w;
    return 0;
}

static int world_new(void **state)
{
    return world_with(state, all_files);
}

static int world_sparse_new(void **state)
{
    return world_with(state, all_files_and_a_sparse_one);
}

static int world_free(void **state)
{
    struct world *w = *state;

    rb_free(&w->repo);
    nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(w->dir);
    free(w->old_ts);
    free(w->new_ts);
    free(w->target);
    free(w);
    free(first);
    free(last);
    free(random_bytes);
    return 0;
}

static enum ph_rc restore(struct world *w, bool delta, struct restore_result *ret,
                          struct ph_err *err)
{
    const struct restore_map map = {.tablespace = "ts", .path = w->new_ts};

    return restore_run(&(struct restore_opts){.store = w->repo.store,
                                              .cluster = RB_CLUSTER,
                                              .path = w->target,
                                              .delta = delta,
                                              .restore_command = "true %f",
                                              .maps = &map,
                                              .map_count = 1,
                                              .memory_bytes = 64 * MIB,
                                              .workers = 2},
                       ret, err);
}

/* The counts of a restore that must succeed. */
static struct restore_result restore_ok(struct world *w, bool delta)
{
    struct restore_result r = {0};
    struct ph_err err = {0};

    rb_ok(restore(w, delta, &r, &err), &err);
    struct restore_result counts = {.written_bytes = r.written_bytes,
                                    .fetched_bytes = r.fetched_bytes,
                                    .kept_bytes = r.kept_bytes};
    restore_result_release(&r);
    return counts;
}

static void read_file(const struct world *w, const char *name, struct buf *ret)
{
    AUTO_FREE char *path = xasprintf("%s/%s", w->target, name);
    struct ph_err err = {0};

    buf_init(ret, 256 * MIB);
    rb_ok(file_read_all(AT_FDCWD, path, ret, &err), &err);
}

static void expect_bytes(const struct world *w, const char *name, const uint8_t *data, size_t len)
{
    struct buf b;

    read_file(w, name, &b);
    assert_int_equal(b.len_bytes, len);
    assert_memory_equal(b.data, data, len);
    buf_release(&b);
}

/* backup_manifest has this file with this CRC-32C, written as PostgreSQL writes it: byte by byte. */
static void expect_crc(const struct world *w, const char *name, uint32_t crc)
{
    AUTO_FREE char *path = xasprintf("\"%s\"", name);
    char want[64];
    struct buf b;

    (void)snprintf(want, sizeof want, "\"Checksum\": \"%02x%02x%02x%02x\"", crc & 0xff,
                   crc >> 8 & 0xff, crc >> 16 & 0xff, crc >> 24);
    read_file(w, "backup_manifest", &b);
    buf_add(&b, "", 1);
    const char *at = strstr((const char *)b.data, path);
    assert_non_null(at);
    const char *found = strstr(at, "\"Checksum\"");
    assert_non_null(found);
    if (strncmp(found, want, strlen(want)) != 0)
        fail_msg("%s: expected %s, found %.30s", name, want, found);
    buf_release(&b);
}

static void expect_all(const struct world *w)
{
    expect_bytes(w, PAGES_FILE, last, PAGES_BYTES);
    expect_bytes(w, RANDOM_FILE, random_bytes, RB_EXTENT);
    expect_bytes(w, "base/1/16385", w->repo.chained, RB_EXTENT);
    expect_crc(w, PAGES_FILE, crc32c(0, last, PAGES_BYTES));
    expect_crc(w, RANDOM_FILE, crc32c(0, random_bytes, RB_EXTENT));
    expect_crc(w, "base/1/16384", crc32c(0, w->repo.big, RB_BIG));
}

static void expect_sparse(const struct world *w)
{
    AUTO_FREE uint8_t *page = xmalloc(RB_PAGE);
    AUTO_FREE char *path = xasprintf("%s/%s", w->target, SPARSE_FILE);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, SPARSE_BYTES);
    assert_true((uint64_t)st.st_blocks * 512 <= 4 * RB_EXTENT);
    rb_fill(page, RB_PAGE, 5);
    uint32_t crc = crc32c(crc32c_zeros(0, 31 * RB_PAGE), page, RB_PAGE);
    crc = crc32c(crc32c_zeros(crc, SPARSE_BYTES - RB_EXTENT - RB_PAGE), page, RB_PAGE);
    expect_crc(w, SPARSE_FILE, crc);
}

static void overwrite(const struct world *w, const char *name, size_t offset, const void *data,
                      size_t len)
{
    AUTO_FREE char *path = xasprintf("%s/%s", w->target, name);
    struct ph_err err = {0};
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    rb_ok(pwrite_full(fd, data, len, offset, &err), &err);
    close(fd);
}

static void test_fresh(void **state)
{
    struct world *w = *state;
    struct restore_result r = restore_ok(w, false);

    expect_all(w);
    expect_sparse(w);
    assert_true(r.written_bytes < PAGES_BYTES + 6 * RB_EXTENT + RB_BIG);
}

/* Nothing differs: not one frame of them is read. */
static void test_in_place_same(void **state)
{
    struct world *w = *state;
    struct restore_result before = restore_ok(w, false);
    struct restore_result r = restore_ok(w, true);

    expect_all(w);
    assert_true(before.fetched_bytes > 500 * KIB);
    assert_true(r.written_bytes < 1000);
    /* Index entries and page sums: 8 bytes a page, and what is a special file or rewritten. */
    assert_true(r.fetched_bytes < 64 * KIB);
}

/* One page differs: one block of an image, or the delta that has it. */
static void test_in_place_one_page(void **state)
{
    struct world *w = *state;

    (void)restore_ok(w, false);
    uint64_t idle = restore_ok(w, true).fetched_bytes;
    for (uint32_t page = 0; page < 32; page++) {
        overwrite(w, PAGES_FILE, 7 * (size_t)RB_EXTENT + page * RB_PAGE + 100, "damage", 6);
        struct restore_result r = restore_ok(w, true);
        assert_true(r.written_bytes >= RB_PAGE && r.written_bytes < RB_PAGE + 1000);
        assert_true(r.fetched_bytes <= idle + (2 << FRAME_IMAGE_BLOCK_LOG2));
    }
    expect_all(w);
}

static void test_in_place_stale(void **state)
{
    struct world *w = *state;
    uint64_t differ = 0;

    struct restore_result fresh = restore_ok(w, false);
    for (size_t at = 0; at < PAGES_BYTES; at += RB_PAGE)
        if (memcmp(first + at, last + at, MIN_OF(PAGES_BYTES - at, (size_t)RB_PAGE)) != 0)
            differ += MIN_OF(PAGES_BYTES - at, (size_t)RB_PAGE);
    overwrite(w, PAGES_FILE, 0, first, PAGES_BYTES);
    struct restore_result r = restore_ok(w, true);
    expect_all(w);
    assert_true(differ > 50 * RB_PAGE);
    assert_true(r.written_bytes >= differ && r.written_bytes < differ + 1000);
    assert_true(r.fetched_bytes < fresh.fetched_bytes / 2);
    assert_true(r.kept_bytes > PAGES_BYTES - differ);
}

/* Cut in the middle of a page, and an extent that is all wrong. */
static void test_in_place_cut(void **state)
{
    struct world *w = *state;
    AUTO_FREE char *path = xasprintf("%s/%s", w->target, PAGES_FILE);
    AUTO_FREE uint8_t *junk = xmalloc(RB_EXTENT);

    (void)restore_ok(w, false);
    memset(junk, 7, RB_EXTENT);
    overwrite(w, PAGES_FILE, 5 * (size_t)RB_EXTENT, junk, RB_EXTENT);
    overwrite(w, RANDOM_FILE, 9 * RB_PAGE, junk, 5);
    assert_int_equal(truncate(path, 20 * (off_t)RB_EXTENT + 3 * RB_PAGE + 99), 0);
    struct restore_result r = restore_ok(w, true);
    expect_all(w);
    assert_true(r.written_bytes < (1 + 4) * (uint64_t)RB_EXTENT + 2 * RB_PAGE);
}

/* Each pack, flips all over: found in place too where a page of the frame is needed. */
static void test_damaged_pack(void **state)
{
    struct world *w = *state;
    AUTO_FREE char *packs = xasprintf("%s/main/pack", w->repo.dir);
    DIR *d = opendir(packs);
    struct dirent *e;
    unsigned found = 0;

    (void)restore_ok(w, false);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        AUTO_FREE char *path = xasprintf("%s/%s", packs, e->d_name);
        struct ph_err err = {0};
        struct restore_result r = {0};
        struct stat st;
        uint8_t byte;

        if (e->d_name[0] == '.')
            continue;
        assert_int_equal(stat(path, &st), 0);
        for (unsigned i = 1; i < 8; i++) {
            uint64_t at = (uint64_t)st.st_size * i / 8;
            int fd = open(path, O_RDWR);
            assert_true(fd >= 0);
            rb_ok(pread_full(fd, &byte, 1, at, &err), &err);
            byte ^= 0x10;
            rb_ok(pwrite_full(fd, &byte, 1, at, &err), &err);
            overwrite(w, PAGES_FILE, 0, first, PAGES_BYTES);
            enum ph_rc rc = restore(w, true, &r, &err);
            if (rc == PH_OK) {
                expect_all(w); /* nothing of that place was needed */
                restore_result_release(&r);
            } else {
                assert_int_equal(rc, PH_CORRUPT);
                assert_non_null(strstr(err.text, e->d_name));
                found++;
            }
            byte ^= 0x10;
            rb_ok(pwrite_full(fd, &byte, 1, at, &err), &err);
            close(fd);
        }
    }
    closedir(d);
    assert_true(found > 5);
    (void)restore_ok(w, true);
    expect_all(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fresh, world_sparse_new, world_free),
        cmocka_unit_test_setup_teardown(test_in_place_same, world_new, world_free),
        cmocka_unit_test_setup_teardown(test_in_place_one_page, world_new, world_free),
        cmocka_unit_test_setup_teardown(test_in_place_stale, world_new, world_free),
        cmocka_unit_test_setup_teardown(test_in_place_cut, world_new, world_free),
        cmocka_unit_test_setup_teardown(test_damaged_pack, world_new, world_free),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
