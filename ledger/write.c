/* write.c - statements that hold together, with copies of their parameters. */
#include "ledger/write.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/mem.h"

#include "common/banned.h"

struct write *
write_new(write_done *on_done, void *arg)
{
    struct write *write = mem_alloc(sizeof(*write));

    assert(on_done != NULL);
    write->on_done = on_done;
    write->arg = arg;
    return write;
}

void
write_add(struct write *write, const struct statement *statement,
          const struct db_param *params)
{
    struct item *item = mem_alloc(sizeof(*item));

    assert(write->count < WRITE_STATEMENTS_MAX);
    assert(statement->param_count <= DB_PARAMS_MAX);
    item->statement = statement;
    for (int i = 0; i < statement->param_count; i++) {
        if (params[i].bytes != NULL) {
            item->params[i].bytes = mem_copy(params[i].bytes, params[i].size);
            item->params[i].size = params[i].size;
        } else if (params[i].text != NULL) {
            item->params[i].text = mem_text(params[i].text);
        }
    }
    write->items[write->count++] = item;
}

size_t
write_count(const struct write *write)
{
    return write->count;
}

static void
item_free(struct item *item)
{
    for (int i = 0; i < item->statement->param_count; i++) {
        free((void *)(uintptr_t)item->params[i].text);
        free((void *)(uintptr_t)item->params[i].bytes);
    }
    free(item);
}

void
write_reset(struct write *write)
{
    for (size_t i = 0; i < write->count; i++) {
        db_rows_free(write->rows[i]);
        write->rows[i] = NULL;
    }
    write->status = STATUS_OK;
}

void
write_free(struct write *write)
{
    if (write == NULL)
        return;
    write_reset(write);
    for (size_t i = 0; i < write->count; i++)
        item_free(write->items[i]);
    free(write);
}
