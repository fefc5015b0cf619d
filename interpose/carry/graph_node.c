/* See graph_node.h. */
#include "carry/graph_node.h"

void tsr_carry_kernel_node(const struct tsr_carry_function *of, const struct tsr_lane_record *record, const void *data,
                           struct tsr_carry_kernel_node *out)
{
    tsr_carry_describe(of, record, data, &out->parameters);
    out->params = (CUDA_KERNEL_NODE_PARAMS){.func = of->function,
                                            .gridDimX = record->grid[0],
                                            .gridDimY = record->grid[1],
                                            .gridDimZ = record->grid[2],
                                            .blockDimX = record->block[0],
                                            .blockDimY = record->block[1],
                                            .blockDimZ = record->block[2],
                                            .sharedMemBytes = record->shared_bytes,
                                            .kernelParams = out->parameters.values,
                                            .extra = out->parameters.extra};
}

static CUmemorytype type_of(uint64_t address)
{
    return tsr_host_covers(address) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

/* Page-locked memory has its host address on every GPU. */
CUDA_MEMCPY3D tsr_carry_copy_node(const void *data)
{
    const struct tsr_lane_copy *what = data;
    return (CUDA_MEMCPY3D){.srcMemoryType = type_of(what->from),
                           .srcHost = (const void *)(uintptr_t)what->from,
                           .srcDevice = what->from,
                           .srcPitch = what->from_pitch,
                           .dstMemoryType = type_of(what->to),
                           .dstHost = (void *)(uintptr_t)what->to,
                           .dstDevice = what->to,
                           .dstPitch = what->to_pitch,
                           .WidthInBytes = what->width,
                           .Height = what->height,
                           .Depth = 1};
}

CUDA_MEMSET_NODE_PARAMS tsr_carry_set_node(const void *data)
{
    const struct tsr_lane_set *what = data;
    return (CUDA_MEMSET_NODE_PARAMS){.dst = what->to,
                                     .pitch = what->pitch,
                                     .value = what->value,
                                     .elementSize = what->element,
                                     .width = what->width,
                                     .height = what->height};
}

uint32_t tsr_carry_node_attributes(const struct tsr_lane_record *record, const void *data, const CUlaunchAttribute **out)
{
    *out = (const void *)((const uint8_t *)data + ((record->value >> 32) + 7) / 8 * 8);
    return (uint32_t)record->value;
}
