/* mem.h - allocation that never fails: it aborts the process instead.
 *
 * Every length that comes from outside meets a named maximum before it gets
 * here.  Everything returned is freed with free(). */
#ifndef BERTH_COMMON_MEM_H
#define BERTH_COMMON_MEM_H

#include <stddef.h>

/* @size zeroed bytes; never NULL, also for 0. */
void *mem_alloc(size_t size);
/* @count zeroed items of @size bytes; aborts when the product overflows. */
void *mem_array(size_t count, size_t size);
/* realloc to @count items of @size bytes; new bytes are not zeroed. */
void *mem_grow(void *old, size_t count, size_t size);
void *mem_copy(const void *bytes, size_t size);
char *mem_text(const char *text);
/* @size bytes of @text and a NUL. */
char *mem_text_sized(const char *text, size_t size);

#endif
