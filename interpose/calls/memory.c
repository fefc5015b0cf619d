/*
 * Memory that libraries allocate inside their own calls, by family: work areas, semaphores, constants. Any launch of the family may use it.
 */
#include <pthread.h>

#include "calls/entries.h"

#define MOST_PIECES 512u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece {
    uint64_t address, bytes; /* lock; address 0: free */
    enum tsr_call_family family;
} pieces[MOST_PIECES];
static uint32_t used;           /* lock; places from here on were never taken */
static bool lost[TSR_FAMILIES]; /* lock; the family has more memory than there is room for */

/* cuBLAS works through cuBLASLt. */
static enum tsr_call_family owner(enum tsr_call_family family)
{
    return family == TSR_FAMILY_cublasLt ? TSR_FAMILY_cublas : family;
}

void tsr_memory_made(enum tsr_call_family family, uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < used && pieces[i].address)
        i++;
    if (i == MOST_PIECES)
        lost[owner(family)] = true;
    else
        pieces[i] = (struct piece){address, bytes, owner(family)};
    if (i == used && used < MOST_PIECES)
        used++;
    pthread_mutex_unlock(&lock);
}

void tsr_memory_gone(uint64_t address)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < used; i++)
        if (pieces[i].address == address)
            pieces[i].address = 0;
    pthread_mutex_unlock(&lock);
}

void tsr_memory_add_operands(enum tsr_call_family family, struct tsr_operands *operands)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < used; i++)
        if (pieces[i].address && pieces[i].family == owner(family))
            tsr_operands_add_bytes(operands, TSR_OPERAND_BOTH, pieces[i].address, pieces[i].bytes);
    if (lost[owner(family)])
        tsr_operands_unknown(operands, "more memory of the library than there is room for");
    pthread_mutex_unlock(&lock);
}
