/*
 * Templates as evaluators, one each, for as long as the process lives. Making one takes some ten microseconds, so it is done where nobody
 * launches: when a template is published, by a thread of ours, or when the application gets the function, if its template was there before.
 * A launch that comes earlier makes it itself. An evaluator begins with the ranges of launches that the function is known to have had, in this
 * run before there was a template, or in earlier ones (object/shapes.h).
 */
#ifndef TSR_LAUNCH_EVALUATORS_H
#define TSR_LAUNCH_EVALUATORS_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_access;
struct tsr_template_link;

/* A session begins in which it is predicted what launches on that GPU touch: until then nothing is made beforehand. */
void tsr_evaluators_start(uint32_t gpu);

/* The application has got this function's handle. */
void tsr_evaluators_expect(const void *handle);

/* Of the template's bytes in the table, which are of a function with that link. NULL: there is no template, or it is damaged. Takes no lock
   once it is there. */
struct tsr_access *tsr_evaluator_of(const struct tsr_template_link *link, const void *template, uint32_t bytes);

#endif
