/* SPDX-License-Identifier: MIT */
/*
 * Results and errors (output.h).
 */
#include "cli/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"

#define OUTPUT_BYTES_MAX (256 * MIB)

int output_exit_code(enum cmd_id cmd, enum ph_rc rc)
{
    if (rc == PH_OK)
        return EXIT_DONE;
    if (cmd == CMD_ARCHIVE_GET)
        return rc == PH_NOT_FOUND ? EXIT_ABSENT : EXIT_STOP_RECOVERY;
    switch (rc) {
    case PH_CONFIG:
        return EXIT_USAGE;
    case PH_REFUSED:
        return EXIT_REFUSED;
    case PH_CORRUPT:
        return EXIT_DAMAGE;
    default:
        return EXIT_FAILED;
    }
}

static void add_printable(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++)
        buf_add_u8(out, (uint8_t)*text < 0x20 || *text == 0x7f ? ' ' : (uint8_t)*text);
}

void output_error_line(const struct ph_err *err, struct buf *out)
{
    size_t len = strlen(err->text);

    add_printable(err->text, out);
    if (err->hint[0] == '\0')
        return;
    if (len > 0 && strchr(".?!", err->text[len - 1]) == NULL)
        buf_add_u8(out, '.');
    buf_add_u8(out, ' ');
    add_printable(err->hint, out);
}

void output_error(bool json, enum cmd_id cmd, const struct ph_err *err, int exit_code)
{
    struct buf line;
    AUTO_JSON json_t *obj = NULL;
    json_t *detail;

    buf_init(&line, 8 * KIB);
    output_error_line(err, &line);
    (void)fprintf(stderr, "pghush: %s\n", buf_cstr(&line));
    buf_release(&line);
    if (!json)
        return;
    obj = json_object();
    detail = json_object();
    if (cmd != CMD_COUNT)
        jsonx_set_str(obj, "command", command_spec(cmd)->name);
    jsonx_set_str(detail, "code", ph_rc_name(err->rc));
    jsonx_set_str(detail, "text", err->text);
    if (err->hint[0] != '\0')
        jsonx_set_str(detail, "hint", err->hint);
    jsonx_set_i64(detail, "exit", exit_code);
    (void)json_object_set_new(obj, "error", detail);
    (void)output_json(obj);
}

bool output_text(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0;
}

bool output_json(const json_t *obj)
{
    struct buf out;
    bool ok;

    buf_init(&out, OUTPUT_BYTES_MAX);
    jsonx_dump(obj, &out);
    buf_add_u8(&out, '\n');
    ok = !out.overflowed && output_text(buf_cstr(&out));
    buf_release(&out);
    return ok;
}

void table_init(struct table *t, size_t columns)
{
    PH_ASSERT(columns > 0 && columns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns};
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->rows * t->columns; i++)
        free(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->rows = 0;
}

void table_add(struct table *t, const char *const *cells)
{
    t->cells = xrealloc(t->cells, (t->rows + 1) * t->columns * sizeof *t->cells);
    for (size_t i = 0; i < t->columns; i++)
        t->cells[t->rows * t->columns + i] = xstrdup(cells[i] == NULL ? "" : cells[i]);
    t->rows++;
}

/* Characters, not bytes: UTF-8 continuation bytes do not count. */
static size_t text_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++)
        width += ((uint8_t)*text & 0xc0) != 0x80 ? 1 : 0;
    return width;
}

static void add_blanks(struct buf *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_add_u8(out, ' ');
}

void table_print(const struct table *t, size_t indent, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < t->rows * t->columns; i++)
        widths[i % t->columns] = MAX_OF(widths[i % t->columns], text_width(t->cells[i]));
    for (size_t row = 0; row < t->rows; row++) {
        size_t owed = indent; /* blanks before the next text: none are left at the line's end */

        for (size_t col = 0; col < t->columns; col++) {
            const char *cell = t->cells[row * t->columns + col];
            size_t pad = widths[col] - text_width(cell);

            if (t->right[col])
                owed += pad;
            if (*cell != '\0') {
                add_blanks(out, owed);
                buf_add_str(out, cell);
                owed = 0;
            } else {
                owed += text_width(cell);
            }
            owed += 2 + (t->right[col] ? 0 : pad);
        }
        buf_add_u8(out, '\n');
    }
}
