/* json_fuzz.c - documents that may be anything: what parses writes a text that
 * parses to the same again; every kind of access is safe. */
#include "common/json.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX_BYTES = 64 * 1024 * 1024, DEPTH_MAX = 600 };

/* Use every accessor on @value and what is in it. */
static void
walk(const struct json *value, unsigned depth)
{
    const struct json_member *it;
    size_t text_size = 0;
    int64_t integer;
    double real;

    assert(depth < DEPTH_MAX);
    if (json_kind(value) == JSON_KIND_TEXT) {
        const char *text = json_as_text(value, &text_size);

        assert(text != NULL && text[text_size] == '\0');
    }
    if (json_kind(value) == JSON_KIND_INTEGER)
        assert(json_as_i64(value, &integer) == STATUS_OK);
    (void)!json_as_i64(value, &integer);
    (void)!json_as_double(value, &real);
    for (size_t i = 0;
         json_kind(value) == JSON_KIND_LIST && i < json_count(value); i++)
        walk(json_at(value, i), depth + 1);
    assert(json_at(value, json_count(value)) == NULL);
    if (json_kind(value) != JSON_KIND_OBJECT)
        return;
    for (it = json_member_first(value); it != NULL;
         it = json_member_next(value, it)) {
        assert(json_get(value, json_member_name(it)) == json_member_value(it));
        walk(json_member_value(it), depth + 1);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc doc = {0}, again = {0};
    struct buf first, second;
    struct error err = {0};

    if (json_doc_parse((const char *)data, size, &doc, &err) != STATUS_OK) {
        assert(err.text[0] != '\0' && doc.root == NULL);
        return 0;
    }
    walk(doc.root, 0);
    buf_init(&first, TEXT_MAX_BYTES);
    buf_init(&second, TEXT_MAX_BYTES);
    json_dump(doc.root, &first);
    if (!first.overflowed) {
        assert(json_doc_parse(first.data, first.size, &again, &err) ==
               STATUS_OK);
        json_dump(again.root, &second);
        assert(first.size == second.size &&
               memcmp(first.data, second.data, first.size) == 0);
    }
    buf_clear(&first);
    buf_clear(&second);
    json_doc_clear(&again);
    json_doc_clear(&doc);
    return 0;
}
