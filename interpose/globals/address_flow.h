/* Where addresses of variables go in machine code: whether a function may leave one in memory. */
#ifndef TSR_ADDRESS_FLOW_H
#define TSR_ADDRESS_FLOW_H

#include <stdbool.h>

#include "image/parts.h"

/*
 * code: a function. makes: for each instruction, whether it sets registers to such an address. False: none, nor what is made of one, is ever stored (or
 * is the address of an access). True: one may be, or that is not known.
 */
bool tsr_address_is_stored(struct tsr_span code, const bool *makes);
bool tsr_address_is_used(struct tsr_span code, const bool *makes);

#endif
