/* common_cert_test.c - digests, ids, sealing, certificates and their
 * handshakes. */
#include "common/cert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/clock.h"

#include "common/banned.h"

static const char node_id[] = "0190b3c4-7a6b-7cde-8f01-23456789abcd";

static void
check_hex(const uint8_t digest[static SHA256_BYTES], const char *expected)
{
    char text[SHA256_HEX_BYTES];

    cert_hex(digest, SHA256_BYTES, text);
    assert_string_equal(text, expected);
}

/* FIPS 180-2, appendix B, and the digest of nothing. */
static void
sha256_is_as_published(void **state)
{
    static const char two[] =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    struct sha256_stream *stream = sha256_open();
    uint8_t digest[SHA256_BYTES];

    (void)state;
    cert_sha256("abc", 3, digest);
    check_hex(
        digest,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cert_sha256("", 0, digest);
    check_hex(
        digest,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_add(stream, two, 20);
    sha256_add(stream, two + 20, strlen(two) - 20);
    sha256_finish(stream, digest);
    check_hex(
        digest,
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* RFC 4231, test cases 1, 2 and 6. */
static void
hmac_is_as_published(void **state)
{
    uint8_t key[131], digest[SHA256_BYTES];
    static const char long_key[] =
        "Test Using Larger Than Block-Size Key - Hash Key First";

    (void)state;
    memset(key, 0x0b, 20);
    cert_hmac_sha256(key, 20, "Hi There", 8, digest);
    check_hex(
        digest,
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    cert_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest);
    check_hex(
        digest,
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    cert_hmac_sha256(key, sizeof(key), long_key, strlen(long_key), digest);
    check_hex(
        digest,
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* RFC 9562, appendix A.6: 0x017F22E279B0 ms is 2022-02-22 19:22:22 UTC. */
static void
uuids_are_version_7(void **state)
{
    char text[UUID_TEXT_BYTES], other[UUID_TEXT_BYTES];
    struct instant at = {INT64_C(1645557742000) * 1000 + 999};

    (void)state;
    for (int i = 0; i < 100; i++) {
        uuid_make(at, text);
        assert_true(uuid_is_valid(text));
        assert_memory_equal(text, "017f22e2-79b0-7", 15);
        assert_non_null(strchr("89ab", text[19]));
    }
    uuid_make(at, other);
    assert_string_not_equal(text, other);
}

static void
only_canonical_uuids_are_valid(void **state)
{
    static const char *const bad[] = {
        "",
        "0190b3c4-7a6b-7cde-8f01-23456789abc",
        "0190b3c4-7a6b-7cde-8f01-23456789abcde",
        "0190B3C4-7a6b-7cde-8f01-23456789abcd",
        "0190b3c4x7a6b-7cde-8f01-23456789abcd",
        "0190b3c47a6b-7cde-8f01-23456789abcd-",
        "{190b3c4-7a6b-7cde-8f01-23456789abcd",
    };

    (void)state;
    assert_true(uuid_is_valid(node_id));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(uuid_is_valid(bad[i]));
}

static void
sealed_bytes_open_only_unchanged(void **state)
{
    uint8_t key[CONTENT_KEY_BYTES], other[CONTENT_KEY_BYTES];
    struct buf sealed, plain;
    struct error err;

    (void)state;
    cert_random(key, sizeof(key));
    memcpy(other, key, sizeof(key));
    other[31] ^= 1;
    buf_init(&sealed, 1000);
    buf_init(&plain, 1000);
    cert_seal(key, "job-1", "a secret", 8, &sealed);
    assert_int_equal(sealed.size, 12 + 8 + 16);
    assert_int_equal(
        cert_unseal(key, "job-1", sealed.data, sealed.size, &plain, &err),
        STATUS_OK);
    assert_string_equal(plain.data, "a secret");
    buf_reset(&plain);
    for (size_t i = 0; i < sealed.size; i++) {
        sealed.data[i] = (char)(sealed.data[i] ^ 0x40);
        assert_int_equal(
            cert_unseal(key, "job-1", sealed.data, sealed.size, &plain, &err),
            STATUS_INVALID);
        sealed.data[i] = (char)(sealed.data[i] ^ 0x40);
    }
    for (size_t size = 0; size < sealed.size; size++)
        assert_int_equal(
            cert_unseal(key, "job-1", sealed.data, size, &plain, &err),
            STATUS_INVALID);
    assert_int_equal(
        cert_unseal(key, "job-2", sealed.data, sealed.size, &plain, &err),
        STATUS_INVALID);
    assert_int_equal(
        cert_unseal(other, "job-1", sealed.data, sealed.size, &plain, &err),
        STATUS_INVALID);
    assert_int_equal(plain.size, 0);
    buf_reset(&sealed);
    cert_seal(key, "", "", 0, &sealed);
    assert_int_equal(
        cert_unseal(key, "", sealed.data, sealed.size, &plain, &err),
        STATUS_OK);
    assert_int_equal(plain.size, 0);
    buf_clear(&sealed);
    buf_clear(&plain);
}

/* A network: its CA, its server and one node. */
struct network {
    struct buf ca_cert, ca_key, server_cert, server_key, request, node_cert,
        node_key;
};

static void
network_init(struct network *net)
{
    static const char *const names[] = {"berth.example", "127.0.0.1", "::1"};
    struct buf *bufs = &net->ca_cert;
    struct error err;

    for (size_t i = 0; i < sizeof(*net) / sizeof(struct buf); i++)
        buf_init(&bufs[i], CERT_PEM_MAX_BYTES);
    assert_int_equal(cert_ca_make("Test CA", &net->ca_cert, &net->ca_key, &err),
                     STATUS_OK);
    assert_int_equal(cert_server_make(net->ca_cert.data, net->ca_key.data,
                                      names, COUNT_OF(names), 90,
                                      &net->server_cert, &net->server_key,
                                      &err),
                     STATUS_OK);
    assert_int_equal(cert_request_make(&net->request, &net->node_key, &err),
                     STATUS_OK);
    assert_int_equal(cert_node_sign(net->ca_cert.data, net->ca_key.data,
                                    net->request.data, node_id, 90,
                                    &net->node_cert, &err),
                     STATUS_OK);
}

static void
network_clear(struct network *net)
{
    struct buf *bufs = &net->ca_cert;

    for (size_t i = 0; i < sizeof(*net) / sizeof(struct buf); i++)
        buf_clear(&bufs[i]);
}

/* Who shows what in a handshake. */
struct handshake {
    const char *server_ca, *server_cert, *server_key;
    const char *client_ca, *client_cert, *client_key;
    const char *host;
};

static struct handshake
handshake_of(const struct network *net)
{
    return (struct handshake){
        net->ca_cert.data, net->server_cert.data, net->server_key.data,
        net->ca_cert.data, net->node_cert.data,   net->node_key.data,
        "berth.example",
    };
}

static bool
is_over(SSL *ssl, int result)
{
    int reason = SSL_get_error(ssl, result);

    return reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE;
}

/* Run both ends in turn over a pair of BIOs; true when both are content. The
 * client's last step is a read, since in TLS 1.3 it hears of a refusal only
 * then. */
static bool
shake(SSL *server, SSL *client)
{
    int server_result = 0, client_result = 0;
    char byte = 0;

    for (int turn = 0; turn < 10; turn++) {
        client_result = SSL_do_handshake(client);
        if (client_result != 1 && is_over(client, client_result))
            return false;
        server_result = SSL_do_handshake(server);
        if (server_result != 1 && is_over(server, server_result))
            return false;
    }
    return server_result == 1 && client_result == 1 &&
           SSL_write(server, "x", 1) == 1 && SSL_read(client, &byte, 1) == 1 &&
           byte == 'x' && SSL_version(client) == TLS1_3_VERSION &&
           SSL_session_reused(client) == 0;
}

/* True when the handshake holds; @id is then the node the server saw. */
static bool
connects(const struct handshake *who, char id[static UUID_TEXT_BYTES])
{
    SSL_CTX *server_context = NULL, *client_context = NULL;
    SSL *server, *client = NULL;
    BIO *server_bio, *client_bio;
    struct error err;
    bool is_good;

    assert_int_equal(cert_tls_server(who->server_ca, who->server_cert,
                                     who->server_key, &server_context, &err),
                     STATUS_OK);
    assert_int_equal(cert_tls_client(who->client_ca, who->client_cert,
                                     who->client_key, &client_context, &err),
                     STATUS_OK);
    assert_int_equal(cert_tls_session(client_context, who->host, &client, &err),
                     STATUS_OK);
    server = SSL_new(server_context);
    SSL_set_accept_state(server);
    assert_int_equal(BIO_new_bio_pair(&server_bio, 0, &client_bio, 0), 1);
    SSL_set_bio(server, server_bio, server_bio);
    SSL_set_bio(client, client_bio, client_bio);
    is_good = shake(server, client);
    if (is_good)
        assert_int_equal(cert_peer_node(server, id, &err), STATUS_OK);
    SSL_free(server);
    SSL_free(client);
    cert_tls_free(server_context);
    cert_tls_free(client_context);
    return is_good;
}

static void
a_node_connects_and_is_known_by_its_id(void **state)
{
    char id[UUID_TEXT_BYTES] = "";
    struct handshake who;
    struct network net;

    (void)state;
    network_init(&net);
    who = handshake_of(&net);
    assert_true(connects(&who, id));
    assert_string_equal(id, node_id);
    who.host = "127.0.0.1";
    assert_true(connects(&who, id));
    who.host = "::1";
    assert_true(connects(&who, id));
    network_clear(&net);
}

static void
another_name_is_refused(void **state)
{
    static const char *const others[] = {"other.example", "127.0.0.2",
                                         "a.berth.example"};
    char id[UUID_TEXT_BYTES];
    struct handshake who;
    struct network net;

    (void)state;
    network_init(&net);
    who = handshake_of(&net);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        who.host = others[i];
        assert_false(connects(&who, id));
    }
    network_clear(&net);
}

static void
the_issuer_is_told_from_others(void **state)
{
    struct network net, other;
    struct handshake who, whose;
    struct error err;

    (void)state;
    network_init(&net);
    network_init(&other);
    who = handshake_of(&net);
    whose = handshake_of(&other);
    assert_int_equal(cert_check_issuer(who.client_ca, who.client_cert, &err),
                     STATUS_OK);
    assert_int_equal(cert_check_issuer(whose.client_ca, who.client_cert, &err),
                     STATUS_INVALID);
    assert_int_equal(cert_check_issuer(who.client_ca, "no PEM", &err),
                     STATUS_INVALID);
    network_clear(&other);
    network_clear(&net);
}

/* A stolen node certificate must not make a server, nor the other way. */
static void
the_wrong_role_is_refused(void **state)
{
    char id[UUID_TEXT_BYTES];
    struct handshake who;
    struct network net;

    (void)state;
    network_init(&net);
    who = handshake_of(&net);
    who.client_cert = net.server_cert.data;
    who.client_key = net.server_key.data;
    assert_false(connects(&who, id));
    who = handshake_of(&net);
    who.server_cert = net.node_cert.data;
    who.server_key = net.node_key.data;
    assert_false(connects(&who, id));
    /* The CA's own certificate plays neither role. */
    who = handshake_of(&net);
    who.client_cert = net.ca_cert.data;
    who.client_key = net.ca_key.data;
    assert_false(connects(&who, id));
    network_clear(&net);
}

static void
another_ca_is_refused(void **state)
{
    struct network net, other;
    char id[UUID_TEXT_BYTES];
    struct handshake who;

    (void)state;
    network_init(&net);
    network_init(&other);
    who = handshake_of(&net);
    who.client_cert = other.node_cert.data;
    who.client_key = other.node_key.data;
    assert_false(connects(&who, id));
    who = handshake_of(&net);
    who.server_cert = other.server_cert.data;
    who.server_key = other.server_key.data;
    assert_false(connects(&who, id));
    network_clear(&net);
    network_clear(&other);
}

static void
bad_parts_are_refused_with_a_reason(void **state)
{
    static const char *const bad_name[] = {"a b"};
    SSL_CTX *context = NULL;
    struct network net, other;
    struct error err;
    struct buf out;

    (void)state;
    network_init(&net);
    network_init(&other);
    buf_init(&out, CERT_PEM_MAX_BYTES);
    assert_int_equal(cert_tls_server(net.ca_cert.data, net.server_cert.data,
                                     net.node_key.data, &context, &err),
                     STATUS_INVALID);
    assert_null(context);
    assert_int_equal(
        cert_tls_server(net.ca_cert.data, "x", "y", &context, &err),
        STATUS_INVALID);
    assert_int_equal(cert_node_sign(net.ca_cert.data, other.ca_key.data,
                                    net.request.data, node_id, 90, &out, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "does not belong"));
    assert_int_equal(cert_node_sign(net.ca_cert.data, net.ca_key.data,
                                    net.request.data, "me", 90, &out, &err),
                     STATUS_INVALID);
    /* A byte near the end is inside the signature. */
    net.request.data[net.request.size - 60] =
        net.request.data[net.request.size - 60] == 'A' ? 'B' : 'A';
    assert_int_equal(cert_node_sign(net.ca_cert.data, net.ca_key.data,
                                    net.request.data, node_id, 90, &out, &err),
                     STATUS_INVALID);
    assert_int_equal(cert_server_make(net.ca_cert.data, net.ca_key.data,
                                      bad_name, 1, 90, &out, &out, &err),
                     STATUS_INVALID);
    assert_int_equal(out.size, 0);
    network_clear(&net);
    network_clear(&other);
}

static void
life_is_counted_from_the_shifted_clock(void **state)
{
    int64_t left, whole;
    struct network net;
    struct error err;

    (void)state;
    network_init(&net);
    assert_int_equal(cert_life(net.node_cert.data, &left, &whole, &err),
                     STATUS_OK);
    assert_int_equal(whole, (90 + 1) * 86400); /* begun a day early */
    assert_in_range(left, 90 * 86400 - 60, 90 * 86400);
    clock_shift_wall(span_s(91 * 86400));
    assert_int_equal(cert_life(net.node_cert.data, &left, &whole, &err),
                     STATUS_OK);
    assert_true(left < -86400 + 60);
    clock_shift_wall(span_s(-91 * 86400));
    assert_int_equal(cert_life("x", &left, &whole, &err), STATUS_INVALID);
    network_clear(&net);
}

/* The digest of SubjectPublicKeyInfo by way of OpenSSL's other encoder. */
static void
key_digest_is_of_the_public_key_info(void **state)
{
    uint8_t digest[SHA256_BYTES], expected[SHA256_BYTES];
    unsigned char *der = NULL;
    struct network net;
    struct error err;
    EVP_PKEY *key;
    X509 *cert;
    BIO *bio;
    int size;

    (void)state;
    network_init(&net);
    assert_int_equal(cert_key_digest(net.ca_cert.data, digest, &err),
                     STATUS_OK);
    bio = BIO_new_mem_buf(net.ca_cert.data, -1);
    cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    key = X509_get_pubkey(cert);
    size = i2d_PUBKEY(key, &der);
    cert_sha256(der, (size_t)size, expected);
    assert_memory_equal(digest, expected, sizeof(digest));
    OPENSSL_free(der);
    EVP_PKEY_free(key);
    X509_free(cert);
    BIO_free(bio);
    network_clear(&net);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_as_published),
        cmocka_unit_test(hmac_is_as_published),
        cmocka_unit_test(uuids_are_version_7),
        cmocka_unit_test(only_canonical_uuids_are_valid),
        cmocka_unit_test(sealed_bytes_open_only_unchanged),
        cmocka_unit_test(a_node_connects_and_is_known_by_its_id),
        cmocka_unit_test(another_name_is_refused),
        cmocka_unit_test(the_issuer_is_told_from_others),
        cmocka_unit_test(the_wrong_role_is_refused),
        cmocka_unit_test(another_ca_is_refused),
        cmocka_unit_test(bad_parts_are_refused_with_a_reason),
        cmocka_unit_test(life_is_counted_from_the_shifted_clock),
        cmocka_unit_test(key_digest_is_of_the_public_key_info),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
