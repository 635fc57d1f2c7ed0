/* main.c - `berth`: the table of commands. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "common/options.h"

#include "common/banned.h"

/* One or two words and what they do. */
static const struct command {
    const char *noun;
    const char *verb; /* NULL: the noun alone */
    int (*run)(int argc, char **argv);
    const char *words;
    const char *meaning;
} commands[] = {
    {"login", NULL, cli_login, "[URL]", "remember a coordinator and a key"},
    {"chat", NULL, cli_chat, "[PROMPT]", "talk to a model"},
    {"run", NULL, cli_run, "[PROMPT]",
     "submit a job that outlives the connection"},
    {"jobs", NULL, cli_jobs, "", "list jobs, newest first"},
    {"job", NULL, cli_job, "ID", "one job: attempts, reasons, price"},
    {"cancel", NULL, cli_cancel, "ID", "cancel a job"},
    {"models", NULL, cli_models, "", "list the catalogue and what is served"},
    {"models", "add", cli_models_add, "DIR", "add a model to the catalogue"},
    {"models", "remove", cli_models_remove, "ID",
     "take a model out of the catalogue"},
    {"nodes", NULL, cli_nodes, "", "list the lent machines"},
    {"node", "drain", cli_node_drain, "ID",
     "let a node finish and take no more"},
    {"node", "resume", cli_node_resume, "ID", "let a node take jobs again"},
    {"node", "remove", cli_node_remove, "ID", "revoke a node"},
    {"pods", NULL, cli_pods, "", "list the pods"},
    {"earnings", NULL, cli_earnings, "", "who earned what"},
    {"balance", NULL, cli_balance, "", "credits available, held, maturing"},
    {"keys", NULL, cli_keys, "", "list API keys"},
    {"keys", "add", cli_keys_add, "NAME", "make an API key"},
    {"keys", "revoke", cli_keys_revoke, "ID", "end an API key"},
    {"accounts", NULL, cli_accounts, "", "list accounts"},
    {"accounts", "add", cli_accounts_add, "NAME", "make an account"},
    {"grant", NULL, cli_grant, "ACCOUNT CREDITS", "give credits"},
    {"join-token", NULL, cli_join_token, "", "make a token to lend a machine"},
    {"ledger", "check", cli_ledger_check, "", "do the books balance?"},
};

/* The commands of @noun, or all without one. */
static void
print_commands(const char *noun)
{
    printf("usage: berth COMMAND [OPTION...] [WORD...]\n\nCommands:\n");
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const struct command *command = &commands[i];
        int used;

        if (noun != NULL && strcmp(noun, command->noun) != 0)
            continue;
        used = printf("  %s%s%s%s%s", command->noun,
                      command->verb != NULL ? " " : "",
                      command->verb != NULL ? command->verb : "",
                      command->words[0] != '\0' ? " " : "", command->words);
        printf("%*s%s\n", used < 27 ? 27 - used : 1, "", command->meaning);
    }
}

static void
print_help(void)
{
    print_commands(NULL);
    printf("\n`berth COMMAND --help` lists a command's options. Environment: "
           "BERTH_URL,\nBERTH_API_KEY, BERTH_CA_FILE; `berth login` stores "
           "them.\n");
}

/* The command that @argv[1] and perhaps @argv[2] name. */
static const struct command *
find(int argc, char **argv)
{
    const struct command *found = NULL;

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const struct command *command = &commands[i];

        if (strcmp(command->noun, argv[1]) != 0)
            continue;
        if (command->verb == NULL && found == NULL)
            found = command;
        if (command->verb != NULL && argc > 2 &&
            strcmp(command->verb, argv[2]) == 0)
            found = command;
    }
    return found;
}

/* No command is called so: say why, or what there is when that is asked. */
static int
complain(const char *word, const char *next)
{
    bool is_noun = false;

    for (size_t i = 0; i < COUNT_OF(commands); i++)
        is_noun = is_noun || strcmp(commands[i].noun, word) == 0;
    if (is_noun && next != NULL && strcmp(next, "--help") == 0) {
        print_commands(word);
        return EXIT_OK;
    }
    if (!is_noun)
        (void)fprintf(stderr,
                      "berth: no command \"%.64s\"; `berth --help` lists the "
                      "commands\n",
                      word);
    else
        (void)fprintf(stderr,
                      "berth: \"%s\" needs a verb; `berth --help` lists the "
                      "commands\n",
                      word);
    return EXIT_USAGE;
}

int
main(int argc, char **argv)
{
    const struct command *command;
    int skip;

    /* A closed pipe is an error of a write, which is checked. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        (void)fprintf(stderr, "berth: a command is missing; `berth --help` "
                              "lists the commands\n");
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help();
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("berth %s\n", BERTH_VERSION);
        return EXIT_OK;
    }
    command = find(argc, argv);
    if (command == NULL)
        return complain(argv[1], argv[2]);
    skip = command->verb != NULL ? 2 : 1;
    argv[skip] = argv[0];
    return command->run(argc - skip, argv + skip);
}
