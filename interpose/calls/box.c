/* See box.h. Sizes that no memory has (2^56 bytes and more) are cut off there. */
#include "calls/box.h"

#define MOST_BYTES (1ull << 56)

struct axis {
    uint64_t stride, extent;
};

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) || result > MOST_BYTES ? MOST_BYTES : result;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b > MOST_BYTES ? MOST_BYTES : a + b;
}

/* The dimensions that matter, by stride. */
static uint32_t sorted(const struct tsr_box *box, struct axis *axes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < box->axes; i++) {
        struct axis axis = {product(box->strides[i], 1), product(box->extents[i], 1)};
        if (axis.extent <= 1 || axis.stride == 0)
            continue;
        uint32_t at = count++;
        for (; at > 0 && axes[at - 1].stride > axis.stride; at--)
            axes[at] = axes[at - 1];
        axes[at] = axis;
    }
    return count;
}

/* Joins a dimension with the next one when that goes on with the same stride. */
static uint32_t joined(struct axis *axes, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct axis *last = kept ? &axes[kept - 1] : NULL;
        if (last && axes[i].stride % last->stride == 0 && axes[i].stride <= product(last->stride, last->extent))
            last->extent = sum(product(axes[i].stride / last->stride, axes[i].extent - 1), last->extent);
        else
            axes[kept++] = axes[i];
    }
    return kept;
}

/* How many of the outer dimensions get a range for each of their indices; the innermost never needs that. */
static uint32_t outer_axes(const struct axis *axes, uint32_t count)
{
    uint64_t ranges = 1;
    uint32_t outer = 0;
    while (outer + 1 < count) {
        ranges = product(ranges, axes[count - 1 - outer].extent);
        if (ranges > TSR_BOX_RANGES)
            break;
        outer++;
    }
    return outer;
}

/* One range for these dimensions: steps of the outermost, with all that is inside of a step. */
static struct tsr_access_range one(uint64_t width, const struct axis *axes, uint32_t count)
{
    uint64_t span = width;
    for (uint32_t i = 0; i < count; i++)
        span = sum(span, product(axes[i].stride, axes[i].extent - 1));
    struct tsr_access_range range = {.parameter = -1, .symbol = -1, .last = (int64_t)span - 1};
    if (count == 0)
        return range;
    const struct axis *steps = &axes[count - 1];
    uint64_t wide = span - product(steps->stride, steps->extent - 1);
    if (wide < steps->stride) {
        range.stride = (int64_t)steps->stride;
        range.width = (int64_t)wide;
    }
    return range;
}

static bool is_empty(const struct tsr_box *box)
{
    for (uint32_t i = 0; i < box->axes; i++)
        if (box->extents[i] == 0)
            return true;
    return box->element_bytes == 0;
}

/* The box as pieces of `width` bytes and the dimensions in which they stand apart, by stride. Gives how many dimensions there are. */
static uint32_t pieces(const struct tsr_box *box, struct axis axes[TSR_BOX_AXES], uint64_t *width)
{
    uint32_t count = sorted(box, axes), inner = 0;
    *width = box->element_bytes;
    for (; inner < count && axes[inner].stride <= *width; inner++)
        *width = sum(*width, product(axes[inner].stride, axes[inner].extent - 1));
    for (uint32_t i = inner; i < count; i++)
        axes[i - inner] = axes[i];
    return joined(axes, count - inner);
}

bool tsr_box_is_exact(const struct tsr_box *box)
{
    struct axis axes[TSR_BOX_AXES];
    uint64_t width, span;
    if (is_empty(box))
        return true;
    uint32_t count = pieces(box, axes, &width);
    span = width;
    for (uint32_t i = 0; i < count; i++)
        span = sum(span, product(axes[i].stride, axes[i].extent - 1));
    return span < MOST_BYTES && count <= outer_axes(axes, count) + 1; /* else gaps inside of the outermost step are in them */
}

uint32_t tsr_box_ranges(const struct tsr_box *box, enum tsr_access_kind kind, struct tsr_access_range ranges[TSR_BOX_RANGES])
{
    struct axis axes[TSR_BOX_AXES];
    uint64_t width;
    if (is_empty(box))
        return 0;
    uint32_t count = pieces(box, axes, &width);
    uint32_t outer = outer_axes(axes, count), found = 1;
    ranges[0] = one(width, axes, count - outer);
    ranges[0].kind = kind;
    ranges[0].base = box->address;
    for (uint32_t i = count - outer; i < count; i++) {
        for (uint32_t copy = found; copy < found * axes[i].extent; copy++) {
            ranges[copy] = ranges[copy - found];
            ranges[copy].first += (int64_t)axes[i].stride;
            ranges[copy].last += (int64_t)axes[i].stride;
        }
        found *= (uint32_t)axes[i].extent;
    }
    return found;
}
