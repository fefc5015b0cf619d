/*
 * How many blocks of a function fit on one SM: threads, blocks, registers and shared memory, with the granularity of allocation of
 * recent devices.
 */
#include "exec.h"
#include "tessera/machine.h"

#define REGISTERS_PER_WARP_STEP 256u
#define SHARED_STEP_BYTES 128u

static uint32_t round_up(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}
static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t tsr_exec_resident_blocks(const struct tsr_device_desc *device, const struct tsr_function *function,
                                  uint32_t block_threads, uint32_t shared_dynamic_bytes)
{
    if (block_threads == 0)
        return 0;
    uint32_t warps = (block_threads + 31) / 32;
    uint32_t blocks = least(device->max_blocks_per_sm, device->max_threads_per_sm / (warps * 32));
    uint32_t registers = round_up(function->registers * 32, REGISTERS_PER_WARP_STEP) * warps;
    if (registers != 0)
        blocks = least(blocks, device->registers_per_sm / registers);
    uint32_t system_bytes = device->compute_major >= 8 ? 1024 : 0;
    uint64_t shared = round_up(function->shared_static_bytes, 16) + (uint64_t)shared_dynamic_bytes;
    if (shared > device->shared_per_sm_bytes)
        return 0;
    uint32_t shared_bytes = round_up((uint32_t)shared + system_bytes, SHARED_STEP_BYTES);
    return shared_bytes == 0 ? blocks : least(blocks, device->shared_per_sm_bytes / shared_bytes);
}
