/* main.c - berth-engine: choose the command. */
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/options.h"
#include "inference/command.h"

#include "common/banned.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"run", command_run, "answer one prompt on standard output"},
    {"bench", command_bench, "measure prefill and decode"},
    {"logits", command_logits, "the logits after given ids"},
    {"tokenize", command_tokenize, "text to ids"},
    {"detokenize", command_detokenize, "ids to text"},
    {"template", command_template, "render messages with the chat template"},
    {"serve", command_serve, "the socket an agent talks to"},
};

static void
print_help(void)
{
    printf("usage: berth-engine COMMAND [OPTION]...\n\nCommands:\n");
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        printf("  %-12s%s\n", commands[i].name, commands[i].help);
    printf("\nberth-engine COMMAND --help tells a command's options.\n");
}

static int
run(int argc, char **argv)
{
    struct error err;

    if (argc < 2) {
        error_set(&err, STATUS_INVALID,
                  "no command; --help lists the commands");
        return command_usage(&err);
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_help();
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", ENGINE_PROGRAM, BERTH_VERSION);
        return EXIT_OK;
    }
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        argv[1] = argv[0];
        return commands[i].run(argc - 1, argv + 1);
    }
    error_set(&err, STATUS_INVALID,
              "unknown command %.40s; --help lists the commands", argv[1]);
    return command_usage(&err);
}

int
main(int argc, char **argv)
{
    log_set_program(ENGINE_PROGRAM);
    return options_finish(ENGINE_PROGRAM, run(argc, argv));
}
