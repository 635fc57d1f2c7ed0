/* ledger_settlement_test.c - records and legs worked out by hand. */
#include "ledger/settlement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/banned.h"

enum { FEE_ACCOUNT = 2 };

static const char job[] = "019adf00-0000-7000-8000-0000000000aa";
static const char node_a[] = "019adf00-0000-7000-8000-00000000000a";
static const char node_b[] = "019adf00-0000-7000-8000-00000000000b";
static const char node_c[] = "019adf00-0000-7000-8000-00000000000c";
static const char pod_bc[] = "019adf00-0000-7000-8000-0000000000bc";

static struct buf record;
static struct settlement_result result;
static struct error err;

static int
set_up(void **state)
{
    (void)state;
    buf_init(&record, 65536);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    buf_clear(&record);
    return 0;
}

/* 100 tokens in (1 credit of prefill), 50 out (2 credits of decode): 20 by node
 * a, which was lost, 30 by the pod of b and c, equal members. */
static struct settlement
moved_job(void)
{
    struct settlement s = {
        .model = "tiny-chat",
        .model_digest = "ab12",
        .payer = 1000,
        .n_in = 100,
        .n_out = 50,
        .context = 164,
        .finish = "stop",
        .price_model = {.bytes_per_token = UINT64_C(4000000000),
                        .flop_per_token = UINT64_C(40000000000)},
        .attempts = {{.number = 1,
                      .ids = 20,
                      .end_reason = "node_lost",
                      .members = {{.account = 1001, .weight = 7}},
                      .member_count = 1},
                     {.number = 2,
                      .ids = 30,
                      .end_reason = "done",
                      .members = {{.account = 1002, .weight = 5},
                                  {.account = 1003, .weight = 5}},
                      .member_count = 2}},
        .attempt_count = 2,
    };

    s.revision = price_revision_1;
    memcpy(s.job, job, sizeof(s.job));
    memcpy(s.attempts[0].members[0].node, node_a, sizeof(node_a));
    memcpy(s.attempts[1].members[0].node, node_b, sizeof(node_b));
    memcpy(s.attempts[1].members[1].node, node_c, sizeof(node_c));
    memcpy(s.attempts[1].pod, pod_bc, sizeof(pod_bc));
    return s;
}

static void
compute(const struct settlement *s)
{
    buf_reset(&record);
    if (settlement_compute(s, FEE_ACCOUNT, &result, &record, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static void
assert_leg(size_t index, int code, int64_t account, int64_t amount)
{
    assert_true(index < result.leg_count);
    assert_int_equal(result.legs[index].code, code);
    assert_int_equal(result.legs[index].account, account);
    assert_int_equal(result.legs[index].amount.micro, amount);
}

/* 3,000,000 ucr; fee 150,000; of 2,850,000 a third, 950,000, is prefill, all
 * a's; of 1,900,000 decode 20/50 are a's, 760,000, and 1,140,000 the pod's. */
static void
a_moved_job_pays_prefill_to_the_first_and_decode_by_ids(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    compute(&s);
    assert_int_equal(result.price.total.micro, 3000000);
    assert_int_equal(result.leg_count, 4);
    assert_leg(0, 11, FEE_ACCOUNT, 150000);
    assert_leg(1, 10, 1001, 1710000);
    assert_leg(2, 10, 1002, 570000);
    assert_leg(3, 10, 1003, 570000);
    assert_string_equal(result.legs[3].node, node_c);
    assert_string_equal(result.legs[3].pod, pod_bc);
    assert_string_equal(result.legs[1].pod, "");
    assert_int_equal(result.legs[3].attempt, 2);
    assert_int_equal(result.legs[1].weight, 7);
}

static void
an_attempt_that_delivered_nothing_is_paid_nothing(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.attempts[0].ids = 0;
    s.attempts[1].ids = 50;
    compute(&s);
    assert_int_equal(result.leg_count, 3);
    assert_leg(0, 11, FEE_ACCOUNT, 150000);
    assert_leg(1, 10, 1002, 1425000);
    assert_leg(2, 10, 1003, 1425000);
}

static void
the_smallest_charge_is_settled_whole(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.attempt_count = 1;
    s.n_in = 1;
    s.n_out = 1;
    s.attempts[0].ids = 1;
    s.price_model = (struct price_model){0};
    compute(&s);
    assert_leg(0, 11, FEE_ACCOUNT, 50);
    assert_leg(1, 10, 1001, 950);
    assert_int_equal(result.leg_count, 2);
}

/* Written out from the format in docs/ledger.md; the digest is sha256sum's. */
static const char expected_record[] =
    "{\"v\":1,\"job\":\"019adf00-0000-7000-8000-0000000000aa\","
    "\"model\":\"tiny-chat\",\"model_digest\":\"ab12\",\"payer\":1000,"
    "\"fee_account\":2,\"n_in\":100,\"n_cached\":0,\"n_out\":50,"
    "\"context\":164,\"finish\":\"stop\","
    "\"price\":{\"revision\":1,\"class_per_mille\":1000,"
    "\"prefill_ucr\":1000000,\"decode_ucr\":2000000,\"fee_ucr\":150000,"
    "\"total_ucr\":3000000},"
    "\"attempts\":[{\"number\":1,\"pod\":null,\"ids\":20,"
    "\"end_reason\":\"node_lost\",\"members\":["
    "{\"node\":\"019adf00-0000-7000-8000-00000000000a\",\"account\":1001,"
    "\"weight\":7}]},"
    "{\"number\":2,\"pod\":\"019adf00-0000-7000-8000-0000000000bc\","
    "\"ids\":30,\"end_reason\":\"done\",\"members\":["
    "{\"node\":\"019adf00-0000-7000-8000-00000000000b\",\"account\":1002,"
    "\"weight\":5},"
    "{\"node\":\"019adf00-0000-7000-8000-00000000000c\",\"account\":1003,"
    "\"weight\":5}]}]}";
static const char expected_digest[] =
    "f6db9256536d70900ef0f5f782973796fcf0059b59a10875209e73097236a5f0";

static void
the_record_has_one_spelling_and_its_digest(void **state)
{
    struct settlement s = moved_job();
    char hex[SHA256_HEX_BYTES];

    (void)state;
    compute(&s);
    assert_string_equal(record.data, expected_record);
    cert_hex(result.digest, SHA256_BYTES, hex);
    assert_string_equal(hex, expected_digest);
}

static void
assert_refused(const struct settlement *s)
{
    struct buf out;

    buf_init(&out, 65536);
    assert_int_equal(settlement_compute(s, FEE_ACCOUNT, &result, &out, &err),
                     STATUS_INVALID);
    assert_int_equal(out.size, 0);
    buf_clear(&out);
}

static void
what_does_not_add_up_is_refused(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.attempts[1].ids = 31;
    assert_refused(&s);
    s.attempts[1].ids = 29;
    assert_refused(&s);
    s.attempts[0].ids = UINT64_MAX; /* would wrap around to 50 */
    s.attempts[1].ids = 51;
    assert_refused(&s);
    s = moved_job();
    s.n_out = 0;
    s.attempts[0].ids = 0;
    s.attempts[1].ids = 0;
    assert_refused(&s);
    s = moved_job();
    s.attempts[1].number = 1;
    assert_refused(&s);
    s = moved_job();
    s.attempts[0].member_count = 0;
    assert_refused(&s);
    s = moved_job();
    s.attempts[0].members[0].weight = 0;
    assert_refused(&s);
    s = moved_job();
    s.model[0] = '"';
    assert_refused(&s);
    s = moved_job();
    s.n_cached = 101;
    assert_refused(&s);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_moved_job_pays_prefill_to_the_first_and_decode_by_ids),
        TEST(an_attempt_that_delivered_nothing_is_paid_nothing),
        TEST(the_smallest_charge_is_settled_whole),
        TEST(the_record_has_one_spelling_and_its_digest),
        TEST(what_does_not_add_up_is_refused),
    };

    return cmocka_run_group_tests_name("ledger_settlement", tests, NULL, NULL);
}
