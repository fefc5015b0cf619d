/* Addresses at which all processes map page-locked host memory: the application's (memory_host.c), and the relay's. */
#ifndef TSR_MEMORY_HOST_SPACE_H
#define TSR_MEMORY_HOST_SPACE_H

#include <stdint.h>

struct tsr_block;

/* Memory lock held. Whole pages. NULL: there are none left. */
struct tsr_block *tsr_host_space_take_locked(uint64_t bytes);
void tsr_host_space_give_locked(struct tsr_block *block);
/* The block that holds the address, or NULL; the first one. */
struct tsr_block *tsr_host_space_find_locked(uint64_t address);
struct tsr_block *tsr_host_space_first_locked(void);
void tsr_host_space_forget(void);

#endif
