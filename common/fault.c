/* fault.c - counting passages of fault points. */
#include "common/fault.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/units.h"

#include "common/banned.h"

#ifdef BERTH_FAULTS
enum { NAMES_MAX = 256 };

static _Atomic uint64_t passages;

/* Names are literals: kept by their address's text. */
static void
list(const char *file, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *known[NAMES_MAX];
    static size_t known_count;
    size_t at = 0;
    int fd;

    pthread_mutex_lock(&lock);
    while (at < known_count && strcmp(known[at], name) != 0)
        at++;
    if (at == known_count && known_count < NAMES_MAX) {
        known[known_count++] = name;
        fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0) {
            (void)!write(fd, name, strlen(name));
            (void)!write(fd, "\n", 1);
            close(fd);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* The environment is read at each passage: tests change it as they go. */
bool
fault_point(const char *name)
{
    const char *number = getenv("FAULT");
    const char *only = getenv("FAULT_NAME");
    const char *how = getenv("FAULT_DO");
    const char *file = getenv("FAULT_LIST");
    uint64_t wanted;

    if (file != NULL)
        list(file, name);
    if (number == NULL || (only != NULL && strcmp(only, name) != 0) ||
        parse_u64(number, strlen(number), UINT64_MAX, &wanted) != STATUS_OK ||
        atomic_fetch_add(&passages, 1) + 1 != wanted)
        return false;
    if (how != NULL && strcmp(how, "kill") == 0)
        (void)raise(SIGKILL);
    if (how != NULL && strcmp(how, "stop") == 0)
        (void)raise(SIGSTOP);
    return how == NULL || strcmp(how, "fail") == 0;
}
#endif
