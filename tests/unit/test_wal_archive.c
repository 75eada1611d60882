/* SPDX-License-Identifier: MIT */
/*
 * The WAL archive: identity by content, damage noticed bit by bit, listings with gaps, lineages, waiting.
 */
#include "repo/wal_archive.h"

#include "io_scratch.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "codec/checksum.h"
#include "format/block_summary_codec.h"
#include "format/wal_check.h"
#include "repo/catalogue.h"
#include "repo/repo_keys.h"
#include "repo/wal_listing.h"
#include "repo/wal_put.h"
#include "wal_build.h"

#define SEG_BYTES WAL_SEG_BYTES_MIN
#define SYSTEM_ID UINT64_C(7714093090374743646)

struct fixture {
    char *dir;
    struct store *store;
    struct cluster_info cluster;
    struct wal_archive archive;
};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    AUTO_FREE char *relative = scratch_new(".");
    struct store_opts opts = {.create = true};
    struct ph_err err;

    f->dir = realpath(relative, NULL);
    opts.url = f->dir;
    assert_int_equal(store_open(&opts, &f->store, &err), PH_OK);
    (void)snprintf(f->cluster.name, sizeof f->cluster.name, "main");
    f->cluster.system_count = 1;
    f->cluster.systems[0] = (struct cluster_system){
        .system_identifier = SYSTEM_ID,
        .pg_major = 15,
        .wal_segment_size = SEG_BYTES,
        .page_size = 8192,
    };
    wal_archive_init(&f->archive, f->store, &f->cluster, 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    store_close(f->store);
    scratch_remove(f->dir);
    free(f->dir);
    free(f);
    return 0;
}

struct content {
    const uint8_t *bytes;
    size_t len_bytes;
    enum codec_method compress;
    bool parallel;
};

static enum ph_rc put(struct fixture *f, const char *name, const struct content *c, bool *ret_there,
                      struct ph_err *err)
{
    struct wal_put_opts opts = {
        .name = name,
        .bytes = c->bytes,
        .len_bytes = c->len_bytes,
        .compress = c->compress,
        .compress_level = 1,
        .parallel = c->parallel,
        .ready_bytes = c->parallel ? 0 : c->len_bytes,
    };
    struct wal_put_result result = {0};
    struct wal_put *p;

    if (wal_put_begin(&f->archive, &opts, &p, err) != PH_OK)
        return err->rc;
    for (size_t at = 0; c->parallel && at < c->len_bytes; at += 100000)
        wal_put_ready(p, MIN_OF(at + 100000, c->len_bytes));
    if (wal_put_commit(p, NULL, &result, err) != PH_OK)
        return err->rc;
    if (ret_there != NULL)
        *ret_there = result.was_there;
    return PH_OK;
}

static enum ph_rc take(void *ctx, const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    (void)err;
    buf_add(ctx, bytes, len_bytes);
    return PH_OK;
}

static enum ph_rc get(struct fixture *f, const char *name, const struct content *want,
                      struct ph_err *err)
{
    struct buf got;
    enum ph_rc rc;

    buf_init(&got, want->len_bytes + 1);
    rc = wal_archive_get(&f->archive, name, take, &got, NULL, err);
    if (rc == PH_OK) {
        assert_int_equal(got.len_bytes, want->len_bytes);
        assert_memory_equal(got.data, want->bytes, want->len_bytes);
    }
    buf_release(&got);
    return rc;
}

/* A file of a segment's size that compresses a little; seed makes it another one. */
static uint8_t *make_bytes(size_t len_bytes, uint8_t seed)
{
    uint8_t *bytes = xmalloc(len_bytes);

    for (size_t i = 0; i < len_bytes; i++)
        bytes[i] = (uint8_t)((i % 8192 < 4096 ? pattern_at(i * 77) : 0) ^ seed);
    return bytes;
}

static const char *segment(uint64_t segno)
{
    static char text[WAL_NAME_TEXT_BYTES];

    return wal_segment_name(1, segno, SEG_BYTES, text, sizeof text);
}

static void round_trip_of_every_method(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *bytes = make_bytes(SEG_BYTES, 1);

    for (unsigned i = 0; i < 6; i++) {
        struct content c = {bytes, SEG_BYTES, (enum codec_method)(i % 3), i >= 3};
        struct wal_object head;
        struct ph_err err;
        bool there = true;

        assert_int_equal(put(f, segment(i), &c, &there, &err), PH_OK);
        assert_false(there);
        assert_int_equal(get(f, segment(i), &c, &err), PH_OK);
        assert_int_equal(wal_archive_head(&f->archive, segment(i), &head, &err), PH_OK);
        assert_int_equal(head.kind, WAL_OBJECT_SEGMENT);
        assert_int_equal(head.start_lsn, (uint64_t)i * SEG_BYTES);
        assert_int_equal(head.system_identifier, SYSTEM_ID);
    }
}

static void large_file_by_both_ways(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *bytes = make_bytes(16 * SEG_BYTES, 3);

    f->archive.id.wal_segment_size = 16 * SEG_BYTES;
    for (int parallel = 0; parallel < 2; parallel++) {
        struct content c = {bytes, 16 * SEG_BYTES, CODEC_LZ4, parallel == 1};
        char name[WAL_NAME_TEXT_BYTES];
        struct ph_err err;

        (void)wal_segment_name(1, (uint64_t)parallel, 16 * SEG_BYTES, name, sizeof name);
        assert_int_equal(put(f, name, &c, NULL, &err), PH_OK);
        assert_int_equal(get(f, name, &c, &err), PH_OK);
    }
}

/* The reader fails in the middle: no thread waits for ever, nothing is stored. */
static void abort_while_bytes_are_missing(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *bytes = make_bytes(16 * SEG_BYTES, 3);
    struct wal_put_opts opts = {
        .name = segment(5),
        .bytes = bytes,
        .len_bytes = 16 * SEG_BYTES,
        .parallel = true,
    };
    struct wal_object head;
    struct wal_put *p;
    struct ph_err err;

    assert_int_equal(wal_put_begin(&f->archive, &opts, &p, &err), PH_OK);
    wal_put_ready(p, SEG_BYTES);
    wal_put_abort(p);
    wal_put_abort(NULL);
    assert_int_equal(wal_archive_head(&f->archive, segment(5), &head, &err), PH_NOT_FOUND);
}

static void same_content_again_writes_nothing(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *bytes = make_bytes(SEG_BYTES, 1);
    struct content c = {bytes, SEG_BYTES, CODEC_LZ4, false};
    struct repo_key key = repo_key_wal_file("main", 15, 1, segment(5));
    uint64_t before = 0;
    uint64_t after = 0;
    struct ph_err err;
    bool there = false;

    assert_int_equal(put(f, segment(5), &c, NULL, &err), PH_OK);
    assert_int_equal(store_stat(f->store, key.text, &before, &err), PH_OK);
    c.compress = CODEC_ZSTD;
    assert_int_equal(put(f, segment(5), &c, &there, &err), PH_OK);
    assert_true(there);
    assert_int_equal(store_stat(f->store, key.text, &after, &err), PH_OK);
    assert_int_equal(before, after);
}

static void other_content_is_refused(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *mine = make_bytes(SEG_BYTES, 1);
    AUTO_FREE uint8_t *theirs = make_bytes(SEG_BYTES, 2);
    struct content a = {mine, SEG_BYTES, CODEC_LZ4, false};
    struct content b = {theirs, SEG_BYTES, CODEC_LZ4, false};
    struct ph_err err;

    assert_int_equal(put(f, segment(5), &a, NULL, &err), PH_OK);
    assert_int_equal(put(f, segment(5), &b, NULL, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, segment(5)));
    assert_non_null(strstr(err.text, "stored 1048576 bytes, SHA-256"));
    assert_true(err.hint[0] != '\0');
    assert_int_equal(get(f, segment(5), &a, &err), PH_OK);
}

/* A summary that says one thing, as wal_put wants it. */
static void encode_summary(struct buf *out)
{
    struct wal_build w = wb_new(15, 1);
    struct wal_check_opts opts = {0};
    struct block_summary s;
    struct ph_err err;

    buf_init(out, MIB);
    (void)wb_add_block(&w, 99, 1);
    assert_int_equal(wal_segment_check(w.bytes, SEG_BYTES, &opts, NULL, &s, &err), PH_OK);
    assert_int_equal(block_summary_encode(&s, out, &err), PH_OK);
    block_summary_release(&s);
    wb_free(&w);
}

/* The one that is refused takes its own summary away again. */
static void summary_of_the_refused_goes(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *mine = make_bytes(SEG_BYTES, 1);
    AUTO_FREE uint8_t *theirs = make_bytes(SEG_BYTES, 2);
    struct content a = {mine, SEG_BYTES, CODEC_NONE, false};
    AUTO_FREE char *name = xasprintf("%s.blocks", segment(5));
    struct repo_key key = repo_key_wal_file("main", 15, 1, name);
    struct wal_put_opts opts = {
        .name = segment(5), .bytes = theirs, .len_bytes = SEG_BYTES, .ready_bytes = SEG_BYTES};
    struct wal_put_result result;
    struct wal_put *p;
    struct ph_err err;
    struct buf blocks;
    uint64_t size;

    encode_summary(&blocks);
    assert_int_equal(wal_put_begin(&f->archive, &opts, &p, &err), PH_OK);
    assert_int_equal(put(f, segment(5), &a, NULL, &err), PH_OK); /* between begin and commit */
    assert_int_equal(wal_put_commit(p, &blocks, &result, &err), PH_REFUSED);
    assert_int_equal(store_stat(f->store, key.text, &size, &err), PH_NOT_FOUND);
    buf_release(&blocks);
}

static struct wal_put *prepared(struct fixture *f, uint64_t segno, const uint8_t *bytes,
                                bool with_blocks)
{
    struct wal_put_opts opts = {.name = segment(segno), .bytes = bytes, .len_bytes = SEG_BYTES};
    struct wal_put *p;
    struct ph_err err;
    struct buf blocks;

    encode_summary(&blocks);
    assert_int_equal(wal_put_begin(&f->archive, &opts, &p, &err), PH_OK);
    wal_put_ready(p, SEG_BYTES / 3);
    wal_put_ready(p, SEG_BYTES);
    assert_int_equal(wal_put_prepare(p, with_blocks ? &blocks : NULL, &err), PH_OK);
    buf_release(&blocks);
    return p;
}

/* Prepared is not there; published together, each is judged for itself. */
static void several_are_published_together(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *mine = make_bytes(SEG_BYTES, 1);
    AUTO_FREE uint8_t *theirs = make_bytes(SEG_BYTES, 2);
    struct content a = {mine, SEG_BYTES, CODEC_NONE, false};
    struct content b = {theirs, SEG_BYTES, CODEC_NONE, false};
    struct wal_publish items[4] = {{0}};
    struct wal_object head;
    struct ph_err err;

    for (unsigned i = 0; i < 4; i++)
        items[i].put = prepared(f, i, mine, i != 3);
    assert_int_equal(wal_archive_head(&f->archive, segment(0), &head, &err), PH_NOT_FOUND);
    assert_int_equal(put(f, segment(1), &b, NULL, &err), PH_OK); /* other bytes were faster */
    assert_int_equal(put(f, segment(2), &a, NULL, &err), PH_OK); /* the same bytes were faster */
    wal_put_publish(items, 4);
    assert_int_equal(items[0].rc, PH_OK);
    assert_false(items[0].result.was_there);
    assert_int_equal(items[1].rc, PH_REFUSED);
    assert_non_null(strstr(items[1].err.text, segment(1)));
    assert_int_equal(items[2].rc, PH_OK);
    assert_true(items[2].result.was_there);
    assert_int_equal(items[3].rc, PH_OK);
    assert_int_equal(get(f, segment(0), &a, &err), PH_OK);
    assert_int_equal(get(f, segment(1), &b, &err), PH_OK);
    assert_int_equal(get(f, segment(3), &a, &err), PH_OK);
}

static void prepared_and_aborted_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *mine = make_bytes(SEG_BYTES, 1);
    struct repo_key key = repo_key_wal_prefix("main", 15, 1, segment(0));
    AUTO_FREE char *dir = xasprintf("%s/%s", f->dir, key.text);
    struct dirent *e;
    DIR *d;

    wal_put_abort(prepared(f, 0, mine, true));
    d = opendir(dir);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL)
        assert_true(strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    (void)closedir(d);
}

/*
 * What a machine that stops may leave of a summary that nobody waited for, and what a pusher of other
 * bytes may: empty, cut, zeros, another segment's.
 */
static void summary_that_was_lost_is_noticed(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *name = xasprintf("%s.blocks", segment(WB_SEGNO));
    struct repo_key key = repo_key_wal_file("main", 15, 1, name);
    struct wal_build w = wb_new(15, 1);
    struct content c = {w.bytes, SEG_BYTES, CODEC_NONE, false};
    static const uint8_t zeros[4096];
    struct block_summary s;
    struct ph_err err;
    struct buf other;

    (void)wb_add_block(&w, 16384, 7);
    (void)wb_add_block(&w, 16384, 9);
    f->archive.id.system_identifier = WB_SYSID;
    assert_int_equal(put(f, segment(WB_SEGNO), &c, NULL, &err), PH_OK);
    encode_summary(&other); /* sound, of this place and system, but of other bytes */
    for (int i = 0; i < 6; i++) {
        size_t len = i == 0 ? 0 : i == 1 ? other.len_bytes / 2 : other.len_bytes;
        uint8_t sha256[32] = {0};
        const uint8_t *bytes = i == 2 ? zeros : other.data;

        if (i == 4)
            memset(sha256, 7, sizeof sha256);
        if (i == 5) /* of the right bytes: what it says is believed */
            sha256_of(w.bytes, SEG_BYTES, sha256);
        if (i >= 3)
            block_summary_seal(other.data, other.len_bytes, sha256);
        assert_int_equal(store_put(f->store, key.text, bytes, len, false, &err), PH_OK);
        assert_int_equal(wal_archive_summary(&f->archive, 1, WB_SEGNO, &s, &err), PH_OK);
        assert_int_equal(s.record_count, i == 5 ? 1 : 2);
        block_summary_release(&s);
    }
    buf_release(&other);
    wb_free(&w);
}

/* Damaged or absent: the segment tells the same. */
static void summary_is_made_anew(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *name = xasprintf("%s.blocks", segment(WB_SEGNO));
    struct repo_key key = repo_key_wal_file("main", 15, 1, name);
    struct wal_build w = wb_new(15, 1);
    struct content c = {w.bytes, SEG_BYTES, CODEC_NONE, false};
    struct block_summary s;
    struct ph_err err;

    (void)wb_add_block(&w, 16384, 7);
    f->archive.id.system_identifier = WB_SYSID;
    assert_int_equal(put(f, segment(WB_SEGNO), &c, NULL, &err), PH_OK);
    for (int damaged = 0; damaged < 2; damaged++) {
        if (damaged)
            assert_int_equal(store_put(f->store, key.text, "no summary", 10, false, &err), PH_OK);
        assert_int_equal(wal_archive_summary(&f->archive, 1, WB_SEGNO, &s, &err), PH_OK);
        assert_int_equal(s.record_count, 1);
        assert_int_equal(s.rels_count, 1);
        block_summary_release(&s);
    }
    assert_int_equal(wal_archive_summary(&f->archive, 1, WB_SEGNO + 1, &s, &err), PH_NOT_FOUND);
    wb_free(&w);
}

static void partial_and_whole_are_two_files(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *bytes = make_bytes(SEG_BYTES, 1);
    AUTO_FREE char *partial = xasprintf("%s.partial", segment(7));
    struct content c = {bytes, SEG_BYTES, CODEC_LZ4, false};
    struct ph_err err;

    assert_int_equal(put(f, partial, &c, NULL, &err), PH_OK);
    assert_int_equal(get(f, segment(7), &c, &err), PH_NOT_FOUND);
    assert_int_equal(get(f, partial, &c, &err), PH_OK);
    assert_int_equal(put(f, segment(7), &c, NULL, &err), PH_OK);
    assert_int_equal(get(f, segment(7), &c, &err), PH_OK);
}

static void names_that_are_none(void **state)
{
    static const char *const names[] = {"x", "00000001000000000000000",
                                        "000000010000000000000001.tmp", "000000010000000000001000",
                                        "../00000002.history"};
    struct fixture *f = *state;
    struct content c = {(const uint8_t *)"x", 1, CODEC_NONE, false};
    struct ph_err err;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(put(f, names[i], &c, NULL, &err), PH_CORRUPT);
}

static void every_flipped_bit_is_noticed(void **state)
{
    struct fixture *f = *state;
    const char *text = "1\t0/3000000\tno recovery target specified\n";
    struct content c = {(const uint8_t *)text, strlen(text), CODEC_LZ4, false};
    struct repo_key key = repo_key_wal_file("main", 15, 1, "00000002.history");
    AUTO_FREE char *path = xasprintf("%s/%s", f->dir, key.text);
    struct ph_err err;
    struct buf object;

    assert_int_equal(put(f, "00000002.history", &c, NULL, &err), PH_OK);
    buf_init(&object, 4096);
    assert_int_equal(store_get(f->store, key.text, &object, &err), PH_OK);
    for (size_t bit = 0; bit < object.len_bytes * 8; bit++) {
        AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);
        uint8_t byte = (uint8_t)(object.data[bit / 8] ^ (1u << bit % 8));

        assert_int_equal(pwrite_full(fd, &byte, 1, bit / 8, &err), PH_OK);
        assert_int_not_equal(get(f, "00000002.history", &c, &err), PH_OK);
        assert_int_not_equal(err.rc, PH_NOT_FOUND);
        assert_non_null(strstr(err.text, "00000002.history"));
        assert_int_equal(pwrite_full(fd, &object.data[bit / 8], 1, bit / 8, &err), PH_OK);
    }
    for (size_t len = 0; len < object.len_bytes; len++) {
        assert_int_equal(truncate(path, (off_t)len), 0);
        assert_int_equal(get(f, "00000002.history", &c, &err), PH_CORRUPT);
    }
    assert_int_equal(store_put(f->store, key.text, object.data, object.len_bytes, false, &err),
                     PH_OK);
    assert_int_equal(get(f, "00000002.history", &c, &err), PH_OK);
    buf_release(&object);
}

/* An object under another name, or of another system. */
static void swapped_objects_are_noticed(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE uint8_t *bytes = make_bytes(SEG_BYTES, 1);
    struct content c = {bytes, SEG_BYTES, CODEC_LZ4, false};
    struct repo_key from;
    struct repo_key to;
    struct ph_err err;
    struct buf object;

    assert_int_equal(put(f, segment(1), &c, NULL, &err), PH_OK);
    from = repo_key_wal_file("main", 15, 1, segment(1));
    to = repo_key_wal_file("main", 15, 1, segment(2));
    buf_init(&object, 4 * MIB);
    assert_int_equal(store_get(f->store, from.text, &object, &err), PH_OK);
    assert_int_equal(store_put(f->store, to.text, object.data, object.len_bytes, true, &err),
                     PH_OK);
    buf_release(&object);
    assert_int_equal(get(f, segment(2), &c, &err), PH_CORRUPT);
    f->archive.id.system_identifier++;
    assert_int_equal(get(f, segment(1), &c, &err), PH_CORRUPT);
}

static void history_is_read_and_checked(void **state)
{
    struct fixture *f = *state;
    const char *text = "1\t0/3000000\tno recovery target specified\n";
    struct content c = {(const uint8_t *)text, strlen(text), CODEC_NONE, false};
    struct content junk = {(const uint8_t *)"junk", 4, CODEC_NONE, false};
    struct tl_history h;
    struct ph_err err;

    assert_int_equal(wal_archive_history(&f->archive, 1, &h, &err), PH_OK);
    assert_int_equal(h.count, 0);
    tl_history_release(&h);
    assert_int_equal(wal_archive_history(&f->archive, 2, &h, &err), PH_NOT_FOUND);
    assert_int_equal(put(f, "00000002.history", &c, NULL, &err), PH_OK);
    assert_int_equal(wal_archive_history(&f->archive, 2, &h, &err), PH_OK);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.entries[0].switch_lsn, 0x3000000);
    tl_history_release(&h);
    assert_int_equal(put(f, "00000003.history", &junk, NULL, &err), PH_OK);
    assert_int_equal(wal_archive_history(&f->archive, 3, &h, &err), PH_CORRUPT);
}

/* ---- listing ---- */

/* An object by name alone: listings do not read. */
static void touch(struct fixture *f, ph_tli tli, uint64_t segno, const char *suffix)
{
    char name[WAL_NAME_TEXT_BYTES];
    struct repo_key key;
    struct ph_err err;

    (void)wal_segment_name(tli, segno, SEG_BYTES, name, sizeof name);
    key = repo_key_wal_file("main", 15, 1, name);
    {
        AUTO_FREE char *full = xasprintf("%s%s", key.text, suffix);

        assert_int_equal(store_put(f->store, full, "12345", 5, true, &err), PH_OK);
    }
}

static void listing_finds_runs_and_gaps(void **state)
{
    static const uint64_t segnos[] = {4094, 4095, 4096, 4097, 4100, 8191, 8192};
    struct fixture *f = *state;
    struct wal_listing l;
    struct ph_err err;
    uint64_t segno = 0;

    assert_int_equal(wal_listing_load(&f->archive, true, &l, &err), PH_OK);
    assert_int_equal(l.run_count, 0);
    wal_listing_release(&l);
    for (size_t i = 0; i < sizeof segnos / sizeof *segnos; i++)
        touch(f, 1, segnos[i], "");
    touch(f, 1, 4095, ".blocks");
    touch(f, 1, 4099, ".partial");
    touch(f, 1, 4101, ".tmp");
    touch(f, 10, 8192, "");
    touch(f, 10, 8192, ".00000028.backup");
    assert_int_equal(
        store_put(f->store, "main/wal/15-1/0000000A/0000000A.history", "x", 1, true, &err), PH_OK);
    assert_int_equal(store_put(f->store, "main/wal/15-1/junk/x", "x", 1, true, &err), PH_OK);
    assert_int_equal(wal_listing_load(&f->archive, true, &l, &err), PH_OK);
    assert_int_equal(l.run_count, 4);
    assert_int_equal(l.runs[0].first_segno, 4094);
    assert_int_equal(l.runs[0].last_segno, 4097);
    assert_int_equal(l.runs[0].stored_bytes, 25);
    assert_int_equal(l.runs[1].first_segno, 4100);
    assert_int_equal(l.runs[2].last_segno, 8192);
    assert_int_equal(l.runs[3].tli, 10);
    assert_int_equal(l.partial_count, 1);
    assert_int_equal(l.partials[0].segno, 4099);
    assert_int_equal(l.stray_count, 2);
    assert_true(wal_listing_has_history(&l, 10));
    assert_false(wal_listing_has_history(&l, 1));
    assert_true(wal_listing_newest(&l, 1, &segno));
    assert_int_equal(segno, 8192);
    assert_false(wal_listing_newest(&l, 3, &segno));
    assert_true(wal_listing_covers(&l, 1, 4095, 4097, &segno));
    assert_false(wal_listing_covers(&l, 1, 4096, 4100, &segno));
    assert_int_equal(segno, 4098);
    assert_false(wal_listing_covers(&l, 1, 5000, 5000, &segno));
    assert_int_equal(segno, 5000);
    assert_null(wal_listing_find(&l, 1, 4099));
    assert_non_null(wal_listing_find(&l, 10, 8192));
    wal_listing_release(&l);
}

static void reach_along_a_lineage(void **state)
{
    /* Timeline 2 forks in the middle of segment 5, timeline 3 at the start of segment 8. */
    static const char text[] = "1\t0/580000\tx\n2\t0/800000\tx\n";
    struct fixture *f = *state;
    struct tl_history h;
    struct wal_listing l;
    struct ph_err err;
    uint64_t segno;
    ph_tli tli;

    assert_int_equal(tl_history_parse(3, text, strlen(text), &h, &err), PH_OK);
    for (uint64_t i = 2; i <= 6; i++)
        touch(f, 1, i, "");
    touch(f, 2, 5, "");
    touch(f, 2, 6, "");
    assert_int_equal(wal_listing_load(&f->archive, false, &l, &err), PH_OK);
    assert_int_equal(wal_listing_reach(&l, &h, 0x250000, &tli, &segno), 0x700000);
    assert_int_equal(tli, 2);
    assert_int_equal(segno, 7);
    assert_int_equal(wal_listing_reach(&l, &h, 0x150000, &tli, &segno), 0);
    assert_int_equal(segno, 1);
    wal_listing_release(&l);
    touch(f, 2, 7, "");
    touch(f, 3, 8, "");
    touch(f, 3, 9, "");
    assert_int_equal(wal_listing_load(&f->archive, false, &l, &err), PH_OK);
    assert_int_equal(wal_listing_reach(&l, &h, 0x250000, &tli, &segno), 0xA00000);
    assert_int_equal(tli, 3);
    assert_int_equal(segno, 10);
    wal_listing_release(&l);
    tl_history_release(&h);
}

/* Timeline 2's first segment is not there yet, but timeline 1's beginning of it is. */
static void reach_up_to_the_fork(void **state)
{
    static const char text[] = "1\t0/580000\tx\n";
    struct fixture *f = *state;
    struct tl_history h;
    struct wal_listing l;
    struct ph_err err;
    uint64_t segno;
    ph_tli tli;

    assert_int_equal(tl_history_parse(2, text, strlen(text), &h, &err), PH_OK);
    touch(f, 1, 4, "");
    touch(f, 1, 5, "");
    assert_int_equal(wal_listing_load(&f->archive, false, &l, &err), PH_OK);
    assert_int_equal(wal_listing_reach(&l, &h, 0x450000, &tli, &segno), 0x580000);
    assert_int_equal(tli, 2);
    assert_int_equal(segno, 5);
    wal_listing_release(&l);
    tl_history_release(&h);
}

/* ---- waiting ---- */

static void *arrive_later(void *arg)
{
    struct fixture *f = arg;
    AUTO_FREE uint8_t *bytes = make_bytes(SEG_BYTES, 1);
    struct content c = {bytes, SEG_BYTES, CODEC_LZ4, false};
    char name[WAL_NAME_TEXT_BYTES];
    struct ph_err err;

    for (uint64_t segno = 3; segno <= 4; segno++) {
        time_sleep_us(150000);
        (void)wal_segment_name(1, segno, SEG_BYTES, name, sizeof name);
        if (put(f, name, &c, NULL, &err) != PH_OK)
            abort();
    }
    return NULL;
}

static void waits_for_what_arrives(void **state)
{
    struct fixture *f = *state;
    uint64_t missing = 0;
    pthread_t thread;
    struct ph_err err;

    assert_int_equal(pthread_create(&thread, NULL, arrive_later, f), 0);
    assert_int_equal(wal_archive_wait(&f->archive, 1, 3, 4, 20000000, &missing, &err), PH_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wal_archive_wait(&f->archive, 1, 3, 6, 200000, &missing, &err), PH_TIMEOUT);
    assert_int_equal(missing, 5);
    assert_non_null(strstr(err.text, segment(5)));
}

static void init_takes_the_asked_system(void **state)
{
    struct fixture *f = *state;
    struct wal_archive a;

    f->cluster.system_count = 2;
    f->cluster.systems[1].pg_major = 18;
    wal_archive_init(&a, f->store, &f->cluster, 0);
    assert_int_equal(a.system, 2);
    assert_int_equal(a.id.pg_major, 18);
    wal_archive_init(&a, f->store, &f->cluster, 1);
    assert_int_equal(a.id.pg_major, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip_of_every_method, setup, teardown),
        cmocka_unit_test_setup_teardown(large_file_by_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(abort_while_bytes_are_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(same_content_again_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(other_content_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(summary_of_the_refused_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(several_are_published_together, setup, teardown),
        cmocka_unit_test_setup_teardown(prepared_and_aborted_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(summary_that_was_lost_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(summary_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(partial_and_whole_are_two_files, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(every_flipped_bit_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(swapped_objects_are_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(history_is_read_and_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(listing_finds_runs_and_gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(reach_along_a_lineage, setup, teardown),
        cmocka_unit_test_setup_teardown(reach_up_to_the_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_what_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(init_takes_the_asked_system, setup, teardown),
    };

    return cmocka_run_group_tests_name("wal_archive", tests, NULL, NULL);
}
