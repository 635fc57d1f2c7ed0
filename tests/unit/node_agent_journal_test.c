/* node_agent_journal_test.c - ended attempts on disk: damaged files, full
 * disks, and what is kept of them. */
#include "node-agent/held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include "common/banned.h"

enum { RECORDS = 3, MANY = 300 };

struct place {
    char folder[64];
    char path[96];
    struct event_base *base;
    struct held held;
    size_t frames; /* that went up */
    bool is_late;
};

static struct place *place;

/* --- attempts whose ids follow from their number --- */

static const char *
job_of(unsigned number)
{
    static char job[UUID_TEXT_BYTES];

    snprintf(job, sizeof(job), "01939a3c-7e40-7abc-8def-0123456%05x", number);
    return job;
}

static struct ended *
example_of(unsigned number, size_t id_count)
{
    struct ended *ended = ended_new(job_of(number), number + 1);
    struct wire_job_done done = {
        .attempt = number + 1, .reason = "length", .ids = id_count};

    ended->at_s = instant_unix_s(clock_wall());
    ended->done = id_count > 2 ? 2 : 0;
    for (size_t i = 0; i < id_count; i++) {
        uint32_t id = (uint32_t)(number * 1000 + i);

        ids_append(&ended->ids, &id, 1);
    }
    snprintf(done.job, sizeof(done.job), "%s", ended->job);
    assert_int_equal(wire_encode(WIRE_JOB_DONE, &done, &ended->frame, NULL),
                     STATUS_OK);
    return ended;
}

/* Exactly what example_of made. */
static void
check_example(const struct ended *ended, unsigned number, size_t id_count)
{
    assert_string_equal(ended->job, job_of(number));
    assert_int_equal(ended->attempt, number + 1);
    assert_int_equal(ended->ids.count, id_count);
    for (size_t i = 0; i < id_count; i++)
        assert_int_equal(ended->ids.at[i], number * 1000 + i);
}

static size_t
size_of(unsigned number)
{
    return 5 * (number + 1);
}

/* Takes records that must be the first ones, in order. */
struct reader {
    unsigned count;
};

static void
on_record(void *arg, struct ended *ended)
{
    struct reader *reader = arg;

    check_example(ended, reader->count, size_of(reader->count));
    reader->count++;
    ended_free(ended);
}

/* Three records, and where each of them ends. */
static void
encode_three(struct buf *out, size_t ends[RECORDS])
{
    buf_init(out, JOURNAL_FILE_MAX_BYTES);
    for (unsigned i = 0; i < RECORDS; i++) {
        struct ended *ended = example_of(i, size_of(i));

        journal_encode(ended, out);
        ends[i] = out->size;
        assert_int_equal(journal_size(ended),
                         i == 0 ? ends[0] : ends[i] - ends[i - 1]);
        ended_free(ended);
    }
}

/* --- the list, on a loop --- */

static void
on_frame(void *arg, const void *frame, size_t size)
{
    (void)arg;
    (void)frame;
    if (size > 0)
        place->frames++;
}

static void
open_held(void)
{
    const struct frame_sink up = {.on_frame = on_frame};

    held_init(&place->held, place->base, place->path, &up);
}

static void
on_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    place->is_late = true;
}

static void
turn_until_safe(void)
{
    const struct timeval most = {.tv_sec = 20};

    event_base_once(place->base, -1, EV_TIMEOUT, on_late, NULL, &most);
    while (!held_is_safe(&place->held) && !place->is_late)
        event_base_loop(place->base, EVLOOP_ONCE);
    assert_true(held_is_safe(&place->held));
}

static int64_t
file_size(void)
{
    struct stat info;

    return stat(place->path, &info) == 0 ? info.st_size : -1;
}

static int
set_up(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    place = mem_alloc(sizeof(*place));
    snprintf(place->folder, sizeof(place->folder), "/tmp/berth-test-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->path, sizeof(place->path), "%s/journal", place->folder);
    place->base = event_base_new();
    return 0;
}

static int
tear_down(void **state)
{
    char command[128];

    (void)state;
    event_base_free(place->base);
    snprintf(command, sizeof(command), "rm -rf %s", place->folder);
    assert_int_equal(system(command), 0);
    free(place);
    return 0;
}

/* --- claims --- */

static void
every_cut_keeps_the_whole_records_before_it(void **state)
{
    size_t ends[RECORDS];
    struct buf bytes;

    (void)state;
    encode_three(&bytes, ends);
    for (size_t cut = 0; cut <= bytes.size; cut++) {
        struct reader reader = {0};
        unsigned whole = 0;
        size_t used = journal_parse(bytes.data, cut, on_record, &reader);

        while (whole < RECORDS && ends[whole] <= cut)
            whole++;
        assert_int_equal(reader.count, whole);
        assert_int_equal(used, whole == 0 ? 0 : ends[whole - 1]);
    }
    buf_clear(&bytes);
}

static void
a_flipped_bit_loses_its_record_and_invents_none(void **state)
{
    size_t ends[RECORDS];
    struct buf bytes;

    (void)state;
    encode_three(&bytes, ends);
    for (size_t bit = 0; bit < bytes.size * 8; bit++) {
        struct reader reader = {0};
        unsigned hit = 0;

        while (ends[hit] <= bit / 8)
            hit++;
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
        (void)journal_parse(bytes.data, bytes.size, on_record, &reader);
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(reader.count, hit); /* those before, unharmed */
    }
    buf_clear(&bytes);
}

static void
an_end_that_came_unbound_outlives_the_agent(void **state)
{
    struct ended *found;
    struct stat info;

    (void)state;
    open_held();
    held_take(&place->held, example_of(4, 30), false);
    assert_true(held_is_safe(&place->held));
    assert_int_equal(place->frames, 0);
    assert_int_equal(stat(place->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    held_clear(&place->held);
    open_held();
    found = held_find(&place->held, job_of(4), 5);
    assert_non_null(found);
    check_example(found, 4, 30);
    assert_int_equal(found->done, 2);
    held_ack(&place->held, job_of(4), 5);
    assert_int_equal(file_size(), 0);
    held_clear(&place->held);
    open_held();
    assert_int_equal(place->held.count, 0);
    held_clear(&place->held);
}

static void
an_end_that_is_acknowledged_at_once_costs_no_write(void **state)
{
    (void)state;
    open_held();
    held_take(&place->held, example_of(1, 3), true);
    assert_int_equal(place->frames, 1);
    assert_false(held_is_safe(&place->held));
    held_ack(&place->held, job_of(1), 2);
    turn_until_safe();
    held_clear(&place->held);
    assert_int_equal(file_size(), -1);
}

static void
one_that_is_not_acknowledged_is_written(void **state)
{
    (void)state;
    open_held();
    held_take(&place->held, example_of(1, 3), true);
    assert_int_equal(file_size(), -1);
    turn_until_safe();
    assert_true(file_size() > 0);
    held_clear(&place->held);
    assert_int_equal(place->frames, 1);
}

static void
what_waits_when_the_agent_ends_is_written(void **state)
{
    (void)state;
    open_held();
    held_take(&place->held, example_of(1, 3), true);
    held_clear(&place->held);
    open_held();
    assert_non_null(held_find(&place->held, job_of(1), 2));
    held_clear(&place->held);
}

static void
a_damaged_tail_is_cut_off_and_written_over(void **state)
{
    FILE *file;

    (void)state;
    open_held();
    held_take(&place->held, example_of(0, 5), false);
    held_clear(&place->held);
    file = fopen(place->path, "a");
    assert_non_null(file);
    fputs("torn", file);
    fclose(file);
    open_held();
    assert_int_equal(place->held.count, 1);
    held_take(&place->held, example_of(1, 10), false);
    held_clear(&place->held);
    open_held();
    check_example(held_find(&place->held, job_of(0), 1), 0, 5);
    check_example(held_find(&place->held, job_of(1), 2), 1, 10);
    held_clear(&place->held);
}

static void
the_oldest_go_when_there_are_too_many(void **state)
{
    (void)state;
    open_held();
    place->held.is_volatile = true; /* 300 writes prove nothing more */
    for (unsigned i = 0; i < MANY; i++)
        held_take(&place->held, example_of(i, 1), false);
    assert_int_equal(place->held.count, HELD_MAX);
    assert_null(held_find(&place->held, job_of(MANY - HELD_MAX - 1), 0));
    assert_non_null(held_find(&place->held, job_of(MANY - HELD_MAX), 0));
    /* Six million ids take 24 MB, five 20: four of a million stay. */
    for (unsigned i = 0; i < 6; i++)
        held_take(&place->held, example_of(MANY + i, 1000 * 1000), false);
    assert_int_equal(place->held.count, 4);
    assert_true(place->held.bytes <= HELD_MAX_BYTES);
    held_clear(&place->held);
}

static void
acknowledged_records_give_their_room_back(void **state)
{
    enum { BIG = 100 * 1000 }; /* 400 kB each */

    (void)state;
    open_held();
    for (unsigned i = 0; i < 5; i++)
        held_take(&place->held, example_of(i, BIG), false);
    assert_true(file_size() > 5 * BIG * 4);
    for (unsigned i = 0; i < 4; i++)
        held_ack(&place->held, job_of(i), i + 1);
    assert_true(file_size() < 3 * BIG * 4);
    held_clear(&place->held);
    open_held();
    check_example(held_find(&place->held, job_of(4), 5), 4, BIG);
    held_clear(&place->held);
}

static void
a_day_is_long_enough(void **state)
{
    (void)state;
    open_held();
    held_take(&place->held, example_of(0, 5), false);
    held_clear(&place->held);
    clock_shift_wall(span_s(INT64_C(23) * 3600));
    open_held();
    assert_int_equal(place->held.count, 1);
    held_clear(&place->held);
    clock_shift_wall(span_s(INT64_C(2) * 3600));
    open_held();
    assert_int_equal(place->held.count, 0);
    held_clear(&place->held);
    clock_shift_wall(span_s(INT64_C(-25) * 3600));
}

static void
without_a_journal_ends_are_kept_in_memory(void **state)
{
    (void)state;
    snprintf(place->path, sizeof(place->path), "%s/absent/journal",
             place->folder);
    open_held();
    held_take(&place->held, example_of(0, 5), false);
    assert_true(place->held.is_failing);
    held_resume(&place->held, held_find(&place->held, job_of(0), 1), 0);
    assert_int_equal(place->frames, 2); /* the ids and the end */
    held_ack(&place->held, job_of(0), 1);
    assert_int_equal(place->held.count, 0);
    held_clear(&place->held);
}

static void
a_node_that_was_sent_away_keeps_nothing(void **state)
{
    (void)state;
    open_held();
    held_take(&place->held, example_of(0, 5), false);
    assert_true(file_size() > 0);
    held_forget(&place->held);
    assert_int_equal(file_size(), -1);
    held_take(&place->held, example_of(1, 5), false);
    held_clear(&place->held);
    assert_int_equal(file_size(), -1);
}

#ifdef BERTH_FAULTS
/* Whatever fails once: nothing that was written before is lost, and the next
 * write brings the one that failed with it. */
static void
fail_once(const char *name)
{
    open_held();
    held_take(&place->held, example_of(0, 5), false);
    setenv("FAULT_NAME", name, 1);
    setenv("FAULT", "1", 1);
    held_take(&place->held, example_of(1, 10), false);
    unsetenv("FAULT");
    unsetenv("FAULT_NAME");
    held_clear(&place->held);
    open_held();
    check_example(held_find(&place->held, job_of(0), 1), 0, 5);
    held_clear(&place->held);
    open_held();
    held_take(&place->held, example_of(2, 15), false);
    held_clear(&place->held);
    open_held();
    check_example(held_find(&place->held, job_of(2), 3), 2, 15);
    held_clear(&place->held);
}
#endif

static void
a_failed_write_or_sync_loses_nothing_older(void **state)
{
#ifdef BERTH_FAULTS
    (void)state;
    fail_once("agent.journal.write");
#else
    (void)state;
    skip();
#endif
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(every_cut_keeps_the_whole_records_before_it),
        CLAIM(a_flipped_bit_loses_its_record_and_invents_none),
        CLAIM(an_end_that_came_unbound_outlives_the_agent),
        CLAIM(an_end_that_is_acknowledged_at_once_costs_no_write),
        CLAIM(one_that_is_not_acknowledged_is_written),
        CLAIM(what_waits_when_the_agent_ends_is_written),
        CLAIM(a_damaged_tail_is_cut_off_and_written_over),
        CLAIM(the_oldest_go_when_there_are_too_many),
        CLAIM(acknowledged_records_give_their_room_back),
        CLAIM(a_day_is_long_enough),
        CLAIM(without_a_journal_ends_are_kept_in_memory),
        CLAIM(a_node_that_was_sent_away_keeps_nothing),
        CLAIM(a_failed_write_or_sync_loses_nothing_older),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
