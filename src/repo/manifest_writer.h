/* SPDX-License-Identifier: MIT */
/*
 * Writes a manifest as a stream onto an upload, in path order, in constant memory but for the index
 * and the pack table (about 100 bytes a leaf of 1 MiB, 48 bytes a pack).
 *
 * Order of calls: open, then entries in byte order of their paths (manifest_writer_entry, _bundle_file, or
 * begin_file add_extents* end_file), then manifest_writer_late, late entries in restore order, finish. Packs
 * are named (pack_begin), at any time, and sealed before finish; an entry may point at a later one. abort may come at any
 * point after open, instead of finish.
 *
 * The extents of one file wait in a bounded buffer, because size and CRC are known only at its end;
 * when the buffer is full they go out as a record, and the rest follows in continuation records. The
 * last record of a file has its true size and CRC.
 *
 * Threads: one writer, one thread.
 */
#ifndef REPO_MANIFEST_WRITER_H
#define REPO_MANIFEST_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/compress.h"
#include "format/manifest_format.h"
#include "store/store.h"

struct manifest_writer;

struct manifest_writer_params {
    const char *cluster;
    const char *label;
    uint32_t page_size;
    uint64_t system_identifier;
    enum codec_method method; /* of the manifest's own frames */
    int level;
};

struct manifest_summary {
    uint64_t manifest_bytes;
    uint8_t sha256[32];
    uint64_t files;   /* regular files, continuations not counted */
    uint64_t records; /* all records, continuations not counted */
    uint64_t extents;
    uint64_t logical_bytes; /* of all regular files */
};

/* Begin the upload. params are borrowed for the call. Errors: those of store_upload_begin. */
MUST_CHECK enum ph_rc manifest_writer_open(struct store *store,
                                           const struct manifest_writer_params *params,
                                           struct manifest_writer **ret_writer, struct ph_err *err);
/* NULL is fine. Nothing remains in the store. */
void manifest_writer_abort(struct manifest_writer *w);

/* Place of "user:group" in the owner table, added when new. LIMIT above 65,535 owners. */
MUST_CHECK enum ph_rc manifest_writer_owner(struct manifest_writer *w, const char *user_group,
                                            uint16_t *ret_owner, struct ph_err *err);

/*
 * Name a pack; run is "STAMP-RUN". ret_place is what entries carry in `pack`. A pack of an older run
 * is named likewise, and sealed right after with what is known of it.
 */
MUST_CHECK enum ph_rc manifest_writer_pack_begin(struct manifest_writer *w, const char *run,
                                                 uint32_t sequence, uint32_t *ret_place,
                                                 struct ph_err *err);
void manifest_writer_pack_seal(struct manifest_writer *w, uint32_t place, uint64_t size_bytes,
                               const uint8_t sha256[32]);

/* A directory, a link, or a regular file without bytes (size 0). attrs are borrowed for the call. */
MUST_CHECK enum ph_rc manifest_writer_entry(struct manifest_writer *w,
                                            const struct manifest_attrs *attrs, struct ph_err *err);
/* A whole small file in a bundle frame; attrs with its true size and CRC. */
MUST_CHECK enum ph_rc manifest_writer_bundle_file(struct manifest_writer *w,
                                                  const struct manifest_attrs *attrs,
                                                  const struct manifest_bundle *bundle,
                                                  struct ph_err *err);

/* A file made of extents: attrs (copied) with the size as listed. */
MUST_CHECK enum ph_rc manifest_writer_begin_file(struct manifest_writer *w,
                                                 const struct manifest_attrs *attrs,
                                                 struct ph_err *err);
/*
 * The next extents of the file, with their deltas: delta_count is the sum of entries[].deltas, in the
 * order of the entries.
 */
MUST_CHECK enum ph_rc manifest_writer_add_extents(struct manifest_writer *w,
                                                  const struct extent_entry *entries,
                                                  uint32_t entry_count,
                                                  const struct delta_entry *deltas,
                                                  uint32_t delta_count, struct ph_err *err);
/* The file's true size and CRC. A file that turned out empty has no extents: that is fine. */
MUST_CHECK enum ph_rc manifest_writer_end_file(struct manifest_writer *w, uint64_t size_bytes,
                                               uint32_t crc32c, struct ph_err *err);
/*
 * The same for a file with extents of older backups, whose CRC is not known: its last record gets
 * MANIFEST_NO_CRC.
 */
MUST_CHECK enum ph_rc manifest_writer_end_file_no_crc(struct manifest_writer *w,
                                                      uint64_t size_bytes, struct ph_err *err);

/* All entries from now on are late. Their flag is set by the writer. */
MUST_CHECK enum ph_rc manifest_writer_late(struct manifest_writer *w, struct ph_err *err);

/* Write tables and trailer, commit the upload. Frees the writer in every case. */
MUST_CHECK enum ph_rc manifest_writer_finish(struct manifest_writer *w,
                                             struct manifest_summary *ret_summary,
                                             struct ph_err *err);

#endif
