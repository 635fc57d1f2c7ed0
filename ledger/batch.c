/* batch.c - the statements of many writes, inside one transaction. */
#include "ledger/batch.h"

#include "common/banned.h"

/* Run @write under its savepoint.  STATUS_OK: it is done, or it failed for
 * itself and says so; else the batch has failed. */
static enum status
write_run(struct db *db, struct write *write, struct error *err)
{
    enum status status = db_command(db, "SAVEPOINT one", "SAVEPOINT", err);

    if (status != STATUS_OK)
        return status;
    write_reset(write);
    for (size_t i = 0; status == STATUS_OK && i < write->count; i++)
        status = db_run(db, write->items[i]->statement, write->items[i]->params,
                        &write->rows[i], err);
    if (status == STATUS_RETRY)
        return status;
    if (status != STATUS_OK) {
        write_reset(write);
        write->status = status;
        write->err = *err;
        status = db_command(db, "ROLLBACK TO SAVEPOINT one", "ROLLBACK", err);
    }
    if (status == STATUS_OK)
        status = db_command(db, "RELEASE SAVEPOINT one", "RELEASE", err);
    return status;
}

/* As many of the next writes as fit one exchange with the server. */
static size_t
group_fill(struct write **writes, size_t count, struct db_call *calls,
           size_t *call_count)
{
    size_t used = 0;
    size_t total = 0;

    for (; used < count && total + writes[used]->count <= DB_CALLS_MAX;
         used++) {
        struct write *write = writes[used];

        write_reset(write);
        for (size_t i = 0; i < write->count; i++)
            calls[total++] = (struct db_call){
                .statement = write->items[i]->statement,
                .params = write->items[i]->params,
                .rows = &write->rows[i],
            };
    }
    *call_count = total;
    return used;
}

/* Writes seldom fail, so a group is first run as if none did: in one exchange,
 * under one savepoint.  If one fails the group is undone and each of its writes
 * runs under a savepoint of its own. */
static enum status
group_run(struct db *db, struct write **writes, size_t count, size_t *used,
          struct error *err)
{
    struct db_call calls[DB_CALLS_MAX];
    size_t call_count = 0;
    enum status status = db_command(db, "SAVEPOINT many", "SAVEPOINT", err);

    *used = group_fill(writes, count, calls, &call_count);
    if (status != STATUS_OK)
        return status;
    status = db_run_all(db, calls, call_count, err);
    if (status == STATUS_OK)
        return db_command(db, "RELEASE SAVEPOINT many", "RELEASE", err);
    if (status == STATUS_RETRY)
        return status;
    status = db_command(db, "ROLLBACK TO SAVEPOINT many", "ROLLBACK", err);
    for (size_t i = 0; status == STATUS_OK && i < *used; i++)
        status = write_run(db, writes[i], err);
    if (status == STATUS_OK)
        status = db_command(db, "RELEASE SAVEPOINT many", "RELEASE", err);
    return status;
}

enum status
batch_run(struct db *db, struct write **batch, size_t count, struct error *err)
{
    enum status status = STATUS_OK;
    size_t used = 0;

    for (size_t done = 0; status == STATUS_OK && done < count; done += used)
        status = group_run(db, batch + done, count - done, &used, err);
    return status;
}
