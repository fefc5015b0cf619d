/* See physical.h. */
#include "physical.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

#include "../context/context.h"
#include "../context/handles.h"
#include "../machine/map.h"
#include "../space/space.h"
#include "heap.h"

#define LABEL_MAGIC 0x59485053525354ull /* a number no other file ends with by chance */
#define LABEL_BYTES 4096
#define HOST_NUMBER UINT32_MAX

struct label {
    uint64_t magic;
    uint32_t version, number; /* of the device in the machine; HOST_NUMBER: host memory */
    uint64_t bytes;
    uint32_t handle_types, reserved;
    uint8_t device_uuid[16]; /* the machine's: memory of another machine is refused */
};

struct tsr_emulated_physical {
    uint64_t references;        /* atomic: handle, mappings, callers */
    uint32_t device;            /* constant */
    unsigned handle_types;      /* constant */
    uint64_t bytes;             /* constant */
    int descriptor;             /* constant */
    bool imported;              /* constant */
    void *handle;               /* lock; NULL while there are no handle references */
    uint64_t handle_references; /* lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* handles of all objects */

void tsr_physical_ref(struct tsr_emulated_physical *physical)
{
    __atomic_add_fetch(&physical->references, 1, __ATOMIC_RELAXED);
}

void tsr_physical_unref(struct tsr_emulated_physical *physical)
{
    if (__atomic_sub_fetch(&physical->references, 1, __ATOMIC_ACQ_REL))
        return;
    close(physical->descriptor);
    if (!physical->imported && physical->device != TSR_LOCATION_HOST)
        tsr_device_memory_give(physical->device, physical->bytes);
    free(physical);
}

CUresult tsr_physical_retain(struct tsr_emulated_physical *physical, CUmemGenericAllocationHandle *handle)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!physical->handle_references) {
        physical->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_PHYSICAL, physical, NULL);
        if (physical->handle)
            tsr_physical_ref(physical);
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        physical->handle_references++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical->handle;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_physical_release(CUmemGenericAllocationHandle handle)
{
    void *value = (void *)(uintptr_t)handle;
    pthread_mutex_lock(&lock);
    struct tsr_emulated_physical *physical = tsr_handle_find(tsr_handle_table(), TSR_KIND_PHYSICAL, value);
    bool last = physical && --physical->handle_references == 0;
    if (last) {
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_PHYSICAL, value);
        physical->handle = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (last)
        tsr_physical_unref(physical);
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct tsr_emulated_physical *tsr_physical_find(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&lock);
    struct tsr_emulated_physical *physical = tsr_handle_find(tsr_handle_table(), TSR_KIND_PHYSICAL, (void *)(uintptr_t)handle);
    if (physical)
        tsr_physical_ref(physical);
    pthread_mutex_unlock(&lock);
    return physical;
}

/* -1: a device that this process does not see. */
static int place_of(const struct label *label)
{
    return label->number == HOST_NUMBER ? (int)TSR_LOCATION_HOST : tsr_machine_device(label->number);
}

/* Takes the descriptor over, on error too. The new object has one handle reference. */
static CUresult object_make(const struct label *label, int descriptor, bool imported, struct tsr_emulated_physical **out)
{
    CUmemGenericAllocationHandle handle;
    struct tsr_emulated_physical *physical = calloc(1, sizeof *physical);
    if (!physical) {
        close(descriptor);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *physical = (struct tsr_emulated_physical){
        .references = 1,
        .device = (uint32_t)place_of(label),
        .handle_types = label->handle_types,
        .bytes = label->bytes,
        .descriptor = descriptor,
        .imported = imported,
    };
    CUresult result = tsr_physical_retain(physical, &handle);
    if (result == CUDA_SUCCESS)
        *out = physical;
    tsr_physical_unref(physical); /* the handle holds it now */
    return result;
}

CUresult tsr_physical_create(uint32_t device, uint64_t bytes, unsigned handle_types, struct tsr_emulated_physical **out)
{
    bool host = device == TSR_LOCATION_HOST;
    if (bytes > 1ull << 46 || (!host && !tsr_device_memory_take(device, bytes)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct label label = {LABEL_MAGIC, 1, host ? HOST_NUMBER : tsr_machine_number(device), bytes, handle_types, 0, {0}};
    if (!host)
        memcpy(label.device_uuid, tsr_machine_instance()->devices[device].uuid, sizeof label.device_uuid);
    int descriptor = tsr_os_memfd("tessera-physical", bytes + LABEL_BYTES);
    if (descriptor < 0 || pwrite(descriptor, &label, sizeof label, (off_t)bytes) != (ssize_t)sizeof label ||
        !tsr_os_seal(descriptor, F_SEAL_SHRINK | F_SEAL_GROW)) {
        if (descriptor >= 0)
            close(descriptor);
        if (!host)
            tsr_device_memory_give(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return object_make(&label, descriptor, false, out);
}

CUresult tsr_physical_import(int descriptor, struct tsr_emulated_physical **out)
{
    struct stat status;
    struct label label;
    const struct tsr_machine *machine = tsr_machine_instance();
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= LABEL_BYTES ||
        !tsr_os_is_sealed(descriptor, F_SEAL_SHRINK, 0))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = (uint64_t)status.st_size - LABEL_BYTES;
    if (pread(descriptor, &label, sizeof label, (off_t)bytes) != (ssize_t)sizeof label || label.magic != LABEL_MAGIC ||
        label.version != 1 || label.bytes != bytes || place_of(&label) < 0 ||
        (label.number != HOST_NUMBER &&
         memcmp(label.device_uuid, machine->devices[place_of(&label)].uuid, sizeof label.device_uuid) != 0))
        return CUDA_ERROR_INVALID_VALUE;
    int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    return object_make(&label, own, true, out);
}

int tsr_physical_export(const struct tsr_emulated_physical *physical)
{
    return fcntl(physical->descriptor, F_DUPFD_CLOEXEC, 3);
}

CUmemGenericAllocationHandle tsr_physical_handle(const struct tsr_emulated_physical *physical)
{
    return (CUmemGenericAllocationHandle)(uintptr_t)physical->handle;
}

uint32_t tsr_physical_device(const struct tsr_emulated_physical *physical)
{
    return physical->device;
}

uint64_t tsr_physical_bytes(const struct tsr_emulated_physical *physical)
{
    return physical->bytes;
}

unsigned tsr_physical_handle_types(const struct tsr_emulated_physical *physical)
{
    return physical->handle_types;
}

int tsr_physical_descriptor(const struct tsr_emulated_physical *physical)
{
    return physical->descriptor;
}
