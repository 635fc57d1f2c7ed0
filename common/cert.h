/* cert.h - random bytes, digests, keys and certificates, on OpenSSL 3.
 *
 * Keys are ECDSA P-256 (every TLS client has it).  Private keys are PEM text;
 * files that hold them are the caller's to write with mode 0600.  Errors carry
 * OpenSSL's reason.  Safe from any thread. */
#ifndef BERTH_COMMON_CERT_H
#define BERTH_COMMON_CERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/units.h"

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */
struct ssl_st;     /* OpenSSL's SSL */

enum {
    SHA256_BYTES = 32,
    SHA256_HEX_BYTES = 65, /* with the NUL */
    CERT_PEM_MAX_BYTES = 16384,
    UUID_TEXT_BYTES = 37, /* with the NUL */
    CONTENT_KEY_BYTES = 32,
};

/* Cryptographically strong bytes; aborts when the system has none. */
void cert_random(void *bytes, size_t size);
/* A UUIDv7 (RFC 9562): milliseconds of @now, then random bits; lower case. */
void uuid_make(struct instant now, char text[static UUID_TEXT_BYTES]);
/* Lower-case canonical UUID text? */
bool uuid_is_valid(const char *text);

void cert_sha256(const void *bytes, size_t size,
                 uint8_t digest[static SHA256_BYTES]);
void cert_hmac_sha256(const void *key, size_t key_size, const void *bytes,
                      size_t size, uint8_t digest[static SHA256_BYTES]);
/* Lower-case hex; @text holds 2 * size + 1 bytes. */
void cert_hex(const void *bytes, size_t size, char *text);
/* Overwrite a secret that is no longer needed; no compiler leaves it out. */
void cert_wipe(void *bytes, size_t size);
/* Constant-time comparison. */
bool cert_equal(const void *a, const void *b, size_t size);

/* SHA-256 over pieces, for files. */
struct sha256_stream;
struct sha256_stream *sha256_open(void);
void sha256_add(struct sha256_stream *stream, const void *bytes, size_t size);
/* Frees the stream. */
void sha256_finish(struct sha256_stream *stream,
                   uint8_t digest[static SHA256_BYTES]);

/* A self-signed CA (10 years, CA:TRUE, keyCertSign): PEM appended. */
MUST_CHECK enum status cert_ca_make(const char *name, struct buf *cert_pem,
                                    struct buf *key_pem, struct error *err);
/* A server certificate (serverAuth) for @names: DNS names or IP addresses. */
MUST_CHECK enum status cert_server_make(const char *ca_cert_pem,
                                        const char *ca_key_pem,
                                        const char *const *names,
                                        size_t name_count, int days,
                                        struct buf *cert_pem,
                                        struct buf *key_pem, struct error *err);
/* A key and a signing request for it (no names: the CA sets them). */
MUST_CHECK enum status cert_request_make(struct buf *request_pem,
                                         struct buf *key_pem,
                                         struct error *err);
/* Sign a node's request: clientAuth only, URI name berth:node:<node_id>. The
 * request's own names and extensions are ignored; its signature is checked. */
MUST_CHECK enum status cert_node_sign(const char *ca_cert_pem,
                                      const char *ca_key_pem,
                                      const char *request_pem,
                                      const char *node_id, int days,
                                      struct buf *cert_pem, struct error *err);
/* SHA-256 of a certificate's public key (SubjectPublicKeyInfo, DER). */
MUST_CHECK enum status cert_key_digest(const char *cert_pem,
                                       uint8_t digest[static SHA256_BYTES],
                                       struct error *err);
/* The first certificate of @pem alone, written anew: whatever else a text from
 * outside holds (a second certificate, say) is not in it. Appended. */
MUST_CHECK enum status cert_first(const char *pem, struct buf *only,
                                  struct error *err);
/* Seconds until the certificate ends (negative: over) and its whole life. */
MUST_CHECK enum status cert_life(const char *cert_pem, int64_t *left_s,
                                 int64_t *whole_s, struct error *err);

/* Did the CA sign the certificate?  STATUS_INVALID when not, whatever the time
 * is. */
MUST_CHECK enum status cert_check_issuer(const char *ca_cert_pem,
                                         const char *cert_pem,
                                         struct error *err);

/* TLS 1.3 contexts of the agent link. Both demand a peer certificate of the
 * CA with the right extended key usage (server: clientAuth; client:
 * serverAuth).  Freed with cert_tls_free. */
MUST_CHECK enum status cert_tls_server(const char *ca_cert_pem,
                                       const char *cert_pem,
                                       const char *key_pem,
                                       struct ssl_ctx_st **context,
                                       struct error *err);
MUST_CHECK enum status cert_tls_client(const char *ca_cert_pem,
                                       const char *cert_pem,
                                       const char *key_pem,
                                       struct ssl_ctx_st **context,
                                       struct error *err);
void cert_tls_free(struct ssl_ctx_st *context);
/* A client session that checks the server's name @host (DNS or address). */
MUST_CHECK enum status cert_tls_session(struct ssl_ctx_st *context,
                                        const char *host, struct ssl_st **ssl,
                                        struct error *err);
/* The node id in the peer's certificate of an established server session. */
MUST_CHECK enum status cert_peer_node(struct ssl_st *ssl,
                                      char id[static UUID_TEXT_BYTES],
                                      struct error *err);

/* AES-256-GCM with a random 12-byte nonce in front and the tag at the end.
 * @context is authenticated but not stored (e.g. the job id). */
void cert_seal(const uint8_t key[static CONTENT_KEY_BYTES], const char *context,
               const void *bytes, size_t size, struct buf *out);
MUST_CHECK enum status cert_unseal(const uint8_t key[static CONTENT_KEY_BYTES],
                                   const char *context, const void *bytes,
                                   size_t size, struct buf *out,
                                   struct error *err);

#endif
