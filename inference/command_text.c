/* command_text.c - berth-engine tokenize, detokenize and template: what
 * happens to text before and after the model. */
#include "inference/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "model/detokenizer.h"

#include "common/banned.h"

enum { TEXT_MAX_BYTES = TOKENIZER_TEXT_MAX_BYTES };

static const char tokenize_usage[] =
    "usage: berth-engine tokenize --model DIR TEXT|- [OPTION]...\n"
    "The ids of TEXT; - reads standard input.";
static const char detokenize_usage[] =
    "usage: berth-engine detokenize --model DIR 1,2,3 [OPTION]...";
static const char template_usage[] =
    "usage: berth-engine template --model DIR --messages FILE [OPTION]...\n"
    "FILE holds a JSON list of {role, content}.";

static enum status
model_check(const char *model, struct error *err)
{
    if (model != NULL)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "no model: give --model DIR, a model directory");
}

static enum status
text_read(const char *word, struct buf *text, struct error *err)
{
    char piece[4096];
    size_t got;

    if (strcmp(word, "-") != 0) {
        buf_append_text(text, word);
        return buf_status(text, err);
    }
    while ((got = fread(piece, 1, sizeof(piece), stdin)) > 0)
        buf_append(text, piece, got);
    if (ferror(stdin))
        return error_set(err, STATUS_INTERNAL, "cannot read standard input");
    return buf_status(text, err);
}

/* "1,2,3", or {"ids":[1,2,3]}. */
static void
ids_print(const struct token_ids *ids, bool json)
{
    struct buf buf;
    struct json_out out;

    if (!json) {
        for (size_t i = 0; i < ids->count; i++)
            printf("%s%u", i > 0 ? "," : "", (unsigned)ids->ids[i]);
        printf("\n");
        return;
    }
    buf_init(&buf, ids->count * 12 + 64);
    json_out_init(&out, &buf);
    json_open_object(&out);
    json_key(&out, "ids");
    ids_write(&out, ids->ids, ids->count);
    json_close_object(&out);
    printf("%s\n", buf.data);
    buf_clear(&buf);
}

/* The text itself, or {"text":"..."}. */
static void
text_print(const struct buf *text, bool json)
{
    struct buf buf;
    struct json_out out;

    if (!json) {
        fwrite(text->data, 1, text->size, stdout);
        printf("\n");
        return;
    }
    buf_init(&buf, text->size * 6 + 64);
    json_out_init(&out, &buf);
    json_open_object(&out);
    json_key(&out, "text");
    json_put_text_sized(&out, text->data, text->size);
    json_close_object(&out);
    printf("%s\n", buf.data);
    buf_clear(&buf);
}

static enum status
text_tokenize(const char *model, const struct buf *text, bool specials,
              bool json, struct error *err)
{
    struct tokenizer *tokenizer = NULL;
    struct token_ids ids = {0};
    enum status status = tokenizer_read(model, &tokenizer, err);

    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, text->data, text->size, specials,
                                  &ids, err);
    if (status == STATUS_OK)
        ids_print(&ids, json);
    free(ids.ids);
    tokenizer_free(tokenizer);
    return status;
}

int
command_tokenize(int argc, char **argv)
{
    const char *model = NULL;
    bool specials = false, json = false;
    const struct option_spec specs[] = {
        {"--model", OPTION_TEXT, &model, NULL, "DIR", "model directory"},
        {"--specials", OPTION_FLAG, NULL, &specials, NULL,
         "special tokens in the text become their ids"},
        {"--json", OPTION_FLAG, NULL, &json, NULL, "one JSON object"},
    };
    const char *word;
    struct buf text;
    struct error err;
    size_t words;
    enum status status = options_parse(argc, argv, tokenize_usage, specs,
                                       COUNT_OF(specs), &word, 1, &words, &err);

    if (status == STATUS_OK)
        status = model_check(model, &err);
    if (status == STATUS_OK && words == 0)
        status = error_set(&err, STATUS_INVALID,
                           "no text: give it as a word, or - for standard "
                           "input");
    if (status != STATUS_OK)
        return command_usage(&err);
    buf_init(&text, TEXT_MAX_BYTES);
    status = text_read(word, &text, &err);
    if (status == STATUS_OK)
        status = text_tokenize(model, &text, specials, json, &err);
    buf_clear(&text);
    return status == STATUS_OK ? EXIT_OK : command_failed(&err);
}

static enum status
ids_known(const struct tokenizer *tokenizer, const struct token_ids *ids,
          struct error *err)
{
    size_t vocabulary = tokenizer_vocabulary(tokenizer);

    for (size_t i = 0; i < ids->count; i++)
        if (ids->ids[i] >= vocabulary)
            return error_set(
                err, STATUS_INVALID,
                "id %" PRIu32
                ": the tokenizer's ids are 0 to %zu: is it of another "
                "model?",
                ids->ids[i], vocabulary - 1);
    return STATUS_OK;
}

static enum status
ids_detokenize(const char *model, const struct token_ids *ids, bool specials,
               bool json, struct error *err)
{
    struct tokenizer *tokenizer = NULL;
    struct detokenizer state;
    struct buf text;
    enum status status = tokenizer_read(model, &tokenizer, err);

    if (status != STATUS_OK)
        return status;
    status = ids_known(tokenizer, ids, err);
    if (status != STATUS_OK) {
        tokenizer_free(tokenizer);
        return status;
    }
    buf_init(&text, 64 * (size_t)MIB);
    detokenizer_init(&state, tokenizer);
    for (size_t i = 0; i < ids->count; i++) {
        /* A special token stands between characters, never inside one. */
        if (specials && tokenizer_is_special(tokenizer, ids->ids[i])) {
            detokenizer_finish(&state, &text);
            (void)tokenizer_append(tokenizer, ids->ids[i], true, &text);
        } else {
            detokenizer_push(&state, ids->ids[i], &text);
        }
    }
    detokenizer_finish(&state, &text);
    status = buf_status(&text, err);
    if (status == STATUS_OK)
        text_print(&text, json);
    detokenizer_clear(&state);
    buf_clear(&text);
    tokenizer_free(tokenizer);
    return status;
}

int
command_detokenize(int argc, char **argv)
{
    const char *model = NULL;
    bool specials = false, json = false;
    const struct option_spec specs[] = {
        {"--model", OPTION_TEXT, &model, NULL, "DIR", "model directory"},
        {"--specials", OPTION_FLAG, NULL, &specials, NULL,
         "write special tokens too"},
        {"--json", OPTION_FLAG, NULL, &json, NULL, "one JSON object"},
    };
    const char *word;
    struct token_ids ids = {0};
    struct error err;
    size_t words;
    enum status status = options_parse(argc, argv, detokenize_usage, specs,
                                       COUNT_OF(specs), &word, 1, &words, &err);

    if (status == STATUS_OK)
        status = model_check(model, &err);
    if (status == STATUS_OK && words == 0)
        status = error_set(&err, STATUS_INVALID, "no ids: give 1,2,3");
    if (status == STATUS_OK)
        status = option_ids("ids", word, &ids, &err);
    if (status != STATUS_OK)
        return command_usage(&err);
    status = ids_detokenize(model, &ids, specials, json, &err);
    free(ids.ids);
    return status == STATUS_OK ? EXIT_OK : command_failed(&err);
}

int
command_template(int argc, char **argv)
{
    const char *model = NULL, *messages = NULL;
    bool tokens = false, json = false;
    const struct option_spec specs[] = {
        {"--model", OPTION_TEXT, &model, NULL, "DIR", "model directory"},
        {"--messages", OPTION_TEXT, &messages, NULL, "FILE",
         "a JSON list of {role, content}"},
        {"--tokens", OPTION_FLAG, NULL, &tokens, NULL,
         "the ids of the rendered text"},
        {"--json", OPTION_FLAG, NULL, &json, NULL, "one JSON object"},
    };
    struct buf text;
    struct error err;
    size_t words;
    enum status status = options_parse(argc, argv, template_usage, specs,
                                       COUNT_OF(specs), NULL, 0, &words, &err);

    if (status == STATUS_OK)
        status = model_check(model, &err);
    if (status == STATUS_OK && messages == NULL)
        status = error_set(&err, STATUS_INVALID,
                           "no messages: give --messages FILE");
    if (status != STATUS_OK)
        return command_usage(&err);
    buf_init(&text, TEXT_MAX_BYTES);
    status = messages_render(model, messages, &text, &err);
    if (status == STATUS_OK)
        status = buf_status(&text, &err);
    if (status == STATUS_OK && tokens)
        status = text_tokenize(model, &text, true, json, &err);
    else if (status == STATUS_OK)
        text_print(&text, json);
    buf_clear(&text);
    return status == STATUS_OK ? EXIT_OK : command_failed(&err);
}
