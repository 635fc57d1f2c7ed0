/* memory.c - the arithmetic of a load. */
#include "node-agent/memory.h"

#include <inttypes.h>

#include "common/units.h"

#include "common/banned.h"

uint64_t
memory_rest(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t
memory_product(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / 2 / b ? UINT64_MAX / 2 : a * b;
}

enum status
memory_answer(const struct memory_question *question, uint64_t *kv_bytes,
              struct error *err)
{
    char weights[32], kv[32], limit[32], held[32], available[32];
    uint64_t per_token = question->kv_bytes_per_token;
    uint64_t least = memory_product(question->kv_tokens, per_token);
    uint64_t most = memory_product(question->kv_tokens_most, per_token);
    uint64_t fixed = question->weight_bytes + ENGINE_MARGIN_BYTES;
    uint64_t room = memory_rest(question->limit_bytes, question->held_bytes);

    if (question->has_free_bytes && question->free_bytes < room)
        room = question->free_bytes;
    if (room >= fixed && room - fixed >= least) {
        uint64_t rest = room - fixed;

        if (question->is_shared)
            rest /= 2;
        *kv_bytes = most < rest ? most : rest;
        if (*kv_bytes < least)
            *kv_bytes = least;
        return STATUS_OK;
    }
    return error_set(
        err, STATUS_NO_CAPACITY,
        "%s of weights, %s of KV for %" PRIu64 " tokens and %d MiB of margin "
        "do not fit: %s of the limit of %s are held, %s are free",
        bytes_text(question->weight_bytes, weights, sizeof(weights)),
        bytes_text(least, kv, sizeof(kv)), question->kv_tokens,
        (int)(ENGINE_MARGIN_BYTES / MIB),
        bytes_text(question->held_bytes, held, sizeof(held)),
        bytes_text(question->limit_bytes, limit, sizeof(limit)),
        bytes_text(room, available, sizeof(available)));
}
