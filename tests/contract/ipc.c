/* Memory and events shared with another process through handles. */
#include "contract.h"

#include <unistd.h>

GROUP(ipc, use_primary)

static void to_hex(char *text, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", ((const unsigned char *)bytes)[i]);
}

static void from_hex(void *bytes, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned value = 0;
        sscanf(text + 2 * i, "%2x", &value);
        ((unsigned char *)bytes)[i] = (unsigned char)value;
    }
}

ROLE(ipc_memory)
{
    CUipcMemHandle handle;
    CUcontext context;
    CUdeviceptr address = 0;
    uint32_t word = 0;
    if (count < 1 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    from_hex(&handle, words[0], sizeof(handle));
    role_say("open", cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    role_say("read", cuMemcpyDtoH(&word, address + 400, 4));
    role_say("word", word);
    role_say("write", cuMemsetD32(address, word * 2, 100));
    role_say("sync", cuCtxSynchronize());
    role_say("free", cuMemFree(address));
    role_say("close", cuIpcCloseMemHandle(address));
    role_say("again", cuIpcCloseMemHandle(address));
    return 0;
}

TEST(memory_in_another_process)
{
    CUipcMemHandle handle;
    char text[2 * sizeof(handle) + 1];
    CUdeviceptr memory = device_words(1024, 21);
    NEED_OK(cuIpcGetMemHandle(&handle, memory));
    OK(cuCtxSynchronize());
    to_hex(text, &handle, sizeof(handle));
    struct role_end end = role_run("ipc_memory", text, NULL);
    EQ(end.code, 0);
    EQ(role_heard(&end, "open"), 0);
    EQ(role_heard(&end, "word"), 21);
    EQ(role_heard(&end, "sync"), 0);
    EQ(role_heard(&end, "free"), CUDA_ERROR_INVALID_VALUE);
    EQ(role_heard(&end, "close"), 0);
    EQ(role_heard(&end, "again"), CUDA_ERROR_INVALID_VALUE);
    TRUE(device_holds(memory, 100, 42));
    TRUE(device_holds(memory + 400, 924, 21));
    OK(cuMemFree(memory));
}

TEST(memory_in_the_same_process_is_refused)
{
    CUipcMemHandle handle;
    CUdeviceptr memory = device_words(16, 1), again = 0;
    NEED_OK(cuIpcGetMemHandle(&handle, memory));
    EXPECT_SURE(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemFree(memory));
}

TEST(memory_arguments_are_checked)
{
    CUipcMemHandle handle;
    CUdeviceptr memory = device_words(16, 1), again = 0;
    int local = 0;
    EXPECT_SURE(cuIpcGetMemHandle(NULL, memory), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)&local), CUDA_ERROR_INVALID_VALUE);
    memset(&handle, 0, sizeof(handle));
    EXPECT_SURE(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(memory));
}

ROLE(ipc_event)
{
    CUipcEventHandle handle;
    CUcontext context;
    CUevent event = NULL;
    if (count < 1 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    from_hex(&handle, words[0], sizeof(handle));
    role_say("open", cuIpcOpenEventHandle(&event, handle));
    role_say("query", cuEventQuery(event));
    role_say("wait", cuStreamWaitEvent(NULL, event, 0));
    role_say("sync", cuStreamSynchronize(NULL));
    role_say("done", cuEventQuery(event));
    role_say("destroy", cuEventDestroy(event));
    return 0;
}

TEST(event_in_another_process)
{
    CUipcEventHandle handle;
    char text[2 * sizeof(handle) + 1];
    CUevent event = NULL;
    NEED_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    NEED_OK(cuIpcGetEventHandle(&handle, event));
    OK(cuEventRecord(event, NULL));
    OK(cuEventSynchronize(event));
    to_hex(text, &handle, sizeof(handle));
    struct role_end end = role_run("ipc_event", text, NULL);
    EQ(end.code, 0);
    EQ(role_heard(&end, "open"), 0);
    EQ(role_heard(&end, "query"), 0);
    EQ(role_heard(&end, "wait"), 0);
    EQ(role_heard(&end, "sync"), 0);
    EQ(role_heard(&end, "done"), 0);
    EQ(role_heard(&end, "destroy"), 0);
    OK(cuEventDestroy(event));
}

TEST(event_must_be_made_for_it)
{
    CUipcEventHandle handle;
    CUevent event = NULL;
    EXPECT_SURE(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    NEED_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    EXPECT_SURE(cuIpcGetEventHandle(&handle, event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(event));
}
