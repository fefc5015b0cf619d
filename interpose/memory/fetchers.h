/* Fetchers: streams of ours at home in which extents that the host owns are fetched, beside the program's work (spill.h). */
#ifndef TSR_MEMORY_FETCHERS_H
#define TSR_MEMORY_FETCHERS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_copies;

/* Memory lock. Home's copy gets all bytes that it does not hold. The result: how many those are; 0 also where that has to wait for the first use. */
uint64_t tsr_fetcher_fetch(struct tsr_copies *copies);

/* The rest with the copies' lock. Whether all that the stream with this number has fetched is there; waits: as in marks.h. */
bool tsr_fetcher_is_idle_locked(uint32_t number, bool waits);
/* How many are not. */
uint32_t tsr_fetchers_at_work_locked(void);
void tsr_fetchers_context_gone_locked(CUcontext context);
void tsr_fetchers_forget(void);

#endif
