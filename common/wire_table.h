/* wire_table.h - the table of messages, for wire.c. */
#ifndef BERTH_COMMON_WIRE_TABLE_H
#define BERTH_COMMON_WIRE_TABLE_H

#include "common/field.h"
#include "common/wire.h"

struct message {
    const char *name;
    const char *direction;
    const char *meaning;
    const struct field *fields;
    size_t field_count;
    size_t size;
};

extern const struct message wire_messages[WIRE_TYPE_COUNT];

#endif
