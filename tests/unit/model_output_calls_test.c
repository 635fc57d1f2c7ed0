/* model_output_calls_test.c - reasoning and tool calls out of answers in the
 * form of each family (tests/golden/make_answers_golden.mjs), whole, cut
 * anywhere, and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "common/prng.h"
#include "tests/unit/model_answer.h"

#include "common/banned.h"

enum { SPLITS = 20 };

static const char cases_path[] = "tests/golden/answers/cases.json";
static struct json_doc cases;

static int
set_up(void **state)
{
    struct buf text;
    bool is_read;

    (void)state;
    buf_init(&text, OUT_MAX_BYTES);
    is_read = buf_read_file(&text, cases_path, NULL) == STATUS_OK &&
              json_doc_parse(text.data, text.size, &cases, NULL) == STATUS_OK;
    buf_clear(&text);
    return is_read ? tiny_tokenizer_read() : -1;
}

static int
tear_down(void **state)
{
    (void)state;
    tokenizer_free(tokenizer);
    json_doc_clear(&cases);
    return 0;
}

static void
assert_same(const struct answer *a, const struct answer *b)
{
    assert_string_equal(a->content.data, b->content.data);
    assert_string_equal(a->reasoning.data, b->reasoning.data);
    assert_int_equal(a->calls, b->calls);
    for (size_t i = 0; i < a->calls; i++) {
        assert_string_equal(a->names[i].data, b->names[i].data);
        assert_string_equal(a->ids[i].data, b->ids[i].data);
        assert_string_equal(a->arguments[i].data, b->arguments[i].data);
    }
}

static const char *
member(const struct json *object, const char *name)
{
    return json_as_text(json_get(object, name), NULL);
}

static void
assert_case(const struct json *item, const struct answer *answer)
{
    const struct json *calls = json_get(item, "calls");

    assert_string_equal(answer->content.data, member(item, "content"));
    assert_string_equal(answer->reasoning.data, member(item, "reasoning"));
    assert_int_equal(answer->calls, json_count(calls));
    assert_int_equal(answer->finish,
                     answer->calls > 0 ? OUTPUT_CALLS : OUTPUT_STOP);
    for (size_t i = 0; i < answer->calls; i++) {
        assert_string_equal(answer->names[i].data,
                            member(json_at(calls, i), "name"));
        assert_arguments(answer, i, json_get(json_at(calls, i), "arguments"));
        for (size_t j = 0; j < i; j++) /* ids are the calls' own */
            if (strncmp(answer->ids[i].data, "abcDEF123", 9) != 0)
                assert_string_not_equal(answer->ids[i].data,
                                        answer->ids[j].data);
    }
}

static void
each_family_reads_back_what_its_template_writes(void **state)
{
    (void)state;
    assert_true(json_count(cases.root) > 60);
    for (size_t i = 0; i < json_count(cases.root); i++) {
        const struct json *item = json_at(cases.root, i);
        struct output_rules rules = rules_of(member(item, "format"));
        struct answer answer;
        size_t size = 0;
        const char *text = json_as_text(json_get(item, "text"), &size);

        assert_non_null(rules.format);
        print_message("%s\n", member(item, "name"));
        read_text(&rules, text, size, NULL, false, &answer);
        assert_case(item, &answer);
        assert_int_equal(answer.reasoning_count > 0,
                         answer.reasoning.size > 0 ||
                             strstr(text, "<think>") != NULL);
        answer_clear(&answer);
    }
}

static void
cuts_of_the_text_change_nothing(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 20261201);
    for (size_t i = 0; i < json_count(cases.root); i++) {
        const struct json *item = json_at(cases.root, i);
        struct output_rules rules = rules_of(member(item, "format"));
        size_t size = 0;
        const char *text = json_as_text(json_get(item, "text"), &size);

        for (size_t round = 0; round < SPLITS; round++) {
            size_t end = round < 4 ? size : (size_t)prng_below(&prng, size + 1);
            bool cut = prng_below(&prng, 2) == 0;
            struct answer whole, pieces;

            while (end < size && ((uint8_t)text[end] & 0xc0) == 0x80)
                end++;
            read_text(&rules, text, end, NULL, cut, &whole);
            read_text(&rules, text, end, &prng, cut, &pieces);
            assert_same(&whole, &pieces);
            answer_clear(&whole);
            answer_clear(&pieces);
        }
    }
}

/* Texts without calls, or whose calls are none: all of it is content. */
static void
what_is_no_call_is_content_without_loss(void **state)
{
    static const char *const texts[][2] = {
        {"hermes",
         "Use <tool_call> like this:\n<tool_call>\nno\n</tool_call>."},
        {"hermes", "<tool_call>\n{\"nam\": \"x\"}\n</tool_call> and on"},
        {"hermes", "<tool_call>\n{\"name\": 5, \"arguments\": {}}</tool_call>"},
        {"hermes", "a <tool_cal <tool_call"},
        {"hermes", "text first <think>no</think>"},
        {"qwen-tags", "<tool_call>\n<function=>\n</function></tool_call>"},
        {"qwen-tags", "<tool_call> <parameter=x>"},
        {"glm", "<tool_call>two words\n</tool_call>"},
        {"kimi", "<|tool_calls_section_begin|> nothing"},
        {"kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.a"},
        {"mistral", "[TOOL_CALLS] plain words\nand more"},
        {"llama", "{\"name\": \"unknown_tool\", \"parameters\": {}}"},
        {"llama", " {\"a\": [1, 2]} is JSON"},
        {"llama", "{ not JSON"},
        {"llama", "<|python_tag|>print(1)"},
        {"harmony", "no channels at all"},
        {"harmony", "<|channel|>final"},
        {"think", "plain"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct output_rules rules = rules_of(texts[i][0]);
        struct answer answer;

        read_text(&rules, texts[i][1], strlen(texts[i][1]), NULL, false,
                  &answer);
        assert_string_equal(answer.content.data, texts[i][1]);
        assert_int_equal(answer.calls, 0);
        assert_int_equal(answer.finish, OUTPUT_STOP);
        answer_clear(&answer);
    }
}

static void
damaged_arguments_reach_the_client_as_they_are(void **state)
{
    static const struct {
        const char *format, *text, *arguments, *content;
    } damaged[] = {
        {"hermes",
         "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": 1</tool_call>",
         "{\"x\": 1", ""},
        {"hermes", "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": \"y",
         "{\"x\": \"y", ""},
        {"hermes",
         "<tool_call>{\"arguments\": {\"x\": 1}, \"name\": \"a\"}</tool_call>",
         "{\"x\": 1}", ""},
        {"hermes",
         "<tool_call>{\"name\": \"a\", \"arguments\": "
         "\"{\\\"x\\\":2}\"}</tool_call>",
         "{\"x\":2}", ""},
        {"hermes", "<tool_call>{\"name\": \"a\"}</tool_call> Done. ", "{}",
         "Done. "},
        {"kimi",
         "<|tool_call_begin|>functions.a:3<|tool_call_argument_begin|>"
         "<|tool_call_end|>",
         "{}", ""},
        {"qwen-tags", "<tool_call><function=a><parameter=x>\n1", "{\"x\": 1}",
         ""},
        {"qwen-tags", "<tool_call><function=take_note><parameter=text>\n1\n",
         "{\"text\": \"1\\n\"}", ""},
        {"qwen-tags",
         "<tool_call><function=take_note>oh<parameter=text>12</parameter>"
         "<parameter=n>None</parameter></function></tool_call>",
         "{\"text\": \"12\", \"n\": null}", "oh"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(damaged); i++) {
        struct output_rules rules = rules_of(damaged[i].format);
        struct answer answer;

        read_text(&rules, damaged[i].text, strlen(damaged[i].text), NULL, false,
                  &answer);
        print_message("%zu\n", i);
        assert_int_equal(answer.calls, 1);
        assert_string_equal(answer.arguments[0].data, damaged[i].arguments);
        assert_string_equal(answer.content.data, damaged[i].content);
        assert_int_equal(answer.finish, OUTPUT_CALLS);
        answer_clear(&answer);
    }
}

static void
without_tools_a_call_is_content(void **state)
{
    static const char text[] =
        "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>";
    struct output_rules rules = rules_of("hermes");
    struct answer answer;

    (void)state;
    rules.calls = false;
    read_text(&rules, text, strlen(text), NULL, false, &answer);
    assert_string_equal(answer.content.data, text);
    assert_int_equal(answer.finish, OUTPUT_STOP);
    answer_clear(&answer);
}

static void
an_answer_may_begin_inside_reasoning(void **state)
{
    static const char text[] = "\nHm.\n</think>\n\nYes.";
    struct output_rules rules = rules_of("think");
    struct answer answer;

    (void)state;
    rules.thinks = true;
    read_text(&rules, text, strlen(text), NULL, false, &answer);
    assert_string_equal(answer.reasoning.data, "Hm.");
    assert_string_equal(answer.content.data, "Yes.");
    assert_int_equal(answer.reasoning_count, strlen("\nHm.\n</think>"));
    answer_clear(&answer);
    assert_true(format_thinks_at_once(rules.format, "a<think>\n", 9));
    assert_false(format_thinks_at_once(rules.format, "<think></think>", 15));
    assert_false(format_thinks_at_once(NULL, "<think>", 7));
}

static void
one_call_ends_the_answer_when_one_is_asked_for(void **state)
{
    static const char text[] =
        "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>"
        "<tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>";
    struct output_rules rules = rules_of("hermes");
    struct answer answer;

    (void)state;
    rules.one_call = true;
    read_text(&rules, text, strlen(text), NULL, false, &answer);
    assert_int_equal(answer.calls, 1);
    assert_string_equal(answer.names[0].data, "a");
    assert_int_equal(answer.finish, OUTPUT_CALLS);
    answer_clear(&answer);
}

static void
ids_follow_the_seed_and_the_family(void **state)
{
    static const char hermes[] =
        "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>";
    static const char mistral[] = "[TOOL_CALLS]a[ARGS]{}";
    static const char kimi[] = "<|tool_call_begin|>functions.a:3"
                               "<|tool_call_argument_begin|>{}";
    struct output_rules rules = rules_of("hermes");
    struct answer first, second;

    (void)state;
    read_text(&rules, hermes, strlen(hermes), NULL, false, &first);
    read_text(&rules, hermes, strlen(hermes), NULL, false, &second);
    assert_same(&first, &second);
    assert_int_equal(first.ids[0].size, strlen("call_") + 24);
    answer_clear(&second);
    rules.call_seed++;
    read_text(&rules, hermes, strlen(hermes), NULL, false, &second);
    assert_string_not_equal(first.ids[0].data, second.ids[0].data);
    answer_clear(&first);
    answer_clear(&second);
    rules = rules_of("mistral");
    read_text(&rules, mistral, strlen(mistral), NULL, false, &first);
    assert_int_equal(first.ids[0].size, 9);
    answer_clear(&first);
    rules = rules_of("kimi");
    read_text(&rules, kimi, strlen(kimi), NULL, false, &first);
    assert_string_equal(first.ids[0].data, "functions.a:3");
    assert_string_equal(first.names[0].data, "a");
    answer_clear(&first);
}

/* The tokenizer of the tests with two special tokens more. */
static struct tokenizer *
with_specials(void)
{
    static const char wanted[] = "\"added_tokens\":";
    static const char more[] =
        "{\"id\":2048,\"content\":\"[TOOL_CALLS]\",\"single_word\":false,"
        "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
        "\"special\":true},{\"id\":2049,\"content\":\"[ARGS]\","
        "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false,\"special\":true},";
    struct tokenizer *made = NULL;
    struct buf file, text;
    char *at;

    buf_init(&file, OUT_MAX_BYTES);
    buf_init(&text, OUT_MAX_BYTES);
    assert_int_equal(
        buf_read_file(&file, "tests/models/tiny-chat/tokenizer.json", NULL),
        STATUS_OK);
    at = strchr(strstr(file.data, wanted), '[') + 1;
    buf_append(&text, file.data, (size_t)(at - file.data));
    buf_append_text(&text, more);
    buf_append_text(&text, at);
    assert_int_equal(tokenizer_parse(text.data, text.size, &made, NULL),
                     STATUS_OK);
    buf_clear(&file);
    buf_clear(&text);
    return made;
}

/* Markers that are special tokens count; other special tokens, and markers
 * when no calls are looked for, are no text; and no stop string is cut by
 * them, since the engine looks for it in the text without them. */
static void
special_tokens_are_markers_and_never_text(void **state)
{
    struct tokenizer *own = with_specials();
    const uint32_t ids[] = {byte_ids['H'], 2046,          byte_ids['i'],
                            2048,          byte_ids['f'], 2049,
                            byte_ids['{'], byte_ids['}'], END_ID};
    const uint32_t stopped[] = {byte_ids['a'], byte_ids['b'], 2048,
                                byte_ids['c']};
    struct output_rules rules = rules_of("mistral");
    struct output_events events;

    (void)state;
    output_events_init(&events, OUT_MAX_BYTES);
    for (int round = 0; round < 3; round++) {
        struct output *output;
        struct answer answer;

        rules.calls = round == 0;
        if (round == 2)
            snprintf(rules.stop[rules.stop_count++], OUTPUT_STOP_BYTES, "bc");
        output = output_new(own, &rules);
        answer_init(&answer);
        output_events_reset(&events);
        if (round == 2)
            for (size_t i = 0; i < COUNT_OF(stopped); i++)
                assert_true(output_next(output, stopped[i], &events));
        for (size_t i = 0; round < 2 && i < COUNT_OF(ids); i++)
            assert_true(output_next(output, ids[i], &events));
        answer_take(&answer, &events);
        assert_string_equal(answer.content.data, round == 0   ? "Hi"
                                                 : round == 1 ? "Hif{}"
                                                              : "a");
        assert_int_equal(answer.calls, round == 0 ? 1 : 0);
        assert_int_equal(output_finish(output),
                         round == 0 ? OUTPUT_CALLS : OUTPUT_STOP);
        answer_clear(&answer);
        output_free(output);
    }
    output_events_clear(&events);
    tokenizer_free(own);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_reads_back_what_its_template_writes),
        cmocka_unit_test(cuts_of_the_text_change_nothing),
        cmocka_unit_test(what_is_no_call_is_content_without_loss),
        cmocka_unit_test(damaged_arguments_reach_the_client_as_they_are),
        cmocka_unit_test(without_tools_a_call_is_content),
        cmocka_unit_test(an_answer_may_begin_inside_reasoning),
        cmocka_unit_test(one_call_ends_the_answer_when_one_is_asked_for),
        cmocka_unit_test(ids_follow_the_seed_and_the_family),
        cmocka_unit_test(special_tokens_are_markers_and_never_text),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
