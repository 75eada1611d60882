/* SPDX-License-Identifier: MIT */
/*
 * verify on repositories whose checksums are all right, and whose manifest means something else than the packs
 * hold: what a fault of the writer would leave. Flipped bits are tests/it/test_verify.py's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/verify/verify.h"
#include "repo_build.h"

#define FORGED "base/1/17000"

struct forgery {
    const char *name;
    void (*more)(struct repo_build *b);
    const char *says;
    bool fast_sees; /* without reading frames */
};

static char *folder_new(void)
{
    char here[4096];
    char *dir;

    assert_non_null(getcwd(here, sizeof here));
    dir = xasprintf("%s/verify-test-XXXXXX", here);
    assert_non_null(mkdtemp(dir));
    return dir;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void folder_remove(const char *dir)
{
    assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void file_of(struct repo_build *b, const struct extent_entry *e, size_t size)
{
    struct manifest_attrs a = rb_attrs(FORGED, MANIFEST_FILE, 0600, size);
    struct ph_err err = {0};

    rb_ok(manifest_writer_begin_file(b->writer, &a, &err), &err);
    rb_ok(manifest_writer_add_extents(b->writer, e, 1, NULL, 0, &err), &err);
    rb_ok(manifest_writer_end_file(b->writer, size, 0, &err), &err);
}

static struct extent_entry image_of(struct repo_build *b, const char *path, uint32_t number)
{
    return rb_image(b, path, number, b->chained, RB_EXTENT);
}

static void forge_nothing(struct repo_build *b)
{
    struct extent_entry e = image_of(b, FORGED, 0);

    file_of(b, &e, RB_EXTENT);
}

static void forge_sum(struct repo_build *b)
{
    struct extent_entry e = image_of(b, FORGED, 0);

    e.xxh3 ^= 1;
    file_of(b, &e, RB_EXTENT);
}

static void forge_offset(struct repo_build *b)
{
    struct extent_entry e = image_of(b, FORGED, 0);

    e.frame_offset += 48;
    file_of(b, &e, RB_EXTENT);
}

static void forge_length(struct repo_build *b)
{
    struct extent_entry e = image_of(b, FORGED, 0);

    e.block_len_minus1[1] ^= 1;
    file_of(b, &e, RB_EXTENT);
}

static void forge_owner(struct repo_build *b)
{
    struct extent_entry e = image_of(b, "base/1/16999", 0);

    file_of(b, &e, RB_EXTENT);
}

static void forge_extent(struct repo_build *b)
{
    struct extent_entry e = image_of(b, FORGED, 1);

    file_of(b, &e, RB_EXTENT);
}

static void forge_zeros(struct repo_build *b)
{
    struct extent_entry e = {.xxh3 = 1};

    file_of(b, &e, RB_EXTENT);
}

static void forge_size(struct repo_build *b)
{
    struct extent_entry e = image_of(b, FORGED, 0);

    file_of(b, &e, RB_EXTENT - 3 * RB_PAGE);
}

/* Pages 0 and 31 exchanged for 1 and 31: as many, so the raw bytes fit. */
static void forge_pages(struct repo_build *b)
{
    AUTO_FREE uint8_t *extent = xcalloc(1, RB_EXTENT);

    rb_fill(extent, RB_PAGE, 5);
    rb_fill(extent + 31 * (size_t)RB_PAGE, RB_PAGE, 6);
    struct extent_entry e = rb_image(b, FORGED, 0, extent, RB_EXTENT);
    e.pages = (UINT32_C(1) << 31) | 2;
    file_of(b, &e, RB_EXTENT);
}

/* An extent with one delta, whose chained sum is that of the image alone, or whose frame is no delta. */
static void chain_of(struct repo_build *b, enum frame_kind kind, bool right_sum)
{
    struct manifest_attrs a = rb_attrs(FORGED, MANIFEST_FILE, 0600, RB_EXTENT);
    struct extent_entry e = image_of(b, FORGED, 0);
    struct frame_spec spec = {.kind = kind,
                              .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
                              .owner = xxh3_64(FORGED, strlen(FORGED)),
                              .pages = 6};
    struct frame_head head;
    struct ph_err err = {0};
    struct packer_place place = rb_frame(b, spec, b->chained, RB_EXTENT, &head);
    struct delta_entry d = {.pack = place.pack,
                            .frame_offset = place.offset,
                            .frame_len = (uint32_t)frame_bytes(&head),
                            .pages = 6};

    e.deltas = 1;
    if (right_sum)
        e.xxh3 = extent_sum_delta(e.xxh3, d.pages, head.raw_xxh3);
    rb_ok(manifest_writer_begin_file(b->writer, &a, &err), &err);
    rb_ok(manifest_writer_add_extents(b->writer, &e, 1, &d, 1, &err), &err);
    rb_ok(manifest_writer_end_file_no_crc(b->writer, RB_EXTENT, &err), &err);
}

static void forge_chain(struct repo_build *b)
{
    chain_of(b, FRAME_DELTA, false);
}

static void forge_delta_kind(struct repo_build *b)
{
    chain_of(b, FRAME_IMAGE, true);
}

/* A small file that its bundle does not hold. */
static void bundle_of(struct repo_build *b, uint32_t raw_offset, uint64_t flip)
{
    static const char text[] = "forty-two bytes of a small file in a bundle";
    AUTO_FREE uint8_t *out = xmalloc(256 * KIB);
    struct frame_spec spec = {.kind = FRAME_BUNDLE,
                              .block_log2 = FRAME_BUNDLE_BLOCK_LOG2,
                              .raw = text,
                              .raw_len = sizeof text};
    struct manifest_attrs a = rb_attrs(FORGED, MANIFEST_FILE, 0600, 10);
    struct packer_place place;
    struct frame_head head;
    struct ph_err err = {0};
    uint32_t at = 0;

    rb_ok(frame_encode(&spec, b->codec, out, 256 * KIB, &head, &err), &err);
    rb_ok(packer_add(b->packer, out, frame_bytes(&head), NULL, 0, &place, &err), &err);
    while (b->packs_named <= place.pack)
        rb_ok(manifest_writer_pack_begin(b->writer, packer_run(b->packer), ++b->packs_named, &at,
                                         &err),
              &err);
    const struct manifest_bundle bundle = {.pack = place.pack,
                                           .frame_offset = place.offset,
                                           .frame_len = (uint32_t)frame_bytes(&head),
                                           .raw_offset = raw_offset,
                                           .xxh3 = xxh3_64(text, 10) ^ flip};
    rb_ok(manifest_writer_bundle_file(b->writer, &a, &bundle, &err), &err);
}

static void forge_bundle_sum(struct repo_build *b)
{
    bundle_of(b, 0, 1);
}

static void forge_bundle_place(struct repo_build *b)
{
    bundle_of(b, 40, 0);
}

static void run(const struct repo_build *b, bool fast, unsigned workers, struct verify_result *ret)
{
    const struct verify_opts opts = {.store = b->store,
                                     .cluster = RB_CLUSTER,
                                     .fast = fast,
                                     .memory_bytes = 32 * MIB,
                                     .workers = workers};
    struct ph_err err = {0};

    rb_ok(verify_run(&opts, ret, &err), &err);
}

static void what_is_whole_is_sound(void **state)
{
    static const enum codec_method methods[] = {CODEC_NONE, CODEC_LZ4, CODEC_ZSTD};

    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        AUTO_FREE char *dir = folder_new();
        struct repo_build b = rb_new_with(dir, "/ts", methods[i], forge_nothing);

        for (unsigned fast = 0; fast < 2; fast++) {
            struct verify_result r = {0};

            run(&b, fast != 0, 1 + (unsigned)i * 2, &r);
            if (r.finding_count > 0)
                print_message("%s: %s\n", r.findings[0].object, r.findings[0].text);
            assert_int_equal(r.findings_total, 0);
            assert_int_equal(r.backup_count, 1);
            assert_true(r.backups[0].sound && r.packs >= 1 && r.references > RB_SMALL);
            assert_true((r.frames > 8) == (fast == 0));
            verify_result_release(&r);
        }
        rb_free(&b);
        folder_remove(dir);
    }
}

static const struct forgery forgeries[] = {
    {"sum", forge_sum, "another sum", false},
    {"offset", forge_offset, "no frame begins there", true},
    {"length", forge_length, "another length", true},
    {"owner", forge_owner, "another file or extent", true},
    {"extent", forge_extent, "another file or extent", true},
    {"zeros", forge_zeros, "an extent of zeros has another sum", true},
    {"size", forge_size, "behind the end of the file", true},
    {"pages", forge_pages, "other pages", false},
    {"chain", forge_chain, "another sum", false},
    {"delta kind", forge_delta_kind, "another kind", true},
    {"bundle sum", forge_bundle_sum, "does not hold the file", false},
    {"bundle place", forge_bundle_place, "does not hold the file", false},
};

static void judge(const struct forgery *f, const struct repo_build *b, bool fast)
{
    struct verify_result r = {0};

    run(b, fast, 2, &r);
    if (fast && !f->fast_sees) {
        assert_int_equal(r.findings_total, 0);
    } else {
        if (r.finding_count != 1 || strstr(r.findings[0].text, f->says) == NULL)
            fail_msg("%s: %zu findings, the first says: %s", f->name, r.finding_count,
                     r.finding_count > 0 ? r.findings[0].text : "");
        assert_int_equal(r.findings[0].kind, VERIFY_MISMATCH);
        assert_int_equal(r.findings[0].files_total, 1);
        assert_string_equal(r.findings[0].files[0], FORGED);
        assert_string_equal(r.findings[0].backups[0], RB_LABEL);
        assert_true(!r.backups[0].sound && r.backups[0].files_lost == 1);
    }
    verify_result_release(&r);
}

static void each_forgery_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        AUTO_FREE char *dir = folder_new();
        struct repo_build b = rb_new_with(dir, "/ts", CODEC_LZ4, forgeries[i].more);

        judge(&forgeries[i], &b, false);
        judge(&forgeries[i], &b, true);
        rb_free(&b);
        folder_remove(dir);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_whole_is_sound),
        cmocka_unit_test(each_forgery_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
