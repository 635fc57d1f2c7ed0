/* command_serve.c - berth-engine serve: listen, load, serve one agent. */
#include "inference/command.h"

#include <string.h>

#include "common/units.h"
#include "inference/serve.h"

#include "common/banned.h"

static const char usage[] =
    "usage: berth-engine serve --model DIR --socket PATH [OPTION]...\n"
    "Waits 30 s for one agent on the unix socket PATH and ends with it.";

struct serve_options {
    struct compute_options compute;
    const char *socket, *slots, *kv_bytes;
};

static enum status
options_check(const struct serve_options *o, struct engine_options *engine,
              struct error *err)
{
    uint64_t slots = 4;
    enum status status = compute_options_check(&o->compute, engine, err);

    if (status == STATUS_OK)
        status = option_number("--slots", o->slots, 1, ENGINE_SLOTS_MAX, &slots,
                               err);
    if (status != STATUS_OK)
        return status;
    engine->slots = (uint32_t)slots;
    if (o->socket == NULL)
        return error_set(err, STATUS_INVALID,
                         "no socket: give --socket PATH, where to listen");
    if (o->kv_bytes != NULL && (parse_bytes(o->kv_bytes, strlen(o->kv_bytes),
                                            &engine->kv_bytes) != STATUS_OK ||
                                engine->kv_bytes == 0))
        return error_set(err, STATUS_INVALID,
                         "--kv-bytes %.40s: give a size such as 512MiB",
                         o->kv_bytes);
    return STATUS_OK;
}

static int
serve(const struct serve_options *o, const struct engine_options *options)
{
    struct engine *engine = NULL;
    struct error err, late;
    int listener, fd;
    enum status status = serve_listen(o->socket, &listener, &err);

    if (status == STATUS_INVALID)
        return command_usage(&err);
    if (status != STATUS_OK)
        return command_failed(&err);
    status = engine_open(o->compute.model, options, &engine, &err);
    if (serve_accept(listener, o->socket, SERVE_AGENT_WAIT_S, &fd, &late) !=
        STATUS_OK) {
        engine_close(engine);
        return command_failed(status != STATUS_OK ? &err : &late);
    }
    if (status != STATUS_OK) {
        serve_broken(fd, &err);
        return command_failed(&err);
    }
    status = serve_connection(fd, engine, &err);
    engine_close(engine);
    return status == STATUS_OK ? EXIT_OK : command_failed(&err);
}

int
command_serve(int argc, char **argv)
{
    struct serve_options o = {0};
    const struct option_spec specs[] = {
        COMPUTE_OPTIONS(o.compute),
        {.name = "--socket",
         .type = OPTION_TEXT,
         .text = &o.socket,
         .value = "PATH",
         .help = "unix socket to listen on"},
        {.name = "--slots",
         .type = OPTION_TEXT,
         .text = &o.slots,
         .value = "N",
         .help = "jobs run at once (default 4)"},
        {.name = "--kv-bytes",
         .type = OPTION_TEXT,
         .text = &o.kv_bytes,
         .value = "SIZE",
         .help = "memory for keys and values, e.g. 512MiB"},
    };
    struct engine_options options;
    struct error err;
    size_t words;
    enum status status = options_parse(argc, argv, usage, specs,
                                       COUNT_OF(specs), NULL, 0, &words, &err);

    if (status == STATUS_OK)
        status = options_check(&o, &options, &err);
    if (status != STATUS_OK)
        return command_usage(&err);
    return serve(&o, &options);
}
