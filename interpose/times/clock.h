/*
 * When work ran on a GPU, from the events around it: on the host's clock (CLOCK_MONOTONIC), or on the virtual one of emulated GPUs while host time
 * is frozen. For the shim and for executors; each passes its own table of driver functions. Nothing here takes a lock.
 */
#ifndef TESSERA_TIMES_CLOCK_H
#define TESSERA_TIMES_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct tsr_times_driver {
    CUresult (*stream_create)(CUstream *, unsigned);
    CUresult (*event_create)(CUevent *, unsigned);
    CUresult (*event_record)(CUevent, CUstream);
    CUresult (*event_query)(CUevent);
    CUresult (*elapsed)(float *, CUevent, CUevent);
    bool emulated;                             /* a launch begins when it is called, not when the call ends */
    CUresult (*event_ns)(CUevent, uint64_t *); /* for GPUs with a clock of their own; NULL: GPUs share the host's */
    uint64_t (*host_ns)(void);                 /* the same: where on that clock the calling thread is */
};

/* Finds the emulated driver's own functions, if it is one. Call it after cuInit. */
void tsr_times_find_emulator(struct tsr_times_driver *driver, CUresult (*export_table)(const void **, const CUuuid *));

/* Whether the event has come to pass, as cuEventQuery: who asks on the program's thread moves its virtual time by what it sees, and so by
   when it happens to ask. This costs no time. */
CUresult tsr_times_query(const struct tsr_times_driver *driver, CUevent event);

/* Whether it has, where the calling thread is in virtual time, which does not move: for who can do without. */
bool tsr_times_is_past(const struct tsr_times_driver *driver, CUevent event);

/* Of one context. Zero bytes: at its beginning. */
struct tsr_times_clock {
    CUstream stream; /* ours, on which anchors are made */
    CUevent anchor, spare;
    uint64_t anchor_ns, taken_ns; /* when the anchor event happened, and when the anchor was made */
    int64_t least_delay_ns;       /* shortest time from recording a first event to its happening, as on an idle stream */
};

/* The context is current. Makes a new anchor from time to time. False: there is none yet. Waits for a bounded time. */
bool tsr_times_prepare(const struct tsr_times_driver *driver, struct tsr_times_clock *clock);

/* Times on the host: before the first event was recorded, after that, and after the work was enqueued. */
struct tsr_times_asked {
    uint64_t asked_ns, begun_ns, launched_ns;
};

/* When the work between two events, which have happened, began and how long it took, without the time that the host left the GPU idle in
   between. False: the driver does not say. */
bool tsr_times_read(const struct tsr_times_driver *driver, struct tsr_times_clock *clock, CUevent begin, CUevent end,
                    const struct tsr_times_asked *asked, uint64_t *start_ns, uint64_t *ns);

#endif
