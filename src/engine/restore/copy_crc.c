/* SPDX-License-Identifier: MIT */
/*
 * CRC-32Cs that are added up (copy_crc.h).
 */
#include "engine/restore/copy_crc.h"

#include <string.h>

#include "base/mem.h"
#include "codec/checksum.h"

void copy_crc_job(struct copy_job *j)
{
    uint32_t crc = 0;
    uint32_t at = 0;

    if (!j->file->measure)
        return;
    for (uint32_t i = 0; i < j->extent_count; i++) {
        const struct copy_extent *x = &j->extents[i];
        const uint8_t *bytes = !x->needed ? j->local : j->out;

        if (bytes != NULL)
            crc = crc32c(crc, bytes + at, x->logical_len);
        else /* holes */
            crc = crc32c_zeros(crc, x->logical_len);
        at += x->logical_len;
    }
    struct crc32c_shift back = crc32c_shift_back(j->offset + j->logical_len);
    atomic_fetch_xor(&j->file->crc32c, crc32c_join(crc, 0, back));
}

uint32_t copy_crc_file(const struct copy_file *f)
{
    return crc32c_combine(f->crc32c, 0, f->size_bytes);
}

bool restore_begins_extents(const struct manifest_record *r)
{
    return r->storage == MANIFEST_EXTENTS && !(r->attrs.flags & MANIFEST_CONTINUATION);
}

bool restore_crc_is_measured(const struct manifest_record *r, uint32_t extent_bytes)
{
    return (r->attrs.flags & MANIFEST_NO_CRC) != 0 ||
           (uint64_t)r->extent_count * extent_bytes < r->attrs.size_bytes;
}

void restore_crc_put(struct restore_job *job, uint32_t number, uint32_t crc)
{
    if (number >= job->file_crc_count) {
        uint32_t count = MAX_OF(number + 1, 2 * job->file_crc_count);

        job->file_crcs = xrealloc(job->file_crcs, count * sizeof *job->file_crcs);
        memset(job->file_crcs + job->file_crc_count, 0,
               (count - job->file_crc_count) * sizeof *job->file_crcs);
        job->file_crc_count = count;
    }
    job->file_crcs[number] = crc;
}

uint32_t restore_crc_get(const struct restore_job *job, uint32_t number)
{
    return number < job->file_crc_count ? job->file_crcs[number] : 0;
}
