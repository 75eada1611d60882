/* SPDX-License-Identifier: MIT */
/*
 * Small files in bundles: a bundle is decoded once for all its files. What a manifest says of them is
 * summed up and noted with the frame, so that the next manifest that says the same costs nothing.
 */
#include "engine/verify/verify_refs.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/checksum.h"
#include "format/frame.h"

#define CLAIM_BYTES 16

/* One file of the run becomes the file at hand, for reports. */
static void show_file(struct walk *w, const struct bundle_file *f)
{
    w->path_len = f->path_len;
    memcpy(w->path, w->bundle.paths.data + f->path_at, f->path_len);
    w->file_lost = false;
    w->reported_count = 0;
}

static void run_begin(struct walk *w, const struct manifest_bundle *b)
{
    w->bundle.ref = (struct reference){.name = "place",
                                       .slot = w->slots[b->pack],
                                       .offset = b->frame_offset,
                                       .len_bytes = b->frame_len,
                                       .kind = FRAME_BUNDLE};
    w->bundle.count = 0;
    buf_reset(&w->bundle.paths);
}

static bool same_run(const struct walk *w, const struct manifest_bundle *b)
{
    const struct reference *ref = &w->bundle.ref;

    return w->bundle.count > 0 && ref->slot == w->slots[b->pack] &&
           ref->offset == b->frame_offset && ref->len_bytes == b->frame_len &&
           w->bundle.paths.len_bytes + MANIFEST_PATH_BYTES_MAX <= WALK_PATHS_BYTES;
}

enum ph_rc walk_bundle_add(struct walk *w, const struct manifest_record *r, struct ph_err *err)
{
    struct bundle_run *run = &w->bundle;

    if (r->attrs.size_bytes == 0)
        return PH_OK;
    if (!same_run(w, &r->bundle)) {
        if (walk_bundle_end(w, err) != PH_OK)
            return err->rc;
        run_begin(w, &r->bundle);
    }
    if (run->count == run->cap) {
        run->cap = run->cap == 0 ? 64 : 2 * run->cap;
        run->files = xrealloc(run->files, run->cap * sizeof *run->files);
    }
    run->files[run->count++] = (struct bundle_file){
        .path_at = run->paths.len_bytes,
        .path_len = r->attrs.path_len,
        .raw_offset = r->bundle.raw_offset,
        .size_bytes = (uint32_t)MIN_OF(r->attrs.size_bytes, (uint64_t)UINT32_MAX),
        .xxh3 = r->bundle.xxh3,
    };
    buf_add(&run->paths, r->attrs.path, r->attrs.path_len);
    return PH_OK;
}

/* What the manifest says of the run's files, as one number. */
static uint64_t claims(const struct bundle_run *run)
{
    struct xxh3_stream *s = xxh3_stream_new();
    uint64_t sum;

    for (size_t i = 0; i < run->count; i++) {
        uint8_t bytes[CLAIM_BYTES];

        put_le32(bytes, run->files[i].raw_offset);
        put_le32(bytes + 4, run->files[i].size_bytes);
        put_le64(bytes + 8, run->files[i].xxh3);
        xxh3_stream_update(s, bytes, sizeof bytes);
    }
    sum = xxh3_stream_digest(s);
    xxh3_stream_free(s);
    return sum;
}

/* Without the content: the file lies within the bundle's bytes. */
static bool file_fits(const struct bundle_file *f, uint32_t raw_len)
{
    return f->raw_offset <= raw_len && f->size_bytes <= raw_len - f->raw_offset;
}

static enum ph_rc compare(struct walk *w, struct frame_fact *fact, struct ph_err *err)
{
    struct bundle_run *run = &w->bundle;
    uint64_t sum = claims(run);
    uint64_t known = 0;
    bool all = true;

    if (verify_maps_sum(w->job->maps, fact, fact->raw_len, &known) && known == sum)
        return PH_OK;
    if (walk_decode(w, run->ref.slot, fact, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < run->count; i++) {
        const struct bundle_file *f = &run->files[i];

        if (file_fits(f, fact->raw_len) &&
            xxh3_64(w->lane->raw + f->raw_offset, f->size_bytes) == f->xxh3)
            continue;
        all = false;
        show_file(w, f);
        run->ref.number = f->raw_offset;
        run->ref.len_bytes = f->size_bytes;
        walk_mismatch(w, &run->ref, "the bundle does not hold the file that the manifest means");
    }
    if (all)
        verify_maps_note(w->job->maps, fact, fact->raw_len, sum);
    return PH_OK;
}

enum ph_rc walk_bundle_end(struct walk *w, struct ph_err *err)
{
    struct bundle_run *run = &w->bundle;
    AUTO_FREE char *path = xmalloc(MANIFEST_PATH_BYTES_MAX);
    size_t path_len = w->path_len;
    struct frame_fact *fact = NULL;
    enum ph_rc rc = PH_OK;

    if (run->count == 0)
        return PH_OK;
    memcpy(path, w->path, path_len); /* the record that ends the run is at hand already */
    for (size_t i = 0; i < run->count && rc == PH_OK; i++) {
        /* Each file counts as a reference, and is lost with the frame. */
        show_file(w, &run->files[i]);
        rc = walk_frame(w, &run->ref, &fact, err);
        if (fact == NULL)
            continue;
        w->references += run->count - 1;
        break;
    }
    if (rc == PH_OK && fact != NULL && fact->known)
        rc = compare(w, fact, err);
    run->count = 0;
    w->path_len = path_len;
    memcpy(w->path, path, path_len);
    w->file_lost = false;
    w->reported_count = 0;
    return rc;
}
