/* template_lex.c - a chat template as tokens.
 *
 * Blanks around tags follow Jinja2 with trim_blocks and lstrip_blocks, as
 * transformers sets them: the newline after a block tag or a comment goes, and
 * so do blanks before one that is first in its line; "-" takes all blanks of
 * its side, "+" none. */
#include "model/template_lex.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/units.h"

#include "common/banned.h"

enum { NUMBER_MAX_BYTES = 32, BRACKETS_MAX = 1000 };

void
lexer_init(struct lexer *lexer, struct arena *arena, struct text source,
           struct error *err)
{
    *lexer = (struct lexer){.arena = arena,
                            .source = source,
                            .line = 1,
                            .place = PLACE_DATA,
                            .line_start = true,
                            .err = err};
}

static char
peek(const struct lexer *lexer, size_t ahead)
{
    size_t at = lexer->at + ahead;

    return at < lexer->source.size ? lexer->source.data[at] : '\0';
}

static bool
is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Go on by @size bytes and count their lines. */
static void
advance(struct lexer *lexer, size_t size)
{
    for (size_t i = 0; i < size; i++)
        lexer->line += lexer->source.data[lexer->at + i] == '\n';
    lexer->at += size;
}

static bool
starts(const struct lexer *lexer, size_t at, const char *text)
{
    size_t size = strlen(text);

    return lexer->source.size - at >= size &&
           memcmp(lexer->source.data + at, text, size) == 0;
}

/* The next "{%", "{{" or "{#" at or after the position; the end if none. */
static size_t
find_tag(const struct lexer *lexer)
{
    size_t at = lexer->at;

    for (; at + 1 < lexer->source.size; at++) {
        char second = lexer->source.data[at + 1];

        if (lexer->source.data[at] == '{' &&
            (second == '%' || second == '{' || second == '#'))
            return at;
    }
    return lexer->source.size;
}

/* The size of the text before the tag at @tag that is left after stripping. */
static size_t
strip_before(const struct lexer *lexer, size_t tag)
{
    const char *data = lexer->source.data;
    char sign = tag + 2 < lexer->source.size ? data[tag + 2] : '\0';
    size_t end = tag;

    if (sign == '-') {
        while (end > lexer->at && is_blank(data[end - 1]))
            end--;
        return end - lexer->at;
    }
    if (sign == '+' || data[tag + 1] == '{')
        return tag - lexer->at;
    while (end > lexer->at && is_blank(data[end - 1]) && data[end - 1] != '\n')
        end--;
    if (end > lexer->at ? data[end - 1] == '\n' : lexer->line_start)
        return end - lexer->at;
    return tag - lexer->at;
}

/* After the end of a tag, whose sign is '-', '+' or neither: the blanks that
 * belong to it.  @trims: it also takes a newline without a sign. */
static void
strip_after(struct lexer *lexer, char sign, bool trims)
{
    size_t begin = lexer->at;

    if (sign == '-') {
        while (is_blank(peek(lexer, 0)))
            advance(lexer, 1);
    } else if (sign != '+' && trims && peek(lexer, 0) == '\n') {
        advance(lexer, 1);
    }
    lexer->line_start =
        lexer->at > begin && lexer->source.data[lexer->at - 1] == '\n';
}

static enum status
skip_comment(struct lexer *lexer)
{
    struct text end = TEXT("#}");
    uint64_t steps = 0;
    size_t found = text_find(lexer->source, end, lexer->at + 2, &steps);
    char sign = '\0';

    if (found == SIZE_MAX)
        return template_fail(lexer->err, lexer->line, "comment without end");
    sign = lexer->source.data[found - 1];
    advance(lexer, found + 2 - lexer->at);
    strip_after(lexer, sign, true);
    return STATUS_OK;
}

/* A tag "{% name %}" at @at, with any signs?  Its size, or 0. */
static size_t
match_word_tag(const struct lexer *lexer, size_t at, const char *name,
               char *before, char *after)
{
    size_t end = at + 2;
    const char *data = lexer->source.data;

    if (!starts(lexer, at, "{%"))
        return 0;
    *before = end < lexer->source.size ? data[end] : '\0';
    if (*before == '-' || *before == '+')
        end++;
    while (end < lexer->source.size && is_blank(data[end]))
        end++;
    if (!starts(lexer, end, name))
        return 0;
    end += strlen(name);
    while (end < lexer->source.size && is_blank(data[end]))
        end++;
    *after = end < lexer->source.size ? data[end] : '\0';
    if (*after == '-' || *after == '+')
        end++;
    return starts(lexer, end, "%}") ? end + 2 - at : 0;
}

/* {% raw %} at the position: its text as one token. */
static enum status
read_raw(struct lexer *lexer, size_t open_size, char sign,
         struct template_token *token)
{
    char before = '\0';
    char after = '\0';
    size_t size = 0;

    advance(lexer, open_size);
    strip_after(lexer, sign, true);
    token->kind = TOKEN_DATA;
    token->line = lexer->line;
    token->text.data = lexer->source.data + lexer->at;
    for (size_t at = lexer->at; at < lexer->source.size; at++) {
        size = match_word_tag(lexer, at, "endraw", &before, &after);
        if (size == 0)
            continue;
        token->text.size = strip_before(lexer, at);
        advance(lexer, at + size - lexer->at);
        strip_after(lexer, after, true);
        return STATUS_OK;
    }
    return template_fail(lexer->err, lexer->line, "raw without endraw");
}

static enum status
open_tag(struct lexer *lexer, struct template_token *token)
{
    bool block = peek(lexer, 1) == '%';
    char sign = peek(lexer, 2);
    char before = '\0';
    char after = '\0';
    size_t raw = match_word_tag(lexer, lexer->at, "raw", &before, &after);

    lexer->opened = false;
    if (raw > 0)
        return read_raw(lexer, raw, after, token);
    token->kind = block ? TOKEN_OPEN_BLOCK : TOKEN_OPEN_PRINT;
    token->line = lexer->line;
    advance(lexer, sign == '-' || sign == '+' ? 3 : 2);
    lexer->place = block ? PLACE_BLOCK : PLACE_PRINT;
    lexer->brackets = 0;
    return STATUS_OK;
}

/* Data up to the next tag, or the tag when there is none before it. */
static enum status
read_data(struct lexer *lexer, struct template_token *token)
{
    while (!lexer->opened) {
        size_t tag = find_tag(lexer);
        bool at_end = tag == lexer->source.size;

        token->kind = TOKEN_DATA;
        token->line = lexer->line;
        token->text.data = lexer->source.data + lexer->at;
        token->text.size = at_end ? tag - lexer->at : strip_before(lexer, tag);
        if (at_end && token->text.size == 0) {
            token->kind = TOKEN_END;
            return STATUS_OK;
        }
        advance(lexer, tag - lexer->at);
        if (!at_end && peek(lexer, 1) == '#') {
            enum status status = skip_comment(lexer);
            if (status != STATUS_OK)
                return status;
        } else if (!at_end) {
            lexer->opened = true;
        }
        if (token->text.size > 0)
            return STATUS_OK;
    }
    return open_tag(lexer, token);
}

/* --- inside tags ----------------------------------------------------------*/

static bool
is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_';
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void
append_point(struct buf *out, uint32_t point)
{
    utf8proc_uint8_t bytes[4];
    bool valid = point < 0xd800 || (point > 0xdfff && point <= 0x10ffff);
    utf8proc_ssize_t size =
        utf8proc_encode_char(valid ? (utf8proc_int32_t)point : 0xfffd, bytes);

    buf_append(out, bytes, (size_t)size);
}

/* @digits of hexadecimal after an escape's letter; false when they are none. */
static bool
read_hex(struct text body, size_t at, size_t digits, uint32_t *point)
{
    *point = 0;
    if (body.size - at < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        char c = body.data[at + i];
        uint32_t digit = is_digit(c)              ? (uint32_t)(c - '0')
                         : (c >= 'a' && c <= 'f') ? (uint32_t)(c - 'a' + 10)
                         : (c >= 'A' && c <= 'F') ? (uint32_t)(c - 'A' + 10)
                                                  : 16;

        if (digit == 16)
            return false;
        *point = *point * 16 + digit;
    }
    return true;
}

/* The escape whose letter is at @at, as Python reads it; returns how many bytes
 * it took.  One that Python does not know stays as it is. */
static size_t
unescape(struct text body, size_t at, struct buf *out)
{
    static const char letters[] = "ntr\\'\"abfv0";
    static const char meanings[] = "\n\t\r\\'\"\a\b\f\v";
    char c = body.data[at];
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t point = 0;

    if (letter != NULL) {
        buf_append(out, &meanings[letter - letters], 1);
        return 1;
    }
    if (digits > 0 && read_hex(body, at + 1, digits, &point)) {
        append_point(out, point);
        return 1 + digits;
    }
    if (c == '\n') /* a continued line */
        return 1;
    buf_append_char(out, '\\');
    return 0;
}

static enum status
read_text(struct lexer *lexer, struct template_token *token)
{
    char quote = peek(lexer, 0);
    struct text body = {lexer->source.data + lexer->at + 1, 0};
    size_t left = lexer->source.size - lexer->at - 1;
    struct buf out;

    while (body.size < left && body.data[body.size] != quote)
        body.size += body.data[body.size] == '\\' ? 2 : 1;
    if (body.size >= left)
        return template_fail(lexer->err, lexer->line, "string without end");
    buf_init(&out, body.size * 2 + 8);
    for (size_t at = 0; at < body.size;) {
        if (body.data[at] == '\\')
            at += 1 + unescape(body, at + 1, &out);
        else
            buf_append_char(&out, body.data[at++]);
    }
    token->kind = TOKEN_TEXT;
    token->text = text_take(lexer->arena, &out);
    advance(lexer, body.size + 2);
    return STATUS_OK;
}

/* The size of "e-7" at @at after a number, 0 when there is none. */
static size_t
exponent_size(const struct lexer *lexer, size_t at)
{
    size_t size = 1;

    if (peek(lexer, at) != 'e' && peek(lexer, at) != 'E')
        return 0;
    if (peek(lexer, at + size) == '-' || peek(lexer, at + size) == '+')
        size++;
    if (!is_digit(peek(lexer, at + size)))
        return 0;
    while (is_digit(peek(lexer, at + size)))
        size++;
    return size;
}

static enum status
read_number(struct lexer *lexer, struct template_token *token)
{
    const char *text = lexer->source.data + lexer->at;
    uint64_t whole = 0;
    size_t size = 0;
    bool real = false;

    while (is_digit(peek(lexer, size)))
        size++;
    if (peek(lexer, size) == '.' && is_digit(peek(lexer, size + 1))) {
        real = true;
        size++;
        while (is_digit(peek(lexer, size)))
            size++;
    }
    if (exponent_size(lexer, size) > 0) {
        real = true;
        size += exponent_size(lexer, size);
    }
    token->kind = real ? TOKEN_REAL : TOKEN_INTEGER;
    if (size > NUMBER_MAX_BYTES ||
        (real ? parse_double(text, size, &token->real)
              : parse_u64(text, size, INT64_MAX, &whole)) != STATUS_OK)
        return template_fail(lexer->err, lexer->line, "number is too large");
    token->integer = (int64_t)whole;
    advance(lexer, size);
    return STATUS_OK;
}

static enum status
read_operator(struct lexer *lexer, struct template_token *token)
{
    static const char *const doubled[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t size = 1;
    char c = peek(lexer, 0);

    for (size_t i = 0; i < COUNT_OF(doubled); i++) {
        if (starts(lexer, lexer->at, doubled[i]))
            size = 2;
    }
    if (c == '\0' || strchr("+-*/%~()[]{}<>=!.,:|;", c) == NULL ||
        (c == '!' && size == 1))
        return template_fail(lexer->err, lexer->line,
                             "unexpected character 0x%02x",
                             (unsigned)(uint8_t)c);
    if (strchr("([{", c) != NULL && ++lexer->brackets > BRACKETS_MAX)
        return template_fail(lexer->err, lexer->line, "too many brackets");
    if (strchr(")]}", c) != NULL && lexer->brackets > 0)
        lexer->brackets--;
    token->kind = TOKEN_OPERATOR;
    token->text = (struct text){lexer->source.data + lexer->at, size};
    advance(lexer, size);
    return STATUS_OK;
}

/* The end of the tag at the position?  Then it is read. */
static bool
close_tag(struct lexer *lexer, struct template_token *token)
{
    bool block = lexer->place == PLACE_BLOCK;
    const char *end = block ? "%}" : "}}";
    char sign = peek(lexer, 0);
    size_t skip = sign == '-' || (block && sign == '+') ? 1 : 0;

    if (lexer->brackets > 0 || lexer->at + skip > lexer->source.size ||
        !starts(lexer, lexer->at + skip, end))
        return false;
    token->kind = block ? TOKEN_CLOSE_BLOCK : TOKEN_CLOSE_PRINT;
    advance(lexer, skip + 2);
    lexer->place = PLACE_DATA;
    strip_after(lexer, skip > 0 ? sign : '\0', block);
    return true;
}

enum status
lexer_next(struct lexer *lexer, struct template_token *token)
{
    *token = (struct template_token){.text = TEXT("")};
    if (lexer->place == PLACE_DATA)
        return read_data(lexer, token);
    while (is_blank(peek(lexer, 0)))
        advance(lexer, 1);
    token->line = lexer->line;
    if (lexer->at >= lexer->source.size)
        return template_fail(lexer->err, lexer->line, "tag without end");
    if (close_tag(lexer, token))
        return STATUS_OK;
    if (peek(lexer, 0) == '\'' || peek(lexer, 0) == '"')
        return read_text(lexer, token);
    if (is_digit(peek(lexer, 0)))
        return read_number(lexer, token);
    if (!is_name_byte(peek(lexer, 0)))
        return read_operator(lexer, token);
    token->kind = TOKEN_NAME;
    token->text.data = lexer->source.data + lexer->at;
    while (is_name_byte(peek(lexer, token->text.size)))
        token->text.size++;
    advance(lexer, token->text.size);
    return STATUS_OK;
}
