/* wait.c - a condition variable around one answer. */
#include "coordinator/wait.h"

#include "common/banned.h"

void
answer_wait_init(struct answer_wait *wait)
{
    *wait = (struct answer_wait){.status = STATUS_OK};
    pthread_mutex_init(&wait->lock, NULL);
    pthread_cond_init(&wait->come, NULL);
}

void
answer_wait_done(void *arg, const struct error *err)
{
    struct answer_wait *wait = arg;

    pthread_mutex_lock(&wait->lock);
    if (err != NULL) {
        wait->error = *err;
        wait->status = err->status;
    }
    wait->answered = true;
    pthread_cond_signal(&wait->come);
    pthread_mutex_unlock(&wait->lock);
}

enum status
answer_wait_take(struct answer_wait *wait, struct error *err)
{
    enum status status;

    pthread_mutex_lock(&wait->lock);
    while (!wait->answered)
        pthread_cond_wait(&wait->come, &wait->lock);
    pthread_mutex_unlock(&wait->lock);
    status = wait->status;
    if (status != STATUS_OK && err != NULL)
        *err = wait->error;
    pthread_mutex_destroy(&wait->lock);
    pthread_cond_destroy(&wait->come);
    return status;
}
