/*
 * printf of device code: the format is a string of device memory, the arguments lie packed where a pointer leads, each aligned to its size
 * (4 or 8 bytes). Works on callbacks, so that it can be tested and fuzzed without a grid.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "printf.h"

#define WIDTH_MAX 4096
#define FLOAT_BYTES 512 /* longest: %f of the largest number with precision PRECISION_MAX */
#define PRECISION_MAX 100

struct spec {
    bool left, plus, space, alternate, zero;
    int width, precision; /* precision -1: not given */
    uint32_t bytes;       /* of an integer argument */
    bool narrow_char, narrow_short;
    char conversion;
};

struct state {
    const struct tsr_format *format;
    uint32_t offset;
    int converted;
};

static void emit(const struct state *state, const char *data, size_t bytes)
{
    if (bytes != 0)
        state->format->emit(state->format->context, data, bytes);
}

static void emit_repeated(const struct state *state, char c, int count)
{
    char run[64];
    memset(run, c, sizeof run);
    for (; count > 0; count -= (int)sizeof run)
        emit(state, run, count < (int)sizeof run ? (size_t)count : sizeof run);
}

/* False: not readable, the output ends here. */
static bool argument(struct state *state, uint32_t bytes, uint64_t *out)
{
    uint32_t offset = (state->offset + bytes - 1) & ~(bytes - 1);
    const void *at = state->format->argument(state->format->context, offset, bytes);
    if (at == NULL)
        return false;
    *out = 0;
    memcpy(out, at, bytes);
    state->offset = offset + bytes;
    return true;
}

/* Sign or prefix, then zeros or blanks, then digits. */
static void emit_number(const struct state *state, const struct spec *spec, const char *prefix, const char *digits,
                        size_t count, int zeros)
{
    int prefix_count = (int)strlen(prefix), blanks = spec->width - prefix_count - zeros - (int)count;
    if (!spec->left && spec->zero && blanks > 0) {
        zeros += blanks;
        blanks = 0;
    }
    if (!spec->left)
        emit_repeated(state, ' ', blanks);
    emit(state, prefix, (size_t)prefix_count);
    emit_repeated(state, '0', zeros);
    emit(state, digits, count);
    if (spec->left)
        emit_repeated(state, ' ', blanks);
}

static const char *sign_of(const struct spec *spec, bool negative)
{
    return negative ? "-" : spec->plus ? "+" : spec->space ? " " : "";
}

static void emit_integer(const struct state *state, struct spec spec, uint64_t value)
{
    bool is_signed = spec.conversion == 'd' || spec.conversion == 'i', negative = false;
    unsigned base = spec.conversion == 'o'                                                       ? 8
                    : spec.conversion == 'x' || spec.conversion == 'X' || spec.conversion == 'p' ? 16
                                                                                                 : 10;
    const char *letters = spec.conversion == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    uint32_t bits = spec.narrow_char ? 8 : spec.narrow_short ? 16 : spec.bytes * 8;
    if (bits < 64)
        value &= (1ull << bits) - 1;
    if (is_signed && value >> (bits - 1) & 1) {
        negative = true;
        value = 0 - value;
        if (bits < 64)
            value &= (1ull << bits) - 1;
    }
    char digits[24];
    size_t at = sizeof digits;
    bool nonzero = value != 0;
    for (; value != 0; value /= base)
        digits[--at] = letters[value % base];
    int count = (int)(sizeof digits - at), least = spec.precision < 0 ? 1 : spec.precision;
    int zeros = count < least ? least - count : 0;
    if (base == 8 && spec.alternate && zeros == 0)
        zeros = 1;
    const char *prefix = is_signed ? sign_of(&spec, negative) : "";
    if (spec.conversion == 'p' || (base == 16 && spec.alternate && nonzero))
        prefix = spec.conversion == 'X' ? "0X" : "0x";
    if (spec.precision >= 0)
        spec.zero = false;
    emit_number(state, &spec, prefix, digits + at, (size_t)count, zeros);
}

static void emit_float(const struct state *state, struct spec spec, uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    bool negative = bits >> 63;
    bits &= UINT64_MAX >> 1;
    memcpy(&value, &bits, sizeof value);
    char form[16] = "%", digits[FLOAT_BYTES], *end = form + 1;
    if (spec.precision >= 0) {
        int precision = spec.precision < PRECISION_MAX ? spec.precision : PRECISION_MAX;
        *end++ = '.';
        if (precision >= 100)
            *end++ = '1';
        if (precision >= 10)
            *end++ = (char)('0' + precision / 10 % 10);
        *end++ = (char)('0' + precision % 10);
    }
    *end++ = spec.conversion;
    *end = '\0';
    int count = strfromd(digits, sizeof digits, form, value);
    if (count < 0 || (size_t)count >= sizeof digits)
        return;
    char prefix[4] = "";
    size_t signs = strlen(sign_of(&spec, negative));
    memcpy(prefix, sign_of(&spec, negative), signs);
    const char *start = digits;
    if ((spec.conversion == 'a' || spec.conversion == 'A') && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
        memcpy(prefix + signs, digits, 2); /* zeros go between the prefix and the digits */
        start += 2;
        count -= 2;
    }
    if (bits >= 0x7ff0000000000000ull)
        spec.zero = false;
    emit_number(state, &spec, prefix, start, (size_t)count, 0);
}

static void emit_text(const struct state *state, const struct spec *spec, const char *text, size_t bytes)
{
    if (spec->precision >= 0 && (size_t)spec->precision < bytes)
        bytes = (size_t)spec->precision;
    int blanks = spec->width > (int)bytes ? spec->width - (int)bytes : 0;
    if (!spec->left)
        emit_repeated(state, ' ', blanks);
    emit(state, text, bytes);
    if (spec->left)
        emit_repeated(state, ' ', blanks);
}

static bool convert(struct state *state, const struct spec *spec)
{
    uint64_t value;
    switch (spec->conversion) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        if (!argument(state, spec->bytes, &value))
            return false;
        emit_integer(state, *spec, value);
        return true;
    case 'p':
        if (!argument(state, 8, &value))
            return false;
        {
            struct spec pointer = *spec;
            pointer.bytes = 8;
            pointer.narrow_char = pointer.narrow_short = false;
            emit_integer(state, pointer, value);
        }
        return true;
    case 'c': {
        if (!argument(state, 4, &value))
            return false;
        char c = (char)value;
        struct spec one = *spec;
        one.precision = -1;
        emit_text(state, &one, &c, 1);
        return true;
    }
    case 's': {
        if (!argument(state, 8, &value))
            return false;
        size_t bytes = 0;
        const char *text = value == 0 ? NULL : state->format->string(state->format->context, value, &bytes);
        if (text == NULL) {
            text = "(null)";
            bytes = strlen(text);
        }
        emit_text(state, spec, text, bytes);
        return true;
    }
    default:
        if (!argument(state, 8, &value))
            return false;
        emit_float(state, *spec, value);
        return true;
    }
}

static const char *read_number(const char *at, const char *end, int *out)
{
    int n = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (n < WIDTH_MAX)
            n = n * 10 + (*at - '0');
    *out = n < WIDTH_MAX ? n : WIDTH_MAX;
    return at;
}

/* A number or `*`. NULL: the argument cannot be read. */
static const char *read_count(struct state *state, const char *at, const char *end, int *out)
{
    uint64_t value;
    if (at == end || *at != '*')
        return read_number(at, end, out);
    if (!argument(state, 4, &value))
        return NULL;
    int32_t n = (int32_t)value;
    *out = n > WIDTH_MAX ? WIDTH_MAX : n < -WIDTH_MAX ? -WIDTH_MAX : n;
    return at + 1;
}

static const char *read_flags(const char *at, const char *end, struct spec *spec)
{
    for (; at < end; at++)
        switch (*at) {
        case '-':
            spec->left = true;
            break;
        case '+':
            spec->plus = true;
            break;
        case ' ':
            spec->space = true;
            break;
        case '#':
            spec->alternate = true;
            break;
        case '0':
            spec->zero = true;
            break;
        default:
            return at;
        }
    return at;
}

static const char *read_length(const char *at, const char *end, struct spec *spec)
{
    for (; at < end && strchr("hlLjzt", *at) != NULL; at++) {
        if (*at == 'h') {
            spec->narrow_char = spec->narrow_short;
            spec->narrow_short = !spec->narrow_char;
        } else if (*at != 'L') {
            spec->bytes = 8;
        }
    }
    return at;
}

/* at is after the percent sign. NULL: not a conversion; *readable false: an argument could not be read. */
static const char *read_spec(struct state *state, const char *at, const char *end, struct spec *spec, bool *readable)
{
    *spec = (struct spec){.precision = -1, .bytes = 4};
    at = read_flags(at, end, spec);
    at = read_count(state, at, end, &spec->width);
    if (at != NULL && at < end && *at == '.')
        at = read_count(state, at + 1, end, &spec->precision);
    *readable = at != NULL;
    if (at == NULL)
        return NULL;
    if (spec->width < 0) {
        spec->left = true;
        spec->width = -spec->width;
    }
    if (spec->precision < 0)
        spec->precision = -1;
    at = read_length(at, end, spec);
    if (at == end || strchr("diuoxXcspfFeEgGaA", *at) == NULL)
        return NULL;
    spec->conversion = *at;
    return at + 1;
}

int tsr_format_run(const struct tsr_format *format, const char *text, size_t bytes)
{
    struct state state = {.format = format};
    const char *at = text, *end = text + bytes;
    while (at < end) {
        const char *percent = memchr(at, '%', (size_t)(end - at));
        if (percent == NULL)
            percent = end;
        emit(&state, at, (size_t)(percent - at));
        if (percent == end)
            break;
        at = percent + 1;
        if (at < end && *at == '%') {
            emit(&state, at++, 1);
            continue;
        }
        struct spec spec;
        bool readable;
        const char *after = read_spec(&state, at, end, &spec, &readable);
        if (!readable)
            break;
        if (after == NULL) {
            emit(&state, percent, 1);
            continue;
        }
        if (!convert(&state, &spec))
            break;
        state.converted++;
        at = after;
    }
    return state.converted;
}
