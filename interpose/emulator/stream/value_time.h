/*
 * When values were written, by physical memory, for all processes of the machine: a table in the machine file, indexed by a hash of the
 * file and offset behind an address. Memory without a file (the application's own, registered) is told apart by process instead.
 * A full neighbourhood forgets its first row, then a wait sees no time: a time too early, never a hang. Of each place the latest writes are
 * known: who looks later than others, in real time, finds more of them, and must not wait for those that it does not need.
 */
#ifndef TSR_STREAM_VALUE_TIME_H
#define TSR_STREAM_VALUE_TIME_H

#include <stdbool.h>
#include <stdint.h>

void tsr_value_time_store(uint64_t address, uint64_t value, uint64_t ns);
/* Since when values have been there that fulfil the condition. 0: not known. */
uint64_t tsr_value_time_load(uint64_t address, bool (*fulfils)(const void *condition, uint64_t value), const void *condition);

#endif
