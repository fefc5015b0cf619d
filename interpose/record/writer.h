/*
 * Where a process writes its records: the connection to the control plane, the journal, and a ring for each thread that records.
 *
 * It never waits for the control plane for long (a bounded time when the process or a thread begins); once the control plane is gone,
 * recording has ended for good. Rings of threads that have ended are reused; a process has at most TSR_RINGS, and threads beyond
 * that only count. A forked child has none of its parent's.
 */
#ifndef TSR_RECORD_WRITER_H
#define TSR_RECORD_WRITER_H

#include "record/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tessera/records.h>

#ifndef TSR_RINGS /* a test has fewer */
#define TSR_RINGS 1024u
#endif
#define TSR_STREAM_CACHE 32u

struct tsr_stream_context {
    uint64_t stream;  /* CUstream; 0: empty */
    uint32_t epoch;   /* of the handles when it was looked up */
    uint16_t context; /* number */
};

/* A thread that records; its own, never seen by another. */
struct tsr_thread {
    struct tsr_ring_writer writer;
    uint32_t ring;           /* number */
    uint32_t random;         /* state of a xorshift */
    uint32_t others;         /* graphs and copies, of which timing takes samples */
    uint32_t pulls;          /* the same */
    uint64_t context_handle; /* the context seen last, */
    uint32_t context_epoch;  /* under this epoch of the handles, */
    uint16_t context;        /* and its number */
    struct tsr_stream_context streams[TSR_STREAM_CACHE];
};

extern __thread struct tsr_thread *tsr_thread_current __attribute__((visibility("hidden"), tls_model("initial-exec")));
struct tsr_thread *tsr_thread_begin(void);

/* NULL: nothing is recorded (any more). */
static inline struct tsr_thread *tsr_thread(void)
{
    struct tsr_thread *thread = tsr_thread_current;
    return __builtin_expect(thread != NULL, 1) ? thread : tsr_thread_begin();
}

static inline uint32_t tsr_thread_random(struct tsr_thread *thread)
{
    uint32_t random = thread->random;
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    return thread->random = random;
}

/* Once cuInit has succeeded. first: when it was called. False: nobody wants records, or there is no memory. */
bool tsr_writer_start(const char *socket_path, struct tsr_anchor first, enum tsr_gpu_clock clock);

/* NULL before the start and in a forked child. Its counters are atomic. */
struct tsr_journal *tsr_writer_journal(void);

/* Appends a definition to the journal; the entry's bytes are filled in. False: the journal is full or there is none. */
bool tsr_writer_define(struct tsr_entry *entry, const char *text);

/* Sends a CODE message: number, hash, linked_into, offset and bytes are the caller's, and so is the descriptor. False: the control
   plane has gone, or did not read for too long. */
bool tsr_writer_hand_over(struct tsr_records_message message, int descriptor);

/* Whether the control plane has gone. */
bool tsr_writer_is_alone(void);

#endif
