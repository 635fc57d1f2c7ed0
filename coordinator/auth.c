/* auth.c - Bearer keys against the published view of identities. */
#include "coordinator/auth.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"

#include "common/banned.h"

enum { KEY_TEXT_MAX_BYTES = 256 };

static enum status
refuse(struct error *err, const char *what)
{
    (void)error_set(err, STATUS_UNKNOWN_CALLER,
                    "%s: send `Authorization: Bearer sk-berth-...` with a key "
                    "made by `berth keys add`",
                    what);
    return error_tag(err, "invalid_api_key", NULL);
}

/* The key's text within the header, NULL when it is no Bearer header. */
static const char *
bearer_text(const char *authorization)
{
    const char *text;

    if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    text = authorization + 7;
    while (*text == ' ')
        text++;
    return *text == '\0' ? NULL : text;
}

static void
scopes_name(uint32_t scopes, char *text, size_t size)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        {SCOPE_SUBMITTER, "submitter"},
        {SCOPE_OWNER, "owner"},
        {SCOPE_OPERATOR, "operator"},
    };

    text[0] = '\0';
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t at = strlen(text);

        if ((scopes & names[i].bit) != 0)
            snprintf(text + at, size - at, "%s%s", at == 0 ? "" : " or ",
                     names[i].name);
    }
}

static enum status
scopes_check(const struct key_view *key, uint32_t scopes, struct error *err)
{
    char names[64];

    if ((key->scopes & scopes) != 0)
        return STATUS_OK;
    scopes_name(scopes, names, sizeof(names));
    (void)error_set(err, STATUS_DENIED,
                    "this needs a key with the scope %s, and \"%s\" (%s...) "
                    "has it not: use another key, or ask an operator for one",
                    names, key->name, key->prefix);
    return error_tag(err, "scope_missing", NULL);
}

enum status
auth_check(const struct identity_view *view, const char *authorization,
           uint32_t scopes, struct instant now, struct key_view *key,
           struct error *err)
{
    const char *text = bearer_text(authorization);
    const struct key_view *found;
    uint8_t digest[SHA256_BYTES];
    enum status status;
    char at[32];

    if (text == NULL)
        return refuse(err, "no API key was given");
    if (strlen(text) > KEY_TEXT_MAX_BYTES)
        return refuse(err, "that is no API key of this network");
    cert_sha256(text, strlen(text), digest);
    found = identity_key(view, digest);
    if (found == NULL)
        return refuse(err, "this API key is unknown");
    if (found->revoked)
        return refuse(err, "this API key was revoked");
    if (found->expiring && found->expires.us <= now.us) {
        char what[64];

        snprintf(what, sizeof(what), "this API key expired at %s",
                 instant_text(found->expires, at, sizeof(at)));
        return refuse(err, what);
    }
    status = scopes_check(found, scopes, err);
    if (status == STATUS_OK)
        *key = *found;
    return status;
}
