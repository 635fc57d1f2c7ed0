/* cable.c - a network cable between two hosts, in user space.
 *
 *   cable --left PID --right PID [--left-address A] [--right-address A]
 *         [--name DEVICE] [--seed N]
 *
 * PID is a process in the network namespace of that side (netns.h).  Each side
 * gets a TAP device; frames pass between them as commands on standard input
 * say, a line each, answered by a line that begins with "ok" or "error":
 *
 *   delay US            every frame takes at least so long
 *   rate BITS           per second and direction; 0: no limit
 *   loss PERMILLE       of frames lost by chance, each way
 *   cut WHO             frames sent by left, right or both are lost; none
 *                       mends it.  Both ends still see a plugged cable.
 *   half-open WHO       left or right sees the cable unplugged, the other end
 *                       does not and sends into nothing; none plugs it again
 *   stats               "ok left PASSED DROPPED right PASSED DROPPED", frames
 *                       by sender
 *
 * "ready" is printed when both ends are up.  Ends with its standard input. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/options.h"
#include "common/prng.h"
#include "common/units.h"
#include "tests/harness/netns.h"
#include "common/banned.h"

enum {
    LEFT,
    RIGHT,
    SIDES,
    FRAME_MAX_BYTES = 2048, /* of a device with the usual MTU */
    QUEUE_FRAMES = 4096,
    LINE_MAX_BYTES = 128,
};

static const char *const side_names[SIDES] = {"left", "right"};

struct frame {
    struct span due; /* monotonic: not before it may be handed over */
    size_t size;
    uint8_t bytes[FRAME_MAX_BYTES];
};

/* Frames under way, sent by one side, oldest first. */
struct lane {
    struct frame frames[QUEUE_FRAMES];
    size_t head;
    size_t count;
    struct span busy_until; /* when the last bit of the last frame has left */
    bool cut;
    uint64_t passed;
    uint64_t dropped;
};

struct cable {
    int tap[SIDES];
    struct lane lane[SIDES]; /* by sender */
    struct span delay;
    uint64_t rate;
    uint64_t loss;
    int unplugged; /* side that sees no cable, or -1 */
    struct prng prng;
    char line[LINE_MAX_BYTES];
    size_t line_size;
};

/* --- frames -----------------------------------------------------------------
 */

static bool
is_lost(struct cable *cable, const struct lane *lane)
{
    return lane->cut || cable->unplugged >= 0 || lane->count == QUEUE_FRAMES ||
           prng_below(&cable->prng, 1000) < cable->loss;
}

static void
enqueue(struct cable *cable, struct lane *lane, const uint8_t *bytes,
        size_t size)
{
    struct frame *frame =
        &lane->frames[(lane->head + lane->count) % QUEUE_FRAMES];
    struct span now = clock_monotonic();

    if (lane->busy_until.ns < now.ns)
        lane->busy_until = now;
    if (cable->rate > 0)
        lane->busy_until.ns +=
            (int64_t)((uint64_t)size * 8 * UINT64_C(1000000000) / cable->rate);
    frame->due = span_add(lane->busy_until, cable->delay);
    frame->size = size;
    memcpy(frame->bytes, bytes, size);
    lane->count++;
}

/* Take what a side has sent. */
static void
take_frames(struct cable *cable, int side)
{
    struct lane *lane = &cable->lane[side];
    uint8_t bytes[FRAME_MAX_BYTES];
    ssize_t got = read(cable->tap[side], bytes, sizeof(bytes));

    while (got > 0) {
        if (is_lost(cable, lane))
            lane->dropped++;
        else
            enqueue(cable, lane, bytes, (size_t)got);
        got = read(cable->tap[side], bytes, sizeof(bytes));
    }
}

/* Hand over what is due, and what a cut has caught under way drop. */
static void
pass_frames(struct cable *cable, int side)
{
    struct lane *lane = &cable->lane[side];
    struct span now = clock_monotonic();

    while (lane->count > 0 && lane->frames[lane->head].due.ns <= now.ns) {
        const struct frame *frame = &lane->frames[lane->head];
        bool lost = lane->cut || cable->unplugged >= 0;

        if (!lost && write(cable->tap[1 - side], frame->bytes, frame->size) ==
                         (ssize_t)frame->size)
            lane->passed++;
        else
            lane->dropped++;
        lane->head = (lane->head + 1) % QUEUE_FRAMES;
        lane->count--;
    }
}

/* Milliseconds until the next frame is due, rounded up; -1: none waits. */
static int
wait_ms(const struct cable *cable)
{
    int64_t least = INT64_MAX;
    int64_t now = clock_monotonic().ns;

    for (int side = 0; side < SIDES; side++) {
        const struct lane *lane = &cable->lane[side];

        if (lane->count > 0 && lane->frames[lane->head].due.ns < least)
            least = lane->frames[lane->head].due.ns;
    }
    if (least == INT64_MAX)
        return -1;
    return least <= now ? 0 : (int)((least - now + 999999) / 1000000);
}

/* --- commands ---------------------------------------------------------------
 */

/* "left", "right", "both", "none" as bits by side; false for other words. */
static bool
parse_sides(const char *word, unsigned *sides)
{
    static const char *const words[] = {"none", "left", "right", "both"};

    for (unsigned i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(word, words[i]) == 0) {
            *sides = i;
            return true;
        }
    }
    return false;
}

static bool
set_half_open(struct cable *cable, unsigned sides)
{
    if (sides == 3)
        return false;
    cable->unplugged = (int)sides - 1;
    for (int side = 0; side < SIDES; side++)
        if (netns_tap_carrier(cable->tap[side], side != cable->unplugged,
                              NULL) != STATUS_OK)
            return false;
    return true;
}

/* A command with a number; false when it is not one. */
static bool
set_number(struct cable *cable, const char *command, const char *word)
{
    uint64_t number;

    if (parse_u64(word, strlen(word), UINT64_C(1000000000000), &number) !=
        STATUS_OK)
        return false;
    if (strcmp(command, "delay") == 0 && number <= 60000000)
        cable->delay = (struct span){(int64_t)number * 1000};
    else if (strcmp(command, "rate") == 0)
        cable->rate = number;
    else if (strcmp(command, "loss") == 0 && number <= 1000)
        cable->loss = number;
    else
        return false;
    return true;
}

static bool
obey(struct cable *cable, const char *command, const char *word)
{
    unsigned sides;

    if (!parse_sides(word, &sides))
        return set_number(cable, command, word);
    if (strcmp(command, "half-open") == 0)
        return set_half_open(cable, sides);
    if (strcmp(command, "cut") != 0)
        return false;
    for (unsigned side = 0; side < SIDES; side++)
        cable->lane[side].cut = (sides >> side & 1) != 0;
    return true;
}

static void
answer(struct cable *cable, char *line)
{
    char *word = line + strcspn(line, " ");

    if (*word != '\0')
        *word++ = '\0';
    if (strcmp(line, "stats") == 0) {
        printf("ok");
        for (int side = 0; side < SIDES; side++)
            printf(" %s %" PRIu64 " %" PRIu64, side_names[side],
                   cable->lane[side].passed, cable->lane[side].dropped);
        printf("\n");
    } else {
        printf(obey(cable, line, word) ? "ok\n" : "error\n");
    }
    (void)fflush(stdout);
}

/* Read standard input; false at its end. */
static bool
read_commands(struct cable *cable)
{
    char *end;
    ssize_t got = read(STDIN_FILENO, cable->line + cable->line_size,
                       sizeof(cable->line) - 1 - cable->line_size);

    if (got <= 0)
        return got < 0 && errno == EINTR;
    cable->line_size += (size_t)got;
    cable->line[cable->line_size] = '\0';
    while ((end = strchr(cable->line, '\n')) != NULL) {
        *end = '\0';
        answer(cable, cable->line);
        cable->line_size -= (size_t)(end + 1 - cable->line);
        memmove(cable->line, end + 1, cable->line_size + 1);
    }
    return cable->line_size < sizeof(cable->line) - 1;
}

/* --- the program ------------------------------------------------------------
 */

static void
serve(struct cable *cable)
{
    bool open = true;

    printf("ready\n");
    (void)fflush(stdout);
    while (open) {
        struct pollfd watched[] = {
            {.fd = cable->tap[LEFT], .events = POLLIN},
            {.fd = cable->tap[RIGHT], .events = POLLIN},
            {.fd = STDIN_FILENO, .events = POLLIN},
        };

        if (poll(watched, COUNT_OF(watched), wait_ms(cable)) < 0 &&
            errno != EINTR)
            return;
        for (int side = 0; side < SIDES; side++) {
            take_frames(cable, side);
            pass_frames(cable, side);
        }
        if (watched[2].revents != 0)
            open = read_commands(cable);
    }
}

struct arguments {
    const char *host[SIDES];
    const char *address[SIDES];
    const char *name;
    const char *seed;
};

static enum status
set_up(const struct arguments *arguments, struct cable *cable,
       struct error *err)
{
    enum status status = STATUS_OK;
    uint64_t seed;

    if (parse_u64(arguments->seed, strlen(arguments->seed), UINT64_MAX,
                  &seed) != STATUS_OK)
        return error_set(err, STATUS_INVALID, "--seed takes a number");
    prng_seed(&cable->prng, seed);
    cable->unplugged = -1;
    for (int side = 0; side < SIDES && status == STATUS_OK; side++) {
        const char *host = arguments->host[side];
        uint64_t pid;

        if (host == NULL ||
            parse_u64(host, strlen(host), INT32_MAX, &pid) != STATUS_OK)
            return error_set(err, STATUS_INVALID, "--%s takes a process id",
                             side_names[side]);
        status = netns_tap((pid_t)pid, arguments->name,
                           arguments->address[side], &cable->tap[side], err);
    }
    return status;
}

int
main(int argc, char **argv)
{
    static struct cable cable; /* 16 MiB of frames */
    struct arguments arguments = {
        .address = {"10.77.0.1", "10.77.0.2"}, .name = "cable0", .seed = "1"};
    const struct option_spec specs[] = {
        {"--left", OPTION_TEXT, &arguments.host[LEFT], NULL, "PID",
         "process in the left host"},
        {"--right", OPTION_TEXT, &arguments.host[RIGHT], NULL, "PID",
         "process in the right host"},
        {"--left-address", OPTION_TEXT, &arguments.address[LEFT], NULL,
         "ADDRESS", "IPv4 address of the left end"},
        {"--right-address", OPTION_TEXT, &arguments.address[RIGHT], NULL,
         "ADDRESS", "IPv4 address of the right end"},
        {"--name", OPTION_TEXT, &arguments.name, NULL, "DEVICE",
         "name of the device in both hosts"},
        {"--seed", OPTION_TEXT, &arguments.seed, NULL, "N", "of the losses"},
    };
    struct error err = {0};
    size_t word_count = 0;

    if (options_parse(argc, argv, "cable --left PID --right PID", specs,
                      COUNT_OF(specs), NULL, 0, &word_count,
                      &err) != STATUS_OK) {
        options_complain("cable", &err);
        return EXIT_USAGE;
    }
    if (set_up(&arguments, &cable, &err) != STATUS_OK) {
        options_complain("cable", &err);
        return EXIT_FAILED;
    }
    serve(&cable);
    return EXIT_OK;
}
