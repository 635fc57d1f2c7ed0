/* serve_listen.c - the unix socket on which the agent finds its engine. */
#include "inference/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/wire.h"

#include "common/banned.h"

static enum status
listen_failed(const char *what, const char *path, struct error *err)
{
    char text[128];

    return error_set(err, STATUS_INTERNAL, "cannot %s socket %s: %s", what,
                     path, error_errno(errno, text, sizeof(text)));
}

/* Remove a socket that a dead engine left behind. */
static void
stale_remove(const struct sockaddr_un *address)
{
    struct stat info;
    int probe;

    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return;
    probe = socket(AF_UNIX, SOCK_STREAM, 0);
    if (probe < 0)
        return;
    if (connect(probe, (const struct sockaddr *)address, sizeof(*address)) !=
            0 &&
        errno == ECONNREFUSED)
        (void)unlink(address->sun_path);
    close(probe);
}

enum status
serve_listen(const char *path, int *listener, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t most = sizeof(address.sun_path) - 1;
    mode_t mask;
    int bound, fd;

    if (most > 107)
        most = 107;
    if (strlen(path) == 0 || strlen(path) > most)
        return error_set(err, STATUS_INVALID,
                         "--socket: the path has %zu bytes, a socket's path 1 "
                         "to %zu; give a shorter one",
                         strlen(path), most);
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return listen_failed("make", path, err);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    stale_remove(&address);
    /* The file has its mode from the first moment. */
    mask = umask(0177);
    bound = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    umask(mask);
    if (bound != 0 || listen(fd, 1) != 0) {
        listen_failed("listen on", path, err);
        close(fd);
        return STATUS_INTERNAL;
    }
    *listener = fd;
    return STATUS_OK;
}

enum status
serve_accept(int listener, const char *path, int wait_s, int *fd,
             struct error *err)
{
    struct pollfd watched = {.fd = listener, .events = POLLIN};
    int ready;
    enum status status = STATUS_OK;

    do
        ready = poll(&watched, 1, wait_s * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        status = error_set(err, STATUS_RETRY,
                           "no agent came to %s within %d s; start the engine "
                           "through its agent",
                           path, wait_s);
    else {
        *fd = accept(listener, NULL, NULL);
        if (*fd < 0)
            status = listen_failed("accept on", path, err);
        else
            (void)fcntl(*fd, F_SETFD, FD_CLOEXEC);
    }
    close(listener);
    (void)unlink(path);
    return status;
}

void
serve_broken(int fd, const struct error *why)
{
    const char *code =
        why->code[0] != '\0' ? why->code : status_name(why->status);
    struct wire_engine_broken broken = {0};
    struct buf out;
    size_t sent = 0;

    signal(SIGPIPE, SIG_IGN);
    memcpy(broken.code, code, strnlen(code, sizeof(broken.code) - 1));
    memcpy(broken.text, why->text, strnlen(why->text, sizeof(broken.text) - 1));
    buf_init(&out, WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES);
    /* One small frame in an empty socket buffer does not block. */
    if (wire_encode(WIRE_ENGINE_BROKEN, &broken, &out, NULL) == STATUS_OK) {
        while (sent < out.size) {
            ssize_t went = send(fd, out.data + sent, out.size - sent, 0);

            if (went <= 0)
                break;
            sent += (size_t)went;
        }
    }
    buf_clear(&out);
    close(fd);
}
