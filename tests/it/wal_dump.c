/* SPDX-License-Identifier: MIT */
/*
 * Shows what our WAL decoder sees, as JSON lines, for tests that compare it with the server's own tools.
 *
 *   wal_dump --records FILE...               every record of consecutive segments
 *   wal_dump --summary [--sysid N] FILE...   each segment checked under its own name, then summarised
 *   wal_dump --chain [--from LSN --to LSN] FILE...
 *       segments summarised one by one, stored, loaded, added up and joined; must equal the summary of
 *       all records read in one go ("equal"); --from and --to print only what starts in between
 *   wal_dump --bench N FILE                  CPU milliseconds of N checks with summary
 *
 * Exit 1 with one line where something is no WAL.
 */
#include <roaring/roaring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/block_summary_chain.h"
#include "format/block_summary_codec.h"
#include "format/wal_check.h"

#define FILE_BYTES_MAX (GIB)

struct options {
    const char *mode;
    uint64_t sysid;
    ph_lsn from_lsn;
    ph_lsn to_lsn;
    unsigned rounds;
    char **files;
    int files_count;
};

static int complain(const struct ph_err *err)
{
    (void)fprintf(stderr, "wal_dump: %s: %s\n", ph_rc_name(err->rc), err->text);
    return 1;
}

static bool load(const char *path, struct buf *out)
{
    FILE *in = fopen(path, "rb");
    size_t n = 1;

    if (in == NULL)
        return false;
    while (n > 0) {
        uint8_t *at = buf_reserve(out, MIB);

        n = at == NULL ? 0 : fread(at, 1, MIB, in);
        out->len_bytes += n;
    }
    (void)fclose(in);
    return !out->overflowed;
}

static void print_record(const struct wal_record *rec)
{
    printf("{\"lsn\":\"%X/%08X\",\"rmgr\":\"%s\",\"rmid\":%u,\"info\":%u,\"len\":%u,\"xid\":%u,"
           "\"prev\":\"%X/%08X\",\"blocks\":[",
           PH_LSN_ARGS(rec->lsn), wal_rmgr_name(rec->rmgr), rec->rmgr, rec->info, rec->total_bytes,
           rec->xid, PH_LSN_ARGS(rec->prev_lsn));
    for (unsigned i = 0; i < rec->blocks_count; i++) {
        const struct wal_block_ref *b = &rec->blocks[i];

        printf("%s[%u,%u,%u,%u,%u,%u,%s]", i == 0 ? "" : ",", b->id, b->rel.spc, b->rel.db,
               b->rel.rel, b->fork, b->blkno, b->has_image ? "true" : "false");
    }
    printf("]}\n");
}

static void print_rel(const struct block_summary_rel *r)
{
    uint64_t count = r->blocks == NULL ? 0 : roaring_bitmap_get_cardinality(r->blocks);
    uint32_t *blocks = xcalloc(count, sizeof *blocks);

    if (count > 0)
        roaring_bitmap_to_uint32_array(r->blocks, blocks);
    printf("{\"rel\":[%u,%u,%u,%u],\"flags\":%u,\"limit\":", r->rel.spc, r->rel.db, r->rel.rel,
           r->fork, r->flags);
    if (r->limit == BLOCK_SUMMARY_NO_LIMIT)
        printf("null,\"blocks\":[");
    else
        printf("%u,\"blocks\":[", r->limit);
    for (uint64_t i = 0; i < count; i++)
        printf("%s%u", i == 0 ? "" : ",", blocks[i]);
    printf("]}");
    free(blocks);
}

static void print_event(const struct block_summary_event *e)
{
    AUTO_FREE char *name = str_escape(e->name);

    printf("{\"kind\":%d,\"lsn\":\"%X/%08X\",\"other\":\"%X/%08X\",\"time_us\":%lld,"
           "\"values\":[%u,%u,%u,%u],\"name\":\"%s\"}",
           (int)e->kind, PH_LSN_ARGS(e->lsn), PH_LSN_ARGS(e->other_lsn), (long long)e->time_us,
           e->values[0], e->values[1], e->values[2], e->values[3], name);
}

static void print_summary(const struct block_summary *s, const char *extra)
{
    printf("{\"major\":%u,\"sysid\":%llu,\"tli\":%u,\"first_tli\":%u,\"seg_bytes\":%u,"
           "\"start\":\"%X/%08X\",\"end\":\"%X/%08X\",\"end_kind\":%d,\"head_kind\":%d,"
           "\"head\":[%u,%u],\"tail\":[\"%X/%08X\",%u,%u],",
           s->major, (unsigned long long)s->sysid, s->tli, s->first_tli, s->seg_bytes,
           PH_LSN_ARGS(s->start_lsn), PH_LSN_ARGS(s->end_lsn), (int)s->end, (int)s->head_kind,
           s->head.total_bytes, s->head.here_bytes, PH_LSN_ARGS(s->tail.lsn), s->tail.total_bytes,
           s->tail.here_bytes);
    printf("\"flags\":%u,\"records\":%llu,\"images\":%llu,\"image_bytes\":%llu,"
           "\"first_xact_us\":%lld,\"last_xact_us\":%lld,\"last_xact\":\"%X/%08X\",%s\"rels\":[",
           s->flags, (unsigned long long)s->record_count, (unsigned long long)s->image_count,
           (unsigned long long)s->image_bytes, (long long)s->first_xact_us,
           (long long)s->last_xact_us, PH_LSN_ARGS(s->last_xact_lsn), extra);
    for (size_t i = 0; i < s->rels_count; i++) {
        if (i > 0)
            printf(",");
        print_rel(&s->rels[i]);
    }
    printf("],\"events\":[");
    for (size_t i = 0; i < s->events_count; i++) {
        if (i > 0)
            printf(",");
        print_event(&s->events[i]);
    }
    printf("]}\n");
}

/* All records of the bytes: printed, or added to sum where they start within the range. */
static enum ph_rc walk(const struct buf *wal, const struct options *o, struct block_summary *sum,
                       struct ph_err *err)
{
    const struct wal_source src = {.bytes = wal->data, .len_bytes = wal->len_bytes};
    struct wal_reader r;
    struct wal_record rec;
    bool have = true;
    enum ph_rc rc = wal_reader_open(&r, &src, err);

    if (rc != PH_OK)
        return rc;
    while (rc == PH_OK && have) {
        rc = wal_reader_next(&r, &rec, &have, err);
        if (rc != PH_OK || !have)
            break;
        if (sum == NULL)
            print_record(&rec);
        else if (rec.lsn >= o->from_lsn && rec.lsn < o->to_lsn)
            rc = block_summary_add_record(sum, r.version, &rec, err);
    }
    if (rc == PH_OK && sum == NULL)
        printf("{\"end\":\"%X/%08X\",\"end_kind\":%d,\"aborted\":%u}\n", PH_LSN_ARGS(r.end_lsn),
               (int)r.end, r.aborted_count);
    wal_reader_release(&r);
    return rc;
}

static int dump_records(const struct options *o)
{
    struct ph_err err;
    struct buf wal;
    bool ok = true;
    enum ph_rc rc;

    buf_init(&wal, 4 * FILE_BYTES_MAX);
    for (int i = 0; i < o->files_count; i++)
        ok = ok && load(o->files[i], &wal);
    rc = ok ? walk(&wal, o, NULL, &err) : err_set(&err, PH_IO, "could not read the files");
    buf_release(&wal);
    return rc == PH_OK ? 0 : complain(&err);
}

/* The file's name decides what is expected of it. */
static enum ph_rc summarise(const char *path, uint64_t sysid, struct block_summary *ret,
                            struct ph_err *err)
{
    const char *slash = strrchr(path, '/');
    const struct wal_check_opts opts = {.name = slash == NULL ? path : slash + 1, .sysid = sysid};
    struct buf wal;
    enum ph_rc rc;

    buf_init(&wal, FILE_BYTES_MAX + MIB);
    if (!load(path, &wal))
        rc = err_set(err, PH_IO, "could not read \"%s\"", path);
    else
        rc = wal_segment_check(wal.data, wal.len_bytes, &opts, NULL, ret, err);
    buf_release(&wal);
    return rc;
}

/* Store and load again, as the archive does. */
static enum ph_rc through_store(struct block_summary *s, struct ph_err *err)
{
    struct block_summary again;
    struct buf stored;
    enum ph_rc rc;

    buf_init(&stored, BLOCK_SUMMARY_BYTES_MAX);
    rc = block_summary_encode(s, &stored, err);
    if (rc == PH_OK)
        rc = block_summary_decode(stored.data, stored.len_bytes, &again, err);
    buf_release(&stored);
    if (rc == PH_OK) {
        block_summary_release(s);
        *s = again;
    }
    return rc;
}

static int dump_summaries(const struct options *o)
{
    for (int i = 0; i < o->files_count; i++) {
        struct block_summary s;
        struct ph_err err;
        enum ph_rc rc = summarise(o->files[i], o->sysid, &s, &err);

        if (rc != PH_OK)
            return complain(&err);
        rc = through_store(&s, &err);
        if (rc == PH_OK)
            print_summary(&s, "");
        block_summary_release(&s);
        if (rc != PH_OK)
            return complain(&err);
    }
    return 0;
}

static enum ph_rc add_file(struct block_summary_chain *chain, const char *path, uint64_t sysid,
                           struct ph_err *err)
{
    struct block_summary s;
    enum ph_rc rc = summarise(path, sysid, &s, err);

    if (rc != PH_OK)
        return rc;
    rc = through_store(&s, err);
    if (rc == PH_OK)
        rc = block_summary_chain_add(chain, &s, err);
    block_summary_release(&s);
    return rc;
}

static int dump_chain(const struct options *o)
{
    const struct options all = {.to_lsn = UINT64_MAX};
    struct block_summary_chain chain;
    struct block_summary whole;
    struct block_summary part;
    struct ph_err err;
    struct buf wal;
    enum ph_rc rc = PH_OK;

    buf_init(&wal, 4 * FILE_BYTES_MAX);
    block_summary_chain_init(&chain);
    block_summary_init(&whole);
    block_summary_init(&part);
    for (int i = 0; i < o->files_count && rc == PH_OK; i++) {
        rc = add_file(&chain, o->files[i], o->sysid, &err);
        if (rc == PH_OK && !load(o->files[i], &wal))
            rc = err_set(&err, PH_IO, "could not read \"%s\"", o->files[i]);
    }
    if (rc == PH_OK)
        rc = walk(&wal, &all, &whole, &err);
    if (rc == PH_OK)
        rc = walk(&wal, o, &part, &err);
    if (rc == PH_OK) {
        block_summary_sort(&part);
        print_summary(&part, block_summary_same_effects(&chain.sum, &whole) ? "\"equal\":true,"
                                                                            : "\"equal\":false,");
    }
    buf_release(&wal);
    block_summary_chain_release(&chain);
    block_summary_release(&whole);
    block_summary_release(&part);
    return rc == PH_OK ? 0 : complain(&err);
}

static int bench(const struct options *o)
{
    const struct wal_check_opts opts = {0};
    struct ph_err err;
    struct buf wal;
    enum ph_rc rc = PH_OK;

    buf_init(&wal, FILE_BYTES_MAX + MIB);
    if (!load(o->files[0], &wal))
        rc = err_set(&err, PH_IO, "could not read \"%s\"", o->files[0]);
    for (unsigned i = 0; i < o->rounds && rc == PH_OK; i++) {
        struct block_summary s;
        struct buf stored;
        clock_t from = clock();

        rc = wal_segment_check(wal.data, wal.len_bytes, &opts, NULL, &s, &err);
        if (rc != PH_OK)
            break;
        buf_init(&stored, BLOCK_SUMMARY_BYTES_MAX);
        rc = block_summary_encode(&s, &stored, &err);
        printf("{\"cpu_ms\":%.2f,\"records\":%llu,\"rels\":%zu,\"stored_bytes\":%zu}\n",
               1000.0 * (double)(clock() - from) / CLOCKS_PER_SEC,
               (unsigned long long)s.record_count, s.rels_count, stored.len_bytes);
        buf_release(&stored);
        block_summary_release(&s);
    }
    buf_release(&wal);
    return rc == PH_OK ? 0 : complain(&err);
}

static bool parse(int argc, char **argv, struct options *ret)
{
    uint64_t rounds = 1;
    int i = 1;

    *ret = (struct options){.mode = "", .to_lsn = UINT64_MAX};
    for (; i < argc && str_starts(argv[i], "--"); i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        bool ok = true;

        if (strcmp(argv[i], "--sysid") == 0)
            ok = num_parse_u64(argv[++i], &ret->sysid);
        else if (strcmp(argv[i], "--from") == 0)
            ok = num_parse_lsn(next, &ret->from_lsn) && ++i > 0;
        else if (strcmp(argv[i], "--to") == 0)
            ok = num_parse_lsn(next, &ret->to_lsn) && ++i > 0;
        else
            ret->mode = argv[i];
        if (ok && strcmp(ret->mode, "--bench") == 0 && rounds == 1)
            ok = num_parse_u64(next, &rounds) && rounds < 1000000 && ++i > 0;
        if (!ok)
            return false;
    }
    ret->rounds = (unsigned)rounds;
    ret->files = argv + i;
    ret->files_count = argc - i;
    return ret->files_count > 0;
}

int main(int argc, char **argv)
{
    struct options o;

    if (!parse(argc, argv, &o)) {
        (void)fprintf(stderr, "usage: wal_dump --records|--summary|--chain|--bench N FILE...\n");
        return 2;
    }
    if (strcmp(o.mode, "--records") == 0)
        return dump_records(&o);
    if (strcmp(o.mode, "--summary") == 0)
        return dump_summaries(&o);
    if (strcmp(o.mode, "--chain") == 0)
        return dump_chain(&o);
    return bench(&o);
}
