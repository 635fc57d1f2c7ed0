/* table.c - cells in rows, columns as wide as their widest cell. */
#include "cli/table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "common/cert.h"
#include "common/mem.h"
#include "common/units.h"

#include "common/banned.h"

enum { CELL_MAX_BYTES = 4096, SHORT_ID_BYTES = 8, TIME_BYTES = 19 };

void
cli_table_init(struct cli_table *table, const struct cli_column *columns,
               size_t column_count, bool short_ids)
{
    assert(column_count > 0);
    *table = (struct cli_table){.columns = columns,
                                .column_count = column_count,
                                .short_ids = short_ids};
}

void
cli_table_clear(struct cli_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->cell_count = 0;
    table->cell_room = 0;
}

static void
add(struct cli_table *table, const char *text, size_t size)
{
    struct buf safe;

    buf_init(&safe, CELL_MAX_BYTES);
    cli_text_append_safe(&safe, text, size, false);
    if (safe.size == 0)
        buf_append_char(&safe, '-');
    if (table->cell_count == table->cell_room) {
        table->cell_room = table->cell_room == 0 ? 64 : table->cell_room * 2;
        table->cells =
            mem_grow(table->cells, table->cell_room, sizeof(table->cells[0]));
    }
    table->cells[table->cell_count++] = buf_take(&safe, NULL);
    buf_clear(&safe);
}

void
cli_table_text(struct cli_table *table, const char *text)
{
    add(table, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

void
cli_table_format(struct cli_table *table, const char *format, ...)
{
    char text[CELL_MAX_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_table_text(table, text);
}

static void
append_list(const struct json *list, struct buf *out)
{
    for (size_t i = 0; i < json_count(list); i++) {
        size_t size = 0;
        const char *text = json_as_text(json_at(list, i), &size);

        if (text != NULL) {
            buf_append_text(out, out->size > 0 ? "," : "");
            buf_append(out, text, size);
        }
    }
}

void
cli_table_json(struct cli_table *table, const struct json *value)
{
    struct buf text;
    size_t size = 0;
    const char *bytes = json_as_text(value, &size);

    if (bytes != NULL) {
        add(table, bytes, size);
        return;
    }
    buf_init(&text, CELL_MAX_BYTES);
    switch (json_kind(value)) {
    case JSON_KIND_BOOL:
        buf_append_text(&text, json_as_bool(value) ? "yes" : "no");
        break;
    case JSON_KIND_LIST:
        append_list(value, &text);
        break;
    case JSON_KIND_INTEGER:
    case JSON_KIND_REAL:
    case JSON_KIND_OBJECT:
        json_dump(value, &text);
        break;
    case JSON_KIND_NULL:
    case JSON_KIND_TEXT:
        break;
    }
    add(table, text.data, text.size);
    buf_clear(&text);
}

void
cli_table_credits(struct cli_table *table, const struct json *ucr)
{
    struct credits value = {0};
    char text[32];

    if (json_as_i64(ucr, &value.micro) == STATUS_OK)
        cli_table_text(table, credits_text(value, text, sizeof(text)));
    else
        cli_table_text(table, NULL);
}

void
cli_table_bytes(struct cli_table *table, const struct json *bytes)
{
    int64_t value = 0;
    char text[32];

    if (json_as_i64(bytes, &value) == STATUS_OK && value >= 0)
        cli_table_text(table, bytes_text((uint64_t)value, text, sizeof(text)));
    else
        cli_table_text(table, NULL);
}

void
cli_table_time(struct cli_table *table, const struct json *time)
{
    size_t size = 0;
    const char *text = json_as_text(time, &size);

    if (text == NULL || size <= TIME_BYTES || text[10] != 'T')
        cli_table_json(table, time);
    else
        cli_table_format(table, "%.10s %.8s", text, text + 11);
}

void
cli_table_id(struct cli_table *table, const struct json *id)
{
    const char *text = json_as_text(id, NULL);

    if (text != NULL && table->short_ids && uuid_is_valid(text))
        cli_table_text(table, text + strlen(text) - SHORT_ID_BYTES);
    else
        cli_table_json(table, id);
}

static size_t
width_of(const char *text)
{
    return cli_text_width(text, strlen(text));
}

static void
append_blanks(struct buf *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_append_char(out, ' ');
}

static void
print_row(const struct cli_table *table, const size_t *widths,
          char *const *cells, struct buf *out)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const char *text = cells != NULL ? cells[i] : table->columns[i].title;
        size_t blanks = widths[i] - width_of(text);
        bool is_last = i + 1 == table->column_count;

        if (table->columns[i].align == CLI_RIGHT)
            append_blanks(out, blanks);
        buf_append_text(out, text);
        if (table->columns[i].align == CLI_LEFT && !is_last)
            append_blanks(out, blanks);
        buf_append_text(out, is_last ? "\n" : "  ");
    }
}

void
cli_table_print(const struct cli_table *table, struct buf *out)
{
    size_t *widths = mem_array(table->column_count, sizeof(*widths));

    assert(table->cell_count % table->column_count == 0);
    for (size_t i = 0; i < table->column_count; i++)
        widths[i] = width_of(table->columns[i].title);
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t *widest = &widths[i % table->column_count];
        size_t width = width_of(table->cells[i]);

        *widest = width > *widest ? width : *widest;
    }
    print_row(table, widths, NULL, out);
    for (size_t i = 0; i < table->cell_count; i += table->column_count)
        print_row(table, widths, table->cells + i, out);
    free(widths);
}
