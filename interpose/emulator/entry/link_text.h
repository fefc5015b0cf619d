/* Several PTX texts as one. */
#ifndef TSR_ENTRY_LINK_TEXT_H
#define TSR_ENTRY_LINK_TEXT_H

#include <stddef.h>

/*
 * The texts one after the other under the header of the one with the highest .version, without `.extern` declarations of what one of them defines. NULL: out of
 * memory. The result is to be freed.
 */
char *tsr_link_text(const char *const *texts, size_t count);

/* The text with `.maxnreg registers` on every kernel that has none. NULL: out of memory. The result is to be freed. */
char *tsr_link_bound_registers(const char *text, unsigned registers);

#endif
