/* See options.h. */
#include "base/options.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool parse_LEVEL(int *result, const char *text)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            *result = i;
            return true;
        }
    }
    return false;
}

static bool parse_TEXT(tsr_option_TEXT *result, const char *text)
{
    size_t length = strlen(text);
    if (length >= sizeof *result)
        return false;
    memcpy(*result, text, length + 1);
    return true;
}

static bool parse_COUNT(uint64_t *result, const char *text)
{
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *result = value;
    return true;
}

static bool parse_FLAG(bool *result, const char *text)
{
    if ((*text != '0' && *text != '1') || text[1])
        return false;
    *result = *text == '1';
    return true;
}

unsigned tsr_options_parse(struct tsr_options *result, const char *(*look_up)(const char *variable))
{
    unsigned wrong = 0;
    const char *text;
    memset(result, 0, sizeof *result);
#define PARSE(field, variable, type, fallback, sentence)                                                                       \
    parse_##type(&result->field, fallback);                                                                                    \
    text = look_up(variable);                                                                                                  \
    wrong += text && !parse_##type(&result->field, text);
    TSR_OPTIONS(PARSE)
#undef PARSE
    return wrong;
}

static struct tsr_options options;
static pthread_once_t options_once = PTHREAD_ONCE_INIT;

static const char *from_environment(const char *variable)
{
    return secure_getenv(variable);
}

static void options_read(void)
{
    unsigned wrong = tsr_options_parse(&options, from_environment);
    tsr_log_configure(options.log_level, options.log_file);
    if (!wrong)
        return;
#define NAME_WRONG(field, variable, type, fallback, sentence)                                                                  \
    {                                                                                                                          \
        const char *text = from_environment(variable);                                                                                   \
        tsr_option_##type ignored;                                                                                             \
        if (text && !parse_##type(&ignored, text))                                                                             \
            tsr_warn("%s=%s is not understood, using %s. %s", variable, text, *fallback ? fallback : "the default", sentence); \
    }
    TSR_OPTIONS(NAME_WRONG)
#undef NAME_WRONG
}

const struct tsr_options *tsr_options(void)
{
    pthread_once(&options_once, options_read);
    return &options;
}
