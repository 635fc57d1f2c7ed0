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
                      .done = 20,
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
 * a's; of 1,900,000 decode 20/50 are a's, 760,000, and 1,140,000 the pod's.
 * Reading 120 ids again is worth 1,200,000, so the whole fee goes to it. */
static void
a_moved_job_pays_prefill_to_the_first_and_decode_by_ids(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    compute(&s);
    assert_int_equal(result.price.total.micro, 3000000);
    assert_int_equal(result.price.fee.micro, 150000);
    assert_int_equal(result.leg_count, 5);
    assert_leg(0, 10, 1001, 1710000);
    assert_leg(1, 10, 1002, 570000);
    assert_leg(2, 10, 1003, 570000);
    assert_leg(3, 12, 1002, 75000);
    assert_leg(4, 12, 1003, 75000);
    assert_string_equal(result.legs[2].node, node_c);
    assert_string_equal(result.legs[2].pod, pod_bc);
    assert_string_equal(result.legs[0].pod, "");
    assert_int_equal(result.legs[2].attempt, 2);
    assert_int_equal(result.legs[4].attempt, 2);
    assert_int_equal(result.legs[0].weight, 7);
    assert_int_equal(result.legs[4].weight, 5);
    assert_string_equal(result.legs[4].node, node_c);
    assert_string_equal(result.legs[4].pod, pod_bc);
}

/* At 1 GFLOP a token the prompt costs 25,000 ucr, decode 2,000,000; the fee is
 * 101,250. The prefill part of 1,923,750 is 23,750. Reading 120 ids again is
 * worth 30,000: the example of docs/ledger.md. */
static void
a_re_prefill_below_the_fee_is_paid_its_worth(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.price_model.flop_per_token = UINT64_C(1000000000);
    compute(&s);
    assert_int_equal(result.price.total.micro, 2025000);
    assert_int_equal(result.leg_count, 6);
    assert_leg(0, 11, FEE_ACCOUNT, 71250);
    assert_leg(1, 10, 1001, 783750);
    assert_leg(2, 10, 1002, 570000);
    assert_leg(3, 10, 1003, 570000);
    assert_leg(4, 12, 1002, 15000);
    assert_leg(5, 12, 1003, 15000);
    assert_int_equal(result.shares[0].prefill.micro, 23750);
    assert_int_equal(result.shares[0].decode.micro, 760000);
    assert_int_equal(result.shares[0].reprefill.micro, 0);
    assert_int_equal(result.shares[1].prefill.micro, 0);
    assert_int_equal(result.shares[1].decode.micro, 1140000);
    assert_int_equal(result.shares[1].reprefill.micro, 30000);
}

/* An attempt of which nobody says what it was given read the prompt at least:
 * 100 ids, 25,000 ucr.  Attention at 10^6: 10,000 pairs are 10^10 FLOP, 2,500
 * more for the price (27,500) and for the re-prefill. */
static void
an_attempt_that_was_given_nothing_read_the_prompt(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.price_model.flop_per_token = UINT64_C(1000000000);
    s.attempts[1].done = 0;
    compute(&s);
    assert_int_equal(result.shares[1].reprefill.micro, 25000);
    s.price_model.attention_flop = 1000000;
    compute(&s);
    assert_int_equal(result.price.prefill.micro, 27500);
    assert_int_equal(result.shares[1].reprefill.micro, 27500);
}

/* 20 + 10 + 20 ids.  Reading 120 and 130 ids again is worth 1,200,000 and
 * 1,300,000; the fee of 150,000 is divided 12 to 13. */
static void
re_prefills_above_the_fee_divide_it_by_worth(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.attempts[1].ids = 10;
    s.attempts[2] = s.attempts[0];
    s.attempts[2].number = 3;
    s.attempts[2].done = 30;
    s.attempt_count = 3;
    compute(&s);
    assert_int_equal(result.shares[0].reprefill.micro, 0);
    assert_int_equal(result.shares[1].reprefill.micro, 72000);
    assert_int_equal(result.shares[2].reprefill.micro, 78000);
    assert_leg(result.leg_count - 1, 12, 1001, 78000);
    assert_int_equal(result.legs[0].code, 10); /* nothing left of the fee */
}

/* FLOP above 2*10^18 count as 2*10^18: 500,000 credits, of a fee of 900,000. */
static void
a_re_prefill_beyond_the_bound_is_worth_the_bound(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.price_model.flop_per_token = UINT64_C(18000000000000000);
    s.price_model.bytes_per_token = UINT64_C(9000000000000000);
    s.revision.fee_per_mille = 1000;
    compute(&s);
    assert_int_equal(result.price.prefill.micro, 450000000000);
    assert_int_equal(result.shares[1].reprefill.micro, 500000000000);
}

static void
an_attempt_that_delivered_nothing_is_paid_nothing(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.attempts[0].ids = 0;
    s.attempts[1].done = 0;
    s.attempts[1].ids = 50;
    compute(&s);
    assert_int_equal(result.leg_count, 3);
    assert_leg(0, 11, FEE_ACCOUNT, 150000);
    assert_leg(1, 10, 1002, 1425000);
    assert_leg(2, 10, 1003, 1425000);
}

/* The first attempt delivers, the second does not, the third ends the job. */
static void
an_attempt_that_read_again_in_vain_is_paid_nothing(void **state)
{
    struct settlement s = moved_job();

    (void)state;
    s.price_model.flop_per_token = UINT64_C(1000000000);
    s.attempts[2] = s.attempts[1];
    s.attempts[2].number = 3;
    s.attempts[1].ids = 0;
    s.attempts[1].members[0].account = 1004;
    s.attempts[1].members[1].account = 1005;
    s.attempt_count = 3;
    compute(&s);
    assert_leg(0, 11, FEE_ACCOUNT, 71250);
    for (size_t i = 0; i < result.leg_count; i++)
        assert_int_not_equal(result.legs[i].attempt, 2);
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
    "{\"v\":2,\"job\":\"019adf00-0000-7000-8000-0000000000aa\","
    "\"model\":\"tiny-chat\",\"model_digest\":\"ab12\",\"payer\":1000,"
    "\"fee_account\":2,\"n_in\":100,\"n_cached\":0,\"n_out\":50,"
    "\"context\":164,\"finish\":\"stop\","
    "\"price\":{\"revision\":1,\"class_per_mille\":1000,"
    "\"prefill_ucr\":1000000,\"decode_ucr\":2000000,\"fee_ucr\":150000,"
    "\"total_ucr\":3000000},"
    "\"attempts\":[{\"number\":1,\"pod\":null,\"done\":0,\"ids\":20,"
    "\"end_reason\":\"node_lost\",\"prefill_ucr\":950000,"
    "\"decode_ucr\":760000,\"reprefill_ucr\":0,\"members\":["
    "{\"node\":\"019adf00-0000-7000-8000-00000000000a\",\"account\":1001,"
    "\"weight\":7}]},"
    "{\"number\":2,\"pod\":\"019adf00-0000-7000-8000-0000000000bc\","
    "\"done\":20,\"ids\":30,\"end_reason\":\"done\",\"prefill_ucr\":0,"
    "\"decode_ucr\":1140000,\"reprefill_ucr\":150000,\"members\":["
    "{\"node\":\"019adf00-0000-7000-8000-00000000000b\",\"account\":1002,"
    "\"weight\":5},"
    "{\"node\":\"019adf00-0000-7000-8000-00000000000c\",\"account\":1003,"
    "\"weight\":5}]}]}";
static const char expected_digest[] =
    "45ac9b063d148b5f5e60d333a5c3ad3b5da4cae557df87c561b8e6f8207f882d";

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
    s.attempts[1].done = 21; /* 20 were delivered before it */
    assert_refused(&s);
    s = moved_job();
    s.attempts[0].done = 1;
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
        TEST(a_re_prefill_below_the_fee_is_paid_its_worth),
        TEST(an_attempt_that_was_given_nothing_read_the_prompt),
        TEST(re_prefills_above_the_fee_divide_it_by_worth),
        TEST(a_re_prefill_beyond_the_bound_is_worth_the_bound),
        TEST(an_attempt_that_delivered_nothing_is_paid_nothing),
        TEST(an_attempt_that_read_again_in_vain_is_paid_nothing),
        TEST(the_smallest_charge_is_settled_whole),
        TEST(the_record_has_one_spelling_and_its_digest),
        TEST(what_does_not_add_up_is_refused),
    };

    return cmocka_run_group_tests_name("ledger_settlement", tests, NULL, NULL);
}
