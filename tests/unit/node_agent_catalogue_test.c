/* node_agent_catalogue_test.c - the coordinator's list in parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "node-agent/catalogue.h"

#include "common/banned.h"

static void
give(struct known_models *known, const char *id, char digit, bool more)
{
    static struct wire_catalogue part;

    part.more = more;
    part.entry_count = 1;
    snprintf(part.entries[0].id, sizeof(part.entries[0].id), "%s", id);
    memset(part.entries[0].digest, digit, SHA256_HEX_BYTES - 1);
    known_models_take(known, &part);
}

static void
a_list_counts_when_its_last_part_is_there(void **state)
{
    static const char a[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const char b[] =
        "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    struct known_models known = {0};

    (void)state;
    give(&known, "first", 'a', true);
    assert_false(known.told);
    assert_null(known_models_id(&known, a));
    give(&known, "second", 'b', false);
    assert_true(known.told);
    assert_string_equal(known_models_id(&known, a), "first");
    assert_string_equal(known_models_id(&known, b), "second");
    known_models_clear(&known);
}

static void
a_new_list_replaces_the_old_one_whole(void **state)
{
    static const char a[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const char b[] =
        "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    struct known_models known = {0};

    (void)state;
    give(&known, "first", 'a', false);
    give(&known, "second", 'b', false);
    assert_null(known_models_id(&known, a));
    assert_string_equal(known_models_id(&known, b), "second");
    known_models_clear(&known);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_counts_when_its_last_part_is_there),
        cmocka_unit_test(a_new_list_replaces_the_old_one_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
