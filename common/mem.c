/* mem.c - allocation that aborts instead of failing. */
#include "common/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attrs.h"
#include "common/banned.h"

static NORETURN void
out_of_memory(size_t size)
{
    (void)fprintf(stderr, "out of memory: %zu bytes\n", size);
    abort();
}

/* The size of @count items; a product over the address space cannot be had. */
static size_t
array_size(size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        out_of_memory(SIZE_MAX);
    return count * size;
}

void *
mem_alloc(size_t size)
{
    void *memory = calloc(1, size > 0 ? size : 1);

    if (memory == NULL)
        out_of_memory(size);
    return memory;
}

void *
mem_array(size_t count, size_t size)
{
    return mem_alloc(array_size(count, size));
}

void *
mem_grow(void *old, size_t count, size_t size)
{
    size_t bytes = array_size(count, size);
    void *memory = realloc(old, bytes > 0 ? bytes : 1);

    if (memory == NULL)
        out_of_memory(bytes);
    return memory;
}

void *
mem_copy(const void *bytes, size_t size)
{
    void *copy = mem_alloc(size);

    if (size > 0)
        memcpy(copy, bytes, size);
    return copy;
}

char *
mem_text(const char *text)
{
    return mem_text_sized(text, strlen(text));
}

char *
mem_text_sized(const char *text, size_t size)
{
    char *copy;

    if (size == SIZE_MAX)
        out_of_memory(size);
    copy = mem_alloc(size + 1);
    if (size > 0)
        memcpy(copy, text, size);
    return copy;
}
