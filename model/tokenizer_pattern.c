/* tokenizer_pattern.c - pre-tokenizer patterns on PCRE2.
 *
 * The files' patterns are written for Oniguruma in its Ruby syntax.  What
 * means the same in PCRE2 is passed on, what differs is rewritten, and what we
 * have not compared is refused. */
#include "model/tokenizer_pattern.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/buf.h"
#include "common/mem.h"

#include "common/banned.h"

enum {
    STEPS_MAX = 16,
    PATTERN_MAX_BYTES = 8192,
    MATCH_LIMIT = 100 * 1000 * 1000,
    HEAP_LIMIT_KIB = 64 * 1024,
    JIT_STACK_FIRST_BYTES = 32 * 1024,
    JIT_STACK_MAX_BYTES = 8 * 1024 * 1024,
};

/* Unicode's White_Space, for a class. */
#define WHITE_SPACE "\\p{Z}\\x{09}-\\x{0d}\\x{85}"

/* What ByteLevel splits by when use_regex is on (GPT-2). */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

struct step {
    pcre2_code *code;
    bool keeps_matches; /* matches are pieces */
    bool keeps_between; /* so is what lies between them */
};

struct splitter {
    struct step steps[STEPS_MAX];
    size_t step_count;
    bool ended; /* a ByteLevel was read: nothing may follow */
};

struct splitter_run {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* --- patterns -------------------------------------------------------------*/

static enum status
refuse_pattern(struct error *err, const char *what)
{
    return error_set(err, STATUS_INVALID,
                     "tokenizer.json: pre_tokenizer: pattern with %s is not "
                     "supported",
                     what);
}

/* An escape sequence, @at on its backslash; returns its size, 0 to refuse. */
static size_t
rewrite_escape(const char *regex, size_t size, size_t at, bool in_class,
               struct buf *out)
{
    char c = at + 1 < size ? regex[at + 1] : '\0';

    if (c == 's') {
        buf_append_text(out, in_class ? WHITE_SPACE : "[" WHITE_SPACE "]");
        return 2;
    }
    if (c == 'S' && !in_class) {
        buf_append_text(out, "[^" WHITE_SPACE "]");
        return 2;
    }
    if (c == 'u' && at + 6 <= size) {
        buf_append_text(out, "\\x{");
        buf_append(out, regex + at + 2, 4);
        buf_append_text(out, "}");
        return 6;
    }
    if (c != '\0' && strchr("pPrntfdDx", c) == NULL &&
        ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z') || (c & 0x80) != 0))
        return 0;
    if (c == '\0')
        return 0;
    buf_append(out, regex + at, 2);
    return 2;
}

static enum status
rewrite(const char *regex, size_t size, struct buf *out, struct error *err)
{
    bool in_class = false;

    for (size_t at = 0; at < size;) {
        const char *rest = regex + at;
        size_t left = size - at;

        if (rest[0] == '\\') {
            size_t step = rewrite_escape(regex, size, at, in_class, out);

            if (step == 0)
                return refuse_pattern(err, "that escape sequence");
            at += step;
            continue;
        }
        if (in_class && rest[0] == '[')
            return refuse_pattern(err, "a class in a class");
        if (in_class && left >= 2 && memcmp(rest, "&&", 2) == 0)
            return refuse_pattern(err, "an intersection of classes");
        if (!in_class && left >= 3 && memcmp(rest, "(?m", 3) == 0)
            return refuse_pattern(err, "(?m)");
        if (rest[0] == '[')
            in_class = true;
        else if (rest[0] == ']')
            in_class = false;
        buf_append_char(out, rest[0]);
        at++;
    }
    return STATUS_OK;
}

static enum status
compile(const char *pattern, size_t size, uint32_t options, pcre2_code **code,
        struct error *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    int number = 0;
    PCRE2_SIZE offset = 0;
    PCRE2_UCHAR text[128];

    assert(context != NULL);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    *code = pcre2_compile((PCRE2_SPTR)pattern, size, options | PCRE2_UTF,
                          &number, &offset, context);
    pcre2_compile_context_free(context);
    if (*code == NULL) {
        pcre2_get_error_message(number, text, sizeof(text));
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: pre_tokenizer: pattern: %s at %zu",
                         (const char *)text, offset);
    }
    /* Without a JIT compiler the interpreter does the same. */
    (void)pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
    return STATUS_OK;
}

/* Ruby's ^ and $ are at every line: PCRE2 calls that multi-line. */
static enum status
compile_regex(const char *regex, size_t size, pcre2_code **code,
              struct error *err)
{
    struct buf pattern;
    enum status status = STATUS_OK;

    if (size > PATTERN_MAX_BYTES)
        return refuse_pattern(err, "more than 8192 bytes");
    buf_init(&pattern, (size_t)PATTERN_MAX_BYTES * 32);
    status = rewrite(regex, size, &pattern, err);
    if (status == STATUS_OK)
        status = buf_status(&pattern, err);
    if (status == STATUS_OK)
        status = compile(pattern.data, pattern.size,
                         PCRE2_UCP | PCRE2_MULTILINE, code, err);
    buf_clear(&pattern);
    return status;
}

/* --- reading --------------------------------------------------------------*/

static const char *
text_of(const struct json *value)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);

    return text == NULL ? "(none)" : text;
}

static enum status
next_step(struct splitter *splitter, struct step **step, struct error *err)
{
    if (splitter->ended)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: pre_tokenizer: something follows "
                         "ByteLevel");
    if (splitter->step_count == STEPS_MAX)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: pre_tokenizer: more than %d steps",
                         STEPS_MAX);
    *step = &splitter->steps[splitter->step_count];
    return STATUS_OK;
}

static enum status
add_step(struct splitter *splitter, const char *regex, struct error *err)
{
    struct step *step = NULL;
    enum status status = next_step(splitter, &step, err);

    if (status == STATUS_OK)
        status = compile_regex(regex, strlen(regex), &step->code, err);
    if (status != STATUS_OK)
        return status;
    step->keeps_matches = true;
    step->keeps_between = true;
    splitter->step_count++;
    return STATUS_OK;
}

static enum status
read_behavior(const struct json *value, struct step *step, struct error *err)
{
    const char *behavior = text_of(json_get(value, "behavior"));
    bool invert = json_as_bool(json_get(value, "invert"));

    if (strcmp(behavior, "Isolated") == 0) {
        step->keeps_matches = true;
        step->keeps_between = true;
    } else if (strcmp(behavior, "Removed") == 0) {
        step->keeps_matches = invert;
        step->keeps_between = !invert;
    } else {
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: pre_tokenizer: behavior %.32s is not "
                         "supported",
                         behavior);
    }
    return STATUS_OK;
}

static enum status
read_split(struct splitter *splitter, const struct json *value,
           struct error *err)
{
    const struct json *pattern = json_get(value, "pattern");
    const struct json *literal = json_get(pattern, "String");
    struct step *step = NULL;
    size_t size = 0;
    const char *text = json_as_text(
        literal != NULL ? literal : json_get(pattern, "Regex"), &size);
    enum status status = next_step(splitter, &step, err);

    if (status != STATUS_OK)
        return status;
    if (text == NULL || size == 0 || size > PATTERN_MAX_BYTES)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: pre_tokenizer: Split without a "
                         "pattern");
    status = read_behavior(value, step, err);
    if (status == STATUS_OK)
        status = literal != NULL
                     ? compile(text, size, PCRE2_LITERAL, &step->code, err)
                     : compile_regex(text, size, &step->code, err);
    if (status == STATUS_OK)
        splitter->step_count++;
    return status;
}

static enum status
read_byte_level(struct splitter *splitter, const struct json *value,
                struct error *err)
{
    const struct json *use_regex = json_get(value, "use_regex");
    enum status status = STATUS_OK;

    if (json_as_bool(json_get(value, "add_prefix_space")))
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: pre_tokenizer: add_prefix_space is "
                         "not supported");
    if (use_regex == NULL || json_as_bool(use_regex))
        status = add_step(splitter, gpt2_pattern, err);
    if (status == STATUS_OK && splitter->ended)
        status = error_set(err, STATUS_INVALID,
                           "tokenizer.json: pre_tokenizer: ByteLevel is there "
                           "twice");
    splitter->ended = true;
    return status;
}

static enum status
read_one(struct splitter *splitter, const struct json *value, struct error *err)
{
    const char *type = text_of(json_get(value, "type"));

    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(splitter, value, err);
    if (strcmp(type, "Split") == 0)
        return read_split(splitter, value, err);
    if (strcmp(type, "Digits") == 0)
        return add_step(splitter,
                        json_as_bool(json_get(value, "individual_digits"))
                            ? "\\p{N}"
                            : "\\p{N}+",
                        err);
    return error_set(err, STATUS_INVALID,
                     "tokenizer.json: pre_tokenizer: type %.32s is not "
                     "supported",
                     type);
}

enum status
splitter_read(const struct json *pre_tokenizer, struct splitter **splitter,
              struct error *err)
{
    struct splitter *read = mem_alloc(sizeof(*read));
    const struct json *list = json_get(pre_tokenizer, "pretokenizers");
    enum status status = STATUS_OK;

    if (strcmp(text_of(json_get(pre_tokenizer, "type")), "Sequence") != 0) {
        status = read_one(read, pre_tokenizer, err);
    } else {
        for (size_t i = 0; i < json_count(list) && status == STATUS_OK; i++)
            status = read_one(read, json_at(list, i), err);
    }
    if (status == STATUS_OK && !read->ended)
        status = error_set(err, STATUS_INVALID,
                           "tokenizer.json: pre_tokenizer: no ByteLevel; only "
                           "byte-level BPE is supported");
    if (status == STATUS_OK)
        *splitter = read;
    else
        splitter_free(read);
    return status;
}

void
splitter_free(struct splitter *splitter)
{
    if (splitter == NULL)
        return;
    for (size_t i = 0; i < STEPS_MAX; i++)
        pcre2_code_free(splitter->steps[i].code);
    free(splitter);
}

/* --- splitting ------------------------------------------------------------*/

struct splitter_run *
splitter_run_new(void)
{
    struct splitter_run *run = mem_alloc(sizeof(*run));

    run->data = pcre2_match_data_create(1, NULL);
    run->context = pcre2_match_context_create(NULL);
    assert(run->data != NULL);
    assert(run->context != NULL);
    pcre2_set_match_limit(run->context, MATCH_LIMIT);
    pcre2_set_heap_limit(run->context, HEAP_LIMIT_KIB);
    /* NULL without JIT: the assignment then has no effect. */
    run->stack = pcre2_jit_stack_create(JIT_STACK_FIRST_BYTES,
                                        JIT_STACK_MAX_BYTES, NULL);
    pcre2_jit_stack_assign(run->context, NULL, run->stack);
    return run;
}

void
splitter_run_free(struct splitter_run *run)
{
    if (run == NULL)
        return;
    pcre2_match_data_free(run->data);
    pcre2_match_context_free(run->context);
    pcre2_jit_stack_free(run->stack);
    free(run);
}

/* Where the text of one step goes: the next step, or the caller. */
struct walk {
    const struct splitter *splitter;
    struct splitter_run *run;
    piece_taker *on_piece;
    void *arg;
    struct error *err;
};

/* The next match that is not empty. Found is false at the end. */
static enum status
next_match(const struct walk *walk, const struct step *step, const char *text,
           size_t size, size_t from, size_t match[2])
{
    int found = pcre2_match(step->code, (PCRE2_SPTR)text, size, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                            walk->run->data, walk->run->context);
    const PCRE2_SIZE *ends = NULL;

    match[0] = size;
    match[1] = size;
    if (found == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (found < 0)
        return error_set(walk->err, STATUS_INVALID,
                         "the tokenizer's pattern takes too long on this text "
                         "(PCRE2 error %d)",
                         found);
    ends = pcre2_get_ovector_pointer(walk->run->data);
    if (ends[1] <= from || ends[0] >= ends[1])
        return STATUS_OK; /* \K and kin; the rest is one piece */
    match[0] = ends[0] < from ? from : ends[0];
    match[1] = ends[1];
    return STATUS_OK;
}

/* Recursion is bounded by the number of steps. */
static enum status
split_from(const struct walk *walk, size_t index, const char *text, size_t size)
{
    const struct step *step = &walk->splitter->steps[index];
    enum status status = STATUS_OK;
    size_t at = 0;

    if (size == 0)
        return STATUS_OK;
    if (index == walk->splitter->step_count) {
        walk->on_piece(walk->arg, text, size);
        return STATUS_OK;
    }
    while (at < size && status == STATUS_OK) {
        size_t match[2];

        status = next_match(walk, step, text, size, at, match);
        if (status == STATUS_OK && step->keeps_between)
            status = split_from(walk, index + 1, text + at, match[0] - at);
        if (status == STATUS_OK && step->keeps_matches)
            status = split_from(walk, index + 1, text + match[0],
                                match[1] - match[0]);
        at = match[1];
    }
    return status;
}

enum status
splitter_split(const struct splitter *splitter, struct splitter_run *run,
               const char *text, size_t size, piece_taker *on_piece, void *arg,
               struct error *err)
{
    const struct walk walk = {.splitter = splitter,
                              .run = run,
                              .on_piece = on_piece,
                              .arg = arg,
                              .err = err};

    return split_from(&walk, 0, text, size);
}
