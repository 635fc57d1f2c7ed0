/* placement_explain_test.c - the words of placement against a golden pair:
 * tests/golden/placement_explain.{in,out}.  GOLDEN=1 rewrites the second; it
 * is then to be read in review. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "placement/placement.h"

#include "common/banned.h"

enum { TARGETS_MAX = 8, LINE_BYTES = 256, GOLDEN_MAX_BYTES = 1 << 16 };

#define IN_PATH "tests/golden/placement_explain.in"
#define OUT_PATH "tests/golden/placement_explain.out"

struct fixture {
    struct place_demand demand;
    struct place_target targets[TARGETS_MAX];
    size_t count;
};

static void
read_flags(struct place_target *target, const char *flags)
{
    target->online = strchr(flags, 'o') != NULL;
    target->lending = strchr(flags, 'l') != NULL;
    target->in_pool = strchr(flags, 'p') != NULL;
    target->holds_model = strchr(flags, 'm') != NULL;
    target->warm = strchr(flags, 'w') != NULL;
    target->model_pinned = strchr(flags, 'k') != NULL;
    target->verified = strchr(flags, 'v') != NULL;
    target->excluded = strchr(flags, 'x') != NULL;
}

static void
read_target(const char *line, struct fixture *fixture)
{
    struct place_target *target = &fixture->targets[fixture->count++];
    char flags[16] = "";

    *target = (struct place_target){.capabilities = PLACE_CAN_IDS};
    assert_in_range(sscanf(line,
                           "target %39s %15s %" SCNu64 " %" SCNu64 " %" SCNu32
                           " %" SCNu32 " %" SCNd64 " %lf %lf %lf %" SCNu32,
                           target->id, flags, &target->limit_bytes,
                           &target->in_use_bytes, &target->slots, &target->jobs,
                           &target->queued_ns, &target->bandwidth_gb_s,
                           &target->prefill_tflop_s, &target->read_gb_s,
                           &target->capabilities),
                    10, 11);
    read_flags(target, flags);
}

static void
read_demand(const char *line, struct fixture *fixture)
{
    struct place_demand *d = &fixture->demand;

    assert_int_equal(
        sscanf(line,
               "demand %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32,
               &d->weight_bytes, &d->bytes_per_token, &d->kv_bytes_per_token,
               &d->flop_per_token, &d->attention_flop, &d->hidden,
               &d->prompt_tokens, &d->output_tokens, &d->capabilities),
        9);
}

static void
explain(const struct fixture *fixture, struct buf *out)
{
    struct place_candidate candidates[TARGETS_MAX];
    struct error err = {0};
    size_t chosen = 0;
    enum status status =
        place_choose(fixture->targets, fixture->count, &fixture->demand,
                     candidates, &chosen, &err);

    buf_append_text(out, "  ");
    place_summary(candidates, fixture->count, out);
    buf_append_char(out, '\n');
    if (status != STATUS_OK)
        buf_printf(out, "  %s %s: %s\n", status_name(status), err.code,
                   err.text);
    for (size_t i = 0; i < fixture->count; i++) {
        buf_printf(out, "  %s %s: %s\n", fixture->targets[i].id,
                   place_verdict_name(candidates[i].verdict),
                   candidates[i].reason);
    }
}

/* One line of the input file; a case ends at an empty line or the end. */
static void
take_line(const char *line, struct fixture *fixture, struct buf *out)
{
    if (strncmp(line, "case ", 5) == 0)
        buf_printf(out, "%s", line);
    else if (strncmp(line, "demand ", 7) == 0)
        read_demand(line, fixture);
    else if (strncmp(line, "target ", 7) == 0)
        read_target(line, fixture);
    if (line[0] != '\n' || fixture->count == 0)
        return;
    explain(fixture, out);
    fixture->count = 0;
}

static void
check_golden(const struct buf *got)
{
    struct buf recorded;

    if (getenv("GOLDEN") != NULL) {
        assert_int_equal(
            file_write_whole(OUT_PATH, got->data, got->size, 0644, NULL),
            STATUS_OK);
        return;
    }
    buf_init(&recorded, GOLDEN_MAX_BYTES);
    assert_int_equal(buf_read_file(&recorded, OUT_PATH, NULL), STATUS_OK);
    assert_string_equal(got->data, recorded.data);
    buf_clear(&recorded);
}

static void
explains_as_recorded(void **state)
{
    struct fixture fixture = {.count = 0};
    char line[LINE_BYTES];
    struct buf out;
    FILE *file = fopen(IN_PATH, "r");

    (void)state;
    assert_non_null(file);
    buf_init(&out, GOLDEN_MAX_BYTES);
    while (fgets(line, sizeof(line), file) != NULL)
        take_line(line, &fixture, &out);
    take_line("\n", &fixture, &out);
    (void)fclose(file);
    check_golden(&out);
    buf_clear(&out);
}

static void
a_reason_never_names_a_target(void **state)
{
    struct place_target target = {.id = "secret-name"};
    const struct place_demand demand = {.weight_bytes = 1};
    struct place_candidate candidate;
    struct error err = {0};
    size_t chosen;

    (void)state;
    assert_int_equal(
        place_choose(&target, 1, &demand, &candidate, &chosen, &err),
        STATUS_INVALID);
    assert_null(strstr(candidate.reason, "secret-name"));
    assert_null(strstr(err.text, "secret-name"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explains_as_recorded),
        cmocka_unit_test(a_reason_never_names_a_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
