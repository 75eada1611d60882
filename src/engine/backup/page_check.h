/* SPDX-License-Identifier: MIT */
/*
 * Page checks during a backup: which pages are damaged, which were only being written.
 *
 * A page that fails is read again, from the device and as other processes see it. Content that changed
 * was being written: WAL repairs it. Content that stays wrong is corruption and becomes a finding. A
 * page newer than everything the server had written when the backup ended is corrupt whatever its
 * checksum says; such pages are kept as candidates and judged at the end.
 */
#ifndef ENGINE_BACKUP_PAGE_CHECK_H
#define ENGINE_BACKUP_PAGE_CHECK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/num.h"
#include "engine/backup/batch.h"
#include "format/pg_page.h"

#define PAGE_FINDINGS_MAX 1000 /* kept with names; further ones are counted */

struct page_finding {
    char *path;
    uint64_t block; /* within the file, as path and block together are looked up */
    ph_lsn lsn;     /* of the page, whatever it is worth */
    enum pg_page_status status;
};

struct page_check {
    bool enabled;
    size_t page_bytes;
    _Atomic uint64_t known_lsn; /* an insert position the server has told lately */
    pthread_mutex_t lock;
    struct page_finding findings[PAGE_FINDINGS_MAX];
    size_t kept;
    uint64_t count; /* findings, kept or not; candidates excluded */
    struct page_finding ahead[PAGE_FINDINGS_MAX];
    size_t ahead_kept;
    _Atomic uint64_t rereads;
};

/* enabled: the cluster has checksums and the user wants them verified. */
struct page_check *page_check_new(bool enabled, size_t page_bytes, ph_lsn known_lsn);
void page_check_free(struct page_check *pc);

/*
 * Read len_bytes at offset of a source's file anew, around the other stages. What is beyond its end, or of a
 * file that is gone by now, is zero: WAL says so, too. Threads: any. Errors: AUTH, IO.
 *
 * offset, len_bytes  multiples of DIRECT_ALIGN_BYTES
 */
MUST_CHECK enum ph_rc page_check_read(const struct source *s, uint64_t offset, size_t len_bytes,
                                      uint8_t *ret_bytes, struct ph_err *err);

/*
 * Judge one page of a source that has relation pages. A page that was being written is replaced in
 * place by its newer content. Returns true where the page is all zero. Threads: any worker.
 *
 * page       page_bytes bytes, in the slab, aligned to SLAB_ALIGN_BYTES or following such
 * offset     in the file, a multiple of page_bytes
 */
bool page_check_one(struct page_check *pc, const struct source *s, uint64_t offset, uint8_t *page);

/* The server has told a newer position: candidates up to it were fine. */
void page_check_advance(struct page_check *pc, ph_lsn known_lsn);

/* After stop: candidates newer than stop_lsn become findings, the others are forgotten. */
void page_check_judge_ahead(struct page_check *pc, ph_lsn stop_lsn);

#endif
