/* safetensors_fuzz.c - any bytes as the front of a .safetensors file: what is
 * accepted lies inside the file, without overlap and without hole. */
#include "model/safetensors.h"

#include <assert.h>
#include <string.h>

#include "common/banned.h"

enum { LENGTH_BYTES = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_tensor(const struct safetensors *file, const struct tensor_info *tensor)
{
    uint64_t bytes = dtype_bytes(tensor->dtype);

    assert(tensor->rank <= SAFETENSORS_RANK_MAX);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        assert(tensor->shape[i] == 0 || bytes <= UINT64_MAX / tensor->shape[i]);
        bytes *= tensor->shape[i];
    }
    assert(bytes == tensor->bytes);
    assert(tensor->offset >= file->header_bytes);
    assert(tensor->offset <= file->file_bytes);
    assert(tensor->bytes <= file->file_bytes - tensor->offset);
    assert(safetensors_find(file, tensor->name) == tensor);
}

static void
check_file(const struct safetensors *file)
{
    uint64_t covered = 0;

    for (size_t i = 0; i < file->tensor_count; i++) {
        check_tensor(file, &file->tensors[i]);
        assert(i == 0 ||
               strcmp(file->tensors[i - 1].name, file->tensors[i].name) < 0);
        covered += file->tensors[i].bytes;
    }
    assert(covered == file->file_bytes - file->header_bytes);
    assert(safetensors_find(file, "no such tensor") == NULL);
}

static void
parse(const uint8_t *data, size_t size, uint64_t file_bytes)
{
    struct safetensors file = {0};
    struct error err = {0};

    if (safetensors_parse(data, size, file_bytes, "a.safetensors", &file,
                          &err) != STATUS_OK) {
        assert(strstr(err.text, "a.safetensors") != NULL);
        assert(file.tensors == NULL);
        return;
    }
    check_file(&file);
    safetensors_clear(&file);
}

/* As a whole file; and as the front of a longer one, whose further length is in
 * the last two bytes. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(data, size, size);
    if (size >= LENGTH_BYTES) {
        uint64_t more = (uint64_t)data[size - 2] << 8 | data[size - 1];

        size -= LENGTH_BYTES;
        parse(data, size, size + more);
    }
    return 0;
}
