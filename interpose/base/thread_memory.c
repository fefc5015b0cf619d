/* See thread_memory.h. */
#include "base/thread_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/os.h"

struct block {
    _Alignas(64) struct block *next; /* of the same thread */
    size_t bytes;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* the first block */

static void unmap_all(void *first)
{
    for (struct block *block = first, *next; block; block = next) {
        next = block->next;
        tsr_os_unmap(block, block->bytes);
    }
}

static void prepare(void)
{
    pthread_key_create(&key, unmap_all);
}

void *tsr_thread_memory(size_t bytes)
{
    pthread_once(&once, prepare);
    struct block *block = tsr_os_map(NULL, sizeof *block + bytes, PROT_READ | PROT_WRITE, -1, 0);
    if (!block)
        return NULL;
    block->next = pthread_getspecific(key);
    block->bytes = sizeof *block + bytes;
    if (pthread_setspecific(key, block) == 0)
        return block + 1;
    tsr_os_unmap(block, block->bytes);
    return NULL;
}
