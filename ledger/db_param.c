/* db_param.c - values as the parameters of statements. */
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "ledger/db.h"

#include "common/banned.h"

struct db_param
db_param_text(const char *text)
{
    return (struct db_param){.text = text};
}

struct db_param
db_param_text_or_null(const char *text)
{
    return (struct db_param){.text = text[0] != '\0' ? text : NULL};
}

struct db_param
db_param_i64(char text[static DB_NUMBER_BYTES], int64_t number)
{
    snprintf(text, DB_NUMBER_BYTES, "%" PRId64, number);
    return (struct db_param){.text = text};
}

struct db_param
db_param_real(char text[static DB_NUMBER_BYTES], double number)
{
    snprintf(text, DB_NUMBER_BYTES, "%.6g", number);
    return (struct db_param){.text = text};
}

struct db_param
db_param_instant(char text[static DB_NUMBER_BYTES], struct instant at)
{
    return (struct db_param){.text = instant_text(at, text, DB_NUMBER_BYTES)};
}

struct db_param
db_param_bytes(const struct buf *buf)
{
    if (buf == NULL || buf->size == 0)
        return (struct db_param){0};
    return (struct db_param){.bytes = buf->data, .size = buf->size};
}
