/* SPDX-License-Identifier: MIT */
/*
 * The backup pipeline on a folder of files: what goes in comes out of the repository again, with both
 * ring engines, many workers and small memory; damaged pages are found and named. Runs under TSan.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/mem.h"
#include "codec/checksum.h"
#include "engine/backup/pipeline.h"
#include "format/frame.h"
#include "format/pg_page.h"
#include "io/fdio.h"
#include "repo/manifest_reader.h"
#include "repo/repo_keys.h"
#include "store/store.h"

#define PAGE      8192
#define STAMP     "20261130T201500Z"
#define LABEL     STAMP "_F"
#define SLAB      (512 * KIB)
#define MEMORY    (8 * MIB)
#define SYSTEM_ID 4711

struct spec {
    const char *path;
    size_t size_bytes;
    bool pages;   /* valid relation pages */
    bool zeros;   /* every third page zero */
    bool damaged; /* page 2 has a wrong checksum */
};

/* In path order, as the scan would give them. */
static const struct spec specs[] = {
    {"a_empty", 0, false, false, false},
    {"a_one", 1, false, false, false},
    {"b_8k", PAGE, true, false, false},
    {"b_8k_more", PAGE, false, false, false},
    {"c_64k", 64 * KIB, false, false, false},
    {"c_64k_and_one", 64 * KIB + 1, false, false, false},
    {"d_relation", 3 * MIB + 5 * PAGE, true, true, false},
    {"e_all_zero", 600 * KIB, false, true, false},
    {"f_damaged", 300 * KIB + 4 * KIB, true, false, true},
    {"g_odd", 2 * MIB + 100, false, false, false},
    {"h_small_damaged", 4 * PAGE, true, false, true},
};
#define SPEC_COUNT (sizeof specs / sizeof *specs)

struct fixture {
    char dir[64];
    struct store *store;
    uint8_t *content[SPEC_COUNT];
};

/* Bytes that are different in each page and compress somewhat. */
static uint8_t *make_content(const struct spec *s, size_t which)
{
    uint8_t *c = xcalloc(1, s->size_bytes + PAGE);

    for (size_t page = 0; page * PAGE < s->size_bytes; page++) {
        uint8_t *at = c + page * PAGE;

        if (s->zeros && (page % 3 == 1 || strcmp(s->path, "e_all_zero") == 0))
            continue;
        for (size_t i = PG_PAGE_HEADER_BYTES; i < PAGE; i++)
            at[i] = (uint8_t)(i % 7 == 0 ? (i * 31 + page * 17 + which) : page);
        at[8] = (uint8_t)(page + 1); /* something in the LSN word's neighbour, so no page is zero */
        at[4] = 1;
        at[12] = 24; /* pd_lower 24, pd_upper 8192, pd_special 8192, size and version */
        at[14] = 0;
        at[15] = 0x20;
        at[16] = 0;
        at[17] = 0x20;
        at[18] = 4;
        at[19] = 0x20;
        if (s->pages) {
            uint16_t sum;

            at[8] = at[9] = at[10] = at[11] = 0;
            sum = pg_page_checksum(at, PAGE, (ph_blkno)page);
            at[8] = (uint8_t)sum;
            at[9] = (uint8_t)(sum >> 8);
        }
        if (s->damaged && page == 2)
            at[100] ^= 1;
    }
    memset(c + s->size_bytes, 0, PAGE);
    return c;
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct store_opts opts = {.create = true};
    struct ph_err err;
    AUTO_FREE char *top = NULL;
    AUTO_FREE char *url = NULL;

    (void)snprintf(f->dir, sizeof f->dir, "pipeline-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        AUTO_FREE char *path = xasprintf("%s/%s", f->dir, specs[i].path);
        FILE *out = fopen(path, "wb");

        f->content[i] = make_content(&specs[i], i);
        assert_non_null(out);
        assert_int_equal(fwrite(f->content[i], 1, specs[i].size_bytes, out), specs[i].size_bytes);
        assert_int_equal(fclose(out), 0);
    }
    top = realpath(f->dir, NULL);
    assert_non_null(top);
    url = xasprintf("%s/repo", top);
    opts.url = url;
    assert_int_equal(store_open(&opts, &f->store, &err), PH_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *command = xasprintf("rm -rf '%s'", f->dir);
    FILE *rm;

    store_close(f->store);
    for (size_t i = 0; i < SPEC_COUNT; i++)
        free(f->content[i]);
    rm = popen(command, "r");
    assert_non_null(rm);
    assert_int_equal(pclose(rm), 0);
    free(f);
    return 0;
}

static enum ph_rc feed_all(void *ctx, struct pipeline *p, struct read_stage *st, struct ph_err *err)
{
    const struct fixture *f = ctx;

    for (size_t i = 0; i < SPEC_COUNT; i++) {
        struct source *s = source_new(pipeline_batches(p));

        s->path = xstrdup(specs[i].path);
        s->type = SOURCE_FILE;
        s->dirfd = AT_FDCWD;
        s->fs_path = xasprintf("%s/%s", f->dir, specs[i].path);
        s->pages = specs[i].pages;
        if (read_stage_feed(st, s, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

struct outcome {
    uint64_t findings;
    char found[4][32];
    uint64_t blocks[4];
    struct manifest_summary summary;
};

static void back_up(struct fixture *f, enum ring_kind ring, enum codec_method method,
                    struct outcome *ret)
{
    struct page_check *pages = page_check_new(true, PAGE, UINT64_MAX);
    struct packer_opts packer_opts = {.store = f->store,
                                      .cluster = "main",
                                      .stamp = STAMP,
                                      .label = LABEL,
                                      .system_id = SYSTEM_ID,
                                      .pack_size_bytes = MIB};
    struct manifest_writer_params params = {.cluster = "main",
                                            .label = LABEL,
                                            .page_size = PAGE,
                                            .system_identifier = SYSTEM_ID,
                                            .method = CODEC_ZSTD,
                                            .level = 1};
    struct pipeline_opts opts = {
        .slab_bytes = SLAB,
        .memory_bytes = MEMORY,
        .workers = 3,
        .encoder = {.method = method, .level = 1, .page_bytes = PAGE, .pages = pages},
        .reader = {.mode = DIRECT_AUTO, .ring = ring, .depth = 4},
    };
    const struct pipeline_work work = {.feed = feed_all, .ctx = f};
    const struct packer_pack *packs;
    struct packer *packer;
    struct manifest_writer *writer;
    struct pipeline *pipeline;
    struct ph_err err;
    size_t count;

    assert_int_equal(packer_new(&packer_opts, &packer, &err), PH_OK);
    assert_int_equal(manifest_writer_open(f->store, &params, &writer, &err), PH_OK);
    opts.packer = packer;
    opts.writer = writer;
    assert_int_equal(pipeline_start(&opts, &pipeline, &err), PH_OK);
    if (pipeline_run(pipeline, &work, &err) != PH_OK)
        fail_msg("%s", err.text);
    pipeline_free(pipeline);
    assert_int_equal(packer_finish(packer, &err), PH_OK);
    packs = packer_packs(packer, &count);
    for (size_t i = 0; i < count; i++)
        manifest_writer_pack_seal(writer, (uint32_t)i, packs[i].size_bytes, packs[i].sha256);
    assert_int_equal(manifest_writer_finish(writer, &ret->summary, &err), PH_OK);
    ret->findings = pages->count;
    for (size_t i = 0; i < pages->kept && i < 4; i++) {
        (void)snprintf(ret->found[i], sizeof ret->found[i], "%s", pages->findings[i].path);
        ret->blocks[i] = pages->findings[i].block;
    }
    packer_free(packer);
    page_check_free(pages);
}

/* Fetch and decode one frame; the caller frees. */
static uint8_t *fetch(struct fixture *f, struct manifest_reader *r, uint32_t pack, uint32_t offset,
                      struct frame_head *ret_head)
{
    struct manifest_pack p = manifest_reader_pack(r, pack);
    struct repo_key key = repo_key_pack("main", manifest_reader_pack_run(r, pack), p.sequence);
    struct codec_ctx *codec = codec_ctx_new(CODEC_NONE, 0);
    uint8_t head_raw[FRAME_HEADER_BYTES];
    struct store_object *o;
    struct ph_err err;
    uint8_t *out;

    assert_int_equal(store_object_open(f->store, key.text, &o, &err), PH_OK);
    assert_int_equal(store_object_size(o), p.size_bytes);
    assert_int_equal(store_object_read(o, offset, head_raw, sizeof head_raw, &err), PH_OK);
    assert_int_equal(frame_peek(head_raw, ret_head, &err), PH_OK);
    {
        AUTO_FREE uint8_t *frame = xmalloc(frame_bytes(ret_head));

        assert_int_equal(store_object_read(o, offset, frame, frame_bytes(ret_head), &err), PH_OK);
        assert_int_equal(frame_head_decode(frame, frame_bytes(ret_head), ret_head, &err), PH_OK);
        out = xmalloc(ret_head->raw_len);
        assert_int_equal(frame_decode(frame, ret_head, codec, out, &err), PH_OK);
    }
    store_object_close(o);
    codec_ctx_free(codec);
    return out;
}

/* The file's content out of the repository; the caller frees. */
static uint8_t *rebuild(struct fixture *f, struct manifest_reader *r,
                        const struct manifest_record *rec)
{
    uint8_t *out = xcalloc(1, rec->attrs.size_bytes + 1);
    const size_t extent_bytes = 32 * (size_t)PAGE;
    struct frame_head head;

    if (rec->storage == MANIFEST_BUNDLE) {
        AUTO_FREE uint8_t *raw = fetch(f, r, rec->bundle.pack, rec->bundle.frame_offset, &head);

        memcpy(out, raw + rec->bundle.raw_offset, rec->attrs.size_bytes);
    }
    for (uint32_t i = 0; rec->storage == MANIFEST_EXTENTS && i < rec->extent_count; i++) {
        struct extent_entry e = extent_entry_get(rec->extents, i);
        AUTO_FREE uint8_t *raw = NULL;
        size_t at = 0;

        if (e.pages == 0)
            continue;
        raw = fetch(f, r, e.pack, e.frame_offset, &head);
        for (size_t page = 0; page < 32; page++) {
            size_t len = MIN_OF((size_t)PAGE, head.raw_len - at);

            if ((e.pages >> page & 1) == 0)
                continue;
            memcpy(out + i * extent_bytes + page * PAGE, raw + at, len);
            at += len;
        }
    }
    return out;
}

static void check_all(struct fixture *f)
{
    struct manifest_reader_params params = {.cluster = "main", .label = LABEL};
    struct manifest_reader *r;
    struct manifest_record rec;
    struct ph_err err;
    bool more;
    size_t i = 0;

    assert_int_equal(manifest_reader_open(f->store, &params, &r, &err), PH_OK);
    for (;; i++) {
        AUTO_FREE uint8_t *got = NULL;

        assert_int_equal(manifest_reader_next(r, &rec, &more, &err), PH_OK);
        if (!more)
            break;
        assert_true(i < SPEC_COUNT);
        assert_int_equal(rec.attrs.path_len, strlen(specs[i].path));
        assert_memory_equal(rec.attrs.path, specs[i].path, rec.attrs.path_len);
        assert_int_equal(rec.attrs.size_bytes, specs[i].size_bytes);
        got = rebuild(f, r, &rec);
        assert_memory_equal(got, f->content[i], specs[i].size_bytes);
        assert_int_equal(rec.attrs.crc32c, crc32c(0, f->content[i], specs[i].size_bytes));
    }
    assert_int_equal(i, SPEC_COUNT);
    manifest_reader_close(r);
}

static void round_trip(struct fixture *f, enum ring_kind ring, enum codec_method method)
{
    struct outcome o = {0};

    back_up(f, ring, method, &o);
    assert_int_equal(o.summary.files, SPEC_COUNT);
    assert_int_equal(o.findings, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(o.blocks[i], 2);
        assert_true(strcmp(o.found[i], "f_damaged") == 0 ||
                    strcmp(o.found[i], "h_small_damaged") == 0);
    }
    assert_string_not_equal(o.found[0], o.found[1]);
    check_all(f);
}

static void test_with_threads_and_lz4(void **state)
{
    round_trip(*state, RING_THREADS, CODEC_LZ4);
}

static void test_with_best_ring_and_zstd(void **state)
{
    round_trip(*state, RING_AUTO, CODEC_ZSTD);
}

static void test_without_compression(void **state)
{
    round_trip(*state, RING_AUTO, CODEC_NONE);
}

static enum ph_rc feed_missing_late(void *ctx, struct pipeline *p, struct read_stage *st,
                                    struct ph_err *err)
{
    struct source *s = source_new(pipeline_batches(p));

    (void)ctx;
    s->path = xstrdup("gone");
    s->type = SOURCE_FILE;
    s->late = true;
    s->dirfd = AT_FDCWD;
    s->fs_path = xstrdup("no-such-file");
    return read_stage_feed(st, s, err);
}

/* An error of the feed ends the run with that error, and everything can be freed. */
static void test_error_of_a_feed(void **state)
{
    struct fixture *f = *state;
    struct page_check *pages = page_check_new(false, PAGE, 0);
    struct packer_opts packer_opts = {.store = f->store,
                                      .cluster = "main",
                                      .stamp = STAMP,
                                      .label = LABEL,
                                      .system_id = SYSTEM_ID,
                                      .pack_size_bytes = MIB};
    struct manifest_writer_params params = {
        .cluster = "main", .label = LABEL, .page_size = PAGE, .system_identifier = SYSTEM_ID};
    struct pipeline_opts opts = {
        .slab_bytes = SLAB,
        .memory_bytes = MEMORY,
        .workers = 2,
        .encoder = {.method = CODEC_LZ4, .level = 1, .page_bytes = PAGE, .pages = pages},
        .reader = {.mode = DIRECT_AUTO, .ring = RING_THREADS, .depth = 2},
    };
    const struct pipeline_work work = {.feed = feed_missing_late, .ctx = f};
    struct pipeline *pipeline;
    struct ph_err err;

    assert_int_equal(packer_new(&packer_opts, &opts.packer, &err), PH_OK);
    assert_int_equal(manifest_writer_open(f->store, &params, &opts.writer, &err), PH_OK);
    assert_int_equal(pipeline_start(&opts, &pipeline, &err), PH_OK);
    assert_int_equal(pipeline_run(pipeline, &work, &err), PH_NOT_FOUND);
    assert_non_null(strstr(err.text, "\"gone\""));
    pipeline_free(pipeline);
    manifest_writer_abort(opts.writer);
    packer_free(opts.packer);
    page_check_free(pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_with_threads_and_lz4, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_with_best_ring_and_zstd, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_compression, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_error_of_a_feed, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
