/* text.c - control characters out, widths counted. */
#include "cli/text.h"

#include "common/banned.h"

size_t
cli_text_width(const char *text, size_t size)
{
    size_t width = 0;

    for (size_t i = 0; i < size; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            width++;
    }
    return width;
}

void
cli_text_append_safe(struct buf *buf, const char *text, size_t size, bool lines)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        bool stays = lines && (c == '\n' || c == '\t');

        if ((c < 0x20 || c == 0x7f) && !stays) {
            buf_append_char(buf, '?');
        } else if (c == 0xc2 && i + 1 < size &&
                   (unsigned char)text[i + 1] < 0xa0) {
            buf_append_char(buf, '?'); /* U+0080..U+009F */
            i++;
        } else {
            buf_append_char(buf, (char)c);
        }
    }
}
