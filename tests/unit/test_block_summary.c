/* SPDX-License-Identifier: MIT */
/*
 * format/block_summary and format/wal_effect: what each record type adds, limits, merging.
 */
#include "format/block_summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/timeutil.h"
#include "wal_build.h"

#define LSN     UINT64_C(0x500100)
#define NOTHING 0

static const struct wal_rel REL = {1663, 5, 16384};

/* One record of main data alone into s. */
static enum ph_rc add(struct block_summary *s, unsigned major, uint8_t rmgr, uint8_t info,
                      const struct buf *main_data, struct ph_err *err)
{
    struct rec_build r = rb_new(rmgr, info);
    struct wal_record rec;
    enum ph_rc rc;

    rb_main(&r, main_data->data, main_data->len_bytes);
    rb_finish(&r, 0);
    assert_int_equal(
        wal_record_decode(r.head.data, r.head.len_bytes, wal_version_of_major(major), &rec, err),
        PH_OK);
    rec.lsn = LSN;
    rc = block_summary_add_record(s, wal_version_of_major(major), &rec, err);
    rb_release(&r);
    return rc;
}

/* Every cut of the main data but the whole is refused (those of `optional` bytes and more are fine). */
static void check_cuts(unsigned major, uint8_t rmgr, uint8_t info, const struct buf *whole,
                       size_t needed_bytes)
{
    for (size_t n = 0; n <= whole->len_bytes; n++) {
        struct buf cut = *whole;
        struct block_summary s;
        struct ph_err err;

        cut.len_bytes = n;
        block_summary_init(&s);
        assert_int_equal(add(&s, major, rmgr, info, &cut, &err),
                         n < needed_bytes ? PH_CORRUPT : PH_OK);
        block_summary_release(&s);
    }
}

static void add_rel(struct buf *b, struct wal_rel rel)
{
    buf_add_le32(b, rel.spc);
    buf_add_le32(b, rel.db);
    buf_add_le32(b, rel.rel);
}

static void commit_drops_relations(void **state)
{
    struct block_summary s;
    struct ph_err err;
    struct buf b;

    (void)state;
    buf_init(&b, MIB);
    buf_add_le64(&b, 1000000); /* a second after 2000 */
    buf_add_le32(&b, 7);       /* database, subtransactions, relations */
    buf_add_le64(&b, 0);
    buf_add_le32(&b, 2);
    buf_add_le64(&b, 0);
    buf_add_le32(&b, 1);
    add_rel(&b, REL);
    check_cuts(15, WAL_RMGR_XACT, WAL_XACT_COMMIT | WAL_XACT_HAS_INFO, &b, b.len_bytes);
    for (unsigned op = 0; op < 0x70; op += 0x10) {
        bool ends = op == WAL_XACT_COMMIT || op == WAL_XACT_ABORT ||
                    op == WAL_XACT_COMMIT_PREPARED || op == WAL_XACT_ABORT_PREPARED;

        block_summary_init(&s);
        block_summary_add_block(&s, REL, WAL_FORK_MAIN, 3);
        assert_int_equal(add(&s, 13, WAL_RMGR_XACT, (uint8_t)(op | WAL_XACT_HAS_INFO), &b, &err),
                         PH_OK);
        assert_int_equal(s.last_xact_lsn, ends ? LSN : 0);
        if (ends) {
            const struct block_summary_rel *r = block_summary_find(&s, REL, WAL_FORK_MAIN);

            assert_int_equal(r->limit, 0);
            assert_int_equal(r->flags, BLOCK_SUMMARY_DROPPED);
            assert_null(r->blocks);
            assert_non_null(block_summary_find(&s, REL, WAL_FORK_INIT));
            assert_int_equal(s.first_xact_us, PG_EPOCH_US + 1000000);
        }
        block_summary_release(&s);
    }
    buf_release(&b);
}

static void counts_that_do_not_fit_are_refused(void **state)
{
    struct block_summary s;
    struct ph_err err;
    struct buf b;

    (void)state;
    buf_init(&b, MIB);
    buf_add_le64(&b, 0);
    buf_add_le32(&b, WAL_XINFO_HAS_RELS);
    buf_add_le32(&b, UINT32_MAX);
    add_rel(&b, REL);
    block_summary_init(&s);
    assert_int_equal(add(&s, 15, WAL_RMGR_XACT, WAL_XACT_HAS_INFO, &b, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "WAL record at 0/500100: transaction end record: 4294967295"));
    block_summary_release(&s);
    buf_release(&b);
}

static void storage_is_created_and_cut(void **state)
{
    struct block_summary s;
    struct ph_err err;
    struct buf b;

    (void)state;
    buf_init(&b, MIB);
    add_rel(&b, REL);
    buf_add_le32(&b, WAL_FORK_INIT);
    check_cuts(17, WAL_RMGR_SMGR, WAL_SMGR_CREATE, &b, 16);
    block_summary_init(&s);
    assert_int_equal(add(&s, 15, WAL_RMGR_SMGR, WAL_SMGR_CREATE, &b, &err), PH_OK);
    assert_int_equal(block_summary_find(&s, REL, WAL_FORK_INIT)->flags, BLOCK_SUMMARY_CREATED);
    put_le32(b.data + 12, 4);
    assert_int_equal(add(&s, 15, WAL_RMGR_SMGR, WAL_SMGR_CREATE, &b, &err), PH_CORRUPT);
    assert_int_equal(add(&s, 15, WAL_RMGR_SMGR, 0x30, &b, &err), PH_OK);

    buf_reset(&b);
    buf_add_le32(&b, 10);
    add_rel(&b, REL);
    buf_add_le32(&b, 7);
    check_cuts(17, WAL_RMGR_SMGR, WAL_SMGR_TRUNCATE, &b, 20);
    for (uint32_t block = 8; block < 13; block++)
        block_summary_add_block(&s, REL, WAL_FORK_MAIN, block);
    assert_int_equal(add(&s, 15, WAL_RMGR_SMGR, WAL_SMGR_TRUNCATE, &b, &err), PH_OK);
    assert_int_equal(block_summary_find(&s, REL, WAL_FORK_MAIN)->limit, 10);
    assert_int_equal(block_summary_find(&s, REL, WAL_FORK_FSM)->limit, 0);
    assert_int_equal(block_summary_find(&s, REL, WAL_FORK_VM)->limit, 0);
    assert_false(block_summary_block_changed(&s, REL, WAL_FORK_MAIN, 7));
    assert_true(block_summary_block_changed(&s, REL, WAL_FORK_MAIN, 8));
    assert_true(block_summary_block_changed(&s, REL, WAL_FORK_MAIN, 10));
    assert_true(block_summary_block_changed(&s, REL, WAL_FORK_MAIN, UINT32_MAX));
    assert_true(block_summary_block_changed(&s, REL, WAL_FORK_VM, 0));
    /* The block just added and removed is added again. */
    block_summary_add_block(&s, REL, WAL_FORK_MAIN, 9);
    block_summary_set_limit(&s, REL, WAL_FORK_MAIN, 9, BLOCK_SUMMARY_TRUNCATED);
    block_summary_add_block(&s, REL, WAL_FORK_MAIN, 9);
    block_summary_sort(&s);
    assert_int_equal(block_summary_find(&s, REL, WAL_FORK_MAIN)->limit, 9);
    block_summary_release(&s);
    buf_release(&b);
}

static void databases_by_version(void **state)
{
    static const struct {
        unsigned major;
        uint8_t info;
        size_t needed;
        unsigned kind; /* of the event; 0: none */
    } cases[] = {
        {13, 0x00, 16, BLOCK_EVENT_DB_CREATE_COPY},
        {14, 0x10, 12, BLOCK_EVENT_DB_DROP},
        {14, 0x20, 0, NOTHING},
        {15, 0x00, 16, BLOCK_EVENT_DB_CREATE_COPY},
        {15, 0x10, 8, BLOCK_EVENT_DB_CREATE_WAL_LOG},
        {15, 0x20, 12, BLOCK_EVENT_DB_DROP},
        {18, 0x20, 12, BLOCK_EVENT_DB_DROP},
        {18, 0x30, 0, NOTHING},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct block_summary s;
        struct ph_err err;
        struct buf b;

        buf_init(&b, MIB);
        buf_add_le32(&b, 16500);
        buf_add_le32(&b, 1); /* the tablespace; or the number of those that follow */
        buf_add_le32(&b, 1663);
        buf_add_le32(&b, 1663);
        check_cuts(cases[i].major, WAL_RMGR_DBASE, cases[i].info, &b, cases[i].needed);
        block_summary_init(&s);
        assert_int_equal(add(&s, cases[i].major, WAL_RMGR_DBASE, cases[i].info, &b, &err), PH_OK);
        assert_int_equal(s.events_count, cases[i].kind != 0);
        if (cases[i].kind != 0) {
            uint32_t spc = cases[i].kind == BLOCK_EVENT_DB_DROP ? 1663 : 1;

            assert_int_equal(s.events[0].kind, cases[i].kind);
            assert_int_equal(s.events[0].values[0], 16500);
            assert_int_equal(s.events[0].values[1], spc);
            assert_true(block_summary_block_changed(&s, (struct wal_rel){spc, 16500, 77}, 0, 1));
            assert_false(block_summary_block_changed(&s, (struct wal_rel){spc, 16501, 77}, 0, 1));
        }
        block_summary_release(&s);
        buf_release(&b);
    }
}

/* Each event record: how much it needs, what becomes of it. The main data is 80 bytes of rising values. */
static void events_of_other_records(void **state)
{
    static const struct {
        uint8_t rmgr;
        uint8_t info;
        unsigned major;
        size_t needed;
        unsigned kind;
        uint32_t flags;
    } cases[] = {
        {WAL_RMGR_TBLSPC, 0x00, 15, 4, BLOCK_EVENT_TABLESPACE_CREATE, 0},
        {WAL_RMGR_TBLSPC, 0x10, 15, 4, BLOCK_EVENT_TABLESPACE_DROP, 0},
        {WAL_RMGR_TBLSPC, 0x20, 15, 0, NOTHING, 0},
        {WAL_RMGR_RELMAP, 0x00, 15, 8, BLOCK_EVENT_RELMAP, 0},
        {WAL_RMGR_RELMAP, 0x10, 15, 0, NOTHING, 0},
        {WAL_RMGR_XLOG, 0x00, 16, 24, BLOCK_EVENT_CHECKPOINT_SHUTDOWN, 0},
        {WAL_RMGR_XLOG, 0x10, 17, 24, BLOCK_EVENT_CHECKPOINT_ONLINE, 0},
        {WAL_RMGR_XLOG, 0x20, 15, 0, NOTHING, 0},
        {WAL_RMGR_XLOG, 0x50, 15, 8, BLOCK_EVENT_BACKUP_END, 0},
        {WAL_RMGR_XLOG, 0x60, 15, 26, BLOCK_EVENT_PARAMETERS, 0},
        {WAL_RMGR_XLOG, 0x70, 15, 72, BLOCK_EVENT_RESTORE_POINT, 0},
        {WAL_RMGR_XLOG, 0x80, 15, 1, BLOCK_EVENT_FULL_PAGE_WRITES, 0},
        {WAL_RMGR_XLOG, 0x90, 16, 16, BLOCK_EVENT_END_OF_RECOVERY, 0},
        {WAL_RMGR_XLOG, 0x90, 17, 20, BLOCK_EVENT_END_OF_RECOVERY, 0},
        {WAL_RMGR_XLOG, 0xD0, 15, 16, BLOCK_EVENT_OVERWRITE_CONTRECORD, 0},
        {WAL_RMGR_XLOG, 0xE0, 16, 0, NOTHING, 0},
        {WAL_RMGR_XLOG, 0xE0, 17, 4, BLOCK_EVENT_CHECKPOINT_REDO, 0},
        {WAL_RMGR_HEAP, 0x00, 15, 0, NOTHING, 0},
        {200, 0x00, 15, 0, NOTHING, BLOCK_SUMMARY_CUSTOM_RMGR},
    };
    struct buf b;

    (void)state;
    buf_init(&b, MIB);
    for (uint8_t i = 1; i <= 80; i++)
        buf_add_u8(&b, i);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct block_summary s;
        struct ph_err err;

        check_cuts(cases[i].major, cases[i].rmgr, cases[i].info, &b, cases[i].needed);
        block_summary_init(&s);
        assert_int_equal(add(&s, cases[i].major, cases[i].rmgr, cases[i].info, &b, &err), PH_OK);
        assert_int_equal(s.events_count, cases[i].kind != 0);
        assert_int_equal(s.flags, cases[i].flags);
        if (cases[i].kind != 0) {
            assert_int_equal(s.events[0].kind, cases[i].kind);
            assert_int_equal(s.events[0].lsn, LSN);
        }
        block_summary_release(&s);
    }
    buf_release(&b);
}

static void a_switch_is_an_event(void **state)
{
    const struct buf none = {0};
    struct block_summary s;
    struct block_summary sum;
    struct ph_err err;

    (void)state;
    block_summary_init(&s);
    block_summary_init(&sum);
    assert_int_equal(add(&s, 15, WAL_RMGR_XLOG, WAL_XLOG_SWITCH, &none, &err), PH_OK);
    assert_int_equal(s.events[0].kind, BLOCK_EVENT_SWITCH);
    block_summary_merge(&sum, &s);
    assert_int_equal(sum.events_count, 1);
    assert_int_equal(sum.last_lsn, LSN);
    block_summary_release(&s);
    block_summary_release(&sum);
}

static void minimal_and_full_page_writes_off_are_flagged(void **state)
{
    static const struct {
        uint8_t info;
        unsigned major;
        uint32_t flags;
    } cases[] = {
        {WAL_XLOG_CHECKPOINT_ONLINE, 16, BLOCK_SUMMARY_FPW_OFF},
        {WAL_XLOG_CHECKPOINT_SHUTDOWN, 17, BLOCK_SUMMARY_FPW_OFF | BLOCK_SUMMARY_MINIMAL},
        {WAL_XLOG_PARAMETER_CHANGE, 13, BLOCK_SUMMARY_MINIMAL},
        {WAL_XLOG_FPW_CHANGE, 13, BLOCK_SUMMARY_FPW_OFF},
        {WAL_XLOG_END_OF_RECOVERY, 16, 0},
        {WAL_XLOG_END_OF_RECOVERY, 18, BLOCK_SUMMARY_MINIMAL},
        {WAL_XLOG_CHECKPOINT_REDO, 18, BLOCK_SUMMARY_MINIMAL},
    };
    static const uint8_t zeros[64];
    struct buf b;

    (void)state;
    buf_init(&b, MIB);
    buf_add(&b, zeros, sizeof zeros);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct block_summary s;
        struct ph_err err;

        block_summary_init(&s);
        assert_int_equal(add(&s, cases[i].major, WAL_RMGR_XLOG, cases[i].info, &b, &err), PH_OK);
        assert_int_equal(s.flags, cases[i].flags);
        block_summary_release(&s);
    }
    buf_release(&b);
}

static void main_data_that_is_not_there_is_unresolved(void **state)
{
    struct wal_record rec = {.rmgr = WAL_RMGR_XACT, .main_bytes = 100000, .lsn = LSN};
    struct block_summary s;
    struct ph_err err;

    (void)state;
    block_summary_init(&s);
    assert_int_equal(block_summary_add_record(&s, wal_version_of_major(15), &rec, &err), PH_OK);
    assert_int_equal(s.flags, BLOCK_SUMMARY_UNRESOLVED);
    s.flags = 0;
    rec.rmgr = WAL_RMGR_LOGICALMSG;
    assert_int_equal(block_summary_add_record(&s, wal_version_of_major(15), &rec, &err), PH_OK);
    assert_int_equal(s.flags, 0);
    block_summary_release(&s);
}

static void times_and_images_are_counted(void **state)
{
    struct rec_build r = rb_new(WAL_RMGR_XLOG, 0xB0);
    struct wal_record rec;
    struct block_summary s;
    struct ph_err err;
    struct buf b;

    (void)state;
    block_summary_init(&s);
    rb_image(&r, 0, 2, 1000, 0, -1);
    rb_finish(&r, 0);
    assert_int_equal(
        wal_record_decode(r.head.data, r.head.len_bytes, wal_version_of_major(15), &rec, &err),
        PH_OK);
    rec.lsn = LSN;
    assert_int_equal(block_summary_add_record(&s, wal_version_of_major(15), &rec, &err), PH_OK);
    assert_int_equal(s.image_count, 1);
    assert_int_equal(s.image_bytes, 1000);
    assert_true(block_summary_block_changed(&s, REL, WAL_FORK_MAIN, 7));
    rb_release(&r);

    buf_init(&b, MIB);
    buf_add_le64(&b, 50);
    assert_int_equal(add(&s, 15, WAL_RMGR_XACT, WAL_XACT_COMMIT, &b, &err), PH_OK);
    put_le64(b.data, INT64_MAX);
    assert_int_equal(add(&s, 15, WAL_RMGR_XACT, WAL_XACT_ABORT, &b, &err), PH_OK);
    put_le64(b.data, 20);
    assert_int_equal(add(&s, 15, WAL_RMGR_XACT, WAL_XACT_COMMIT, &b, &err), PH_OK);
    assert_int_equal(s.first_xact_us, PG_EPOCH_US + 50);
    assert_int_equal(s.last_xact_us, PG_EPOCH_US + 20);
    assert_true(s.max_xact_us == INT64_MAX);
    assert_int_equal(s.record_count, 4);
    block_summary_release(&s);
    buf_release(&b);
}

/* Random additions, once in one go and once in pieces that are merged. */
static void merging_equals_one_go(void **state)
{
    struct block_summary whole;
    struct block_summary sum;
    struct block_summary part;
    uint32_t seed = 1;

    (void)state;
    block_summary_init(&whole);
    block_summary_init(&sum);
    block_summary_init(&part);
    for (unsigned i = 0; i < 20000; i++) {
        struct wal_rel rel = REL;
        ph_blkno blkno;

        seed = seed * 1664525 + 1013904223;
        rel.rel += seed >> 28;
        blkno = seed >> 16 & 0xfff;
        if ((seed >> 4 & 63) == 0) {
            block_summary_set_limit(&whole, rel, 0, blkno, BLOCK_SUMMARY_TRUNCATED);
            block_summary_set_limit(&part, rel, 0, blkno, BLOCK_SUMMARY_TRUNCATED);
        }
        block_summary_add_block(&whole, rel, 0, blkno);
        block_summary_add_block(&part, rel, 0, blkno);
        if (i % 3000 == 0) {
            block_summary_note_xact(&whole, i + 1, (int64_t)seed);
            block_summary_note_xact(&part, i + 1, (int64_t)seed);
        }
        if (i % 1111 == 0) {
            block_summary_merge(&sum, &part);
            block_summary_release(&part);
            block_summary_init(&part);
        }
    }
    assert_false(block_summary_same_effects(&sum, &whole));
    block_summary_merge(&sum, &part);
    assert_true(block_summary_same_effects(&sum, &whole));
    block_summary_add_block(&sum, REL, 0, 5000);
    assert_false(block_summary_same_effects(&sum, &whole));
    block_summary_release(&whole);
    block_summary_release(&sum);
    block_summary_release(&part);
}

static void differences_are_seen(void **state)
{
    const struct block_summary_event event = {.kind = BLOCK_EVENT_SWITCH, .lsn = LSN};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct block_summary a;
        struct block_summary b;

        block_summary_init(&a);
        block_summary_init(&b);
        block_summary_add_block(&a, REL, 0, 1);
        block_summary_add_block(&b, REL, 0, i == 0 ? 2 : 1);
        block_summary_add_event(&a, &event);
        block_summary_add_event(&b, &event);
        if (i == 1)
            b.events[0].other_lsn = 1;
        if (i == 2)
            block_summary_set_limit(&b, REL, 0, 7, 0);
        if (i == 3)
            block_summary_set_limit(&b, REL, 0, 0, 0);
        if (i == 4)
            b.last_xact_lsn = 1;
        assert_int_equal(block_summary_same_effects(&a, &b), i == 5);
        block_summary_release(&a);
        block_summary_release(&b);
    }
}

static void more_than_it_holds_is_flagged(void **state)
{
    const struct block_summary_event event = {.kind = BLOCK_EVENT_SWITCH, .lsn = LSN};
    struct block_summary s;

    (void)state;
    block_summary_init(&s);
    for (uint32_t i = 0; i < BLOCK_SUMMARY_EVENTS_MAX; i++)
        block_summary_add_event(&s, &event);
    assert_int_equal(s.flags, 0);
    block_summary_add_event(&s, &event);
    assert_int_equal(s.flags, BLOCK_SUMMARY_OVERFLOW);
    s.flags = 0;
    for (uint32_t i = 1; i <= BLOCK_SUMMARY_RELS_MAX; i++)
        block_summary_set_limit(&s, (struct wal_rel){1, 1, i}, 0, 0, 0);
    assert_int_equal(s.flags, 0);
    block_summary_add_block(&s, (struct wal_rel){2, 1, 1}, 0, 0);
    block_summary_set_limit(&s, (struct wal_rel){2, 1, 1}, 0, 0, 0);
    assert_int_equal(s.flags, BLOCK_SUMMARY_OVERFLOW);
    assert_int_equal(s.rels_count, BLOCK_SUMMARY_RELS_MAX);
    block_summary_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commit_drops_relations),
        cmocka_unit_test(counts_that_do_not_fit_are_refused),
        cmocka_unit_test(storage_is_created_and_cut),
        cmocka_unit_test(databases_by_version),
        cmocka_unit_test(events_of_other_records),
        cmocka_unit_test(a_switch_is_an_event),
        cmocka_unit_test(minimal_and_full_page_writes_off_are_flagged),
        cmocka_unit_test(main_data_that_is_not_there_is_unresolved),
        cmocka_unit_test(times_and_images_are_counted),
        cmocka_unit_test(merging_equals_one_go),
        cmocka_unit_test(differences_are_seen),
        cmocka_unit_test(more_than_it_holds_is_flagged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
