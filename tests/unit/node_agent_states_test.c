/* node_agent_states_test.c - docs/architecture.md shows the agent's and the
 * engine's tables as the code has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "common/buf.h"
#include "node-agent/agent.h"
#include "node-agent/engine.h"

#include "common/banned.h"

static void
page_holds(const char *begin, const char *end, const struct buf *table)
{
    struct buf page;
    const char *from, *to;

    buf_init(&page, 1024 * 1024);
    assert_int_equal(buf_read_file(&page, "docs/architecture.md", NULL),
                     STATUS_OK);
    from = strstr(page.data, begin);
    assert_non_null(from);
    from += strlen(begin);
    to = strstr(from, end);
    assert_non_null(to);
    assert_int_equal(to - from, table->size);
    assert_memory_equal(from, table->data, table->size);
    buf_clear(&page);
}

static void
the_architecture_page_shows_the_agents_table(void **state)
{
    struct buf table;

    (void)state;
    buf_init(&table, 64 * 1024);
    agent_states_print(&table);
    page_holds("<!-- agent transitions -->\n", "<!-- end of agent transitions",
               &table);
    buf_clear(&table);
}

static void
the_architecture_page_shows_the_engines_table(void **state)
{
    struct buf table;

    (void)state;
    buf_init(&table, 64 * 1024);
    engine_states_print(&table);
    page_holds("<!-- engine transitions -->\n",
               "<!-- end of engine transitions", &table);
    buf_clear(&table);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_architecture_page_shows_the_agents_table),
        cmocka_unit_test(the_architecture_page_shows_the_engines_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
