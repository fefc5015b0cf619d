#include "heap.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "../space/space.h"
#include "base/os.h"

#define HEAP_BYTES (64ull << 20)
#define STEP_BYTES 16u

/* In front of each piece; the pieces are contiguous and cover the heap. */
struct piece {
    uint64_t bytes; /* header included */
    uint64_t used;  /* 1 used, 0 free */
};

static struct {
    pthread_mutex_t lock;
    struct tsr_range range; /* base is atomic: 0 until the heap is there */
    struct piece *first;
    struct piece *next; /* where the search starts */
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tsr_heap_child(void)
{
    pthread_mutex_init(&heap.lock, NULL);
}

const struct tsr_range *tsr_heap_range(uint64_t address)
{
    uint64_t base = __atomic_load_n(&heap.range.base, __ATOMIC_ACQUIRE);
    return base != 0 && address - base < HEAP_BYTES ? &heap.range : NULL;
}

static bool start_locked(void)
{
    if (heap.first != NULL)
        return true;
    void *memory = tsr_os_map(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, -1, 0);
    if (memory == NULL)
        return false;
    heap.first = heap.next = memory;
    *heap.first = (struct piece){.bytes = HEAP_BYTES};
    heap.range.bytes = HEAP_BYTES;
    heap.range.readable = heap.range.writable = UINT16_MAX;
    heap.range.kind = TSR_RANGE_INTERNAL;
    __atomic_store_n(&heap.range.base, (uintptr_t)memory, __ATOMIC_RELEASE);
    return true;
}

static struct piece *after(const struct piece *piece)
{
    return (struct piece *)(void *)((unsigned char *)(uintptr_t)piece + piece->bytes);
}

static const struct piece *end(void)
{
    return (const struct piece *)(const void *)((unsigned char *)heap.first + HEAP_BYTES);
}

/* Device code can overwrite headers; a piece that leads nowhere ends the search. */
static bool sound(const struct piece *piece)
{
    return piece->bytes >= sizeof *piece && piece->bytes % STEP_BYTES == 0 &&
           piece->bytes <= (uint64_t)((const unsigned char *)end() - (const unsigned char *)piece);
}

static struct piece *find_locked(struct piece *from, const struct piece *to, uint64_t bytes)
{
    for (struct piece *piece = from; piece < to && sound(piece); piece = after(piece)) {
        if (piece->used)
            continue;
        while (after(piece) < end() && sound(after(piece)) && !after(piece)->used)
            piece->bytes += after(piece)->bytes;
        if (piece->bytes >= bytes)
            return piece;
    }
    return NULL;
}

uint64_t tsr_heap_allocate(uint64_t bytes)
{
    uint64_t result = 0;
    if (bytes > HEAP_BYTES)
        return 0;
    bytes = (bytes + sizeof(struct piece) + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
    pthread_mutex_lock(&heap.lock);
    if (start_locked()) {
        struct piece *piece = find_locked(heap.next, end(), bytes);
        if (piece == NULL)
            piece = find_locked(heap.first, end(), bytes);
        if (piece != NULL) {
            uint64_t rest = piece->bytes - bytes;
            if (rest >= 2 * sizeof *piece) {
                piece->bytes = bytes;
                *after(piece) = (struct piece){.bytes = rest};
            }
            piece->used = 1;
            heap.next = after(piece) < end() ? after(piece) : heap.first;
            result = (uintptr_t)(piece + 1);
        }
    }
    pthread_mutex_unlock(&heap.lock);
    return result;
}

bool tsr_heap_free(uint64_t address)
{
    bool found = false;
    pthread_mutex_lock(&heap.lock);
    if (heap.first != NULL)
        for (struct piece *piece = heap.first; piece < end() && sound(piece); piece = after(piece))
            if ((uintptr_t)(piece + 1) == address && piece->used) {
                piece->used = 0;
                heap.next = heap.first;
                found = true;
                break;
            }
    pthread_mutex_unlock(&heap.lock);
    return found;
}
