/*
 * Sharing ordinary device memory with other processes (the legacy IPC calls, and pointers of exported pools): a name that says which process,
 * which of its descriptors and where in the file. Opening goes through /proc/<pid>/fd, so the exporting process must be alive then; what is
 * opened stays valid after it has gone. Opening one allocation several times gives the same address, counted.
 */
#ifndef TSR_MEMORY_SHARE_H
#define TSR_MEMORY_SHARE_H

#include "alloc.h"

/* 64 bytes, the size of a CUipcMemHandle and of a CUmemPoolPtrExportData. */
struct tsr_share_name {
    uint64_t magic;
    uint32_t pid, descriptor, number, reserved; /* number: of the device in the machine */
    uint64_t offset, bytes;                     /* of the allocation in the file */
    uint64_t inode;                             /* of the file: tells a reused pid or descriptor */
    uint64_t unused[2];
};
_Static_assert(sizeof(struct tsr_share_name) == 64, "as large as the handles that carry it");

/* The allocation that holds the address. Errors: INVALID_VALUE when it is not ordinary or pool memory. */
CUresult tsr_share_make(uint64_t address, struct tsr_share_name *out);
/*
 * pool: the imported pool for which it is opened, in any process; NULL for the legacy calls, which refuse the process that made the name
 * (INVALID_CONTEXT). Errors: INVALID_VALUE, MAP_FAILED when the other process cannot be reached.
 */
CUresult tsr_emulated_share_open(struct tsr_context *context, const struct tsr_share_name *name, void *pool, uint64_t *address);
/* The caller has waited for work. Errors: INVALID_VALUE. */
CUresult tsr_share_close(uint64_t address);

#endif
