/* cert_tls.c - TLS contexts of the agent link and the names in them. */
#include "common/cert.h"

#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/cert_private.h"

#include "common/banned.h"

/* OpenSSL lets a certificate without any extended key usage play both roles;
 * here the role must be named. */
static int
check_role(X509_STORE_CTX *store, uint32_t wanted)
{
    X509 *cert = X509_STORE_CTX_get_current_cert(store);
    uint32_t usage;

    if (X509_STORE_CTX_get_error_depth(store) > 0)
        return 1;
    usage = X509_get_extended_key_usage(cert);
    if (usage != UINT32_MAX && (usage & wanted) != 0)
        return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_INVALID_PURPOSE);
    return 0;
}

static int
on_verify_client(int is_good, X509_STORE_CTX *store)
{
    return is_good != 0 ? check_role(store, XKU_SSL_CLIENT) : 0;
}

static int
on_verify_server(int is_good, X509_STORE_CTX *store)
{
    return is_good != 0 ? check_role(store, XKU_SSL_SERVER) : 0;
}

/* Trust this CA alone, and show this certificate. */
static enum status
load_identity(SSL_CTX *context, const char *ca_cert_pem, const char *cert_pem,
              const char *key_pem, struct error *err)
{
    X509 *ca = cert_read(ca_cert_pem), *cert = cert_read(cert_pem);
    EVP_PKEY *key = cert_read_key(key_pem);
    enum status status = STATUS_OK;

    if (ca == NULL)
        status =
            cert_failed(err, STATUS_INVALID, "CA certificate is not readable");
    else if (cert == NULL)
        status =
            cert_failed(err, STATUS_INVALID, "certificate is not readable");
    else if (key == NULL)
        status = cert_failed(err, STATUS_INVALID, "key is not readable");
    else if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca) != 1 ||
             SSL_CTX_add_client_CA(context, ca) != 1 ||
             SSL_CTX_use_certificate(context, cert) != 1 ||
             SSL_CTX_use_PrivateKey(context, key) != 1 ||
             SSL_CTX_check_private_key(context) != 1)
        status = cert_failed(err, STATUS_INVALID, "certificate and key");
    EVP_PKEY_free(key);
    X509_free(cert);
    X509_free(ca);
    return status;
}

static enum status
make_context(const SSL_METHOD *method, SSL_verify_cb on_verify,
             const char *ca_cert_pem, const char *cert_pem, const char *key_pem,
             struct ssl_ctx_st **context, struct error *err)
{
    SSL_CTX *made = SSL_CTX_new(method);
    enum status status;

    cert_must(made != NULL);
    cert_must(SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) == 1);
    cert_must(SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) == 1);
    /* Each connection proves itself anew: revocation acts on connecting. */
    cert_must(SSL_CTX_set_num_tickets(made, 0) == 1);
    (void)SSL_CTX_set_options(made, SSL_OP_NO_TICKET);
    (void)SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                     SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       on_verify);
    SSL_CTX_set_verify_depth(made, 0); /* no CA between ours and the peer */
    status = load_identity(made, ca_cert_pem, cert_pem, key_pem, err);
    if (status == STATUS_OK)
        *context = made;
    else
        SSL_CTX_free(made);
    return status;
}

enum status
cert_check_issuer(const char *ca_cert_pem, const char *cert_pem,
                  struct error *err)
{
    X509 *ca = cert_read(ca_cert_pem), *cert = cert_read(cert_pem);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    enum status status = STATUS_OK;

    cert_must(store != NULL && check != NULL);
    if (ca == NULL || cert == NULL) {
        status =
            cert_failed(err, STATUS_INVALID, "certificate is not readable");
        goto out;
    }
    cert_must(X509_STORE_add_cert(store, ca) == 1);
    cert_must(X509_STORE_set_flags(store, X509_V_FLAG_NO_CHECK_TIME) == 1);
    cert_must(X509_STORE_CTX_init(check, store, cert, NULL) == 1);
    if (X509_verify_cert(check) != 1)
        status = cert_failed(err, STATUS_INVALID,
                             "certificate is not one of this CA");
out:
    X509_STORE_CTX_free(check);
    X509_STORE_free(store);
    X509_free(cert);
    X509_free(ca);
    return status;
}

enum status
cert_tls_server(const char *ca_cert_pem, const char *cert_pem,
                const char *key_pem, struct ssl_ctx_st **context,
                struct error *err)
{
    return make_context(TLS_server_method(), on_verify_client, ca_cert_pem,
                        cert_pem, key_pem, context, err);
}

enum status
cert_tls_client(const char *ca_cert_pem, const char *cert_pem,
                const char *key_pem, struct ssl_ctx_st **context,
                struct error *err)
{
    return make_context(TLS_client_method(), on_verify_server, ca_cert_pem,
                        cert_pem, key_pem, context, err);
}

void
cert_tls_free(struct ssl_ctx_st *context)
{
    SSL_CTX_free(context);
}

/* OpenSSL's macro for this casts const away. */
static bool
set_server_name(SSL *ssl, const char *host)
{
    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                    TLSEXT_NAMETYPE_host_name, (void *)(uintptr_t)host) == 1;
}

/* Demand that the peer's certificate is for @host. */
static bool
expect_host(SSL *ssl, const char *host)
{
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
    bool is_address = address != NULL;

    ASN1_OCTET_STRING_free(address);
    ERR_clear_error();
    if (is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return cert_is_dns_name(host) && SSL_set1_host(ssl, host) == 1 &&
           set_server_name(ssl, host);
}

enum status
cert_tls_session(struct ssl_ctx_st *context, const char *host,
                 struct ssl_st **ssl, struct error *err)
{
    SSL *made = SSL_new(context);

    cert_must(made != NULL);
    if (!expect_host(made, host)) {
        SSL_free(made);
        return cert_failed(err, STATUS_INVALID,
                           "host is neither a DNS name nor an address");
    }
    SSL_set_connect_state(made);
    *ssl = made;
    return STATUS_OK;
}

/* The id in a name of the node form; its size is checked first, since the
 * string may hold a NUL. */
static bool
node_of_name(const GENERAL_NAME *name, char id[static UUID_TEXT_BYTES])
{
    const ASN1_STRING *value;
    size_t prefix = strlen(CERT_NODE_URI);
    const char *text;

    if (name->type != GEN_URI)
        return false;
    value = name->d.uniformResourceIdentifier;
    text = (const char *)ASN1_STRING_get0_data(value);
    if ((size_t)ASN1_STRING_length(value) != prefix + UUID_TEXT_BYTES - 1 ||
        memcmp(text, CERT_NODE_URI, prefix) != 0)
        return false;
    memcpy(id, text + prefix, UUID_TEXT_BYTES - 1);
    id[UUID_TEXT_BYTES - 1] = '\0';
    return uuid_is_valid(id);
}

enum status
cert_peer_node(struct ssl_st *ssl, char id[static UUID_TEXT_BYTES],
               struct error *err)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);
    GENERAL_NAMES *names;
    char found[UUID_TEXT_BYTES];
    bool is_node;

    if (cert == NULL)
        return error_set(err, STATUS_UNKNOWN_CALLER,
                         "the peer has shown no certificate");
    names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    is_node = names != NULL && sk_GENERAL_NAME_num(names) == 1 &&
              node_of_name(sk_GENERAL_NAME_value(names, 0), found);
    GENERAL_NAMES_free(names);
    if (!is_node)
        return error_set(err, STATUS_UNKNOWN_CALLER,
                         "the peer's certificate names no node");
    memcpy(id, found, sizeof(found));
    return STATUS_OK;
}
