/* api_key.c - a key and its digest. */
#include "coordinator/api_key.h"

#include <stdio.h>
#include <string.h>

#include "common/cert.h"
#include "common/clock.h"

#include "common/banned.h"

enum { PREFIX_SHOWN = 17 }; /* "sk-berth-" and 8 digits */

void
api_key_make(int64_t account, const char *name, uint32_t scopes,
             struct key_view *key, char secret[static API_KEY_SECRET_BYTES])
{
    uint8_t bits[32];

    cert_random(bits, sizeof(bits));
    memcpy(secret, "sk-berth-", 9);
    cert_hex(bits, sizeof(bits), secret + 9);
    *key = (struct key_view){
        .account = account,
        .scopes = scopes,
        .created = clock_wall(),
    };
    uuid_make(key->created, key->id);
    cert_sha256(secret, strlen(secret), key->digest);
    snprintf(key->prefix, sizeof(key->prefix), "%.*s", PREFIX_SHOWN, secret);
    snprintf(key->name, sizeof(key->name), "%s", name);
}
