/* Addresses in words, for log lines about faults and wrong pointers. */
#ifndef TSR_MEMORY_DESCRIBE_H
#define TSR_MEMORY_DESCRIBE_H

#include <stddef.h>
#include <stdint.h>

/*
 * For example "12 bytes past the end of the allocation 0x7e0000000200 of 4096 bytes on device 0", "inside ... which device 1 may not access",
 * "not near any allocation".
 */
void tsr_address_describe(uint64_t address, uint32_t device, char *text, size_t size);

#endif
