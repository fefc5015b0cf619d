/* See twin_text.h. */
#include "check/twin_text.h"

#include <string.h>

#include <tessera/twins.h>

bool tsr_twin_text_read(const char *bytes, uint32_t size, struct tsr_twin_text *out)
{
    const char *line = bytes, *end = bytes + size;
    uint32_t places = 0;
    *out = (struct tsr_twin_text){.lines = bytes, .untested = ""};
    for (; line < end && *line; line += strlen(line) + 1) {
        if (*line == TSR_TWIN_UNTESTED)
            out->untested = line + 1;
        places += *line == TSR_TWIN_GLOBAL;
    }
    out->ptx = line + 1;
    return out->ptx < end && places <= TSR_TWIN_PLACES;
}
