/* SPDX-License-Identifier: MIT */
/*
 * Storing a WAL file (wal_put.h).
 *
 * Frames are independent, so the two threads take the next one from a counter. The writer of the upload
 * works in the background either way.
 */
#include "repo/wal_put.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/checksum.h"
#include "format/frame.h"
#include "format/wal_object.h"
#include "repo/repo_keys.h"

#define BLOCKS_SUFFIX ".blocks"

struct chunk {
    size_t len_bytes;
    uint8_t bytes[];
};

/* What a thread needs to make frames. */
struct encoder {
    struct codec_ctx *codec;
    uint8_t *scratch; /* one encoded frame */
};

struct wal_put {
    const struct wal_archive *archive;
    struct wal_put_opts opts;
    char name[WAL_NAME_TEXT_BYTES];
    struct wal_name parsed;
    size_t frame_total;
    struct encoder own;
    uint8_t sha256[SHA256_BYTES];
    _Atomic(struct chunk *) *chunks; /* NULL: frames are made as they are written */
    atomic_size_t next;              /* the frame to be made next; beyond the end: stop */
    bool helping;                    /* the thread has not been joined */
    atomic_bool hashed;              /* sha256 is there */
    pthread_mutex_t lock;            /* of what follows */
    pthread_cond_t more;
    size_t ready_bytes;
    bool aborted;
    pthread_t helper;
    enum ph_rc helper_rc;
    struct ph_err helper_err;
};

static void encoder_init(struct encoder *e, const struct wal_put_opts *opts)
{
    e->codec = codec_ctx_new(opts->compress, opts->compress_level);
    e->scratch = xmalloc(frame_encoded_max(WAL_OBJECT_FRAME_RAW, FRAME_TABLE_BLOCK_LOG2));
}

static void encoder_release(struct encoder *e)
{
    codec_ctx_free(e->codec);
    free(e->scratch);
}

/* Frame number `index` into the encoder's scratch. */
static enum ph_rc encode_frame(const struct wal_put *p, struct encoder *e, size_t index,
                               size_t *ret_len, struct ph_err *err)
{
    size_t at = index * WAL_OBJECT_FRAME_RAW;
    struct frame_spec spec = {
        .kind = FRAME_WAL,
        .block_log2 = FRAME_TABLE_BLOCK_LOG2,
        .raw = p->opts.bytes + at,
        .raw_len = MIN_OF(p->opts.len_bytes - at, WAL_OBJECT_FRAME_RAW),
    };
    struct frame_head head;

    if (frame_encode(&spec, e->codec, e->scratch,
                     frame_encoded_max(WAL_OBJECT_FRAME_RAW, FRAME_TABLE_BLOCK_LOG2), &head,
                     err) != PH_OK)
        return err->rc;
    *ret_len = frame_bytes(&head);
    return PH_OK;
}

/* Make one frame that nobody has begun; *ret_done: there is none. */
static enum ph_rc encode_one(struct wal_put *p, struct encoder *e, bool *ret_done,
                             struct ph_err *err)
{
    size_t index = atomic_fetch_add(&p->next, 1);
    struct chunk *c;
    size_t len = 0;

    *ret_done = index >= p->frame_total;
    if (*ret_done)
        return PH_OK;
    if (encode_frame(p, e, index, &len, err) != PH_OK)
        return err->rc;
    c = xmalloc(sizeof *c + len);
    c->len_bytes = len;
    memcpy(c->bytes, e->scratch, len);
    atomic_store(&p->chunks[index], c);
    return PH_OK;
}

/* More bytes than hashed_bytes are there: how many; 0: the put is aborted. */
static size_t wait_ready(struct wal_put *p, size_t hashed_bytes)
{
    size_t ready;

    (void)pthread_mutex_lock(&p->lock);
    while (p->ready_bytes <= hashed_bytes && !p->aborted)
        (void)pthread_cond_wait(&p->more, &p->lock);
    ready = p->aborted ? 0 : p->ready_bytes;
    (void)pthread_mutex_unlock(&p->lock);
    return ready;
}

void wal_put_ready(struct wal_put *p, size_t ready_bytes)
{
    PH_ASSERT(ready_bytes <= p->opts.len_bytes);
    (void)pthread_mutex_lock(&p->lock);
    p->ready_bytes = ready_bytes;
    (void)pthread_cond_signal(&p->more);
    (void)pthread_mutex_unlock(&p->lock);
}

static bool hash_as_it_comes(struct wal_put *p)
{
    struct sha256 sha;
    size_t done = 0;

    sha256_init(&sha);
    while (done < p->opts.len_bytes) {
        size_t ready = wait_ready(p, done);

        if (ready == 0) {
            sha256_release(&sha);
            return false;
        }
        sha256_update(&sha, p->opts.bytes + done, ready - done);
        done = ready;
    }
    sha256_final(&sha, p->sha256);
    return true;
}

static void *helper_main(void *arg)
{
    struct wal_put *p = arg;
    struct encoder e;
    bool done = false;

    if (!hash_as_it_comes(p))
        return NULL;
    atomic_store(&p->hashed, true);
    encoder_init(&e, &p->opts);
    while (!done && p->helper_rc == PH_OK)
        p->helper_rc = encode_one(p, &e, &done, &p->helper_err);
    encoder_release(&e);
    return NULL;
}

static void helper_join(struct wal_put *p)
{
    if (p->helping)
        (void)pthread_join(p->helper, NULL);
    p->helping = false;
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
    p->opts.name = p->name;
    (void)snprintf(p->name, sizeof p->name, "%s", opts->name);
    p->parsed = parsed;
    p->frame_total = (opts->len_bytes + WAL_OBJECT_FRAME_RAW - 1) / WAL_OBJECT_FRAME_RAW;
    p->ready_bytes = opts->ready_bytes;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->more, NULL);
    encoder_init(&p->own, opts);
    if (opts->parallel && p->frame_total > 1 && p->frame_total <= WAL_PUT_FRAMES_MAX) {
        p->chunks = xcalloc(p->frame_total, sizeof *p->chunks);
        /* No thread to be had: slower, not a failure. */
        p->helping = pthread_create(&p->helper, NULL, helper_main, p) == 0;
    }
    *ret_put = p;
    return PH_OK;
}

void wal_put_abort(struct wal_put *p)
{
    if (p == NULL)
        return;
    atomic_store(&p->next, p->frame_total);
    (void)pthread_mutex_lock(&p->lock);
    p->aborted = true;
    (void)pthread_cond_signal(&p->more);
    (void)pthread_mutex_unlock(&p->lock);
    helper_join(p);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_cond_destroy(&p->more);
    for (size_t i = 0; p->chunks != NULL && i < p->frame_total; i++)
        free(p->chunks[i]);
    free(p->chunks);
    encoder_release(&p->own);
    free(p);
}

/* The hash is there. Until then frames are made. */
static enum ph_rc hash_finish(struct wal_put *p, struct ph_err *err)
{
    bool done = p->chunks == NULL;

    PH_ASSERT(p->ready_bytes == p->opts.len_bytes);
    while (!done && p->helping && !atomic_load(&p->hashed))
        if (encode_one(p, &p->own, &done, err) != PH_OK)
            return err->rc;
    if (!atomic_load(&p->hashed))
        helper_join(p);
    if (!atomic_load(&p->hashed))
        sha256_of(p->opts.bytes, p->opts.len_bytes, p->sha256);
    return PH_OK;
}

/* Frame number `index`, made by whoever comes first. */
static enum ph_rc chunk_get(struct wal_put *p, size_t index, const struct chunk **ret_chunk,
                            struct ph_err *err)
{
    bool done = false;

    while ((*ret_chunk = atomic_load(&p->chunks[index])) == NULL) {
        if (done) { /* the helper has had it and has ended */
            *err = p->helper_err;
            return p->helper_rc;
        }
        if (encode_one(p, &p->own, &done, err) != PH_OK)
            return err->rc;
        if (done)
            helper_join(p);
    }
    return PH_OK;
}

static struct wal_object object_of(const struct wal_put *p)
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

    memcpy(w.sha256, p->sha256, sizeof w.sha256);
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
    for (size_t i = 0; i < p->frame_total; i++) {
        const uint8_t *bytes = p->own.scratch;
        const struct chunk *c;
        size_t len = 0;

        if (p->chunks == NULL) {
            if (encode_frame(p, &p->own, i, &len, err) != PH_OK)
                return err->rc;
        } else {
            if (chunk_get(p, i, &c, err) != PH_OK)
                return err->rc;
            bytes = c->bytes;
            len = c->len_bytes;
        }
        if (store_upload_write(u, bytes, len, err) != PH_OK)
            return err->rc;
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
                               struct store_upload **ret_upload, uint64_t *ret_bytes,
                               struct ph_err *err)
{
    struct wal_object w = object_of(p);
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

static enum ph_rc publish(struct wal_put *p, const struct buf *blocks,
                          struct wal_put_result *ret_result, struct ph_err *err)
{
    const struct wal_archive *a = p->archive;
    char blocks_name[WAL_NAME_TEXT_BYTES + sizeof BLOCKS_SUFFIX];
    struct repo_key key = repo_key_wal_file(a->cluster, a->id.pg_major, a->system, p->name);
    struct repo_key blocks_key;
    struct store_upload *uploads[2] = {NULL, NULL};
    struct wal_object head;
    uint64_t bytes = 0;
    size_t count = 0;
    enum ph_rc rc;

    (void)snprintf(blocks_name, sizeof blocks_name, "%s" BLOCKS_SUFFIX, p->name);
    blocks_key = repo_key_wal_file(a->cluster, a->id.pg_major, a->system, blocks_name);
    if (blocks != NULL && blocks_begin(p, &blocks_key, blocks, &uploads[count], err) != PH_OK)
        return err->rc;
    count += blocks != NULL;
    if (object_begin(p, &key, &uploads[count], &bytes, err) != PH_OK) {
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
    rc = wal_archive_same(a, p->name, &head, p->opts.len_bytes, p->sha256, err);
    if (rc == PH_REFUSED && blocks != NULL)
        blocks_take_away(p, &blocks_key, blocks);
    return rc;
}

enum ph_rc wal_put_commit(struct wal_put *p, const struct buf *blocks,
                          struct wal_put_result *ret_result, struct ph_err *err)
{
    struct wal_put_result result = {0};
    enum ph_rc rc = hash_finish(p, err);

    if (rc == PH_OK)
        rc = publish(p, blocks, &result, err);
    memcpy(result.sha256, p->sha256, sizeof result.sha256);
    wal_put_abort(p);
    if (rc == PH_OK)
        *ret_result = result;
    return rc;
}
