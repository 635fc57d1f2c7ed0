/* conf_fuzz.c - configuration files: refusals name the file; what is read
 * prints as a file that reads the same. */
#include "common/conf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX_BYTES = 1024 * 1024 };

struct settings {
    char name[16];
    uint64_t wait_ms;
    uint64_t memory;
    bool on;
    char peer[3][24];
    size_t peer_count;
};

static const struct conf_key keys[] = {
    CONF_KEY(struct settings, name, CONF_TEXT, .min = 1, .fallback = "mini"),
    CONF_KEY(struct settings, wait_ms, CONF_U64, .min = 1, .max = 1000,
             .fallback = "250", .unit = "ms"),
    CONF_KEY(struct settings, memory, CONF_BYTES, .max = 1000000000000,
             .fallback = "1GiB"),
    CONF_KEY(struct settings, on, CONF_BOOL, .fallback = "yes"),
    CONF_KEY_LIST(struct settings, peer, peer_count, .fallback = "a:1"),
};

static char path[] = "/tmp/berth-conf-fuzz-XXXXXX";

static void
remove_file(void)
{
    (void)unlink(path);
}

/* One file for all runs, as long as the process lives. */
static void
write_file(const void *bytes, size_t size)
{
    static int fd = -1;

    if (fd < 0) {
        fd = mkstemp(path);
        assert(fd >= 0 && atexit(remove_file) == 0);
    }
    assert(ftruncate(fd, 0) == 0);
    assert(pwrite(fd, bytes, size, 0) == (ssize_t)size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings settings = {0}, again = {0};
    struct error err = {0};
    struct buf text;

    write_file(data, size);
    if (conf_read(path, keys, COUNT_OF(keys), &settings, &err) != STATUS_OK) {
        assert(strstr(err.text, path) != NULL);
        return 0;
    }
    assert(memchr(settings.name, '\0', sizeof(settings.name)) != NULL);
    assert(settings.wait_ms >= 1 && settings.wait_ms <= 1000);
    assert(settings.memory <= 1000000000000);
    assert(settings.peer_count <= COUNT_OF(settings.peer));
    buf_init(&text, TEXT_MAX_BYTES);
    conf_print(keys, COUNT_OF(keys), &settings, &text);
    write_file(text.data, text.size);
    assert(conf_read(path, keys, COUNT_OF(keys), &again, &err) == STATUS_OK);
    assert(again.wait_ms == settings.wait_ms && again.on == settings.on &&
           again.memory == settings.memory &&
           again.peer_count == settings.peer_count &&
           strcmp(again.name, settings.name) == 0);
    buf_clear(&text);
    return 0;
}
