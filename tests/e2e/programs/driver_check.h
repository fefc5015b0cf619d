// What the driver-API programs share: calls that must succeed, comparisons, the verdict, the kernels' images.
//
// The counterpart of check.h in C, without the runtime.
#ifndef DRIVER_CHECK_H
#define DRIVER_CHECK_H

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

static int comparisons, failures;

#define CU(call)                                                                                                       \
    do {                                                                                                               \
        CUresult status_ = (call);                                                                                     \
        if (status_ != CUDA_SUCCESS) {                                                                                 \
            const char *name_ = "?";                                                                                   \
            cuGetErrorName(status_, &name_);                                                                           \
            fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call, name_, status_);                        \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        comparisons++;                                                                                                 \
        if (!(condition)) {                                                                                            \
            failures++;                                                                                                \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);                                   \
        }                                                                                                              \
    } while (0)

#define EXPECT_STATUS(call, wanted)                                                                                    \
    do {                                                                                                               \
        CUresult got_ = (call);                                                                                        \
        comparisons++;                                                                                                 \
        if (got_ != (wanted)) {                                                                                        \
            failures++;                                                                                                \
            fprintf(stderr, "%s:%d: %s gave %d, expected %s\n", __FILE__, __LINE__, #call, got_, #wanted);             \
        }                                                                                                              \
    } while (0)

/* The file that the build put beside the executable, with a terminating NUL; the caller frees it. */
static inline char *read_beside(const char *name, size_t *size)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length < 0)
        exit(2);
    path[length] = 0;
    char full[8192];
    snprintf(full, sizeof(full), "%s/%s", dirname(path), name);
    FILE *file = fopen(full, "rb");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", full);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = malloc((size_t)bytes + 1);
    if (!text || fread(text, 1, (size_t)bytes, file) != (size_t)bytes)
        exit(2);
    text[bytes] = 0;
    fclose(file);
    if (size)
        *size = (size_t)bytes;
    return text;
}

static inline CUfunction get_function(CUmodule module, const char *name)
{
    CUfunction function;
    CU(cuModuleGetFunction(&function, module, name));
    return function;
}

/* Device 0 with its primary context current, and the shared kernels loaded from the fatbin. */
static inline CUmodule start(CUdevice *device)
{
    CUcontext context;
    CUmodule module;
    CU(cuInit(0));
    CU(cuDeviceGet(device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, *device));
    CU(cuCtxSetCurrent(context));
    char *image = read_beside("driver_kernels.fatbin", NULL);
    CU(cuModuleLoadData(&module, image));
    free(image);
    return module;
}

static inline int finish(void)
{
    if (failures == 0 && comparisons > 0) {
        printf("PASS (%d comparisons)\n", comparisons);
        return 0;
    }
    printf("FAIL (%d of %d comparisons)\n", failures, comparisons);
    return 1;
}

#endif
