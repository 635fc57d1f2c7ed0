/* journal_fuzz.c - the agent's journal: what is read writes to the same bytes,
 * also where only the digest of a record is right. */
#include "node-agent/journal.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
on_record(void *arg, struct ended *ended)
{
    assert(ended->done <= ended->ids.count);
    journal_encode(ended, arg);
    ended_free(ended);
}

static void
check(const void *bytes, size_t size)
{
    struct buf again;
    size_t used;

    buf_init(&again, JOURNAL_FILE_MAX_BYTES);
    used = journal_parse(bytes, size, on_record, &again);
    assert(used <= size && used == again.size);
    assert(memcmp(again.data, bytes, used) == 0);
    buf_clear(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t head[] = {(uint8_t)(size >> 24), (uint8_t)(size >> 16),
                            (uint8_t)(size >> 8), (uint8_t)size};
    uint8_t digest[SHA256_BYTES];
    struct buf record;

    check(data, size);
    cert_sha256(data, size, digest);
    buf_init(&record, JOURNAL_FILE_MAX_BYTES);
    buf_append(&record, head, sizeof(head));
    buf_append(&record, digest, sizeof(digest));
    buf_append(&record, data, size);
    check(record.data, record.size);
    buf_clear(&record);
    return 0;
}
