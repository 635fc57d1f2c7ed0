/* db_rows.c - rows as text, and what the text means. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "ledger/db_private.h"

#include "common/banned.h"

size_t
db_row_count(const struct db_rows *rows)
{
    return (size_t)PQntuples(rows->result);
}

int
db_column_count(const struct db_rows *rows)
{
    return PQnfields(rows->result);
}

void
db_rows_free(struct db_rows *rows)
{
    if (rows == NULL)
        return;
    PQclear(rows->result);
    free(rows);
}

static void
assert_in(const struct db_rows *rows, size_t row, int column)
{
    assert(row < db_row_count(rows));
    assert(column >= 0);
    assert(column < PQnfields(rows->result));
}

bool
db_is_null(const struct db_rows *rows, size_t row, int column)
{
    assert_in(rows, row, column);
    return PQgetisnull(rows->result, (int)row, column) != 0;
}

const char *
db_text(const struct db_rows *rows, size_t row, int column)
{
    assert_in(rows, row, column);
    return PQgetvalue(rows->result, (int)row, column);
}

int64_t
db_i64(const struct db_rows *rows, size_t row, int column)
{
    const char *text = db_text(rows, row, column);
    int64_t value = 0;
    enum status status;

    if (db_is_null(rows, row, column))
        return 0;
    status = parse_i64(text, strlen(text), &value);
    assert(status == STATUS_OK);
    (void)status;
    return value;
}

bool
db_bool(const struct db_rows *rows, size_t row, int column)
{
    return strcmp(db_text(rows, row, column), "t") == 0;
}

double
db_double(const struct db_rows *rows, size_t row, int column)
{
    const char *text = db_text(rows, row, column);
    double value = 0;
    enum status status;

    if (db_is_null(rows, row, column))
        return 0;
    status = parse_double(text, strlen(text), &value);
    assert(status == STATUS_OK);
    (void)status;
    return value;
}

void
db_bytes(const struct db_rows *rows, size_t row, int column, struct buf *out)
{
    const char *text = db_text(rows, row, column);
    size_t size = 0;
    unsigned char *bytes = PQunescapeBytea((const unsigned char *)text, &size);

    assert(bytes != NULL);
    buf_append(out, bytes, size);
    PQfreemem(bytes);
}
