/* SPDX-License-Identifier: MIT */
/*
 * format/block_summary_chain: segments summarised apart and joined say what all records say in one go.
 */
#include "format/block_summary_chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "format/wal_check.h"
#include "wal_build.h"

static void summarise(const struct wal_build *w, size_t segment, struct block_summary *ret_s)
{
    const struct wal_check_opts opts = {0};
    struct ph_err err;

    assert_int_equal(wal_segment_check(w->bytes + segment * WB_SEG_BYTES, WB_SEG_BYTES, &opts, NULL,
                                       ret_s, &err),
                     PH_OK);
}

static void one_go(const struct wal_build *w, struct block_summary *ret_s)
{
    const struct wal_source src = {.bytes = w->bytes, .len_bytes = w->len_bytes};
    struct wal_reader r;
    struct wal_record rec;
    struct ph_err err;
    bool have = true;

    block_summary_init(ret_s);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    for (;;) {
        assert_int_equal(wal_reader_next(&r, &rec, &have, &err), PH_OK);
        if (!have)
            break;
        assert_int_equal(block_summary_add_record(ret_s, r.version, &rec, &err), PH_OK);
    }
    wal_reader_release(&r);
}

/* A record with a block, data_bytes of it in main data, as heap, or as a commit that drops relations. */
static void add_crossing(struct wal_build *w, bool commit, size_t main_bytes)
{
    struct rec_build r = rb_new(commit ? WAL_RMGR_XACT : WAL_RMGR_HEAP, commit ? 0x80 : 0);
    uint8_t *data = xcalloc(1, main_bytes);

    if (commit) {
        uint32_t rels = (uint32_t)((main_bytes - 16) / 12);

        put_le64(data, 123456);
        put_le32(data + 8, WAL_XINFO_HAS_RELS);
        put_le32(data + 12, rels);
        for (uint32_t i = 0; i < rels; i++)
            put_le32(data + 16 + i * 12 + 8, 20000 + i);
    } else {
        rb_block(&r, 0, 0, 17000, 3, 40);
        rb_block(&r, 1, 0, 17001, 4, 40);
    }
    rb_main(&r, data, main_bytes);
    wb_add(w, &r);
    free(data);
}

static void crossing_records_are_joined(void **state)
{
    static const struct {
        bool commit;
        size_t left_bytes;
        size_t main_bytes;
        bool unresolved;
    } cases[] = {
        {false, 8, 1000, false},         {false, 16, 1000, false},   {false, 64, 5000, false},
        {false, 1000, 2000000, false},   {false, 8, 2000000, false}, {true, 8, 1000, false},
        {true, 5000, 60000, false},      {true, 100, 100000, true},  {true, 90000, 150000, true},
        {false, 100000, 2000000, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wal_build w = wb_new(16, 4);
        struct block_summary_chain chain;
        struct block_summary whole;
        struct ph_err err;

        wb_fill_segment(&w, 200000);
        wb_add_block(&w, 16384, 1);
        wb_fill_segment(&w, cases[i].left_bytes);
        add_crossing(&w, cases[i].commit, cases[i].main_bytes);
        wb_add_block(&w, 16384, 2);
        one_go(&w, &whole);
        block_summary_chain_init(&chain);
        for (size_t n = 0; n * WB_SEG_BYTES < w.pos; n++) {
            struct block_summary s;

            summarise(&w, n, &s);
            assert_int_equal(block_summary_chain_add(&chain, &s, &err), PH_OK);
            block_summary_release(&s);
        }
        assert_false(chain.open);
        assert_int_equal((chain.sum.flags & BLOCK_SUMMARY_UNRESOLVED) != 0, cases[i].unresolved);
        if (!cases[i].unresolved)
            assert_true(block_summary_same_effects(&chain.sum, &whole));
        assert_int_equal(chain.sum.end_lsn, wb_lsn(&w));
        block_summary_chain_release(&chain);
        block_summary_release(&whole);
        wb_free(&w);
    }
}

static void a_pair_is_joined(void **state)
{
    struct wal_build w = wb_new(16, 3);
    struct block_summary s[3];
    struct block_summary joined;
    struct ph_err err;
    bool open;

    (void)state;
    wb_fill_segment(&w, 100);
    add_crossing(&w, false, 1000);
    wb_fill_segment(&w, 104);
    wb_add_filler(&w, 104 - 0 + 296);
    for (size_t i = 0; i < 3; i++)
        summarise(&w, i, &s[i]);
    assert_int_equal(block_summary_join(&s[0], &s[1], &joined, &open, &err), PH_OK);
    assert_false(open);
    assert_int_equal(joined.rels_count, 2);
    assert_int_equal(joined.record_count, 1);
    block_summary_release(&joined);
    assert_int_equal(block_summary_join(&s[1], &s[2], &joined, &open, &err), PH_OK);
    assert_int_equal(joined.rels_count, 0);
    block_summary_release(&joined);
    assert_int_equal(block_summary_join(&s[0], &s[2], &joined, &open, &err), PH_NOT_FOUND);
    for (size_t i = 0; i < 3; i++)
        block_summary_release(&s[i]);
    wb_free(&w);
}

/* Two segments with a crossing record, and a chain that has the first. */
struct pair {
    struct wal_build w;
    struct block_summary a;
    struct block_summary b;
    struct block_summary_chain chain;
};

static void pair_init(struct pair *p)
{
    struct ph_err err;

    p->w = wb_new(16, 2);
    wb_fill_segment(&p->w, 100);
    add_crossing(&p->w, false, 1000);
    summarise(&p->w, 0, &p->a);
    summarise(&p->w, 1, &p->b);
    block_summary_chain_init(&p->chain);
    assert_int_equal(block_summary_chain_add(&p->chain, &p->a, &err), PH_OK);
    assert_true(p->chain.open);
    assert_int_equal(p->chain.open_lsn, p->a.tail.lsn);
}

static void pair_release(struct pair *p)
{
    block_summary_chain_release(&p->chain);
    block_summary_release(&p->a);
    block_summary_release(&p->b);
    wb_free(&p->w);
}

static void cut_off_records_have_no_effects(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct pair p;
        struct ph_err err;

        pair_init(&p);
        p.b.head_kind = kind == 0 ? WAL_HEAD_OVERWRITTEN : WAL_HEAD_ABORTED;
        assert_int_equal(block_summary_chain_add(&p.chain, &p.b, &err), PH_OK);
        assert_false(p.chain.open);
        assert_int_equal(p.chain.sum.rels_count, 0);
        pair_release(&p);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *text;
        enum ph_rc rc;
    } cases[] = {
        {"continues 960 bytes of a record, expected", PH_CORRUPT},
        {"continues 0 bytes of a record", PH_CORRUPT},
        {"CRC of the joined record", PH_CORRUPT},
        {"system identifier", PH_CORRUPT},
        {"version 16 and 17", PH_CORRUPT},
        {"expected 0/600000", PH_NOT_FOUND},
        {"holds no WAL behind", PH_NOT_FOUND},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair p;
        struct ph_err err;

        pair_init(&p);
        if (i == 0)
            p.b.head.total_bytes = 960;
        if (i == 1) {
            p.b.head_kind = WAL_HEAD_NONE;
            p.b.head.total_bytes = 0;
        }
        if (i == 2)
            p.b.head.bytes[500] ^= 1;
        if (i == 3)
            p.b.sysid++;
        if (i == 4)
            p.b.major = 17;
        if (i == 5)
            p.b.start_lsn += WB_SEG_BYTES;
        if (i == 6)
            p.chain.last_end = WAL_END_ZEROS;
        assert_int_equal(block_summary_chain_add(&p.chain, &p.b, &err), cases[i].rc);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].text);
        pair_release(&p);
    }
}

/* The chain begins in the middle of a long record: its effects are unknown, the rest is right. */
static void a_chain_may_begin_within_a_record(void **state)
{
    struct wal_build w = wb_new(16, 4);
    struct block_summary_chain chain;
    struct block_summary s;
    struct ph_err err;

    (void)state;
    wb_fill_segment(&w, 100);
    add_crossing(&w, false, 2500000);
    wb_add_block(&w, 16384, 9);
    block_summary_chain_init(&chain);
    for (size_t i = 1; i < 4; i++) {
        summarise(&w, i, &s);
        assert_int_equal(block_summary_chain_add(&chain, &s, &err), PH_OK);
        block_summary_release(&s);
        assert_true(chain.head_unknown);
    }
    assert_int_equal(chain.sum.rels_count, 1);
    assert_int_equal(chain.sum.record_count, 1);
    block_summary_chain_release(&chain);

    summarise(&w, 2, &s);
    block_summary_chain_init(&chain);
    chain.started = true;
    chain.next_lsn = s.start_lsn;
    chain.last_end = WAL_END_FULL;
    chain.sum.major = s.major;
    chain.sum.sysid = s.sysid;
    chain.sum.seg_bytes = s.seg_bytes;
    assert_int_equal(block_summary_chain_add(&chain, &s, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "but none is open"));
    block_summary_release(&s);
    block_summary_chain_release(&chain);
    wb_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crossing_records_are_joined),
        cmocka_unit_test(a_pair_is_joined),
        cmocka_unit_test(cut_off_records_have_no_effects),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_chain_may_begin_within_a_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
