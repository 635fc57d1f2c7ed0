/* cert.c - keys and certificates. Random bytes, digests and sealing are in
 * cert_digest.c, TLS in cert_tls.c. */
#include "common/cert.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/cert_private.h"
#include "common/clock.h"

#include "common/banned.h"

enum {
    SERIAL_BYTES = 16,
    CA_DAYS = 3650,
    COMMON_NAME_BYTES = 64, /* X.520's limit */
    DNS_NAME_BYTES = 253,
    S_PER_DAY = 86400,
    /* Certificates begin a day early, for clocks that are behind. */
    EARLY_S = S_PER_DAY,
};

/* Our own mistakes and a broken library: nothing sensible can follow. */
void
cert_must(bool is_good)
{
    if (is_good)
        return;
    ERR_print_errors_fp(stderr);
    abort();
}

/* Report OpenSSL's first reason, the most telling, and forget the rest. */
enum status
cert_failed(struct error *err, enum status status, const char *what)
{
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

    ERR_clear_error();
    return error_set(err, status, "%s%s%s", what, reason != NULL ? ": " : "",
                     reason != NULL ? reason : "");
}

/* --- PEM --- */

/* A memory BIO that reads @pem; NULL when it is too long. */
static BIO *
pem_reader(const char *pem)
{
    size_t size = strlen(pem);

    if (size > CERT_PEM_MAX_BYTES * 8)
        return NULL;
    return BIO_new_mem_buf(pem, (int)size);
}

X509 *
cert_read(const char *pem)
{
    BIO *bio = pem_reader(pem);
    X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return cert;
}

/* An encrypted key is refused instead of asking the terminal for its word. */
static int
no_passphrase(char *text, int size, int is_writing, void *arg)
{
    (void)text;
    (void)size;
    (void)is_writing;
    (void)arg;
    return -1;
}

EVP_PKEY *
cert_read_key(const char *pem)
{
    BIO *bio = pem_reader(pem);
    EVP_PKEY *key =
        bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL)
                    : NULL;

    BIO_free(bio);
    return key;
}

static X509_REQ *
read_request(const char *pem)
{
    BIO *bio = pem_reader(pem);
    X509_REQ *request =
        bio != NULL ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return request;
}

static void
append_bio(BIO *bio, struct buf *out)
{
    char *text;
    long size = BIO_get_mem_data(bio, &text);

    cert_must(size > 0);
    buf_append(out, text, (size_t)size);
    BIO_free(bio);
}

static BIO *
pem_writer(void)
{
    BIO *bio = BIO_new(BIO_s_mem());

    cert_must(bio != NULL);
    return bio;
}

static void
append_cert(X509 *cert, struct buf *out)
{
    BIO *bio = pem_writer();

    cert_must(PEM_write_bio_X509(bio, cert) == 1);
    append_bio(bio, out);
}

static void
append_key(EVP_PKEY *key, struct buf *out)
{
    BIO *bio = pem_writer();

    cert_must(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) ==
              1);
    append_bio(bio, out);
}

/* --- parts of a certificate --- */

static EVP_PKEY *
make_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    cert_must(key != NULL);
    return key;
}

static void
set_serial(X509 *cert)
{
    uint8_t bytes[SERIAL_BYTES];
    BIGNUM *number;

    cert_random(bytes, sizeof(bytes));
    bytes[0] = (uint8_t)(0x40 | (bytes[0] & 0x3f)); /* positive, full size */
    number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    cert_must(number != NULL);
    cert_must(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL);
    BN_free(number);
}

static void
set_life(X509 *cert, int days)
{
    time_t now = (time_t)instant_unix_s(clock_wall());

    cert_must(X509_time_adj_ex(X509_getm_notBefore(cert), 0, -EARLY_S, &now) !=
              NULL);
    cert_must(X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, &now) !=
              NULL);
}

/* Common names only; longer ones are cut to what the field may hold. */
static void
set_name(X509_NAME *name, const char *text)
{
    size_t size = strlen(text);

    cert_must(X509_NAME_add_entry_by_txt(
                  name, "CN", MBSTRING_UTF8, (const unsigned char *)text,
                  (int)(size < COMMON_NAME_BYTES ? size : COMMON_NAME_BYTES),
                  -1, 0) == 1);
}

/* An extension in OpenSSL's text form; @value is always a constant. */
static void
add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509_EXTENSION *extension;
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    cert_must(extension != NULL);
    cert_must(X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* A certificate of @key for @issuer (NULL: itself) to sign. */
static X509 *
make_cert(EVP_PKEY *key, X509 *issuer, const char *name, int days)
{
    X509 *cert = X509_new();

    cert_must(cert != NULL);
    cert_must(X509_set_version(cert, X509_VERSION_3) == 1);
    set_serial(cert);
    set_life(cert, days);
    set_name(X509_get_subject_name(cert), name);
    cert_must(
        X509_set_issuer_name(
            cert, X509_get_subject_name(issuer != NULL ? issuer : cert)) == 1);
    cert_must(X509_set_pubkey(cert, key) == 1);
    add_extension(cert, issuer != NULL ? issuer : cert,
                  NID_subject_key_identifier, "hash");
    return cert;
}

/* What all but the CA's own carry, names excepted. */
static void
add_leaf_extensions(X509 *cert, X509 *issuer, const char *usage)
{
    add_extension(cert, issuer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(cert, issuer, NID_key_usage, "critical,digitalSignature");
    add_extension(cert, issuer, NID_ext_key_usage, usage);
    add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
}

/* The CA's certificate and the key that belongs to it. */
static enum status
read_ca(const char *cert_pem, const char *key_pem, X509 **cert, EVP_PKEY **key,
        struct error *err)
{
    *cert = cert_read(cert_pem);
    *key = cert_read_key(key_pem);
    if (*cert == NULL)
        return cert_failed(err, STATUS_INVALID,
                           "CA certificate is not readable");
    if (*key == NULL)
        return cert_failed(err, STATUS_INVALID, "CA key is not readable");
    if (X509_check_private_key(*cert, *key) != 1)
        return cert_failed(err, STATUS_INVALID,
                           "CA key does not belong to the CA certificate");
    return STATUS_OK;
}

/* --- making certificates --- */

enum status
cert_ca_make(const char *name, struct buf *cert_pem, struct buf *key_pem,
             struct error *err)
{
    EVP_PKEY *key;
    X509 *cert;

    if (name[0] == '\0' || strlen(name) > COMMON_NAME_BYTES)
        return error_set(err, STATUS_INVALID, "CA name must have 1 to %d bytes",
                         COMMON_NAME_BYTES);
    key = make_key();
    cert = make_cert(key, NULL, name, CA_DAYS);
    add_extension(cert, cert, NID_basic_constraints,
                  "critical,CA:TRUE,pathlen:0");
    add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    cert_must(X509_sign(cert, key, EVP_sha256()) > 0);
    append_cert(cert, cert_pem);
    append_key(key, key_pem);
    X509_free(cert);
    EVP_PKEY_free(key);
    return STATUS_OK;
}

bool
cert_is_dns_name(const char *name)
{
    size_t size = strlen(name);

    return size >= 1 && size <= DNS_NAME_BYTES && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789-.") == size;
}

/* Add a name of @type to @names; @text is copied. */
static void
add_name(GENERAL_NAMES *names, int type, const char *text)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = ASN1_IA5STRING_new();

    cert_must(name != NULL && value != NULL);
    cert_must(ASN1_STRING_set(value, text, -1) == 1);
    GENERAL_NAME_set0_value(name, type, value);
    cert_must(sk_GENERAL_NAME_push(names, name) > 0);
}

static void
add_address(GENERAL_NAMES *names, ASN1_OCTET_STRING *address)
{
    GENERAL_NAME *name = GENERAL_NAME_new();

    cert_must(name != NULL);
    GENERAL_NAME_set0_value(name, GEN_IPADD, address); /* taken */
    cert_must(sk_GENERAL_NAME_push(names, name) > 0);
}

static enum status
add_server_name(GENERAL_NAMES *names, const char *text, struct error *err)
{
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(text);

    ERR_clear_error();
    if (address != NULL)
        add_address(names, address);
    else if (cert_is_dns_name(text))
        add_name(names, GEN_DNS, text);
    else
        return error_set(err, STATUS_INVALID,
                         "\"%.64s\" is neither a DNS name nor an address",
                         text);
    return STATUS_OK;
}

static GENERAL_NAMES *
new_names(void)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();

    cert_must(names != NULL);
    return names;
}

static void
set_alternative_names(X509 *cert, GENERAL_NAMES *names)
{
    cert_must(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) == 1);
}

enum status
cert_server_make(const char *ca_cert_pem, const char *ca_key_pem,
                 const char *const *names, size_t name_count, int days,
                 struct buf *cert_pem, struct buf *key_pem, struct error *err)
{
    GENERAL_NAMES *alternative = new_names();
    EVP_PKEY *ca_key = NULL, *key = NULL;
    X509 *ca = NULL, *cert = NULL;
    enum status status = read_ca(ca_cert_pem, ca_key_pem, &ca, &ca_key, err);

    if (status == STATUS_OK && name_count == 0)
        status =
            error_set(err, STATUS_INVALID, "a server certificate needs a name");
    for (size_t i = 0; i < name_count && status == STATUS_OK; i++)
        status = add_server_name(alternative, names[i], err);
    if (status != STATUS_OK)
        goto out;
    key = make_key();
    cert = make_cert(key, ca, "berth coordinator", days);
    add_leaf_extensions(cert, ca, "serverAuth");
    set_alternative_names(cert, alternative);
    cert_must(X509_sign(cert, ca_key, EVP_sha256()) > 0);
    append_cert(cert, cert_pem);
    append_key(key, key_pem);

out:
    GENERAL_NAMES_free(alternative);
    X509_free(cert);
    X509_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    return status;
}

enum status
cert_request_make(struct buf *request_pem, struct buf *key_pem,
                  struct error *err)
{
    EVP_PKEY *key = make_key();
    X509_REQ *request = X509_REQ_new();
    BIO *bio = pem_writer();

    (void)err;
    cert_must(request != NULL);
    cert_must(X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1);
    cert_must(X509_REQ_set_pubkey(request, key) == 1);
    cert_must(X509_REQ_sign(request, key, EVP_sha256()) > 0);
    cert_must(PEM_write_bio_X509_REQ(bio, request) == 1);
    append_bio(bio, request_pem);
    append_key(key, key_pem);
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    return STATUS_OK;
}

static bool
is_p256(EVP_PKEY *key)
{
    char group[32];

    return EVP_PKEY_is_a(key, "EC") == 1 &&
           EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
           strcmp(group, SN_X9_62_prime256v1) == 0;
}

/* The request's key, once its owner has shown to have the private half. */
static enum status
read_request_key(const char *request_pem, EVP_PKEY **key, struct error *err)
{
    X509_REQ *request = read_request(request_pem);
    enum status status = STATUS_OK;

    if (request == NULL)
        return cert_failed(err, STATUS_INVALID,
                           "signing request is not readable");
    *key = X509_REQ_get_pubkey(request);
    if (*key == NULL || !is_p256(*key))
        status = cert_failed(err, STATUS_INVALID,
                             "signing request must have an ECDSA P-256 key");
    else if (X509_REQ_verify(request, *key) != 1)
        status = cert_failed(err, STATUS_INVALID,
                             "signing request is not signed by its own key");
    X509_REQ_free(request);
    return status;
}

enum status
cert_node_sign(const char *ca_cert_pem, const char *ca_key_pem,
               const char *request_pem, const char *node_id, int days,
               struct buf *cert_pem, struct error *err)
{
    char uri[sizeof(CERT_NODE_URI) + UUID_TEXT_BYTES];
    GENERAL_NAMES *names = new_names();
    EVP_PKEY *ca_key = NULL, *key = NULL;
    X509 *ca = NULL, *cert = NULL;
    enum status status = read_ca(ca_cert_pem, ca_key_pem, &ca, &ca_key, err);

    if (status == STATUS_OK && !uuid_is_valid(node_id))
        status = error_set(err, STATUS_INVALID, "node id must be a UUID");
    if (status == STATUS_OK)
        status = read_request_key(request_pem, &key, err);
    if (status != STATUS_OK)
        goto out;
    (void)snprintf(uri, sizeof(uri), "%s%s", CERT_NODE_URI, node_id);
    cert = make_cert(key, ca, node_id, days);
    add_leaf_extensions(cert, ca, "clientAuth");
    add_name(names, GEN_URI, uri);
    set_alternative_names(cert, names);
    cert_must(X509_sign(cert, ca_key, EVP_sha256()) > 0);
    append_cert(cert, cert_pem);

out:
    GENERAL_NAMES_free(names);
    X509_free(cert);
    X509_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    return status;
}

/* --- reading certificates --- */

enum status
cert_key_digest(const char *cert_pem, uint8_t digest[static SHA256_BYTES],
                struct error *err)
{
    X509 *cert = cert_read(cert_pem);
    unsigned char *der = NULL;
    int size;

    if (cert == NULL)
        return cert_failed(err, STATUS_INVALID, "certificate is not readable");
    size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der);
    cert_must(size > 0);
    cert_sha256(der, (size_t)size, digest);
    OPENSSL_free(der);
    X509_free(cert);
    return STATUS_OK;
}

enum status
cert_first(const char *pem, struct buf *only, struct error *err)
{
    X509 *cert = cert_read(pem);

    if (cert == NULL)
        return cert_failed(err, STATUS_INVALID, "certificate is not readable");
    append_cert(cert, only);
    X509_free(cert);
    return STATUS_OK;
}

/* Seconds from @from to @until; false when one of them makes no sense. */
static bool
seconds_between(const ASN1_TIME *from, const ASN1_TIME *until, int64_t *s)
{
    int days, rest;

    if (ASN1_TIME_diff(&days, &rest, from, until) != 1)
        return false;
    *s = (int64_t)days * S_PER_DAY + rest;
    return true;
}

enum status
cert_life(const char *cert_pem, int64_t *left_s, int64_t *whole_s,
          struct error *err)
{
    time_t wall = (time_t)instant_unix_s(clock_wall());
    ASN1_TIME *now = ASN1_TIME_set(NULL, wall);
    X509 *cert = cert_read(cert_pem);
    enum status status = STATUS_OK;
    int64_t left = 0, whole = 0;

    cert_must(now != NULL);
    if (cert == NULL)
        status =
            cert_failed(err, STATUS_INVALID, "certificate is not readable");
    else if (!seconds_between(now, X509_get0_notAfter(cert), &left) ||
             !seconds_between(X509_get0_notBefore(cert),
                              X509_get0_notAfter(cert), &whole))
        status = cert_failed(err, STATUS_INVALID, "certificate has bad times");
    if (status == STATUS_OK) {
        *left_s = left;
        *whole_s = whole;
    }
    ASN1_TIME_free(now);
    X509_free(cert);
    return status;
}
