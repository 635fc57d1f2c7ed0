/* common_options_test.c - command lines. */
#include "common/options.h"

#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

static const char *model, *words[2];
static bool json;
static size_t word_count;

static const struct option_spec specs[] = {
    {"--model", OPTION_TEXT, &model, NULL, "DIR", "the model's folder"},
    {"-p", OPTION_TEXT, &model, NULL, "TEXT", NULL},
    {"--json", OPTION_FLAG, NULL, &json, NULL, "answer in JSON"},
};

/* Parse up to six arguments after the program's name. */
static enum status
parse(const char *const args[6], struct error *err)
{
    char copies[7][32] = {"/usr/bin/prog"};
    char *argv[8] = {copies[0]};
    int argc = 1;

    model = NULL;
    json = false;
    for (; argc < 7 && args[argc - 1] != NULL; argc++) {
        (void)snprintf(copies[argc], sizeof(copies[0]), "%s", args[argc - 1]);
        argv[argc] = copies[argc];
    }
    return options_parse(argc, argv, "usage: prog", specs, COUNT_OF(specs),
                         words, COUNT_OF(words), &word_count, err);
}

static void
options_may_stand_anywhere(void **state)
{
    struct error err;

    (void)state;
    assert_int_equal(
        parse((const char *const[6]){"run", "--model", "-x", "--json", "-"},
              &err),
        STATUS_OK);
    assert_true(json);
    assert_non_null(model);
    assert_int_equal(word_count, 2);
    assert_int_equal(
        parse((const char *const[6]){"--model=", "--", "--json"}, &err),
        STATUS_OK);
    assert_false(json);
    assert_int_equal(word_count, 1);
}

static void
mistakes_are_named(void **state)
{
    static const struct {
        const char *args[6];
        const char *text;
    } cases[] = {
        {{"--modle", "x"}, "unknown option --modle; --help lists the options"},
        {{"--mod"}, "unknown option --mod; --help lists the options"},
        {{"--model"}, "--model needs a value: --model DIR"},
        {{"--json=1"}, "--json takes no value"},
        {{"a", "b", "c"}, "unexpected \"c\"; --help shows the usage"},
    };
    struct error err;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(parse(cases[i].args, &err), STATUS_INVALID);
        assert_string_equal(err.text, cases[i].text);
    }
}

/* What a child that parses @arg prints; it must exit 0. */
static void
check_output(const char *arg, const char *expected)
{
    char text[1000];
    size_t size = 0;
    ssize_t got;
    int ends[2], how;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        struct error err;

        (void)dup2(ends[1], STDOUT_FILENO);
        (void)parse((const char *const[6]){arg}, &err);
        _exit(9);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_string_equal(text, expected);
}

static void
help_and_version_print_and_exit_0(void **state)
{
    (void)state;
    (void)fflush(stdout);
    check_output("--version", "prog " BERTH_VERSION "\n");
    check_output("--help", "usage: prog\n\nOptions:\n"
                           "  --model DIR             the model's folder\n"
                           "  -p TEXT                 \n"
                           "  --json                  answer in JSON\n"
                           "  --help                  print this text\n"
                           "  --version               print the version\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_may_stand_anywhere),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(help_and_version_print_and_exit_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
