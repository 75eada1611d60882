/* SPDX-License-Identifier: MIT */
/*
 * The walk (retain_walk.h): wal/SYSTEM/TIMELINE/PREFIX/NAME. What does not fit its place is a stray.
 */
#include "engine/retain/retain_walk.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/wal_name.h"
#include "repo/repo_keys.h"

#define BLOCKS_SUFFIX ".blocks"
#define HEX8          8

struct walk {
    struct store *store;
    const struct cluster_info *cluster;
    const struct retain_walker *walker;
    uint32_t system;
    uint32_t seg_bytes;
    ph_tli tli;
    const char *above;  /* the prefix being listed */
    const char *prefix; /* of segments: their second third */
};

static bool is_hex8(const char *name)
{
    return strlen(name) == HEX8 && strspn(name, "0123456789ABCDEF") == HEX8;
}

static enum ph_rc give(struct walk *w, const struct store_entry *e, struct retain_wal_file file,
                       struct ph_err *err)
{
    AUTO_FREE char *key = xasprintf("%s/%s", w->above, e->name);

    file.system = w->system;
    file.tli = w->tli;
    file.key = key;
    file.size_bytes = e->size_bytes;
    return w->walker->visit(w->walker->ctx, &file, err);
}

static enum ph_rc visit_file(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct walk *w = ctx;
    struct retain_wal_file file = {.kind = RETAIN_FILE_STRAY};
    AUTO_FREE char *name = xstrdup(e->name);
    struct wal_name parsed;
    struct ph_err not_wal;
    bool blocks = str_ends(name, BLOCKS_SUFFIX);

    if (blocks)
        name[strlen(name) - strlen(BLOCKS_SUFFIX)] = '\0';
    if (e->is_prefix || wal_name_parse(name, w->seg_bytes, &parsed, &not_wal) != PH_OK ||
        parsed.kind == WAL_NAME_HISTORY || parsed.tli != w->tli ||
        memcmp(name + HEX8, w->prefix, HEX8) != 0 || (blocks && parsed.kind != WAL_NAME_SEGMENT))
        return give(w, e, file, err);
    file.segno = parsed.segno;
    file.kind = blocks                            ? RETAIN_FILE_BLOCKS
                : parsed.kind == WAL_NAME_SEGMENT ? RETAIN_FILE_SEGMENT
                : parsed.kind == WAL_NAME_PARTIAL ? RETAIN_FILE_PARTIAL
                                                  : RETAIN_FILE_BACKUP;
    return give(w, e, file, err);
}

static enum ph_rc visit_prefix(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct walk *w = ctx;
    const char *above = w->above;
    AUTO_FREE char *below = xasprintf("%s/%s", above, e->name);
    struct retain_wal_file file = {.kind = RETAIN_FILE_STRAY};
    struct wal_name parsed;
    struct ph_err not_wal;
    enum ph_rc rc;

    if (!e->is_prefix && wal_name_parse(e->name, w->seg_bytes, &parsed, &not_wal) == PH_OK &&
        parsed.kind == WAL_NAME_HISTORY && parsed.tli == w->tli)
        file.kind = RETAIN_FILE_HISTORY;
    if (!e->is_prefix || !is_hex8(e->name))
        return give(w, e, file, err);
    w->above = below;
    w->prefix = e->name;
    rc = store_list(w->store, below, true, visit_file, w, err);
    if (rc == PH_OK)
        rc = w->walker->folder_end(w->walker->ctx, below, err);
    w->above = above;
    return rc;
}

static enum ph_rc visit_timeline(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct walk *w = ctx;
    const char *above = w->above;
    AUTO_FREE char *below = xasprintf("%s/%s", above, e->name);
    uint64_t tli = 0;
    enum ph_rc rc;

    if (!e->is_prefix || !is_hex8(e->name) || !num_parse_hex_u64(e->name, HEX8, &tli) || tli == 0)
        return give(w, e, (struct retain_wal_file){.kind = RETAIN_FILE_STRAY}, err);
    w->tli = (ph_tli)tli;
    w->above = below;
    rc = store_list(w->store, below, true, visit_prefix, w, err);
    w->above = above;
    w->tli = 0;
    return rc;
}

static enum ph_rc visit_system(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct walk *w = ctx;
    const char *above = w->above;
    AUTO_FREE char *below = xasprintf("%s/%s", above, e->name);
    enum ph_rc rc;

    w->system = 0;
    for (uint32_t i = 0; e->is_prefix && i < w->cluster->system_count; i++)
        if (strcmp(
                repo_key_wal_system(w->cluster->name, w->cluster->systems[i].pg_major, i + 1).text,
                below) == 0)
            w->system = i + 1;
    if (w->system == 0)
        return give(w, e, (struct retain_wal_file){.kind = RETAIN_FILE_STRAY}, err);
    w->seg_bytes = w->cluster->systems[w->system - 1].wal_segment_size;
    w->above = below;
    rc = store_list(w->store, below, true, visit_timeline, w, err);
    w->above = above;
    return rc;
}

enum ph_rc retain_walk(struct store *store, const struct cluster_info *cluster,
                       const struct retain_walker *walker, struct ph_err *err)
{
    struct repo_key top = repo_key_wal(cluster->name);
    struct walk w = {.store = store, .cluster = cluster, .walker = walker, .above = top.text};

    return store_list(store, top.text, true, visit_system, &w, err);
}
