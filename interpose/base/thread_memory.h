/* Memory of threads that is too large for thread-local storage: a library that is loaded late finds little of that. */
#ifndef TSR_BASE_THREAD_MEMORY_H
#define TSR_BASE_THREAD_MEMORY_H

#include <stddef.h>

/* Zeroed memory that is unmapped when the calling thread ends. NULL: there is none. */
void *tsr_thread_memory(size_t bytes);

#endif
