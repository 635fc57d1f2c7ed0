/* template_slice.c - "a[b:c:d]" of chat templates, counted as Python does. */
#include "model/template_run.h"

#include "common/banned.h"

struct slice {
    int64_t start;
    int64_t step;
    size_t count; /* of items it takes */
};

static enum status
eval_bound(struct run *run, const struct node *node, int64_t *bound,
           bool *given)
{
    struct value value;
    enum status status = STATUS_OK;

    *given = false;
    if (node == NULL)
        return STATUS_OK;
    status = run_eval(run, node, &value);
    if (status != STATUS_OK || value.kind == VALUE_NONE)
        return status;
    if (value.kind != VALUE_INTEGER)
        return run_fail(run, node->line, "a slice needs whole numbers");
    *bound = value.integer;
    *given = true;
    return STATUS_OK;
}

/* A bound within low..high, negative ones counted from the end. */
static int64_t
clamp_bound(int64_t bound, int64_t count, int64_t low, int64_t high)
{
    if (bound < 0)
        bound = bound < -count ? -1 - count : bound + count;
    return bound < low ? low : bound > high ? high : bound;
}

static enum status
eval_slice_bounds(struct run *run, const struct node *node, size_t size,
                  struct slice *slice)
{
    int64_t count = (int64_t)size;
    int64_t stop = 0;
    bool has_start = false;
    bool has_stop = false;
    bool has_step = false;
    int64_t low = 0;
    int64_t high = count;
    enum status status =
        eval_bound(run, node->right, &slice->start, &has_start);

    if (status == STATUS_OK)
        status = eval_bound(run, node->test, &stop, &has_stop);
    if (status == STATUS_OK)
        status = eval_bound(run, node->third, &slice->step, &has_step);
    if (status != STATUS_OK)
        return status;
    if (!has_step)
        slice->step = 1;
    if (slice->step == 0 || slice->step > TEMPLATE_VALUE_TEXT_MAX ||
        slice->step < -TEMPLATE_VALUE_TEXT_MAX)
        return run_fail(run, node->line, "a slice's step is out of range");
    if (slice->step < 0) {
        low = -1;
        high = count - 1;
    }
    slice->start = has_start ? clamp_bound(slice->start, count, low, high)
                   : slice->step > 0 ? low
                                     : high;
    stop = has_stop          ? clamp_bound(stop, count, low, high)
           : slice->step > 0 ? high
                             : low;
    slice->count = 0;
    if (slice->step > 0 && stop > slice->start)
        slice->count = (size_t)((stop - slice->start - 1) / slice->step + 1);
    if (slice->step < 0 && stop < slice->start)
        slice->count = (size_t)((slice->start - stop - 1) / -slice->step + 1);
    return STATUS_OK;
}

/* Characters by their offsets, so that any step is one lookup each. */
static enum status
slice_text(struct run *run, const struct node *node, struct text text,
           const struct slice *slice, struct value *value)
{
    const struct value whole = value_text(text);
    struct list *characters = NULL;
    struct buf buf;
    enum status status = STATUS_OK;

    if (slice->step == 1) {
        size_t begin = text_offset(text, (size_t)slice->start);
        struct text rest = {text.data + begin, text.size - begin};

        rest.size = text_offset(rest, slice->count);
        *value = value_text(rest);
        return run_charge(run, node->line, text.size / TEMPLATE_STEP_BYTES);
    }
    status = run_items(run, node->line, &whole, &characters);
    if (status != STATUS_OK)
        return status;
    run_buf(&buf);
    for (size_t i = 0; i < slice->count; i++) {
        int64_t at = slice->start + (int64_t)i * slice->step;

        buf_append(&buf, characters->items[at].text.data,
                   characters->items[at].text.size);
    }
    return run_take(run, node->line, &buf, value);
}

enum status
run_slice(struct run *run, const struct node *node, struct value *value)
{
    struct value object;
    struct slice slice = {0};
    enum status status = run_eval(run, node->left, &object);
    struct list *taken = NULL;

    if (status != STATUS_OK)
        return status;
    if (object.kind != VALUE_LIST && object.kind != VALUE_TEXT)
        return run_fail(run, node->line, "%s cannot be sliced",
                        value_kind_name(&object));
    status =
        eval_slice_bounds(run, node,
                          object.kind == VALUE_LIST ? object.list->count
                                                    : text_length(object.text),
                          &slice);
    if (status != STATUS_OK)
        return status;
    if (object.kind == VALUE_TEXT)
        return slice_text(run, node, object.text, &slice, value);
    taken = list_new(&run->arena);
    for (size_t i = 0; i < slice.count; i++)
        list_add(&run->arena, taken,
                 object.list->items[slice.start + (int64_t)i * slice.step]);
    *value = value_list(taken);
    return run_charge(run, node->line, slice.count);
}
