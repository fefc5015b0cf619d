/*
 * Legacy IPC for memory of the arena: the driver cannot export it, so the shims of both processes do. A handle names the process to ask, by one of its descriptors,
 * which leads to a socket (base/socket.h), and the allocation; the answer is the memory's file descriptor. The process answers
 * from a thread that starts with its first handle; it serves only its own user, and only those who know the handle's secret.
 */
#ifndef TSR_MEMORY_IPC_H
#define TSR_MEMORY_IPC_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tsr_ipc_name { /* what is in a CUipcMemHandle */
    uint64_t magic;
    uint64_t secret; /* of the process: a handle cannot be guessed, nor meant for another process with this number */
    uint32_t pid;
    uint32_t place;      /* its descriptor that leads to the socket */
    CUdeviceptr address; /* of the allocation in its process */
    uint64_t id;         /* of the allocation: an address is used again */
    uint64_t bytes;      /* of the allocation */
};
_Static_assert(sizeof(struct tsr_ipc_name) <= sizeof(CUipcMemHandle), "fits");

struct tsr_ipc_memory { /* what the other process says */
    int32_t result;     /* CUresult */
    uint32_t reserved;
    uint64_t bytes;  /* of the physical memory */
    uint64_t offset; /* of the allocation in it */
};

bool tsr_ipc_is_ours(const CUipcMemHandle *handle, struct tsr_ipc_name *out);
/* The name of the arena allocation that holds the address. Errors: INVALID_VALUE: none does; OPERATING_SYSTEM. */
CUresult tsr_ipc_offer(CUdeviceptr address, struct tsr_ipc_name *out);
/* Asks the process. Takes at most some seconds. The caller closes the descriptor. Errors: INVALID_VALUE: it is gone, or the memory is. */
CUresult tsr_ipc_ask(const struct tsr_ipc_name *name, struct tsr_ipc_memory *out, int *descriptor);

/* cuIpcOpenMemHandle: `forward` is the driver's, for handles that are not ours. */
CUresult tsr_ipc_open(CUdeviceptr *address, const CUipcMemHandle *handle, unsigned flags,
                      CUresult (*forward)(CUdeviceptr *, CUipcMemHandle, unsigned));
/* cuIpcCloseMemHandle. */
CUresult tsr_ipc_close(CUdeviceptr dptr);

/* The allocation of another process that is open here (memory_ipc.c) and holds the address; false: none does. */
bool tsr_ipc_describe(CUdeviceptr address, CUdeviceptr *base, size_t *bytes);

void tsr_ipc_forget(void);

#endif
