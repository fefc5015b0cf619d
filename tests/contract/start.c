/* Before and around cuInit; names of errors. */
#include "contract.h"

GROUP(start, use_nothing)

TEST(version_is_known_before_init)
{
    int version = 0;
    OK(cuDriverGetVersion(&version));
    TRUE(version >= 12000);
    EXPECT_SURE(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(calls_before_init_are_refused)
{
    int count = -1;
    CUdevice device = -1;
    CUcontext context = NULL;
    CUdeviceptr memory = 0;
    CUstream stream = NULL;
    CUmodule module = NULL;
    CUevent event = NULL;
    char name[16];
    size_t bytes = 0;
    EXPECT_SURE(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuDeviceGetName(name, sizeof(name), 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuDeviceTotalMem(&bytes, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuCtxCreate(&context, NULL, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuCtxSetCurrent(NULL), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuMemAlloc(&memory, 16), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuMemGetInfo(&bytes, &bytes), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuStreamCreate(&stream, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuEventCreate(&event, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_SURE(cuModuleLoadData(&module, contract_ptx), CUDA_ERROR_NOT_INITIALIZED);
}

TEST(library_load_before_init_is_refused)
{
    CUlibrary library = NULL;
    EXPECT_SURE(cuLibraryLoadData(&library, contract_ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_NOT_INITIALIZED);
}

TEST(entry_points_are_found_before_init)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    OK(cuGetProcAddress("cuInit", &function, 2000, 0, &status));
    TRUE(function != NULL);
    EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
}

TEST(error_names_before_init)
{
    const char *name = NULL;
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
    TEXT(name, "CUDA_ERROR_OUT_OF_MEMORY");
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &name));
    TEXT(name, "out of memory");
}

TEST(unknown_error_has_no_name)
{
    const char *name = "before";
    EXPECT_SURE(cuGetErrorName((CUresult)54321, &name), CUDA_ERROR_INVALID_VALUE);
    TRUE(name == NULL);
    name = "before";
    EXPECT_SURE(cuGetErrorString((CUresult)54321, &name), CUDA_ERROR_INVALID_VALUE);
    TRUE(name == NULL);
}

TEST(errors_have_names_and_texts)
{
    static const struct {
        CUresult code;
        const char *name, *text;
    } known[] = {
        {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
        {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
        {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
        {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
        {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
        {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
        {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
        {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
        {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
         "no kernel image is available for execution on the device"},
        {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
        {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
        {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
        {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
        {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
        {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
        {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
        {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
        {CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
        {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
        {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
         "part or all of the requested memory range is already mapped"},
        {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
         "pointer does not correspond to a registered memory region"},
        {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
        {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
        {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
         "too many blocks in cooperative launch"},
        {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
        {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
        {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         "operation not permitted when stream is capturing"},
        {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
         "operation failed due to a previous error during capture"},
        {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
        {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const char *name = NULL, *text = NULL;
        OK(cuGetErrorName(known[i].code, &name));
        TEXT(name, known[i].name);
        OK(cuGetErrorString(known[i].code, &text));
        TEXT(text, known[i].text);
    }
}

TEST(every_error_has_both_or_neither)
{
    int known = 0, uneven = 0;
    for (int code = 0; code <= 1000; code++) {
        const char *name = NULL, *text = NULL;
        CUresult by_name = cuGetErrorName((CUresult)code, &name), by_text = cuGetErrorString((CUresult)code, &text);
        known += by_name == CUDA_SUCCESS;
        uneven += by_name != by_text || !name != !text || !name == (by_name == CUDA_SUCCESS);
    }
    TRUE(known >= 90);
    EQ(uneven, 0);
}

TEST(init_takes_no_flags)
{
    EXPECT_SURE(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

TEST(init_may_be_repeated)
{
    int count = 0;
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    TRUE(count >= 1);
}
