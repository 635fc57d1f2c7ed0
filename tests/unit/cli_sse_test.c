/* cli_sse_test.c - server-sent events, against the examples of the HTML
 * standard (server-sent events, "interpreting an event stream") and every way
 * to cut them. */
#include "cli/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

/* Events as one line each: "name|id|data;" */
static bool
on_event(void *arg, const struct cli_sse_event *event)
{
    struct buf *log = arg;

    buf_printf(log, "%s|%s|", event->name, event->id);
    buf_append(log, event->data, event->data_size);
    buf_append_char(log, ';');
    return strcmp(event->data, "stop") != 0;
}

static void
check_cut(const char *text, size_t size, size_t step, const char *expected)
{
    struct cli_sse sse;
    struct buf log;

    buf_init(&log, 65536);
    cli_sse_init(&sse, on_event, &log);
    for (size_t at = 0; at < size; at += step) {
        size_t count = step < size - at ? step : size - at;

        assert_int_equal(cli_sse_push(&sse, text + at, count, NULL), STATUS_OK);
    }
    assert_string_equal(log.data, expected);
    cli_sse_clear(&sse);
    buf_clear(&log);
}

/* However it is cut, with LF, CR and CRLF. */
static void
check(const char *text, const char *expected)
{
    static const char *const ends[] = {"\n", "\r", "\r\n"};

    for (size_t e = 0; e < 3; e++) {
        struct buf variant;

        buf_init(&variant, 65536);
        for (const char *c = text; *c != '\0'; c++) {
            if (*c == '\n')
                buf_append_text(&variant, ends[e]);
            else
                buf_append_char(&variant, *c);
        }
        for (size_t step = 1; step <= variant.size; step++)
            check_cut(variant.data, variant.size, step, expected);
        buf_clear(&variant);
    }
}

static void
data_lines_join_with_a_line_feed(void **state)
{
    (void)state;
    check("data: YHOO\ndata: +2\ndata: 10\n\n", "message||YHOO\n+2\n10;");
}

static void
ids_stay_until_they_are_emptied(void **state)
{
    (void)state;
    check(": test stream\n\ndata: first event\nid: 1\n\n"
          "data:second event\nid\n\ndata:  third event\n\n",
          "message|1|first event;message||second event;"
          "message|| third event;");
}

static void
an_empty_data_line_is_an_event_and_the_unfinished_last_is_none(void **state)
{
    (void)state;
    check("data\n\ndata\ndata\n\ndata:\n", "message||;message||\n;");
}

static void
one_blank_after_the_colon_is_dropped(void **state)
{
    (void)state;
    check("data:test\n\ndata: test\n\n", "message||test;message||test;");
}

static void
names_hold_for_one_event(void **state)
{
    (void)state;
    check("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n"
          "data: 113411\n\nevent: nothing\n\n",
          "add||73857293;remove||2153;message||113411;");
}

static void
comments_and_unknown_fields_change_nothing(void **state)
{
    (void)state;
    check(": keep-alive\n\n: again\nretry: 10\ncolour: red\ndata: {}\n:x\n\n",
          "message||{};");
}

static void
a_byte_order_mark_at_the_start_is_dropped(void **state)
{
    (void)state;
    check("\xef\xbb\xbf"
          "data: a\n\n",
          "message||a;");
}

static void
nothing_is_delivered_after_the_sink_said_no(void **state)
{
    (void)state;
    check("data: stop\n\ndata: more\n\n", "message||stop;");
}

static void
an_id_with_nul_is_ignored(void **state)
{
    static const char text[] = "id: 7\ndata: a\n\nid: 8\0x\ndata: b\n\n";

    (void)state;
    for (size_t step = 1; step < sizeof(text); step++)
        check_cut(text, sizeof(text) - 1, step, "message|7|a;message|7|b;");
}

static void
a_restart_keeps_the_id_and_drops_the_unfinished_event(void **state)
{
    static const char first[] = "id: 41\ndata: a\n\nid: 42\ndata: lost";
    static const char second[] = "data: b\n\n";
    struct cli_sse sse;
    struct buf log;

    (void)state;
    buf_init(&log, 4096);
    cli_sse_init(&sse, on_event, &log);
    assert_int_equal(cli_sse_push(&sse, first, sizeof(first) - 1, NULL), 0);
    cli_sse_restart(&sse);
    assert_int_equal(cli_sse_push(&sse, second, sizeof(second) - 1, NULL), 0);
    assert_string_equal(log.data, "message|41|a;message|41|b;");
    cli_sse_clear(&sse);
    buf_clear(&log);
}

static void
an_event_over_the_maximum_is_refused(void **state)
{
    size_t size = CLI_SSE_EVENT_MAX_BYTES / 2;
    char *line = malloc(size);
    struct error err = {0};
    struct cli_sse sse;
    struct buf log;

    (void)state;
    assert_non_null(line);
    memset(line, 'x', size);
    memcpy(line, "data:", 5);
    line[size - 1] = '\n';
    buf_init(&log, 4096);
    cli_sse_init(&sse, on_event, &log);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cli_sse_push(&sse, line, size, &err), STATUS_OK);
    assert_int_equal(cli_sse_push(&sse, line, size, &err), STATUS_TOO_LARGE);
    assert_int_equal(cli_sse_push(&sse, "\n\n", 2, &err), STATUS_OK);
    assert_int_equal(log.size, 0);
    cli_sse_clear(&sse);
    buf_clear(&log);
    free(line);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_lines_join_with_a_line_feed),
        cmocka_unit_test(ids_stay_until_they_are_emptied),
        cmocka_unit_test(
            an_empty_data_line_is_an_event_and_the_unfinished_last_is_none),
        cmocka_unit_test(one_blank_after_the_colon_is_dropped),
        cmocka_unit_test(names_hold_for_one_event),
        cmocka_unit_test(comments_and_unknown_fields_change_nothing),
        cmocka_unit_test(a_byte_order_mark_at_the_start_is_dropped),
        cmocka_unit_test(nothing_is_delivered_after_the_sink_said_no),
        cmocka_unit_test(an_id_with_nul_is_ignored),
        cmocka_unit_test(a_restart_keeps_the_id_and_drops_the_unfinished_event),
        cmocka_unit_test(an_event_over_the_maximum_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
