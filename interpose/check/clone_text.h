/* Parses a clone's bytes (tessera/clones.h) in the table of templates; nothing in them is trusted. */
#ifndef TSR_CHECK_CLONE_TEXT_H
#define TSR_CHECK_CLONE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_clone_text {   /* points into the bytes */
    const char *lines;    /* each ended by a zero, the last one is empty */
    const char *untested; /* what the clone does not test, or why there is none; "": nothing */
    const char *ptx;      /* "": there is no clone */
};

/* bytes: the last one is zero. False: they are no clone's. */
bool tsr_clone_text_read(const char *bytes, uint32_t size, struct tsr_clone_text *out);

#endif
