/*
 * Memory that libraries allocate inside their own calls, by family. What a handle allocates while it is made is used by that handle's calls
 * alone: cuBLAS' default workspace, and tables and semaphores, which each call leaves as it found them. Page-locked host memory that it
 * allocates (cuDNN's flags) is not kept: it is in one place, and the program's host knows nothing of it. Anything else any launch of the family may
 * use, and change.
 */
#include <pthread.h>

#include <tessera/lane.h>

#include "calls/entries.h"

#define MOST_PIECES 512u
#define LEAST_WORKSPACE (1u << 20) /* of what cublasCreate allocates; smaller pieces are semaphores and scalars */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece {
    uint64_t address, bytes; /* lock; address 0: free */
    enum tsr_call_family family;
    const void *maker; /* the thread that is making the piece's handle; NULL: it is made, or there is none */
    uint64_t handle;   /* 0: none */
} pieces[MOST_PIECES];
static uint32_t used;           /* lock; places from here on were never taken */
static bool lost[TSR_FAMILIES]; /* lock; the family has more memory than there is room for */

/* cuBLAS works through cuBLASLt. */
static enum tsr_call_family owner(enum tsr_call_family family)
{
    return family == TSR_FAMILY_cublasLt ? TSR_FAMILY_cublas : family;
}

void tsr_memory_made(enum tsr_call_family family, uint64_t address, uint64_t bytes, const void *maker)
{
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < used && pieces[i].address)
        i++;
    if (i == MOST_PIECES)
        lost[owner(family)] = true;
    else
        pieces[i] = (struct piece){address, bytes, owner(family), maker, 0};
    if (i == used && used < MOST_PIECES)
        used++;
    pthread_mutex_unlock(&lock);
}

void tsr_memory_has_handle(const void *maker, uint64_t handle)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < used; i++)
        if (pieces[i].address && pieces[i].maker == maker) {
            pieces[i].handle = handle;
            pieces[i].maker = NULL;
            if (tsr_host_covers(pieces[i].address))
                pieces[i].address = 0;
        }
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

static enum tsr_operand_access access_of(const struct piece *piece)
{
    if (!piece->handle)
        return TSR_OPERAND_BOTH;
    return piece->family == TSR_FAMILY_cublas && piece->bytes >= LEAST_WORKSPACE ? TSR_OPERAND_SCRATCH : TSR_OPERAND_READ;
}

void tsr_memory_add_operands(enum tsr_call_family family, uint64_t handle, struct tsr_operands *operands)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < used; i++) {
        const struct piece *piece = &pieces[i];
        if (piece->address && piece->family == owner(family) && (!piece->handle || piece->handle == handle))
            tsr_operands_add_bytes(operands, access_of(piece), piece->address, piece->bytes);
    }
    if (lost[owner(family)])
        tsr_operands_unknown(operands, "more memory of the library than there is room for");
    pthread_mutex_unlock(&lock);
}
