/* See ipc.h. */
#include "memory/ipc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os.h"
#include "base/socket.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/copies.h"
#include "memory/migrate.h"
#include "driver/real.h"

#define MAGIC 0x315f4350495f5254ull
#define TIMEOUT_MS 5000
#define REQUEST_TIMEOUT_MS 1000 /* a peer that connects and says nothing holds up the others for so long */

static int listener = -1;                             /* memory lock; -1: no thread yet */
static struct tsr_os_file place = {.descriptor = -1}; /* memory lock; through which the listener is reached */
static uint64_t secret;                               /* set before the listener */

static bool readable(int descriptor, int timeout_ms)
{
    struct pollfd wait = {.fd = descriptor, .events = POLLIN};
    int ready;
    do
        ready = poll(&wait, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static void answer(int peer)
{
    struct tsr_ipc_name name;
    struct tsr_ipc_memory memory = {.result = CUDA_ERROR_INVALID_VALUE};
    int descriptor = -1;
    if (!readable(peer, REQUEST_TIMEOUT_MS) || recv(peer, &name, sizeof name, MSG_DONTWAIT) != (ssize_t)sizeof name ||
        name.magic != MAGIC || name.secret != secret)
        return;
    tsr_memory_lock();
    const struct tsr_allocation *allocation = tsr_allocation_find(name.address);
    if (allocation && allocation->id == name.id) {
        memory.result = (int32_t)tsr_real.cuMemExportToShareableHandle(&descriptor, tsr_copies_fixed_memory(allocation->extent),
                                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        memory.bytes = allocation->extent->bytes;
        memory.offset = allocation->address - allocation->extent->address;
    }
    tsr_memory_unlock();
    tsr_socket_send(peer, &memory, sizeof memory, descriptor, MSG_DONTWAIT);
    if (descriptor >= 0)
        close(descriptor);
}

static void *serve(void *argument)
{
    int at = (int)(intptr_t)argument;
    for (;;) {
        int peer = tsr_socket_accept(at);
        if (peer < 0 && errno != EINTR && errno != ECONNABORTED && errno != EMFILE && errno != ENFILE && errno != EPERM)
            return NULL;
        if (peer < 0) {
            poll(NULL, 0, 10);
            continue;
        }
        answer(peer);
        close(peer);
    }
}

static bool listen_locked(void)
{
    pthread_t thread;
    int reached;
    if (listener >= 0)
        return true;
    if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return false;
    int at = tsr_socket_listen(64, &reached);
    if (at < 0)
        return false;
    if (tsr_os_thread_start(&thread, "tessera-ipc", serve, (void *)(intptr_t)at)) {
        pthread_detach(thread);
        listener = at;
        place = tsr_os_file_keep(reached);
        return true;
    }
    close(at);
    close(reached);
    return false;
}

bool tsr_ipc_is_ours(const CUipcMemHandle *handle, struct tsr_ipc_name *out)
{
    memcpy(out, handle, sizeof *out);
    return out->magic == MAGIC;
}

CUresult tsr_ipc_offer(CUdeviceptr address, struct tsr_ipc_name *out)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    tsr_memory_lock();
    const struct tsr_allocation *allocation = tsr_allocation_find(address);
    if (allocation && !(allocation->heap && allocation->heap->pool)) {
        bool listens = listen_locked();
        result = tsr_migrate_fix_locked(allocation->extent);
        *out = (struct tsr_ipc_name){.magic = MAGIC,
                                     .secret = secret,
                                     .pid = (uint32_t)getpid(),
                                     .place = (uint32_t)place.descriptor,
                                     .address = allocation->address,
                                     .id = allocation->id,
                                     .bytes = allocation->bytes};
        result = listens ? result : CUDA_ERROR_OPERATING_SYSTEM;
    }
    tsr_memory_unlock();
    return result;
}

static bool receive(int from, struct tsr_ipc_memory *memory, int *descriptor)
{
    return readable(from, TIMEOUT_MS) &&
           tsr_socket_receive(from, memory, sizeof *memory, descriptor, 0) == (ssize_t)sizeof *memory;
}

static bool lies_inside(const struct tsr_ipc_name *name, const struct tsr_ipc_memory *memory)
{
    return memory->offset <= memory->bytes && name->bytes <= memory->bytes - memory->offset;
}

CUresult tsr_ipc_ask(const struct tsr_ipc_name *name, struct tsr_ipc_memory *out, int *descriptor)
{
    char path[64];
    tsr_format(path, sizeof path, "/proc/%u/fd/%u", name->pid, name->place);
    int to = tsr_socket_connect(path, 0);
    *descriptor = -1;
    if (to < 0) /* the process id has been reused: that process did not make the handle */
        return errno == ECONNREFUSED || errno == ENOENT || errno == EPERM || errno == EACCES ? CUDA_ERROR_INVALID_VALUE
                                                                                             : CUDA_ERROR_OPERATING_SYSTEM;
    bool answered = tsr_socket_send(to, name, sizeof *name, -1, 0) == (ssize_t)sizeof *name && receive(to, out, descriptor);
    close(to);
    if (!answered)
        return CUDA_ERROR_INVALID_VALUE;
    if (out->result == CUDA_SUCCESS && (*descriptor < 0 || !lies_inside(name, out)))
        return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)out->result;
}

void tsr_ipc_forget(void)
{
    if (listener >= 0)
        close(listener);
    listener = -1;
    tsr_os_file_close(&place);
}
