/* request.c - options to JSON. */
#include "cli/request.h"

#include <string.h>

#include "common/units.h"

#include "common/banned.h"

void
cli_message_add(struct buf *messages, const char *role, const char *text,
                size_t size)
{
    struct json_out out;

    if (messages->size > 0)
        buf_append_char(messages, ',');
    json_out_init(&out, messages);
    json_open_object(&out);
    json_member_text(&out, "role", role);
    json_key(&out, "content");
    json_put_text_sized(&out, text, size);
    json_close_object(&out);
}

static enum status
write_real(struct cli *cli, const char *option, const char *name,
           const char *text, struct json_out *out)
{
    double value = 0;

    if (text == NULL)
        return STATUS_OK;
    if (parse_double(text, strlen(text), &value) != STATUS_OK)
        return cli_misuse(cli, "%s takes a number like 0.7, not \"%.40s\"",
                          option, text);
    json_member_double(out, name, value);
    return STATUS_OK;
}

static enum status
write_integer(struct cli *cli, const char *option, const char *name,
              const char *text, struct json_out *out)
{
    int64_t value = 0;

    if (text == NULL)
        return STATUS_OK;
    if (parse_i64(text, strlen(text), &value) != STATUS_OK)
        return cli_misuse(cli, "%s takes a whole number, not \"%.40s\"", option,
                          text);
    json_member_i64(out, name, value);
    return STATUS_OK;
}

enum status
cli_request_write(struct cli *cli, const struct cli_sampling *sampling,
                  const char *model, const struct buf *messages, bool is_stream,
                  struct json_out *out)
{
    enum status status;

    json_open_object(out);
    json_member_text(out, "model", model);
    json_key(out, "messages");
    json_open_list(out);
    json_put_raw(out, messages->data, messages->size);
    json_close_list(out);
    if (is_stream)
        json_member_bool(out, "stream", true);
    status =
        write_real(cli, "--temp", "temperature", sampling->temperature, out);
    if (status == STATUS_OK)
        status = write_real(cli, "--top-p", "top_p", sampling->top_p, out);
    if (status == STATUS_OK)
        status = write_integer(cli, "--max-tokens", "max_tokens",
                               sampling->max_tokens, out);
    if (status == STATUS_OK)
        status = write_integer(cli, "--seed", "seed", sampling->seed, out);
    json_close_object(out);
    return status;
}
