/* SPDX-License-Identifier: MIT */
/*
 * Merging the sources (cfg.h). The file is read once into memory and walked twice: for the names of
 * its sections, which decide the cluster, and then for the keys that concern this run.
 */
#include "cli/cfg.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cfgfile.h"
#include "cli/inifile.h"

struct list {
    struct opt_value *items;
    size_t count;
};

struct cfg {
    struct opt_value values[OPT_COUNT];
    struct list lists[OPT_COUNT]; /* options that repeat */
    unsigned seen_line[OPT_COUNT]
                      [2]; /* where a key stands, in [global] and in the cluster's section */
    char *file;
    char *cluster;
};

static void list_clear(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        opt_value_release(&l->items[i]);
    free(l->items);
    *l = (struct list){0};
}

void cfg_free(struct cfg *cfg)
{
    if (cfg == NULL)
        return;
    for (size_t i = 0; i < OPT_COUNT; i++) {
        opt_value_release(&cfg->values[i]);
        list_clear(&cfg->lists[i]);
    }
    free(cfg->file);
    free(cfg->cluster);
    free(cfg);
}

/* A stronger source replaces, the same source appends to a list. */
MUST_CHECK static enum ph_rc cfg_put(struct cfg *cfg, const struct option_spec *spec,
                                     const char *text, enum opt_source source, struct ph_err *err)
{
    enum opt_id id = option_id(spec);
    struct opt_value v;

    if (opt_value_parse(spec, text, source, &v, err) != PH_OK)
        return err->rc;
    if ((spec->flags & OPT_REPEATS) != 0) {
        struct list *l = &cfg->lists[id];

        if (l->count > 0 && l->items[0].source != source)
            list_clear(l);
        l->items = xrealloc(l->items, (l->count + 1) * sizeof *l->items);
        l->items[l->count++] = v;
        return PH_OK;
    }
    opt_value_release(&cfg->values[id]);
    cfg->values[id] = v;
    return PH_OK;
}

MUST_CHECK static enum ph_rc put_defaults(struct cfg *cfg, struct ph_err *err)
{
    for (size_t i = 0; i < OPT_COUNT; i++) {
        const struct option_spec *spec = option_spec((enum opt_id)i);

        if (spec->default_text == NULL)
            continue;
        if (cfg_put(cfg, spec, spec->default_text, SOURCE_DEFAULT, err) != PH_OK)
            return err_ctx(err, "default of %s", spec->name);
    }
    return PH_OK;
}

/* The variable's value; NULL where it is unset or empty. */
static const char *env_find(char *const *environ_list, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; environ_list[i] != NULL; i++)
        if (strncmp(environ_list[i], name, len) == 0 && environ_list[i][len] == '=' &&
            environ_list[i][len + 1] != '\0')
            return environ_list[i] + len + 1;
    return NULL;
}

MUST_CHECK static enum ph_rc put_one_env(struct cfg *cfg, const struct option_spec *spec,
                                         char *const *environ_list, struct ph_err *err)
{
    char name[64];
    const char *value = env_find(environ_list, option_env_name(spec, name, sizeof name));

    if (value == NULL)
        return PH_OK;
    if (cfg_put(cfg, spec, value, SOURCE_ENV, err) != PH_OK)
        return err_ctx(err, "environment variable %s", name);
    return PH_OK;
}

MUST_CHECK static enum ph_rc put_env(struct cfg *cfg, char *const *environ_list, struct ph_err *err)
{
    for (size_t i = 0; i < OPT_COUNT; i++)
        if (put_one_env(cfg, option_spec((enum opt_id)i), environ_list, err) != PH_OK)
            return err->rc;
    return PH_OK;
}

/* A mistyped variable would be silently without effect. */
static void warn_unknown_env(char *const *environ_list)
{
    for (size_t i = 0; environ_list[i] != NULL; i++) {
        const char *equals = strchr(environ_list[i], '=');
        bool known = false;
        char name[64];

        if (equals == NULL || !str_starts(environ_list[i], "PGHUSH_"))
            continue;
        for (size_t id = 0; !known && id < OPT_COUNT; id++) {
            (void)option_env_name(option_spec((enum opt_id)id), name, sizeof name);
            known = strlen(name) == (size_t)(equals - environ_list[i]) &&
                    str_starts(environ_list[i], name);
        }
        if (!known)
            log_warn("config.environment", "variable %.*s is not an option of pghush",
                     (int)(equals - environ_list[i]), environ_list[i]);
    }
}

MUST_CHECK static enum ph_rc put_one_arg(struct cfg *cfg, const struct arg_pair *pair,
                                         struct ph_err *err)
{
    if (cfg_put(cfg, pair->spec, pair->value, SOURCE_COMMAND_LINE, err) != PH_OK)
        return err_ctx(err, "option --%s", pair->spec->name);
    return PH_OK;
}

/* Values of one option only; a command line is read twice, first for --config and --cluster. */
MUST_CHECK static enum ph_rc put_early(struct cfg *cfg, const struct cfg_sources *sources,
                                       enum opt_id id, struct ph_err *err)
{
    if (put_one_env(cfg, option_spec(id), sources->environ, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < sources->args->pair_count; i++)
        if (option_id(sources->args->pairs[i].spec) == id &&
            put_one_arg(cfg, &sources->args->pairs[i], err) != PH_OK)
            return err->rc;
    return PH_OK;
}

/* ---- the file ---- */

struct sections {
    char **names;
    unsigned *lines;
    size_t count;
};

static void sections_release(struct sections *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->names[i]);
    free(s->names);
    free(s->lines);
}

static enum ph_rc visit_heading(void *ctx, const struct ini_entry *entry, struct ph_err *err)
{
    struct sections *s = ctx;

    if (entry->key != NULL) {
        if (*entry->section != '\0')
            return PH_OK;
        (void)err_set(err, PH_CONFIG, "key %.80s stands before the first section", entry->key);
        return err_hint(err, "Put [global] above it.");
    }
    if (strcmp(entry->section, "global") != 0 && !cluster_name_valid(entry->section)) {
        (void)err_set(err, PH_CONFIG,
                      "[%s] cannot be a section: it is neither [global] nor a "
                      "cluster's name",
                      entry->section);
        return err_hint(err, "Use letters, digits, \"_\", \"-\" and \".\".");
    }
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->names[i], entry->section) == 0)
            return err_set(err, PH_CONFIG, "section [%s] stands already at line %u", entry->section,
                           s->lines[i]);
    s->names = xrealloc(s->names, (s->count + 1) * sizeof *s->names);
    s->lines = xrealloc(s->lines, (s->count + 1) * sizeof *s->lines);
    s->names[s->count] = xstrdup(entry->section);
    s->lines[s->count++] = entry->line;
    return PH_OK;
}

/* The cluster that was asked for, or the only one there is. */
MUST_CHECK static enum ph_rc choose_cluster(struct cfg *cfg, const struct sections *s,
                                            struct ph_err *err)
{
    const char *asked = cfg->values[OPT_CLUSTER].text;
    const char *only = NULL;
    size_t clusters = 0;
    struct buf names;

    buf_init(&names, 512);
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->names[i], "global") == 0)
            continue;
        if (asked != NULL && strcmp(s->names[i], asked) == 0) {
            clusters = 0;
            break;
        }
        only = s->names[i];
        buf_printf(&names, "%s%s", clusters++ > 0 ? ", " : "", s->names[i]);
    }
    if (asked != NULL && clusters > 0) {
        (void)err_set(err, PH_CONFIG, "there is no section [%s]", asked);
        (void)err_hint(err, "The clusters of the file are: %s.", buf_cstr(&names));
        buf_release(&names);
        return err->rc;
    }
    buf_release(&names);
    if (asked == NULL && clusters == 1)
        cfg->cluster = xstrdup(only);
    else if (asked != NULL)
        cfg->cluster = xstrdup(asked);
    return PH_OK;
}

MUST_CHECK static enum ph_rc unknown_key(const char *key, struct ph_err *err)
{
    const char *near = option_nearest(key, CMD_BITS_ALL);

    (void)err_set(err, PH_CONFIG, "unknown key %.80s", key);
    if (near != NULL)
        return err_hint(err, "Did you mean %s?", near);
    return err_hint(err, "The reference and \"pghush COMMAND --help\" list all keys.");
}

struct file_walk {
    struct cfg *cfg;
    bool world_readable;
};

static enum ph_rc visit_key(void *ctx, const struct ini_entry *entry, struct ph_err *err)
{
    struct file_walk *w = ctx;
    struct cfg *cfg = w->cfg;
    bool global = strcmp(entry->section, "global") == 0;
    const struct option_spec *spec;
    unsigned *seen;

    if (entry->key == NULL ||
        (!global && (cfg->cluster == NULL || strcmp(entry->section, cfg->cluster) != 0)))
        return PH_OK;
    spec = option_find(entry->key, strlen(entry->key));
    if (spec == NULL)
        return unknown_key(entry->key, err);
    if ((spec->flags & OPT_IN_FILE) == 0)
        return err_set(
            err, PH_CONFIG,
            "key %s does not belong into the file: it is one of the command line and the "
            "environment",
            spec->name);
    if ((spec->flags & (global ? OPT_IN_GLOBAL : OPT_IN_CLUSTER)) == 0)
        return err_set(err, PH_CONFIG, "key %s belongs into a cluster's section, not into [global]",
                       spec->name);
    seen = &cfg->seen_line[option_id(spec)][global ? 0 : 1];
    if (*seen != 0 && (spec->flags & OPT_REPEATS) == 0)
        return err_set(err, PH_CONFIG, "key %s stands already at line %u of this section",
                       spec->name, *seen);
    *seen = entry->line;
    if ((spec->flags & OPT_MAY_HOLD_SECRET) != 0 && w->world_readable &&
        conninfo_has_password(entry->value)) {
        (void)err_set(err, PH_CONFIG, "key %s holds a password, and every user can read the file",
                      spec->name);
        return err_hint(err, "Run \"chmod o-rwx\" on it.");
    }
    /* [global] may stand below the cluster's section and must not overrule it. */
    if (global && cfg->seen_line[option_id(spec)][1] != 0) {
        struct opt_value v;

        if (opt_value_parse(spec, entry->value, SOURCE_GLOBAL, &v, err) != PH_OK)
            return err_ctx(err, "key %s", spec->name);
        opt_value_release(&v);
        return PH_OK;
    }
    if (cfg_put(cfg, spec, entry->value, global ? SOURCE_GLOBAL : SOURCE_CLUSTER, err) != PH_OK)
        return err_ctx(err, "key %s", spec->name);
    return PH_OK;
}

MUST_CHECK static enum ph_rc walk_file(struct cfg *cfg, const struct cfgfile *f, struct ph_err *err)
{
    struct sections s = {0};
    struct file_walk w = {.cfg = cfg, .world_readable = f->world_readable};
    enum ph_rc rc = ini_walk(f->text, f->len_bytes, visit_heading, &s, err);

    if (rc == PH_OK)
        rc = choose_cluster(cfg, &s, err);
    if (rc == PH_OK)
        rc = ini_walk(f->text, f->len_bytes, visit_key, &w, err);
    sections_release(&s);
    return rc;
}

MUST_CHECK static enum ph_rc put_file(struct cfg *cfg, const struct cfg_sources *sources,
                                      struct ph_err *err)
{
    const char *named = cfg->values[OPT_CONFIG].text;
    const char *path = named != NULL ? named : sources->default_file;
    AUTO(cfgfile) f = {0};
    enum ph_rc rc;

    if (path == NULL)
        return PH_OK;
    rc = cfgfile_read(path, &f, err);
    if (rc == PH_NOT_FOUND && named == NULL)
        return PH_OK;
    if (rc == PH_OK)
        rc = walk_file(cfg, &f, err);
    if (rc != PH_OK) {
        err->rc = PH_CONFIG;
        return err_ctx(err, "configuration file \"%s\"", path);
    }
    cfg->file = path_absolute(path);
    return PH_OK;
}

/* ---- all together ---- */

MUST_CHECK static enum ph_rc load_into(struct cfg *cfg, const struct cfg_sources *sources,
                                       struct ph_err *err)
{
    if (put_defaults(cfg, err) != PH_OK || put_early(cfg, sources, OPT_CONFIG, err) != PH_OK ||
        put_early(cfg, sources, OPT_CLUSTER, err) != PH_OK ||
        put_file(cfg, sources, err) != PH_OK || put_env(cfg, sources->environ, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < sources->args->pair_count; i++)
        if (put_one_arg(cfg, &sources->args->pairs[i], err) != PH_OK)
            return err->rc;
    if (cfg->values[OPT_CLUSTER].text == NULL && cfg->cluster != NULL &&
        cfg_put(cfg, option_spec(OPT_CLUSTER), cfg->cluster, SOURCE_DEFAULT, err) != PH_OK)
        return err->rc;
    if (cfg_choice(cfg, OPT_COMPRESS) == COMPRESS_LZ4 && cfg_u64(cfg, OPT_COMPRESS_LEVEL) > 12)
        return err_set(err, PH_CONFIG,
                       "compress-level %u is not accepted with compress lz4: expected 1 to 12",
                       (unsigned)cfg_u64(cfg, OPT_COMPRESS_LEVEL));
    return PH_OK;
}

enum ph_rc cfg_load(const struct cfg_sources *sources, struct cfg **ret_cfg, struct ph_err *err)
{
    struct cfg *cfg = xcalloc(1, sizeof *cfg);
    enum ph_rc rc = load_into(cfg, sources, err);

    if (rc != PH_OK) {
        cfg_free(cfg);
        return rc;
    }
    log_set_level((enum log_level)cfg_choice(cfg, OPT_LOG_LEVEL));
    warn_unknown_env(sources->environ);
    *ret_cfg = cfg;
    return PH_OK;
}

enum opt_source cfg_source(const struct cfg *cfg, enum opt_id id)
{
    return cfg->lists[id].count > 0 ? cfg->lists[id].items[0].source : cfg->values[id].source;
}

bool cfg_given(const struct cfg *cfg, enum opt_id id)
{
    return cfg_source(cfg, id) > SOURCE_DEFAULT;
}

const char *cfg_str(const struct cfg *cfg, enum opt_id id)
{
    return cfg->values[id].text;
}

uint64_t cfg_u64(const struct cfg *cfg, enum opt_id id)
{
    return cfg->values[id].number;
}

unsigned cfg_choice(const struct cfg *cfg, enum opt_id id)
{
    return (unsigned)cfg->values[id].number;
}

bool cfg_bool(const struct cfg *cfg, enum opt_id id)
{
    return cfg->values[id].number != 0;
}

int64_t cfg_time_us(const struct cfg *cfg, enum opt_id id)
{
    return cfg->values[id].time_us;
}

size_t cfg_count(const struct cfg *cfg, enum opt_id id)
{
    return cfg->lists[id].count;
}

const char *cfg_item(const struct cfg *cfg, enum opt_id id, size_t i)
{
    PH_ASSERT(i < cfg->lists[id].count);
    return cfg->lists[id].items[i].text;
}

const char *cfg_file(const struct cfg *cfg)
{
    return cfg->file;
}

enum ph_rc cfg_require(const struct cfg *cfg, enum opt_id id, struct ph_err *err)
{
    const struct option_spec *spec = option_spec(id);
    char env_name[64];

    if (cfg_source(cfg, id) != SOURCE_NONE)
        return PH_OK;
    (void)err_set(err, PH_CONFIG, "%s is not set", spec->name);
    if ((spec->flags & OPT_IN_FILE) == 0 || cfg->file == NULL)
        return err_hint(err, "Give --%s %s or set %s%s.", spec->name, spec->placeholder,
                        option_env_name(spec, env_name, sizeof env_name),
                        (spec->flags & OPT_IN_FILE) == 0 ? "" : ", or write a configuration file");
    return err_hint(err, "Put \"%s = %s\" into %s of \"%s\", or give --%s.", spec->name,
                    spec->placeholder,
                    (spec->flags & OPT_IN_GLOBAL) != 0 ? "[global]" : "the cluster's section",
                    cfg->file, spec->name);
}
