/* commands.h - the commands of `berth`, each as main would be: @argv[0] is the
 * program, the command's own words follow; returns the exit status. */
#ifndef BERTH_CLI_COMMANDS_H
#define BERTH_CLI_COMMANDS_H

int cli_accounts(int argc, char **argv);
int cli_accounts_add(int argc, char **argv);
int cli_balance(int argc, char **argv);
int cli_cancel(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_earnings(int argc, char **argv);
int cli_grant(int argc, char **argv);
int cli_job(int argc, char **argv);
int cli_jobs(int argc, char **argv);
int cli_join_token(int argc, char **argv);
int cli_keys(int argc, char **argv);
int cli_keys_add(int argc, char **argv);
int cli_keys_revoke(int argc, char **argv);
int cli_ledger_check(int argc, char **argv);
int cli_login(int argc, char **argv);
int cli_models(int argc, char **argv);
int cli_models_add(int argc, char **argv);
int cli_models_remove(int argc, char **argv);
int cli_node_drain(int argc, char **argv);
int cli_node_remove(int argc, char **argv);
int cli_node_resume(int argc, char **argv);
int cli_nodes(int argc, char **argv);
int cli_pods(int argc, char **argv);
int cli_run(int argc, char **argv);

#endif
