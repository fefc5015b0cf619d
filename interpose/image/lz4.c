/*
 * LZ4 block format: sequences of a token (high nibble: literals, low nibble: match length - 4, 15 continues with bytes that are added up),
 * the literals, a 16-bit little-endian distance, more length bytes. The last sequence ends after its literals.
 */
#include <string.h>

#include "parts.h"

static bool read_length(const uint8_t **at, const uint8_t *end, size_t *length)
{
    uint8_t byte;
    if (*length != 15)
        return true;
    do {
        if (*at == end)
            return false;
        byte = *(*at)++;
        *length += byte;
    } while (byte == 255);
    return true;
}

bool tsr_lz4_decode(struct tsr_span from, uint8_t *to, size_t to_size)
{
    const uint8_t *at = from.data, *end = at + from.size;
    uint8_t *out = to, *out_end = to + to_size;
    while (at < end) {
        uint8_t token = *at++;
        size_t literals = token >> 4, match = token & 15;
        if (!read_length(&at, end, &literals) || literals > (size_t)(end - at) || literals > (size_t)(out_end - out))
            return false;
        memcpy(out, at, literals);
        out += literals;
        at += literals;
        if (at == end)
            return out == out_end;
        if (end - at < 2)
            return false;
        size_t distance = tsr_read16(at);
        at += 2;
        if (!read_length(&at, end, &match))
            return false;
        match += 4;
        if (distance == 0 || distance > (size_t)(out - to) || match > (size_t)(out_end - out))
            return false;
        for (; match; match--, out++) /* may overlap itself */
            *out = out[-(ptrdiff_t)distance];
    }
    return false;
}
