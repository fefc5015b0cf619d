/* The words of a PTX text: enough of its syntax to tell statements, names and brackets apart. */
#ifndef TSR_PTX_WORDS_H
#define TSR_PTX_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct tsr_ptx_word {
    const char *text;
    size_t length;
    char kind; /* 'w': a name, number, directive or opcode; else the character itself; 0: the end */
};

struct tsr_ptx_text {
    const char *at, *end;
};

/* Leaves out space, comments, strings, and the directives .loc, .file and .section, which do not end with a semicolon. */
struct tsr_ptx_word tsr_ptx_next(struct tsr_ptx_text *text);

bool tsr_ptx_is(const struct tsr_ptx_word *word, const char *text);
/* The part before the first dot, which is not the first character. */
bool tsr_ptx_begins(const struct tsr_ptx_word *word, const char *text);

#endif
