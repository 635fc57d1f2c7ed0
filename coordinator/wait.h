/* wait.h - a thread that waits for one answer from the core: for the start
 * and tools only, never for handlers. */
#ifndef BERTH_COORDINATOR_WAIT_H
#define BERTH_COORDINATOR_WAIT_H

#include <pthread.h>
#include <stdbool.h>

#include "common/attrs.h"
#include "common/error.h"

struct answer_wait {
    pthread_mutex_t lock;
    pthread_cond_t come;
    bool answered;
    enum status status;
    struct error error;
};

void answer_wait_init(struct answer_wait *wait);
/* An admin_done: pass it with the struct as its arg. */
void answer_wait_done(void *wait, const struct error *err);
/* Block until it was called; clears the struct. */
MUST_CHECK enum status answer_wait_take(struct answer_wait *wait,
                                        struct error *err);

#endif
