/*
 * printf-like formatting into a caller's buffer, without allocation, locale or stdio: usable in constructors, in forked children
 * and on any thread. Understands %d %i %u %x %X %p %c %s %% with the flags 0 and -, a width, a precision for %s (also .*) and the
 * lengths hh h l ll z j t. Floating point is not supported; device printf has its own formatter.
 */
#ifndef TESSERA_BASE_FORMAT_H
#define TESSERA_BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* Writes at most size - 1 characters and a NUL; returns the length of what was written (never more than size - 1). */
size_t tsr_format(char *buffer, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t tsr_format_list(char *buffer, size_t size, const char *format, va_list values) __attribute__((format(printf, 3, 0)));

#endif
