/* price.h - the price of a job from bytes moved and FLOP, in integers.
 *
 *   D = n_out*Wb + kv*(n_out*n_in + n_out*(n_out+1)/2)     bytes of decode
 *   F = (n_in-n_cached)*fl + at*(n_in^2 - n_cached^2)      FLOP of prefill
 *   P = max(P_min, ceil(class*(a*F + 1000*b*D) / (1000*10^12)))
 *
 * in unsigned 128-bit arithmetic, checked.  Source of the formula and of the
 * constants: docs/ledger.md.  Pure; no floating point. */
#ifndef BERTH_LEDGER_PRICE_H
#define BERTH_LEDGER_PRICE_H

#include <stdint.h>

#include "common/attrs.h"
#include "common/error.h"
#include "common/units.h"

enum { PRICE_CLASSES = 5 };

/* One published revision. */
struct price_revision {
    uint32_t revision;
    uint64_t ucr_per_tflop; /* a, <= 10^6 */
    uint64_t ucr_per_gb;    /* b, <= 10^6 */
    uint64_t minimum_ucr;   /* P_min */
    uint64_t fee_per_mille; /* <= 1000 */
    /* Footprint classes: up to limit bytes resident costs per mille. The last
     * limit is UINT64_MAX. */
    uint64_t class_limit_bytes[PRICE_CLASSES];
    uint64_t class_per_mille[PRICE_CLASSES];
};

/* Revision 1: a 250,000, b 10,000, minimum 1,000, fee 50; classes 12, 40, 96,
 * 192 GB and above at 1000, 1050, 1150, 1300, 1500. */
extern const struct price_revision price_revision_1;

/* What of the catalogue entry the price reads. */
struct price_model {
    uint64_t bytes_per_token;    /* Wb */
    uint64_t kv_bytes_per_token; /* kv */
    uint64_t flop_per_token;     /* fl */
    uint64_t attention_flop;     /* at */
    uint64_t weight_bytes;       /* footprint = weights + KV at the context */
};

struct price {
    struct credits prefill; /* ceil of its share of the exact total */
    struct credits decode;  /* total - prefill, so that both sum exactly */
    struct credits total;
    struct credits fee; /* floor(total * fee_per_mille / 1000) */
    uint64_t class_per_mille;
};

/* What a job makes a target do. */
struct price_work {
    uint64_t bytes; /* D */
    uint64_t flop;  /* F */
};
/* STATUS_TOO_LARGE beyond a bound, STATUS_INVALID when n_cached > n_in. */
MUST_CHECK enum status price_work(const struct price_model *model,
                                  uint64_t n_in, uint64_t n_cached,
                                  uint64_t n_out, struct price_work *work,
                                  struct error *err);

/* @context: positions the job reserves (decides the footprint class).
 * STATUS_TOO_LARGE when a bound (F, D <= 2*10^18) or CREDITS_MAX is passed;
 * STATUS_INVALID when n_cached > n_in. */
MUST_CHECK enum status price_compute(const struct price_revision *revision,
                                     const struct price_model *model,
                                     uint64_t n_in, uint64_t n_cached,
                                     uint64_t n_out, uint64_t context,
                                     struct price *price, struct error *err);

/* The prefill term alone for @ids prompt ids, none of them cached, rounded
 * down and without a minimum; FLOP above the bound count as the bound.  @ids
 * at most 2^32. @revision within its bounds (price_compute checks). */
struct credits price_reprefill(const struct price_revision *revision,
                               const struct price_model *model,
                               uint64_t class_per_mille, uint64_t ids);

#endif
