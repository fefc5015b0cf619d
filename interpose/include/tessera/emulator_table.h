/* The emulated driver's own functions for its virtual time: a table that cuGetExportTable returns for TSR_EMULATOR_TABLE_ID. */
#ifndef TESSERA_EMULATOR_TABLE_H
#define TESSERA_EMULATOR_TABLE_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#define TSR_EMULATOR_TABLE_ID {{'t', 'e', 's', 's', 'e', 'r', 'a', ' ', 'v', 'i', 'r', 't', 'u', 'a', 'l', '1'}}

struct tsr_emulator_table {
    size_t bytes;
    /* The virtual time, one for all processes and GPUs of the machine, at which the event came to pass. Errors: NOT_READY; INVALID_HANDLE. */
    CUresult (*event_ns)(CUevent event, uint64_t *ns);
    /* 1: the host's time stands still, so that the virtual time has nothing to do with the host's clock. */
    int (*is_frozen)(void);
    /* The virtual time at which the calling thread is. */
    uint64_t (*host_ns)(void);
};

#endif
