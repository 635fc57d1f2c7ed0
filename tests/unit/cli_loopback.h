/* cli_loopback.h - a scripted HTTP server on 127.0.0.1 for the tests of cli/,
 * and a way to run a command and keep what it printed.
 *
 * Each connection brings one request and gets the next answer of the script,
 * byte for byte, and the close. */
#ifndef BERTH_TESTS_CLI_LOOPBACK_H
#define BERTH_TESTS_CLI_LOOPBACK_H

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"

enum { SCRIPT_MAX = 16, REQUEST_MAX_BYTES = 8 * 1024 * 1024 };

/* An answer with its length, so that the close is not needed to end it. */
#define JSON_ANSWER(status_, json_)                                            \
    "HTTP/1.1 " status_ "\r\nContent-Type: application/json\r\n"               \
    "Connection: close\r\n\r\n" json_
#define STREAM_ANSWER(events_)                                                 \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"                   \
    "Connection: close\r\n\r\n" events_
/* Closes without a word. */
#define NO_ANSWER ""

struct loopback {
    int listener;
    uint16_t port;
    pthread_t thread;
    const char *const *script;
    size_t script_count;
    struct buf requests[SCRIPT_MAX];
    size_t request_count;
    /* After its answer the last connection stays open: this process gets a
     * SIGINT, and the close is waited for. */
    pid_t interrupted;
    bool saw_close;
};

static inline size_t
loopback_body_size(const char *head)
{
    const char *at = strstr(head, "Content-Length: ");
    size_t size = 0;

    for (at = at != NULL ? at + 16 : ""; *at >= '0' && *at <= '9'; at++)
        size = size * 10 + (size_t)(*at - '0');
    return size;
}

/* Read one request; false when the peer only knocked. */
static inline bool
loopback_read(int peer, struct buf *request)
{
    char piece[4096];
    const char *end;

    for (;;) {
        ssize_t size = read(peer, piece, sizeof(piece));

        if (size <= 0)
            return request->size > 0;
        buf_append(request, piece, (size_t)size);
        end = strstr(request->data, "\r\n\r\n");
        if (end != NULL &&
            request->size >= (size_t)(end + 4 - request->data) +
                                 loopback_body_size(request->data))
            return true;
    }
}

static inline void
loopback_write(int peer, const char *answer)
{
    size_t left = strlen(answer);

    while (left > 0) {
        ssize_t size = send(peer, answer, left, 0);

        if (size <= 0)
            return;
        answer += size;
        left -= (size_t)size;
    }
}

static inline void
loopback_interrupt(struct loopback *server, int peer)
{
    char byte;

    (void)kill(server->interrupted, SIGINT);
    while (read(peer, &byte, 1) > 0)
        ;
    server->saw_close = true;
}

static inline void *
loopback_serve(void *arg)
{
    struct loopback *server = arg;

    for (;;) {
        int peer = accept(server->listener, NULL, NULL);
        struct buf *request = &server->requests[server->request_count];
        size_t at = server->request_count;

        assert(peer >= 0 && at < SCRIPT_MAX);
        if (!loopback_read(peer, request)) {
            (void)close(peer);
            return NULL;
        }
        server->request_count++;
        if (at < server->script_count)
            loopback_write(peer, server->script[at]);
        if (server->interrupted != 0 && at + 1 == server->script_count)
            loopback_interrupt(server, peer);
        (void)close(peer);
    }
}

static inline void
loopback_listen(struct loopback *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int result;

    *server = (struct loopback){.listener = socket(AF_INET, SOCK_STREAM, 0)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    result = bind(server->listener, (struct sockaddr *)&address, size);
    assert(result == 0);
    result = listen(server->listener, 16);
    assert(result == 0);
    result = getsockname(server->listener, (struct sockaddr *)&address, &size);
    assert(result == 0);
    server->port = ntohs(address.sin_port);
    for (size_t i = 0; i < SCRIPT_MAX; i++)
        buf_init(&server->requests[i], REQUEST_MAX_BYTES);
}

static inline void
loopback_run(struct loopback *server, const char *const *script, size_t count)
{
    int result;

    server->script = script;
    server->script_count = count;
    result = pthread_create(&server->thread, NULL, loopback_serve, server);
    assert(result == 0);
}

/* Knock, so that the thread ends, and keep the requests. */
static inline void
loopback_stop(struct loopback *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(server->port)};
    int knock = socket(AF_INET, SOCK_STREAM, 0);
    int result;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    result = connect(knock, (struct sockaddr *)&address, sizeof(address));
    assert(result == 0);
    (void)close(knock);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->listener);
}

static inline void
loopback_clear(struct loopback *server)
{
    for (size_t i = 0; i < SCRIPT_MAX; i++)
        buf_clear(&server->requests[i]);
}

/* --- commands --- */

/* What a command wrote to @number (1 or 2) goes to a file until restored. */
struct capture {
    int number;
    int saved;
    FILE *file;
};

static inline void
capture_start(struct capture *capture, int number)
{
    (void)fflush(NULL);
    capture->number = number;
    capture->saved = dup(number);
    capture->file = tmpfile();
    assert(capture->file != NULL && capture->saved >= 0);
    (void)dup2(fileno(capture->file), number);
}

static inline void
capture_end(struct capture *capture, struct buf *text)
{
    char piece[4096];
    size_t size;

    (void)fflush(NULL);
    (void)dup2(capture->saved, capture->number);
    (void)close(capture->saved);
    rewind(capture->file);
    while ((size = fread(piece, 1, sizeof(piece), capture->file)) > 0)
        buf_append(text, piece, size);
    (void)fclose(capture->file);
}

#endif
