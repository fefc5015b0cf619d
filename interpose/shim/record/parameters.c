/* See parameters.h. */
#include "shim/record/parameters.h"

#include <stdlib.h>
#include <string.h>

#include "shim/entry/real.h"
#include "shim/launch/launch.h"
#include "shim/record/definitions.h"

static CUresult ask(const void *handle, bool is_kernel, size_t index, size_t *offset, size_t *bytes)
{
    return is_kernel ? tsr_real.cuKernelGetParamInfo((CUkernel)handle, index, offset, bytes)
                     : tsr_real.cuFuncGetParamInfo((CUfunction)handle, index, offset, bytes);
}

uint32_t tsr_parameters_read(struct tsr_parameters *parameters, const void *handle, bool is_kernel)
{
    size_t end = 0, offset, bytes;
    uint32_t count = 0;
    while (ask(handle, is_kernel, count, &offset, &bytes) == CUDA_SUCCESS) {
        end = offset + bytes > end ? offset + bytes : end;
        count++;
    }
    if (!end || end > TSR_PARAMETER_BYTES || !(parameters->all = calloc(count, sizeof *parameters->all)))
        return (uint32_t)end;
    for (uint32_t i = 0; i < count && ask(handle, is_kernel, i, &offset, &bytes) == CUDA_SUCCESS; i++)
        parameters->all[i] = (struct tsr_parameter){(uint16_t)offset, (uint16_t)bytes};
    parameters->count = count;
    parameters->bytes = (uint32_t)end;
    return (uint32_t)end;
}

static uint32_t gather_extra(void *const *extra, uint8_t *block)
{
    const void *buffer = NULL;
    const size_t *bytes = NULL;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = extra[1];
        else
            return 0;
    }
    if (!buffer || !bytes || *bytes > TSR_PARAMETER_BYTES)
        return 0;
    memcpy(block, buffer, *bytes);
    return (uint32_t)*bytes;
}

uint32_t tsr_parameters_gather(const struct tsr_launch *launch, uint8_t *block)
{
    const struct tsr_known_function *known = launch->known;
    if (!known || launch->opaque || !__atomic_load_n(&known->number, __ATOMIC_ACQUIRE))
        return 0;
    if (!launch->params)
        return launch->extra ? gather_extra(launch->extra, block) : 0;
    const struct tsr_parameters *parameters = &known->parameters;
    memset(block, 0, parameters->bytes);
    for (uint32_t i = 0; i < parameters->count; i++)
        memcpy(block + parameters->all[i].offset, launch->params[i], parameters->all[i].bytes);
    return parameters->bytes;
}
