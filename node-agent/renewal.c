/* renewal.c - when to ask for a certificate, and what to do with it. */
#include "node-agent/renewal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"

#include "common/banned.h"

void
renewal_init(struct renewal *renewal, const struct home *home)
{
    renewal->home = home;
    buf_init(&renewal->key, CERT_PEM_MAX_BYTES);
}

void
renewal_clear(struct renewal *renewal)
{
    buf_clear(&renewal->key);
}

static bool
is_due(const struct home *home)
{
    struct identity identity;
    struct error err = {0};
    int64_t left = 0;
    int64_t whole = 0;
    enum status status = identity_read(home, &identity, &err);

    if (status == STATUS_OK) {
        status = cert_life(identity.cert.data, &left, &whole, &err);
        identity_clear(&identity);
    }
    if (status != STATUS_OK) {
        log_error("renewal.check", "reason=%s", LOG_QUOTED(err.text));
        return false;
    }
    return left < whole / 3;
}

bool
renewal_is_due(struct renewal *renewal, struct wire_renew *renew)
{
    struct error err = {0};
    struct buf request;
    bool is_made = false;

    if (!is_due(renewal->home))
        return false;
    buf_reset(&renewal->key); /* an unanswered request is forgotten */
    buf_init(&request, CERT_PEM_MAX_BYTES - 1);
    if (cert_request_make(&request, &renewal->key, &err) != STATUS_OK) {
        log_error("renewal.request", "reason=%s", LOG_QUOTED(err.text));
        buf_reset(&renewal->key);
    } else {
        snprintf(renew->request, sizeof(renew->request), "%s", request.data);
        is_made = true;
    }
    buf_clear(&request);
    return is_made;
}

void
renewal_take(struct renewal *renewal, const struct wire_renewed *renewed)
{
    struct ssl_ctx_st *context = NULL;
    struct identity identity;
    struct error err = {0};
    struct buf cert;
    enum status status;

    if (renewal->key.size == 0)
        return; /* nothing was asked */
    buf_init(&cert, CERT_PEM_MAX_BYTES);
    buf_append_text(&cert, renewed->certificate);
    status = identity_read(renewal->home, &identity, &err);
    if (status == STATUS_OK) {
        status = cert_tls_client(identity.ca.data, cert.data, renewal->key.data,
                                 &context, &err);
        if (status == STATUS_OK) {
            cert_tls_free(context);
            status = cert_check_issuer(identity.ca.data, cert.data, &err);
        }
        identity_clear(&identity);
    }
    if (status == STATUS_OK) {
        status = identity_renew(renewal->home, &cert, &renewal->key, &err);
    }
    if (status == STATUS_OK)
        log_info("renewal.done", "bytes=%zu", cert.size);
    else
        log_error("renewal.failed", "reason=%s", LOG_QUOTED(err.text));
    buf_reset(&renewal->key);
    buf_clear(&cert);
}
