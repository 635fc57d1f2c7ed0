/* journal.h - ended attempts on disk, until the coordinator has them.
 *
 * A file of records: a size, the SHA-256 of what follows, and one attempt with
 * the ids of its answer and its last frame (docs/decisions/0006).  Records are
 * only appended; what is no longer needed goes when the file is written anew.
 * A damaged record and what lies behind it do not count.  It holds answers, so
 * its mode is 0600; it never holds prompts.  Belongs to the loop's thread. */
#ifndef BERTH_NODE_AGENT_JOURNAL_H
#define BERTH_NODE_AGENT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attrs.h"
#include "common/buf.h"
#include "common/cert.h"
#include "common/error.h"
#include "common/units.h"
#include "node-agent/home.h"
#include "node-agent/ids.h"

enum {
    JOURNAL_FILE_MAX_BYTES = 64 * 1024 * 1024,
    JOURNAL_RECORD_MAX_BYTES = 8 * 1024 * 1024, /* IDS_MAX ids and a frame */
    JOURNAL_ANEW_BYTES = 1024 * 1024, /* larger and half dead: write anew */
};

/* An attempt that has ended. */
struct ended {
    char job[UUID_TEXT_BYTES];
    uint32_t attempt;
    int64_t at_s;     /* Unix time of the end */
    uint64_t done;    /* ids that came with its input */
    struct ids ids;   /* of the whole answer, those included */
    struct buf frame; /* its job.done or job.fail, head included */
    /* held.c's: */
    bool is_bound;   /* the end went up on the link that is up now */
    bool is_written; /* in the journal */
    bool is_due;     /* no longer waits for a quick job.ack */
    struct span due_at;
    struct ended *next;
};

struct ended *ended_new(const char *job, uint32_t attempt);
void ended_free(struct ended *ended);

/* Append its record. */
void journal_encode(const struct ended *ended, struct buf *out);
/* Bytes of its record. */
size_t journal_size(const struct ended *ended);

/* @ended is taken. */
typedef void journal_taker(void *arg, struct ended *ended);
/* Give whole, undamaged records to @take.  Returns the bytes up to the first
 * that is not. */
size_t journal_parse(const void *bytes, size_t size, journal_taker *take,
                     void *arg);

struct journal {
    char path[HOME_FILE_BYTES];
    char next[HOME_FILE_BYTES]; /* the file written anew, before its rename */
    int fd;                     /* -1: none */
    uint64_t size;              /* bytes that are on disk for certain */
};

/* Name it, read it and cut off what is damaged.  When it cannot be read or cut,
 * the first journal_replace mends it. */
MUST_CHECK enum status journal_open(struct journal *journal, const char *path,
                                    journal_taker *take, void *arg,
                                    struct error *err);
void journal_close(struct journal *journal);
/* Put @records behind the others and wait for the disk.  After a failure the
 * file has to be replaced. */
MUST_CHECK enum status journal_append(struct journal *journal,
                                      const struct buf *records,
                                      struct error *err);
/* Is there a file to append to? */
bool journal_is_whole(const struct journal *journal);
/* Write the file anew: @records and nothing else, or the old file as it was. */
MUST_CHECK enum status journal_replace(struct journal *journal,
                                       const struct buf *records,
                                       struct error *err);
/* Nothing in it is needed any more. */
void journal_empty(struct journal *journal);
/* Remove the file. */
void journal_remove(struct journal *journal);

#endif
