/* inference_damage_test.c - model directories damaged in every way that files
 * are: the engine refuses them in words that name the file or the tensor, or
 * runs; it never crashes and never takes much memory for it.
 *
 * SEED=n repeats one run; the seed of a failure is printed. */
#include "inference/engine.h"

#include "tests/unit/tiny_model.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "common/prng.h"

#include "common/banned.h"

enum {
    ROUNDS = 40, /* of each kind, for each model */
    IDS = 3,
    MEMORY_MAX_BYTES = 1 << 30,
};

/* One model of each layout of files and of tensors. */
static const char *const models[] = {
    "llama",    "llama_sharded",         "qwen3",         "affine_mixed",
    "mxfp4",    "deepseek_v3_published", "gpt_oss_mxfp4", "qwen3_moe",
    "glm4_moe", "deepseek_v3_4bit",      "qwen3_5",       "qwen3_5_moe",
};

/* What stands where something else should: JSON of every kind and size. */
static const char *const strangers[] = {
    "null",
    "true",
    "0",
    "-1",
    "1",
    "3",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "-9223372036854775808",
    "1e308",
    "-1e-300",
    "0.5",
    "\"\"",
    "\"x\"",
    "[]",
    "{}",
    "[0,18446744073709551615]",
    "[1,2]",
    "[1152921504606846976,16]",
};

struct victim {
    const char *name;
    struct json_doc doc;
    char folder[TINY_NAME_MAX];
    size_t opened, refused;
    char what[256]; /* was done last */
};

static struct prng prng;
static uint64_t seed;

static size_t
below(size_t bound)
{
    return (size_t)prng_below(&prng, bound);
}

/* --- one try --- */

static bool
names_the_place(const char *text)
{
    static const char *const places[] = {"config.json", ".safetensors",
                                         "tokenizer.json", "tensor "};

    for (size_t i = 0; i < COUNT_OF(places); i++)
        if (strstr(text, places[i]) != NULL)
            return true;
    return false;
}

static void
try_open(struct victim *victim)
{
    static const uint32_t ids[IDS] = {1, 2, 3};
    struct engine_options options = {.threads = 1, .slots = 1};
    struct engine *engine = NULL;
    struct error err = {0};

    if (engine_open(victim->folder, &options, &engine, &err) != STATUS_OK) {
        if (!names_the_place(err.text))
            fail_msg("SEED=%" PRIu64 ": %s: %s: refused in vain words: %s",
                     seed, victim->name, victim->what, err.text);
        victim->refused++;
        return;
    }
    if (engine_config(engine)->vocab > 0) {
        float *logits = malloc(engine_config(engine)->vocab * sizeof(*logits));

        assert_non_null(logits);
        if (engine_logits(engine, ids, IDS, logits, &err) != STATUS_OK)
            assert_true(err.text[0] != '\0');
        free(logits);
    }
    victim->opened++;
    engine_close(engine);
}

static void
file_read(const struct victim *victim, const char *name, struct buf *buf)
{
    char path[2 * TINY_NAME_MAX];

    snprintf(path, sizeof(path), "%s/%s", victim->folder, name);
    buf_init(buf, TINY_FILE_MAX_BYTES);
    assert_int_equal(buf_read_file(buf, path, NULL), STATUS_OK);
}

/* Open with @damaged as the file @name, then put @whole back. */
static void
try_with(struct victim *victim, const char *name, const struct buf *damaged,
         const struct buf *whole)
{
    tiny_write(victim->folder, name, damaged);
    try_open(victim);
    tiny_write(victim->folder, name, whole);
}

/* --- JSON with one value changed --- */

struct change {
    size_t index;     /* of the value to change, in the order of the text */
    const char *text; /* NULL: leave the member out */
    size_t seen;
    char path[128]; /* of the value changed */
};

static void change_dump(const struct json *value, struct change *change,
                        struct buf *out);

/* True when the value is the one to leave out. */
static bool
change_member(const char *name, const struct json *value, struct change *change,
              struct buf *out, bool first)
{
    bool mine = change->seen++ == change->index;

    if (mine)
        snprintf(change->path, sizeof(change->path), "%s", name);
    if (mine && change->text == NULL)
        return true;
    if (!first)
        buf_append_char(out, ',');
    if (name[0] != '\0') {
        struct json_out json;

        json_out_init(&json, out);
        json_put_text(&json, name);
        buf_append_char(out, ':');
    }
    if (mine)
        buf_append_text(out, change->text);
    else
        change_dump(value, change, out);
    return false;
}

/* Depth is that of our own files. */
static void
change_dump(const struct json *value, struct change *change, struct buf *out)
{
    const struct json_member *it;
    bool first = true;

    if (json_kind(value) == JSON_KIND_OBJECT) {
        buf_append_char(out, '{');
        for (it = json_member_first(value); it != NULL;
             it = json_member_next(value, it))
            if (!change_member(json_member_name(it), json_member_value(it),
                               change, out, first))
                first = false;
        buf_append_char(out, '}');
    } else if (json_kind(value) == JSON_KIND_LIST) {
        buf_append_char(out, '[');
        for (size_t i = 0; i < json_count(value); i++)
            if (!change_member("", json_at(value, i), change, out, first))
                first = false;
        buf_append_char(out, ']');
    } else {
        json_dump(value, out);
    }
}

static size_t
values_in(const struct json *root)
{
    struct change none = {.index = SIZE_MAX};
    struct buf out;

    buf_init(&out, TINY_FILE_MAX_BYTES);
    change_dump(root, &none, &out);
    buf_clear(&out);
    return none.seen;
}

static void
change_random(const struct json *root, size_t values, struct buf *out,
              struct victim *victim, const char *name)
{
    size_t stranger = below(COUNT_OF(strangers) + 1);
    struct change change = {.index = below(values)};

    if (stranger < COUNT_OF(strangers))
        change.text = strangers[stranger];
    change_dump(root, &change, out);
    snprintf(victim->what, sizeof(victim->what), "%s: %s is %s", name,
             change.path, change.text == NULL ? "gone" : change.text);
}

/* --- kinds of damage --- */

static void
change_values(struct victim *victim, const char *name)
{
    struct json_doc doc = {0};
    struct buf whole;
    size_t values;

    file_read(victim, name, &whole);
    assert_int_equal(json_doc_parse(whole.data, whole.size, &doc, NULL),
                     STATUS_OK);
    values = values_in(doc.root);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct buf damaged;

        buf_init(&damaged, TINY_FILE_MAX_BYTES);
        change_random(doc.root, values, &damaged, victim, name);
        try_with(victim, name, &damaged, &whole);
        buf_clear(&damaged);
    }
    json_doc_clear(&doc);
    buf_clear(&whole);
}

static uint64_t
header_size(const struct buf *file)
{
    uint64_t size;

    memcpy(&size, file->data, sizeof(size));
    return size;
}

/* A member of the header of a file of weights; its length follows. */
static void
change_headers(struct victim *victim, const char *name)
{
    struct json_doc doc = {0};
    struct buf whole;
    size_t values, size;

    file_read(victim, name, &whole);
    size = (size_t)header_size(&whole);
    assert_int_equal(json_doc_parse(whole.data + 8, size, &doc, NULL),
                     STATUS_OK);
    values = values_in(doc.root);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct buf header, damaged;
        uint64_t length;

        buf_init(&header, TINY_FILE_MAX_BYTES);
        buf_init(&damaged, TINY_FILE_MAX_BYTES);
        change_random(doc.root, values, &header, victim, name);
        length = header.size;
        buf_append(&damaged, &length, sizeof(length));
        buf_append(&damaged, header.data, header.size);
        buf_append(&damaged, whole.data + 8 + size, whole.size - 8 - size);
        try_with(victim, name, &damaged, &whole);
        buf_clear(&damaged);
        buf_clear(&header);
    }
    json_doc_clear(&doc);
    buf_clear(&whole);
}

/* One to four bits of the first @size bytes. */
static void
flip_bits(struct victim *victim, const char *name, size_t size)
{
    struct buf whole;

    file_read(victim, name, &whole);
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t flips = 1 + below(4), at = 0;
        struct buf damaged;

        buf_init(&damaged, TINY_FILE_MAX_BYTES);
        buf_append(&damaged, whole.data, whole.size);
        while (flips-- > 0) {
            at = below(size < whole.size ? size : whole.size);
            damaged.data[at] =
                (char)((unsigned char)damaged.data[at] ^ 1u << below(8));
        }
        snprintf(victim->what, sizeof(victim->what),
                 "%s: bits flipped up to byte %zu", name, at);
        try_with(victim, name, &damaged, &whole);
        buf_clear(&damaged);
    }
    buf_clear(&whole);
}

static void
cut_short(struct victim *victim, const char *name)
{
    struct buf whole;

    file_read(victim, name, &whole);
    for (size_t i = 0; i < ROUNDS / 4; i++) {
        struct buf damaged;
        size_t size = i == 0 ? 0 : below(whole.size);
        size_t refused = victim->refused;

        if (i == 1)
            size = whole.size - 1;
        buf_init(&damaged, TINY_FILE_MAX_BYTES);
        buf_append(&damaged, whole.data, size);
        snprintf(victim->what, sizeof(victim->what), "%s: cut to %zu of %zu",
                 name, size, whole.size);
        try_with(victim, name, &damaged, &whole);
        buf_clear(&damaged);
        if (victim->refused == refused)
            fail_msg("SEED=%" PRIu64 ": %s: %s: not refused", seed,
                     victim->name, victim->what);
    }
    buf_clear(&whole);
}

static void
take_away(struct victim *victim, const char *name)
{
    size_t refused = victim->refused;
    char path[2 * TINY_NAME_MAX];
    struct buf whole;

    file_read(victim, name, &whole);
    snprintf(path, sizeof(path), "%s/%s", victim->folder, name);
    assert_int_equal(remove(path), 0);
    snprintf(victim->what, sizeof(victim->what), "%s: gone", name);
    try_open(victim);
    tiny_write(victim->folder, name, &whole);
    buf_clear(&whole);
    if (victim->refused == refused)
        fail_msg("SEED=%" PRIu64 ": %s: %s: not refused", seed, victim->name,
                 victim->what);
}

static void
damage_weights(struct victim *victim, const char *name)
{
    struct buf whole;
    size_t head;

    file_read(victim, name, &whole);
    head = 8 + (size_t)header_size(&whole);
    buf_clear(&whole);
    change_headers(victim, name);
    flip_bits(victim, name, 8);
    flip_bits(victim, name, head);
    flip_bits(victim, name, SIZE_MAX);
    cut_short(victim, name);
    take_away(victim, name);
}

static void
damage(const char *name)
{
    struct victim victim = {
        .name = name,
        .doc = tiny_model_read(name),
        .folder = "/tmp/berth-damage-XXXXXX",
    };
    size_t files = tiny_file_count(json_get(victim.doc.root, "tensors"));

    tiny_model_write(&victim.doc, victim.folder);
    change_values(&victim, "config.json");
    flip_bits(&victim, "config.json", SIZE_MAX);
    cut_short(&victim, "config.json");
    take_away(&victim, "config.json");
    flip_bits(&victim, "tokenizer.json", SIZE_MAX);
    cut_short(&victim, "tokenizer.json");
    take_away(&victim, "tokenizer.json");
    if (files > 1) {
        change_values(&victim, "model.safetensors.index.json");
        flip_bits(&victim, "model.safetensors.index.json", SIZE_MAX);
        cut_short(&victim, "model.safetensors.index.json");
    }
    for (size_t file = 1; file <= files; file++) {
        char weights[TINY_NAME_MAX];

        tiny_file_name(weights, file, files);
        damage_weights(&victim, weights);
    }
    print_message("%s: %zu refused, %zu opened\n", name, victim.refused,
                  victim.opened);
    tiny_model_remove(&victim.doc, victim.folder);
    json_doc_clear(&victim.doc);
}

static void
a_damaged_model_is_refused_in_words_or_runs(void **state)
{
    const char *fixed = getenv("SEED");

    (void)state;
    seed = fixed == NULL ? 1 : strtoull(fixed, NULL, 10);
    prng_seed(&prng, seed);
    for (size_t i = 0; i < COUNT_OF(models); i++)
        damage(models[i]);
}

/* So that a size believed from a file is seen; a checked build needs more
 * addresses than that. */
static void
bound_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit limit = {MEMORY_MAX_BYTES, MEMORY_MAX_BYTES};

    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
#endif
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_model_is_refused_in_words_or_runs),
    };

    bound_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
