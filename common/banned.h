/* banned.h - functions that do not compile here, with what to use instead.
 *
 * Include it last in every .c: the names may not appear after this line, and
 * system headers that declare them must already have been read.
 *
 *   strcpy strcat strncpy sprintf vsprintf   struct buf
 *   strtok                                   parse by hand with a length
 *   atoi atol atoll strtol strtoul           parse_u64 (common/units.h)
 *   localtime gmtime asctime ctime           instant_text (common/clock.h)
 *   rand srand                               common/prng.h, cert_random
 *   strerror                                 error_errno (common/error.h) */
#ifndef BERTH_COMMON_BANNED_H
#define BERTH_COMMON_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Some are macros on macOS, and a macro cannot be poisoned without a word. */
#undef strcpy
#undef strcat
#undef strncpy
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncpy sprintf vsprintf strtok
#pragma GCC poison atoi atol atoll strtol strtoul
#pragma GCC poison localtime gmtime asctime ctime rand srand strerror

#endif
