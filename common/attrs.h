/* attrs.h - compiler attributes and the few macros every component uses. */
#ifndef BERTH_COMMON_ATTRS_H
#define BERTH_COMMON_ATTRS_H

#include <stddef.h>

/* The result of this function may not be ignored. */
#define MUST_CHECK __attribute__((warn_unused_result))
/* Arguments follow printf; @at is the index of the format, from 1. */
#define PRINTF_LIKE(at, first) \
    __attribute__((format(printf, at, first)))
#define NORETURN __attribute__((noreturn))

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define KIB ((uint64_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

#endif
