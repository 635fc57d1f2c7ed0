/* format.c - the families, and how one is recognised. */
#include "model/format.h"

#include <string.h>

#include "common/attrs.h"
#include "common/mem.h"

#include "common/banned.h"

static const struct format_tags function_tags = {
    .name_open = "<function=",
    .name_close = ">",
    .key_open = "<parameter=",
    .key_close = ">",
    .value_open = "",
    .value_close = "</parameter>",
    .end = "</function>",
    .lines = true,
};

static const struct format_tags pair_tags = {
    .name_open = "",
    .name_close = "\n",
    .key_open = "<arg_key>",
    .key_close = "</arg_key>",
    .value_open = "<arg_value>",
    .value_close = "</arg_value>",
    .end = "",
};

/* The words of DeepSeek's markers are joined by U+2581, inside U+FF5C. */
#define DEEPSEEK(noun_, end_)                                                  \
    "<\xef\xbd\x9ctool\xe2\x96\x81" noun_ "\xe2\x96\x81" end_ "\xef\xbd\x9c>"
#define DEEPSEEK_SEPARATOR "<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>"
#define DEEPSEEK_MARKERS                                                       \
    [FORMAT_THINK_OPEN] = "<think>", [FORMAT_THINK_CLOSE] = "</think>",        \
    [FORMAT_CALLS_OPEN] = DEEPSEEK("calls", "begin"),                          \
    [FORMAT_CALLS_CLOSE] = DEEPSEEK("calls", "end"),                           \
    [FORMAT_CALL_OPEN] = DEEPSEEK("call", "begin"),                            \
    [FORMAT_CALL_MIDDLE] = DEEPSEEK_SEPARATOR,                                 \
    [FORMAT_CALL_CLOSE] = DEEPSEEK("call", "end")
#define MISTRAL_MARKERS                                                        \
    [FORMAT_THINK_OPEN] = "[THINK]", [FORMAT_THINK_CLOSE] = "[/THINK]",        \
    [FORMAT_CALL_OPEN] = "[TOOL_CALLS]", [FORMAT_CALL_ID] = "[CALL_ID]",       \
    [FORMAT_CALL_MIDDLE] = "[ARGS]"

/* The first whose signs are all there counts. */
static const struct format formats[] = {
    {
        .name = "harmony",
        .signs = {"<|channel|>", "<|message|>"},
        .markers = {[FORMAT_HEAD_OPEN] = "<|start|>",
                    [FORMAT_HEAD_CHANNEL] = "<|channel|>",
                    [FORMAT_HEAD_TYPE] = "<|constrain|>",
                    [FORMAT_HEAD_CLOSE] = "<|message|>",
                    [FORMAT_TEXT_CLOSE] = "<|end|>",
                    [FORMAT_CALL_CLOSE] = "<|call|>"},
        .syntax = FORMAT_CHANNELS,
        .thought = "thinking",
        .front = "<|channel|>commentary to=functions.",
        .back = " <|constrain|>json<|message|>",
    },
    {
        .name = "kimi",
        .signs = {"<|tool_calls_section_begin|>"},
        .markers = {[FORMAT_THINK_OPEN] = "<think>",
                    [FORMAT_THINK_CLOSE] = "</think>",
                    [FORMAT_CALLS_OPEN] = "<|tool_calls_section_begin|>",
                    [FORMAT_CALLS_CLOSE] = "<|tool_calls_section_end|>",
                    [FORMAT_CALL_OPEN] = "<|tool_call_begin|>",
                    [FORMAT_CALL_MIDDLE] = "<|tool_call_argument_begin|>",
                    [FORMAT_CALL_CLOSE] = "<|tool_call_end|>"},
        .syntax = FORMAT_HEADER,
        .id = FORMAT_ID_OWN,
        .thought = "reasoning_content",
        .front = "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
        .back = ":%<|tool_call_argument_begin|>",
    },
    {
        /* V3 and R1: the header is the type, the name begins a fence. */
        .name = "deepseek",
        .signs = {DEEPSEEK("calls", "begin"), "```json"},
        .markers = {DEEPSEEK_MARKERS},
        .syntax = FORMAT_HEADER,
        .text_arguments = true,
        .null_content = true,
        .thought = "reasoning_content",
        .front = DEEPSEEK("calls", "begin")
            DEEPSEEK("call", "begin") "function" DEEPSEEK_SEPARATOR,
        .back = "\n```json\n",
    },
    {
        .name = "deepseek-3.1",
        .signs = {DEEPSEEK("calls", "begin")},
        .markers = {DEEPSEEK_MARKERS},
        .syntax = FORMAT_HEADER,
        .text_arguments = true,
        .null_content = true,
        .thought = "reasoning_content",
        .front = DEEPSEEK("calls", "begin") DEEPSEEK("call", "begin"),
        .back = DEEPSEEK_SEPARATOR,
    },
    {
        .name = "mistral",
        .signs = {"[TOOL_CALLS]", "[ARGS]"},
        .markers = {MISTRAL_MARKERS},
        .syntax = FORMAT_HEADER,
        .id = FORMAT_ID_NINE,
        .thought = "reasoning_content",
        .front = "[TOOL_CALLS]",
        .back = "[ARGS]",
    },
    {
        .name = "mistral-list",
        .signs = {"[TOOL_CALLS]"},
        .markers = {MISTRAL_MARKERS},
        .syntax = FORMAT_HEADER,
        .id = FORMAT_ID_NINE,
        .thought = "reasoning_content",
        .front = "[TOOL_CALLS] [{\"name\": \"",
        .back = "\", \"arguments\":",
    },
    {
        .name = "glm",
        .signs = {"<arg_key>", "<tool_call>"},
        .markers = {[FORMAT_THINK_OPEN] = "<think>",
                    [FORMAT_THINK_CLOSE] = "</think>",
                    [FORMAT_CALL_OPEN] = "<tool_call>",
                    [FORMAT_CALL_CLOSE] = "</tool_call>"},
        .syntax = FORMAT_TAGS,
        .tags = &pair_tags,
        .thought = "reasoning_content",
        .front = "\n<tool_call>",
        .back = "\n",
    },
    {
        .name = "qwen-tags",
        .signs = {"<function=", "<tool_call>"},
        .markers = {[FORMAT_THINK_OPEN] = "<think>",
                    [FORMAT_THINK_CLOSE] = "</think>",
                    [FORMAT_CALL_OPEN] = "<tool_call>",
                    [FORMAT_CALL_CLOSE] = "</tool_call>"},
        .syntax = FORMAT_TAGS,
        .tags = &function_tags,
        .thought = "reasoning_content",
        .front = "<tool_call>\n<function=",
        .back = ">\n",
    },
    {
        .name = "hermes",
        .signs = {"<tool_call>"},
        .markers = {[FORMAT_THINK_OPEN] = "<think>",
                    [FORMAT_THINK_CLOSE] = "</think>",
                    [FORMAT_CALL_OPEN] = "<tool_call>",
                    [FORMAT_CALL_CLOSE] = "</tool_call>"},
        .syntax = FORMAT_OBJECT,
        .thought = "reasoning_content",
        .front = "<tool_call>\n{\"name\": \"",
        .back = "\", \"arguments\":",
    },
    {
        .name = "llama",
        .signs = {"<|start_header_id|>", "parameters"},
        .markers = {[FORMAT_CALL_OPEN] = "<|python_tag|>"},
        .syntax = FORMAT_OBJECT,
        .bare = true,
        .front = "{\"name\": \"",
        .back = "\", \"parameters\":",
    },
    {
        .name = "think",
        .signs = {"</think>"},
        .markers = {[FORMAT_THINK_OPEN] = "<think>",
                    [FORMAT_THINK_CLOSE] = "</think>"},
        .syntax = FORMAT_NONE,
        .thought = "reasoning_content",
    },
};

static bool
holds(const char *text, size_t size, const char *wanted)
{
    size_t wanted_size = strlen(wanted);

    for (size_t at = 0; at + wanted_size <= size; at++) {
        const char *found =
            memchr(text + at, wanted[0], size - wanted_size - at + 1);

        if (found == NULL)
            return false;
        at = (size_t)(found - text);
        if (memcmp(found, wanted, wanted_size) == 0)
            return true;
    }
    return false;
}

const struct format *
format_find(const char *source, size_t size)
{
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        bool all = true;

        for (size_t sign = 0; sign < COUNT_OF(formats[i].signs); sign++) {
            const char *wanted = formats[i].signs[sign];

            all = all && (wanted == NULL || holds(source, size, wanted));
        }
        if (all)
            return &formats[i];
    }
    return NULL;
}

static bool
is_of_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_';
}

bool
format_template_reads(const char *source, size_t size, const char *name)
{
    size_t name_size = strlen(name);
    bool in_code = false; /* between {{ }} or {% %} */

    for (size_t at = 0; at + 1 < size; at++) {
        const char *here = source + at;

        if (here[0] == '{' && (here[1] == '{' || here[1] == '%'))
            in_code = true;
        else if ((here[0] == '}' || here[0] == '%') && here[1] == '}')
            in_code = false;
        if (in_code && size - at >= name_size &&
            memcmp(here, name, name_size) == 0 &&
            (at == 0 ||
             (!is_of_word(here[-1]) && here[-1] != '<' && here[-1] != '/')) &&
            (size - at == name_size || !is_of_word(here[name_size])))
            return true;
    }
    return false;
}

const struct format *
format_named(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

const struct format *
format_at(size_t index)
{
    return index < COUNT_OF(formats) ? &formats[index] : NULL;
}

void
format_call_begin(const struct format *format, bool closes, const char *name,
                  size_t number, struct buf *out)
{
    if (closes)
        buf_printf(out, "\n%s\n\n", format->markers[FORMAT_THINK_CLOSE]);
    buf_append_text(out, format->front);
    if (name == NULL)
        return;
    buf_append_text(out, name);
    for (const char *c = format->back; *c != '\0'; c++) {
        if (*c == '%')
            buf_printf(out, "%zu", number);
        else
            buf_append_char(out, *c);
    }
}

bool
format_thinks_at_once(const struct format *format, const char *prompt,
                      size_t size)
{
    const char *open =
        format == NULL ? NULL : format->markers[FORMAT_THINK_OPEN];
    size_t open_size = open == NULL ? 0 : strlen(open);

    while (size > 0 && (prompt[size - 1] == '\n' || prompt[size - 1] == ' '))
        size--;
    return open != NULL && size >= open_size &&
           memcmp(prompt + size - open_size, open, open_size) == 0;
}
