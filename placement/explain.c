/* explain.c - the words of placement: reasons, counts, the cheapest change. */
#include "placement/explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "placement/cost.h"
#include "placement/filter.h"

#include "common/banned.h"

enum { NUMBER_BYTES = 32 };

/* By bit, from the lowest. */
static const char *const capability_names[] = {
    "ids", "resume", "seed", "grammar", "logprobs", "embeddings", "batch",
};

/* Text in the caller's fixed storage; what does not fit is cut off. */
struct text {
    char *data;
    size_t size;
    size_t used;
};

static void append(struct text *text, const char *format, ...)
    PRINTF_LIKE(2, 3);

static void
append(struct text *text, const char *format, ...)
{
    va_list args;
    int written;

    va_start(args, format);
    written = vsnprintf(text->data + text->used, text->size - text->used,
                        format, args);
    va_end(args);
    if (written > 0)
        text->used += (size_t)written;
    if (text->used >= text->size)
        text->used = text->size - 1;
}

static void
append_bytes(struct text *text, uint64_t bytes)
{
    char number[NUMBER_BYTES];

    append(text, "%s", bytes_text(bytes, number, sizeof(number)));
}

/* Rounded up to the tenth that is printed, so that who acts on the number has
 * enough. */
static void
append_bytes_up(struct text *text, uint64_t bytes)
{
    uint64_t unit = 1;

    while (bytes / unit >= 1000 && unit < UINT64_C(1000000000000000))
        unit *= 1000;
    if (unit > 1 && bytes % (unit / 10) != 0 && bytes < UINT64_MAX - unit)
        bytes += unit / 10 - bytes % (unit / 10);
    append_bytes(text, bytes);
}

/* Seconds to the nearest millisecond. */
static void
append_seconds(struct text *text, int64_t ns)
{
    int64_t ms = ns / 1000000 + (ns % 1000000 >= 500000);

    append(text, "%" PRId64 ".%03" PRId64 " s", ms / 1000, ms % 1000);
}

const char *
explain_capability_name(uint32_t bit)
{
    for (uint32_t i = 0; i < COUNT_OF(capability_names); i++) {
        if (bit == (uint32_t)1 << i)
            return capability_names[i];
    }
    return "unknown";
}

static void
append_capabilities(struct text *text, uint32_t bits)
{
    const char *separator = "";

    for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        if ((bits & bit) == 0)
            continue;
        append(text, "%s%s", separator, explain_capability_name(bit));
        separator = ", ";
    }
}

/* --- one candidate --------------------------------------------------------*/

static void
append_terms(struct text *text, const struct place_candidate *candidate)
{
    append(text, "wait ");
    append_seconds(text, candidate->wait_ns);
    append(text, ", load ");
    append_seconds(text, candidate->load_ns);
    append(text, ", prefill ");
    append_seconds(text, candidate->prefill_ns);
    append(text, ", decode ");
    append_seconds(text, candidate->decode_ns);
}

static void
append_finish(struct text *text, const struct place_candidate *candidate)
{
    append(text, "finishes in ");
    append_seconds(text, candidate->finish_ns);
    append(text, " (");
    append_terms(text, candidate);
    append(text, ")");
}

static void
append_shortfall(struct text *text, const struct place_candidate *candidate)
{
    append(text, ": short by ");
    append_bytes(text, candidate->need_bytes - candidate->free_bytes);
}

/* The parts of the need: why it is what it is. */
static void
append_too_small(struct text *text, const struct place_demand *demand,
                 const struct place_candidate *candidate)
{
    struct cost_memory memory = cost_memory(demand, false);

    append(text, "needs ");
    append_bytes(text, memory.total_bytes);
    append(text, " (weights ");
    append_bytes(text, memory.weight_bytes);
    append(text, ", context ");
    append_bytes(text, memory.kv_bytes);
    append(text, ", the rest ");
    append_bytes(text,
                 memory.total_bytes - memory.weight_bytes - memory.kv_bytes);
    append(text, "), limit ");
    append_bytes(text, candidate->free_bytes);
    append_shortfall(text, candidate);
}

static void
append_no_memory_now(struct text *text, const struct place_target *target,
                     const struct place_candidate *candidate)
{
    append(text, "needs ");
    append_bytes(text, candidate->need_bytes);
    append(text, ", free now ");
    append_bytes(text, candidate->free_bytes);
    append(text, " of limit ");
    append_bytes(text, target->limit_bytes);
    append_shortfall(text, candidate);
}

static void
append_unverified(struct text *text, const struct place_demand *demand)
{
    uint64_t need = cost_memory(demand, false).total_bytes;

    append(text, "needs ");
    append_bytes(text, need);
    append(text, ", limit of an unverified target ");
    append_bytes(text, PLACE_UNVERIFIED_BYTES);
    append(text, ": over by ");
    append_bytes(text, need - PLACE_UNVERIFIED_BYTES);
}

void
explain_candidate(const struct place_target *target,
                  const struct place_demand *demand,
                  struct place_candidate *candidate, int64_t best_finish_ns)
{
    struct text text = {candidate->reason, sizeof(candidate->reason), 0};

    candidate->reason[0] = '\0';
    switch (candidate->verdict) {
    case PLACE_CHOSEN:
        append_finish(&text, candidate);
        append(&text, ", needs ");
        append_bytes(&text, candidate->need_bytes);
        append(&text, " of ");
        append_bytes(&text, candidate->free_bytes);
        append(&text, " free");
        break;
    case PLACE_SLOWER:
        append_finish(&text, candidate);
        append(&text, ", ");
        append_seconds(&text, candidate->finish_ns - best_finish_ns);
        append(&text, " later");
        break;
    case PLACE_NOT_IN_POOL:
        append(&text, "not in the pool that was asked for");
        break;
    case PLACE_NO_MODEL:
        append(&text, "the model's files are not on its disk");
        break;
    case PLACE_NO_CAPABILITY:
        append(&text, "its engine lacks: ");
        append_capabilities(&text,
                            demand->capabilities & ~target->capabilities);
        break;
    case PLACE_TOO_SMALL:
        append_too_small(&text, demand, candidate);
        break;
    case PLACE_UNVERIFIED:
        append_unverified(&text, demand);
        break;
    case PLACE_EXCLUDED:
        append(&text, "this job already failed here");
        break;
    case PLACE_OFFLINE:
        append(&text, "offline");
        break;
    case PLACE_NOT_LENDING:
        append(&text, "not lending now");
        break;
    case PLACE_NO_SLOT:
        append(&text, "%" PRIu32 " jobs running, limit %" PRIu32, target->jobs,
               target->slots);
        break;
    case PLACE_NO_MEMORY_NOW:
        append_no_memory_now(&text, target, candidate);
        break;
    case PLACE_VERDICT_COUNT:
        break;
    }
}

/* --- all candidates -------------------------------------------------------*/

static const char *const counted[PLACE_VERDICT_COUNT] = {
    [PLACE_CHOSEN] = "chosen",
    [PLACE_SLOWER] = "slower",
    [PLACE_NOT_IN_POOL] = "outside the pool",
    [PLACE_NO_MODEL] = "without the model",
    [PLACE_NO_CAPABILITY] = "without a needed capability",
    [PLACE_TOO_SMALL] = "too small",
    [PLACE_UNVERIFIED] = "unverified",
    [PLACE_EXCLUDED] = "where the job failed before",
    [PLACE_OFFLINE] = "offline",
    [PLACE_NOT_LENDING] = "not lending",
    [PLACE_NO_SLOT] = "with every slot taken",
    [PLACE_NO_MEMORY_NOW] = "with too little free memory",
};

static size_t
count_verdict(const struct place_candidate *candidates, size_t count,
              enum place_verdict verdict)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += candidates[i].verdict == verdict;
    return found;
}

/* How much the nearest miss of @verdict is short. */
static uint64_t
least_shortfall(const struct place_candidate *candidates, size_t count,
                enum place_verdict verdict)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        uint64_t missing;

        if (candidates[i].verdict != verdict)
            continue;
        missing = candidates[i].need_bytes - candidates[i].free_bytes;
        if (missing < least)
            least = missing;
    }
    return least;
}

static void
append_counts(struct text *text, const struct place_candidate *candidates,
              size_t count)
{
    const char *separator = ": ";

    append(text, "%zu target%s", count, count == 1 ? "" : "s");
    for (enum place_verdict v = 0; v < PLACE_VERDICT_COUNT; v++) {
        size_t found = count_verdict(candidates, count, v);

        if (found == 0)
            continue;
        append(text, "%s%zu %s", separator, found, counted[v]);
        separator = ", ";
        if (v != PLACE_TOO_SMALL && v != PLACE_NO_MEMORY_NOW)
            continue;
        append(text, " (%s short by ",
               v == PLACE_TOO_SMALL ? "largest" : "nearest");
        append_bytes(text, least_shortfall(candidates, count, v));
        append(text, ")");
    }
}

const char *
explain_counts(const struct place_candidate *candidates, size_t count,
               char *text, size_t text_size)
{
    struct text counts = {text, text_size, 0};

    append_counts(&counts, candidates, count);
    return text;
}

/* --- the cheapest change --------------------------------------------------*/

/* Would @target, idle and online, run @demand? */
static bool
could_run(const struct place_target *target, const struct place_demand *demand)
{
    struct place_candidate scratch = {0};

    return !filter_is_lasting(filter_target(target, demand, &scratch));
}

/* The most output that @target could hold; 0 when less output is no cure. */
static uint64_t
output_that_fits(const struct place_target *target,
                 const struct place_demand *demand)
{
    struct place_demand tried = *demand;
    uint64_t low = 0;
    uint64_t high = demand->output_tokens;

    while (high - low > 1) { /* low fits or is 0; high does not */
        tried.output_tokens = low + (high - low) / 2;
        if (could_run(target, &tried))
            low = tried.output_tokens;
        else
            high = tried.output_tokens;
    }
    return low;
}

static bool
offer_less_output(struct text *text, const struct place_target *targets,
                  size_t count, const struct place_demand *demand)
{
    uint64_t most = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t fits = output_that_fits(&targets[i], demand);

        if (fits > most)
            most = fits;
    }
    if (most == 0)
        return false;
    append(text, "ask for at most %" PRIu64 " output tokens, not %" PRIu64,
           most, demand->output_tokens);
    return true;
}

static uint32_t
bits_in(uint32_t bits)
{
    uint32_t found = 0;

    for (; bits != 0; bits &= bits - 1)
        found++;
    return found;
}

static bool
offer_fewer_capabilities(struct text *text, const struct place_target *targets,
                         size_t count, const struct place_demand *demand)
{
    uint32_t fewest = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t missing = demand->capabilities & ~targets[i].capabilities;
        struct place_demand tried = *demand;

        tried.capabilities &= ~missing;
        if (missing == 0 || !could_run(&targets[i], &tried))
            continue;
        if (fewest == 0 || bits_in(missing) < bits_in(fewest) ||
            (bits_in(missing) == bits_in(fewest) && missing < fewest))
            fewest = missing;
    }
    if (fewest == 0)
        return false;
    append(text, "ask without: ");
    append_capabilities(text, fewest);
    return true;
}

static bool
offer_pool(struct text *text, const struct place_target *targets, size_t count,
           const struct place_demand *demand)
{
    for (size_t i = 0; i < count; i++) {
        struct place_target tried = targets[i];

        tried.in_pool = true;
        if (!targets[i].in_pool && could_run(&tried, demand)) {
            append(text, "ask for a pool with a target that can run it");
            return true;
        }
    }
    return false;
}

static bool
offer_files(struct text *text, const struct place_target *targets, size_t count,
            const struct place_demand *demand)
{
    size_t able = 0;

    for (size_t i = 0; i < count; i++) {
        struct place_target tried = targets[i];

        tried.holds_model = true;
        able += !targets[i].holds_model && could_run(&tried, demand);
    }
    if (able == 0)
        return false;
    append(text, "put the model's files on a target; %zu without them would do",
           able);
    return true;
}

static bool
offer_memory(struct text *text, const struct place_target *targets,
             size_t count, const struct place_demand *demand)
{
    uint64_t need = cost_memory(demand, false).total_bytes;
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        struct place_target tried = targets[i];

        tried.limit_bytes = need;
        if (targets[i].limit_bytes >= need || !could_run(&tried, demand))
            continue;
        if (need - targets[i].limit_bytes < least)
            least = need - targets[i].limit_bytes;
    }
    if (least == UINT64_MAX)
        return false;
    append(text, "raise the memory limit of the nearest target by ");
    append_bytes_up(text, least);
    return true;
}

static bool
offer_verification(struct text *text, const struct place_target *targets,
                   size_t count, const struct place_demand *demand)
{
    for (size_t i = 0; i < count; i++) {
        struct place_target tried = targets[i];

        tried.verified = true;
        if (!targets[i].verified && could_run(&tried, demand)) {
            append(text, "verify a target by a test job");
            return true;
        }
    }
    return false;
}

/* From what a submitter changes in a request to what an owner buys. */
static void
append_change(struct text *text, const struct place_target *targets,
              size_t count, const struct place_demand *demand)
{
    uint64_t need = cost_memory(demand, false).total_bytes;

    if (offer_less_output(text, targets, count, demand) ||
        offer_fewer_capabilities(text, targets, count, demand) ||
        offer_pool(text, targets, count, demand) ||
        offer_files(text, targets, count, demand) ||
        offer_verification(text, targets, count, demand) ||
        offer_memory(text, targets, count, demand))
        return;
    append(text, "add a %starget in the pool with the model's files and ",
           need > PLACE_UNVERIFIED_BYTES ? "verified " : "");
    append_bytes_up(text, need);
    append(text, " of memory");
}

/* The lasting verdict that most targets got; the first of equals. */
static enum place_verdict
main_obstacle(const struct place_candidate *candidates, size_t count)
{
    enum place_verdict found = PLACE_VERDICT_COUNT;
    size_t most = 0;

    for (enum place_verdict v = 0; v < PLACE_VERDICT_COUNT; v++) {
        size_t here = count_verdict(candidates, count, v);

        if (here > most) {
            most = here;
            found = v;
        }
    }
    return found;
}

static void
append_obstacle(struct text *text, const struct place_candidate *candidates,
                size_t count, const struct place_demand *demand)
{
    enum place_verdict verdict = main_obstacle(candidates, count);

    if (verdict == PLACE_VERDICT_COUNT)
        return;
    append(text, "; most are %s", counted[verdict]);
    if (verdict != PLACE_TOO_SMALL && verdict != PLACE_UNVERIFIED)
        return;
    append(text, ": it needs ");
    append_bytes(text, cost_memory(demand, false).total_bytes);
    if (verdict == PLACE_UNVERIFIED) {
        append(text, ", limit ");
        append_bytes(text, PLACE_UNVERIFIED_BYTES);
    }
}

static bool
all_lasting(const struct place_candidate *candidates, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!filter_is_lasting(candidates[i].verdict))
            return false;
    }
    return true;
}

enum status
explain_refusal(const struct place_target *targets,
                const struct place_candidate *candidates, size_t count,
                const struct place_demand *demand, struct error *err)
{
    char storage[ERROR_TEXT_BYTES];
    struct text text = {storage, sizeof(storage), 0};

    append_counts(&text, candidates, count);
    if (!all_lasting(candidates, count)) {
        (void)error_set(err, STATUS_NO_CAPACITY,
                        "no target can take this job now (%s)", storage);
        (void)error_tag(err, "no_capacity", NULL);
        return STATUS_NO_CAPACITY;
    }
    append_obstacle(&text, candidates, count, demand);
    append(&text, "; cheapest change: ");
    append_change(&text, targets, count, demand);
    (void)error_set(err, STATUS_INVALID,
                    "no known target can ever run this job (%s)", storage);
    (void)error_tag(err, "model_unplaceable", NULL);
    return STATUS_INVALID;
}
