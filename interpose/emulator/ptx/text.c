/* See text.h. */
#include "text.h"

#include <string.h>

#define L (TSR_CHAR_WORD | TSR_CHAR_START | TSR_CHAR_OPCODE)
#define D (TSR_CHAR_WORD | TSR_CHAR_DIGIT | TSR_CHAR_OPCODE)
const uint8_t tsr_char_class[256] = {
    [' '] = TSR_CHAR_SPACE,
    ['\t'] = TSR_CHAR_SPACE,
    ['\n'] = TSR_CHAR_SPACE,
    ['\r'] = TSR_CHAR_SPACE,
    ['\f'] = TSR_CHAR_SPACE,
    ['\v'] = TSR_CHAR_SPACE,
    ['a' ... 'z'] = L,
    ['A' ... 'Z'] = L,
    ['_'] = L,
    ['$'] = TSR_CHAR_WORD | TSR_CHAR_START,
    ['%'] = TSR_CHAR_START,
    ['0' ... '9'] = D,
    ['.'] = TSR_CHAR_OPCODE,
};
#undef L
#undef D

static void new_line(struct tsr_ptx_text *text)
{
    text->line++;
    text->line_begin = text->at + 1;
}

static void skip_block_comment(struct tsr_ptx_text *text)
{
    for (text->at += 2; text->at < text->end; text->at++) {
        if (text->at[0] == '*' && text->at[1] == '/') {
            text->at += 2;
            return;
        }
        if (*text->at == '\n')
            new_line(text);
    }
}

void tsr_text_skip_comments(struct tsr_ptx_text *text)
{
    for (;; text->at++) {
        if (*text->at == '\n') {
            new_line(text);
        } else if (text->at[0] == '/' && text->at[1] == '/') {
            tsr_text_skip_line(text);
            text->at--;
        } else if (text->at[0] == '/' && text->at[1] == '*') {
            skip_block_comment(text);
            text->at--;
        } else if (!tsr_char_is(*text->at, TSR_CHAR_SPACE)) {
            return;
        }
    }
}

void tsr_text_skip_line(struct tsr_ptx_text *text)
{
    const char *end = memchr(text->at, '\n', (size_t)(text->end - text->at));
    text->at = end ? end : text->end;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Digits of one base; false when there is none or the value needs more than 64 bits. */
static bool read_digits(struct tsr_ptx_text *text, unsigned base, uint64_t *value)
{
    const char *begin = text->at;
    uint64_t sum = 0;
    for (int digit; (digit = digit_value(*text->at)) < (int)base; text->at++)
        if (__builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, (uint64_t)digit, &sum))
            return false;
    *value = sum;
    return text->at > begin;
}

static struct tsr_number read_pattern(struct tsr_ptx_text *text, unsigned digits, enum tsr_number_kind kind)
{
    struct tsr_number number = {kind, 0};
    text->at += 2;
    const char *begin = text->at;
    if (!read_digits(text, 16, &number.bits) || text->at - begin != (int)digits)
        number.kind = TSR_NUMBER_NONE;
    return number;
}

/* Decimal floating point is rare in PTX: exact for what a double product or quotient by a power of ten gives. */
static struct tsr_number read_decimal_float(struct tsr_ptx_text *text)
{
    long double value = 0;
    int exponent = 0, given = 0, sign = 1;
    for (; tsr_char_is(*text->at, TSR_CHAR_DIGIT); text->at++)
        value = value * 10 + (*text->at - '0');
    if (*text->at == '.')
        for (text->at++; tsr_char_is(*text->at, TSR_CHAR_DIGIT); text->at++, exponent--)
            value = value * 10 + (*text->at - '0');
    if (*text->at == 'e' || *text->at == 'E') {
        text->at++;
        if (*text->at == '+' || *text->at == '-')
            sign = *text->at++ == '-' ? -1 : 1;
        for (; tsr_char_is(*text->at, TSR_CHAR_DIGIT); text->at++)
            given = given < 10000 ? given * 10 + (*text->at - '0') : given;
    }
    for (exponent += sign * given; exponent > 0 && value != 0 && value < 1e4900L; exponent--)
        value *= 10;
    for (; exponent < 0 && value != 0; exponent++)
        value /= 10;
    double rounded = (double)value;
    struct tsr_number number = {TSR_NUMBER_F64, 0};
    memcpy(&number.bits, &rounded, sizeof rounded);
    return number;
}

static bool is_decimal_float(const char *at)
{
    while (tsr_char_is(*at, TSR_CHAR_DIGIT))
        at++;
    return *at == '.' || *at == 'e' || *at == 'E';
}

struct tsr_number tsr_text_number(struct tsr_ptx_text *text)
{
    struct tsr_number number = {TSR_NUMBER_NONE, 0};
    const char *at = text->at;
    if (!tsr_char_is(*at, TSR_CHAR_DIGIT))
        return number;
    unsigned base = 10;
    if (*at == '0') {
        char prefix = at[1] | 0x20;
        if (prefix == 'f')
            return read_pattern(text, 8, TSR_NUMBER_F32);
        if (prefix == 'd')
            return read_pattern(text, 16, TSR_NUMBER_F64);
        base = prefix == 'x' ? 16 : prefix == 'b' ? 2 : 8;
    }
    if ((base == 10 || base == 8) && is_decimal_float(at))
        return read_decimal_float(text);
    if (base == 16 || base == 2)
        text->at += 2;
    if (!read_digits(text, base, &number.bits))
        return number;
    number.kind = number.bits >> 63 ? TSR_NUMBER_UNSIGNED : TSR_NUMBER_SIGNED;
    if (*text->at == 'U') {
        text->at++;
        number.kind = TSR_NUMBER_UNSIGNED;
    }
    return number;
}
