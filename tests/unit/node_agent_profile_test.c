/* node_agent_profile_test.c - recorded outputs of Macs, whole and damaged. */
#include "node-agent/profile.h"

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

#include "common/buf.h"
#include "common/json.h"

enum { FILE_MAX_BYTES = 65536 };

static char folder[64];

static int
set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/berth-profile-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
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
put(const char *name, const char *text, size_t size)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(file_write_whole(path, text, size, 0600, NULL), STATUS_OK);
}

static void
copy(const char *name)
{
    char path[128];
    struct buf text;

    snprintf(path, sizeof(path), "tests/data/macos/%s", name);
    buf_init(&text, FILE_MAX_BYTES);
    assert_int_equal(buf_read_file(&text, path, NULL), STATUS_OK);
    put(name, text.data, text.size);
    buf_clear(&text);
}

static bool
is_noted(const struct probe *probe, const char *field)
{
    for (size_t i = 0; i < probe->unknown_count; i++)
        if (strcmp(probe->unknown[i].field, field) == 0)
            return probe->unknown[i].reason[0] != '\0';
    return false;
}

static void
a_studio_is_read_whole(void **state)
{
    struct probe probe;

    (void)state;
    copy("sp_hardware_macstudio_m3ultra.json");
    copy("sysctl_m3ultra_512.txt");
    probe_profile(folder, 0, &probe);
    assert_true(probe.simulated);
    assert_string_equal(probe.facts.os, "macos");
    assert_string_equal(probe.facts.chip, "Apple M3 Ultra");
    assert_string_equal(probe.facts.model_identifier, "Mac15,14");
    assert_int_equal(probe.facts.memory_bytes, 549755813888);
    assert_int_equal(probe.facts.cores, 32);
    assert_true(probe.facts.bandwidth_gb_s == 819.0);
    assert_false(probe.facts.bandwidth_measured);
    assert_int_equal(probe.facts.gpu_cores, 80);
    /* wired_limit_mb is 0: the older rule's 384 GiB. */
    assert_int_equal(probe.facts.limit_bytes, 384 * GIB);
    assert_string_equal(probe.facts.limit_source, "table");
    assert_int_equal(probe.unknown_count, 0);
}

static void
hardware_alone_gives_the_rest_a_reason(void **state)
{
    struct probe probe;

    (void)state;
    copy("sp_hardware_macbookpro_m5max.json");
    probe_profile(folder, 64 * GIB, &probe);
    assert_string_equal(probe.facts.chip, "Apple M5 Max");
    assert_int_equal(probe.facts.cores, 18); /* "proc 18:6:0:12" */
    assert_int_equal(probe.facts.memory_bytes, 128 * GIB);
    assert_true(probe.facts.bandwidth_gb_s == 614.0);
    assert_int_equal(probe.facts.limit_bytes, 64 * GIB);
    assert_string_equal(probe.facts.limit_source, "config");
    assert_true(is_noted(&probe, "wired_limit_mb"));
}

static void
a_raised_wired_limit_holds_but_not_past_the_memory(void **state)
{
    static const char raised[] = "hw.memsize: 137438953472\n"
                                 "iogpu.wired_limit_mb: 114688\n";
    static const char absurd[] = "hw.memsize: 137438953472\n"
                                 "iogpu.wired_limit_mb: 999999\n";
    struct probe probe;

    (void)state;
    put("sysctl.txt", raised, sizeof(raised) - 1);
    probe_profile(folder, 0, &probe);
    assert_int_equal(probe.facts.limit_bytes, 112 * GIB);
    assert_string_equal(probe.facts.limit_source, "sysctl");
    put("sysctl.txt", absurd, sizeof(absurd) - 1);
    probe_profile(folder, 0, &probe);
    assert_int_equal(probe.facts.limit_bytes, 128 * GIB);
}

static void
an_empty_folder_knows_nothing_and_says_why(void **state)
{
    struct probe probe;

    (void)state;
    probe_profile(folder, 0, &probe);
    assert_string_equal(probe.facts.chip, "");
    assert_false(probe.facts.has_memory_bytes);
    assert_false(probe.facts.has_limit_bytes);
    assert_false(probe.facts.has_bandwidth_gb_s);
    assert_true(is_noted(&probe, "chip"));
    assert_true(is_noted(&probe, "memory_bytes"));
    assert_true(is_noted(&probe, "bandwidth_gb_s"));
}

static void
two_records_of_one_command_are_none(void **state)
{
    struct probe probe;

    (void)state;
    copy("sp_hardware_macbookpro_m5max.json");
    copy("sp_hardware_macstudio_m3ultra.json");
    probe_profile(folder, 0, &probe);
    assert_string_equal(probe.facts.chip, "");
    assert_true(is_noted(&probe, "chip"));
}

static void
records_of_two_macs_are_not_mixed(void **state)
{
    struct probe probe;

    (void)state;
    copy("sp_hardware_macbookpro_m5max.json");
    copy("sysctl_m3ultra_512.txt");
    probe_profile(folder, 0, &probe);
    assert_string_equal(probe.facts.chip, "Apple M5 Max");
    assert_int_equal(probe.facts.memory_bytes, 128 * GIB);
    assert_true(is_noted(&probe, "wired_limit_mb"));
}

/* Whatever byte is missing, nothing is made up: a text is what the record
 * says or absent. */
static void
a_cut_record_never_gives_a_wrong_fact(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, FILE_MAX_BYTES);
    assert_int_equal(
        buf_read_file(&text, "tests/data/macos/sysctl_m3ultra_512.txt", NULL),
        STATUS_OK);
    for (size_t size = 0; size <= text.size; size++) {
        struct probe *probe = calloc(1, sizeof(*probe));
        char *part = calloc(1, size + 1);

        assert_non_null(probe);
        assert_non_null(part);
        memcpy(part, text.data, size);
        if (profile_sysctl_parse(part, size, probe, NULL) == STATUS_OK &&
            size == text.size)
            assert_true(probe->has_wired_limit_mb);
        if (profile_hardware_parse(part, size, probe, NULL) == STATUS_OK)
            fail();
        free(part);
        free(probe);
    }
    buf_clear(&text);
}

static void
hardware_of_the_wrong_shape_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"SPHardwareDataType\":[]}",
                                        "{\"SPHardwareDataType\":{}}",
                                        "{\"SPHardwareDataType\":7}"};
    static const char odd[] =
        "{\"SPHardwareDataType\":[{\"chip_type\":7,\"machine_model\":\"\","
        "\"physical_memory\":\"128 MB\",\"number_processors\":\"proc x\"}]}";
    struct probe probe = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_int_not_equal(
            profile_hardware_parse(texts[i], strlen(texts[i]), &probe, NULL),
            STATUS_OK);
    assert_int_equal(profile_hardware_parse(odd, strlen(odd), &probe, NULL),
                     STATUS_OK);
    assert_string_equal(probe.facts.chip, "");
    assert_false(probe.facts.has_memory_bytes);
    assert_false(probe.facts.has_cores);
    assert_false(probe.facts.has_model_identifier);
}

static void
the_output_is_json_with_null_for_the_unknown(void **state)
{
    struct json_doc doc = {0};
    struct probe probe;
    struct buf text;

    (void)state;
    probe_profile(folder, 0, &probe);
    buf_init(&text, FILE_MAX_BYTES);
    probe_write(&probe, &text);
    assert_int_equal(json_doc_parse(text.data, text.size, &doc, NULL),
                     STATUS_OK);
    assert_non_null(json_get(doc.root, "chip"));
    assert_true(json_is_null(json_get(doc.root, "chip")));
    assert_non_null(json_get(doc.root, "rdma"));
    assert_true(json_is_null(json_get(doc.root, "rdma")));
    assert_true(json_count(json_get(doc.root, "unknown")) >= 8);
    json_doc_clear(&doc);
    buf_clear(&text);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(a_studio_is_read_whole),
        CLAIM(hardware_alone_gives_the_rest_a_reason),
        CLAIM(a_raised_wired_limit_holds_but_not_past_the_memory),
        CLAIM(an_empty_folder_knows_nothing_and_says_why),
        CLAIM(two_records_of_one_command_are_none),
        CLAIM(records_of_two_macs_are_not_mixed),
        cmocka_unit_test(a_cut_record_never_gives_a_wrong_fact),
        cmocka_unit_test(hardware_of_the_wrong_shape_is_refused),
        CLAIM(the_output_is_json_with_null_for_the_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
