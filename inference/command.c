/* command.c - options and prompts that several commands share. */
#include "inference/command.h"

#include <inttypes.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/units.h"
#include "inference/cpu/pool.h"
#include "model/template.h"

#include "common/banned.h"

enum { MESSAGES_MAX_BYTES = 16 * 1024 * 1024, IDS_MAX = 1 << 20 };

int
command_usage(const struct error *err)
{
    options_complain(ENGINE_PROGRAM, err);
    return EXIT_USAGE;
}

int
command_failed(const struct error *err)
{
    options_complain(ENGINE_PROGRAM, err);
    return EXIT_FAILED;
}

enum status
option_number(const char *name, const char *text, uint64_t min, uint64_t max,
              uint64_t *value, struct error *err)
{
    uint64_t number;

    if (text == NULL)
        return STATUS_OK;
    if (parse_u64(text, strlen(text), max, &number) != STATUS_OK ||
        number < min)
        return error_set(err, STATUS_INVALID,
                         "%s %.40s: give a whole number from %" PRIu64
                         " to %" PRIu64,
                         name, text, min, max);
    *value = number;
    return STATUS_OK;
}

enum status
option_fraction(const char *name, const char *text, double min, double max,
                double *value, struct error *err)
{
    double number;

    if (text == NULL)
        return STATUS_OK;
    if (parse_double(text, strlen(text), &number) != STATUS_OK ||
        number < min || number > max)
        return error_set(err, STATUS_INVALID,
                         "%s %.40s: give a number from %g to %g", name, text,
                         min, max);
    *value = number;
    return STATUS_OK;
}

enum status
option_ids(const char *name, const char *text, struct token_ids *out,
           struct error *err)
{
    struct token_ids ids = {0};

    if (strlen(text) > (size_t)IDS_MAX * 11)
        return error_set(err, STATUS_TOO_LARGE, "%s: more than %d ids", name,
                         IDS_MAX);
    ids.ids = mem_array(strlen(text) / 2 + 1, sizeof(uint32_t));
    for (;;) {
        size_t size = strcspn(text, ",");
        uint64_t id;

        if (parse_u64(text, size, UINT32_MAX, &id) != STATUS_OK) {
            free(ids.ids);
            return error_set(err, STATUS_INVALID,
                             "%s: \"%.40s\" does not begin with an id; give "
                             "ids as 1,2,3",
                             name, text);
        }
        ids.ids[ids.count++] = (uint32_t)id;
        if (text[size] == '\0')
            break;
        text += size + 1;
    }
    *out = ids;
    return STATUS_OK;
}

/* What this build does not have is refused by name. */
static enum status
absent_refuse(const struct compute_options *o, struct error *err)
{
    uint64_t ranks = 1;
    enum status status = option_number("--ranks", o->ranks, 1, 4, &ranks, err);

    if (status != STATUS_OK)
        return status;
    if (o->backend != NULL && strcmp(o->backend, "mlx") == 0)
        return error_set(err, STATUS_INVALID,
                         "--backend mlx: this build has no MLX backend; use "
                         "--backend cpu");
    if (o->backend != NULL && strcmp(o->backend, "cpu") != 0)
        return error_set(err, STATUS_INVALID,
                         "--backend %.40s is unknown; use --backend cpu",
                         o->backend);
    if (ranks != 1)
        return error_set(err, STATUS_INVALID,
                         "--ranks %" PRIu64 ": this build runs one rank; use "
                         "--ranks 1",
                         ranks);
    if (o->parallel != NULL && strcmp(o->parallel, "tensor") != 0 &&
        strcmp(o->parallel, "pipeline") != 0)
        return error_set(err, STATUS_INVALID,
                         "--parallel %.40s is unknown; use tensor or pipeline",
                         o->parallel);
    if (o->activations != NULL && strcmp(o->activations, "f32") != 0 &&
        strcmp(o->activations, "int8") != 0)
        return error_set(err, STATUS_INVALID,
                         "--activations %.40s is unknown; use int8 or f32",
                         o->activations);
    if (o->fast_prefill)
        return error_set(err, STATUS_INVALID,
                         "--fast-prefill: this build has one way to prefill; "
                         "leave the option out");
    return STATUS_OK;
}

enum status
compute_options_check(const struct compute_options *o,
                      struct engine_options *out, struct error *err)
{
    uint64_t threads = 0;
    enum status status = absent_refuse(o, err);

    if (status == STATUS_OK)
        status = option_number("--threads", o->threads, 1, POOL_THREADS_MAX,
                               &threads, err);
    if (status != STATUS_OK)
        return status;
    if (o->model == NULL)
        return error_set(err, STATUS_INVALID,
                         "no model: give --model DIR, a model directory");
    *out = (struct engine_options){.threads = (size_t)threads,
                                   .slots = 1,
                                   .int8 = o->activations != NULL &&
                                           strcmp(o->activations, "int8") == 0};
    return STATUS_OK;
}

static enum status
variables_render(const char *model, const char *variables, size_t size,
                 struct buf *out, struct error *err)
{
    struct json_doc doc = {0};
    struct template *template = NULL;
    enum status status = template_read(model, &template, err);

    if (status == STATUS_OK)
        status = json_doc_parse(variables, size, &doc, err);
    if (status == STATUS_OK)
        status = template_render(template, doc.root, out, err);
    json_doc_clear(&doc);
    template_free(template);
    return status;
}

/* The variables of a template: the messages and that an answer is due. */
static void
variables_begin(struct json_out *json, struct buf *buf)
{
    buf_init(buf, 2 * (size_t)MESSAGES_MAX_BYTES);
    json_out_init(json, buf);
    json_open_object(json);
    json_member_bool(json, "add_generation_prompt", true);
    json_key(json, "messages");
}

enum status
prompt_render(const char *model, const char *prompt, struct buf *out,
              struct error *err)
{
    struct buf variables;
    struct json_out json;
    enum status status;

    variables_begin(&json, &variables);
    json_open_list(&json);
    json_open_object(&json);
    json_member_text(&json, "role", "user");
    json_member_text(&json, "content", prompt);
    json_close_object(&json);
    json_close_list(&json);
    json_close_object(&json);
    status = buf_status(&variables, err);
    if (status == STATUS_OK)
        status =
            variables_render(model, variables.data, variables.size, out, err);
    buf_clear(&variables);
    return status;
}

enum status
messages_render(const char *model, const char *path, struct buf *out,
                struct error *err)
{
    struct buf file, list, variables;
    struct json_doc doc = {0};
    struct json_out json;
    const struct json *messages;
    struct error inner = {0};
    enum status status;

    buf_init(&file, MESSAGES_MAX_BYTES);
    buf_init(&list, MESSAGES_MAX_BYTES);
    variables_begin(&json, &variables);
    status = buf_read_file(&file, path, err);
    if (status == STATUS_OK)
        status = json_doc_parse(file.data, file.size, &doc, &inner);
    if (inner.status != STATUS_OK)
        (void)error_set(err, status,
                        "%s: no JSON (%.300s): give a list of "
                        "{role, content} objects",
                        path, inner.text);
    if (status != STATUS_OK)
        goto out;
    messages = json_kind(doc.root) == JSON_KIND_OBJECT
                   ? json_get(doc.root, "messages")
                   : doc.root;
    if (json_kind(messages) != JSON_KIND_LIST) {
        status =
            error_set(err, STATUS_INVALID,
                      "%s: give a JSON list of {role, content} objects", path);
        goto out;
    }
    json_dump(messages, &list);
    status = buf_status(&list, err);
    if (status != STATUS_OK)
        goto out;
    json_put_raw(&json, list.data, list.size);
    json_close_object(&json);
    status = buf_status(&variables, err);
    if (status == STATUS_OK)
        status =
            variables_render(model, variables.data, variables.size, out, err);
out:
    json_doc_clear(&doc);
    buf_clear(&variables);
    buf_clear(&list);
    buf_clear(&file);
    return status;
}

void
ids_write(struct json_out *out, const uint32_t *ids, size_t count)
{
    json_open_list(out);
    for (size_t i = 0; i < count; i++)
        json_put_u64(out, ids[i]);
    json_close_list(out);
}
