/* cli_table_test.c - tables and what may stand in them. */
#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/text.h"

#include "common/banned.h"

static const struct cli_column columns[] = {
    {"NAME", CLI_LEFT},
    {"COUNT", CLI_RIGHT},
    {"NOTE", CLI_LEFT},
};

static void
check_table(struct cli_table *table, const char *expected)
{
    struct buf out;

    buf_init(&out, 65536);
    cli_table_print(table, &out);
    assert_string_equal(out.data, expected);
    buf_clear(&out);
    cli_table_clear(table);
}

static void
columns_are_as_wide_as_their_widest_cell(void **state)
{
    struct cli_table table;

    (void)state;
    cli_table_init(&table, columns, COUNT_OF(columns), false);
    cli_table_text(&table, "a");
    cli_table_format(&table, "%d", 1234567);
    cli_table_text(&table, "first");
    cli_table_text(&table, "longer");
    cli_table_format(&table, "%d", 1);
    cli_table_text(&table, NULL);
    check_table(&table, "NAME      COUNT  NOTE\n"
                        "a       1234567  first\n"
                        "longer        1  -\n");
}

static void
an_accent_is_one_column_wide(void **state)
{
    struct cli_table table;

    (void)state;
    cli_table_init(&table, columns, COUNT_OF(columns), false);
    cli_table_text(&table, "M\xc3\xbcnchen");
    cli_table_text(&table, "1");
    cli_table_text(&table, "x");
    check_table(&table, "NAME     COUNT  NOTE\n"
                        "M\xc3\xbcnchen      1  x\n");
}

/* @kind picks the writer; @json is one value. */
static void
check_cell(void (*writer)(struct cli_table *, const struct json *),
           const char *json, bool short_ids, const char *expected)
{
    static const struct cli_column one[] = {{"X", CLI_LEFT}};
    struct json_doc doc = {0};
    struct cli_table table;

    assert_int_equal(json_doc_parse(json, strlen(json), &doc, NULL), STATUS_OK);
    cli_table_init(&table, one, 1, short_ids);
    writer(&table, json_at(doc.root, 0));
    assert_string_equal(table.cells[0], expected);
    cli_table_clear(&table);
    json_doc_clear(&doc);
}

static void
credits_have_six_places(void **state)
{
    (void)state;
    check_cell(cli_table_credits, "[1]", false, "0.000001");
    check_cell(cli_table_credits, "[99998988000]", false, "99998.988000");
    check_cell(cli_table_credits, "[-1250000]", false, "-1.250000");
    check_cell(cli_table_credits, "[null]", false, "-");
}

static void
times_are_shown_to_the_second(void **state)
{
    (void)state;
    check_cell(cli_table_time, "[\"2026-11-30T21:44:00.123456Z\"]", false,
               "2026-11-30 21:44:00");
    check_cell(cli_table_time, "[null]", false, "-");
    check_cell(cli_table_time, "[\"soon\"]", false, "soon");
}

static void
ids_are_shortened_on_a_terminal_only(void **state)
{
    static const char id[] = "[\"01939a3c-7e40-7abc-8def-0123456789ab\"]";

    (void)state;
    check_cell(cli_table_id, id, true, "456789ab");
    check_cell(cli_table_id, id, false, "01939a3c-7e40-7abc-8def-0123456789ab");
    check_cell(cli_table_id, "[\"tiny-chat-8bit-and-longer\"]", true,
               "tiny-chat-8bit-and-longer");
}

static void
values_of_every_kind_have_a_text(void **state)
{
    (void)state;
    check_cell(cli_table_json, "[\"a\"]", false, "a");
    check_cell(cli_table_json, "[42]", false, "42");
    check_cell(cli_table_json, "[true]", false, "yes");
    check_cell(cli_table_json, "[[\"a\",\"b\"]]", false, "a,b");
    check_cell(cli_table_json, "[[]]", false, "-");
    check_cell(cli_table_json, "[null]", false, "-");
    check_cell(cli_table_json, "[\"\"]", false, "-");
}

static void
a_name_cannot_steer_the_terminal(void **state)
{
    (void)state;
    check_cell(cli_table_json, "[\"\\u001b[2Jx\\n\\u0007\\u009by\\u007f\"]",
               false, "?[2Jx???y?");
}

static void
answers_keep_line_feeds_and_tabs_only(void **state)
{
    static const char text[] = "a\n\tb\r\x1b[0m\xc2\x9b\xc2\xa0\xe2\x82\xac";
    struct buf out;

    (void)state;
    buf_init(&out, 256);
    cli_text_append_safe(&out, text, sizeof(text) - 1, true);
    assert_string_equal(out.data, "a\n\tb??[0m?\xc2\xa0\xe2\x82\xac");
    assert_int_equal(cli_text_width(out.data, out.size), 12);
    buf_clear(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(an_accent_is_one_column_wide),
        cmocka_unit_test(credits_have_six_places),
        cmocka_unit_test(times_are_shown_to_the_second),
        cmocka_unit_test(ids_are_shortened_on_a_terminal_only),
        cmocka_unit_test(values_of_every_kind_have_a_text),
        cmocka_unit_test(a_name_cannot_steer_the_terminal),
        cmocka_unit_test(answers_keep_line_feeds_and_tabs_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
