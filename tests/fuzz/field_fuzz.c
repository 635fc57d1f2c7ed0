/* field_fuzz.c - a table with a member of every kind: what is decoded encodes
 * to a text that decodes to the same, and every refusal names a place. */
#include "common/field.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX_BYTES = 1024 * 1024 };

struct row {
    char name[8];
    int64_t offset;
};

struct sample {
    char name[16];
    uint64_t size;
    uint64_t limited;
    int64_t balance;
    uint32_t count;
    bool on;
    double ratio;
    double free_ratio;
    uint32_t ids[4];
    size_t id_count;
    char words[3][8];
    size_t word_count;
    struct row rows[2];
    size_t row_count;
    struct row inner;
    bool has_cores;
    uint64_t cores;
};

static const struct field row_fields[] = {
    FIELD(struct row, name, FIELD_TEXT, .required = true, .min = 1),
    /* Required: 0, which a row begins with, is not in its range. */
    FIELD(struct row, offset, FIELD_I64, .required = true, .min = 3,
          .max = 1000),
};

static const struct field sample_fields[] = {
    FIELD(struct sample, name, FIELD_TEXT, .required = true, .min = 1),
    FIELD(struct sample, size, FIELD_U64),
    FIELD(struct sample, limited, FIELD_U64, .min = 10, .max = 20),
    FIELD(struct sample, balance, FIELD_I64),
    FIELD(struct sample, count, FIELD_U32, .hidden_when_zero = true),
    FIELD(struct sample, on, FIELD_BOOL),
    FIELD(struct sample, ratio, FIELD_DOUBLE, .fmin = 0, .fmax = 1),
    FIELD(struct sample, free_ratio, FIELD_DOUBLE),
    FIELD_LIST(struct sample, ids, id_count, FIELD_U32),
    FIELD_LIST(struct sample, words, word_count, FIELD_TEXT),
    FIELD_ROWS(struct sample, rows, row_count, row_fields, .required = false),
    FIELD_NESTED(struct sample, inner, row_fields, .hidden_when_zero = true),
    FIELD_NULLABLE(struct sample, cores, has_cores, FIELD_U64),
};

static const struct sample defaults = {
    .name = "-", .limited = 10, .inner = {.name = "i", .offset = 3}};

static void
encode(const struct sample *sample, struct buf *text)
{
    struct json_out out;

    buf_init(text, TEXT_MAX_BYTES);
    json_out_init(&out, text);
    json_open_object(&out);
    field_encode(&out, sample_fields, COUNT_OF(sample_fields), sample);
    json_close_object(&out);
    assert(!text->overflowed);
}

static enum status
decode(const char *text, size_t size, struct sample *sample, struct error *err)
{
    return field_decode_text(text, size, sample_fields, COUNT_OF(sample_fields),
                             sample, sizeof(*sample), err);
}

static void
check_promises(const struct sample *sample)
{
    assert(memchr(sample->name, '\0', sizeof(sample->name)) != NULL);
    assert(sample->name[0] != '\0' && sample->ratio >= 0 && sample->ratio <= 1);
    assert(sample->limited >= 10 && sample->limited <= 20);
    assert(sample->id_count <= COUNT_OF(sample->ids));
    assert(sample->word_count <= COUNT_OF(sample->words));
    assert(sample->row_count <= COUNT_OF(sample->rows));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sample sample = defaults, again = defaults;
    struct buf first, second;
    struct error err = {0};

    if (decode((const char *)data, size, &sample, &err) != STATUS_OK) {
        assert(err.text[0] != '\0');
        assert(memcmp(&sample, &defaults, sizeof(sample)) == 0);
        return 0;
    }
    check_promises(&sample);
    encode(&sample, &first);
    assert(decode(first.data, first.size, &again, &err) == STATUS_OK);
    encode(&again, &second);
    assert(first.size == second.size &&
           memcmp(first.data, second.data, first.size) == 0);
    buf_clear(&first);
    buf_clear(&second);
    return 0;
}
