/*
 * One thread's ring of records, from the writer's side (tessera/records.h has the layout). The memory is shared with the control plane:
 * the writer keeps its own copy of everything it relies on, and what the reader says only decides whether there is room.
 *
 *     if (tsr_ring_has_room(&writer, 2)) {
 *         *tsr_ring_at(&writer, 0) = ...;
 *         *tsr_ring_at(&writer, 1) = ...;
 *         tsr_ring_commit(&writer, 2);
 *     }
 */
#ifndef TSR_RECORD_RING_H
#define TSR_RECORD_RING_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/records.h>

#define TSR_RING_BYTES (TSR_RING_RECORDS_OFFSET + TSR_RING_RECORDS * sizeof(struct tsr_record))

struct tsr_ring_writer {
    struct tsr_ring *ring;
    struct tsr_record *records;
    uint64_t tail;  /* number of the next record */
    uint64_t room;  /* records up to this number may be written without looking at the reader's head */
    uint64_t stuck; /* head of a reader that was waited for in vain, and one; 0: none */
    bool shared;    /* threads without a ring of their own: there is never room, and the counters have many writers */
};

/* A new ring in a memory file of its own, all of its memory allocated. The descriptor is the caller's; -1: no memory. */
int tsr_ring_create(uint32_t number, struct tsr_ring **ring);
void tsr_ring_destroy(struct tsr_ring *ring);

/* Goes on where the ring's last writer stopped. */
struct tsr_ring_writer tsr_ring_writer(struct tsr_ring *ring);

/* Only counts, in the header of a ring that others count in, too. */
struct tsr_ring_writer tsr_ring_writer_shared(struct tsr_ring *ring);

/* Looks how far the reader has come; counts the records as lost when they do not fit. */
bool tsr_ring_find_room(struct tsr_ring_writer *writer, uint64_t count);

/* Waits for a slow reader until there is room, some 0.1 s at most; for one that does not read at all only once. Counts nothing. */
void tsr_ring_wait_for_room(struct tsr_ring_writer *writer, uint64_t count);

static inline bool tsr_ring_has_room(struct tsr_ring_writer *writer, uint64_t count)
{
    return __builtin_expect(writer->tail + count <= writer->room, 1) || tsr_ring_find_room(writer, count);
}

/* Place of the record `ahead` records after the last committed one. */
static inline struct tsr_record *tsr_ring_at(const struct tsr_ring_writer *writer, uint64_t ahead)
{
    return &writer->records[(writer->tail + ahead) % TSR_RING_RECORDS];
}

static inline void tsr_ring_commit(struct tsr_ring_writer *writer, uint64_t count)
{
    writer->tail += count;
    __atomic_store_n(&writer->ring->tail, writer->tail, __ATOMIC_RELEASE);
}

/* Adds to a counter of the ring's header. */
static inline void tsr_ring_count(const struct tsr_ring_writer *writer, uint64_t *counter, uint64_t by)
{
    if (__builtin_expect(writer->shared, 0))
        __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
    else
        __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

#endif
