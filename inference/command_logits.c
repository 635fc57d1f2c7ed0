/* command_logits.c - berth-engine logits: what the model says after ids. */
#include "inference/command.h"

#include <stdio.h>

#include "common/json.h"
#include "common/mem.h"

#include "common/banned.h"

enum { BYTES_PER_LOGIT = 32 };

static const char usage[] =
    "usage: berth-engine logits --model DIR --tokens 1,2,3 [OPTION]...\n"
    "The logits of the last position, in f32, as {\"logits\":[...]}.";

static void
json_print(const float *logits, size_t count)
{
    struct buf buf;
    struct json_out out;

    buf_init(&buf, (count + 1) * BYTES_PER_LOGIT);
    json_out_init(&out, &buf);
    json_open_object(&out);
    json_key(&out, "logits");
    json_open_list(&out);
    for (size_t i = 0; i < count; i++)
        json_put_double(&out, (double)logits[i]);
    json_close_list(&out);
    json_close_object(&out);
    printf("%s\n", buf.data);
    buf_clear(&buf);
}

static int
print_logits(const struct compute_options *o,
             const struct engine_options *options, const struct token_ids *ids,
             bool json)
{
    struct engine *engine = NULL;
    float *logits = NULL;
    size_t vocab = 0;
    struct error err;
    enum status status = engine_open(o->model, options, &engine, &err);

    if (status == STATUS_OK) {
        vocab = engine_config(engine)->vocab;
        logits = mem_array(vocab, sizeof(*logits));
        status = engine_logits(engine, ids->ids, ids->count, logits, &err);
    }
    if (status == STATUS_OK && json)
        json_print(logits, vocab);
    for (size_t i = 0; status == STATUS_OK && !json && i < vocab; i++)
        printf("%zu %.9g\n", i, (double)logits[i]);
    free(logits);
    engine_close(engine);
    return status == STATUS_OK ? EXIT_OK : command_failed(&err);
}

int
command_logits(int argc, char **argv)
{
    struct compute_options o = {0};
    const char *tokens = NULL;
    bool json = false;
    const struct option_spec specs[] = {
        COMPUTE_OPTIONS(o),
        {"--tokens", OPTION_TEXT, &tokens, NULL, "IDS", "ids as 1,2,3"},
        {"--json", OPTION_FLAG, NULL, &json, NULL,
         "one JSON object (default: a line per id)"},
    };
    struct engine_options options = {0};
    struct token_ids ids = {0};
    struct error err;
    size_t words;
    int code;
    enum status status = options_parse(argc, argv, usage, specs,
                                       COUNT_OF(specs), NULL, 0, &words, &err);

    if (status == STATUS_OK)
        status = compute_options_check(&o, &options, &err);
    if (status == STATUS_OK && o.activations != NULL && options.int8)
        status = error_set(&err, STATUS_INVALID,
                           "--activations int8: logits are computed in f32; "
                           "leave the option out");
    options.int8 = false;
    if (status == STATUS_OK && tokens == NULL)
        status = error_set(&err, STATUS_INVALID, "no ids: give --tokens 1,2,3");
    if (status == STATUS_OK)
        status = option_ids("--tokens", tokens, &ids, &err);
    if (status != STATUS_OK)
        return command_usage(&err);
    code = print_logits(&o, &options, &ids, json);
    free(ids.ids);
    return code;
}
