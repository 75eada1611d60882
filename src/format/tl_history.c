/* SPDX-License-Identifier: MIT */
/*
 * Timeline histories (tl_history.h). Queries go from the newest timeline to the oldest, as the server
 * does: so the answer is its own also where LSNs in a file do not ascend.
 */
#include "format/tl_history.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/wal_name.h"

/* One line of the text, without its end. */
struct line {
    const char *p;
    size_t len;
};

void tl_history_release(struct tl_history *h)
{
    free(h->entries);
    *h = (struct tl_history){0};
}

void tl_history_root(ph_tli tli, struct tl_history *ret_h)
{
    *ret_h = (struct tl_history){.tli = tli};
}

static bool is_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r';
}

static void skip_blanks(struct line *l)
{
    while (l->len > 0 && is_blank(*l->p)) {
        l->p++;
        l->len--;
    }
}

/* The next word, at most size - 1 bytes, into ret_word; false where it is longer or there is none. */
static bool next_word(struct line *l, char *ret_word, size_t size)
{
    size_t len = 0;

    skip_blanks(l);
    while (l->len > 0 && !is_blank(*l->p)) {
        if (len + 1 >= size)
            return false;
        ret_word[len++] = *l->p++;
        l->len--;
    }
    ret_word[len] = 0;
    return len > 0;
}

static enum ph_rc parse_line(struct line l, size_t number, struct tl_history_entry *ret_e,
                             struct ph_err *err)
{
    char word[32];
    uint64_t tli;
    size_t reason_len;

    if (!next_word(&l, word, sizeof word) || !num_parse_u64(word, &tli) || tli == 0 ||
        tli > UINT32_MAX) {
        err_set(err, PH_CORRUPT, "line %zu does not begin with a timeline", number);
        return PH_CORRUPT;
    }
    if (!next_word(&l, word, sizeof word) || !num_parse_lsn(word, &ret_e->switch_lsn)) {
        err_set(err, PH_CORRUPT, "line %zu has no LSN behind the timeline", number);
        return PH_CORRUPT;
    }
    ret_e->tli = (ph_tli)tli;
    skip_blanks(&l);
    reason_len = MIN_OF(l.len, (size_t)TL_HISTORY_REASON_BYTES - 1);
    memcpy(ret_e->reason, l.p, reason_len);
    ret_e->reason[reason_len] = 0;
    return PH_OK;
}

/* Append e, whose timeline must be newer than those before and older than the file's. */
static enum ph_rc add_entry(struct tl_history *h, size_t *cap, size_t number,
                            struct tl_history_entry *e, struct ph_err *err)
{
    ph_tli before = h->count > 0 ? h->entries[h->count - 1].tli : 0;

    if (e->tli <= before)
        return err_set(err, PH_CORRUPT, "line %zu: timeline %u stands behind timeline %u", number,
                       e->tli, before);
    if (e->tli >= h->tli)
        return err_set(err, PH_CORRUPT, "line %zu: timeline %u is no ancestor of timeline %u",
                       number, e->tli, h->tli);
    if (h->count == TL_HISTORY_ENTRIES_MAX)
        return err_set(err, PH_LIMIT, "more than %u timelines", TL_HISTORY_ENTRIES_MAX);
    e->begin_lsn = h->count > 0 ? h->entries[h->count - 1].switch_lsn : 0;
    if (h->count == *cap) {
        *cap = MAX_OF(*cap * 2, (size_t)16);
        h->entries = xrealloc(h->entries, *cap * sizeof *h->entries);
    }
    h->entries[h->count++] = *e;
    return PH_OK;
}

static enum ph_rc parse_lines(struct tl_history *h, const char *text, size_t len_bytes,
                              struct ph_err *err)
{
    size_t cap = 0;
    size_t number = 0;
    size_t pos = 0;

    while (pos < len_bytes) {
        const char *nl = memchr(text + pos, '\n', len_bytes - pos);
        size_t end = nl == NULL ? len_bytes : (size_t)(nl - text);
        struct line l = {.p = text + pos, .len = end - pos};
        struct tl_history_entry e;
        enum ph_rc rc;

        pos = end + 1;
        number++;
        skip_blanks(&l);
        if (l.len == 0 || *l.p == '#')
            continue;
        rc = parse_line(l, number, &e, err);
        if (rc == PH_OK)
            rc = add_entry(h, &cap, number, &e, err);
        if (rc != PH_OK)
            return rc;
    }
    return PH_OK;
}

enum ph_rc tl_history_parse(ph_tli tli, const char *text, size_t len_bytes,
                            struct tl_history *ret_h, struct ph_err *err)
{
    struct tl_history h = {.tli = tli};
    enum ph_rc rc;

    if (len_bytes > TL_HISTORY_BYTES_MAX)
        return err_set(err, PH_LIMIT, "timeline history of %zu bytes exceeds %u", len_bytes,
                       TL_HISTORY_BYTES_MAX);
    if (tli == 0)
        return err_set(err, PH_CORRUPT, "timeline 0 has no history");
    if (len_bytes == 0)
        return err_set(err, PH_CORRUPT, "the history of timeline %u is empty", tli);
    if (memchr(text, 0, len_bytes) != NULL)
        return err_set(err, PH_CORRUPT, "the history of timeline %u is not text", tli);
    rc = parse_lines(&h, text, len_bytes, err);
    if (rc == PH_OK && h.count == 0)
        rc = err_set(err, PH_CORRUPT, "the history of timeline %u names no ancestor", tli);
    if (rc != PH_OK) {
        tl_history_release(&h);
        return rc;
    }
    *ret_h = h;
    return PH_OK;
}

void tl_history_encode(const struct tl_history *h, struct buf *out)
{
    for (size_t i = 0; i < h->count; i++)
        buf_printf(out, "%u\t" PH_LSN_FMT "\t%s\n", h->entries[i].tli,
                   PH_LSN_ARGS(h->entries[i].switch_lsn), h->entries[i].reason);
}

bool tl_history_contains(const struct tl_history *h, ph_tli ancestor, ph_lsn *ret_end_lsn)
{
    ph_lsn end_lsn = UINT64_MAX;
    bool found = ancestor == h->tli;

    for (size_t i = h->count; i-- > 0 && !found;) {
        end_lsn = MIN_OF(end_lsn, h->entries[i].switch_lsn);
        found = h->entries[i].tli == ancestor;
    }
    if (found && ret_end_lsn != NULL)
        *ret_end_lsn = end_lsn;
    return found;
}

ph_tli tl_history_tli_of_lsn(const struct tl_history *h, ph_lsn lsn)
{
    ph_tli tli = h->tli;

    for (size_t i = h->count; i-- > 0;) {
        if (lsn >= h->entries[i].switch_lsn)
            return tli;
        tli = h->entries[i].tli;
    }
    return tli;
}

ph_tli tl_history_tli_of_segment(const struct tl_history *h, uint64_t segno, uint32_t seg_bytes)
{
    return tl_history_tli_of_lsn(h, wal_segno_start_lsn(segno, seg_bytes) + seg_bytes - 1);
}

bool tl_history_has_point(const struct tl_history *h, ph_tli tli, ph_lsn lsn)
{
    ph_lsn end_lsn;

    return tl_history_contains(h, tli, &end_lsn) && lsn <= end_lsn;
}

/* The i-th timeline of the lineage, the own one last. */
static ph_tli lineage_tli(const struct tl_history *h, size_t i)
{
    return i < h->count ? h->entries[i].tli : h->tli;
}

ph_lsn tl_history_fork_lsn(const struct tl_history *h, const struct tl_history *other)
{
    ph_lsn fork_lsn = 0;

    for (size_t i = 0; i <= h->count && i <= other->count; i++) {
        ph_lsn end_h = UINT64_MAX;
        ph_lsn end_other = UINT64_MAX;

        if (lineage_tli(h, i) != lineage_tli(other, i))
            return fork_lsn;
        (void)tl_history_contains(h, lineage_tli(h, i), &end_h);
        (void)tl_history_contains(other, lineage_tli(other, i), &end_other);
        fork_lsn = MIN_OF(end_h, end_other);
        if (end_h != end_other)
            return fork_lsn;
    }
    return fork_lsn;
}
