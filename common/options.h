/* options.h - command lines: long options from a table, one error line that
 * says what to do, --help and --version everywhere.
 *
 * Own code since getopt_long's messages and its reordering differ between
 * Linux and macOS. */
#ifndef BERTH_COMMON_OPTIONS_H
#define BERTH_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attrs.h"
#include "common/error.h"

#define BERTH_VERSION "0.1.0"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum option_type { OPTION_FLAG, OPTION_TEXT };

struct option_spec {
    const char *name; /* "--model" or "-p" */
    enum option_type type;
    const char **text; /* OPTION_TEXT: written; borrowed from argv */
    bool *flag;        /* OPTION_FLAG: set true */
    const char *value; /* "DIR" in the help text */
    const char *help;
};

/* Parse @argv[1..]: options anywhere, "--opt=value" too, "--" ends them, the
 * rest go to @words (at most @word_max, counted in @word_count).  "--help" and
 * "--version" are handled here: the text goes to standard output and the
 * process exits 0.  A lone "-" is a word.  STATUS_INVALID names the option. */
MUST_CHECK enum status options_parse(int argc, char **argv, const char *usage,
                                     const struct option_spec *specs,
                                     size_t spec_count, const char **words,
                                     size_t word_max, size_t *word_count,
                                     struct error *err);

/* What a program returns that would return @result: EXIT_FAILED, and a line on
 * standard error, when its standard output could not be written. */
MUST_CHECK int options_finish(const char *program, int result);

/* "program: text" on standard error as one line. */
void options_complain(const char *program, const struct error *err);

#endif
