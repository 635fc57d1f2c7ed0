/* http.c - one easy handle inside a multi handle, so that a wait can be
 * interrupted.  The connection is kept between requests. */
#include "cli/http.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "cli/interrupt.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/options.h"

#include "common/banned.h"

enum {
    CONNECT_TIMEOUT_MS = 10000,
    CALL_TIMEOUT_MS = 120000,
    POLL_MS = 250, /* the longest an interrupt goes unseen */
    REPEAT_AFTER_MS = 200,
    HEADER_MAX_BYTES = 1024,
    ADDRESS_MAX_BYTES = 8192,
};

struct cli_http {
    struct cli_config config;
    CURL *easy;
    CURLM *multi;
    char reason[CURL_ERROR_SIZE];
};

/* One request on its way. */
struct transfer {
    struct cli_http *http;
    struct buf *answer; /* the whole answer, or the text of a refusal */
    cli_http_sink *sink;
    void *arg;
    bool is_ended; /* by the sink */
    struct curl_slist *headers;
    struct buf address;
    const char *lacks; /* a header that could not be set; NULL: none */
};

enum status
cli_http_new(const struct cli_config *config, struct cli_http **http,
             struct error *err)
{
    struct cli_http *made;

    if (config->ca_file[0] != '\0' && access(config->ca_file, R_OK) != 0)
        return error_set(err, STATUS_INVALID,
                         "%.300s: cannot read the CA file; set BERTH_CA_FILE "
                         "or run `berth login URL --ca FILE`",
                         config->ca_file);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, STATUS_INTERNAL, "libcurl cannot start");
    made = mem_alloc(sizeof(*made));
    made->config = *config;
    made->easy = curl_easy_init();
    made->multi = curl_multi_init();
    *http = made;
    if (made->easy != NULL && made->multi != NULL)
        return STATUS_OK;
    cli_http_free(made);
    *http = NULL;
    return error_set(err, STATUS_INTERNAL, "libcurl cannot start");
}

void
cli_http_free(struct cli_http *http)
{
    if (http == NULL)
        return;
    curl_easy_cleanup(http->easy);
    curl_multi_cleanup(http->multi);
    free(http);
    curl_global_cleanup();
}

static size_t
on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    long number = 0;

    (void)curl_easy_getinfo(transfer->http->easy, CURLINFO_RESPONSE_CODE,
                            &number);
    if (transfer->sink != NULL && number < 300) {
        transfer->is_ended =
            !transfer->sink(transfer->arg, bytes, size * count);
        return transfer->is_ended ? 0 : size * count;
    }
    buf_append(transfer->answer, bytes, size * count);
    return transfer->answer->overflowed ? 0 : size * count;
}

static void
add_header(struct transfer *transfer, const char *name, const char *value)
{
    struct buf line;
    struct curl_slist *longer;

    if (value == NULL || value[0] == '\0')
        return;
    buf_init(&line, HEADER_MAX_BYTES);
    buf_printf(&line, "%s: %s", name, value);
    longer = line.overflowed ? NULL
                             : curl_slist_append(transfer->headers, line.data);
    if (longer != NULL)
        transfer->headers = longer;
    else /* without it the request would mean something else */
        transfer->lacks = name;
    buf_clear(&line);
}

static void
add_headers(struct transfer *transfer, const struct cli_request *request)
{
    struct buf bearer;

    buf_init(&bearer, HEADER_MAX_BYTES);
    buf_printf(&bearer, "Bearer %s", transfer->http->config.api_key);
    add_header(transfer, "Authorization", bearer.data);
    add_header(transfer, "Accept",
               transfer->sink != NULL ? "text/event-stream"
                                      : "application/json");
    if (request->body != NULL)
        add_header(transfer, "Content-Type", "application/json");
    add_header(transfer, "Idempotency-Key", request->idempotency_key);
    add_header(transfer, "Last-Event-ID", request->last_event_id);
    buf_clear(&bearer);
}

/* A list of setopt calls: which coordinator, and how it is trusted. */
static void
set_trust(struct cli_http *http)
{
    CURL *easy = http->easy;

    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
                           http->config.is_plain ? "http" : "https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (http->config.ca_file[0] != '\0') {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, http->config.ca_file);
        /* Else the system's folder would be trusted beside the file. */
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (http->config.is_plain) /* a proxy would see the key */
        (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
}

static bool
may_repeat(const struct cli_request *request)
{
    return strcmp(request->method, "GET") == 0 ||
           request->idempotency_key != NULL;
}

static void
set_request(struct transfer *transfer, const struct cli_request *request)
{
    struct cli_http *http = transfer->http;
    CURL *easy = http->easy;

    curl_easy_reset(easy);
    set_trust(http);
    buf_append_text(&transfer->address, http->config.url);
    buf_append_text(&transfer->address, request->path);
    add_headers(transfer, request);
    (void)curl_easy_setopt(easy, CURLOPT_URL, transfer->address.data);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "berth/" BERTH_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                           (long)CONNECT_TIMEOUT_MS);
    if (transfer->sink == NULL && !request->is_long)
        (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)CALL_TIMEOUT_MS);
    /* On a kept connection that proves dead libcurl sends again by itself. */
    if (!may_repeat(request))
        (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    if (request->body != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)request->body_size);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
    } else if (strcmp(request->method, "POST") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
    }
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->reason);
}

/* Run the transfer to its end or to an interrupt. */
static CURLcode
drive(struct cli_http *http)
{
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, left;
    struct CURLMsg *message;

    http->reason[0] = '\0';
    if (curl_multi_add_handle(http->multi, http->easy) != CURLM_OK)
        return CURLE_FAILED_INIT;
    while (!cli_interrupted()) {
        if (curl_multi_perform(http->multi, &running) != CURLM_OK)
            code = CURLE_FAILED_INIT;
        if (running == 0 || code == CURLE_FAILED_INIT)
            break;
        (void)curl_multi_poll(http->multi, NULL, 0, POLL_MS, NULL);
    }
    while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE)
            code = message->data.result;
    }
    (void)curl_multi_remove_handle(http->multi, http->easy);
    return code;
}

static enum status
explain(const struct transfer *transfer, CURLcode code, struct error *err)
{
    const struct cli_http *http = transfer->http;
    const char *reason =
        http->reason[0] != '\0' ? http->reason : curl_easy_strerror(code);

    if (cli_interrupted()) {
        (void)error_set(err, STATUS_RETRY, "interrupted");
        return error_tag(err, "interrupted", NULL);
    }
    if (transfer->answer != NULL && transfer->answer->overflowed)
        return error_set(err, STATUS_TOO_LARGE,
                         "the answer is larger than %zu bytes",
                         transfer->answer->max);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return error_set(err, STATUS_DENIED,
                         "%.200s: its certificate is not to be trusted (%s); "
                         "name the coordinator's CA file in BERTH_CA_FILE or "
                         "with `berth login URL --ca FILE`",
                         http->config.url, reason);
    if (code == CURLE_SSL_CACERT_BADFILE)
        return error_set(
            err, STATUS_INVALID,
            "%.300s: not a CA file (%s); name the coordinator's with "
            "BERTH_CA_FILE",
            http->config.ca_file, reason);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
        return error_set(err, STATUS_RETRY,
                         "cannot reach the coordinator at %.200s (%s); is the "
                         "address right and the coordinator running?",
                         http->config.url, reason);
    return error_set(err, STATUS_RETRY,
                     "the connection to %.200s failed (%s): try again",
                     http->config.url, reason);
}

/* Every status that has this HTTP number; by class for the others. */
static enum status
status_of(long number)
{
    for (int i = STATUS_INVALID; i <= STATUS_INTERNAL; i++) {
        if (status_http((enum status)i) == number)
            return (enum status)i;
    }
    if (number == 502 || number == 504)
        return STATUS_RETRY; /* a proxy in between */
    return number >= 500 ? STATUS_INTERNAL : STATUS_INVALID;
}

enum status
cli_http_refusal(long number, const char *body, size_t size, struct error *err)
{
    struct json_doc doc = {0};
    enum status status = status_of(number);
    const struct json *error = NULL;
    const char *message, *code;

    if (json_doc_parse(body, size, &doc, NULL) == STATUS_OK)
        error = json_get(doc.root, "error");
    message = json_as_text(json_get(error, "message"), NULL);
    code = json_as_text(json_get(error, "code"), NULL);
    if (message != NULL) {
        (void)error_set(err, status, "%s", message);
        (void)error_tag(err, code,
                        json_as_text(json_get(error, "param"), NULL));
    } else {
        (void)error_set(err, status,
                        "the coordinator answered HTTP %ld without a reason",
                        number);
    }
    json_doc_clear(&doc);
    return status;
}

static enum status
send_once(struct transfer *transfer, const struct cli_request *request,
          struct error *err)
{
    struct cli_http *http = transfer->http;
    struct buf refused;
    struct buf *wanted = transfer->answer;
    long number = 0;
    CURLcode code;
    enum status status = STATUS_OK;

    buf_init(&refused, CLI_HTTP_ANSWER_MAX_BYTES);
    if (wanted == NULL)
        transfer->answer = &refused;
    buf_init(&transfer->address, ADDRESS_MAX_BYTES);
    set_request(transfer, request);
    status = buf_status(&transfer->address, err);
    if (status == STATUS_OK && transfer->lacks != NULL)
        status = error_set(err, STATUS_INVALID,
                           "%s does not fit a header of %d bytes",
                           transfer->lacks, HEADER_MAX_BYTES);
    if (status != STATUS_OK)
        goto out;
    code = drive(http);
    (void)curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &number);
    if (code != CURLE_OK && !transfer->is_ended)
        status = explain(transfer, code, err);
    else if (number >= 300) /* no redirect is followed */
        status = cli_http_refusal(number, transfer->answer->data,
                                  transfer->answer->size, err);

out:
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    buf_clear(&transfer->address);
    transfer->answer = wanted;
    buf_clear(&refused);
    return status;
}

enum status
cli_http_call(struct cli_http *http, const struct cli_request *request,
              struct buf *answer, struct error *err)
{
    struct transfer transfer = {.http = http, .answer = answer};
    size_t before = answer->size;
    enum status status = send_once(&transfer, request, err);

    if (status == STATUS_RETRY && may_repeat(request) && !cli_interrupted()) {
        cli_pause(REPEAT_AFTER_MS);
        buf_truncate(answer, before);
        status = send_once(&transfer, request, err);
    }
    return status;
}

enum status
cli_http_stream(struct cli_http *http, const struct cli_request *request,
                cli_http_sink *sink, void *arg, struct error *err)
{
    struct transfer transfer = {.http = http, .sink = sink, .arg = arg};

    assert(sink != NULL);
    return send_once(&transfer, request, err);
}
