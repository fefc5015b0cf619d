/*
 * The access trace: with TESSERA_ACCESS_TRACE=file, one line of JSON per launch, in the order in which launches end, appended to the file:
 *
 *   {"launch": 1, "device": 0, "function": "name", "grid": [..], "block": [..], "shared": 0, "params": "hex",
 *    "text": "id", "variables": {"name": address, ..}, "memory": [[begin, end, "vmm" or ""], ..],
 *    "reads": [[begin, end], ..], "writes": [..], "atomics": [..],
 *    "fault": {"kind": "illegal address", "line": 1, "address": 0, "bytes": 4, "write": false}}
 *
 * Intervals are the exact bytes that the launch touched in global memory, ascending and as large as possible. memory: all allocations, of
 * any device, when it ended. fault: what stopped the launch, only there when something did; that access was not made. The module's PTX lies
 * beside the trace, in file.id.ptx.
 */
#ifndef TSR_ENTRY_TRACE_H
#define TSR_ENTRY_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* Once, before the first launch; does nothing when the option is not set. */
void tsr_trace_start(void);
/* Keeps a module's text beside the trace. The result is its id, 0 when nothing is traced. */
uint64_t tsr_trace_text(const char *text, size_t length);

#endif
