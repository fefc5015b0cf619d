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
#include "memory/migrate.h"
#include "driver/real.h"

#define MAGIC 0x315f4350495f5254ull
#define NAME_BYTES 64 /* of a socket */
#define TIMEOUT_MS 5000
#define REQUEST_TIMEOUT_MS 1000 /* a peer that connects and says nothing holds up the others for so long */

static int listener = -1; /* memory lock; -1: no thread yet */
static uint64_t secret;   /* memory lock */

static const char *name_socket(char name[NAME_BYTES], uint32_t pid, uint64_t of)
{
    tsr_format(name, NAME_BYTES, "tessera-ipc-%u-%llx", pid, (unsigned long long)of);
    return name;
}

static bool same_user(int peer)
{
    struct ucred credentials;
    socklen_t bytes = sizeof credentials;
    return getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 && credentials.uid == geteuid();
}

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
    if (!same_user(peer) || !readable(peer, REQUEST_TIMEOUT_MS) ||
        recv(peer, &name, sizeof name, MSG_DONTWAIT) != (ssize_t)sizeof name || name.magic != MAGIC)
        return;
    tsr_memory_lock();
    const struct tsr_allocation *allocation = tsr_allocation_find(name.address);
    if (allocation && allocation->id == name.id) {
        memory.result = (int32_t)tsr_real.cuMemExportToShareableHandle(&descriptor, allocation->extent->memory,
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
        int peer = accept4(at, NULL, NULL, SOCK_CLOEXEC);
        if (peer < 0 && errno != EINTR && errno != ECONNABORTED && errno != EMFILE && errno != ENFILE)
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
    char name[NAME_BYTES];
    pthread_t thread;
    if (listener >= 0)
        return true;
    if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return false;
    int at = tsr_socket_listen(name_socket(name, (uint32_t)getpid(), secret), 0, 64);
    if (at >= 0 && tsr_os_thread_start(&thread, "tessera-ipc", serve, (void *)(intptr_t)at)) {
        pthread_detach(thread);
        listener = at;
        return true;
    }
    if (at >= 0)
        close(at);
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
        tsr_migrate_fix_locked(allocation->extent);
        *out = (struct tsr_ipc_name){.magic = MAGIC,
                                     .secret = secret,
                                     .pid = (uint32_t)getpid(),
                                     .address = allocation->address,
                                     .id = allocation->id,
                                     .bytes = allocation->bytes};
        result = listens ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    }
    tsr_memory_unlock();
    return result;
}

static bool receive(int from, struct tsr_ipc_memory *memory, int *descriptor)
{
    return readable(from, TIMEOUT_MS) &&
           tsr_socket_receive(from, memory, sizeof *memory, descriptor, 0) == (ssize_t)sizeof *memory;
}

CUresult tsr_ipc_ask(const struct tsr_ipc_name *name, struct tsr_ipc_memory *out, int *descriptor)
{
    char socket_name[NAME_BYTES];
    int to = tsr_socket_connect(name_socket(socket_name, name->pid, name->secret), 0);
    *descriptor = -1;
    if (to < 0)
        return errno == ECONNREFUSED ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OPERATING_SYSTEM;
    bool answered = same_user(to) && tsr_socket_send(to, name, sizeof *name, -1, 0) == (ssize_t)sizeof *name &&
                    receive(to, out, descriptor);
    close(to);
    if (!answered)
        return CUDA_ERROR_INVALID_VALUE;
    if (out->result == CUDA_SUCCESS && *descriptor < 0)
        return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)out->result;
}

void tsr_ipc_forget(void)
{
    if (listener >= 0)
        close(listener);
    listener = -1;
}
