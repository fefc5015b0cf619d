/* A twin's bytes (tessera/twins.h), as the table of templates has them: nothing in them is trusted. */
#ifndef TSR_CHECK_TWIN_TEXT_H
#define TSR_CHECK_TWIN_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_twin_text {    /* points into the bytes */
    const char *lines;    /* each ended by a zero, the last one is empty */
    const char *untested; /* what the twin does not test, or why there is none; "": nothing */
    const char *ptx;      /* "": there is no twin */
};

/* bytes: the last one is zero. False: they are no twin's. */
bool tsr_twin_text_read(const char *bytes, uint32_t size, struct tsr_twin_text *out);

#endif
