/* See format.h. */
#include "base/format.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct sink {
    char *data;
    size_t size, used;
};

struct field {
    bool left, zero;
    int width;
    int precision; /* -1: none given */
    int length;    /* bytes of the integer argument */
};

static void put(struct sink *sink, char character)
{
    if (sink->used + 1 < sink->size)
        sink->data[sink->used++] = character;
}

static void put_padding(struct sink *sink, char character, int count)
{
    for (int i = 0; i < count; i++)
        put(sink, character);
}

static void put_text(struct sink *sink, const struct field *field, const char *text, size_t length)
{
    int padding = (size_t)field->width > length ? field->width - (int)length : 0;
    if (!field->left)
        put_padding(sink, ' ', padding);
    for (size_t i = 0; i < length; i++)
        put(sink, text[i]);
    if (field->left)
        put_padding(sink, ' ', padding);
}

static void put_number(struct sink *sink, const struct field *field, uint64_t value, unsigned base, char ten, const char *sign)
{
    char digits[24];
    size_t count = 0;
    do {
        unsigned digit = value % base;
        digits[sizeof digits - ++count] = digit < 10 ? '0' + digit : ten + digit - 10;
        value /= base;
    } while (value);
    const char *first = digits + sizeof digits - count;
    size_t signs = strlen(sign);
    if (!field->zero || field->left) {
        char text[32];
        memcpy(text, sign, signs);
        memcpy(text + signs, first, count);
        put_text(sink, field, text, signs + count);
        return;
    }
    for (size_t i = 0; i < signs; i++)
        put(sink, sign[i]);
    put_padding(sink, '0', field->width - (int)(signs + count));
    for (size_t i = 0; i < count; i++)
        put(sink, first[i]);
}

static int parse_number(const char **format)
{
    int value = 0;
    for (; **format >= '0' && **format <= '9'; (*format)++)
        if (value < 10000)
            value = value * 10 + (**format - '0');
    return value;
}

static int parse_length(const char **format)
{
    switch (**format) {
    case 'h':
        ++*format;
        if (**format != 'h')
            return sizeof(short);
        ++*format;
        return sizeof(char);
    case 'l':
        if (*++*format == 'l')
            ++*format;
        return sizeof(long);
    case 'z':
    case 'j':
    case 't':
        ++*format;
        return sizeof(long);
    default:
        return sizeof(int);
    }
}

static int64_t narrow_signed(int64_t value, int length)
{
    int shift = 64 - 8 * length;
    return (int64_t)((uint64_t)value << shift) >> shift;
}

static uint64_t narrow_unsigned(uint64_t value, int length)
{
    return length == 8 ? value : value & ((1ull << 8 * length) - 1);
}

size_t tsr_format_list(char *buffer, size_t size, const char *format, va_list values)
{
    struct sink sink = {buffer, size, 0};
    if (!size)
        return 0;
    for (; *format; format++) {
        if (*format != '%') {
            put(&sink, *format);
            continue;
        }
        struct field field = {.precision = -1};
        for (format++; *format == '0' || *format == '-' || *format == '#'; format++) {
            field.zero |= *format == '0';
            field.left |= *format == '-';
        }
        if (*format == '*') {
            field.width = va_arg(values, int);
            format++;
        } else {
            field.width = parse_number(&format);
        }
        if (*format == '.') {
            format++;
            if (*format == '*') {
                field.precision = va_arg(values, int);
                format++;
            } else {
                field.precision = parse_number(&format);
            }
        }
        field.length = parse_length(&format);
        switch (*format) {
        case 'd':
        case 'i': {
            int64_t value = field.length == 8 ? va_arg(values, int64_t) : va_arg(values, int);
            value = narrow_signed(value, field.length);
            put_number(&sink, &field, value < 0 ? -(uint64_t)value : (uint64_t)value, 10, 'a', value < 0 ? "-" : "");
            break;
        }
        case 'u':
        case 'x':
        case 'X': {
            uint64_t value = field.length == 8 ? va_arg(values, uint64_t) : va_arg(values, unsigned);
            value = narrow_unsigned(value, field.length);
            put_number(&sink, &field, value, *format == 'u' ? 10 : 16, *format == 'X' ? 'A' : 'a', "");
            break;
        }
        case 'p':
            put_number(&sink, &field, (uintptr_t)va_arg(values, void *), 16, 'a', "0x");
            break;
        case 'c': {
            char character = (char)va_arg(values, int);
            put_text(&sink, &field, &character, 1);
            break;
        }
        case 's': {
            const char *text = va_arg(values, const char *);
            if (!text)
                text = "(null)";
            put_text(&sink, &field, text, strnlen(text, field.precision < 0 ? INT_MAX : (size_t)field.precision));
            break;
        }
        case '%':
            put(&sink, '%');
            break;
        default: /* a conversion this formatter does not have: the values that follow cannot be read */
            put(&sink, '%');
            if (*format)
                put(&sink, *format);
            goto done;
        }
    }
done:
    sink.data[sink.used] = 0;
    return sink.used;
}

size_t tsr_format(char *buffer, size_t size, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    size_t length = tsr_format_list(buffer, size, format, values);
    va_end(values);
    return length;
}
