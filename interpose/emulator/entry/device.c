/* Devices: count, names, identities, attributes. */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/log.h"

#include "attribute.h"

static const struct tsr_device_desc *desc_of(CUdevice device)
{
    return &tsr_machine_instance()->devices[device];
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    *count = (int)tsr_machine_instance()->device_count;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(ordinal));
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(name && len > 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    tsr_format(name, (size_t)len, "%s", desc_of(dev)->name);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(uuid, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    memcpy(uuid->bytes, desc_of(dev)->uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    *bytes = desc_of(dev)->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t whole;
    TSR_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(cuDeviceTotalMem_v2(&whole, dev));
    *bytes = whole > UINT32_MAX ? UINT32_MAX : (unsigned)whole;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pi, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    if (tsr_device_attribute(desc_of(dev), (int)attrib, pi))
        return CUDA_SUCCESS;
    tsr_info("device attribute %d is not known", (int)attrib);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(major && minor, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    *major = (int)desc_of(dev)->compute_major;
    *minor = (int)desc_of(dev)->compute_minor;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(prop, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    *prop = (CUdevprop){
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .sharedMemPerBlock = (int)desc_of(dev)->shared_per_block_bytes,
        .totalConstantMemory = 65536,
        .SIMDWidth = 32,
        .memPitch = 2147483647,
        .regsPerBlock = 65536,
        .clockRate = (int)desc_of(dev)->clock_khz,
        .textureAlign = 512,
    };
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pciBusId && len > 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    const struct tsr_device_desc *desc = desc_of(dev);
    tsr_format(pciBusId, (size_t)len, "%04X:%02X:%02X.0", desc->pci_domain, desc->pci_bus, desc->pci_device);
    return CUDA_SUCCESS;
}

/* Accepts domain:bus:device.function, domain:bus:device and bus:device, in hexadecimal. */
CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned long part[3] = {0};
    int parts = 0;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(dev && pciBusId, CUDA_ERROR_INVALID_VALUE);
    for (const char *at = pciBusId; parts < 3; at++) {
        char *end;
        part[parts++] = strtoul(at, &end, 16);
        TSR_REQUIRE(end != at, CUDA_ERROR_INVALID_VALUE);
        at = end;
        if (*at != ':')
            break;
    }
    TSR_REQUIRE(parts >= 2, CUDA_ERROR_INVALID_VALUE);
    unsigned long domain = parts == 3 ? part[0] : 0, bus = part[parts - 2], device = part[parts - 1];
    for (uint32_t i = 0; i < tsr_machine_instance()->device_count; i++) {
        const struct tsr_device_desc *desc = desc_of((CUdevice)i);
        if (desc->pci_domain == domain && desc->pci_bus == bus && desc->pci_device == device) {
            *dev = (CUdevice)i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pi && (int)type >= 0 && type < CU_EXEC_AFFINITY_TYPE_MAX, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    *pi = 0;
    return CUDA_SUCCESS;
}
