/*
 * Options of the native parts: read from the environment once, on first use, into one constant record. Text is copied, so later
 * changes of the environment by the application do not matter. A value that does not parse is named in the log, and the
 * default is used. The table of options is options.def.
 *
 * The environment is read here and nowhere else. A program that runs with more rights than the user who started it (AT_SECURE: set-user-id and
 * the like) has no options of ours, so that nobody can make it write a file or talk to a process by setting a variable.
 */
#ifndef TESSERA_BASE_OPTIONS_H
#define TESSERA_BASE_OPTIONS_H

#include "base/options.def"

#include <stdbool.h>
#include <stdint.h>

typedef int tsr_option_LEVEL; /* enum tsr_log_level */
typedef char tsr_option_TEXT[1024];
typedef uint64_t tsr_option_COUNT;
typedef bool tsr_option_FLAG;

#define TSR_OPTION_FIELD(field, variable, type, fallback, sentence) tsr_option_##type field;
struct tsr_options {
    TSR_OPTIONS(TSR_OPTION_FIELD)
};
#undef TSR_OPTION_FIELD

const struct tsr_options *tsr_options(void);

/* Parses the values that look_up returns (NULL: not set) into result; returns how many did not parse. For tests and tsr_options. */
unsigned tsr_options_parse(struct tsr_options *result, const char *(*look_up)(const char *variable));

#endif
