/* SPDX-License-Identifier: MIT */
/*
 * The backup's stages where something happens beside them: a file that is rewritten between open and
 * read, a page that cannot be looked at twice, settings that do not fit each other, configuration
 * files that are not there, packs of very small frames and packs that nobody will ever name.
 */
#include "engine/backup/backup_debris.h"
#include "engine/backup/backup_settings.h"
#include "engine/backup/backup_sources.h"
#include "engine/backup/pipeline.h"
#include "engine/backup/prior_file.h"

#include "pg_tree.h"

#include "codec/checksum.h"
#include "format/frame.h"
#include "format/pack_format.h"
#include "format/pg_page.h"
#include "repo/manifest_reader.h"
#include "repo/repo_keys.h"

#define PAGE  8192
#define STAMP "20261130T201500Z"
#define LABEL STAMP "_F"
#define SLAB  (512 * KIB)

struct fixture {
    struct tree tree;
    struct store *store;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct store_opts opts = {.create = true};
    AUTO_FREE char *url = NULL;
    struct ph_err err;

    f->tree = tree_new();
    url = xasprintf("%s/repo", f->tree.root);
    opts.url = url;
    assert_int_equal(store_open(&opts, &f->store, &err), PH_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    store_close(f->store);
    tree_free(&f->tree);
    free(f);
    return 0;
}

/* ---- the pipeline ---- */

#define GROW_COUNT 2

struct growth {
    const char *path;
    size_t before_bytes;
    size_t after_bytes;
};

static const struct growth growths[GROW_COUNT] = {
    {"a.conf", 4090, 9000},
    {"b.conf", 100000, 120000},
};

static void put_lines(const struct tree *t, const char *path, size_t len_bytes, char letter)
{
    AUTO_FREE char *text = xmalloc(len_bytes);

    memset(text, letter, len_bytes);
    tree_put(t, path, text, len_bytes);
}

static enum ph_rc feed_growing(void *ctx, struct pipeline *p, struct read_stage *st,
                               struct ph_err *err)
{
    const struct fixture *f = ctx;

    for (size_t i = 0; i < GROW_COUNT; i++) {
        struct source *s = source_new(pipeline_batches(p));

        s->path = xstrdup(growths[i].path);
        s->type = SOURCE_FILE;
        s->whole = true;
        s->dirfd = AT_FDCWD;
        s->fs_path = tree_path(&f->tree, growths[i].path);
        if (read_stage_feed(st, s, err) != PH_OK)
            return err->rc;
        put_lines(&f->tree, growths[i].path, growths[i].after_bytes, 'n');
    }
    return PH_OK;
}

/* Content from memory, larger than what goes into a bundle: the archive's segments come so. */
static enum ph_rc feed_content(void *ctx, struct pipeline *p, struct read_stage *st,
                               struct ph_err *err)
{
    (void)ctx;
    for (unsigned i = 0; i < 200; i++) {
        struct source *s = source_new(pipeline_batches(p));

        s->path = xasprintf("%03u", i);
        s->type = SOURCE_FILE;
        s->listed_bytes = 70000;
        s->content = xcalloc(1, s->listed_bytes);
        s->content[i] = 1;
        if (read_stage_feed(st, s, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

static void back_up(struct fixture *f, pipeline_feed feed)
{
    struct page_check *pages = page_check_new(false, PAGE, 0);
    const struct packer_opts packer = {.store = f->store,
                                       .cluster = "main",
                                       .stamp = STAMP,
                                       .label = LABEL,
                                       .system_id = 1,
                                       .pack_size_bytes = 64 * MIB};
    const struct manifest_writer_params manifest = {
        .cluster = "main", .label = LABEL, .page_size = PAGE, .system_identifier = 1};
    struct pipeline_opts opts = {
        .slab_bytes = SLAB,
        .memory_bytes = 8 * MIB,
        .workers = 2,
        .encoder = {.method = CODEC_LZ4, .level = 1, .page_bytes = PAGE, .pages = pages},
        .reader = {.mode = DIRECT_AUTO, .ring = RING_THREADS, .depth = 2},
    };
    const struct pipeline_work work = {.feed = feed, .ctx = f};
    const struct packer_pack *packs;
    struct manifest_summary summary;
    struct pipeline *pipeline;
    struct ph_err err;
    size_t count;

    assert_int_equal(packer_new(&packer, &opts.packer, &err), PH_OK);
    assert_int_equal(manifest_writer_open(f->store, &manifest, &opts.writer, &err), PH_OK);
    assert_int_equal(pipeline_start(&opts, &pipeline, &err), PH_OK);
    if (pipeline_run(pipeline, &work, &err) != PH_OK)
        fail_msg("%s", err.text);
    pipeline_free(pipeline);
    assert_int_equal(packer_finish(opts.packer, &err), PH_OK);
    packs = packer_packs(opts.packer, &count);
    for (size_t i = 0; i < count; i++)
        manifest_writer_pack_seal(opts.writer, (uint32_t)i, packs[i].size_bytes, packs[i].sha256);
    assert_int_equal(manifest_writer_finish(opts.writer, &summary, &err), PH_OK);
    packer_free(opts.packer);
    page_check_free(pages);
}

/* A configuration file that is written over while it waits to be read is stored as it is then. */
static void whole_files_are_read_again(void **state)
{
    const struct manifest_reader_params params = {.cluster = "main", .label = LABEL};
    struct fixture *f = *state;
    struct manifest_reader *r;
    struct manifest_record rec;
    struct ph_err err;
    bool more;

    for (size_t i = 0; i < GROW_COUNT; i++)
        put_lines(&f->tree, growths[i].path, growths[i].before_bytes, 'o');
    back_up(f, feed_growing);
    assert_int_equal(manifest_reader_open(f->store, &params, &r, &err), PH_OK);
    for (size_t i = 0; i < GROW_COUNT; i++) {
        AUTO_FREE char *text = xmalloc(growths[i].after_bytes);

        memset(text, 'n', growths[i].after_bytes);
        assert_int_equal(manifest_reader_next(r, &rec, &more, &err), PH_OK);
        assert_true(more);
        assert_int_equal(rec.attrs.size_bytes, growths[i].after_bytes);
        assert_int_equal(rec.attrs.crc32c, crc32c(0, text, growths[i].after_bytes));
    }
    manifest_reader_close(r);
}

/*
 * A file that grew by an extent when it was read again: the batch's place for that extent still holds the
 * plan of another file, which kept its own.
 */
static void what_a_batch_held_before_is_forgotten(void **state)
{
    const size_t extent = EXTENT_BYTES_MAX;
    struct page_check *pages = page_check_new(false, PAGE, 0);
    const struct encoder_opts opts = {
        .method = CODEC_LZ4, .level = 1, .page_bytes = PAGE, .pages = pages};
    char path[] = "b.conf";
    struct source s = {.path = path, .whole = true};
    struct encoder *e = encoder_new(&opts);
    struct batch_set *set;
    struct batch *b;
    struct ph_err err;

    (void)state;
    assert_int_equal(batch_set_new(SLAB, PAGE, 8 * MIB, &set, &err), PH_OK);
    b = queue_pop(set->free_queue);
    batch_reset(b);
    memset(b->slab, 'n', 2 * extent);
    b->big = true;
    b->source = &s;
    b->pieces[0] =
        (struct piece){.batch = b, .source = &s, .want_bytes = 2 * extent, .got_bytes = 2 * extent};
    b->piece_count = 1;
    b->extents[0] = (struct batch_extent){.how = EXTENT_READ, .len_bytes = 200000};
    b->extents[1] = (struct batch_extent){.how = EXTENT_KEEP, .number = 1, .len_bytes = extent};
    b->extent_count = 1;
    assert_int_equal(encoder_run(e, b, set->out_bytes, &err), PH_OK);
    assert_int_equal(b->extent_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_false(b->extents[i].kept);
        assert_true(b->extents[i].has_frame);
        assert_int_equal(b->extents[i].entry.xxh3, xxh3_64(b->slab, extent));
    }
    encoder_free(e);
    batch_set_free(set);
    page_check_free(pages);
}

static void content_from_memory(void **state)
{
    const struct manifest_reader_params params = {.cluster = "main", .label = LABEL};
    struct fixture *f = *state;
    AUTO_FREE uint8_t *expected = xcalloc(1, 70000);
    struct manifest_reader *r;
    struct manifest_record rec;
    struct ph_err err;
    bool more;

    back_up(f, feed_content);
    assert_int_equal(manifest_reader_open(f->store, &params, &r, &err), PH_OK);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(manifest_reader_next(r, &rec, &more, &err), PH_OK);
        assert_true(more);
        expected[i] = 1;
        assert_int_equal(rec.attrs.crc32c, crc32c(0, expected, 70000));
        expected[i] = 0;
    }
    manifest_reader_close(r);
}

/* ---- the prior backup ---- */

/* A backup of one relation file that was begun as a big one and shrank to 64 KiB while it was read. */
static struct manifest_reader *shrunk_file(struct fixture *f)
{
    const struct manifest_writer_params manifest = {
        .cluster = "main", .label = LABEL, .page_size = PAGE, .system_identifier = 1};
    const struct manifest_reader_params params = {.cluster = "main", .label = LABEL};
    const struct manifest_attrs attrs = {
        .path = "base/5/16385", .path_len = 12, .type = MANIFEST_FILE, .flags = MANIFEST_PAGES};
    const struct extent_entry entry = {0};
    struct manifest_summary summary;
    struct manifest_writer *w;
    struct manifest_reader *r;
    struct ph_err err;

    assert_int_equal(manifest_writer_open(f->store, &manifest, &w, &err), PH_OK);
    assert_int_equal(manifest_writer_begin_file(w, &attrs, &err), PH_OK);
    assert_int_equal(manifest_writer_add_extents(w, &entry, 1, NULL, 0, &err), PH_OK);
    assert_int_equal(manifest_writer_end_file(w, SMALL_FILE_BYTES, 1, &err), PH_OK);
    assert_int_equal(manifest_writer_finish(w, &summary, &err), PH_OK);
    assert_int_equal(manifest_reader_open(f->store, &params, &r, &err), PH_OK);
    return r;
}

/* It is a small file now: nothing of it changed, but it must be read, as there is no bundle to name. */
static void small_file_of_extents_is_read(void **state)
{
    const struct scan_entry e = {
        .path = "base/5/16385",
        .flags = SCAN_F_RELATION | SCAN_F_PAGES,
        .rel = {.kind = RELNAME_RELATION, .rel_number = 16385},
        .tablespace_oid = RELNAME_TABLESPACE_DEFAULT,
        .database_oid = 5,
        .size_bytes = SMALL_FILE_BYTES,
    };
    struct prior p = {.by = PRIOR_BY_WAL, .info = {.page_size = PAGE}};
    struct source *s = xcalloc(1, sizeof *s);
    struct ph_err err;

    p.reader = shrunk_file(*state);
    block_summary_chain_init(&p.changes.chain);
    s->fs_path = xstrdup("base/5/16385");
    assert_int_equal(prior_file_judge(&p, NULL, &e, 131072, EXTENT_BYTES_MAX, s, &err), PH_OK);
    assert_true(s->prior.known);
    assert_false(s->prior.kept);
    assert_non_null(s->fs_path);
    change_rel_release(&s->prior.changes);
    free(s->fs_path);
    free(s);
    change_map_release(&p.changes);
    manifest_reader_close(p.reader);
}

/* ---- pages ---- */

/* A wrong page that cannot be read once more (here: a folder stands in its place) stays wrong. */
static void unreadable_second_look_is_no_excuse(void **state)
{
    struct fixture *f = *state;
    struct page_check *pc = page_check_new(true, PAGE, UINT64_MAX);
    struct source s = {.dirfd = AT_FDCWD, .fs_path = f->tree.data, .pages = true};
    _Alignas(4096) uint8_t page[PAGE] = {0};

    s.path = f->tree.data;
    page[15] = 0x20; /* pd_upper is set, all else is wrong */
    assert_false(page_check_one(pc, &s, 0, page));
    assert_int_equal(pc->count, 1);
    page_check_free(pc);
}

/* One whose file is gone was dropped: no statement. */
static void dropped_file_is_an_excuse(void **state)
{
    struct fixture *f = *state;
    struct page_check *pc = page_check_new(true, PAGE, UINT64_MAX);
    AUTO_FREE char *path = tree_path(&f->tree, "base/5/1259");
    struct source s = {.path = path, .dirfd = AT_FDCWD, .fs_path = path, .pages = true};
    _Alignas(4096) uint8_t page[PAGE] = {0};

    page[15] = 0x20;
    assert_false(page_check_one(pc, &s, 0, page));
    assert_int_equal(pc->count, 0);
    page_check_free(pc);
}

/* The checksum counts blocks from the relation's begin, the finding from the file's. */
static void blocks_of_a_later_segment(void **state)
{
    struct fixture *f = *state;
    struct page_check *pc = page_check_new(true, PAGE, UINT64_MAX);
    struct source s = {.pages = true, .first_block = 131072};
    _Alignas(4096) uint8_t page[PAGE] = {0};
    uint16_t sum;

    s.path = f->tree.data;
    page[12] = 24;
    page[15] = page[17] = page[19] = 0x20;
    page[18] = 4;
    sum = pg_page_checksum(page, PAGE, 131072 + 5);
    page[8] = (uint8_t)sum;
    page[9] = (uint8_t)(sum >> 8);
    assert_false(page_check_one(pc, &s, 5 * PAGE, page));
    assert_int_equal(pc->count, 0);
    assert_false(page_check_one(pc, &s, 6 * PAGE, page));
    assert_int_equal(pc->count, 1);
    assert_int_equal(pc->findings[0].block, 6);
    page_check_free(pc);
}

/* ---- settings ---- */

static enum ph_rc choose(const struct backup_opts *opts, struct backup_job *job, struct ph_err *err)
{
    AUTO_FREE char *path = xstrdup("/");

    *job = (struct backup_job){.opts = opts};
    job->dir.path = path;
    job->dir.control.block_bytes = PAGE;
    return backup_settings_choose(job, err);
}

static void memory_and_read_size_must_fit(void **state)
{
    struct backup_opts opts = {.memory_bytes = 64 * MIB, .read_size_bytes = 16 * MIB};
    struct backup_job *job = xcalloc(1, sizeof *job);
    struct ph_err err;

    (void)state;
    assert_int_equal(choose(&opts, job, &err), PH_CONFIG);
    assert_non_null(strstr(err.text, "memory is 67108864 bytes"));
    opts.read_size_bytes = 4 * MIB;
    assert_int_equal(choose(&opts, job, &err), PH_OK);
    assert_int_equal(job->read_size_bytes, 4 * MIB);
    opts.read_size_bytes = 0;
    assert_int_equal(choose(&opts, job, &err), PH_OK);
    free(job);
}

/* ---- configuration files ---- */

static void externals_are_looked_at_first(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *real = tree_path(&f->tree, "/hba.conf");
    AUTO_FREE char *crooked = xasprintf("%s/data/../hba.conf", f->tree.root);
    AUTO_FREE char *missing = tree_path(&f->tree, "/gone.conf");
    const struct server_external externals[] = {
        {.path = crooked, .what = "hba_file"},
        {.path = "/dev/null", .what = "ident_file"},
        {.path = missing, .what = "include"},
    };
    const struct backup_opts opts = {.with_config = true};
    struct backup_job *job = xcalloc(1, sizeof *job);
    struct ph_err err;

    tree_file(&f->tree, "/hba.conf");
    job->opts = &opts;
    job->server.externals = externals;
    job->server.external_count = 3;
    assert_int_equal(datadir_open(f->tree.data, &job->dir, &err), PH_OK);
    assert_int_equal(backup_sources_count(job, &err), PH_OK);
    assert_int_equal(job->external_count, 1);
    assert_string_equal(job->external[0], real);
    backup_sources_release(job);
    datadir_release(&job->dir);
    free(job);
}

/* ---- WAL ---- */

/* A segment that is no longer there under its name may have been written over while it was read. */
static void recycled_wal_is_noticed(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *first = tree_path(&f->tree, "pg_wal/000000010000000000000001");
    AUTO_FREE char *second = tree_path(&f->tree, "pg_wal/000000010000000000000002");
    AUTO_FREE char *later = tree_path(&f->tree, "pg_wal/000000010000000000000009");
    struct backup_job *job = xcalloc(1, sizeof *job);
    struct ph_err err;

    tree_file(&f->tree, "pg_wal/000000010000000000000001");
    tree_file(&f->tree, "pg_wal/000000010000000000000002");
    backup_sources_note_wal(job, first);
    backup_sources_note_wal(job, second);
    assert_int_equal(backup_sources_confirm_wal(job, &err), PH_OK);
    assert_int_equal(rename(second, later), 0);
    assert_int_equal(backup_sources_confirm_wal(job, &err), PH_IO);
    assert_non_null(strstr(err.text, "000000010000000000000002"));
    backup_sources_release(job);
    free(job);
}

/* ---- packs ---- */

static struct packer *new_packer(struct fixture *f, uint64_t pack_size_bytes)
{
    const struct packer_opts opts = {.store = f->store,
                                     .cluster = "main",
                                     .stamp = STAMP,
                                     .label = LABEL,
                                     .system_id = 1,
                                     .pack_size_bytes = pack_size_bytes};
    struct packer *p;
    struct ph_err err;

    assert_int_equal(packer_new(&opts, &p, &err), PH_OK);
    return p;
}

static size_t tiny_frame(uint8_t out[128])
{
    const struct frame_spec spec = {
        .kind = FRAME_BUNDLE, .block_log2 = FRAME_BUNDLE_BLOCK_LOG2, .raw = "x", .raw_len = 1};
    struct codec_ctx *codec = codec_ctx_new(CODEC_NONE, 0);
    struct frame_head head;
    struct ph_err err;

    assert_int_equal(frame_encode(&spec, codec, out, 128, &head, &err), PH_OK);
    codec_ctx_free(codec);
    return frame_bytes(&head);
}

/* The index of a pack is bounded: it ends the pack before the size does. */
static void many_tiny_frames_make_two_packs(void **state)
{
    struct packer *p = new_packer(*state, GIB);
    uint8_t frame[128];
    size_t len = tiny_frame(frame);
    struct packer_place place;
    struct ph_err err;
    size_t count;

    for (unsigned i = 0; i < 720000; i++)
        assert_int_equal(packer_add(p, frame, len, NULL, 0, &place, &err), PH_OK);
    assert_int_equal(place.pack, 1);
    assert_int_equal(packer_finish(p, &err), PH_OK);
    (void)packer_packs(p, &count);
    assert_int_equal(count, 2);
    packer_free(p);
}

/* So are its page sums: 2 Mi of them at most. */
static void many_page_sums_make_two_packs(void **state)
{
    struct packer *p = new_packer(*state, GIB);
    static const uint64_t sums[PACK_FRAME_SUMS_MAX];
    uint8_t frame[128];
    size_t len = tiny_frame(frame);
    struct packer_place place;
    struct ph_err err;

    for (unsigned i = 0; i < PACK_SUMS_MAX / PACK_FRAME_SUMS_MAX; i++)
        assert_int_equal(packer_add(p, frame, len, sums, PACK_FRAME_SUMS_MAX, &place, &err), PH_OK);
    assert_int_equal(place.pack, 0);
    assert_int_equal(packer_add(p, frame, len, NULL, 0, &place, &err), PH_OK);
    assert_int_equal(place.pack, 0);
    assert_int_equal(packer_add(p, frame, len, sums, 1, &place, &err), PH_OK);
    assert_int_equal(place.pack, 1);
    packer_free(p);
}

static enum ph_rc count_entry(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    size_t *count = ctx;

    (void)entry;
    (void)err;
    (*count)++;
    return PH_OK;
}

static size_t packs_in(struct store *s)
{
    struct ph_err err;
    size_t count = 0;

    assert_int_equal(store_list(s, repo_key_packs("main").text, false, count_entry, &count, &err),
                     PH_OK);
    return count;
}

static void discarded_packs_are_gone(void **state)
{
    struct fixture *f = *state;
    struct packer *p = new_packer(f, 300);
    uint8_t frame[128];
    size_t len = tiny_frame(frame);
    struct packer_place place;
    struct ph_err err;

    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(packer_add(p, frame, len, NULL, 0, &place, &err), PH_OK);
    assert_true(packs_in(f->store) > 2);
    packer_discard(p);
    packer_free(p);
    assert_int_equal(packs_in(f->store), 0);
}

static void seal_a_run(struct fixture *f, const char *stamp, char ret_run[64])
{
    const struct packer_opts opts = {.store = f->store,
                                     .cluster = "main",
                                     .stamp = stamp,
                                     .label = LABEL,
                                     .system_id = 1,
                                     .pack_size_bytes = 300};
    uint8_t frame[128];
    size_t len = tiny_frame(frame);
    struct packer_place place;
    struct packer *p;
    struct ph_err err;

    assert_int_equal(packer_new(&opts, &p, &err), PH_OK);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(packer_add(p, frame, len, NULL, 0, &place, &err), PH_OK);
    assert_int_equal(packer_finish(p, &err), PH_OK);
    (void)snprintf(ret_run, 64, "%s", packer_run(p));
    packer_free(p);
}

enum made { UNFINISHED, PUBLISHED, LOST_JSON };

/* A backup whose manifest names one pack of some run. */
static void make_backup(struct fixture *f, const char *label, const char *run, enum made made)
{
    const struct manifest_writer_params params = {
        .cluster = "main", .label = label, .page_size = PAGE, .system_identifier = 1};
    static const uint8_t sha256[32] = {0};
    struct repo_key json = repo_key_backup_json("main", label);
    struct repo_key started = repo_key_started("main", label);
    struct manifest_summary summary;
    struct manifest_writer *w;
    struct ph_err err;
    uint32_t place;

    assert_int_equal(manifest_writer_open(f->store, &params, &w, &err), PH_OK);
    assert_int_equal(manifest_writer_pack_begin(w, run, 1, &place, &err), PH_OK);
    manifest_writer_pack_seal(w, place, 1000, sha256);
    assert_int_equal(manifest_writer_finish(w, &summary, &err), PH_OK);
    if (made != LOST_JSON)
        assert_int_equal(
            store_put(f->store, made == PUBLISHED ? json.text : started.text, "{}", 2, true, &err),
            PH_OK);
}

#define OLD_STAMP  "20261129T201500Z"
#define DEAD_STAMP "20261130T201501Z"

/* As the holder of the lease; with rival it is lost before. */
static void remove_debris(struct fixture *f, const char *rival)
{
    struct repo_key key = repo_key_lease("main");
    struct lease lease;
    struct ph_err err;

    assert_int_equal(lease_take(f->store, "main", "backup", "", &lease, &err), PH_OK);
    if (rival != NULL)
        assert_int_equal(store_put(f->store, key.text, rival, strlen(rival), false, &err), PH_OK);
    backup_debris_remove(&lease, "main", NULL);
    if (rival != NULL)
        assert_int_equal(store_delete(f->store, key.text, &err), PH_OK);
    lease_release(&lease);
}

/* Packs stay of published backups, those that their manifests name, and those of nobody knows whom. */
static void debris_goes_what_is_named_stays(void **state)
{
    struct fixture *f = *state;
    struct ph_err err;
    uint64_t size_bytes;
    char run[64];
    char borrowed[64];
    size_t before;

    seal_a_run(f, STAMP, run);
    seal_a_run(f, "20261128T201500Z", run);
    seal_a_run(f, OLD_STAMP, borrowed);
    make_backup(f, OLD_STAMP "_F", borrowed, UNFINISHED);
    make_backup(f, LABEL, borrowed, PUBLISHED);
    before = packs_in(f->store);
    seal_a_run(f, DEAD_STAMP, run);
    make_backup(f, DEAD_STAMP "_F", run, UNFINISHED);
    assert_true(packs_in(f->store) > before);
    remove_debris(f, NULL);
    assert_int_equal(packs_in(f->store), before);
    assert_int_equal(
        store_stat(f->store, repo_key_manifest("main", DEAD_STAMP "_F").text, &size_bytes, &err),
        PH_NOT_FOUND);
    assert_int_equal(store_stat(f->store, repo_key_manifest("main", LABEL).text, &size_bytes, &err),
                     PH_OK);
}

/* Without the manifest of a published backup nobody knows what is debris. */
static void unreadable_manifest_protects_all(void **state)
{
    struct fixture *f = *state;
    struct ph_err err;
    char run[64];
    size_t before;

    seal_a_run(f, DEAD_STAMP, run);
    make_backup(f, DEAD_STAMP "_F", run, UNFINISHED);
    before = packs_in(f->store);
    assert_int_equal(
        store_put(f->store, repo_key_backup_json("main", LABEL).text, "{}", 2, true, &err), PH_OK);
    remove_debris(f, NULL);
    assert_int_equal(packs_in(f->store), before);
}

/* A finished backup that has lost its backup.json is no debris, nor is one with a pin. */
static void lost_backup_json_is_no_debris(void **state)
{
    struct fixture *f = *state;
    struct ph_err err;
    char run[64];
    size_t before;

    seal_a_run(f, STAMP, run);
    make_backup(f, LABEL, run, LOST_JSON);
    seal_a_run(f, OLD_STAMP, run);
    make_backup(f, OLD_STAMP "_F", run, UNFINISHED);
    assert_int_equal(
        store_put(f->store, repo_key_pin("main", OLD_STAMP "_F").text, "{}", 2, true, &err), PH_OK);
    before = packs_in(f->store);
    seal_a_run(f, DEAD_STAMP, run);
    make_backup(f, DEAD_STAMP "_F", run, LOST_JSON);
    assert_int_equal(
        store_put(f->store, repo_key_removing("main", DEAD_STAMP "_F").text, "", 0, true, &err),
        PH_OK);
    remove_debris(f, NULL);
    assert_int_equal(packs_in(f->store), before);
}

/* Whoever has lost the lease removes nothing. */
static void no_debris_is_removed_without_the_lease(void **state)
{
    struct fixture *f = *state;
    char run[64];
    size_t before;

    seal_a_run(f, STAMP, run);
    make_backup(f, LABEL, run, PUBLISHED);
    seal_a_run(f, DEAD_STAMP, run);
    make_backup(f, DEAD_STAMP "_F", run, UNFINISHED);
    before = packs_in(f->store);
    remove_debris(f, "{}");
    assert_int_equal(packs_in(f->store), before);
    remove_debris(f, NULL);
    assert_true(packs_in(f->store) < before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_debris_is_removed_without_the_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lost_backup_json_is_no_debris, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whole_files_are_read_again, set_up, tear_down),
        cmocka_unit_test(what_a_batch_held_before_is_forgotten),
        cmocka_unit_test_setup_teardown(content_from_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_file_of_extents_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unreadable_second_look_is_no_excuse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dropped_file_is_an_excuse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_of_a_later_segment, set_up, tear_down),
        cmocka_unit_test(memory_and_read_size_must_fit),
        cmocka_unit_test_setup_teardown(externals_are_looked_at_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recycled_wal_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_tiny_frames_make_two_packs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_page_sums_make_two_packs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(discarded_packs_are_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(debris_goes_what_is_named_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unreadable_manifest_protects_all, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
