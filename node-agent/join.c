/* join.c - two HTTPS requests: the CA, then the certificate.
 *
 * The first runs without verification, since there is nothing to verify with
 * yet; it sends no secret, and its answer counts only when its key is the one
 * the token names.  The second trusts that CA alone. */
#include "node-agent/join.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <curl/curl.h>

#include "common/json.h"
#include "common/options.h"

#include "common/banned.h"

enum {
    ANSWER_MAX_BYTES = 64 * 1024,
    REQUEST_MAX_BYTES = 64 * 1024,
    URL_BYTES = 1024,
    CONNECT_S = 10,
    WHOLE_S = 30,
};

/* --- token and URL --- */

/* The third part of a token, checked: 64 lower-case hex digits. */
static enum status
token_digest(const char *token, char digest[static SHA256_HEX_BYTES],
             struct error *err)
{
    const char *first = strchr(token, '.');
    const char *second = first == NULL ? NULL : strchr(first + 1, '.');

    if (second == NULL || first == token || second == first + 1 ||
        strlen(token) >= JOIN_TOKEN_BYTES ||
        strlen(second + 1) != SHA256_HEX_BYTES - 1 ||
        strspn(second + 1, "0123456789abcdef") != SHA256_HEX_BYTES - 1)
        return error_set(err, STATUS_INVALID,
                         "not a join token: it has three parts, "
                         "id.secret.digest; ask the coordinator's operator "
                         "for a new one");
    memcpy(digest, second + 1, SHA256_HEX_BYTES);
    return STATUS_OK;
}

/* https alone, without user, query or fragment; the host is written out. */
static enum status
check_url(const char *url, char *host, size_t host_size, struct error *err)
{
    char *scheme = NULL, *name = NULL, *user = NULL, *query = NULL;
    enum status status = STATUS_OK;
    CURLU *parsed = curl_url();

    if (parsed == NULL || strlen(url) >= URL_BYTES - 64 ||
        curl_url_set(parsed, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parsed, CURLUPART_HOST, &name, 0) != CURLUE_OK ||
        strcmp(scheme, "https") != 0 || strlen(name) >= host_size ||
        curl_url_get(parsed, CURLUPART_USER, &user, 0) == CURLUE_OK ||
        curl_url_get(parsed, CURLUPART_QUERY, &query, 0) == CURLUE_OK)
        status = error_set(err, STATUS_INVALID,
                           "%.200s: the coordinator's address looks like "
                           "https://host:8443",
                           url);
    else if (name[0] == '[') /* an IPv6 address loses its brackets */
        snprintf(host, host_size, "%.*s", (int)strlen(name) - 2, name + 1);
    else
        snprintf(host, host_size, "%s", name);
    curl_free(scheme);
    curl_free(name);
    curl_free(user);
    curl_free(query);
    curl_url_cleanup(parsed);
    return status;
}

/* @path under the URL, which may end in slashes. */
static void
build_url(const char *url, const char *path, char *whole, size_t whole_size)
{
    size_t size = strlen(url);

    while (size > 0 && url[size - 1] == '/')
        size--;
    snprintf(whole, whole_size, "%.*s%s", (int)size, url, path);
}

/* --- HTTPS --- */

static size_t
on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct buf *answer = arg;

    buf_append(answer, bytes, size * count);
    return answer->overflowed ? 0 : size * count;
}

/* The options both requests share. */
static CURL *
open_request(const char *url, struct buf *answer, char *detail)
{
    CURL *curl = curl_easy_init();

    if (curl == NULL)
        return NULL;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)WHOLE_S);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "berth-node/" BERTH_VERSION);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
    return curl;
}

static enum status
perform(CURL *curl, const char *url, const char *detail, long *code,
        struct error *err)
{
    CURLcode result = curl_easy_perform(curl);

    if (result != CURLE_OK)
        return error_set(
            err, STATUS_RETRY,
            "%.200s: %.200s: is the address right and the "
            "coordinator running?",
            url, detail[0] != '\0' ? detail : curl_easy_strerror(result));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, code);
    return STATUS_OK;
}

static enum status
fetch_ca(const char *url, struct buf *ca, struct error *err)
{
    char detail[CURL_ERROR_SIZE] = "";
    CURL *curl = open_request(url, ca, detail);
    long code = 0;
    enum status status;

    if (curl == NULL)
        return error_set(err, STATUS_INTERNAL, "libcurl does not start");
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    status = perform(curl, url, detail, &code, err);
    if (status == STATUS_OK && code != 200)
        status =
            error_set(err, STATUS_RETRY,
                      "%.300s answered %ld: is the address right?", url, code);
    curl_easy_cleanup(curl);
    return status;
}

/* @fetched came from anybody: of all it may hold, only the one certificate that
 * is checked here goes on to be trusted. */
static enum status
check_ca(const struct buf *fetched, const char *digest, struct buf *ca,
         struct error *err)
{
    uint8_t key_digest[SHA256_BYTES];
    char text[SHA256_HEX_BYTES];
    enum status status = cert_first(fetched->data, ca, err);

    if (status == STATUS_OK)
        status = cert_key_digest(ca->data, key_digest, err);
    if (status != STATUS_OK)
        return status;
    cert_hex(key_digest, sizeof(key_digest), text);
    if (!cert_equal(text, digest, SHA256_HEX_BYTES - 1))
        return error_set(err, STATUS_DENIED,
                         "the server's CA is not the one the token was made "
                         "for: wrong address, or somebody between you and "
                         "the coordinator; nothing was sent");
    return STATUS_OK;
}

static struct curl_slist *
trust_only(CURL *curl, const struct buf *ca)
{
    struct curl_blob blob = {
        .data = ca->data, .len = ca->size, .flags = CURL_BLOB_COPY};

    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
    curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    return curl_slist_append(NULL, "Content-Type: application/json");
}

/* What the coordinator says is wrong, or the status alone. */
static enum status
refused(const struct buf *answer, long code, struct error *err)
{
    struct json_doc doc = {0};
    const char *message = NULL;
    size_t size = 0;
    enum status status = STATUS_DENIED;

    if (json_doc_parse(answer->data, answer->size, &doc, NULL) == STATUS_OK)
        message = json_as_text(json_get(json_get(doc.root, "error"), "message"),
                               &size);
    if (message != NULL)
        error_set(err, status, "the coordinator refused (%ld): %.*s", code,
                  (int)(size > 300 ? 300 : size), message);
    else
        error_set(err, status, "the coordinator answered %ld", code);
    json_doc_clear(&doc);
    return status;
}

static enum status
post(const char *url, const struct buf *ca, const struct buf *body,
     struct buf *answer, struct error *err)
{
    char detail[CURL_ERROR_SIZE] = "";
    CURL *curl = open_request(url, answer, detail);
    struct curl_slist *headers = NULL;
    long code = 0;
    enum status status;

    if (curl == NULL)
        return error_set(err, STATUS_INTERNAL, "libcurl does not start");
    headers = trust_only(curl, ca);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body->size);
    status = perform(curl, url, detail, &code, err);
    if (status == STATUS_OK && code != 201)
        status = refused(answer, code, err);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return status;
}

/* --- joining --- */

/* Has the node's certificate run out?  Such a node can neither connect nor
 * renew. */
static bool
is_over(const struct home *home)
{
    struct identity identity;
    int64_t left = 0;
    int64_t whole = 0;
    enum status status = identity_read(home, &identity, NULL);

    if (status == STATUS_OK) {
        status = cert_life(identity.cert.data, &left, &whole, NULL);
        identity_clear(&identity);
    }
    return status == STATUS_OK && left <= 0;
}

/* A home joins once, unless the coordinator has said that its node is gone, or
 * time has. */
static enum status
check_home(const struct home *home, struct error *err)
{
    struct buf node;

    if (!home_has(home, "node.id") || home_has(home, "removed") ||
        is_over(home))
        return STATUS_OK;
    if (home_read(home, "node.id", &node, NULL) == STATUS_OK && node.size > 0 &&
        node.data[node.size - 1] == '\n')
        buf_truncate(&node, node.size - 1);
    error_set(err, STATUS_CONFLICT,
              "%.200s is already node %.40s; to join again, have that node "
              "deleted at its coordinator and run berth-node once, or give "
              "another --home",
              home->path, node.data);
    buf_clear(&node);
    return STATUS_CONFLICT;
}

static enum status
check_profile(const char *profile, struct identity *identity, struct error *err)
{
    char absolute[PATH_MAX];
    struct stat info;

    if (profile == NULL)
        return STATUS_OK;
    if (realpath(profile, absolute) == NULL || stat(absolute, &info) != 0 ||
        !S_ISDIR(info.st_mode) || strlen(absolute) >= sizeof(identity->profile))
        return error_set(err, STATUS_INVALID,
                         "--profile %.300s: not a folder that can be read",
                         profile);
    snprintf(identity->profile, sizeof(identity->profile), "%s", absolute);
    return STATUS_OK;
}

static void
write_request(const struct join_request *request, const struct buf *csr,
              struct buf *body)
{
    struct json_out out;

    json_out_init(&out, body);
    json_open_object(&out);
    json_member_text(&out, "token", request->token);
    json_member_text(&out, "request", csr->data);
    /* Without a name the coordinator draws one: never the host's. */
    if (request->name != NULL)
        json_member_text(&out, "name", request->name);
    json_member_bool(&out, "simulated", request->profile != NULL);
    json_close_object(&out);
}

/* A member's text of 1 to @to_size - 1 bytes. */
static bool
take_text(const struct json *object, const char *name, char *to, size_t to_size)
{
    size_t size = 0;
    const char *text = json_as_text(json_get(object, name), &size);

    if (text == NULL || size == 0 || size >= to_size ||
        memchr(text, '\0', size) != NULL)
        return false;
    memcpy(to, text, size);
    to[size] = '\0';
    return true;
}

static enum status
take_answer(const struct buf *text, struct identity *identity, char *name,
            size_t name_size, struct error *err)
{
    char certificate[CERT_PEM_MAX_BYTES];
    struct json_doc doc = {0};
    enum status status = json_doc_parse(text->data, text->size, &doc, err);
    int64_t port = 0;

    if (status == STATUS_OK &&
        (!take_text(doc.root, "node", identity->node, sizeof(identity->node)) ||
         !uuid_is_valid(identity->node) ||
         !take_text(doc.root, "name", name, name_size) ||
         !take_text(doc.root, "certificate", certificate,
                    sizeof(certificate)) ||
         json_as_i64(json_get(doc.root, "link_port"), &port) != STATUS_OK ||
         port < 1 || port > 65535))
        status = error_set(err, STATUS_INVALID,
                           "the coordinator's answer lacks node, name, "
                           "certificate or link_port");
    json_doc_clear(&doc);
    if (status != STATUS_OK)
        return status;
    identity->port = (uint16_t)port;
    buf_append_text(&identity->cert, certificate);
    return STATUS_OK;
}

/* The certificate must be for our key and of that CA, or nothing is written. */
static enum status
check_identity(const struct identity *identity, struct error *err)
{
    struct ssl_ctx_st *context = NULL;
    enum status status = cert_tls_client(identity->ca.data, identity->cert.data,
                                         identity->key.data, &context, err);

    if (status == STATUS_OK) {
        cert_tls_free(context);
        status = cert_check_issuer(identity->ca.data, identity->cert.data, err);
    }
    return status;
}

/* What a server answered is wrong, and not what the caller gave. */
static enum status
blame_answer(enum status status, struct error *err)
{
    if (status != STATUS_INVALID)
        return status;
    if (err != NULL)
        err->status = STATUS_INTERNAL;
    return STATUS_INTERNAL;
}

static enum status
talk(const struct join_request *request, const char *digest,
     struct identity *identity, struct buf *answer, struct error *err)
{
    char url[URL_BYTES];
    struct buf fetched;
    struct buf csr;
    struct buf body;
    enum status status;

    buf_init(&fetched, ANSWER_MAX_BYTES);
    buf_init(&csr, CERT_PEM_MAX_BYTES);
    buf_init(&body, REQUEST_MAX_BYTES);
    build_url(request->url, "/ca.pem", url, sizeof(url));
    status = fetch_ca(url, &fetched, err);
    if (status == STATUS_OK)
        status =
            blame_answer(check_ca(&fetched, digest, &identity->ca, err), err);
    if (status == STATUS_OK)
        status = cert_request_make(&csr, &identity->key, err);
    if (status == STATUS_OK) {
        write_request(request, &csr, &body);
        status = buf_status(&body, err);
    }
    if (status == STATUS_OK) {
        build_url(request->url, "/api/v1/join", url, sizeof(url));
        status = post(url, &identity->ca, &body, answer, err);
    }
    buf_clear(&fetched);
    buf_clear(&csr);
    buf_clear(&body);
    return status;
}

enum status
join_network(const struct home *home, const struct join_request *request,
             char *name, size_t name_size, char node[static UUID_TEXT_BYTES],
             struct error *err)
{
    struct identity identity = {0};
    char digest[SHA256_HEX_BYTES];
    struct buf answer;
    enum status status;

    buf_init(&identity.ca, ANSWER_MAX_BYTES);
    buf_init(&identity.cert, CERT_PEM_MAX_BYTES);
    buf_init(&identity.key, CERT_PEM_MAX_BYTES);
    buf_init(&answer, ANSWER_MAX_BYTES);
    status = check_home(home, err);
    if (status == STATUS_OK)
        status = token_digest(request->token, digest, err);
    if (status == STATUS_OK)
        status =
            check_url(request->url, identity.host, sizeof(identity.host), err);
    if (status == STATUS_OK)
        status = check_profile(request->profile, &identity, err);
    if (status == STATUS_OK)
        status = talk(request, digest, &identity, &answer, err);
    if (status == STATUS_OK)
        status = blame_answer(
            take_answer(&answer, &identity, name, name_size, err), err);
    if (status == STATUS_OK)
        status = blame_answer(check_identity(&identity, err), err);
    if (status == STATUS_OK)
        status = identity_write(home, &identity, err);
    if (status == STATUS_OK)
        memcpy(node, identity.node, UUID_TEXT_BYTES);
    buf_clear(&answer);
    identity_clear(&identity);
    return status;
}
