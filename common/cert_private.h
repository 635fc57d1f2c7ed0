/* cert_private.h - what cert*.c share; for no one else. */
#ifndef BERTH_COMMON_CERT_PRIVATE_H
#define BERTH_COMMON_CERT_PRIVATE_H

#include <stdbool.h>

#include <openssl/types.h>

#include "common/error.h"

/* A node's URI name: this and its id. */
#define CERT_NODE_URI "berth:node:"

/* Abort on our own mistakes and a broken library, with OpenSSL's errors. */
void cert_must(bool is_good);
/* Report @what with OpenSSL's first reason, and forget the rest. */
enum status cert_failed(struct error *err, enum status status,
                        const char *what);
/* From PEM; NULL when it cannot be read.  The caller frees. */
X509 *cert_read(const char *pem);
EVP_PKEY *cert_read_key(const char *pem);
bool cert_is_dns_name(const char *name);

#endif
