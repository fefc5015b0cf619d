/* See ring.h. */
#include "record/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

#define WAIT_NS 100000
#define MOST_WAITS 1000u

int tsr_ring_create(uint32_t number, struct tsr_ring **ring)
{
    int descriptor = tsr_os_memfd("tessera-ring", TSR_RING_BYTES);
    if (descriptor < 0)
        return -1;
    bool fixed = tsr_os_allocate(descriptor, 0, TSR_RING_BYTES) && tsr_os_seal(descriptor, F_SEAL_SHRINK | F_SEAL_GROW);
    struct tsr_ring *made = fixed ? tsr_os_map(NULL, TSR_RING_BYTES, PROT_READ | PROT_WRITE, descriptor, 0) : NULL;
    if (!made) {
        close(descriptor);
        return -1;
    }
    *made = (struct tsr_ring){
        .magic = TSR_RECORDS_MAGIC, .version = TSR_RECORDS_VERSION, .bytes = sizeof(struct tsr_ring), .number = number};
    *ring = made;
    return descriptor;
}

void tsr_ring_destroy(struct tsr_ring *ring)
{
    tsr_os_unmap(ring, TSR_RING_BYTES);
}

struct tsr_ring_writer tsr_ring_writer(struct tsr_ring *ring)
{
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
    return (struct tsr_ring_writer){
        .ring = ring, .records = (struct tsr_record *)((char *)ring + TSR_RING_RECORDS_OFFSET), .tail = tail, .room = tail};
}

struct tsr_ring_writer tsr_ring_writer_shared(struct tsr_ring *ring)
{
    return (struct tsr_ring_writer){.ring = ring, .shared = true};
}

/* Looks how far the reader has come. */
static bool look(struct tsr_ring_writer *writer, uint64_t count, uint64_t *head)
{
    *head = __atomic_load_n(&writer->ring->head, __ATOMIC_ACQUIRE);
    bool plausible = writer->tail - *head <= TSR_RING_RECORDS;
    writer->room = plausible ? *head + TSR_RING_RECORDS : writer->tail;
    return writer->tail + count <= writer->room;
}

bool tsr_ring_find_room(struct tsr_ring_writer *writer, uint64_t count)
{
    uint64_t head;
    if (!writer->shared && look(writer, count, &head))
        return true;
    tsr_ring_count(writer, &writer->ring->lost, count);
    return false;
}

void tsr_ring_wait_for_room(struct tsr_ring_writer *writer, uint64_t count)
{
    if (writer->tail + count <= writer->room)
        return;
    uint64_t head, before = __atomic_load_n(&writer->ring->head, __ATOMIC_ACQUIRE);
    if (writer->shared || count > TSR_RING_RECORDS || writer->stuck == before + 1)
        return;
    for (unsigned waits = 0; !look(writer, count, &head); waits++) {
        if (waits == MOST_WAITS) {
            writer->stuck = head == before ? head + 1 : 0;
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
}
