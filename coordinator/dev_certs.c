/* dev_certs.c - a CA of one's own, and one server certificate by it.
 *
 * Of a pair the key is written first: a certificate that is there has its
 * key. */
#include "coordinator/dev_certs.h"

#include <unistd.h>

#include "common/buf.h"
#include "common/cert.h"
#include "coordinator/dev_place.h"
#include "common/banned.h"

enum { SERVER_DAYS = 365, HOST_NAME_BYTES = 256 };

struct pair {
    char cert_path[CONFIG_PATH_BYTES];
    char key_path[CONFIG_PATH_BYTES];
    struct buf cert;
    struct buf key;
};

static enum status
pair_init(struct pair *pair, const char *dir, const char *name,
          struct error *err)
{
    enum status status = dev_path(pair->cert_path, sizeof(pair->cert_path), err,
                                  "%s/%s.crt", dir, name);

    buf_init(&pair->cert, CERT_PEM_MAX_BYTES);
    buf_init(&pair->key, CERT_PEM_MAX_BYTES);
    if (status == STATUS_OK)
        status = dev_path(pair->key_path, sizeof(pair->key_path), err,
                          "%s/%s.key", dir, name);
    return status;
}

static void
pair_clear(struct pair *pair)
{
    buf_clear(&pair->cert);
    buf_clear(&pair->key);
}

/* STATUS_NOT_FOUND: there is no such certificate yet. */
static enum status
pair_read(struct pair *pair, struct error *err)
{
    enum status status = buf_read_file(&pair->cert, pair->cert_path, err);

    if (status != STATUS_OK)
        return status;
    if (buf_read_file(&pair->key, pair->key_path, err) != STATUS_OK)
        return error_set(err, STATUS_INVALID,
                         "%s has lost its key: put it back or use a new "
                         "folder",
                         pair->cert_path);
    return STATUS_OK;
}

static enum status
pair_write(const struct pair *pair, struct error *err)
{
    enum status status;

    (void)unlink(pair->cert_path); /* never an old one with the new key */
    status = file_write_whole(pair->key_path, pair->key.data, pair->key.size,
                              0600, err);
    if (status == STATUS_OK)
        status = file_write_whole(pair->cert_path, pair->cert.data,
                                  pair->cert.size, 0644, err);
    return status;
}

static enum status
server_make(const struct pair *ca, struct pair *server, struct error *err)
{
    char host[HOST_NAME_BYTES] = "";
    const char *names[] = {"localhost", "127.0.0.1", "::1", host};
    size_t count = COUNT_OF(names);
    enum status status;

    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        count--;
    buf_reset(&server->cert);
    buf_reset(&server->key);
    status = cert_server_make(ca->cert.data, ca->key.data, names, count,
                              SERVER_DAYS, &server->cert, &server->key, err);
    if (status == STATUS_OK)
        status = pair_write(server, err);
    return status;
}

static enum status
ca_prepare(struct pair *ca, const struct pair *server, struct error *err)
{
    enum status status = pair_read(ca, err);

    if (status != STATUS_NOT_FOUND)
        return status;
    (void)unlink(server->cert_path); /* of a CA that is gone */
    status = cert_ca_make("Berth development CA", &ca->cert, &ca->key, err);
    if (status == STATUS_OK)
        status = pair_write(ca, err);
    return status;
}

static enum status
server_prepare(const struct pair *ca, struct pair *server, struct error *err)
{
    int64_t left_s = 0;
    int64_t whole_s = 1;
    enum status status = pair_read(server, err);

    if (status == STATUS_OK)
        status = cert_life(server->cert.data, &left_s, &whole_s, err);
    if (status == STATUS_OK && left_s > whole_s / 3)
        return STATUS_OK;
    /* Missing, unreadable or near its end: nothing depends on this one. */
    return server_make(ca, server, err);
}

enum status
dev_certs_prepare(const char *dir, struct error *err)
{
    struct pair ca;
    struct pair server;
    enum status status = pair_init(&ca, dir, "ca", err);
    enum status second = pair_init(&server, dir, "server", err);

    if (status == STATUS_OK)
        status = second;
    if (status == STATUS_OK)
        status = ca_prepare(&ca, &server, err);
    if (status == STATUS_OK)
        status = server_prepare(&ca, &server, err);
    pair_clear(&ca);
    pair_clear(&server);
    return status;
}
