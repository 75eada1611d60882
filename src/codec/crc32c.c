/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C.
 *
 * x86-64: the crc32 instruction has a latency of three cycles and a throughput of one, so three
 * streams of a third each run side by side and are joined at the end. arm64: one stream. All else: a
 * table of 256 words, one byte at a time.
 *
 * Joining: a CRC register is a polynomial over GF(2), bit-reversed. Appending n bytes multiplies it
 * by x^(8n) modulo the CRC's polynomial; that factor is found by squaring, 64 steps at most, and kept
 * in a struct crc32c_shift where a length is used often. The inversions at both ends cancel out.
 */
#include "codec/checksum.h"

#include <string.h>

#include "base/le.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

#define CRC32C_POLYNOMIAL UINT32_C(0x82f63b78) /* bit-reversed 0x1edc6f41 */
#define CRC32C_ONE        UINT32_C(0x80000000) /* the polynomial 1 */
#define CRC32C_X8         UINT32_C(0x00800000) /* x^8 */
#define CRC32C_LANE_BYTES ((size_t)8192)
/* x to this power is 1: so many bits, and so many bytes too, change nothing. */
#define CRC32C_PERIOD UINT64_C(0x7fffffff)

static const uint32_t crc32c_table[256] = {
    0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c, 0x26a1e7e8, 0xd4ca64eb,
    0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b, 0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24,
    0x105ec76f, 0xe235446c, 0xf165b798, 0x030e349b, 0xd7c45070, 0x25afd373, 0x36ff2087, 0xc494a384,
    0x9a879fa0, 0x68ec1ca3, 0x7bbcef57, 0x89d76c54, 0x5d1d08bf, 0xaf768bbc, 0xbc267848, 0x4e4dfb4b,
    0x20bd8ede, 0xd2d60ddd, 0xc186fe29, 0x33ed7d2a, 0xe72719c1, 0x154c9ac2, 0x061c6936, 0xf477ea35,
    0xaa64d611, 0x580f5512, 0x4b5fa6e6, 0xb93425e5, 0x6dfe410e, 0x9f95c20d, 0x8cc531f9, 0x7eaeb2fa,
    0x30e349b1, 0xc288cab2, 0xd1d83946, 0x23b3ba45, 0xf779deae, 0x05125dad, 0x1642ae59, 0xe4292d5a,
    0xba3a117e, 0x4851927d, 0x5b016189, 0xa96ae28a, 0x7da08661, 0x8fcb0562, 0x9c9bf696, 0x6ef07595,
    0x417b1dbc, 0xb3109ebf, 0xa0406d4b, 0x522bee48, 0x86e18aa3, 0x748a09a0, 0x67dafa54, 0x95b17957,
    0xcba24573, 0x39c9c670, 0x2a993584, 0xd8f2b687, 0x0c38d26c, 0xfe53516f, 0xed03a29b, 0x1f682198,
    0x5125dad3, 0xa34e59d0, 0xb01eaa24, 0x42752927, 0x96bf4dcc, 0x64d4cecf, 0x77843d3b, 0x85efbe38,
    0xdbfc821c, 0x2997011f, 0x3ac7f2eb, 0xc8ac71e8, 0x1c661503, 0xee0d9600, 0xfd5d65f4, 0x0f36e6f7,
    0x61c69362, 0x93ad1061, 0x80fde395, 0x72966096, 0xa65c047d, 0x5437877e, 0x4767748a, 0xb50cf789,
    0xeb1fcbad, 0x197448ae, 0x0a24bb5a, 0xf84f3859, 0x2c855cb2, 0xdeeedfb1, 0xcdbe2c45, 0x3fd5af46,
    0x7198540d, 0x83f3d70e, 0x90a324fa, 0x62c8a7f9, 0xb602c312, 0x44694011, 0x5739b3e5, 0xa55230e6,
    0xfb410cc2, 0x092a8fc1, 0x1a7a7c35, 0xe811ff36, 0x3cdb9bdd, 0xceb018de, 0xdde0eb2a, 0x2f8b6829,
    0x82f63b78, 0x709db87b, 0x63cd4b8f, 0x91a6c88c, 0x456cac67, 0xb7072f64, 0xa457dc90, 0x563c5f93,
    0x082f63b7, 0xfa44e0b4, 0xe9141340, 0x1b7f9043, 0xcfb5f4a8, 0x3dde77ab, 0x2e8e845f, 0xdce5075c,
    0x92a8fc17, 0x60c37f14, 0x73938ce0, 0x81f80fe3, 0x55326b08, 0xa759e80b, 0xb4091bff, 0x466298fc,
    0x1871a4d8, 0xea1a27db, 0xf94ad42f, 0x0b21572c, 0xdfeb33c7, 0x2d80b0c4, 0x3ed04330, 0xccbbc033,
    0xa24bb5a6, 0x502036a5, 0x4370c551, 0xb11b4652, 0x65d122b9, 0x97baa1ba, 0x84ea524e, 0x7681d14d,
    0x2892ed69, 0xdaf96e6a, 0xc9a99d9e, 0x3bc21e9d, 0xef087a76, 0x1d63f975, 0x0e330a81, 0xfc588982,
    0xb21572c9, 0x407ef1ca, 0x532e023e, 0xa145813d, 0x758fe5d6, 0x87e466d5, 0x94b49521, 0x66df1622,
    0x38cc2a06, 0xcaa7a905, 0xd9f75af1, 0x2b9cd9f2, 0xff56bd19, 0x0d3d3e1a, 0x1e6dcdee, 0xec064eed,
    0xc38d26c4, 0x31e6a5c7, 0x22b65633, 0xd0ddd530, 0x0417b1db, 0xf67c32d8, 0xe52cc12c, 0x1747422f,
    0x49547e0b, 0xbb3ffd08, 0xa86f0efc, 0x5a048dff, 0x8ecee914, 0x7ca56a17, 0x6ff599e3, 0x9d9e1ae0,
    0xd3d3e1ab, 0x21b862a8, 0x32e8915c, 0xc083125f, 0x144976b4, 0xe622f5b7, 0xf5720643, 0x07198540,
    0x590ab964, 0xab613a67, 0xb831c993, 0x4a5a4a90, 0x9e902e7b, 0x6cfbad78, 0x7fab5e8c, 0x8dc0dd8f,
    0xe330a81a, 0x115b2b19, 0x020bd8ed, 0xf0605bee, 0x24aa3f05, 0xd6c1bc06, 0xc5914ff2, 0x37faccf1,
    0x69e9f0d5, 0x9b8273d6, 0x88d28022, 0x7ab90321, 0xae7367ca, 0x5c18e4c9, 0x4f48173d, 0xbd23943e,
    0xf36e6f75, 0x0105ec76, 0x12551f82, 0xe03e9c81, 0x34f4f86a, 0xc69f7b69, 0xd5cf889d, 0x27a40b9e,
    0x79b737ba, 0x8bdcb4b9, 0x988c474d, 0x6ae7c44e, 0xbe2da0a5, 0x4c4623a6, 0x5f16d052, 0xad7d5351,
};

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len_bytes)
{
    const uint8_t *p = data;

    crc = ~crc;
    for (size_t i = 0; i < len_bytes; i++)
        crc = crc32c_table[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
    return ~crc;
}

/* a x b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (int i = 0; i < 32; i++) {
        product ^= (uint32_t)(-(int32_t)(a >> 31)) & b;
        a <<= 1;
        b = (b >> 1) ^ ((uint32_t)(-(int32_t)(b & 1)) & CRC32C_POLYNOMIAL);
    }
    return product;
}

struct crc32c_shift crc32c_shift_for(uint64_t len_bytes)
{
    uint32_t square = CRC32C_X8;
    uint32_t result = CRC32C_ONE;

    for (; len_bytes != 0; len_bytes >>= 1) {
        if (len_bytes & 1)
            result = multiply(square, result);
        square = multiply(square, square);
    }
    return (struct crc32c_shift){.multiplier = result};
}

struct crc32c_shift crc32c_shift_back(uint64_t len_bytes)
{
    return crc32c_shift_for(CRC32C_PERIOD - len_bytes % CRC32C_PERIOD);
}

uint32_t crc32c_join(uint32_t crc_a, uint32_t crc_b, struct crc32c_shift shift_b)
{
    return multiply(shift_b.multiplier, crc_a) ^ crc_b;
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b_bytes)
{
    return crc32c_join(crc_a, crc_b, crc32c_shift_for(len_b_bytes));
}

uint32_t crc32c_zeros(uint32_t crc, uint64_t len_bytes)
{
    return ~multiply(crc32c_shift_for(len_bytes).multiplier, ~crc);
}

#if defined(__x86_64__)
/* x^(8 x lane), in the registers' bit order; crc32c_shift_for(CRC32C_LANE_BYTES) and twice that. */
#define LANE_SHIFT_ONE UINT32_C(0x28461564)
#define LANE_SHIFT_TWO UINT32_C(0xbf455269)

__attribute__((target("sse4.2"))) static uint32_t lanes_sse42(uint32_t state, const uint8_t *p)
{
    uint64_t a = state;
    uint64_t b = 0;
    uint64_t c = 0;

    for (size_t i = 0; i < CRC32C_LANE_BYTES; i += 8) {
        a = _mm_crc32_u64(a, get_le64(p + i));
        b = _mm_crc32_u64(b, get_le64(p + i + CRC32C_LANE_BYTES));
        c = _mm_crc32_u64(c, get_le64(p + i + 2 * CRC32C_LANE_BYTES));
    }
    return multiply(LANE_SHIFT_TWO, (uint32_t)a) ^ multiply(LANE_SHIFT_ONE, (uint32_t)b) ^
           (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const uint8_t *p,
                                                               size_t len_bytes)
{
    uint64_t state = ~crc;

    for (; len_bytes >= 3 * CRC32C_LANE_BYTES; len_bytes -= 3 * CRC32C_LANE_BYTES) {
        state = lanes_sse42((uint32_t)state, p);
        p += 3 * CRC32C_LANE_BYTES;
    }
    for (; len_bytes >= 8; len_bytes -= 8) {
        state = _mm_crc32_u64(state, get_le64(p));
        p += 8;
    }
    for (; len_bytes > 0; len_bytes--)
        state = _mm_crc32_u8((uint32_t)state, *p++);
    return ~(uint32_t)state;
}
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t crc32c_arm(uint32_t crc, const uint8_t *p,
                                                           size_t len_bytes)
{
    crc = ~crc;
    for (; len_bytes >= 8; len_bytes -= 8) {
        crc = __crc32cd(crc, get_le64(p));
        p += 8;
    }
    for (; len_bytes > 0; len_bytes--)
        crc = __crc32cb(crc, *p++);
    return ~crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len_bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, data, len_bytes);
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP) & (1UL << 7)) /* HWCAP_CRC32 */
        return crc32c_arm(crc, data, len_bytes);
#endif
    return crc32c_portable(crc, data, len_bytes);
}
