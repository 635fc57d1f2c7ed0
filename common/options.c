/* options.c - command lines from a table. */
#include "common/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/banned.h"

/* Where parsing is in argv. */
struct cursor {
    int argc;
    char **argv;
    int at;
};

static const struct option_spec *
find(const struct option_spec *specs, size_t count, const char *name,
     size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(specs[i].name) == size &&
            memcmp(specs[i].name, name, size) == 0)
            return &specs[i];
    }
    return NULL;
}

/* The column of the help texts after an option and its value. */
enum { HELP_COLUMN = 26 };

static NORETURN void
print_help(const char *usage, const struct option_spec *specs, size_t count)
{
    printf("%s\n", usage);
    if (count > 0)
        printf("\nOptions:\n");
    for (size_t i = 0; i < count; i++) {
        int used =
            printf("  %s%s%s", specs[i].name, specs[i].value != NULL ? " " : "",
                   specs[i].value != NULL ? specs[i].value : "");

        printf("%*s%s\n", used < HELP_COLUMN ? HELP_COLUMN - used : 2, "",
               specs[i].help != NULL ? specs[i].help : "");
    }
    printf("  %-24s%s\n", "--help", "print this text");
    printf("  %-24s%s\n", "--version", "print the version");
    exit(EXIT_OK);
}

static NORETURN void
print_version(const char *path)
{
    const char *slash = strrchr(path, '/');

    printf("%s %s\n", slash != NULL ? slash + 1 : path, BERTH_VERSION);
    exit(EXIT_OK);
}

/* The option at the cursor, with its value when it takes one. */
static enum status
take_option(struct cursor *cursor, const struct option_spec *specs,
            size_t spec_count, struct error *err)
{
    const char *arg = cursor->argv[cursor->at];
    const char *equals = strchr(arg, '=');
    size_t size = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    const struct option_spec *spec = find(specs, spec_count, arg, size);

    if (spec == NULL)
        return error_set(err, STATUS_INVALID,
                         "unknown option %.*s; --help lists the options",
                         (int)(size < 64 ? size : 64), arg);
    if (spec->type == OPTION_FLAG) {
        if (equals != NULL)
            return error_set(err, STATUS_INVALID, "%s takes no value",
                             spec->name);
        *spec->flag = true;
        return STATUS_OK;
    }
    if (equals != NULL) {
        *spec->text = equals + 1;
        return STATUS_OK;
    }
    if (cursor->at + 1 >= cursor->argc)
        return error_set(err, STATUS_INVALID, "%s needs a value: %s %s",
                         spec->name, spec->name,
                         spec->value != NULL ? spec->value : "VALUE");
    *spec->text = cursor->argv[++cursor->at];
    return STATUS_OK;
}

enum status
options_parse(int argc, char **argv, const char *usage,
              const struct option_spec *specs, size_t spec_count,
              const char **words, size_t word_max, size_t *word_count,
              struct error *err)
{
    struct cursor cursor = {.argc = argc, .argv = argv, .at = 1};
    bool options_over = false;

    *word_count = 0;
    for (; cursor.at < argc; cursor.at++) {
        const char *arg = argv[cursor.at];
        bool is_word = options_over || arg[0] != '-' || arg[1] == '\0';

        if (is_word) {
            if (*word_count == word_max)
                return error_set(err, STATUS_INVALID,
                                 "unexpected \"%.64s\"; --help shows the usage",
                                 arg);
            words[(*word_count)++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            options_over = true;
        } else if (strcmp(arg, "--help") == 0) {
            print_help(usage, specs, spec_count);
        } else if (strcmp(arg, "--version") == 0) {
            print_version(argv[0]);
        } else {
            enum status status = take_option(&cursor, specs, spec_count, err);

            if (status != STATUS_OK)
                return status;
        }
    }
    return STATUS_OK;
}

int
options_finish(const char *program, int result)
{
    bool was_written = fflush(stdout) == 0 && ferror(stdout) == 0;

    if (was_written || result != EXIT_OK)
        return result;
    (void)fprintf(stderr, "%s: standard output could not be written\n",
                  program);
    return EXIT_FAILED;
}

void
options_complain(const char *program, const struct error *err)
{
    (void)fprintf(stderr, "%s: %s\n", program, err->text);
}
