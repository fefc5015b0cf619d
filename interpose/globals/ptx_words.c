/* See ptx_words.h. */
#include "globals/ptx_words.h"

#include <string.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%' ||
           c == '.';
}

/* As in ld.shared::cluster. */
static bool is_scope(const struct tsr_ptx_text *text)
{
    return text->end - text->at > 2 && text->at[0] == ':' && text->at[1] == ':';
}

static void skip_to(struct tsr_ptx_text *text, char c)
{
    const char *found = memchr(text->at, c, (size_t)(text->end - text->at));
    text->at = found ? found + 1 : text->end;
}

static void skip_comment(struct tsr_ptx_text *text)
{
    text->at += 2;
    do
        skip_to(text, '*');
    while (text->at < text->end && *text->at != '/');
    text->at += text->at < text->end;
}

static struct tsr_ptx_word next(struct tsr_ptx_text *text)
{
    while (text->at < text->end) {
        const char *at = text->at;
        bool more = text->end - at > 1;
        if (is_word(*at)) {
            while (text->at < text->end && (is_word(*text->at) || is_scope(text)))
                text->at += is_word(*text->at) ? 1 : 2;
            return (struct tsr_ptx_word){at, (size_t)(text->at - at), 'w'};
        }
        if (more && at[0] == '/' && at[1] == '/')
            skip_to(text, '\n');
        else if (more && at[0] == '/' && at[1] == '*')
            skip_comment(text);
        else if (*at == '"')
            text->at++, skip_to(text, '"');
        else if (text->at++, *at > ' ')
            return (struct tsr_ptx_word){at, 1, *at};
    }
    return (struct tsr_ptx_word){0};
}

struct tsr_ptx_word tsr_ptx_next(struct tsr_ptx_text *text)
{
    for (;;) {
        struct tsr_ptx_word word = next(text);
        if (word.kind != 'w' || word.text[0] != '.')
            return word;
        if (tsr_ptx_is(&word, ".loc") || tsr_ptx_is(&word, ".file"))
            skip_to(text, '\n');
        else if (tsr_ptx_is(&word, ".section"))
            skip_to(text, '}');
        else
            return word;
    }
}

bool tsr_ptx_is(const struct tsr_ptx_word *word, const char *text)
{
    return word->kind == 'w' && strlen(text) == word->length && memcmp(word->text, text, word->length) == 0;
}

bool tsr_ptx_begins(const struct tsr_ptx_word *word, const char *text)
{
    size_t length = strlen(text);
    return word->kind == 'w' && word->length >= length && memcmp(word->text, text, length) == 0 &&
           (word->length == length || word->text[length] == '.');
}
