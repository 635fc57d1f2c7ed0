/* runtime.c - the folder of the sockets. */
#include "node-agent/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/banned.h"

static const char FOLDER_NAME[] = "berth-";

/* Only folders that runtime_open made are ever emptied. */
static bool
is_ours(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat info;

    return slash != NULL &&
           strncmp(slash + 1, FOLDER_NAME, sizeof(FOLDER_NAME) - 1) == 0 &&
           lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
           info.st_uid == geteuid();
}

static void
remove_folder(const char *path)
{
    char file[RUNTIME_PATH_BYTES + 260];
    DIR *folder = is_ours(path) ? opendir(path) : NULL;
    struct dirent *entry;

    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL) {
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(file);
    }
    closedir(folder);
    rmdir(path);
}

static enum status
make_folder(const char *parent, struct runtime *runtime, struct error *err)
{
    char text[128];
    int size = snprintf(runtime->path, sizeof(runtime->path), "%s/%sXXXXXX",
                        parent, FOLDER_NAME);

    if (size < 0 || (size_t)size >= sizeof(runtime->path))
        return error_set(err, STATUS_TOO_LARGE, "%.200s: path too long",
                         parent);
    if (mkdtemp(runtime->path) == NULL)
        return error_set(err, STATUS_INTERNAL, "%s: %s", runtime->path,
                         error_errno(errno, text, sizeof(text)));
    return STATUS_OK;
}

enum status
runtime_open(const struct home *home, struct runtime *runtime,
             struct error *err)
{
    const char *preferred = getenv("XDG_RUNTIME_DIR");
    struct runtime old;
    enum status status = STATUS_NOT_FOUND;

    if (runtime_find(home, &old, NULL) == STATUS_OK)
        remove_folder(old.path);
    if (preferred != NULL && preferred[0] == '/')
        status = make_folder(preferred, runtime, NULL);
    if (status != STATUS_OK)
        status = make_folder("/tmp", runtime, err);
    if (status == STATUS_OK)
        status = home_write(home, "control", runtime->path,
                            strlen(runtime->path), err);
    return status;
}

void
runtime_close(const struct home *home, struct runtime *runtime)
{
    remove_folder(runtime->path);
    home_remove(home, "control");
}

enum status
runtime_find(const struct home *home, struct runtime *runtime,
             struct error *err)
{
    struct buf text;
    enum status status = home_read(home, "control", &text, NULL);

    if (status == STATUS_OK && text.size < sizeof(runtime->path))
        snprintf(runtime->path, sizeof(runtime->path), "%s", text.data);
    else
        status = error_set(err, STATUS_NOT_FOUND,
                           "no berth-node runs with %.300s; start it with: "
                           "berth-node run",
                           home->path);
    buf_clear(&text);
    return status;
}
