/* See attributes.h. */
#include "launch/attributes.h"

#include "carry/record.h"
#include "launch/launch.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "object/session.h"

enum fate { GOES, IS_LEFT_OUT, KEEPS_HOME };

static enum fate fate_of(CUlaunchAttributeID id)
{
    if (tsr_record_attribute_goes(id))
        return GOES;
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        return IS_LEFT_OUT;
    default:
        return KEEPS_HOME;
    }
}

static const CUlaunchAttributeValue *find(const CUlaunchAttribute *attributes, uint32_t count, CUlaunchAttributeID id)
{
    for (uint32_t i = 0; i < count; i++)
        if (attributes[i].id == id)
            return &attributes[i].value;
    return NULL;
}

/* The number of SMs that both GPUs have. */
static uint64_t sms(uint32_t device)
{
    const struct tsr_policy *policy = tsr_session()->policy;
    int home = 0, there = 0;
    tsr_real.cuDeviceGetAttribute(&home, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, tsr_session()->home);
    tsr_real.cuDeviceGetAttribute(&there, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, tsr_gpu_device(device));
    for (uint32_t i = 0; i < policy->executor_count; i++)
        if (policy->executors[i].device == device && policy->executors[i].sm_limit)
            there = (int)policy->executors[i].sm_limit;
    return (uint64_t)(home < there ? home : there);
}

static bool fits_at_once(const struct tsr_launch *launch, uint32_t device)
{
    int blocks = 0;
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    return tsr_real.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, launch->function, (int)threads,
                                                                launch->shared_bytes) == CUDA_SUCCESS &&
           (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] <= (uint64_t)blocks * sms(device);
}

static bool has_clusters(CUdevice device)
{
    int has = 0;
    return tsr_real.cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device) == CUDA_SUCCESS && has;
}

bool tsr_attribute_is_left_out(const CUlaunchAttribute *attribute, CUdevice device)
{
    return tsr_record_is_cluster_of_one(attribute) && !has_clusters(device);
}

static bool cluster_is_valid(const struct tsr_launch *launch, const CUlaunchAttributeValue *value,
                             CUlaunchAttribute *attributes, uint32_t count)
{
    CUlaunchConfig config = {.gridDimX = launch->grid[0],
                             .gridDimY = launch->grid[1],
                             .gridDimZ = launch->grid[2],
                             .blockDimX = launch->block[0],
                             .blockDimY = launch->block[1],
                             .blockDimZ = launch->block[2],
                             .sharedMemBytes = launch->shared_bytes,
                             .attrs = attributes,
                             .numAttrs = count};
    int clusters = 0;
    return value->clusterDim.x && value->clusterDim.y && value->clusterDim.z && launch->grid[0] % value->clusterDim.x == 0 &&
           launch->grid[1] % value->clusterDim.y == 0 && launch->grid[2] % value->clusterDim.z == 0 &&
           tsr_real.cuOccupancyMaxActiveClusters(&clusters, launch->function, &config) == CUDA_SUCCESS && clusters > 0;
}

enum tsr_reason tsr_attributes_translate(const struct tsr_launch *launch, uint32_t device, CUlaunchAttribute *out,
                                         uint32_t *count)
{
    uint32_t used = 0;
    *count = 0;
    if (launch->attribute_count >= TSR_MOST_ATTRIBUTES)
        return TSR_REASON_ATTRIBUTE;
    for (uint32_t i = 0; i < launch->attribute_count; i++) {
        enum fate fate = fate_of(launch->attributes[i].id);
        if (fate == KEEPS_HOME)
            return TSR_REASON_ATTRIBUTE;
        if (fate == GOES && !tsr_attribute_is_left_out(&launch->attributes[i], tsr_session()->home) &&
            !tsr_attribute_is_left_out(&launch->attributes[i], tsr_gpu_device(device)))
            out[used++] = launch->attributes[i];
    }
    if (launch->cooperative)
        out[used++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    const CUlaunchAttributeValue *cooperative = find(out, used, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    const CUlaunchAttributeValue *cluster = find(out, used, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    if (cluster && !has_clusters(tsr_gpu_device(device)))
        return TSR_REASON_ATTRIBUTE;
    if ((cooperative && cooperative->cooperative && !fits_at_once(launch, device)) ||
        (cluster && !cluster_is_valid(launch, cluster, out, used)))
        return TSR_REASON_SHAPE;
    *count = used;
    return TSR_REASON_NONE;
}
