/* api_key.h - making API keys: 256 random bits, shown once, stored hashed. */
#ifndef BERTH_COORDINATOR_API_KEY_H
#define BERTH_COORDINATOR_API_KEY_H

#include "coordinator/snapshot.h"

/* "sk-berth-" and 64 hex digits, with the NUL. */
enum { API_KEY_SECRET_BYTES = 9 + 64 + 1 };

/* A fresh key of @account: @key as it is stored, @secret as it is shown. */
void api_key_make(int64_t account, const char *name, uint32_t scopes,
                  struct key_view *key,
                  char secret[static API_KEY_SECRET_BYTES]);

#endif
