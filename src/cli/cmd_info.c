/* SPDX-License-Identifier: MIT */
/*
 * pghush info (command.h, engine/setup/inventory.h).
 */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "cli/backup_view.h"
#include "cli/command_common.h"
#include "cli/drill_view.h"
#include "cli/info_view.h"
#include "cli/output.h"
#include "engine/setup/inventory.h"
#include "repo/catalogue.h"
#include "repo/drill_record.h"

struct name_list {
    char **names;
    size_t count;
};

static enum ph_rc collect(void *ctx, const char *cluster, struct ph_err *err)
{
    struct name_list *l = ctx;

    (void)err;
    l->names = xrealloc(l->names, (l->count + 1) * sizeof *l->names);
    l->names[l->count++] = xstrdup(cluster);
    return PH_OK;
}

static void release(struct name_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
}

/* By names and backup.json alone; NULL where no rule is set or something cannot be read. */
static struct info_plan *make_plan(const struct command_run *run, struct store *store,
                                   const char *name)
{
    struct retain_rules rules = command_retain_rules(run);
    struct info_plan *plan;
    struct retain_input in;
    struct ph_err err;

    if (!retain_rules_any(&rules))
        return NULL;
    plan = xcalloc(1, sizeof *plan);
    if (retain_world_load(store, name, false, rules.days > 0, &plan->world, &err) != PH_OK) {
        log_warn("info.retention", "%s", err.text);
        free(plan);
        return NULL;
    }
    in = retain_world_input(&plan->world, &rules, time_now_us());
    retain_judge(&in, &plan->verdict);
    return plan;
}

static void free_plan(struct info_plan *plan)
{
    if (plan == NULL)
        return;
    retain_verdict_release(&plan->verdict);
    retain_world_release(&plan->world);
    free(plan);
}

/* One cluster of the answer; an error of one does not hide the others. */
static void show(struct command_run *run, struct store *store, const char *name, json_t *array,
                 enum ph_rc *first_rc)
{
    json_t *obj = run->json ? json_object() : NULL;
    struct inventory v;
    struct ph_err err;
    enum ph_rc rc = inventory_load(store, name, &v, &err);
    struct info_plan *plan = rc == PH_OK ? make_plan(run, store, name) : NULL;

    if (rc != PH_OK && *first_rc == PH_OK)
        *first_rc = rc;
    if (run->json) {
        jsonx_set_str(obj, "name", name);
        if (rc == PH_OK)
            info_view_json(&v, plan, obj);
        else
            jsonx_set_name(obj, "error", err.text);
        (void)json_array_append_new(array, obj);
    } else {
        if (run->text.len_bytes > 0)
            buf_add_u8(&run->text, '\n');
        if (rc == PH_OK)
            info_view_text(&v, plan, &run->text);
        else
            buf_printf(&run->text, "cluster %s: %s\n", name, err.text);
    }
    free_plan(plan);
    if (rc == PH_OK)
        inventory_release(&v);
}

MUST_CHECK static enum ph_rc show_all(struct command_run *run, struct store *store,
                                      struct ph_err *err)
{
    struct name_list list = {0};
    json_t *clusters;
    enum ph_rc first_rc = PH_OK;
    enum ph_rc rc;

    if (cfg_str(run->cfg, OPT_CLUSTER) != NULL && cfg_given(run->cfg, OPT_CLUSTER)) {
        struct cluster_info *c = xcalloc(1, sizeof *c);

        rc = catalogue_cluster_load(store, cfg_str(run->cfg, OPT_CLUSTER), c, err);
        free(c);
        if (rc == PH_OK)
            rc = collect(&list, cfg_str(run->cfg, OPT_CLUSTER), err);
    } else {
        rc = catalogue_clusters(store, collect, &list, err);
    }
    if (rc != PH_OK) {
        release(&list);
        return rc;
    }
    clusters = json_array();
    for (size_t i = 0; i < list.count; i++)
        show(run, store, list.names[i], clusters, &first_rc);
    if (run->json) {
        jsonx_set_str(run->result, "repo", store_name(store));
        (void)json_object_set(run->result, "clusters", clusters);
    } else if (list.count == 0) {
        buf_printf(&run->text, "repository \"%s\" holds no cluster\n", store_name(store));
    }
    json_decref(clusters);
    release(&list);
    run->exit_code = output_exit_code(CMD_INFO, first_rc);
    return PH_OK;
}

/* Its last restore drill, where there was one that can be read. */
static void show_drill(struct command_run *run, struct store *store, const char *label, json_t *obj)
{
    struct drill_info drill;
    struct ph_err ignored;

    if (drill_record_load(store, cfg_str(run->cfg, OPT_CLUSTER), label, &drill, &ignored) != PH_OK)
        return;
    if (obj != NULL) {
        json_t *one = json_object();

        drill_view_json(&drill, one);
        (void)json_object_set_new(obj, "drill", one);
    } else {
        buf_add_u8(&run->text, '\n');
        drill_view_text(&drill, &run->text);
    }
    drill_info_release(&drill);
}

MUST_CHECK static enum ph_rc show_backup(struct command_run *run, struct store *store,
                                         const char *label, struct ph_err *err)
{
    struct backup_info b;
    json_t *obj;

    if (cfg_require(run->cfg, OPT_CLUSTER, err) != PH_OK)
        return err->rc;
    if (!backup_label_valid(label))
        return err_set(err, PH_CONFIG,
                       "\"%.80s\" is not a backup's label: expected one such as 20261130T201500Z_F",
                       label);
    if (catalogue_load_backup(store, cfg_str(run->cfg, OPT_CLUSTER), label, &b, err) != PH_OK) {
        if (err->rc == PH_NOT_FOUND)
            (void)err_set(err, PH_CONFIG, "cluster \"%s\" has no backup \"%s\"",
                          cfg_str(run->cfg, OPT_CLUSTER), label);
        return err_hint(err, "\"pghush info\" lists the backups.");
    }
    if (run->json) {
        obj = json_object();
        backup_view_json(&b, true, obj);
        show_drill(run, store, b.label, obj);
        (void)json_object_set_new(run->result, "backup", obj);
    } else {
        backup_view_text(&b, 0, &run->text);
        show_drill(run, store, b.label, NULL);
    }
    backup_info_release(&b);
    return PH_OK;
}

enum ph_rc cmd_info(struct command_run *run, struct ph_err *err)
{
    const struct store_opts opts = command_store_opts(run);
    struct store *store;
    enum ph_rc rc = cfg_require(run->cfg, OPT_REPO, err);

    if (rc != PH_OK)
        return rc;
    if (store_open(&opts, &store, err) != PH_OK)
        return err->rc;
    rc = run->args->positional_count > 0 ? show_backup(run, store, run->args->positionals[0], err)
                                         : show_all(run, store, err);
    store_close(store);
    return rc;
}
