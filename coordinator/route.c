/* route.c - the table of routes and how a path finds its row. */
#include "coordinator/route.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/api.h"

#include "common/banned.h"

enum {
    SUBMITTER = SCOPE_SUBMITTER,
    OWNER = SCOPE_OWNER,
    OPERATOR = SCOPE_OPERATOR,
    ANY = SCOPE_SUBMITTER | SCOPE_OWNER | SCOPE_OPERATOR,
    OPEN = 0,
    SMALL = 64 * 1024,
    /* A tokenizer.json of 64 MiB, escaped as a JSON text. */
    ENTRY = 96 * 1024 * 1024,
};

const struct route routes[] = {
    {"GET", "/healthz", OPEN, SMALL, api_healthz},
    {"GET", "/readyz", OPEN, SMALL, api_readyz},
    {"GET", "/ca.pem", OPEN, SMALL, api_ca},
    {"POST", "/api/v1/join", OPEN, SMALL, api_join},

    {"POST", "/v1/chat/completions", SUBMITTER, 0, api_chat_completions},
    {"POST", "/v1/completions", SUBMITTER, 0, api_completions},
    {"GET", "/v1/models", ANY, SMALL, api_models_list},
    {"GET", "/v1/models/{id...}", ANY, SMALL, api_model_get},

    {"POST", "/api/v1/jobs", SUBMITTER, 0, api_jobs_create},
    {"GET", "/api/v1/jobs", SUBMITTER | OPERATOR, SMALL, api_jobs_list},
    {"GET", "/api/v1/jobs/{id}", SUBMITTER | OPERATOR, SMALL, api_job_get},
    {"DELETE", "/api/v1/jobs/{id}", SUBMITTER | OPERATOR, SMALL,
     api_job_cancel},
    {"GET", "/api/v1/jobs/{id}/events", SUBMITTER | OPERATOR, SMALL,
     api_job_events},

    {"GET", "/api/v1/nodes", ANY, SMALL, api_nodes_list},
    {"GET", "/api/v1/nodes/{id}", ANY, SMALL, api_node_get},
    {"POST", "/api/v1/nodes/{id}/drain", OWNER | OPERATOR, SMALL,
     api_node_drain},
    {"POST", "/api/v1/nodes/{id}/resume", OWNER | OPERATOR, SMALL,
     api_node_resume},
    {"DELETE", "/api/v1/nodes/{id}", OWNER | OPERATOR, SMALL, api_node_remove},
    {"GET", "/api/v1/pods", ANY, SMALL, api_pods_list},
    {"GET", "/api/v1/pods/{id}", ANY, SMALL, api_pod_get},
    {"GET", "/api/v1/links", ANY, SMALL, api_links_list},

    {"GET", "/api/v1/catalogue", ANY, SMALL, api_catalogue_list},
    {"GET", "/api/v1/catalogue/{id...}", ANY, SMALL, api_catalogue_get},
    {"POST", "/api/v1/catalogue", OPERATOR, ENTRY, api_catalogue_add},
    {"DELETE", "/api/v1/catalogue/{id...}", OPERATOR, SMALL,
     api_catalogue_remove},

    {"GET", "/api/v1/accounts", OPERATOR, SMALL, api_accounts_list},
    {"POST", "/api/v1/accounts", OPERATOR, SMALL, api_accounts_add},
    {"GET", "/api/v1/keys", ANY, SMALL, api_keys_list},
    {"POST", "/api/v1/keys", ANY, SMALL, api_keys_add},
    {"DELETE", "/api/v1/keys/{id}", ANY, SMALL, api_key_revoke},
    {"POST", "/api/v1/grants", OPERATOR, SMALL, api_grants_add},
    {"POST", "/api/v1/join-tokens", OWNER | OPERATOR, SMALL,
     api_join_tokens_add},

    {"GET", "/api/v1/earnings", OWNER | OPERATOR, SMALL, api_earnings},
    {"GET", "/api/v1/balance", ANY, SMALL, api_balance},
    {"GET", "/api/v1/ledger/check", OPERATOR, SMALL, api_ledger_check},
};
const size_t route_count = COUNT_OF(routes);

/* Does @pattern match all of @path?  What {id} stood for goes to @param. */
static bool
matches(const char *pattern, const char *path, char *param)
{
    const char *open = strchr(pattern, '{');
    const char *close = open == NULL ? NULL : strchr(open, '}');
    size_t head = open == NULL ? 0 : (size_t)(open - pattern);
    size_t size;

    param[0] = '\0';
    if (close == NULL)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, head) != 0)
        return false;
    size = close[-1] == '.' ? strlen(path + head) : strcspn(path + head, "/");
    if (size == 0 || size >= REQUEST_PARAM_BYTES ||
        strcmp(close + 1, path + head + size) != 0)
        return false;
    memcpy(param, path + head, size);
    param[size] = '\0';
    return true;
}

static void
allow_add(char *allow, const char *method)
{
    size_t at = strlen(allow);

    snprintf(allow + at, ROUTE_ALLOW_BYTES - at, "%s%s", at == 0 ? "" : ", ",
             method);
    if (strcmp(method, "GET") == 0)
        allow_add(allow, "HEAD");
}

enum route_result
route_find(const char *method, const char *path, const struct route **route,
           char param[static REQUEST_PARAM_BYTES],
           char allow[static ROUTE_ALLOW_BYTES])
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;

    allow[0] = '\0';
    for (size_t i = 0; i < route_count; i++) {
        if (!matches(routes[i].path, path, param))
            continue;
        if (strcmp(routes[i].method, wanted) == 0) {
            *route = &routes[i];
            return ROUTE_FOUND;
        }
        allow_add(allow, routes[i].method);
    }
    param[0] = '\0';
    return allow[0] == '\0' ? ROUTE_NO_PATH : ROUTE_NO_METHOD;
}

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

size_t
route_unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        int high = from[0] == '%' ? hex_value(from[1]) : -1;
        int low = high >= 0 ? hex_value(from[2]) : -1;

        if (low >= 0 && high * 16 + low != 0) {
            *to++ = (char)(high * 16 + low);
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}
