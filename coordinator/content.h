/* content.h - stored requests and results, encrypted under a day key.
 *
 * A day's key is 32 random bytes in a file of its own, outside the database
 * and its backups; destroying the file destroys the day's content wherever a
 * copy of the database may lie.  Thread-safe. */
#ifndef BERTH_COORDINATOR_CONTENT_H
#define BERTH_COORDINATOR_CONTENT_H

#include "common/attrs.h"
#include "common/buf.h"
#include "common/error.h"
#include "common/units.h"

enum { CONTENT_DAY_BYTES = 16 };

struct content;

/* @folder is made (0700) when missing. */
MUST_CHECK enum status content_open(const char *folder, uint64_t retention_s,
                                    struct content **content,
                                    struct error *err);
void content_close(struct content *content);

/* Today: "2026-11-30". */
void content_day(struct instant now, char day[static CONTENT_DAY_BYTES]);
/* The first day that is still kept. */
void content_oldest_day(const struct content *content, struct instant now,
                        char day[static CONTENT_DAY_BYTES]);
/* Seal @bytes of @job under the key of @day, made when missing. */
MUST_CHECK enum status content_seal(struct content *content, const char *day,
                                    const char *job, const void *bytes,
                                    size_t size, struct buf *out,
                                    struct error *err);
/* STATUS_NOT_FOUND when the day's key is gone. */
MUST_CHECK enum status content_unseal(struct content *content, const char *day,
                                      const char *job, const void *bytes,
                                      size_t size, struct buf *out,
                                      struct error *err);
/* Destroy the keys of the days before @day. */
void content_destroy_before(struct content *content, const char *day);

#endif
