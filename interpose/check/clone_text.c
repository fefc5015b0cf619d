/* See clone_text.h. */
#include "check/clone_text.h"

#include <string.h>

#include <tessera/clones.h>

bool tsr_clone_text_read(const char *bytes, uint32_t size, struct tsr_clone_text *out)
{
    const char *line = bytes, *end = bytes + size;
    uint32_t places = 0;
    *out = (struct tsr_clone_text){.lines = bytes, .untested = ""};
    for (; line < end && *line; line += strlen(line) + 1) {
        if (*line == TSR_CLONE_UNTESTED)
            out->untested = line + 1;
        places += *line == TSR_CLONE_GLOBAL;
    }
    out->ptx = line + 1;
    return out->ptx < end && places <= TSR_CLONE_PLACES;
}
