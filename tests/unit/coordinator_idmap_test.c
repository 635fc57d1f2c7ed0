/* coordinator_idmap_test.c - the map against a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "common/prng.h"
#include "coordinator/idmap.h"

#include "common/banned.h"

enum { IDS = 300, STEPS = 20000 };

static void
random_steps_leave_what_a_plain_list_holds(void **state)
{
    static char ids[IDS][UUID_TEXT_BYTES];
    static int values[IDS];
    void *held[IDS] = {0};
    struct idmap map = {0};
    struct prng prng;
    size_t count = 0, seen = 0, at = 0;

    (void)state;
    prng_seed(&prng, 20261130);
    for (size_t i = 0; i < IDS; i++)
        snprintf(ids[i], sizeof(ids[i]), "%08x-0000-7000-8000-%012x",
                 (unsigned)prng_next(&prng), (unsigned)i);
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)prng_below(&prng, IDS);

        if (prng_below(&prng, 2) == 0) {
            idmap_put(&map, ids[i], &values[i]);
            held[i] = &values[i];
        } else {
            assert_ptr_equal(idmap_remove(&map, ids[i]), held[i]);
            held[i] = NULL;
        }
        i = (size_t)prng_below(&prng, IDS);
        assert_ptr_equal(idmap_get(&map, ids[i]), held[i]);
    }
    for (size_t i = 0; i < IDS; i++)
        count += held[i] != NULL;
    while (idmap_next(&map, &at) != NULL)
        seen++;
    assert_int_equal(map.count, count);
    assert_int_equal(seen, count);
    idmap_clear(&map);
}

static void
an_empty_map_answers_nothing(void **state)
{
    struct idmap map = {0};
    size_t at = 0;

    (void)state;
    assert_null(idmap_get(&map, "a"));
    assert_null(idmap_remove(&map, "a"));
    assert_null(idmap_next(&map, &at));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps_leave_what_a_plain_list_holds),
        cmocka_unit_test(an_empty_map_answers_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
