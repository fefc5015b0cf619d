/* See carry.h. */
#include "carry/carry.h"

#include <string.h>

void tsr_carry_describe(const struct tsr_carry_function *of, const struct tsr_lane_record *record, const void *data,
                        struct tsr_carry_parameters *out)
{
    uint8_t *block = (uint8_t *)data;
    out->bytes = record->value ? record->value >> 32 : record->param_bytes;
    bool known = of->bytes == out->bytes;
    for (uint32_t i = 0; known && i < of->count; i++)
        out->listed[i] = block + of->offsets[i];
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &out->bytes, CU_LAUNCH_PARAM_END};
    memcpy(out->packed, extra, sizeof extra);
    out->values = known && out->bytes ? out->listed : NULL;
    out->extra = known ? NULL : out->packed;
}

static CUresult launch(const struct tsr_carry_driver *driver, const struct tsr_lane_record *record,
                       const struct tsr_carry_function *of, CUstream stream)
{
    char *block = (char *)(record + 1);
    uint32_t attributes = (uint32_t)record->value;
    struct tsr_carry_parameters parameters;
    tsr_carry_describe(of, record, block, &parameters);
    CUlaunchConfig config = {.gridDimX = record->grid[0],
                             .gridDimY = record->grid[1],
                             .gridDimZ = record->grid[2],
                             .blockDimX = record->block[0],
                             .blockDimY = record->block[1],
                             .blockDimZ = record->block[2],
                             .sharedMemBytes = record->shared_bytes,
                             .hStream = stream,
                             .attrs = (CUlaunchAttribute *)(block + (parameters.bytes + 7) / 8 * 8),
                             .numAttrs = attributes};
    if (attributes)
        return driver->launch_ex(&config, of->function, parameters.values, parameters.extra);
    return driver->launch(of->function, record->grid[0], record->grid[1], record->grid[2], record->block[0], record->block[1],
                          record->block[2], record->shared_bytes, stream, parameters.values, parameters.extra);
}

CUDA_MEMCPY2D tsr_carry_rows(const struct tsr_lane_copy *what)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = what->from,
                           .srcPitch = what->from_pitch,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = what->to,
                           .dstPitch = what->to_pitch,
                           .WidthInBytes = what->width,
                           .Height = what->height};
}

static CUresult copy(const struct tsr_carry_driver *driver, const struct tsr_lane_copy *what, CUstream stream)
{
    if (what->height == 1)
        return driver->copy(what->to, what->from, what->width, stream);
    const CUDA_MEMCPY2D rows = tsr_carry_rows(what);
    return driver->copy_rows(&rows, stream);
}

static CUresult set(const struct tsr_carry_driver *driver, const struct tsr_lane_set *what, CUstream stream)
{
    bool one = what->height == 1;
    unsigned char byte = (unsigned char)what->value;
    unsigned short half = (unsigned short)what->value;
    switch (what->element) {
    case 1:
        return one ? driver->set8(what->to, byte, what->width, stream)
                   : driver->set_rows8(what->to, what->pitch, byte, what->width, what->height, stream);
    case 2:
        return one ? driver->set16(what->to, half, what->width, stream)
                   : driver->set_rows16(what->to, what->pitch, half, what->width, what->height, stream);
    default:
        return one ? driver->set32(what->to, what->value, what->width, stream)
                   : driver->set_rows32(what->to, what->pitch, what->value, what->width, what->height, stream);
    }
}

CUresult tsr_carry_out(const struct tsr_carry_driver *driver, const struct tsr_lane_record *record,
                       const struct tsr_carry_function *function, CUstream stream)
{
    switch (record->kind) {
    case TSR_LANE_LAUNCH:
        return launch(driver, record, function, stream);
    case TSR_LANE_COPY:
        return copy(driver, (const struct tsr_lane_copy *)(record + 1), stream);
    case TSR_LANE_SET:
        return set(driver, (const struct tsr_lane_set *)(record + 1), stream);
    case TSR_LANE_WRITE:
        return driver->write(record->value, record + 1, record->param_bytes, stream);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
