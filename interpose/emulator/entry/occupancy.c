/* Occupancy: how many blocks of a function fit on one SM. */
#include "guard.h"

#include "../exec/exec.h"
#include "function_attribute.h"
#include "loaded.h"

struct subject {
    struct tsr_context *context;
    struct tsr_loaded_entry *entry;
    const struct tsr_device_desc *desc;
};

static CUresult find(const void *handle, struct subject *out)
{
    TSR_TRY(tsr_context_current(&out->context));
    TSR_REQUIRE(handle, CUDA_ERROR_INVALID_HANDLE);
    TSR_TRY(tsr_entry_resolve(out->context, handle, &out->entry));
    out->desc = tsr_context_desc(out->context);
    return CUDA_SUCCESS;
}

static uint32_t blocks_per_sm(const struct subject *subject, int threads, size_t dynamic_bytes)
{
    if (threads > tsr_function_max_threads(subject->entry->function, subject->desc))
        return 0;
    if (dynamic_bytes + subject->entry->function->shared_static_bytes > subject->desc->shared_per_block_optin_bytes)
        return 0;
    return tsr_exec_resident_blocks(subject->desc, subject->entry->function, (uint32_t)threads, (uint32_t)dynamic_bytes);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                                      size_t dynamicSMemSize, unsigned int flags)
{
    struct subject subject;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(numBlocks && blockSize > 0 && !(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE),
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(func, &subject));
    *numBlocks = (int)blocks_per_sm(&subject, blockSize, dynamicSMemSize);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                             size_t dynamicSMemSize)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

/* The block size with the most threads per SM; among equals the largest. */
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                           CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                           size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
    struct subject subject;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(minGridSize && blockSize && !(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE),
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(func, &subject));
    int limit = tsr_function_max_threads(subject.entry->function, subject.desc), best = 0;
    uint32_t best_threads = 0, best_blocks = 0;
    if (blockSizeLimit > 0 && blockSizeLimit < limit)
        limit = blockSizeLimit;
    for (int threads = (limit + 31) / 32 * 32; threads > 0; threads -= 32) {
        int tried = threads < limit ? threads : limit;
        size_t dynamic = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(tried) : dynamicSMemSize;
        uint32_t blocks = blocks_per_sm(&subject, tried, dynamic);
        if (blocks * (uint32_t)tried > best_threads) {
            best_threads = blocks * (uint32_t)tried;
            best_blocks = blocks;
            best = tried;
        }
    }
    *blockSize = best;
    *minGridSize = (int)(best_blocks * tsr_context_sm_count(subject.context));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                                  CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                  int blockSizeLimit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
                                                     blockSizeLimit, 0);
}

/* What is left of the SM's shared memory for each of numBlocks blocks, after static memory and the system's share of 1 KiB. */
CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
    struct subject subject;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(dynamicSmemSize && numBlocks > 0 && blockSize > 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(func, &subject));
    uint32_t fit = blocks_per_sm(&subject, blockSize, 0);
    TSR_REQUIRE((uint32_t)numBlocks <= fit, CUDA_ERROR_INVALID_VALUE);
    size_t share = subject.desc->shared_per_sm_bytes / (uint32_t)numBlocks / 128 * 128, reserved = 1024;
    size_t used = reserved + subject.entry->function->shared_static_bytes;
    size_t left = share > used ? share - used : 0;
    size_t limit = subject.desc->shared_per_block_optin_bytes - subject.entry->function->shared_static_bytes;
    *dynamicSmemSize = left < limit ? left : limit;
    return CUDA_SUCCESS;
}

static CUresult cluster_of(const struct subject *subject, const CUlaunchConfig *config, uint32_t *blocks)
{
    struct tsr_function_settings *settings = tsr_entry_settings(subject->entry);
    uint64_t product = 1;
    for (int i = 0; i < 3; i++) {
        int set = __atomic_load_n(&settings->cluster[i], __ATOMIC_RELAXED);
        product *= set > 0 ? (uint32_t)set : 1;
    }
    TSR_REQUIRE(!config->numAttrs || config->attrs, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const CUlaunchAttributeValue *value = &config->attrs[i].value;
            product = (uint64_t)value->clusterDim.x * value->clusterDim.y * value->clusterDim.z;
        }
    bool large = __atomic_load_n(&settings->non_portable_cluster, __ATOMIC_RELAXED) != 0;
    TSR_REQUIRE(product > 0 && product <= (large ? 16 : 8), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    *blocks = (uint32_t)product;
    return CUDA_SUCCESS;
}

#define GPC_SMS 16u /* a cluster stays within a group of this many SMs */

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
    struct subject subject;
    uint32_t cluster;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(numClusters && config, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(func, &subject));
    TSR_REQUIRE(subject.desc->compute_major >= 9, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(cluster_of(&subject, config, &cluster));
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    TSR_REQUIRE(threads && threads <= 1024, CUDA_ERROR_INVALID_VALUE);
    uint32_t fit = blocks_per_sm(&subject, (int)threads, config->sharedMemBytes);
    uint32_t sms = tsr_context_sm_count(subject.context), group = sms < GPC_SMS ? sms : GPC_SMS;
    *numClusters = (int)(fit * group / cluster * (sms / group) + fit * (sms % group) / cluster);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
    struct subject subject;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(clusterSize && config, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(func, &subject));
    TSR_REQUIRE(subject.desc->compute_major >= 9, CUDA_ERROR_INVALID_VALUE);
    bool large = __atomic_load_n(&tsr_entry_settings(subject.entry)->non_portable_cluster, __ATOMIC_RELAXED) != 0;
    *clusterSize = large ? 16 : 8;
    return CUDA_SUCCESS;
}
