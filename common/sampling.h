/* sampling.h - the options by which an id is drawn, declared once.
 *
 * The link carries SAMPLING_FIELDS, the coordinator and the engine copy the
 * struct whole, and tests/property/seam_test.c draws each member at random
 * within its range and cuts answers at every id.  A new option is a member, a
 * line of SAMPLING_FIELDS and its use in inference/sampler.c; the table of
 * docs/link-protocol.md follows. */
#ifndef BERTH_COMMON_SAMPLING_H
#define BERTH_COMMON_SAMPLING_H

#include <stdint.h>

#include "common/field.h"

struct sampling {
    uint64_t seed;
    double temperature; /* 0: greedy */
    double top_p;       /* in (0, 1]; 1: off */
    uint32_t top_k;     /* 0: off */
};

#define SAMPLING_FIELD(base_, member_, ...)                                    \
    {                                                                          \
        .name = #member_,                                                      \
        .offset = (base_) + offsetof(struct sampling, member_),                \
        .size = sizeof(((struct sampling *)0)->member_), .required = true,     \
        .type = __VA_ARGS__                                                    \
    }

/* Members of a table whose struct has a struct sampling at @base_. */
#define SAMPLING_FIELDS(base_)                                                 \
    SAMPLING_FIELD(base_, seed, FIELD_U64),                                    \
        SAMPLING_FIELD(base_, temperature, FIELD_DOUBLE, .fmin = 0,            \
                       .fmax = 2),                                             \
        SAMPLING_FIELD(base_, top_p, FIELD_DOUBLE, .fmin = 0, .fmax = 1),      \
        SAMPLING_FIELD(base_, top_k, FIELD_U32)

#endif
