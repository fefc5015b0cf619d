/*
 * See link_text.h. Works on top-level statements: a statement ends at a `;` or after a `{...}` outside of parentheses. A directive line (.version,
 * .target, .address_size) ends with its line. A name that several texts define privately (without .visible or .weak) would clash; it
 * gets the number of its text, everywhere in that text.
 */
#include "link_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/vec.h"

struct buffer {
    TSR_VEC(char) bytes;
    bool failed;
};

static void put(struct buffer *buffer, const char *text, size_t length)
{
    if (buffer->failed || !tsr_vec_reserve(&buffer->bytes, buffer->bytes.count + length + 1)) {
        buffer->failed = true;
        return;
    }
    memcpy(buffer->bytes.data + buffer->bytes.count, text, length);
    buffer->bytes.count += length;
    buffer->bytes.data[buffer->bytes.count] = 0;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

/* After white space and comments. */
static const char *skip_space(const char *at)
{
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

static bool starts(const char *at, const char *word)
{
    size_t length = strlen(word);
    return strncmp(at, word, length) == 0 && !name_char(at[length]);
}

static bool is_header(const char *at)
{
    return starts(at, ".version") || starts(at, ".target") || starts(at, ".address_size");
}

/* After the statement that begins at `at`. */
static const char *statement_end(const char *at)
{
    if (is_header(at) || starts(at, ".file") || starts(at, ".loc"))
        return at + strcspn(at, "\n");
    int round = 0, curly = 0;
    for (; *at; at++) {
        const char *next = skip_space(at);
        if (next > at) {
            at = next - 1;
            continue;
        }
        if (*at == '"') {
            const char *end = strchr(at + 1, '"');
            if (!end)
                return at + strlen(at);
            at = end;
        } else if (*at == '(') {
            round++;
        } else if (*at == ')') {
            round--;
        } else if (*at == '{') {
            curly++;
        } else if (*at == '}' && --curly == 0 && round <= 0) {
            at = skip_space(at + 1);
            return *at == ';' ? at + 1 : at; /* an initialiser ends with a semicolon, a body does not */
        } else if (*at == ';' && !curly && round <= 0) {
            return at + 1;
        }
    }
    return at;
}

/* The name that a top-level variable or function statement declares; length 0 when it is something else. */
static const char *declared_name(const char *at, const char *end, size_t *length)
{
    bool function = false, seen = false;
    *length = 0;
    for (at = skip_space(at); at < end; at = skip_space(at)) {
        if (*at == '.') {
            const char *word = at;
            for (at++; name_char(*at); at++)
                ;
            function |= starts(word, ".func") || starts(word, ".entry");
            seen |= function || starts(word, ".global") || starts(word, ".const") || starts(word, ".shared");
            if (starts(word, ".align"))
                for (at = skip_space(at); name_char(*at); at++)
                    ;
        } else if (*at == '(' && function) { /* results come before the name */
            at = memchr(at, ')', (size_t)(end - at));
            if (!at)
                return NULL;
            at++;
        } else if (name_char(*at) && seen) {
            const char *name = at;
            while (name_char(*at))
                at++;
            *length = (size_t)(at - name);
            return name;
        } else {
            return NULL;
        }
    }
    return NULL;
}

static bool is_declaration(const char *at, const char *end)
{
    size_t length;
    if (starts(at, ".extern"))
        return true;
    if (!declared_name(at, end, &length) || end[-1] != ';' || !memmem(at, (size_t)(end - at), ".func", 5))
        return false;
    return !memchr(at, '{', (size_t)(end - at)); /* a prototype */
}

static bool defines(const char *text, const char *name, size_t length)
{
    size_t found;
    for (const char *at = skip_space(text); *at;) {
        const char *end = statement_end(at);
        const char *declared = is_declaration(at, end) ? NULL : declared_name(at, end, &found);
        if (declared && found == length && memcmp(declared, name, length) == 0)
            return true;
        at = skip_space(end > at ? end : at + 1);
    }
    return false;
}

static bool is_private(const char *at)
{
    return !starts(at, ".visible") && !starts(at, ".weak") && !starts(at, ".common") && !starts(at, ".extern");
}

struct name {
    const char *text;
    size_t length;
};

typedef TSR_VEC(struct name) name_list;

/* Private names of texts[self] that another text defines as well. */
static void find_clashes(const char *const *texts, size_t count, size_t self, name_list *clashes)
{
    size_t length;
    for (const char *at = skip_space(texts[self]); *at;) {
        const char *end = statement_end(at);
        const char *name = is_private(at) ? declared_name(at, end, &length) : NULL;
        for (size_t other = 0; name && other < count; other++)
            if (other != self && defines(texts[other], name, length)) {
                tsr_vec_push(clashes, (struct name){name, length});
                break;
            }
        at = skip_space(end > at ? end : at + 1);
    }
}

static void put_renamed(struct buffer *out, const char *at, const char *end, const name_list *clashes, size_t self)
{
    char suffix[24];
    size_t suffix_length = tsr_format(suffix, sizeof suffix, "$link%zu", self);
    while (at < end) {
        if (!name_char(*at)) {
            put(out, at++, 1);
            continue;
        }
        const char *word = at;
        while (at < end && name_char(*at))
            at++;
        put(out, word, (size_t)(at - word));
        for (size_t i = 0; i < clashes->count; i++)
            if (clashes->data[i].length == (size_t)(at - word) &&
                memcmp(clashes->data[i].text, word, (size_t)(at - word)) == 0) {
                put(out, suffix, suffix_length);
                break;
            }
    }
}

static bool is_function(const char *at, const char *end)
{
    const char *body = memchr(at, '{', (size_t)(end - at));
    size_t head = (size_t)((body ? body : end) - at);
    return memmem(at, head, ".func", 5) || memmem(at, head, ".entry", 6);
}

static bool defined_elsewhere(const char *const *texts, size_t count, size_t self, const char *name, size_t length)
{
    for (size_t other = 0; other < count; other++)
        if (other != self && defines(texts[other], name, length))
            return true;
    return false;
}

/* One statement of texts[self]; a declaration that another text resolves stays as a prototype, or goes if it is a variable. */
static void put_statement(struct buffer *out, const char *const *texts, size_t count, size_t self, const char *at,
                          const char *end, const name_list *clashes)
{
    size_t length;
    const char *name = is_declaration(at, end) ? declared_name(at, end, &length) : NULL;
    if (name && defined_elsewhere(texts, count, self, name, length)) {
        if (!is_function(at, end))
            return;
        if (starts(at, ".extern"))
            at += strlen(".extern");
    }
    put_renamed(out, at, end, clashes, self);
    put(out, "\n", 1);
}

/* All functions, or everything else but the header: variables of all texts come before the functions that use them. */
static void put_text(struct buffer *out, const char *const *texts, size_t count, size_t self, bool functions)
{
    name_list clashes = {0};
    find_clashes(texts, count, self, &clashes);
    for (const char *at = skip_space(texts[self]); *at;) {
        const char *end = statement_end(at);
        if (!is_header(at) && is_function(at, end) == functions)
            put_statement(out, texts, count, self, at, end, &clashes);
        at = skip_space(end > at ? end : at + 1);
    }
    tsr_vec_fini(&clashes);
}

static double version_of(const char *text)
{
    const char *at = strstr(text, ".version");
    return at ? strtod(at + strlen(".version"), NULL) : 0;
}

static void put_header(struct buffer *out, const char *text)
{
    for (const char *at = skip_space(text); *at;) {
        const char *end = statement_end(at);
        if (is_header(at)) {
            put(out, at, (size_t)(end - at));
            put(out, "\n", 1);
        }
        at = skip_space(end > at ? end : at + 1);
    }
}

char *tsr_link_text(const char *const *texts, size_t count)
{
    struct buffer out = {0};
    if (count == 1)
        return strdup(texts[0]);
    size_t newest = 0;
    for (size_t i = 1; i < count; i++)
        if (version_of(texts[i]) > version_of(texts[newest]))
            newest = i;
    put_header(&out, texts[newest]);
    for (size_t i = 0; i < count; i++)
        put_text(&out, texts, count, i, false);
    for (size_t i = 0; i < count; i++)
        put_text(&out, texts, count, i, true);
    if (out.failed) {
        tsr_vec_fini(&out.bytes);
        return NULL;
    }
    return out.bytes.data;
}

char *tsr_link_bound_registers(const char *text, unsigned registers)
{
    struct buffer out = {0};
    char directive[32];
    size_t length = tsr_format(directive, sizeof directive, "\n.maxnreg %u\n", registers);
    const char *copied = text;
    for (const char *at = skip_space(text); *at;) {
        const char *end = statement_end(at), *body = memchr(at, '{', (size_t)(end - at));
        size_t head = body ? (size_t)(body - at) : 0;
        if (body && memmem(at, head, ".entry", 6) && !memmem(at, head, ".maxnreg", 8)) {
            put(&out, copied, (size_t)(body - copied));
            put(&out, directive, length);
            copied = body;
        }
        at = skip_space(end > at ? end : at + 1);
    }
    put(&out, copied, strlen(copied));
    if (out.failed) {
        tsr_vec_fini(&out.bytes);
        return NULL;
    }
    return out.bytes.data;
}
