/* table.h - aligned tables for people.
 *
 * Numbers to the right, text to the left, two blanks between columns, nothing
 * but what a terminal shows as it is (cli/text.h).  Unknown values are "-". */
#ifndef BERTH_CLI_TABLE_H
#define BERTH_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/json.h"

enum cli_align { CLI_LEFT, CLI_RIGHT };

struct cli_column {
    const char *title;
    enum cli_align align;
};

struct cli_table {
    const struct cli_column *columns; /* kept */
    size_t column_count;
    bool short_ids; /* cli_table_id shortens */
    char **cells;   /* row after row; the last row may be unfinished */
    size_t cell_count;
    size_t cell_room;
};

void cli_table_init(struct cli_table *table, const struct cli_column *columns,
                    size_t column_count, bool short_ids);
void cli_table_clear(struct cli_table *table);

/* Each adds the next cell. */
void cli_table_text(struct cli_table *table, const char *text);
void cli_table_format(struct cli_table *table, const char *format, ...)
    PRINTF_LIKE(2, 3);
/* From a JSON value: text as it is, a number in decimal, a list of texts with
 * commas, true as "yes". */
void cli_table_json(struct cli_table *table, const struct json *value);
void cli_table_credits(struct cli_table *table, const struct json *ucr);
void cli_table_bytes(struct cli_table *table, const struct json *bytes);
/* RFC 3339 UTC to the second: "2026-11-30 21:44:00". */
void cli_table_time(struct cli_table *table, const struct json *time);
/* The last 8 characters of a UUID on a terminal (the first ones are the time
 * and the same for all that began together), anything else whole. */
void cli_table_id(struct cli_table *table, const struct json *id);

/* Title line and rows; every row must be complete. */
void cli_table_print(const struct cli_table *table, struct buf *out);

#endif
