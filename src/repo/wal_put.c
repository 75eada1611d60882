/* SPDX-License-Identifier: MIT */
/*
 * Storing a WAL file (wal_put.h).
 *
 * The encoder is a thread that pushes finished frames into a queue; without one the frames are made
 * at commit. The writer of the upload works in the background either way.
 */
#include "repo/wal_put.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/queue.h"
#include "format/frame.h"
#include "format/wal_object.h"
#include "repo/repo_keys.h"

#define BLOCKS_SUFFIX ".blocks"

struct chunk {
    size_t len_bytes;
    uint8_t bytes[];
};

struct wal_put {
    const struct wal_archive *archive;
    struct wal_put_opts opts;
    char name[WAL_NAME_TEXT_BYTES];
    struct wal_name parsed;
    struct codec_ctx *codec;
    uint8_t *scratch;     /* one encoded frame */
    struct queue *frames; /* NULL: frames are made at commit */
    pthread_t encoder;
    enum ph_rc encoder_rc;
    struct ph_err encoder_err;
};

/* Frame number `index` into scratch. */
static enum ph_rc encode_frame(struct wal_put *p, size_t index, size_t *ret_len, struct ph_err *err)
{
    size_t at = index * WAL_OBJECT_FRAME_RAW;
    struct frame_spec spec = {
        .kind = FRAME_WAL,
        .block_log2 = FRAME_TABLE_BLOCK_LOG2,
        .raw = p->opts.bytes + at,
        .raw_len = MIN_OF(p->opts.len_bytes - at, WAL_OBJECT_FRAME_RAW),
    };
    struct frame_head head;

    if (frame_encode(&spec, p->codec, p->scratch,
                     frame_encoded_max(WAL_OBJECT_FRAME_RAW, FRAME_TABLE_BLOCK_LOG2), &head,
                     err) != PH_OK)
        return err->rc;
    *ret_len = frame_bytes(&head);
    return PH_OK;
}

static size_t frame_total(const struct wal_put *p)
{
    return (p->opts.len_bytes + WAL_OBJECT_FRAME_RAW - 1) / WAL_OBJECT_FRAME_RAW;
}

static void *encoder_main(void *arg)
{
    struct wal_put *p = arg;
    size_t total = frame_total(p);

    for (size_t i = 0; i < total; i++) {
        struct chunk *c;
        size_t len = 0;

        p->encoder_rc = encode_frame(p, i, &len, &p->encoder_err);
        if (p->encoder_rc != PH_OK)
            break;
        c = xmalloc(sizeof *c + len);
        c->len_bytes = len;
        memcpy(c->bytes, p->scratch, len);
        if (!queue_push(p->frames, c)) {
            free(c);
            break;
        }
    }
    queue_close(p->frames);
    return NULL;
}

static void encoder_start(struct wal_put *p)
{
    p->frames = queue_new(WAL_PUT_FRAMES_MAX);
    if (fault_errno("alloc") == 0 && pthread_create(&p->encoder, NULL, encoder_main, p) == 0)
        return;
    queue_free(p->frames); /* no thread to be had: slower, not a failure */
    p->frames = NULL;
}

static void encoder_stop(struct wal_put *p)
{
    struct chunk *c;

    if (p->frames == NULL)
        return;
    queue_close(p->frames);
    while ((c = queue_pop(p->frames)) != NULL)
        free(c);
    (void)pthread_join(p->encoder, NULL);
    queue_free(p->frames);
    p->frames = NULL;
}

enum ph_rc wal_put_begin(const struct wal_archive *a, const struct wal_put_opts *opts,
                         struct wal_put **ret_put, struct ph_err *err)
{
    struct wal_name parsed;
    struct wal_put *p;

    if (wal_name_parse(opts->name, a->id.wal_segment_size, &parsed, err) != PH_OK)
        return err->rc;
    if (opts->len_bytes == 0 || opts->len_bytes > WAL_OBJECT_RAW_BYTES_MAX)
        return err_set(err, PH_LIMIT, "\"%s\" has %zu bytes: expected 1 to %llu", opts->name,
                       opts->len_bytes, (unsigned long long)WAL_OBJECT_RAW_BYTES_MAX);
    p = xcalloc(1, sizeof *p);
    p->archive = a;
    p->opts = *opts;
    (void)snprintf(p->name, sizeof p->name, "%s", opts->name);
    p->parsed = parsed;
    p->codec = codec_ctx_new(opts->compress, opts->compress_level);
    p->scratch = xmalloc(frame_encoded_max(WAL_OBJECT_FRAME_RAW, FRAME_TABLE_BLOCK_LOG2));
    if (opts->parallel && frame_total(p) > 1)
        encoder_start(p);
    *ret_put = p;
    return PH_OK;
}

void wal_put_abort(struct wal_put *p)
{
    if (p == NULL)
        return;
    encoder_stop(p);
    codec_ctx_free(p->codec);
    free(p->scratch);
    free(p);
}

static struct wal_object object_of(const struct wal_put *p, const uint8_t sha256[32])
{
    static const enum wal_object_kind kinds[] = {
        [WAL_NAME_SEGMENT] = WAL_OBJECT_SEGMENT,
        [WAL_NAME_PARTIAL] = WAL_OBJECT_PARTIAL,
        [WAL_NAME_HISTORY] = WAL_OBJECT_HISTORY,
        [WAL_NAME_BACKUP] = WAL_OBJECT_BACKUP,
    };
    const struct cluster_system *id = &p->archive->id;
    struct wal_object w = {
        .kind = kinds[p->parsed.kind],
        .raw_bytes = p->opts.len_bytes,
        .timeline = p->parsed.tli,
    };

    memcpy(w.sha256, sha256, sizeof w.sha256);
    if (w.kind == WAL_OBJECT_SEGMENT || w.kind == WAL_OBJECT_PARTIAL) {
        w.system_identifier = id->system_identifier;
        w.pg_major = id->pg_major;
    }
    if (w.kind != WAL_OBJECT_HISTORY) {
        w.segment_bytes = id->wal_segment_size;
        w.start_lsn = wal_segno_start_lsn(p->parsed.segno, id->wal_segment_size);
    }
    return w;
}

static enum ph_rc write_frames(struct wal_put *p, struct store_upload *u, uint64_t *ret_bytes,
                               struct ph_err *err)
{
    size_t total = frame_total(p);

    for (size_t i = 0; i < total; i++) {
        struct chunk *c = NULL;
        const uint8_t *bytes = p->scratch;
        size_t len = 0;
        enum ph_rc rc = PH_OK;

        if (p->frames == NULL) {
            rc = encode_frame(p, i, &len, err);
        } else if ((c = queue_pop(p->frames)) == NULL) {
            *err = p->encoder_err; /* the queue ends early only after an error */
            rc = p->encoder_rc;
        } else {
            bytes = c->bytes;
            len = c->len_bytes;
        }
        if (rc == PH_OK)
            rc = store_upload_write(u, bytes, len, err);
        free(c);
        if (rc != PH_OK)
            return rc;
        *ret_bytes += len;
    }
    return PH_OK;
}

static enum ph_rc blocks_begin(const struct wal_put *p, const struct repo_key *key,
                               const struct buf *blocks, struct store_upload **ret_upload,
                               struct ph_err *err)
{
    struct store_upload *u;

    if (store_upload_begin(p->archive->store, key->text, &u, err) != PH_OK)
        return err->rc;
    store_upload_set_replace(u);
    if (store_upload_write(u, blocks->data, blocks->len_bytes, err) != PH_OK) {
        store_upload_abort(u);
        return err->rc;
    }
    *ret_upload = u;
    return PH_OK;
}

static enum ph_rc object_begin(struct wal_put *p, const struct repo_key *key,
                               const uint8_t sha256[32], struct store_upload **ret_upload,
                               uint64_t *ret_bytes, struct ph_err *err)
{
    struct wal_object w = object_of(p, sha256);
    uint8_t header[WAL_OBJECT_HEADER_BYTES];
    struct store_upload *u;

    wal_object_encode(&w, header);
    if (store_upload_begin(p->archive->store, key->text, &u, err) != PH_OK)
        return err->rc;
    *ret_bytes = sizeof header;
    if (store_upload_write(u, header, sizeof header, err) != PH_OK ||
        write_frames(p, u, ret_bytes, err) != PH_OK) {
        store_upload_abort(u);
        return err->rc;
    }
    *ret_upload = u;
    return PH_OK;
}

/* Another content has won the name, and our summary may stand beside it. */
static void blocks_take_away(const struct wal_put *p, const struct repo_key *key,
                             const struct buf *blocks)
{
    struct ph_err err;
    struct buf now;
    bool ours;

    buf_init(&now, blocks->len_bytes + 1);
    ours = store_get(p->archive->store, key->text, &now, &err) == PH_OK &&
           now.len_bytes == blocks->len_bytes &&
           memcmp(now.data, blocks->data, blocks->len_bytes) == 0;
    if (ours && store_delete(p->archive->store, key->text, &err) != PH_OK)
        log_warn("archive.blocks", "%s", err.text);
    buf_release(&now);
}

static enum ph_rc publish(struct wal_put *p, const uint8_t sha256[32], const struct buf *blocks,
                          struct wal_put_result *ret_result, struct ph_err *err)
{
    const struct wal_archive *a = p->archive;
    char blocks_name[WAL_NAME_TEXT_BYTES + sizeof BLOCKS_SUFFIX];
    struct repo_key key = repo_key_wal_file(a->cluster, a->id.pg_major, a->system, p->name);
    struct repo_key blocks_key;
    struct store_upload *uploads[2];
    struct wal_object head;
    uint64_t bytes = 0;
    size_t count = 0;
    enum ph_rc rc;

    (void)snprintf(blocks_name, sizeof blocks_name, "%s" BLOCKS_SUFFIX, p->name);
    blocks_key = repo_key_wal_file(a->cluster, a->id.pg_major, a->system, blocks_name);
    if (blocks != NULL && blocks_begin(p, &blocks_key, blocks, &uploads[count], err) != PH_OK)
        return err->rc;
    count += blocks != NULL;
    if (object_begin(p, &key, sha256, &uploads[count], &bytes, err) != PH_OK) {
        if (count > 0)
            store_upload_abort(uploads[0]);
        return err->rc;
    }
    count++;
    rc = store_upload_commit_all(uploads, count, err);
    if (rc == PH_OK) {
        ret_result->stored_bytes = bytes + (blocks != NULL ? blocks->len_bytes : 0);
        return PH_OK;
    }
    if (rc != PH_EXISTS)
        return rc;
    if (wal_archive_head(a, p->name, &head, err) != PH_OK)
        return err->rc;
    ret_result->was_there = true;
    rc = wal_archive_same(a, p->name, &head, p->opts.len_bytes, sha256, err);
    if (rc == PH_REFUSED && blocks != NULL)
        blocks_take_away(p, &blocks_key, blocks);
    return rc;
}

enum ph_rc wal_put_commit(struct wal_put *p, const uint8_t sha256[32], const struct buf *blocks,
                          struct wal_put_result *ret_result, struct ph_err *err)
{
    struct wal_put_result result = {0};
    enum ph_rc rc = publish(p, sha256, blocks, &result, err);

    wal_put_abort(p);
    if (rc == PH_OK)
        *ret_result = result;
    return rc;
}
