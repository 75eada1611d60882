/* SPDX-License-Identifier: MIT */
/*
 * What every fuzz target defines; the name is libFuzzer's.
 */
#ifndef FUZZ_TARGET_H
#define FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* One input of len_bytes bytes, borrowed for the call. Must return 0 and must not crash, leak or hang. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

#endif
