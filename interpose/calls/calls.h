/*
 * Library calls: which entry point of NVIDIA's libraries (tessera/library_calls.h) the calling thread is in. A library of its own, preloaded
 * beside the shim when a policy asks for it, exports those names, and calls the real functions. Calls that reach a library in
 * another way (a look-up in its own handle, from library to library) are not seen.
 */
#ifndef TSR_CALLS_CALLS_H
#define TSR_CALLS_CALLS_H

#include <stdint.h>

/* Number of the outermost entry point that the thread is in, from 1; 0: none. */
uint32_t tessera_library_call(void) __attribute__((weak, visibility("default")));
/* Its name; NULL: there is no such number. */
const char *tessera_library_call_name(uint32_t number) __attribute__((weak, visibility("default")));

#endif
