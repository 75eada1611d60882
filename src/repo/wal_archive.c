/* SPDX-License-Identifier: MIT */
/*
 * Reading from the WAL archive, and judging what is in it (wal_archive.h).
 *
 * A stored file is read as a stream of frames through one buffer, so memory does not grow with the
 * segment size. Each frame proves its own bytes; the SHA-256 in the header proves that they are all
 * there and in order.
 */
#include "repo/wal_archive.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "format/block_summary_codec.h"
#include "format/frame.h"
#include "format/wal_check.h"
#include "repo/repo_keys.h"

#define WINDOW_BYTES      ((size_t)2 * MIB + 64 * KIB) /* any frame of 1 MiB raw, and read-ahead */
#define SUMMARY_BYTES_MAX ((size_t)256 * MIB)
#define WAIT_STEP_US      100000 /* between two looks, at most: the first come sooner */
#define WAIT_FIRST_US     5000

void wal_archive_init(struct wal_archive *a, struct store *s, const struct cluster_info *cluster,
                      uint32_t system)
{
    PH_ASSERT(system <= cluster->system_count && cluster->system_count > 0);
    *a = (struct wal_archive){
        .store = s,
        .system = system == 0 ? cluster->system_count : system,
    };
    a->id = cluster->systems[a->system - 1];
    (void)snprintf(a->cluster, sizeof a->cluster, "%s", cluster->name);
}

static struct repo_key key_of(const struct wal_archive *a, const char *name)
{
    return repo_key_wal_file(a->cluster, a->id.pg_major, a->system, name);
}

/* ---- headers ---- */

static enum wal_object_kind kind_of(enum wal_name_kind kind)
{
    switch (kind) {
    case WAL_NAME_SEGMENT:
        return WAL_OBJECT_SEGMENT;
    case WAL_NAME_PARTIAL:
        return WAL_OBJECT_PARTIAL;
    case WAL_NAME_HISTORY:
        return WAL_OBJECT_HISTORY;
    case WAL_NAME_BACKUP:
        break;
    }
    return WAL_OBJECT_BACKUP;
}

/* The header must speak of the file whose name the object has: objects can be copied by people. */
static enum ph_rc head_check(const struct wal_archive *a, const struct wal_name *name,
                             const struct wal_object *w, struct ph_err *err)
{
    bool is_wal = name->kind == WAL_NAME_SEGMENT || name->kind == WAL_NAME_PARTIAL;

    if (w->kind != kind_of(name->kind) || w->timeline != name->tli)
        return err_set(err, PH_CORRUPT, "holds a file of kind %d, timeline %u: expected %d, %u",
                       (int)w->kind, (unsigned)w->timeline, (int)kind_of(name->kind),
                       (unsigned)name->tli);
    if (is_wal && (w->system_identifier != a->id.system_identifier ||
                   w->pg_major != a->id.pg_major || w->segment_bytes != a->id.wal_segment_size))
        return err_set(err, PH_CORRUPT,
                       "holds WAL of system %llu, version %u, segments of %u bytes: expected "
                       "%llu, %u, %u",
                       (unsigned long long)w->system_identifier, (unsigned)w->pg_major,
                       (unsigned)w->segment_bytes, (unsigned long long)a->id.system_identifier,
                       (unsigned)a->id.pg_major, (unsigned)a->id.wal_segment_size);
    if (is_wal && w->start_lsn != wal_segno_start_lsn(name->segno, a->id.wal_segment_size))
        return err_set(err, PH_CORRUPT, "holds the WAL at " PH_LSN_FMT, PH_LSN_ARGS(w->start_lsn));
    if (name->kind == WAL_NAME_SEGMENT && w->raw_bytes != a->id.wal_segment_size)
        return err_set(err, PH_CORRUPT, "holds %llu bytes: expected %u",
                       (unsigned long long)w->raw_bytes, (unsigned)a->id.wal_segment_size);
    return PH_OK;
}

static enum ph_rc head_read(const struct wal_archive *a, const char *name, struct store_object *o,
                            struct wal_object *ret_head, struct ph_err *err)
{
    uint8_t header[WAL_OBJECT_HEADER_BYTES];
    struct wal_name parsed;

    if (wal_name_parse(name, a->id.wal_segment_size, &parsed, err) != PH_OK ||
        store_object_read(o, 0, header, sizeof header, err) != PH_OK ||
        wal_object_decode(header, ret_head, err) != PH_OK)
        return err->rc;
    return head_check(a, &parsed, ret_head, err);
}

/* Names the object in front of what is wrong with it. */
static enum ph_rc in_object(const struct wal_archive *a, const char *name, enum ph_rc rc,
                            struct ph_err *err)
{
    if (rc == PH_CORRUPT)
        return err_ctx(err, "WAL object \"%s/%s\"", store_name(a->store), key_of(a, name).text);
    return rc;
}

enum ph_rc wal_archive_head(const struct wal_archive *a, const char *name,
                            struct wal_object *ret_head, struct ph_err *err)
{
    struct wal_object head;
    struct store_object *o;
    enum ph_rc rc;

    if (store_object_open(a->store, key_of(a, name).text, &o, err) != PH_OK)
        return err->rc;
    rc = head_read(a, name, o, &head, err);
    store_object_close(o);
    if (rc == PH_OK)
        *ret_head = head;
    return in_object(a, name, rc, err);
}

enum ph_rc wal_archive_same(const struct wal_archive *a, const char *name,
                            const struct wal_object *head, uint64_t raw_bytes,
                            const uint8_t sha256[32], struct ph_err *err)
{
    char stored_hex[SHA256_HEX_BYTES];
    char given_hex[SHA256_HEX_BYTES];

    if (head->raw_bytes == raw_bytes && memcmp(head->sha256, sha256, SHA256_BYTES) == 0)
        return store_settle(a->store, key_of(a, name).text, err);
    str_hex(head->sha256, SHA256_BYTES, stored_hex);
    str_hex(sha256, SHA256_BYTES, given_hex);
    (void)err_set(err, PH_REFUSED,
                  "\"%s\" is in the archive already with other content: stored %llu bytes, SHA-256 "
                  "%s, given %llu bytes, SHA-256 %s",
                  name, (unsigned long long)head->raw_bytes, stored_hex,
                  (unsigned long long)raw_bytes, given_hex);
    if (head->kind == WAL_OBJECT_HISTORY)
        return err_hint(err,
                        "Two servers were promoted to the same timeline and archive into one "
                        "cluster \"%s\". Give one of them a cluster of its own.",
                        a->cluster);
    return err_hint(err,
                    "Two servers archive into one cluster \"%s\": a copy of this server runs with "
                    "the same archive_command, or this server was set back without a new timeline. "
                    "Give the copy a cluster of its own, or archive_mode=off.",
                    a->cluster);
}

/* ---- content ---- */

/* The object as a stream: bytes [begin, end) of window are read and not used yet. */
struct stream {
    struct store_object *object;
    uint64_t offset; /* of window[end] in the object */
    uint8_t *window; /* WINDOW_BYTES */
    size_t begin;
    size_t end;
};

/* At least want bytes at window + begin. */
static enum ph_rc stream_need(struct stream *s, size_t want, struct ph_err *err)
{
    uint64_t left = store_object_size(s->object) - s->offset;
    size_t have = s->end - s->begin;
    size_t room;

    if (have >= want)
        return PH_OK;
    PH_ASSERT(want <= WINDOW_BYTES);
    if (want - have > left)
        return err_set(err, PH_CORRUPT, "is cut short at byte %llu",
                       (unsigned long long)store_object_size(s->object));
    memmove(s->window, s->window + s->begin, have);
    s->begin = 0;
    s->end = have;
    room = WINDOW_BYTES - have;
    room = left < room ? (size_t)left : room;
    if (store_object_read(s->object, s->offset, s->window + have, room, err) != PH_OK)
        return err->rc;
    s->offset += room;
    s->end += room;
    return PH_OK;
}

static enum ph_rc next_frame(struct stream *s, struct codec_ctx *codec, size_t raw_want,
                             uint8_t *raw, struct ph_err *err)
{
    uint64_t at = s->offset - (s->end - s->begin);
    struct frame_head head = {0};

    if (stream_need(s, FRAME_HEADER_BYTES, err) != PH_OK ||
        frame_peek(s->window + s->begin, &head, err) != PH_OK)
        return err_ctx(err, "frame at byte %llu", (unsigned long long)at);
    if (head.kind != FRAME_WAL || head.raw_len != raw_want ||
        frame_bytes(&head) > frame_encoded_max(WAL_OBJECT_FRAME_RAW, FRAME_BLOCK_LOG2_MIN))
        return err_set(err, PH_CORRUPT,
                       "frame at byte %llu is of kind %d with %u raw bytes: expected %d, %zu",
                       (unsigned long long)at, (int)head.kind, (unsigned)head.raw_len,
                       (int)FRAME_WAL, raw_want);
    if (stream_need(s, frame_bytes(&head), err) != PH_OK ||
        frame_head_decode(s->window + s->begin, frame_bytes(&head), &head, err) != PH_OK ||
        frame_decode(s->window + s->begin, &head, codec, raw, err) != PH_OK)
        return err_ctx(err, "frame at byte %llu", (unsigned long long)at);
    s->begin += frame_bytes(&head);
    return PH_OK;
}

struct sink_pair {
    wal_sink sink;
    void *ctx;
};

static enum ph_rc frames_read(struct stream *s, const struct wal_object *head,
                              const struct sink_pair *to, struct ph_err *err)
{
    struct codec_ctx *codec = codec_ctx_new(CODEC_NONE, 0);
    AUTO_FREE uint8_t *raw = xmalloc(WAL_OBJECT_FRAME_RAW);
    uint8_t digest[SHA256_BYTES];
    struct sha256 sha;
    enum ph_rc rc = PH_OK;

    sha256_init(&sha);
    for (uint64_t at = 0; rc == PH_OK && at < head->raw_bytes; at += WAL_OBJECT_FRAME_RAW) {
        size_t want = (size_t)MIN_OF(head->raw_bytes - at, (uint64_t)WAL_OBJECT_FRAME_RAW);

        rc = next_frame(s, codec, want, raw, err);
        if (rc != PH_OK)
            break;
        sha256_update(&sha, raw, want);
        rc = to->sink(to->ctx, raw, want, err);
    }
    codec_ctx_free(codec);
    if (rc != PH_OK) {
        sha256_release(&sha);
        return rc;
    }
    sha256_final(&sha, digest);
    if (memcmp(digest, head->sha256, sizeof digest) != 0)
        return err_set(err, PH_CORRUPT, "its bytes do not have the SHA-256 of its header");
    if (s->begin != s->end || s->offset != store_object_size(s->object))
        return err_set(err, PH_CORRUPT, "has bytes behind its last frame");
    return PH_OK;
}

enum ph_rc wal_archive_get(const struct wal_archive *a, const char *name, wal_sink sink, void *ctx,
                           struct wal_object *ret_head, struct ph_err *err)
{
    struct stream s = {.offset = WAL_OBJECT_HEADER_BYTES};
    struct sink_pair to = {.sink = sink, .ctx = ctx};
    struct wal_object head;
    enum ph_rc rc;

    if (store_object_open(a->store, key_of(a, name).text, &s.object, err) != PH_OK)
        return err->rc;
    rc = head_read(a, name, s.object, &head, err);
    if (rc == PH_OK) {
        s.window = xmalloc(WINDOW_BYTES);
        rc = frames_read(&s, &head, &to, err);
        free(s.window);
    }
    store_object_close(s.object);
    if (rc == PH_OK && ret_head != NULL)
        *ret_head = head;
    return in_object(a, name, rc, err);
}

static enum ph_rc sink_to_buf(void *ctx, const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    struct buf *b = ctx;

    buf_add(b, bytes, len_bytes);
    return buf_check(b, "a WAL file", err);
}

enum ph_rc wal_archive_history(const struct wal_archive *a, ph_tli tli,
                               struct tl_history *ret_history, struct ph_err *err)
{
    struct wal_name name = {.kind = WAL_NAME_HISTORY, .tli = tli};
    char text[WAL_NAME_TEXT_BYTES];
    struct buf content;
    enum ph_rc rc;

    if (tli == 1) {
        tl_history_root(1, ret_history);
        return PH_OK;
    }
    (void)wal_name_format(&name, a->id.wal_segment_size, text, sizeof text);
    buf_init(&content, (size_t)TL_HISTORY_BYTES_MAX);
    rc = wal_archive_get(a, text, sink_to_buf, &content, NULL, err);
    if (rc == PH_OK) {
        rc = tl_history_parse(tli, buf_cstr(&content), content.len_bytes, ret_history, err);
        rc = in_object(a, text, rc, err);
    }
    buf_release(&content);
    return rc;
}

/* ---- summaries ---- */

static enum ph_rc summary_again(const struct wal_archive *a, const char *name,
                                struct block_summary *ret_summary, struct ph_err *err)
{
    struct wal_check_opts opts = {
        .name = name,
        .sysid = a->id.system_identifier,
        .major = a->id.pg_major,
        .seg_bytes = a->id.wal_segment_size,
    };
    struct buf content;
    enum ph_rc rc;

    buf_init(&content, WAL_OBJECT_RAW_BYTES_MAX);
    rc = wal_archive_get(a, name, sink_to_buf, &content, NULL, err);
    if (rc == PH_OK)
        rc = wal_segment_check(content.data, content.len_bytes, &opts, NULL, ret_summary, err);
    buf_release(&content);
    return rc;
}

static enum ph_rc summary_check(const struct wal_archive *a, ph_tli tli, uint64_t segno,
                                const struct wal_object *head, const struct block_summary *s,
                                struct ph_err *err)
{
    ph_lsn start_lsn = wal_segno_start_lsn(segno, a->id.wal_segment_size);

    if (memcmp(s->sha256, head->sha256, sizeof s->sha256) != 0)
        return err_set(err, PH_CORRUPT, "was made from other bytes than the segment has");
    if (s->sysid == a->id.system_identifier && s->major == a->id.pg_major && s->tli == tli &&
        s->start_lsn == start_lsn && s->seg_bytes == a->id.wal_segment_size)
        return PH_OK;
    return err_set(
        err, PH_CORRUPT,
        "describes system %llu, timeline %u, WAL at " PH_LSN_FMT ": expected %llu, %u, " PH_LSN_FMT,
        (unsigned long long)s->sysid, (unsigned)s->tli, PH_LSN_ARGS(s->start_lsn),
        (unsigned long long)a->id.system_identifier, (unsigned)tli, PH_LSN_ARGS(start_lsn));
}

enum ph_rc wal_archive_summary(const struct wal_archive *a, ph_tli tli, uint64_t segno,
                               struct block_summary *ret_summary, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    char blocks_name[WAL_NAME_TEXT_BYTES + 8];
    struct wal_object head;
    struct block_summary s;
    struct buf content;
    enum ph_rc rc;

    (void)wal_segment_name(tli, segno, a->id.wal_segment_size, name, sizeof name);
    if (wal_archive_head(a, name, &head, err) != PH_OK)
        return err->rc;
    (void)snprintf(blocks_name, sizeof blocks_name, "%s.blocks", name);
    buf_init(&content, SUMMARY_BYTES_MAX);
    rc = store_get(a->store, key_of(a, blocks_name).text, &content, err);
    if (rc == PH_OK)
        rc = block_summary_decode(content.data, content.len_bytes, &s, err);
    buf_release(&content);
    if (rc == PH_OK) {
        rc = summary_check(a, tli, segno, &head, &s, err);
        if (rc != PH_OK)
            block_summary_release(&s);
    }
    if (rc == PH_CORRUPT)
        log_warn("archive.summary", "made anew from its segment: %s/%s: %s", store_name(a->store),
                 key_of(a, blocks_name).text, err->text);
    if (rc == PH_NOT_FOUND || rc == PH_CORRUPT)
        return summary_again(a, name, ret_summary, err);
    if (rc == PH_OK)
        *ret_summary = s;
    return rc;
}

/* ---- waiting ---- */

/* One look at a segment: OK, NOT_FOUND, or what is wrong. */
static enum ph_rc look_at_segment(const struct wal_archive *a, ph_tli tli, uint64_t segno,
                                  struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    struct wal_object head;

    (void)wal_segment_name(tli, segno, a->id.wal_segment_size, name, sizeof name);
    return wal_archive_head(a, name, &head, err);
}

/* It is not there: shall we go on waiting? */
static enum ph_rc wait_a_step(const struct wal_archive *a, ph_tli tli, uint64_t segno,
                              uint64_t waited_us, uint64_t left_us, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    uint64_t step_us =
        MIN_OF(MAX_OF(waited_us / 2, (uint64_t)WAIT_FIRST_US), (uint64_t)WAIT_STEP_US);

    if (cancel_check(err) != PH_OK)
        return err->rc;
    if (left_us == 0) {
        (void)wal_segment_name(tli, segno, a->id.wal_segment_size, name, sizeof name);
        return err_set(err, PH_TIMEOUT, "WAL segment %s did not arrive in the archive", name);
    }
    time_sleep_us(MIN_OF(left_us, step_us));
    return PH_OK;
}

enum ph_rc wal_archive_wait(const struct wal_archive *a, ph_tli tli, uint64_t first_segno,
                            uint64_t last_segno, uint64_t timeout_us, uint64_t *ret_missing_segno,
                            struct ph_err *err)
{
    uint64_t since_us = time_mono_us();

    for (uint64_t segno = first_segno; segno <= last_segno;) {
        enum ph_rc rc = look_at_segment(a, tli, segno, err);
        uint64_t waited_us = time_mono_us() - since_us;

        if (rc == PH_OK) {
            segno++;
            since_us = time_mono_us();
            continue;
        }
        if (rc != PH_NOT_FOUND)
            return rc;
        *ret_missing_segno = segno;
        if (wait_a_step(a, tli, segno, waited_us, timeout_us - MIN_OF(waited_us, timeout_us),
                        err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}
