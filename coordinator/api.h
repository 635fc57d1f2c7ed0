/* api.h - the handlers, by file; route.c lists them with method, path, scope.
 */
#ifndef BERTH_COORDINATOR_API_H
#define BERTH_COORDINATOR_API_H

#include "coordinator/http.h"

/* api_chat.c: OpenAI-compatible */
http_handler api_chat_completions;
http_handler api_completions;
http_handler api_models_list;
http_handler api_model_get;

/* api_jobs.c */
http_handler api_jobs_create;
http_handler api_jobs_list;
http_handler api_job_get;
http_handler api_job_cancel;
http_handler api_job_events;

/* api_fleet.c */
http_handler api_nodes_list;
http_handler api_node_get;
http_handler api_node_drain;
http_handler api_node_resume;
http_handler api_node_remove;
http_handler api_pods_list;
http_handler api_pod_get;
http_handler api_links_list;
http_handler api_join;

/* api_catalogue.c */
http_handler api_catalogue_list;
http_handler api_catalogue_get;
http_handler api_catalogue_add;
http_handler api_catalogue_remove;

/* api_accounts.c */
http_handler api_accounts_list;
http_handler api_accounts_add;
http_handler api_keys_list;
http_handler api_keys_add;
http_handler api_key_revoke;
http_handler api_grants_add;

/* api_tokens.c */
http_handler api_join_tokens_add;

/* api_ledger.c */
http_handler api_earnings;
http_handler api_balance;
http_handler api_ledger_check;

/* api_admin.c: open routes */
http_handler api_healthz;
http_handler api_readyz;
http_handler api_ca;

#endif
