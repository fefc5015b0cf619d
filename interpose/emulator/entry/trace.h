/*
 * The access trace: with TESSERA_ACCESS_TRACE=file, one line of JSON per launch, in the order in which launches end, appended to the file:
 *
 *   {"launch": 1, "device": 0, "function": "name", "grid": [..], "block": [..], "shared": 0, "params": "hex",
 *    "reads": [[begin, end], ..], "writes": [..], "atomics": [..]}
 *
 * Intervals are the exact bytes that the launch touched in global memory, ascending and as large as possible.
 */
#ifndef TSR_ENTRY_TRACE_H
#define TSR_ENTRY_TRACE_H

/* Once, before the first launch; does nothing when the option is not set. */
void tsr_trace_start(void);

#endif
