/* SPDX-License-Identifier: MIT */
/*
 * Change map: look-ups by extent agree with the summary's own answer block by block, whatever sets, limits and
 * whole databases it holds; a page too many is never a page too few.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/backup/change_map.h"

#define SPC       1663u
#define DB        5u
#define BLOCKS    4096u
#define EXTENT    32u
#define RELS      60u
#define PER_RUN   200u
#define SEED_NAME "PGHUSH_SEED"

static uint64_t state = 88172645463325252u;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % n);
}

static struct relpath path_of(uint32_t rel)
{
    return (struct relpath){.tablespace_oid = SPC, .database_oid = DB, .rel = {.rel_number = rel}};
}

static void fill(struct block_summary *s)
{
    for (uint32_t rel = 1; rel <= RELS; rel++) {
        struct wal_rel key = {SPC, DB, rel};

        for (uint32_t i = below(PER_RUN); i > 0; i--)
            block_summary_add_block(s, key, WAL_FORK_MAIN, below(BLOCKS));
        if (below(4) == 0)
            block_summary_set_limit(s, key, WAL_FORK_MAIN, below(BLOCKS), BLOCK_SUMMARY_TRUNCATED);
        if (below(4) == 0)
            block_summary_add_block(s, key, WAL_FORK_MAIN, below(BLOCKS));
    }
}

static void test_masks_agree_with_the_summary(void **unused)
{
    struct change_map m = {0};

    (void)unused;
    block_summary_chain_init(&m.chain);
    fill(&m.chain.sum);
    block_summary_sort(&m.chain.sum);
    for (uint32_t rel = 1; rel <= RELS + 2; rel++) {
        struct relpath path = path_of(rel);
        struct wal_rel key = {SPC, DB, rel};
        struct change_rel r;

        change_map_find(&m, &path, &r);
        for (uint32_t first = 0; first < BLOCKS + 2 * EXTENT; first += EXTENT) {
            uint32_t count = 1 + below(EXTENT);
            uint32_t mask = change_rel_mask(&r, first, count);

            for (uint32_t i = 0; i < EXTENT; i++) {
                bool changed = i < count && block_summary_block_changed(&m.chain.sum, key,
                                                                        WAL_FORK_MAIN, first + i);

                assert_int_equal(mask >> i & 1, changed);
            }
        }
        change_rel_release(&r);
    }
    block_summary_chain_release(&m.chain);
}

static void test_whole_database_and_nothing(void **unused)
{
    struct change_map m = {0};
    struct relpath path = path_of(7);
    struct change_rel r;

    (void)unused;
    block_summary_chain_init(&m.chain);
    block_summary_add_block(&m.chain.sum, (struct wal_rel){SPC, DB, 8}, WAL_FORK_MAIN, 3);
    change_map_find(&m, &path, &r);
    assert_true(change_rel_none(&r, 0, BLOCKS));
    change_rel_release(&r);
    path.rel.rel_number = 8;
    change_map_find(&m, &path, &r);
    assert_false(change_rel_none(&r, 0, 4));
    change_rel_release(&r);
    change_map_find(&m, &path, &r);
    assert_true(change_rel_none(&r, 4, BLOCKS));
    change_rel_release(&r);
    block_summary_set_limit(&m.chain.sum, (struct wal_rel){SPC, DB, 0}, WAL_FORK_MAIN, 0,
                            BLOCK_SUMMARY_WHOLE_DB);
    path.rel.rel_number = 7;
    change_map_find(&m, &path, &r);
    assert_true(r.whole);
    assert_int_equal(change_rel_mask(&r, 64, 5), 0x1f);
    assert_int_equal(change_rel_mask(&r, 96, 32), UINT32_MAX);
    change_rel_release(&r);
    block_summary_chain_release(&m.chain);
}

/* The last block numbers there are. */
static void test_ends_of_the_fork(void **unused)
{
    struct change_map m = {0};
    struct relpath path = path_of(9);
    struct wal_rel key = {SPC, DB, 9};
    struct change_rel r;

    (void)unused;
    block_summary_chain_init(&m.chain);
    block_summary_add_block(&m.chain.sum, key, WAL_FORK_MAIN, UINT32_MAX - 1);
    block_summary_add_block(&m.chain.sum, key, WAL_FORK_MAIN, 0);
    change_map_find(&m, &path, &r);
    assert_int_equal(change_rel_mask(&r, 0, 32), 1);
    assert_int_equal(change_rel_mask(&r, UINT32_MAX - 31, 31), UINT32_C(1) << 30);
    change_rel_release(&r);
    block_summary_chain_release(&m.chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_agree_with_the_summary),
        cmocka_unit_test(test_whole_database_and_nothing),
        cmocka_unit_test(test_ends_of_the_fork),
    };
    const char *seed = getenv(SEED_NAME);

    if (seed != NULL)
        state ^= strtoull(seed, NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
