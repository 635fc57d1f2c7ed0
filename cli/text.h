/* text.h - text of other people on a terminal.
 *
 * Names, answers and messages come from strangers: a control byte in them
 * could move the cursor, rename the window or hide what is written. */
#ifndef BERTH_CLI_TEXT_H
#define BERTH_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

/* Characters of UTF-8 @text: what a table counts as its width. */
size_t cli_text_width(const char *text, size_t size);
/* Append @text with every control character (C0, DEL, C1) written as '?'.
 * Line feeds and tabs stay when @lines is true. */
void cli_text_append_safe(struct buf *buf, const char *text, size_t size,
                          bool lines);

#endif
