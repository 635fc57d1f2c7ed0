/* conf.c - configuration files by table. */
#include "common/conf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/units.h"

#include "common/banned.h"

enum {
    FILE_MAX_BYTES = 1024 * 1024,
    SHOWN_BYTES = 64,
};

static const char BLANKS[] = " \t\r\v\f";

/* Reading one file. */
struct reading {
    const char *path;
    const struct conf_key *keys;
    size_t count;
    char *target;
    bool *seen; /* a flag for each key */
    int line;
    enum status status; /* of the first bad line */
    struct error *err;
};

/* Report at the current line; the first report stays. */
static void PRINTF_LIKE(2, 3)
    complain(struct reading *reading, const char *format, ...)
{
    char reason[ERROR_TEXT_BYTES];
    va_list args;

    if (reading->status != STATUS_OK)
        return;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    reading->status = error_set(reading->err, STATUS_INVALID, "%s:%d: %s",
                                reading->path, reading->line, reason);
}

/* --- values --- */

static uint64_t
key_max(const struct conf_key *key)
{
    return key->max > 0 ? key->max : UINT64_MAX;
}

static size_t
text_max(const struct conf_key *key)
{
    return key->max > 0 && key->max < key->size ? (size_t)key->max
                                                : key->size - 1;
}

static bool
set_text(const struct conf_key *key, const char *value, char *item)
{
    size_t size = strlen(value);

    if (size < key->min || size > text_max(key))
        return false;
    memset(item, 0, key->size);
    memcpy(item, value, size);
    return true;
}

static bool
set_number(const struct conf_key *key, const char *value, void *item)
{
    size_t size = strlen(value);
    uint64_t number;
    enum status status = key->type == CONF_BYTES
                             ? parse_bytes(value, size, &number)
                             : parse_u64(value, size, UINT64_MAX, &number);

    if (status != STATUS_OK || number < key->min || number > key_max(key))
        return false;
    *(uint64_t *)item = number;
    return true;
}

static bool
set_bool(const char *value, bool *item)
{
    bool is_yes = strcmp(value, "yes") == 0;

    if (!is_yes && strcmp(value, "no") != 0)
        return false;
    *item = is_yes;
    return true;
}

/* One more text; the caller has seen that there is room. */
static bool
add_text(const struct conf_key *key, const char *value, char *target)
{
    size_t *count = (size_t *)(void *)(target + key->count_at);

    if (!set_text(key, value, target + key->offset + *count * key->size))
        return false;
    ++*count;
    return true;
}

static bool
set_value(const struct conf_key *key, const char *value, char *target)
{
    void *item = target + key->offset;

    switch (key->type) {
    case CONF_TEXT:
        return set_text(key, value, item);
    case CONF_U64:
    case CONF_BYTES:
        return set_number(key, value, item);
    case CONF_BOOL:
        return set_bool(value, item);
    case CONF_TEXTS:
        return add_text(key, value, target);
    }
    return false;
}

/* Say what the key takes, after a value that it does not take. */
static void
complain_of_value(struct reading *reading, const struct conf_key *key,
                  const char *value)
{
    const char *blank = key->unit != NULL ? " " : "";
    const char *unit = key->unit != NULL ? key->unit : "";

    switch (key->type) {
    case CONF_TEXT:
    case CONF_TEXTS:
        complain(reading, "%s must have %" PRIu64 " to %zu bytes, has %zu",
                 key->name, key->min, text_max(key), strlen(value));
        break;
    case CONF_U64:
        complain(reading,
                 "%s must be a whole number from %" PRIu64 " to %" PRIu64
                 "%s%s, is \"%.*s\"",
                 key->name, key->min, key_max(key), blank, unit, SHOWN_BYTES,
                 value);
        break;
    case CONF_BYTES:
        complain(reading,
                 "%s must be a size from %" PRIu64 " to %" PRIu64
                 " bytes (as 4096, 512MiB, 96GB), is \"%.*s\"",
                 key->name, key->min, key_max(key), SHOWN_BYTES, value);
        break;
    case CONF_BOOL:
        complain(reading, "%s must be yes or no, is \"%.*s\"", key->name,
                 SHOWN_BYTES, value);
        break;
    }
}

/* --- lines --- */

static const struct conf_key *
find_key(const struct reading *reading, const char *name)
{
    for (size_t i = 0; i < reading->count; i++) {
        if (strcmp(reading->keys[i].name, name) == 0)
            return &reading->keys[i];
    }
    return NULL;
}

/* May the key be given here?  A file's list replaces the default one. */
static bool
may_take(struct reading *reading, const struct conf_key *key)
{
    bool *seen = &reading->seen[key - reading->keys];
    size_t *count = (size_t *)(void *)(reading->target + key->count_at);
    bool first = !*seen;

    *seen = true;
    if (key->type != CONF_TEXTS) {
        if (!first)
            complain(reading, "%s is given twice", key->name);
        return first;
    }
    if (first)
        *count = 0;
    if (*count == key->capacity)
        complain(reading, "%s may be given at most %zu times", key->name,
                 key->capacity);
    return *count < key->capacity;
}

static void
take_value(struct reading *reading, const char *name, const char *value)
{
    const struct conf_key *key = find_key(reading, name);

    if (key == NULL)
        complain(reading, "unknown key \"%.*s\": take it out", SHOWN_BYTES,
                 name);
    else if (may_take(reading, key) && !set_value(key, value, reading->target))
        complain_of_value(reading, key, value);
}

/* Without the blanks on both sides; the text is cut in place. */
static char *
trim(char *text)
{
    size_t size;

    text += strspn(text, BLANKS);
    size = strlen(text);
    while (size > 0 && strchr(BLANKS, text[size - 1]) != NULL)
        size--;
    text[size] = '\0';
    return text;
}

/* One line of @size bytes; the byte after them may be written. */
static void
take_line(struct reading *reading, char *line, size_t size)
{
    char *equals;

    if (memchr(line, '\0', size) != NULL) {
        complain(reading, "line contains a NUL");
        return;
    }
    line[size] = '\0';
    line = trim(line);
    if (*line == '\0' || *line == '#' || *line == ';')
        return;
    equals = strchr(line, '=');
    if (*line == '[') {
        complain(reading, "sections are not used here");
    } else if (equals == NULL) {
        complain(reading, "must be \"key = value\" or a comment");
    } else {
        *equals = '\0';
        take_value(reading, trim(line), trim(equals + 1));
    }
}

/* All lines up to the first bad one. */
static void
take_lines(struct reading *reading, char *text, size_t size)
{
    char *end = text + size;

    while (text < end && reading->status == STATUS_OK) {
        char *newline = memchr(text, '\n', (size_t)(end - text));

        if (newline == NULL)
            newline = end; /* a buffer ends with a NUL of its own */
        reading->line++;
        take_line(reading, text, (size_t)(newline - text));
        text = newline + 1;
    }
}

void
conf_defaults(const struct conf_key *keys, size_t count, void *target)
{
    char *base = target;

    for (size_t i = 0; i < count; i++) {
        bool fits = true;

        if (keys[i].fallback == NULL)
            continue;
        if (keys[i].type == CONF_TEXTS)
            *(size_t *)(void *)(base + keys[i].count_at) = 0;
        fits = set_value(&keys[i], keys[i].fallback, base);
        assert(fits); /* else the table contradicts itself */
    }
}

enum status
conf_read(const char *path, const struct conf_key *keys, size_t count,
          void *target, struct error *err)
{
    struct reading reading = {.path = path,
                              .keys = keys,
                              .count = count,
                              .target = target,
                              .err = err};
    struct buf text;

    buf_init(&text, FILE_MAX_BYTES);
    reading.status = buf_read_file(&text, path, err);
    if (reading.status != STATUS_OK)
        goto out;
    conf_defaults(keys, count, target);
    reading.seen = mem_array(count, sizeof(bool));
    take_lines(&reading, text.data, text.size);
    free(reading.seen);

out:
    buf_clear(&text);
    return reading.status;
}

/* --- printing --- */

static void
print_texts(const struct conf_key *key, const char *base, struct buf *out)
{
    size_t count = *(const size_t *)(const void *)(base + key->count_at);

    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s = %s\n", key->name,
                   base + key->offset + i * key->size);
}

void
conf_print(const struct conf_key *keys, size_t count, const void *source,
           struct buf *out)
{
    const char *base = source;

    for (size_t i = 0; i < count; i++) {
        const struct conf_key *key = &keys[i];
        const void *item = base + key->offset;

        switch (key->type) {
        case CONF_TEXT:
            buf_printf(out, "%s = %s\n", key->name, (const char *)item);
            break;
        case CONF_U64:
        case CONF_BYTES:
            buf_printf(out, "%s = %" PRIu64 "\n", key->name,
                       *(const uint64_t *)item);
            break;
        case CONF_BOOL:
            buf_printf(out, "%s = %s\n", key->name,
                       *(const bool *)item ? "yes" : "no");
            break;
        case CONF_TEXTS:
            print_texts(key, base, out);
            break;
        }
    }
}

void
conf_print_json(const struct conf_key *keys, size_t count, const void *source,
                struct json_out *out)
{
    const char *base = source;

    json_open_object(out);
    for (size_t i = 0; i < count; i++) {
        const struct conf_key *key = &keys[i];
        const void *item = base + key->offset;

        json_key(out, key->name);
        switch (key->type) {
        case CONF_TEXT:
            json_put_text(out, item);
            break;
        case CONF_U64:
        case CONF_BYTES:
            json_put_u64(out, *(const uint64_t *)item);
            break;
        case CONF_BOOL:
            json_put_bool(out, *(const bool *)item);
            break;
        case CONF_TEXTS:
            json_open_list(out);
            for (size_t t = 0;
                 t < *(const size_t *)(const void *)(base + key->count_at); t++)
                json_put_text(out, base + key->offset + t * key->size);
            json_close_list(out);
            break;
        }
    }
    json_close_object(out);
}
