/* SPDX-License-Identifier: MIT */
/*
 * The packs' hash: the same sum with and without a thread, and nothing is passed before it was hashed.
 */
#include "repo/pack_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/le.h"
#include "base/mem.h"
#include "codec/checksum.h"

#define PIECES      1000 /* more than may wait at once */
#define PIECE_BYTES ((size_t)3000)

struct passed_items {
    unsigned count;
    bool in_order;
};

/* Takes its bytes away: who hashes them later gets another sum. */
static void spoil(void *ctx, void *item)
{
    struct passed_items *p = ctx;
    uint8_t *piece = item;

    p->in_order = p->in_order && get_le32(piece) == p->count;
    p->count++;
    memset(piece, 0xee, PIECE_BYTES);
}

/* PIECES pieces behind one another; the first word of each is its number. */
static uint8_t *make_pieces(uint8_t ret_digest[32])
{
    uint8_t *bytes = xmalloc(PIECES * PIECE_BYTES);

    for (size_t i = 0; i < PIECES * PIECE_BYTES; i++)
        bytes[i] = (uint8_t)(i * 2654435761U >> 13);
    for (uint32_t i = 0; i < PIECES; i++)
        put_le32(bytes + i * PIECE_BYTES, i);
    sha256_of(bytes, PIECES * PIECE_BYTES, ret_digest);
    return bytes;
}

static void beside(void **state)
{
    struct passed_items passed = {.in_order = true};
    struct pack_hash *h = pack_hash_new();
    uint8_t wanted[32];
    uint8_t digest[32];
    AUTO_FREE uint8_t *bytes = make_pieces(wanted);

    (void)state;
    pack_hash_start(h, spoil, &passed);
    pack_hash_begin(h);
    for (size_t i = 0; i < PIECES; i++) {
        pack_hash_add(h, bytes + i * PIECE_BYTES, PIECE_BYTES / 2);
        pack_hash_add(h, bytes + i * PIECE_BYTES + PIECE_BYTES / 2, PIECE_BYTES / 2);
        pack_hash_pass(h, bytes + i * PIECE_BYTES);
    }
    pack_hash_final(h, digest);
    assert_memory_equal(digest, wanted, sizeof digest);
    assert_int_equal(passed.count, PIECES);
    assert_true(passed.in_order);
    pack_hash_free(h);
}

/* One sum that is begun without a thread, goes on in one, and ends without. */
static void in_turns(void **state)
{
    struct passed_items passed = {.in_order = true};
    struct pack_hash *h = pack_hash_new();
    uint8_t wanted[32];
    uint8_t digest[32];
    AUTO_FREE uint8_t *bytes = make_pieces(wanted);

    (void)state;
    pack_hash_begin(h);
    for (size_t i = 0; i < PIECES; i++) {
        if (i == PIECES / 4)
            pack_hash_start(h, spoil, &passed);
        if (i == PIECES / 2)
            pack_hash_stop(h);
        pack_hash_add(h, bytes + i * PIECE_BYTES, PIECE_BYTES);
    }
    pack_hash_stop(h); /* once more does no harm */
    pack_hash_final(h, digest);
    assert_memory_equal(digest, wanted, sizeof digest);
    pack_hash_free(h);
}

static void begin_again(void **state)
{
    static const uint8_t byte = 7;
    struct passed_items passed = {.in_order = true};
    struct pack_hash *h = pack_hash_new();
    uint8_t wanted[32];
    uint8_t digest[32];

    (void)state;
    pack_hash_start(h, spoil, &passed);
    for (unsigned round = 0; round < 2; round++) {
        pack_hash_begin(h);
        pack_hash_add(h, "forgotten", 9);
        pack_hash_begin(h);
        pack_hash_add(h, &byte, 1);
        pack_hash_final(h, digest);
        sha256_of(&byte, 1, wanted);
        assert_memory_equal(digest, wanted, sizeof digest);
    }
    pack_hash_begin(h);
    pack_hash_add(h, &byte, 1);
    pack_hash_free(h); /* in the middle of a sum */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside),
        cmocka_unit_test(in_turns),
        cmocka_unit_test(begin_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
