/* SPDX-License-Identifier: MIT */
/*
 * The configuration file's dialect and the parsing of every option's value, on any bytes.
 */
#include "fuzz_target.h"

#include <string.h>

#include "cli/inifile.h"
#include "cli/options.h"
#include "cli/optvalue.h"

static enum ph_rc visit(void *ctx, const struct ini_entry *entry, struct ph_err *err)
{
    const struct option_spec *spec;
    struct opt_value v = {0};

    (void)ctx;
    if (entry->key == NULL)
        return PH_OK;
    spec = option_find(entry->key, strlen(entry->key));
    if (spec == NULL) {
        (void)option_nearest(entry->key, CMD_BITS_ALL);
        return PH_OK;
    }
    if (opt_value_parse(spec, entry->value, SOURCE_CLUSTER, &v, err) == PH_OK)
        opt_value_release(&v);
    return PH_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct ph_err err;

    if (ini_walk((const char *)data, len_bytes, visit, NULL, &err) != PH_OK)
        return 0; /* refused: fine */
    return 0;
}
