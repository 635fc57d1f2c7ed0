/* inference_rope_test.c - rotary frequencies of published models against
 * tests/reference/rope.py. */
#include "inference/rope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/banned.h"

enum { DATA_MAX_BYTES = 1 << 20 };

static double
number_of(const struct json *value)
{
    double number = 0;

    assert_int_equal(json_as_double(value, &number), STATUS_OK);
    return number;
}

static void
check_close(const char *name, double found, double expected)
{
    if (fabs(found - expected) > 1e-6 * fabs(expected))
        fail_msg("%s: %.9g, expected %.9g", name, found, expected);
}

static void
check_model(const struct json *model)
{
    const char *name = json_as_text(json_get(model, "name"), NULL);
    const struct json *expected = json_get(model, "frequencies");
    struct model_config config;
    struct error err;
    float *frequencies;

    if (model_config_parse(json_get(model, "config"), NULL, &config, &err) !=
        STATUS_OK)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(json_count(expected), config.rotary / 2);
    frequencies = rope_frequencies(&config);
    for (size_t i = 0; i < config.rotary / 2; i++)
        check_close(name, (double)frequencies[i],
                    number_of(json_at(expected, i)));
    check_close(name, (double)config.rope_amplitude,
                number_of(json_get(model, "amplitude")));
    free(frequencies);
}

static void
frequencies_equal_the_published_formulas(void **state)
{
    struct json_doc doc = {0};
    struct buf buf;

    (void)state;
    buf_init(&buf, DATA_MAX_BYTES);
    assert_int_equal(buf_read_file(&buf, "tests/data/rope.json", NULL),
                     STATUS_OK);
    assert_int_equal(json_doc_parse(buf.data, buf.size, &doc, NULL), STATUS_OK);
    assert_int_equal(json_count(doc.root), 4);
    for (size_t i = 0; i < json_count(doc.root); i++)
        check_model(json_at(doc.root, i));
    json_doc_clear(&doc);
    buf_clear(&buf);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_equal_the_published_formulas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
