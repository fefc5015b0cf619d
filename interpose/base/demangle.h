/*
 * Demangles C++ names (Itanium ABI), with the output of the GNU C++ library's __cxa_demangle but without that library: the application's
 * process is not given a C++ runtime for it.
 *
 * Covers what the names of kernels are made of: nested and local names, lambdas, templates with types, numbers, packs and addresses of
 * functions, types of functions and arrays. Not: expressions, decltype, pointers to members, conversion operators.
 */
#ifndef TSR_BASE_DEMANGLE_H
#define TSR_BASE_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

#define TSR_DEMANGLED_BYTES 16384

struct tsr_demangled {
    size_t name, name_end; /* in the text: the name without the type of the result and the parameters */
    char text[TSR_DEMANGLED_BYTES];
};

/* False: the name is not mangled, not understood, too long, or memory is short. Allocates for its own time; bounded time. */
bool tsr_demangle(const char *mangled, struct tsr_demangled *result);

struct tsr_kernel_name {
    char text[256];
};

/* How people know a kernel, for a line of the log: without result and parameters if it is mangled; cut off if it is long. Gives room->text. */
const char *tsr_kernel_name(const char *name, struct tsr_kernel_name *room);

/* The same in a room of the statement's own. */
#define TSR_KERNEL_NAME(name) tsr_kernel_name((name), &(struct tsr_kernel_name){{0}})

#endif
