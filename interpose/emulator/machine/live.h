/*
 * The live part of the machine: memory in use, and what ran where. Safe from any thread and process; everything is atomic.
 *
 * Devices are those of this process (map.h translates). Memory is counted per device and, in the process table, per process, so that what a killed process held is found and given back:
 * that happens when a process attaches and when an allocation would exceed the capacity.
 */
#ifndef TSR_MACHINE_LIVE_H
#define TSR_MACHINE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/machine.h>

/* Enters the calling process in the process table; returns its row, or -1 when the table is full (then it is counted per device alone). */
int tsr_live_attach(struct tsr_machine *machine);
/* Gives back everything the row still holds. */
void tsr_live_detach(struct tsr_machine *machine, int row);

/* False when the device's capacity would be exceeded; then nothing changed. */
bool tsr_live_memory_take(struct tsr_machine *machine, int row, uint32_t device, uint64_t bytes);
void tsr_live_memory_give(struct tsr_machine *machine, int row, uint32_t device, uint64_t bytes);

/* For the engine, after each grid and copy. busy: time on the device; end_ns: virtual time of its end. */
void tsr_live_kernel(struct tsr_machine *machine, uint32_t device, const char *name, uint64_t busy_ns, uint64_t end_ns);
/* For the engine, after each grid: bytes of memory that it touched, by the location of the memory (a device, or beyond them the host). */
void tsr_live_touched(struct tsr_machine *machine, uint32_t device, uint32_t location, uint64_t bytes);
void tsr_live_copy(struct tsr_machine *machine, uint32_t device, uint64_t bytes, uint64_t end_ns);

#endif
