/* SPDX-License-Identifier: MIT */
/*
 * A small repository with one backup, made with the real packer and manifest writer, for tests of restore:
 * a file of extents with holes, zero pages and an odd end, one with deltas, small files in bundles, a
 * link, a tablespace, and the late files.
 */
#ifndef TESTS_UNIT_REPO_BUILD_H
#define TESTS_UNIT_REPO_BUILD_H

#include "base/timeutil.h"
#include "codec/checksum.h"
#include "format/extent_sum.h"
#include "format/frame.h"
#include "pg_samples.h"
#include "pg_tree.h"
#include "repo/catalogue.h"
#include "repo/manifest_writer.h"
#include "repo/packer.h"
#include "repo/repo_keys.h"

#define RB_LABEL   "20261130T201500Z_F"
#define RB_CLUSTER "main"
#define RB_SYSTEM  UINT64_C(0x4f442b45) /* low half; completed from the sample */
#define RB_PAGE    8192u
#define RB_EXTENT  (32u * RB_PAGE)
#define RB_BIG     (5 * (size_t)RB_EXTENT + 3 * RB_PAGE + 1000)
#define RB_SMALL   200
#define RB_OID     16400u

struct repo_build {
    char *dir;
    struct store *store;
    struct packer *packer;
    struct manifest_writer *writer;
    struct codec_ctx *codec;
    uint8_t *big;     /* content of base/1/16384 */
    uint8_t *chained; /* of base/1/16385, one extent with two deltas */
    uint8_t control[PG_CONTROL_FILE_BYTES];
    uint64_t system_id;
    uint32_t packs_named;
    void (*more)(struct repo_build *b); /* adds files base/1/17...; NULL: none */
};

static inline void rb_ok(enum ph_rc rc, const struct ph_err *err)
{
    if (rc != PH_OK)
        fail_msg("%s: %s", ph_rc_name(rc), err->text);
}

/* Compressible, different everywhere. */
static inline void rb_fill(uint8_t *at, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)((i / 7 * 2654435761u + seed * 40503u) >> 16);
}

static inline uint32_t rb_pages(const uint8_t *extent, size_t len)
{
    static const uint8_t zeros[RB_PAGE];
    uint32_t pages = 0;

    for (uint32_t page = 0; (size_t)page * RB_PAGE < len; page++) {
        size_t part = MIN_OF(len - (size_t)page * RB_PAGE, (size_t)RB_PAGE);
        if (memcmp(extent + (size_t)page * RB_PAGE, zeros, part) != 0)
            pages |= UINT32_C(1) << page;
    }
    return pages;
}

/* Append one frame of the named pages; returns its place and head. */
static inline struct packer_place rb_frame(struct repo_build *b, struct frame_spec spec,
                                           const uint8_t *extent, size_t len,
                                           struct frame_head *head)
{
    AUTO_FREE uint8_t *raw = xmalloc(RB_EXTENT);
    AUTO_FREE uint8_t *out = xmalloc(2 * RB_EXTENT);
    struct packer_place place;
    struct ph_err err = {0};

    uint64_t sums[32];
    size_t sum_count = 0;

    spec.raw = raw;
    for (uint32_t page = 0; page < 32; page++) {
        if (!((spec.pages >> page) & 1))
            continue;
        size_t part = MIN_OF(len - (size_t)page * RB_PAGE, (size_t)RB_PAGE);
        memcpy(raw + spec.raw_len, extent + (size_t)page * RB_PAGE, part);
        sums[sum_count++] = xxh3_64(raw + spec.raw_len, part);
        spec.raw_len += part;
    }
    rb_ok(frame_encode(&spec, b->codec, out, 2 * RB_EXTENT, head, &err), &err);
    rb_ok(packer_add(b->packer, out, frame_bytes(head), sums, sum_count, &place, &err), &err);
    while (b->packs_named <= place.pack) {
        uint32_t at;
        rb_ok(manifest_writer_pack_begin(b->writer, packer_run(b->packer), ++b->packs_named, &at,
                                         &err),
              &err);
    }
    return place;
}

static inline struct extent_entry rb_image(struct repo_build *b, const char *path, uint32_t number,
                                           const uint8_t *extent, size_t len)
{
    struct frame_spec spec = {.kind = FRAME_IMAGE,
                              .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
                              .owner = xxh3_64(path, strlen(path)),
                              .extent = number,
                              .pages = rb_pages(extent, len)};
    struct extent_entry e = {.xxh3 = xxh3_64(extent, len), .pages = spec.pages};
    AUTO_FREE uint8_t *frame = NULL;
    struct frame_head head;

    if (spec.pages == 0)
        return e;
    struct packer_place place = rb_frame(b, spec, extent, len, &head);
    e.pack = place.pack;
    e.frame_offset = place.offset;
    e.method = (uint8_t)head.method;
    /* The block lengths again, by encoding again: the packer has the bytes now. */
    frame = xmalloc(2 * RB_EXTENT);
    AUTO_FREE uint8_t *raw = xmalloc(RB_EXTENT);
    struct ph_err err = {0};
    spec.raw = raw;
    spec.raw_len = 0;
    for (uint32_t page = 0; page < 32; page++) {
        if ((spec.pages >> page) & 1) {
            size_t part = MIN_OF(len - (size_t)page * RB_PAGE, (size_t)RB_PAGE);
            memcpy(raw + spec.raw_len, extent + (size_t)page * RB_PAGE, part);
            spec.raw_len += part;
        }
    }
    rb_ok(frame_encode(&spec, b->codec, frame, 2 * RB_EXTENT, &head, &err), &err);
    for (uint32_t i = 0; i < head.block_count; i++)
        e.block_len_minus1[i] = (uint16_t)(frame_block_get(frame, &head, i).stored_len - 1);
    return e;
}

static inline struct manifest_attrs rb_attrs(const char *path, enum manifest_type type,
                                             uint32_t mode, size_t size)
{
    return (struct manifest_attrs){.path = path,
                                   .path_len = strlen(path),
                                   .type = type,
                                   .mode = mode,
                                   .size_bytes = size,
                                   .mtime_us = INT64_C(1790000000000000)};
}

static inline void rb_dir(struct repo_build *b, const char *path)
{
    struct manifest_attrs a = rb_attrs(path, MANIFEST_DIR, 0700, 0);
    struct ph_err err = {0};

    rb_ok(manifest_writer_entry(b->writer, &a, &err), &err);
}

static inline void rb_link(struct repo_build *b, const char *path, const char *target)
{
    struct manifest_attrs a = rb_attrs(path, MANIFEST_LINK, 0777, 0);
    struct ph_err err = {0};

    a.link_target = target;
    a.link_len = strlen(target);
    rb_ok(manifest_writer_entry(b->writer, &a, &err), &err);
}

static inline void rb_big(struct repo_build *b, const char *path, const uint8_t *data, size_t size)
{
    struct manifest_attrs a = rb_attrs(path, MANIFEST_FILE, 0600, size);
    struct ph_err err = {0};

    rb_ok(manifest_writer_begin_file(b->writer, &a, &err), &err);
    for (size_t at = 0; at < size; at += RB_EXTENT) {
        struct extent_entry e = rb_image(b, path, (uint32_t)(at / RB_EXTENT), data + at,
                                         MIN_OF(size - at, (size_t)RB_EXTENT));
        rb_ok(manifest_writer_add_extents(b->writer, &e, 1, NULL, 0, &err), &err);
    }
    rb_ok(manifest_writer_end_file(b->writer, size, crc32c(0, data, size), &err), &err);
}

/* One extent: an image of older bytes, then two deltas that bring it to `data`. */
static inline void rb_chain(struct repo_build *b, const char *path, const uint8_t *data)
{
    struct manifest_attrs a = rb_attrs(path, MANIFEST_FILE, 0600, RB_EXTENT);
    AUTO_FREE uint8_t *old = xmalloc(RB_EXTENT);
    struct delta_entry deltas[2];
    struct frame_head head;
    struct ph_err err = {0};

    memcpy(old, data, RB_EXTENT);
    rb_fill(old + 3 * RB_PAGE, RB_PAGE, 77);
    rb_fill(old + 9 * RB_PAGE, RB_PAGE, 78);
    struct extent_entry e = rb_image(b, path, 0, old, RB_EXTENT);
    for (unsigned i = 0; i < 2; i++) {
        struct frame_spec spec = {.kind = FRAME_DELTA,
                                  .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
                                  .owner = xxh3_64(path, strlen(path)),
                                  .pages = i == 0 ? (1u << 3) : (1u << 3) | (1u << 9)};
        /* The older delta has page 3 wrong: only the right order gives the right bytes. */
        struct packer_place place = rb_frame(b, spec, i == 0 ? old : data, RB_EXTENT, &head);
        deltas[i] = (struct delta_entry){.pack = place.pack,
                                         .frame_offset = place.offset,
                                         .frame_len = (uint32_t)frame_bytes(&head),
                                         .pages = spec.pages};
        e.xxh3 = extent_sum_delta(e.xxh3, spec.pages, head.raw_xxh3);
    }
    e.deltas = 2;
    rb_ok(manifest_writer_begin_file(b->writer, &a, &err), &err);
    rb_ok(manifest_writer_add_extents(b->writer, &e, 1, deltas, 2, &err), &err);
    rb_ok(manifest_writer_end_file_no_crc(b->writer, RB_EXTENT, &err), &err);
}

/* count files "PREFIX0000".. of one bundle, file i with 13 x i bytes. Or one file of given bytes. */
static inline void rb_bundle(struct repo_build *b, const char *prefix, unsigned count,
                             const void *one, size_t one_len)
{
    AUTO_FREE uint8_t *raw = xmalloc(128 * KIB);
    AUTO_FREE uint8_t *out = xmalloc(256 * KIB);
    struct frame_spec spec = {
        .kind = FRAME_BUNDLE, .block_log2 = FRAME_BUNDLE_BLOCK_LOG2, .raw = raw};
    struct frame_head head;
    struct packer_place place;
    struct ph_err err = {0};

    for (unsigned i = 0; i < count; i++) {
        size_t len = one != NULL ? one_len : i * 3;
        if (one != NULL)
            memcpy(raw, one, one_len);
        else
            rb_fill(raw + spec.raw_len, len, i);
        spec.raw_len += len;
    }
    rb_ok(frame_encode(&spec, b->codec, out, 256 * KIB, &head, &err), &err);
    rb_ok(packer_add(b->packer, out, frame_bytes(&head), NULL, 0, &place, &err), &err);
    uint32_t at = 0;
    while (b->packs_named <= place.pack)
        rb_ok(manifest_writer_pack_begin(b->writer, packer_run(b->packer), ++b->packs_named, &at,
                                         &err),
              &err);
    at = 0;
    for (unsigned i = 0; i < count; i++) {
        size_t len = one != NULL ? one_len : i * 3;
        AUTO_FREE char *path = one != NULL ? xstrdup(prefix) : xasprintf("%s%04u", prefix, i);
        struct manifest_attrs a = rb_attrs(path, MANIFEST_FILE, 0600, len);
        struct manifest_bundle bundle = {.pack = place.pack,
                                         .frame_offset = place.offset,
                                         .frame_len = (uint32_t)frame_bytes(&head),
                                         .raw_offset = at,
                                         .xxh3 = xxh3_64(raw + at, len)};
        a.crc32c = crc32c(0, raw + at, len);
        if (len == 0)
            rb_ok(manifest_writer_entry(b->writer, &a, &err), &err);
        else
            rb_ok(manifest_writer_bundle_file(b->writer, &a, &bundle, &err), &err);
        at += (uint32_t)len;
    }
}

static inline void rb_tree(struct repo_build *b, const char *tablespace)
{
    static const char label[] = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n";
    AUTO_FREE char *map = xasprintf("%u %s\n", RB_OID, tablespace);
    struct ph_err err = {0};

    rb_dir(b, "");
    rb_bundle(b, "PG_VERSION", 1, "15\n", 3);
    rb_dir(b, "base");
    rb_dir(b, "base/1");
    rb_big(b, "base/1/16384", b->big, RB_BIG);
    rb_chain(b, "base/1/16385", b->chained);
    if (b->more != NULL)
        b->more(b);
    rb_bundle(b, "base/1/2", RB_SMALL, NULL, 0);
    rb_dir(b, "global");
    rb_link(b, "log", "../logs elsewhere");
    rb_dir(b, "pg_tblspc");
    rb_link(b, "pg_tblspc/16400", tablespace);
    rb_dir(b, "pg_tblspc/16400/PG_15_202209061");
    rb_bundle(b, "pg_tblspc/16400/PG_15_202209061/x", 1, "in the tablespace", 17);
    rb_dir(b, "pg_wal");
    rb_dir(b, "pg_wal/archive_status");
    rb_bundle(b, "postgresql.auto.conf", 1, "recovery_target_xid = '9'\nwork_mem = '7MB'\n", 43);
    rb_ok(manifest_writer_late(b->writer, &err), &err);
    rb_bundle(b, "backup_label", 1, label, sizeof label - 1);
    rb_bundle(b, "tablespace_map", 1, map, strlen(map));
    rb_bundle(b, "global/pg_control", 1, b->control, sizeof b->control);
}

static inline void rb_publish(struct repo_build *b, const char *tablespace)
{
    struct manifest_summary sum;
    struct ph_err err = {0};
    size_t packs = 0;
    struct backup_info info = {.tool_version = xstrdup("test"),
                               .system = 1,
                               .system_identifier = b->system_id,
                               .pg_major = 15,
                               .pg_version = 150010,
                               .pg_control_version = 1300,
                               .catalog_version = 202209061,
                               .page_size = RB_PAGE,
                               .wal_segment_size = 16 * MIB,
                               .timeline = 1,
                               .start_lsn = 0x2000028,
                               .stop_lsn = 0x2000100,
                               .start_time_us = INT64_C(1790000000000000),
                               .stop_time_us = INT64_C(1790000001000000),
                               .next_xid = 700,
                               .with_wal = true};

    rb_ok(packer_finish(b->packer, &err), &err);
    const struct packer_pack *p = packer_packs(b->packer, &packs);
    for (size_t i = 0; i < packs; i++)
        manifest_writer_pack_seal(b->writer, (uint32_t)i, p[i].size_bytes, p[i].sha256);
    rb_ok(manifest_writer_finish(b->writer, &sum, &err), &err);
    memcpy(info.label, RB_LABEL, sizeof RB_LABEL);
    snprintf(info.wal_first, sizeof info.wal_first, "%s", "000000010000000000000002");
    snprintf(info.wal_last, sizeof info.wal_last, "%s", "000000010000000000000002");
    info.tablespaces = xcalloc(1, sizeof *info.tablespaces);
    info.tablespace_count = 1;
    info.tablespaces[0] = (struct backup_tablespace){
        .oid = RB_OID, .name = xstrdup("ts"), .location = xstrdup(tablespace)};
    info.files = sum.files;
    info.bytes = sum.logical_bytes;
    info.packs = packs;
    info.manifest_bytes = sum.manifest_bytes;
    memcpy(info.manifest_sha256, sum.sha256, sizeof sum.sha256);
    rb_ok(catalogue_publish(b->store, RB_CLUSTER, &info, &err), &err);
    backup_info_release(&info);
}

/* Build below dir (absolute); the backup's tablespace was at `tablespace`. */
static inline struct repo_build rb_new_with(const char *dir, const char *tablespace,
                                            enum codec_method method,
                                            void (*more)(struct repo_build *b))
{
    struct repo_build b = {.dir = xasprintf("%s/repo", dir), .more = more};
    const struct store_opts so = {.url = b.dir, .create = true};
    struct cluster_info cluster = {.name = RB_CLUSTER, .system_count = 1};
    struct ph_err err = {0};

    for (size_t i = 0; i < sizeof control_samples / sizeof *control_samples; i++)
        if (control_samples[i].major == 15)
            assert_true(str_unhex(control_samples[i].hex, 320, b.control));
    b.system_id = get_le64(b.control);
    b.big = xcalloc(RB_BIG, 1);
    for (size_t page = 0; page < RB_BIG / RB_PAGE; page++)
        if (page % 5 != 2 && (page < 64 || page >= 96)) /* zero pages, and one extent of nothing */
            rb_fill(b.big + page * RB_PAGE, RB_PAGE, (uint32_t)page);
    rb_fill(b.big + RB_BIG - 1000, 1000, 4711);
    b.chained = xmalloc(RB_EXTENT);
    rb_fill(b.chained, RB_EXTENT, 99);
    rb_ok(store_open(&so, &b.store, &err), &err);
    cluster.systems[0] = (struct cluster_system){.system_identifier = b.system_id,
                                                 .pg_major = 15,
                                                 .pg_control_version = 1300,
                                                 .catalog_version = 202209061,
                                                 .wal_segment_size = 16 * MIB,
                                                 .page_size = RB_PAGE};
    rb_ok(catalogue_cluster_create(b.store, &cluster, &err), &err);
    b.codec = codec_ctx_new(method, 1);
    rb_ok(packer_new(&(struct packer_opts){.store = b.store,
                                           .cluster = RB_CLUSTER,
                                           .stamp = "20261130T201500Z",
                                           .label = RB_LABEL,
                                           .system_id = b.system_id,
                                           .pack_size_bytes = 256 * KIB},
                     &b.packer, &err),
          &err);
    rb_ok(manifest_writer_open(b.store,
                               &(struct manifest_writer_params){.cluster = RB_CLUSTER,
                                                                .label = RB_LABEL,
                                                                .page_size = RB_PAGE,
                                                                .system_identifier = b.system_id,
                                                                .method = method,
                                                                .level = 1},
                               &b.writer, &err),
          &err);
    uint16_t owner = 0;
    rb_ok(manifest_writer_owner(b.writer, "0:0", &owner, &err), &err);
    rb_tree(&b, tablespace);
    rb_publish(&b, tablespace);
    packer_free(b.packer);
    codec_ctx_free(b.codec);
    return b;
}

static inline struct repo_build rb_new(const char *dir, const char *tablespace,
                                       enum codec_method method)
{
    return rb_new_with(dir, tablespace, method, NULL);
}

static inline void rb_free(struct repo_build *b)
{
    store_close(b->store);
    free(b->big);
    free(b->chained);
    free(b->dir);
}

#endif
