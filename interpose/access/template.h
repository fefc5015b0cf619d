/*
 * Untrusted bytes to a template's sections: every index, count and width is checked here, once, so that the evaluation need not. What it
 * does not check are orders of nodes: values may depend on each other in circles, which the evaluation bounds itself.
 */
#ifndef TESSERA_ACCESS_TEMPLATE_H
#define TESSERA_ACCESS_TEMPLATE_H

#include "access/evaluation.h"

/* The sections of a template that is aligned to 8 bytes. False: it is damaged or of another version. */
bool tsr_template_read(const void *bytes, size_t size, struct tsr_sections *sections);

#endif
