/* profile.c - system_profiler and sysctl outputs from files. */
#include "node-agent/profile.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/units.h"

#include "common/banned.h"

enum {
    RECORD_MAX_BYTES = 1024 * 1024,
    RECORD_PATH_BYTES = 4096 + 260,
    MEMORY_MOST_GIB = 65536,
    CORES_MOST = 4096,
    WIRED_MOST_MB = 64 * 1024 * 1024,
};

/* Copy a text member that fits; anything else leaves @to alone. */
static bool
take_text(const struct json *value, char *to, size_t to_size)
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);

    if (text == NULL || size == 0 || size >= to_size ||
        memchr(text, '\0', size) != NULL)
        return false;
    memcpy(to, text, size);
    to[size] = '\0';
    return true;
}

/* "128 GB" are GiB, as Apple sells them; "1 TB" are 1024 of them. */
static bool
take_memory(const struct json *value, uint64_t *bytes)
{
    char text[32];
    size_t digits;
    uint64_t number;

    if (!take_text(value, text, sizeof(text)))
        return false;
    digits = strspn(text, "0123456789");
    if (parse_u64(text, digits, MEMORY_MOST_GIB, &number) != STATUS_OK ||
        number == 0)
        return false;
    if (strcmp(text + digits, " TB") == 0)
        number *= 1024;
    else if (strcmp(text + digits, " GB") != 0)
        return false;
    *bytes = number * GIB;
    return true;
}

/* "proc 16:12:4" or "proc 18:6:0:12": the first number is the total. */
static bool
take_cores(const struct json *value, uint64_t *cores)
{
    static const char prefix[] = "proc ";
    const char *number;
    char text[64];

    if (!take_text(value, text, sizeof(text)) ||
        strncmp(text, prefix, strlen(prefix)) != 0)
        return false;
    number = text + strlen(prefix);
    return parse_u64(number, strspn(number, "0123456789"), CORES_MOST, cores) ==
               STATUS_OK &&
           *cores > 0;
}

enum status
profile_hardware_parse(const char *text, size_t size, struct probe *probe,
                       struct error *err)
{
    struct wire_facts *facts = &probe->facts;
    const struct json *hardware;
    struct json_doc doc = {0};
    enum status status = json_doc_parse(text, size, &doc, err);

    if (status != STATUS_OK)
        return status;
    hardware = json_at(json_get(doc.root, "SPHardwareDataType"), 0);
    if (hardware == NULL) {
        status = error_set(err, STATUS_INVALID, "no SPHardwareDataType in it");
    } else {
        if (!take_text(json_get(hardware, "chip_type"), facts->chip,
                       sizeof(facts->chip)))
            probe_note(probe, "chip", "sp_hardware has no chip_type");
        facts->has_model_identifier =
            take_text(json_get(hardware, "machine_model"),
                      facts->model_identifier, sizeof(facts->model_identifier));
        facts->has_memory_bytes = take_memory(
            json_get(hardware, "physical_memory"), &facts->memory_bytes);
        facts->has_cores =
            take_cores(json_get(hardware, "number_processors"), &facts->cores);
    }
    json_doc_clear(&doc);
    return status;
}

/* The value of "name: value" on a line of its own; NULL when there is none. */
static const char *
sysctl_value(const char *text, const char *name, size_t *size)
{
    size_t name_size = strlen(name);

    while (*text != '\0') {
        size_t line = strcspn(text, "\n");

        if (line > name_size + 1 && strncmp(text, name, name_size) == 0 &&
            text[name_size] == ':') {
            const char *value = text + name_size + 1;

            value += strspn(value, " ");
            *size = strcspn(value, "\r\n");
            return value;
        }
        text += line + (text[line] == '\n' ? 1 : 0);
    }
    return NULL;
}

static bool
sysctl_number(const char *text, const char *name, uint64_t most,
              uint64_t *number)
{
    size_t size = 0;
    const char *value = sysctl_value(text, name, &size);

    return value != NULL && parse_u64(value, size, most, number) == STATUS_OK;
}

static bool
sysctl_text(const char *text, const char *name, char *to, size_t to_size)
{
    size_t size = 0;
    const char *value = sysctl_value(text, name, &size);

    if (value == NULL || size == 0 || size >= to_size)
        return false;
    snprintf(to, to_size, "%.*s", (int)size, value);
    return true;
}

/* Fill what sp_hardware left open; a contradiction is noted and sp_hardware,
 * which says more, believed. */
enum status
profile_sysctl_parse(const char *text, size_t size, struct probe *probe,
                     struct error *err)
{
    struct wire_facts *facts = &probe->facts;
    char chip[WIRE_NAME_BYTES];
    uint64_t number;

    if (memchr(text, '\0', size) != NULL || strchr(text, ':') == NULL)
        return error_set(err, STATUS_INVALID, "no \"name: value\" lines");
    if (sysctl_text(text, "machdep.cpu.brand_string", chip, sizeof(chip))) {
        if (facts->chip[0] == '\0')
            snprintf(facts->chip, sizeof(facts->chip), "%s", chip);
        else if (strcmp(facts->chip, chip) != 0)
            return error_set(err, STATUS_INVALID,
                             "is of another Mac than sp_hardware");
    }
    if (!facts->has_model_identifier)
        facts->has_model_identifier =
            sysctl_text(text, "hw.model", facts->model_identifier,
                        sizeof(facts->model_identifier));
    if (!facts->has_memory_bytes &&
        sysctl_number(text, "hw.memsize", MEMORY_MOST_GIB * GIB, &number) &&
        number > 0) {
        facts->has_memory_bytes = true;
        facts->memory_bytes = number;
    }
    if (!facts->has_cores)
        facts->has_cores =
            sysctl_number(text, "hw.ncpu", CORES_MOST, &facts->cores) &&
            facts->cores > 0;
    probe->has_wired_limit_mb = sysctl_number(
        text, "iogpu.wired_limit_mb", WIRED_MOST_MB, &probe->wired_limit_mb);
    return STATUS_OK;
}

/* --- files --- */

/* The one file in @folder whose name starts with @prefix. */
static enum status
find_record(const char *folder, const char *prefix, char *path,
            size_t path_size, struct error *err)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    size_t count = 0;
    char text[128];

    if (dir == NULL)
        return error_set(err, STATUS_NOT_FOUND, "%s: %s", folder,
                         error_errno(errno, text, sizeof(text)));
    while ((entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            snprintf(path, path_size, "%s/%s", folder, entry->d_name);
            count++;
        }
    closedir(dir);
    if (count == 1)
        return STATUS_OK;
    if (count == 0)
        return error_set(err, STATUS_NOT_FOUND,
                         "no file named %s... in the profile", prefix);
    return error_set(err, STATUS_CONFLICT,
                     "%zu files named %s... in the profile; one must be left",
                     count, prefix);
}

typedef enum status record_parser(const char *text, size_t size,
                                  struct probe *probe, struct error *err);

static enum status
read_record(const char *folder, const char *prefix, record_parser *parse,
            struct probe *probe, struct error *err)
{
    char path[RECORD_PATH_BYTES];
    struct buf text;
    enum status status = find_record(folder, prefix, path, sizeof(path), err);

    if (status != STATUS_OK)
        return status;
    buf_init(&text, RECORD_MAX_BYTES);
    status = buf_read_file(&text, path, err);
    if (status == STATUS_OK)
        status = parse(text.data, text.size, probe, err);
    buf_clear(&text);
    return status;
}

/* Whatever is still open gets the reason of the file that would tell. */
static void
note_missing(struct probe *probe, const char *reason)
{
    const struct wire_facts *facts = &probe->facts;

    if (facts->chip[0] == '\0')
        probe_note(probe, "chip", reason);
    if (!facts->has_model_identifier)
        probe_note(probe, "model_identifier", reason);
    if (!facts->has_memory_bytes) {
        probe_note(probe, "memory_bytes", reason);
        probe_note(probe, "working_set_limit_bytes", reason);
    }
    if (!facts->has_cores)
        probe_note(probe, "cores", reason);
}

void
profile_read(const char *folder, struct probe *probe)
{
    char reason[PROBE_REASON_BYTES];
    struct error hardware = {0};
    struct error sysctl = {0};
    enum status status;

    snprintf(probe->facts.os, sizeof(probe->facts.os), "macos");
    status = read_record(folder, "sp_hardware", profile_hardware_parse, probe,
                         &hardware);
    if (read_record(folder, "sysctl", profile_sysctl_parse, probe, &sysctl) !=
        STATUS_OK) {
        snprintf(reason, sizeof(reason), "sysctl: %.200s", sysctl.text);
        probe_note(probe, "wired_limit_mb", reason);
    }
    if (status != STATUS_OK)
        snprintf(reason, sizeof(reason), "sp_hardware: %.200s", hardware.text);
    else
        snprintf(reason, sizeof(reason), "the recorded outputs do not tell");
    note_missing(probe, reason);
}
