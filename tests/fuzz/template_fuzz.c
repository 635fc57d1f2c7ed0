/* template_fuzz.c - any text as a chat template and, after a NUL, its variables
 * as JSON: rendering ends, and twice it gives the same. */
#include "model/template.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

enum { OUTPUT_MAX_BYTES = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char default_variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
    "{\"role\":\"user\",\"content\":\"\\u00e9 x\"}],"
    "\"tools\":[{\"a\":1,\"b\":[true,null,1.5]}],"
    "\"add_generation_prompt\":true,\"n\":3}";

static enum status
render(const struct template *template, const struct json *variables,
       struct buf *out)
{
    struct error err = {0};
    enum status status = template_render(template, variables, out, &err);

    assert(status == STATUS_OK || err.text[0] != '\0');
    assert(status == STATUS_OK || out->size == 0);
    return status;
}

static void
check_renderings(const struct template *template, const struct json *variables)
{
    struct buf first;
    struct buf second;
    enum status status = STATUS_OK;
    enum status again = STATUS_OK;

    buf_init(&first, OUTPUT_MAX_BYTES);
    buf_init(&second, OUTPUT_MAX_BYTES);
    status = render(template, variables, &first);
    again = render(template, variables, &second);
    assert(status == again);
    assert(first.size == second.size);
    assert(memcmp(first.data, second.data, first.size) == 0);
    buf_clear(&first);
    buf_clear(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size == 0 ? NULL : memchr(data, '\0', size);
    size_t text_size = nul == NULL ? size : (size_t)(nul - data);
    const char *json = nul == NULL ? default_variables : (const char *)nul + 1;
    size_t json_size =
        nul == NULL ? strlen(default_variables) : size - text_size - 1;
    struct template *template = NULL;
    struct json_doc doc = {0};
    struct error err = {0};

    if (template_parse((const char *)data, text_size, &template, &err) !=
        STATUS_OK) {
        assert(err.text[0] != '\0');
        assert(template == NULL);
        return 0;
    }
    if (json_doc_parse(json, json_size, &doc, NULL) == STATUS_OK)
        check_renderings(template, doc.root);
    json_doc_clear(&doc);
    template_free(template);
    return 0;
}
