/* template_text.c - what filters and methods do to texts. */
#include "model/template_run.h"

#include <string.h>

#include <utf8proc.h>

#include "common/banned.h"

static utf8proc_int32_t
point_at(struct text text, size_t at, size_t *size)
{
    utf8proc_int32_t point = 0xfffd;
    utf8proc_ssize_t step =
        utf8proc_iterate((const utf8proc_uint8_t *)text.data + at,
                         (utf8proc_ssize_t)(text.size - at), &point);

    *size = step > 0 ? (size_t)step : 1;
    return point;
}

static bool
is_blank(utf8proc_int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);

    return (point >= 0x09 && point <= 0x0d) ||
           (point >= 0x1c && point <= 0x1f) || point == 0x85 ||
           category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* Is the character of @size bytes at @at to be stripped? */
static bool
is_stripped(struct text text, size_t at, const struct text *characters,
            uint64_t *steps)
{
    size_t size = 0;
    utf8proc_int32_t point = point_at(text, at, &size);
    struct text one = {text.data + at, size};

    if (characters == NULL)
        return is_blank(point);
    return text_find(*characters, one, 0, steps) != SIZE_MAX;
}

struct text
text_strip(struct text text, const struct text *characters, enum side side,
           uint64_t *steps)
{
    size_t size = text.size;

    while ((side & SIDE_LEFT) != 0 && text.size > 0 &&
           is_stripped(text, 0, characters, steps)) {
        size_t step = text_step(text, 0);

        text.data += step;
        text.size -= step;
    }
    while ((side & SIDE_RIGHT) != 0 && text.size > 0) {
        size_t at = text.size - 1;

        while (at > 0 && ((uint8_t)text.data[at] & 0xc0) == 0x80)
            at--;
        if (!is_stripped(text, at, characters, steps))
            break;
        text.size = at;
    }
    *steps += (size - text.size) / TEMPLATE_STEP_CHARACTERS;
    return text;
}

static bool
is_cased(utf8proc_int32_t point)
{
    return utf8proc_tolower(point) != point || utf8proc_toupper(point) != point;
}

/* Does a word of the title filter begin after this character? */
static bool
begins_word(utf8proc_int32_t point)
{
    return is_blank(point) || point == '-' || point == '(' || point == '{' ||
           point == '[' || point == '<';
}

static void
append_upper(utf8proc_int32_t point, bool alone, struct buf *out)
{
    utf8proc_uint8_t bytes[4];

    if (point == 0xdf) { /* sharp s, the one whose upper case is two */
        buf_append_text(out, alone ? "Ss" : "SS");
        return;
    }
    point = alone ? utf8proc_totitle(point) : utf8proc_toupper(point);
    buf_append(out, bytes, (size_t)utf8proc_encode_char(point, bytes));
}

/* One character each; the few others whose other case is longer stay as they
 * are. */
void
text_recase(struct text text, enum letter_case to, struct buf *out)
{
    bool start = true;
    utf8proc_uint8_t bytes[4];

    for (size_t at = 0; at < text.size;) {
        size_t size = 0;
        utf8proc_int32_t point = point_at(text, at, &size);
        utf8proc_int32_t lower = utf8proc_tolower(point);

        if (to == CASE_UPPER || (to != CASE_LOWER && start))
            append_upper(point, to != CASE_UPPER, out);
        else
            buf_append(out, bytes, (size_t)utf8proc_encode_char(lower, bytes));
        start = to == CASE_WORDS   ? begins_word(point)
                : to == CASE_TITLE ? !is_cased(point)
                                   : false;
        at += size;
    }
}

void
text_replace(struct text text, struct text old, struct text new, int64_t count,
             uint64_t *steps, struct buf *out)
{
    size_t at = 0;

    while (count != 0 && !out->overflowed) {
        size_t found = text_find(text, old, at, steps);

        if (found == SIZE_MAX || (old.size == 0 && found >= text.size))
            break;
        buf_append(out, text.data + at, found - at);
        buf_append(out, new.data, new.size);
        at = found + old.size;
        if (old.size == 0) { /* between all characters */
            size_t step = text_step(text, at);

            buf_append(out, text.data + at, step);
            at += step;
        }
        count--;
    }
    if (old.size == 0 && count != 0)
        buf_append(out, new.data, new.size);
    buf_append(out, text.data + at, text.size - at);
}
