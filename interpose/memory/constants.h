/*
 * Variables that no code of their module refers to: memory that only has a name. XLA keeps its constants so, and passes their
 * addresses to kernels. Executors cannot reach them, so the application gets the address of a copy in the arena.
 */
#ifndef TSR_MEMORY_CONSTANTS_H
#define TSR_MEMORY_CONSTANTS_H

#include "api/driver.h"

#include <stdbool.h>

struct tsr_module_record;
struct tsr_constant;

/* *address: of the variable, as the driver gave it. True: replaced, each time for the same variable by the same. */
bool tsr_constant_share(struct tsr_module_record *module, const char *name, CUdeviceptr *address);

/* The module is being unloaded. */
void tsr_constants_free(struct tsr_module_record *module);

#endif
