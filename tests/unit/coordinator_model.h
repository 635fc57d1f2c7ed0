/* coordinator_model.h - tiny-chat as the coordinator's tests need it, with the
 * ids that tests/models/reference.json gives for "What is 17 plus 25?". */
#ifndef BERTH_TESTS_UNIT_COORDINATOR_MODEL_H
#define BERTH_TESTS_UNIT_COORDINATOR_MODEL_H

#include <stdio.h>

#include "common/mem.h"
#include "coordinator/snapshot.h"

enum { SUM_PROMPT_IDS = 18, SUM_ANSWER_IDS = 12, TINY_CONTEXT = 2048 };

static const uint32_t sum_prompt[SUM_PROMPT_IDS] = {
    2046, 482, 198, 280, 258,  220, 16,   22,  297,
    220,  17,  20,  30,  2047, 198, 2046, 566, 198,
};
static const uint32_t sum_answer[SUM_ANSWER_IDS] = {
    16, 22, 297, 220, 17, 20, 258, 220, 19, 17, 13, 2047,
};
static const char sum_text[] = "17 plus 25 is 42.";

/* One reference; NULL when its files cannot be read. */
static struct model *
tiny_chat_new(void)
{
    static const char folder[] = "tests/models/tiny-chat";
    struct model *model = mem_alloc(sizeof(*model));

    atomic_init(&model->references, 1);
    snprintf(model->entry.id, sizeof(model->entry.id), "tiny-chat");
    model->entry.context = TINY_CONTEXT;
    model->entry.vocab = 2048;
    model->entry.weight_bytes = 10000000;
    model->entry.bytes_per_token = 10000000;
    model->entry.kv_bytes_per_token = 1000;
    model->entry.flop_per_token = 10000000;
    model->entry.attention_flop = 1000;
    model->end_ids[0] = 2047;
    model->end_id_count = 1;
    model->token_bytes_max = 13; /* <|endoftext|> */
    if (tokenizer_read(folder, &model->tokenizer, NULL) == STATUS_OK &&
        template_read(folder, &model->template, NULL) == STATUS_OK)
        return model;
    model_drop(model);
    return NULL;
}

#endif
