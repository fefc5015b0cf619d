/* See parameters.h. */
#include "object/parameters.h"

#include <stdlib.h>
#include <string.h>

#include "driver/real.h"

static CUresult ask(const void *handle, bool is_kernel, size_t index, size_t *offset, size_t *bytes)
{
    return is_kernel ? tsr_real.cuKernelGetParamInfo((CUkernel)handle, index, offset, bytes)
                     : tsr_real.cuFuncGetParamInfo((CUfunction)handle, index, offset, bytes);
}

void tsr_parameters_read(struct tsr_parameters *parameters, const void *handle, bool is_kernel)
{
    struct tsr_parameters read = {0};
    size_t offset, bytes;
    CUresult result;
    while ((result = ask(handle, is_kernel, read.count, &offset, &bytes)) == CUDA_SUCCESS) {
        read.bytes = offset + bytes > read.bytes ? (uint32_t)(offset + bytes) : read.bytes;
        read.count++;
    }
    if (result != CUDA_ERROR_INVALID_VALUE) /* the driver's answer for the index after the last one */
        return;
    bool few = read.count && read.bytes <= TSR_PARAMETER_BYTES;
    if (few && !(read.all = calloc(read.count, sizeof *read.all)))
        return;
    for (uint32_t i = 0; few && i < read.count; i++) {
        if (ask(handle, is_kernel, i, &offset, &bytes) != CUDA_SUCCESS) {
            free(read.all);
            return;
        }
        read.all[i] = (struct tsr_parameter){(uint16_t)offset, (uint16_t)bytes};
    }
    parameters->count = read.count;
    parameters->bytes = read.bytes;
    parameters->all = read.all;
    __atomic_store_n(&parameters->known, true, __ATOMIC_RELEASE);
}

void tsr_parameters_fini(struct tsr_parameters *parameters)
{
    free(parameters->all);
}

/* False: there is something else in it. */
static bool find_buffer(void *const *extra, const void **buffer, const size_t **bytes)
{
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *bytes = extra[1];
        else
            return false;
    }
    return true;
}

/* Most are a pointer or a number: no call for those. */
static inline void put(uint8_t *to, const void *from, size_t bytes)
{
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, bytes);
}

static void gather_each(const struct tsr_parameters *parameters, void *const *params, uint8_t *block)
{
    const struct tsr_parameter *at = parameters->all,
                               *end = at + parameters->count; /* which writing the block may not change */
    uint32_t filled = 0;
    for (; at < end; at++, params++) {
        uint32_t offset = at->offset, bytes = at->bytes;
        if (__builtin_expect(offset > filled, 0))
            memset(block + filled, 0, offset - filled);
        put(block + offset, *params, bytes);
        filled = offset + bytes;
    }
}

bool tsr_parameters_gather(const struct tsr_parameters *parameters, void *const *params, void *const *extra, uint8_t *block,
                           uint32_t *bytes)
{
    const void *buffer = NULL;
    const size_t *buffer_bytes = NULL;
    if (!params && extra && !find_buffer(extra, &buffer, &buffer_bytes))
        return false;
    if (buffer && buffer_bytes) {
        if (*buffer_bytes > TSR_PARAMETER_BYTES)
            return false;
        *bytes = (uint32_t)*buffer_bytes;
        memcpy(block, buffer, *bytes);
        return true;
    }
    if (!__atomic_load_n(&parameters->known, __ATOMIC_ACQUIRE) || parameters->bytes > TSR_PARAMETER_BYTES ||
        (!params && parameters->count))
        return false;
    *bytes = parameters->bytes;
    gather_each(parameters, params, block);
    return true;
}
