/*
 * The state of an mbarrier: 8 bytes of shared memory, ours to lay out. A state word that a program holds is the same value.
 *
 *   bits  0..19  arrivals still expected in this phase
 *   bits 20..39  arrivals expected per phase
 *   bits 40..61  transaction bytes still expected, as a signed number
 *   bit  62      phase parity
 *   bit  63      1 while initialised
 *
 * Shared memory belongs to one worker at a time, so plain accesses will do.
 */
#ifndef TSR_EXEC_MBARRIER_H
#define TSR_EXEC_MBARRIER_H

#include <stdint.h>

void tsr_mbarrier_complete_tx(unsigned char *barrier, uint32_t bytes);

#endif
