/* node_agent_models_test.c - digests of folders and when they are remembered.
 */
#include "node-agent/models.h"

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

#include "node-agent/digests.h"

/* cd tests/models/X; sha256sum FILES | sha256sum */
static const char *const digests_by_hand[] = {
    "49ee717ca4a64789a380d8d97f62a9c7e0d0eb01916b7bb6f8955fd9246a308b",
    "1db53fa47f5e3233a459f114b4f98bad938b63b2a60cf30344e738adbf729982",
    "fbf6fbf42f1c097c07bc1b9ee0a571bafe299f0761e3ee9511f18faabf73e8de",
};

static char folder[64];
static char cache[128];
static struct agent_config config;
static struct models_scan scan;

static int
set_up(void **state)
{
    char command[256];

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/berth-models-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(cache, sizeof(cache), "%s/digests", folder);
    snprintf(command, sizeof(command),
             "mkdir %s/m && cp -R tests/models/tiny-chat* %s/m/", folder,
             folder);
    config = (struct agent_config){.model_count = 1};
    snprintf(config.models[0], CONFIG_PATH_BYTES, "%s/m", folder);
    return system(command);
}

static int
tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void
folders_have_the_digests_of_their_files(void **state)
{
    (void)state;
    models_scan_folders(&config, cache, &scan);
    assert_int_equal(scan.trouble_count, 0);
    assert_int_equal(scan.model_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(scan.models[i].digest, digests_by_hand[i]);
    assert_true(scan.read_bytes > 0);
}

static void
unchanged_files_are_not_read_again(void **state)
{
    (void)state;
    models_scan_folders(&config, cache, &scan);
    models_scan_folders(&config, cache, &scan);
    assert_int_equal(scan.model_count, 3);
    assert_int_equal(scan.read_bytes, 0);
    assert_string_equal(scan.models[0].digest, digests_by_hand[0]);
}

static void
a_changed_file_gives_another_digest(void **state)
{
    char path[192];
    FILE *file;

    (void)state;
    models_scan_folders(&config, cache, &scan);
    snprintf(path, sizeof(path), "%s/m/tiny-chat/tokenizer_config.json",
             folder);
    file = fopen(path, "a");
    assert_non_null(file);
    fputc('\n', file);
    fclose(file);
    models_scan_folders(&config, cache, &scan);
    assert_int_equal(scan.model_count, 3);
    assert_true(scan.read_bytes > 0);
    assert_string_not_equal(scan.models[0].digest, digests_by_hand[0]);
    assert_string_equal(scan.models[1].digest, digests_by_hand[1]);
}

static void
a_broken_folder_is_named_and_the_others_stay(void **state)
{
    char path[192];

    (void)state;
    snprintf(path, sizeof(path), "%s/m/tiny-chat-4bit/model.safetensors",
             folder);
    assert_int_equal(truncate(path, 1000), 0);
    models_scan_folders(&config, cache, &scan);
    assert_int_equal(scan.model_count, 2);
    assert_int_equal(scan.trouble_count, 1);
    assert_non_null(strstr(scan.troubles[0].path, "tiny-chat-4bit"));
    assert_true(scan.troubles[0].reason[0] != '\0');
}

static void
a_copy_and_a_symlink_are_one_model(void **state)
{
    char from[192], to[192];

    (void)state;
    snprintf(from, sizeof(from), "%s/m/tiny-chat", folder);
    snprintf(to, sizeof(to), "%s/m/linked", folder);
    assert_int_equal(symlink(from, to), 0);
    models_scan_folders(&config, cache, &scan);
    assert_int_equal(scan.model_count, 3);
}

static void
a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    snprintf(config.models[0], CONFIG_PATH_BYTES, "%s/none", folder);
    models_scan_folders(&config, cache, &scan);
    assert_int_equal(scan.model_count, 0);
    assert_int_equal(scan.trouble_count, 1);
}

static void
a_damaged_cache_is_computed_again(void **state)
{
    static const char garbage[] = "zz zz zz\n\n\xff\xfe 0123\n";

    (void)state;
    assert_int_equal(
        file_write_whole(cache, garbage, sizeof(garbage) - 1, 0600, NULL),
        STATUS_OK);
    models_scan_folders(&config, cache, &scan);
    assert_int_equal(scan.model_count, 3);
    assert_string_equal(scan.models[0].digest, digests_by_hand[0]);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(folders_have_the_digests_of_their_files),
        CLAIM(unchanged_files_are_not_read_again),
        CLAIM(a_changed_file_gives_another_digest),
        CLAIM(a_broken_folder_is_named_and_the_others_stay),
        CLAIM(a_copy_and_a_symlink_are_one_model),
        CLAIM(a_folder_that_is_not_there_is_named),
        CLAIM(a_damaged_cache_is_computed_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
