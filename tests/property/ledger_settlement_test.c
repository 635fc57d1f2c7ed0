/* ledger_settlement_test.c - who is paid how much, against a second
 * implementation, and laws that hold for every settlement. */
#include "ledger/settlement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/prng.h"

#include "common/banned.h"

enum {
    FEE_ACCOUNT = 2,
    FIRST_ACCOUNT = 1000,
    CODE_EARNING = 10,
    CODE_FEE = 11,
    CODE_REPREFILL = 12,
    RECORD_MAX_BYTES = 256 * 1024,
    LAWS_COUNT = 5000,
    ROWS_MIN = 300,
};

#define SEED UINT64_C(20261201)

static struct settlement settlement;
static struct settlement_result result;
static struct buf record;
static struct error err;

/* --- the second implementation -------------------------------------------- */

/* Words of the golden table, with blanks and ends of lines between them. */
struct words {
    const char *at;
    size_t line;
};

static const char *
word_next(struct words *words, size_t *size)
{
    const char *word;

    words->at += strspn(words->at, " \n");
    word = words->at;
    *size = strcspn(word, " \n");
    words->at += *size;
    return word;
}

static uint64_t
number_next(struct words *words)
{
    size_t size;
    const char *word = word_next(words, &size);
    uint64_t number = 0;

    if (parse_u64(word, size, UINT64_MAX, &number) != STATUS_OK)
        fail_msg("line %zu: no number: %.*s", words->line, (int)size, word);
    return number;
}

static void
uuid_next(struct words *words, char uuid[static UUID_TEXT_BYTES])
{
    size_t size;
    const char *word = word_next(words, &size);

    assert_int_equal(size, UUID_TEXT_BYTES - 1);
    memcpy(uuid, word, size);
    uuid[size] = '\0';
}

static void
revision_read(struct words *words, struct price_revision *revision)
{
    *revision = price_revision_1; /* the limits of the classes */
    revision->ucr_per_tflop = number_next(words);
    revision->ucr_per_gb = number_next(words);
    revision->minimum_ucr = number_next(words);
    revision->fee_per_mille = number_next(words);
    for (int i = 0; i < PRICE_CLASSES; i++)
        revision->class_per_mille[i] = number_next(words);
}

static void
attempts_read(struct words *words)
{
    int64_t account = FIRST_ACCOUNT;

    settlement.attempt_count = number_next(words);
    assert_true(settlement.attempt_count <= SETTLEMENT_ATTEMPTS_MAX);
    for (size_t i = 0; i < settlement.attempt_count; i++) {
        struct settlement_attempt *attempt = &settlement.attempts[i];

        attempt->number = (uint32_t)number_next(words);
        attempt->done = number_next(words);
        attempt->ids = number_next(words);
        attempt->member_count = number_next(words);
        assert_true(attempt->member_count <= SETTLEMENT_MEMBERS_MAX);
        for (size_t j = 0; j < attempt->member_count; j++) {
            uuid_next(words, attempt->members[j].node);
            attempt->members[j].weight = number_next(words);
            attempt->members[j].account = account++;
        }
    }
}

static void
job_read(struct words *words)
{
    settlement = (struct settlement){.finish = "stop"};
    uuid_next(words, settlement.job);
    revision_read(words, &settlement.revision);
    settlement.price_model.bytes_per_token = number_next(words);
    settlement.price_model.kv_bytes_per_token = number_next(words);
    settlement.price_model.flop_per_token = number_next(words);
    settlement.price_model.attention_flop = number_next(words);
    settlement.price_model.weight_bytes = number_next(words);
    settlement.n_in = number_next(words);
    settlement.n_cached = number_next(words);
    settlement.n_out = number_next(words);
    settlement.context = number_next(words);
    attempts_read(words);
}

static void
compute(size_t line)
{
    buf_reset(&record);
    if (settlement_compute(&settlement, FEE_ACCOUNT, &result, &record, &err) !=
        STATUS_OK)
        fail_msg("seed or line %zu: %s", line, err.text);
}

static void
expect_number(struct words *words, int64_t got, const char *what, size_t index)
{
    uint64_t expected = number_next(words);

    if (expected != (uint64_t)got)
        fail_msg("line %zu: %s %zu is %lld, not %llu", words->line, what, index,
                 (long long)got, (unsigned long long)expected);
}

static void
compare(struct words *words)
{
    for (size_t i = 0; i < settlement.attempt_count; i++) {
        expect_number(words, result.shares[i].prefill.micro, "prefill", i);
        expect_number(words, result.shares[i].decode.micro, "decode", i);
        expect_number(words, result.shares[i].reprefill.micro, "re-prefill", i);
    }
    expect_number(words, (int64_t)result.leg_count, "count of legs", 0);
    for (size_t i = 0; i < result.leg_count; i++) {
        expect_number(words, result.legs[i].code, "code of leg", i);
        expect_number(words, result.legs[i].account, "account of leg", i);
        expect_number(words, result.legs[i].amount.micro, "amount of leg", i);
    }
}

static void
equals_the_big_integer_implementation(void **state)
{
    struct buf text;
    struct words words = {.line = 1};

    (void)state;
    buf_init(&text, 1024 * 1024);
    if (buf_read_file(&text, "tests/golden/ledger_division.tsv", &err) !=
        STATUS_OK)
        fail_msg("%s", err.text);
    words.at = strchr(text.data, '\n') + 1; /* the first line names the words */
    while (*words.at != '\0') {
        words.line++;
        job_read(&words);
        compute(words.line);
        compare(&words);
        assert_int_equal(*words.at, '\n');
        words.at++;
    }
    assert_true(words.line > ROWS_MIN);
    buf_clear(&text);
}

/* --- laws ----------------------------------------------------------------- */

static void
attempt_random(struct prng *prng, size_t index, uint64_t given, uint64_t ids)
{
    struct settlement_attempt *attempt = &settlement.attempts[index];

    attempt->number = (uint32_t)index + 1;
    attempt->ids = ids;
    attempt->done =
        prng_below(prng, 2) == 0 ? given : prng_below(prng, given + 1);
    attempt->member_count = 1 + prng_below(prng, SETTLEMENT_MEMBERS_MAX);
    for (size_t j = 0; j < attempt->member_count; j++) {
        struct settlement_member *member = &attempt->members[j];
        uint64_t name = prng_next(prng);

        (void)snprintf(member->node, sizeof(member->node),
                       "%08x-%04x-%04x-8000-%012zx", (uint32_t)(name >> 32),
                       (unsigned)(name >> 16 & 0xffff),
                       (unsigned)(name & 0xffff), index * 16 + j);
        member->account =
            FIRST_ACCOUNT + (int64_t)(index * SETTLEMENT_MEMBERS_MAX + j);
        member->weight = 1 + prng_below(prng, UINT64_C(1) << 40);
    }
}

static void
settlement_random(struct prng *prng)
{
    static const uint64_t fees[] = {0, 1, 50, 50, 500, 1000};
    uint64_t given = 0;

    settlement = (struct settlement){.finish = "stop"};
    (void)snprintf(settlement.job, sizeof(settlement.job),
                   "00000000-0000-7000-8000-%012llx",
                   (unsigned long long)prng_below(prng, UINT64_C(1) << 48));
    settlement.revision = price_revision_1;
    settlement.revision.ucr_per_tflop = prng_below(prng, 1000001);
    settlement.revision.ucr_per_gb = prng_below(prng, 1000001);
    settlement.revision.minimum_ucr = 1 + prng_below(prng, 2000);
    settlement.revision.fee_per_mille = fees[prng_below(prng, COUNT_OF(fees))];
    settlement.price_model = (struct price_model){
        .bytes_per_token = prng_below(prng, UINT64_C(100000000000)),
        .kv_bytes_per_token = prng_below(prng, 1000000),
        .flop_per_token = prng_below(prng, UINT64_C(200000000000)),
        .attention_flop = prng_below(prng, 1000000),
        .weight_bytes = prng_below(prng, UINT64_C(300000000000)),
    };
    settlement.n_in = prng_below(prng, 5000);
    settlement.n_cached = prng_below(prng, settlement.n_in + 1);
    settlement.n_out = 1 + prng_below(prng, 2000);
    settlement.context = settlement.n_in + settlement.n_out;
    settlement.attempt_count = 1 + prng_below(prng, 6);
    for (size_t i = 0; i < settlement.attempt_count; i++) {
        uint64_t left = settlement.n_out - given;
        bool is_last = i + 1 == settlement.attempt_count;
        uint64_t ids = is_last                    ? left
                       : prng_below(prng, 4) == 0 ? 0
                                                  : prng_below(prng, left + 1);

        attempt_random(prng, i, given, ids);
        given += ids;
    }
}

/* What accounts got by legs of @code; all of them when it is 0. */
static int64_t
paid(const struct settlement_result *of, int code, int64_t account)
{
    int64_t sum = 0;

    for (size_t i = 0; i < of->leg_count; i++)
        if ((code == 0 || of->legs[i].code == code) &&
            (account == 0 || of->legs[i].account == account))
            sum += of->legs[i].amount.micro;
    return sum;
}

static void
check_legs(size_t seed)
{
    int64_t again = paid(&result, CODE_REPREFILL, 0);

    for (size_t i = 0; i < result.leg_count; i++)
        assert_true(result.legs[i].amount.micro > 0);
    if (paid(&result, 0, 0) != result.price.total.micro)
        fail_msg("seed %zu: the legs are not the price", seed);
    if (paid(&result, CODE_FEE, FEE_ACCOUNT) + again != result.price.fee.micro)
        fail_msg("seed %zu: fee and re-prefills are not the job's fee", seed);
    if (settlement.attempt_count == 1 && again != 0)
        fail_msg("seed %zu: an undisturbed job has a re-prefill", seed);
}

static void
check_attempt(size_t index, size_t seed)
{
    const struct settlement_attempt *attempt = &settlement.attempts[index];
    const struct settlement_share *share = &result.shares[index];
    int64_t earned = 0, again = 0;

    for (size_t j = 0; j < attempt->member_count; j++) {
        earned += paid(&result, CODE_EARNING, attempt->members[j].account);
        again += paid(&result, CODE_REPREFILL, attempt->members[j].account);
    }
    if (earned != share->prefill.micro + share->decode.micro ||
        again != share->reprefill.micro)
        fail_msg("seed %zu: attempt %zu has other legs than shares", seed,
                 index);
    if (attempt->ids == 0 && earned + again != 0)
        fail_msg("seed %zu: attempt %zu is paid for nothing", seed, index);
}

static void
members_reverse(void)
{
    for (size_t i = 0; i < settlement.attempt_count; i++) {
        struct settlement_attempt *attempt = &settlement.attempts[i];

        for (size_t j = 0; j < attempt->member_count / 2; j++) {
            struct settlement_member *a = &attempt->members[j];
            struct settlement_member *b =
                &attempt->members[attempt->member_count - 1 - j];
            struct settlement_member kept = *a;

            *a = *b;
            *b = kept;
        }
    }
}

static void
check_order(size_t seed)
{
    static struct settlement_result before;

    before = result;
    members_reverse();
    compute(seed);
    for (size_t i = 0; i < before.leg_count; i++) {
        int64_t account = before.legs[i].account;
        int code = before.legs[i].code;

        if (paid(&before, code, account) != paid(&result, code, account))
            fail_msg("seed %zu: the order of members decides", seed);
    }
    assert_int_equal(before.leg_count, result.leg_count);
}

static void
every_settlement_keeps_the_laws(void **state)
{
    int with_reprefill = 0, with_fee_left = 0;

    (void)state;
    for (size_t i = 0; i < LAWS_COUNT; i++) {
        struct prng prng;

        prng_seed(&prng, SEED + i);
        settlement_random(&prng);
        compute(SEED + i);
        check_legs(SEED + i);
        for (size_t j = 0; j < settlement.attempt_count; j++)
            check_attempt(j, SEED + i);
        if (paid(&result, CODE_REPREFILL, 0) > 0) {
            with_reprefill++;
            with_fee_left += paid(&result, CODE_FEE, 0) > 0 ? 1 : 0;
        }
        check_order(SEED + i);
    }
    assert_true(with_reprefill > LAWS_COUNT / 4);
    assert_true(with_fee_left > LAWS_COUNT / 50);
    assert_true(with_reprefill - with_fee_left > LAWS_COUNT / 50);
}

static int
set_up(void **state)
{
    (void)state;
    buf_init(&record, RECORD_MAX_BYTES);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    buf_clear(&record);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_big_integer_implementation),
        cmocka_unit_test(every_settlement_keeps_the_laws),
    };

    return cmocka_run_group_tests_name("ledger_settlement_laws", tests, set_up,
                                       tear_down);
}
