/* answer_fuzz.c - answers with reasoning and tool calls, or what looks like
 * them: cut anywhere, the text gives the same events.  The first bytes say
 * which family, how the request was, and where the text is cut. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "model/output_reader.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES = 3, TEXT_MAX_BYTES = 16 * 1024 * 1024 };

static const char tools[] = "f\0text\0\0get_weather\0city\0";

static bool
continues(char c)
{
    return ((uint8_t)c & 0xc0) == 0x80;
}

/* The events of a text, given in pieces of about @piece bytes. */
static void
read_events(const struct output_rules *rules, const char *text, size_t size,
            size_t piece, struct output_events *events)
{
    struct reader *reader = reader_new(rules);

    output_events_init(events, TEXT_MAX_BYTES);
    for (size_t at = 0; at < size;) {
        size_t end = size - at < piece ? size : at + piece;

        while (end < size && continues(text[end]))
            end++;
        reader_push(reader, text + at, end - at, events);
        at = end;
    }
    reader_end(reader, rules->one_call, events);
    assert(!events->text.overflowed);
    reader_free(reader);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct output_rules rules = {
        .max_tokens = 1, .tools = tools, .tools_size = sizeof(tools)};
    struct output_events whole, pieces;
    const char *text = (const char *)data + HEAD_BYTES;

    if (size < HEAD_BYTES + 1)
        return 0;
    rules.format = format_at(data[0] % 16);
    rules.calls = (data[1] & 1) == 0;
    rules.thinks = (data[1] & 2) != 0;
    rules.one_call = (data[1] & 4) != 0;
    if (rules.format == NULL)
        return 0;
    read_events(&rules, text, size - HEAD_BYTES, size, &whole);
    read_events(&rules, text, size - HEAD_BYTES, data[2] % 16 + 1, &pieces);
    assert(whole.text.size == pieces.text.size &&
           memcmp(whole.text.data, pieces.text.data, whole.text.size) == 0);
    assert(whole.count == pieces.count);
    for (size_t i = 0; i < whole.count; i++)
        assert(whole.items[i].kind == pieces.items[i].kind &&
               whole.items[i].call == pieces.items[i].call &&
               whole.items[i].size == pieces.items[i].size);
    output_events_clear(&whole);
    output_events_clear(&pieces);
    return 0;
}
