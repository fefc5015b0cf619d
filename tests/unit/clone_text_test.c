/* The bytes of clones, right ones and damaged ones, which end in a zero whatever they are. */
#include "check/clone_text.c"

#include "check.h"

#include <stdlib.h>
#include <string.h>

#include <tessera/clones.h>

#define READ(text, out) tsr_clone_text_read(text, sizeof text, out) /* with the zero at its end */

TEST(lines_are_told_from_the_ptx)
{
    struct tsr_clone_text text;
    CHECK(READ("\0ptx", &text));
    CHECK(strcmp(text.ptx, "ptx") == 0 && strcmp(text.untested, "") == 0 && !*text.lines);
    CHECK(READ("!this\0@one\0=two\0\0ptx", &text));
    CHECK(strcmp(text.ptx, "ptx") == 0 && strcmp(text.untested, "this") == 0);
    CHECK(strcmp(text.lines, "!this") == 0);
    CHECK(READ("!why\0\0", &text));
    CHECK(strcmp(text.ptx, "") == 0 && strcmp(text.untested, "why") == 0);
}

TEST(what_ends_too_early_is_none)
{
    struct tsr_clone_text text;
    CHECK(!READ("", &text));
    CHECK(!READ("@one", &text));
    CHECK(!READ("@one\0@two", &text));
    CHECK(!READ("@one\0", &text));
    CHECK(!tsr_clone_text_read("", 0, &text));
}

/* With that many places, and an empty PTX. */
static bool reads_with(unsigned places)
{
    struct tsr_clone_text text;
    size_t size = 3 * places + 2;
    char *bytes = calloc(1, size); /* exactly as large: beyond it is the sanitizer's */
    for (unsigned i = 0; i < places; i++)
        memcpy(bytes + 3 * i, "@v", 3);
    bool good = tsr_clone_text_read(bytes, (uint32_t)size, &text);
    free(bytes);
    return good;
}

TEST(there_is_room_for_so_many_places)
{
    CHECK(reads_with(0));
    CHECK(reads_with(TSR_CLONE_PLACES));
    CHECK(!reads_with(TSR_CLONE_PLACES + 1));
}
