/*
 * Reading position in PTX text, and the smallest things found there: white space, words, numbers.
 *
 * The text is a private copy followed by NUL bytes, so that looking a few characters ahead never leaves it; a NUL inside of it is an
 * unexpected character like any other. What a word means is not decided here.
 */
#ifndef TSR_PTX_TEXT_H
#define TSR_PTX_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_ptx_text {
    const char *at, *end, *line_begin;
    uint32_t line; /* from 1 */
};

struct tsr_word {
    const char *text;
    uint32_t length;
};

enum { TSR_CHAR_SPACE = 1, TSR_CHAR_WORD = 2, TSR_CHAR_DIGIT = 4, TSR_CHAR_START = 8, TSR_CHAR_OPCODE = 16 };
extern const uint8_t tsr_char_class[256];

static inline bool tsr_char_is(char c, unsigned classes)
{
    return tsr_char_class[(uint8_t)c] & classes;
}

/* Skips blanks, line ends and both kinds of comments. An unclosed comment reaches to the end. */
void tsr_text_skip_comments(struct tsr_ptx_text *text);
static inline void tsr_text_skip(struct tsr_ptx_text *text)
{
    while (*text->at == ' ' || *text->at == '\t')
        text->at++;
    if (tsr_char_is(*text->at, TSR_CHAR_SPACE) || *text->at == '/')
        tsr_text_skip_comments(text);
}
/* Up to the next line end, which is not consumed. */
void tsr_text_skip_line(struct tsr_ptx_text *text);

static inline uint32_t tsr_text_column(const struct tsr_ptx_text *text, const char *place)
{
    return place < text->line_begin ? 1 : (uint32_t)(place - text->line_begin) + 1;
}

/* A word of letters, digits, _ and $ that begins with a letter, _, $ or %; length 0 when there is none. */
static inline struct tsr_word tsr_text_word(struct tsr_ptx_text *text)
{
    const char *begin = text->at;
    if (!tsr_char_is(*begin, TSR_CHAR_START))
        return (struct tsr_word){begin, 0};
    const char *at = begin + 1;
    while (tsr_char_is(*at, TSR_CHAR_WORD))
        at++;
    text->at = at;
    return (struct tsr_word){begin, (uint32_t)(at - begin)};
}

static inline bool tsr_word_is(struct tsr_word word, const char *other)
{
    uint32_t i = 0;
    while (i < word.length && other[i] == word.text[i] && other[i])
        i++;
    return i == word.length && !other[i];
}

enum tsr_number_kind { TSR_NUMBER_NONE, TSR_NUMBER_SIGNED, TSR_NUMBER_UNSIGNED, TSR_NUMBER_F32, TSR_NUMBER_F64 };
struct tsr_number {
    enum tsr_number_kind kind; /* NONE: no number here, or one out of range; F32, F64: bits is the IEEE pattern */
    uint64_t bits;
};
/* Decimal, 0x, 0b, octal, with U; 0f and 0d patterns; decimal floating point (double). No sign. */
struct tsr_number tsr_text_number(struct tsr_ptx_text *text);

#endif
