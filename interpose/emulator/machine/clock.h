/*
 * Virtual time: pure arithmetic from what was done to how long it takes on the described device, and the timelines of devices, copy
 * engines and links on which work finds its place. No threads, no I/O: the engine calls it in its (deterministic) order.
 *
 * Kernel: max of issue (issue_cycles / (4 x SMs in use x clock)), memory (distinct bytes per location / that location's bandwidth), L2 traffic, shared-memory
 * pipe, and the longest block (with a wait for DRAM if it reads any) times the number of waves; the device's launch latency is the floor. A grid that does not fill the device
 * uses that share of it, and others may run beside it.
 */
#ifndef TSR_MACHINE_CLOCK_H
#define TSR_MACHINE_CLOCK_H

#include <stdint.h>

#include <tessera/machine.h>

struct tsr_cost;

struct tsr_kernel_time {
    uint64_t ns;
    uint32_t sm_permille; /* share of the device it occupies, 1..1000 */
    const char *bound;    /* "memory", "issue", "l2", "shared", "latency", "launch": what decided, for reports */
};
struct tsr_kernel_time tsr_clock_kernel(const struct tsr_machine *machine, uint32_t device, uint32_t sm_count,
                                        const struct tsr_cost *cost);

/* from, to: device number or 16 for host memory. */
uint64_t tsr_clock_copy_ns(const struct tsr_machine *machine, uint32_t from, uint32_t to, uint64_t bytes, int pinned);
uint64_t tsr_clock_memset_ns(const struct tsr_machine *machine, uint32_t device, uint64_t bytes);
/* What takes so long on the device, if it may begin at ready_ns: a device may have become slower by then. */
uint64_t tsr_clock_slowed_ns(const struct tsr_machine *machine, uint32_t device, uint64_t ns, uint64_t ready_ns);

struct tsr_timeline; /* busy intervals of one process' devices, copy engines and links */
struct tsr_timeline *tsr_timeline_create(const struct tsr_machine *machine);
void tsr_timeline_destroy(struct tsr_timeline *timeline);
/* Earliest start >= ready_ns at which the share of the device is free for the duration; books it and returns the start. */
uint64_t tsr_timeline_place_kernel(struct tsr_timeline *timeline, uint32_t device, struct tsr_kernel_time time,
                                   uint64_t ready_ns);
uint64_t tsr_timeline_place_copy(struct tsr_timeline *timeline, uint32_t from, uint32_t to, uint64_t ns, uint64_t ready_ns);

#endif
