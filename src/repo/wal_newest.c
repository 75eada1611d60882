/* SPDX-License-Identifier: MIT */
/*
 * The highest segment of a timeline (wal_newest.h): the last folder that holds one.
 */
#include "repo/wal_newest.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "repo/repo_keys.h"

#define PREFIX_DIGITS ((size_t)8)
#define NAME_DIGITS   ((size_t)16) /* timeline and prefix */

struct newest {
    const struct wal_archive *archive;
    ph_tli tli;
    uint32_t *prefixes; /* in the order of the listing: ascending */
    size_t prefix_count;
    size_t prefix_cap;
    bool found;
    uint64_t segno;
};

static enum ph_rc see_prefix(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct newest *n = ctx;
    uint64_t prefix;

    (void)err;
    if (!entry->is_prefix || strlen(entry->name) != PREFIX_DIGITS ||
        !num_parse_hex_u64(entry->name, PREFIX_DIGITS, &prefix))
        return PH_OK;
    if (n->prefix_count == n->prefix_cap) {
        n->prefix_cap = n->prefix_cap == 0 ? 64 : 2 * n->prefix_cap;
        n->prefixes = xrealloc(n->prefixes, n->prefix_cap * sizeof *n->prefixes);
    }
    n->prefixes[n->prefix_count++] = (uint32_t)prefix;
    return PH_OK;
}

static enum ph_rc see_segment(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct newest *n = ctx;
    struct wal_name name;
    struct ph_err not_wal;

    (void)err;
    if (entry->is_prefix ||
        wal_name_parse(entry->name, n->archive->id.wal_segment_size, &name, &not_wal) != PH_OK ||
        name.kind != WAL_NAME_SEGMENT || name.tli != n->tli)
        return PH_OK;
    n->segno = n->found ? MAX_OF(n->segno, name.segno) : name.segno;
    n->found = true;
    return PH_OK;
}

enum ph_rc wal_archive_newest(const struct wal_archive *a, ph_tli tli, bool *ret_found,
                              uint64_t *ret_segno, struct ph_err *err)
{
    struct repo_key top = repo_key_wal_timeline(a->cluster, a->id.pg_major, a->system, tli);
    struct newest n = {.archive = a, .tli = tli};
    enum ph_rc rc = store_list(a->store, top.text, false, see_prefix, &n, err);

    for (size_t i = n.prefix_count; rc == PH_OK && !n.found && i > 0; i--) {
        char name[NAME_DIGITS + 1];
        struct repo_key folder;

        (void)snprintf(name, sizeof name, "%08X%08X", tli, n.prefixes[i - 1]);
        folder = repo_key_wal_prefix(a->cluster, a->id.pg_major, a->system, name);
        rc = store_list(a->store, folder.text, false, see_segment, &n, err);
    }
    free(n.prefixes);
    if (rc != PH_OK)
        return rc;
    *ret_found = n.found;
    *ret_segno = n.segno;
    return PH_OK;
}
