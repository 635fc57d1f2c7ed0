/* cert_digest.c - the part of cert.h without certificates: random bytes, ids,
 * digests and sealing. */
#include "common/cert.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "common/cert_private.h"
#include "common/mem.h"

#include "common/banned.h"

enum { NONCE_BYTES = 12, TAG_BYTES = 16 };

/* --- random bytes, digests --- */

void
cert_random(void *bytes, size_t size)
{
    unsigned char *at = bytes;

    while (size > 0) {
        int piece = size < 65536 ? (int)size : 65536;

        cert_must(RAND_bytes(at, piece) == 1);
        at += piece;
        size -= (size_t)piece;
    }
}

void
uuid_make(struct instant now, char text[static UUID_TEXT_BYTES])
{
    static const size_t sizes[] = {4, 2, 2, 2, 6}; /* bytes between hyphens */
    uint64_t ms = (uint64_t)(now.us / 1000);
    uint8_t id[16];
    size_t at = 0;

    cert_random(id, sizeof(id));
    for (int i = 0; i < 6; i++)
        id[i] = (uint8_t)(ms >> (40 - 8 * i));
    id[6] = (uint8_t)(0x70 | (id[6] & 0x0f)); /* version 7 */
    id[8] = (uint8_t)(0x80 | (id[8] & 0x3f)); /* variant 10 */
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        cert_hex(id + at, sizes[i], text);
        at += sizes[i];
        text += 2 * sizes[i];
        *text++ = i + 1 < COUNT_OF(sizes) ? '-' : '\0';
    }
}

bool
uuid_is_valid(const char *text)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

    for (size_t i = 0; i + 1 < sizeof(shape); i++) {
        if (shape[i] == '-' ? text[i] != '-'
                            : text[i] == '\0' ||
                                  strchr("0123456789abcdef", text[i]) == NULL)
            return false;
    }
    return text[sizeof(shape) - 1] == '\0';
}

void
cert_sha256(const void *bytes, size_t size, uint8_t digest[static SHA256_BYTES])
{
    cert_must(EVP_Digest(bytes, size, digest, NULL, EVP_sha256(), NULL) == 1);
}

void
cert_hmac_sha256(const void *key, size_t key_size, const void *bytes,
                 size_t size, uint8_t digest[static SHA256_BYTES])
{
    size_t written;

    /* An empty key needs a pointer all the same. */
    cert_must(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL,
                        key_size > 0 ? key : "", key_size, bytes, size, digest,
                        SHA256_BYTES, &written) != NULL);
    assert(written == SHA256_BYTES);
}

void
cert_hex(const void *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *byte = bytes;

    for (size_t i = 0; i < size; i++) {
        *text++ = digits[byte[i] >> 4];
        *text++ = digits[byte[i] & 15];
    }
    *text = '\0';
}

void
cert_wipe(void *bytes, size_t size)
{
    OPENSSL_cleanse(bytes, size);
}

bool
cert_equal(const void *a, const void *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}

/* A struct sha256_stream is an EVP_MD_CTX under another name. */
static EVP_MD_CTX *
context_of(struct sha256_stream *stream)
{
    return (EVP_MD_CTX *)stream;
}

struct sha256_stream *
sha256_open(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    cert_must(context != NULL);
    cert_must(EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    return (struct sha256_stream *)context;
}

void
sha256_add(struct sha256_stream *stream, const void *bytes, size_t size)
{
    cert_must(EVP_DigestUpdate(context_of(stream), bytes, size) == 1);
}

void
sha256_finish(struct sha256_stream *stream, uint8_t digest[static SHA256_BYTES])
{
    cert_must(EVP_DigestFinal_ex(context_of(stream), digest, NULL) == 1);
    EVP_MD_CTX_free(context_of(stream));
}

/* --- sealing --- */

void
cert_seal(const uint8_t key[static CONTENT_KEY_BYTES], const char *context,
          const void *bytes, size_t size, struct buf *out)
{
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    uint8_t nonce[NONCE_BYTES], tag[TAG_BYTES];
    uint8_t *sealed = mem_alloc(size);
    int used;

    assert(size <= INT32_MAX);
    cert_must(cipher != NULL);
    cert_random(nonce, sizeof(nonce));
    cert_must(
        EVP_EncryptInit_ex2(cipher, EVP_aes_256_gcm(), key, nonce, NULL) == 1);
    cert_must(EVP_EncryptUpdate(cipher, NULL, &used, (const uint8_t *)context,
                                (int)strlen(context)) == 1);
    if (size > 0)
        cert_must(EVP_EncryptUpdate(cipher, sealed, &used, bytes, (int)size) ==
                  1);
    cert_must(EVP_EncryptFinal_ex(cipher, tag, &used) ==
              1); /* writes nothing */
    cert_must(EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES,
                                  tag) == 1);
    buf_append(out, nonce, sizeof(nonce));
    buf_append(out, sealed, size);
    buf_append(out, tag, sizeof(tag));
    free(sealed);
    EVP_CIPHER_CTX_free(cipher);
}

enum status
cert_unseal(const uint8_t key[static CONTENT_KEY_BYTES], const char *context,
            const void *bytes, size_t size, struct buf *out, struct error *err)
{
    const uint8_t *nonce = bytes;
    const uint8_t *body = nonce + NONCE_BYTES;
    size_t body_size = size - NONCE_BYTES - TAG_BYTES;
    EVP_CIPHER_CTX *cipher = NULL;
    enum status status = STATUS_OK;
    uint8_t tag[TAG_BYTES], *plain = NULL;
    int used;

    if (size < NONCE_BYTES + TAG_BYTES || size > INT32_MAX)
        return error_set(err, STATUS_INVALID, "sealed content has a bad size");
    cipher = EVP_CIPHER_CTX_new();
    cert_must(cipher != NULL);
    plain = mem_alloc(body_size);
    memcpy(tag, body + body_size, TAG_BYTES);
    cert_must(
        EVP_DecryptInit_ex2(cipher, EVP_aes_256_gcm(), key, nonce, NULL) == 1);
    cert_must(EVP_DecryptUpdate(cipher, NULL, &used, (const uint8_t *)context,
                                (int)strlen(context)) == 1);
    if (body_size > 0)
        cert_must(
            EVP_DecryptUpdate(cipher, plain, &used, body, (int)body_size) == 1);
    cert_must(EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES,
                                  tag) == 1);
    if (EVP_DecryptFinal_ex(cipher, tag, &used) != 1) {
        status = error_set(err, STATUS_INVALID,
                           "sealed content was changed or has another key");
        goto out;
    }
    buf_append(out, plain, body_size);

out:
    OPENSSL_cleanse(plain, body_size);
    free(plain);
    EVP_CIPHER_CTX_free(cipher);
    return status;
}
