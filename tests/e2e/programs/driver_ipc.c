/* Driver API: two processes share device memory, by legacy IPC handles and events and by VMM file descriptors. */
#include <sys/socket.h>
#include <sys/wait.h>

#include "driver_check.h"

enum { COUNT = 4096 };

static void send_bytes(int socket, const void *bytes, size_t size)
{
    if (write(socket, bytes, size) != (ssize_t)size)
        exit(2);
}

static void receive_bytes(int socket, void *bytes, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t count = read(socket, (char *)bytes + got, size - got);
        if (count <= 0)
            exit(2);
        got += (size_t)count;
    }
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_descriptor(int socket, int descriptor)
{
    char byte = 'd';
    union control control = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
    if (sendmsg(socket, &message, 0) != 1)
        exit(2);
}

static int receive_descriptor(int socket)
{
    char byte;
    int descriptor = -1;
    union control control;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    if (recvmsg(socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
        exit(2);
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return descriptor;
}

static void fill(CUmodule module, CUdeviceptr out, int value, int count)
{
    void *parameters[] = {&out, &value, &count};
    CU(cuLaunchKernel(get_function(module, "fill"), 4, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
}

static int holds(CUdeviceptr address, int value, int count)
{
    static int got[COUNT];
    int right = 1;
    CU(cuMemcpyDtoH(got, address, (size_t)count * sizeof(int)));
    for (int i = 0; i < count; i++)
        right &= got[i] == value + i;
    return right;
}

static CUmemAllocationProp shared_properties(CUdevice device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                 .location.id = device};
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size, CUdevice device)
{
    CUdeviceptr range;
    CUmemAccessDesc access = {
        .location.type = CU_MEM_LOCATION_TYPE_DEVICE, .location.id = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU(cuMemAddressReserve(&range, size, 0, 0, 0));
    CU(cuMemMap(range, size, 0, handle, 0));
    CU(cuMemSetAccess(range, size, &access, 1));
    return range;
}

static int importer(int socket)
{
    CUdevice device;
    CUmodule module = start(&device);
    CUipcMemHandle memory;
    CUipcEventHandle event_handle;
    CUdeviceptr opened;
    CUevent filled;
    receive_bytes(socket, &memory, sizeof(memory));
    receive_bytes(socket, &event_handle, sizeof(event_handle));
    CU(cuIpcOpenMemHandle(&opened, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CU(cuIpcOpenEventHandle(&filled, event_handle));
    CU(cuStreamWaitEvent(NULL, filled, 0));
    EXPECT(holds(opened, 11, COUNT));
    fill(module, opened + COUNT / 2 * sizeof(int), 77, COUNT / 2);
    CU(cuCtxSynchronize());
    CU(cuIpcCloseMemHandle(opened));

    size_t size;
    CUmemGenericAllocationHandle handle;
    int descriptor = receive_descriptor(socket);
    receive_bytes(socket, &size, sizeof(size));
    CU(cuMemImportFromShareableHandle(&handle, (void *)(size_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr mapped = map(handle, size, device);
    EXPECT(holds(mapped, 1000, COUNT));
    fill(module, mapped, 2000, COUNT / 4);
    CU(cuCtxSynchronize());
    send_bytes(socket, "x", 1);
    return failures;
}

static void exporter(int socket)
{
    CUdevice device;
    CUmodule module = start(&device);
    CUdeviceptr plain;
    CUipcMemHandle memory;
    CUipcEventHandle event_handle;
    CUevent filled;
    CU(cuMemAlloc(&plain, COUNT * sizeof(int)));
    CU(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    fill(module, plain, 11, COUNT);
    CU(cuEventRecord(filled, NULL));
    CU(cuIpcGetMemHandle(&memory, plain));
    CU(cuIpcGetEventHandle(&event_handle, filled));
    send_bytes(socket, &memory, sizeof(memory));
    send_bytes(socket, &event_handle, sizeof(event_handle));

    size_t size;
    CUmemAllocationProp properties = shared_properties(device);
    CUmemGenericAllocationHandle handle;
    int descriptor;
    CU(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    CU(cuMemCreate(&handle, size, &properties, 0));
    CUdeviceptr mapped = map(handle, size, device);
    fill(module, mapped, 1000, COUNT);
    CU(cuCtxSynchronize());
    CU(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_descriptor(socket, descriptor);
    send_bytes(socket, &size, sizeof(size));
    char byte;
    receive_bytes(socket, &byte, 1);
    EXPECT(holds(plain, 11, COUNT / 2));
    EXPECT(holds(plain + COUNT / 2 * sizeof(int), 77, COUNT / 2));
    EXPECT(holds(mapped, 2000, COUNT / 4));
    EXPECT(holds(mapped + COUNT / 4 * sizeof(int), 1000 + COUNT / 4, COUNT * 3 / 4));
}

int main(void)
{
    int sockets[2], status = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        close(sockets[0]);
        _exit(importer(sockets[1]));
    }
    close(sockets[1]);
    exporter(sockets[0]);
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return finish();
}
