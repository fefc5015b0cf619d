/* Which number a register of machine code holds where an instruction reads it: of sm_70 to sm_90, whose branches are known here. */
#ifndef TSR_REGISTER_NUMBER_H
#define TSR_REGISTER_NUMBER_H

#include <stdbool.h>

#include "image/parts.h"

/*
 * code: a function. at: where in it the instruction begins. True: on every path there the register was last set to *number, by an instruction
 * that stands before it with no branch between them, from it or to it. False: that is not known.
 */
bool tsr_register_number(struct tsr_span code, size_t at, uint8_t index, uint32_t *number);

/* Whether a branch or call of the code that names a place leads to that one. */
bool tsr_code_leads_to(struct tsr_span code, size_t place);

#endif
