/* url.c - addresses, escaped. */
#include "cli/url.h"

#include <string.h>

#include <curl/curl.h>

#include "common/banned.h"

static bool
is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           strcmp(host, "127.0.0.1") == 0;
}

/* The parts decide; @url is for the message. */
static enum status
check_parts(const char *url, const char *scheme, const char *host,
            bool *is_plain, struct error *err)
{
    if (strcmp(scheme, "https") == 0) {
        *is_plain = false;
        return STATUS_OK;
    }
    if (strcmp(scheme, "http") != 0)
        return error_set(err, STATUS_INVALID,
                         "%.200s: the address must begin with https://", url);
    if (!is_loopback(host))
        return error_set(err, STATUS_INVALID,
                         "%.200s: plain http is for 127.0.0.1, [::1] and "
                         "localhost only; use https://",
                         url);
    *is_plain = true;
    return STATUS_OK;
}

enum status
cli_url_check(const char *text, char *url, size_t url_size, bool *is_plain,
              struct error *err)
{
    enum status status;
    size_t size = strlen(text);
    CURLU *parsed = NULL;
    char *scheme = NULL, *host = NULL, *query = NULL, *user = NULL;

    while (size > 0 && text[size - 1] == '/')
        size--;
    if (size == 0 || size >= url_size)
        return error_set(err, STATUS_INVALID,
                         "the address must have 1 to %zu characters, like "
                         "https://coordinator.example:8443",
                         url_size - 1);
    parsed = curl_url();
    if (parsed == NULL || curl_url_set(parsed, CURLUPART_URL, text, 0) != 0 ||
        curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) != 0 ||
        curl_url_get(parsed, CURLUPART_HOST, &host, 0) != 0) {
        status = error_set(err, STATUS_INVALID,
                           "%.200s: not an address; write it like "
                           "https://coordinator.example:8443",
                           text);
        goto out;
    }
    (void)curl_url_get(parsed, CURLUPART_QUERY, &query, 0);
    (void)curl_url_get(parsed, CURLUPART_USER, &user, 0);
    if (query != NULL || user != NULL) {
        status = error_set(err, STATUS_INVALID,
                           "the address may have no user and no query; the "
                           "key is given apart");
        goto out;
    }
    status = check_parts(text, scheme, host, is_plain, err);
    if (status == STATUS_OK) {
        memcpy(url, text, size);
        url[size] = '\0';
    }

out:
    curl_free(user);
    curl_free(query);
    curl_free(host);
    curl_free(scheme);
    curl_url_cleanup(parsed);
    return status;
}

static bool
is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

void
cli_url_escape(struct buf *buf, const char *text, bool slashes)
{
    for (; *text != '\0'; text++) {
        if (is_unreserved(*text) || (slashes && *text == '/'))
            buf_append_char(buf, *text);
        else
            buf_printf(buf, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

void
cli_url_query(struct buf *buf, const char *name, const char *value)
{
    if (value == NULL)
        return;
    buf_append_char(buf, strchr(buf->data, '?') == NULL ? '?' : '&');
    buf_append_text(buf, name);
    buf_append_char(buf, '=');
    cli_url_escape(buf, value, false);
}
