/* SPDX-License-Identifier: MIT */
/*
 * Storing a WAL file (wal_put.h).
 *
 * Frames are independent, so the two threads take the next one from a counter; the hash is one chain and
 * belongs to one of them, for which it comes first. The writer of the upload works in the background
 * either way.
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
#include "format/block_summary_codec.h"
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
    _Atomic(struct chunk *) *chunks; /* NULL: frames are made as they are written */
    pthread_t helper;
    enum ph_rc early_rc; /* of what is done before wal_put_prepare by this or the other thread */
    struct ph_err early_err;

    struct sha256 sha;   /* of whoever hashes: the helper, else the caller */
    size_t hashed_bytes; /* likewise */
    uint8_t sha256[SHA256_BYTES];

    pthread_mutex_t lock; /* of ready_bytes, next and aborted */
    pthread_cond_t more;
    size_t ready_bytes;
    size_t next; /* the frame to be made next */

    struct store_upload *uploads[2]; /* prepared: the summary where there is one, the segment */
    size_t upload_count;
    uint64_t stored_bytes;
    bool has_blocks;

    bool aborted;       /* under the lock */
    bool helping;       /* the thread has not been joined */
    atomic_bool hashed; /* sha256 is there, sha released */
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

/* The next frame that nobody has begun and whose bytes are there. Lock held. */
static bool take_frame(struct wal_put *p, size_t *ret_index)
{
    size_t end = MIN_OF((p->next + 1) * WAL_OBJECT_FRAME_RAW, p->opts.len_bytes);

    if (p->aborted || p->next >= p->frame_total || end > p->ready_bytes)
        return false;
    *ret_index = p->next++;
    return true;
}

static enum ph_rc encode_chunk(struct wal_put *p, struct encoder *e, size_t index,
                               struct ph_err *err)
{
    struct chunk *c;
    size_t len = 0;

    if (encode_frame(p, e, index, &len, err) != PH_OK)
        return err->rc;
    c = xmalloc(sizeof *c + len);
    c->len_bytes = len;
    memcpy(c->bytes, e->scratch, len);
    atomic_store(&p->chunks[index], c);
    return PH_OK;
}

/* Make one frame; *ret_done: there is none to be made now. */
static enum ph_rc encode_one(struct wal_put *p, struct encoder *e, bool *ret_done,
                             struct ph_err *err)
{
    size_t index = 0;

    (void)pthread_mutex_lock(&p->lock);
    *ret_done = !take_frame(p, &index);
    (void)pthread_mutex_unlock(&p->lock);
    return *ret_done ? PH_OK : encode_chunk(p, e, index, err);
}

static void hash_upto(struct wal_put *p, size_t ready_bytes)
{
    if (atomic_load(&p->hashed))
        return;
    sha256_update(&p->sha, p->opts.bytes + p->hashed_bytes, ready_bytes - p->hashed_bytes);
    p->hashed_bytes = ready_bytes;
    if (ready_bytes == p->opts.len_bytes) {
        sha256_final(&p->sha, p->sha256);
        atomic_store(&p->hashed, true);
    }
}

void wal_put_ready(struct wal_put *p, size_t ready_bytes)
{
    bool done = false;

    PH_ASSERT(ready_bytes <= p->opts.len_bytes);
    (void)pthread_mutex_lock(&p->lock);
    p->ready_bytes = ready_bytes;
    (void)pthread_cond_signal(&p->more);
    (void)pthread_mutex_unlock(&p->lock);
    if (p->helping)
        return;
    hash_upto(p, ready_bytes);
    while (p->chunks != NULL && p->early_rc == PH_OK && !done)
        p->early_rc = encode_one(p, &p->own, &done, &p->early_err);
}

/* What the helper does next. */
struct task {
    size_t hash_upto; /* more than is hashed: hash */
    bool encode;      /* else make this frame */
    size_t index;
};

/* false: nothing is left to be done. */
static bool wait_for_task(struct wal_put *p, struct task *ret_task)
{
    bool hashed = atomic_load(&p->hashed);
    bool go;

    *ret_task = (struct task){0};
    (void)pthread_mutex_lock(&p->lock);
    for (;;) {
        go = !p->aborted && (!hashed || p->next < p->frame_total);
        if (!hashed && p->ready_bytes > p->hashed_bytes)
            ret_task->hash_upto = p->ready_bytes;
        else
            ret_task->encode = take_frame(p, &ret_task->index);
        if (!go || ret_task->encode || ret_task->hash_upto > 0)
            break;
        (void)pthread_cond_wait(&p->more, &p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return go;
}

static void *helper_main(void *arg)
{
    struct wal_put *p = arg;
    struct encoder e;
    struct task task;

    encoder_init(&e, &p->opts);
    while (p->early_rc == PH_OK && wait_for_task(p, &task)) {
        if (task.encode)
            p->early_rc = encode_chunk(p, &e, task.index, &p->early_err);
        else
            hash_upto(p, task.hash_upto);
    }
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
    sha256_init(&p->sha);
    encoder_init(&p->own, opts);
    if (p->frame_total <= WAL_PUT_FRAMES_MAX)
        p->chunks = xcalloc(p->frame_total, sizeof *p->chunks);
    if (opts->parallel && p->frame_total > 1 && p->chunks != NULL)
        /* No thread to be had: slower, not a failure. */
        p->helping = pthread_create(&p->helper, NULL, helper_main, p) == 0;
    *ret_put = p;
    return PH_OK;
}

static void chunks_release(struct wal_put *p)
{
    for (size_t i = 0; p->chunks != NULL && i < p->frame_total; i++)
        free(p->chunks[i]);
    free(steal_ptr(p->chunks));
}

void wal_put_abort(struct wal_put *p)
{
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    p->aborted = true;
    (void)pthread_cond_signal(&p->more);
    (void)pthread_mutex_unlock(&p->lock);
    helper_join(p);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_cond_destroy(&p->more);
    for (size_t i = 0; i < p->upload_count; i++)
        store_upload_abort(p->uploads[i]);
    if (!atomic_load(&p->hashed))
        sha256_release(&p->sha);
    chunks_release(p);
    encoder_release(&p->own);
    free(p);
}

/* Hash and frames, as far as they are not there yet. */
static enum ph_rc encode_rest(struct wal_put *p, struct ph_err *err)
{
    bool done = p->chunks == NULL;

    PH_ASSERT(p->ready_bytes == p->opts.len_bytes);
    if (p->helping)
        while (!done)
            if (encode_one(p, &p->own, &done, err) != PH_OK)
                return err->rc;
    helper_join(p);
    if (p->early_rc != PH_OK) {
        *err = p->early_err;
        return err->rc;
    }
    hash_upto(p, p->opts.len_bytes);
    while (!done)
        if (encode_one(p, &p->own, &done, err) != PH_OK)
            return err->rc;
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

static enum ph_rc write_frames(struct wal_put *p, struct store_upload *u, struct ph_err *err)
{
    for (size_t i = 0; i < p->frame_total; i++) {
        AUTO_FREE struct chunk *c = p->chunks == NULL ? NULL : atomic_exchange(&p->chunks[i], NULL);
        const uint8_t *bytes = c == NULL ? p->own.scratch : c->bytes;
        size_t len = c == NULL ? 0 : c->len_bytes;

        if (c == NULL && encode_frame(p, &p->own, i, &len, err) != PH_OK)
            return err->rc;
        if (store_upload_write(u, bytes, len, err) != PH_OK)
            return err->rc;
        p->stored_bytes += len;
    }
    return PH_OK;
}

static struct repo_key key_of(const struct wal_put *p, const char *suffix)
{
    const struct wal_archive *a = p->archive;
    char name[WAL_NAME_TEXT_BYTES + sizeof BLOCKS_SUFFIX];

    (void)snprintf(name, sizeof name, "%s%s", p->name, suffix);
    return repo_key_wal_file(a->cluster, a->id.pg_major, a->system, name);
}

static enum ph_rc upload_begin(struct wal_put *p, const char *suffix,
                               struct store_upload **ret_upload, struct ph_err *err)
{
    struct repo_key key = key_of(p, suffix);

    if (store_upload_begin(p->archive->store, key.text, ret_upload, err) != PH_OK)
        return err->rc;
    p->uploads[p->upload_count++] = *ret_upload;
    return PH_OK;
}

static enum ph_rc upload_blocks(struct wal_put *p, struct buf *blocks, struct ph_err *err)
{
    struct store_upload *u;

    block_summary_seal(blocks->data, blocks->len_bytes, p->sha256);
    if (upload_begin(p, BLOCKS_SUFFIX, &u, err) != PH_OK)
        return err->rc;
    store_upload_set_replace(u);
    store_upload_set_expendable(u);
    p->has_blocks = true;
    p->stored_bytes += blocks->len_bytes;
    if (store_upload_write(u, blocks->data, blocks->len_bytes, err) != PH_OK)
        return err->rc;
    return store_upload_finish(u, err);
}

static enum ph_rc upload_object(struct wal_put *p, struct ph_err *err)
{
    struct wal_object w = object_of(p);
    uint8_t header[WAL_OBJECT_HEADER_BYTES];
    struct store_upload *u;

    wal_object_encode(&w, header);
    if (upload_begin(p, "", &u, err) != PH_OK)
        return err->rc;
    p->stored_bytes += sizeof header;
    if (store_upload_write(u, header, sizeof header, err) != PH_OK ||
        write_frames(p, u, err) != PH_OK)
        return err->rc;
    return store_upload_finish(u, err);
}

enum ph_rc wal_put_prepare(struct wal_put *p, struct buf *blocks, struct ph_err *err)
{
    if (encode_rest(p, err) != PH_OK || (blocks != NULL && upload_blocks(p, blocks, err) != PH_OK))
        return err->rc;
    if (upload_object(p, err) != PH_OK)
        return err->rc;
    chunks_release(p);
    encoder_release(&p->own);
    p->own = (struct encoder){0};
    return PH_OK;
}

/* Another content has won the name, and our summary may stand beside it. */
static void blocks_take_away(const struct wal_put *p)
{
    struct repo_key key = key_of(p, BLOCKS_SUFFIX);
    struct ph_err err;
    struct buf now;
    bool ours;

    buf_init(&now, BLOCK_SUMMARY_BYTES_MAX);
    ours = store_get(p->archive->store, key.text, &now, &err) == PH_OK &&
           block_summary_is_of(now.data, now.len_bytes, p->sha256);
    if (ours && store_delete(p->archive->store, key.text, &err) != PH_OK)
        log_warn("archive.blocks", "%s", err.text);
    buf_release(&now);
}

/* The name was taken: is it the same file? */
static enum ph_rc meet_other(const struct wal_put *p, struct ph_err *err)
{
    struct wal_object head;
    enum ph_rc rc;

    if (wal_archive_head(p->archive, p->name, &head, err) != PH_OK)
        return err->rc;
    rc = wal_archive_same(p->archive, p->name, &head, p->opts.len_bytes, p->sha256, err);
    if (rc == PH_REFUSED && p->has_blocks)
        blocks_take_away(p);
    return rc;
}

static void publish_end(struct wal_publish *item, const struct store_commit *set)
{
    struct wal_put *p = item->put;

    item->rc = set->rc;
    item->result = (struct wal_put_result){.stored_bytes = p->stored_bytes};
    memcpy(item->result.sha256, p->sha256, sizeof p->sha256);
    if (set->rc == PH_EXISTS) {
        item->rc = meet_other(p, &item->err);
        item->result.was_there = true;
        item->result.stored_bytes = 0;
    } else if (set->rc != PH_OK) {
        item->err = set->err;
    }
    wal_put_abort(steal_ptr(item->put));
}

void wal_put_publish(struct wal_publish *items, size_t count)
{
    struct store_commit sets[WAL_PUT_PUBLISH_MAX];

    PH_ASSERT(count <= WAL_PUT_PUBLISH_MAX);
    for (size_t i = 0; i < count; i++)
        sets[i] = (struct store_commit){.uploads = items[i].put->uploads,
                                        .count = items[i].put->upload_count};
    store_upload_commit_sets(sets, count);
    for (size_t i = 0; i < count; i++) {
        items[i].put->upload_count = 0; /* taken */
        publish_end(&items[i], &sets[i]);
    }
}

enum ph_rc wal_put_commit(struct wal_put *p, struct buf *blocks, struct wal_put_result *ret_result,
                          struct ph_err *err)
{
    struct wal_publish item = {.put = p};

    if (wal_put_prepare(p, blocks, err) != PH_OK) {
        wal_put_abort(p);
        return err->rc;
    }
    wal_put_publish(&item, 1);
    if (item.rc == PH_OK)
        *ret_result = item.result;
    else
        *err = item.err;
    return item.rc;
}
