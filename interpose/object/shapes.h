/*
 * Launches that had to be evaluated, by their functions, in the part of the table of templates that shims write (tessera/templates.h). They stay
 * for the next run: who makes a function's evaluator finds what the function's launches were like. Bounded, and never waited for.
 */
#ifndef TSR_OBJECT_SHAPES_H
#define TSR_OBJECT_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/templates.h>

struct tsr_template_link;

#define TSR_SHAPES_MOST_PARAMETERS 4096u /* bytes; a launch with more is not kept */

/* The table is there. Where it cannot be written nothing is kept, and nothing found. */
void tsr_shapes_start(const char *path);

/* `like`: but for `bytes` and whose it is. Most of each function are kept: so many in this process. */
#define TSR_SHAPES_OF_FUNCTION 16u
#define TSR_SHAPES_BEFORE_TEMPLATE 2u
void tsr_shapes_note(struct tsr_template_link *link, const struct tsr_shape *like, const void *parameters, uint32_t most);

/* Of any run, in the order in which they were noted, as long as `visit` says so. What it is given may be damaged but for its sizes. */
void tsr_shapes_each(const struct tsr_template_link *link,
                     bool (*visit)(const struct tsr_shape *shape, const void *parameters, void *argument), void *argument);

#endif
