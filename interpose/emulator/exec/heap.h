/*
 * The heap of device code (malloc and free in kernels): one range per process, reserved on first use, that lives as long as the process.
 */
#ifndef TSR_EXEC_HEAP_H
#define TSR_EXEC_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_range;

/* The heap's range when the address lies in it, else NULL. */
const struct tsr_range *tsr_heap_range(uint64_t address);
uint64_t tsr_heap_allocate(uint64_t bytes); /* 0: no room */
/* False: not the address of an allocation. */
bool tsr_heap_free(uint64_t address);
void tsr_heap_child(void);

#endif
