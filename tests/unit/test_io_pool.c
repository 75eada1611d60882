/* SPDX-License-Identifier: MIT */
/*
 * Slabs: alignment, the bound, waiting, closing.
 */
#include "io/pool.h"

#include <pthread.h>

#include "io_scratch.h"

#define SLAB  ((size_t)64 * 1024)
#define SLABS ((size_t)4)

static struct pool *new_pool(void)
{
    struct pool *p = NULL;
    struct ph_err err;

    assert_int_equal(pool_new(SLAB, SLABS, &p, &err), PH_OK);
    return p;
}

static void slabs_are_aligned_apart_and_bounded(void **state)
{
    struct pool *p = new_pool();
    uint8_t *slabs[SLABS];

    (void)state;
    for (size_t i = 0; i < SLABS; i++) {
        slabs[i] = pool_get(p);
        assert_int_equal((uintptr_t)slabs[i] % POOL_ALIGN_BYTES, 0);
        memset(slabs[i], (int)i, SLAB);
    }
    assert_null(pool_try_get(p));
    assert_int_equal(pool_free_slabs(p), 0);
    for (size_t i = 0; i < SLABS; i++)
        assert_int_equal(slabs[i][0] + slabs[i][SLAB - 1], 2 * i);
    pool_put(p, slabs[2]);
    assert_ptr_equal(pool_get(p), slabs[2]); /* last in, first out: warm */
    for (size_t i = 0; i < SLABS; i++)
        pool_put(p, slabs[i]);
    assert_int_equal(pool_free_slabs(p), SLABS);
    pool_free(p);
}

static void *take_and_return(void *arg)
{
    struct pool *p = arg;

    for (int i = 0; i < 2000; i++) {
        uint8_t *slab = pool_get(p);

        if (slab == NULL)
            return arg;
        slab[i % 100]++;
        pool_put(p, slab);
    }
    return NULL;
}

static void many_threads_share_it(void **state)
{
    struct pool *p = new_pool();
    pthread_t ids[8];

    (void)state;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, take_and_return, p), 0);
    for (size_t i = 0; i < 8; i++) {
        void *result = p;

        assert_int_equal(pthread_join(ids[i], &result), 0);
        assert_null(result);
    }
    assert_int_equal(pool_free_slabs(p), SLABS);
    pool_free(p);
}

static void *wait_for_slab(void *arg)
{
    return pool_get(arg);
}

static void closing_wakes_those_who_wait(void **state)
{
    struct pool *p = new_pool();
    uint8_t *slabs[SLABS];
    pthread_t id;
    void *result = p;

    (void)state;
    for (size_t i = 0; i < SLABS; i++)
        slabs[i] = pool_get(p);
    assert_int_equal(pthread_create(&id, NULL, wait_for_slab, p), 0);
    pool_close(p);
    assert_int_equal(pthread_join(id, &result), 0);
    assert_null(result);
    pool_put(p, slabs[0]);
    assert_null(pool_get(p));
    pool_free(p);
}

static void impossible_size_is_an_error(void **state)
{
    struct pool *p = NULL;
    struct ph_err err;

    (void)state;
    assert_int_equal(pool_new(SLAB, SIZE_MAX / SLAB, &p, &err), PH_NO_MEMORY);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slabs_are_aligned_apart_and_bounded),
        cmocka_unit_test(many_threads_share_it),
        cmocka_unit_test(closing_wakes_those_who_wait),
        cmocka_unit_test(impossible_size_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
