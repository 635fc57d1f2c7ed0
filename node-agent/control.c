/* control.c - a line in, an answer out, over a private unix socket. */
#include "node-agent/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "common/mem.h"

#include "common/banned.h"

enum { ASK_S = 10, ANSWER_S = 10, BACKLOG = 8 };

static const char UNKNOWN_COMMAND[] = "unknown command\n";

struct control {
    struct evconnlistener *listener;
    control_command *on_command;
    void *arg;
};

static void
fill_address(const struct runtime *runtime, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "%s/control",
             runtime->path);
}

/* --- the agent's side --- */

static void
on_written(struct bufferevent *bev, void *arg)
{
    (void)arg;
    bufferevent_free(bev);
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)what;
    (void)arg;
    bufferevent_free(bev);
}

static void
answer(struct control *control, struct bufferevent *bev, char *line)
{
    char *blank = strchr(line, ' ');
    bool as_json = blank != NULL && strcmp(blank + 1, "json") == 0;
    struct buf text;

    if (blank != NULL)
        *blank = '\0';
    buf_init(&text, CONTROL_ANSWER_MAX_BYTES);
    if (!control->on_command(control->arg, line, as_json, &text))
        buf_append_text(&text, UNKNOWN_COMMAND);
    bufferevent_disable(bev, EV_READ);
    bufferevent_setcb(bev, NULL, on_written, on_event, NULL);
    bufferevent_write(bev, text.data, text.size);
    buf_clear(&text);
}

static void
on_readable(struct bufferevent *bev, void *arg)
{
    struct evbuffer *input = bufferevent_get_input(bev);
    char line[CONTROL_LINE_BYTES];
    size_t size = 0;
    char *text = evbuffer_readln(input, &size, EVBUFFER_EOL_LF);

    if (text == NULL && evbuffer_get_length(input) < sizeof(line))
        return; /* the rest has not come yet */
    if (text == NULL || size >= sizeof(line)) {
        free(text);
        bufferevent_free(bev);
        return;
    }
    memcpy(line, text, size + 1);
    free(text);
    answer(arg, bev, line);
}

static void
on_connection(struct evconnlistener *listener, evutil_socket_t fd,
              struct sockaddr *address, int size, void *arg)
{
    struct timeval limit = {.tv_sec = ANSWER_S};
    struct bufferevent *bev = bufferevent_socket_new(
        evconnlistener_get_base(listener), fd, BEV_OPT_CLOSE_ON_FREE);

    (void)address;
    (void)size;
    bufferevent_setcb(bev, on_readable, NULL, on_event, arg);
    bufferevent_set_timeouts(bev, &limit, &limit);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
}

enum status
control_open(struct event_base *base, const struct runtime *runtime,
             control_command *on_command, void *arg, struct control **opened,
             struct error *err)
{
    struct control *control = mem_alloc(sizeof(*control));
    struct sockaddr_un address;
    char text[128];

    fill_address(runtime, &address);
    control->on_command = on_command;
    control->arg = arg;
    control->listener = evconnlistener_new_bind(
        base, on_connection, control,
        LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG,
        (const struct sockaddr *)&address, sizeof(address));
    if (control->listener == NULL ||
        chmod(address.sun_path, S_IRUSR | S_IWUSR) != 0) {
        error_set(err, STATUS_INTERNAL, "%s: %s", address.sun_path,
                  error_errno(errno, text, sizeof(text)));
        control_close(control);
        return STATUS_INTERNAL;
    }
    *opened = control;
    return STATUS_OK;
}

void
control_close(struct control *control)
{
    if (control == NULL)
        return;
    if (control->listener != NULL)
        evconnlistener_free(control->listener);
    free(control);
}

/* --- the command line's side --- */

static enum status
exchange(int fd, const char *line, size_t size, struct buf *answer,
         struct error *err)
{
    char bytes[4096];
    char text[128];
    ssize_t got;

    if (send(fd, line, size, 0) != (ssize_t)size)
        return error_set(err, STATUS_RETRY, "the agent does not listen: %s",
                         error_errno(errno, text, sizeof(text)));
    while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0)
        buf_append(answer, bytes, (size_t)got);
    if (got < 0)
        return error_set(err, STATUS_RETRY, "the agent does not answer: %s",
                         error_errno(errno, text, sizeof(text)));
    if (strcmp(answer->data, UNKNOWN_COMMAND) == 0)
        return error_set(err, STATUS_INVALID,
                         "the running agent is of another version and does "
                         "not know this command; restart it");
    return buf_status(answer, err);
}

enum status
control_ask(const struct home *home, const char *command, bool as_json,
            struct buf *answer, struct error *err)
{
    const struct timeval limit = {.tv_sec = ASK_S};
    struct sockaddr_un address;
    struct runtime runtime;
    char line[CONTROL_LINE_BYTES];
    enum status status = runtime_find(home, &runtime, err);
    int size =
        snprintf(line, sizeof(line), "%s%s\n", command, as_json ? " json" : "");
    int fd;

    if (status != STATUS_OK)
        return status;
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return error_set(err, STATUS_INTERNAL, "no socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    fill_address(&runtime, &address);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        status = error_set(err, STATUS_NOT_FOUND,
                           "no berth-node runs with %.300s; start it with: "
                           "berth-node run",
                           home->path);
    else
        status = exchange(fd, line, (size_t)size, answer, err);
    close(fd);
    return status;
}
